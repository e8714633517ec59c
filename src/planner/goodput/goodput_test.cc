#include "planner/goodput/goodput.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/goodput/failures_check.h"
#include "planner/goodput/monte_carlo.h"
#include "planner/goodput/profile.h"

namespace opentrn::planner::goodput_tests {
namespace {

using testing::HasSubstr;

const arch::Tables& tables() { return arch::default_tables(); }

Reliability job_of(double mttf_h, double restart_s, double write_s, double interval_s) {
  return {.causes = {{"host", 1 / mttf_h, 1, restart_s}}, .interval_s = interval_s, .write_s = write_s};
}

double sum_of(const Goodput& share) {
  return share.useful + share.checkpoints + share.lost + share.restarts + share.waiting + share.slow;
}

// J. T. Daly, A higher order estimate of the optimum checkpoint interval (2006), equation 20: time for one
// unit of work M exp(R/M) (exp((t + d)/M) - 1) / t.
TEST(Goodput, IsDalysWithOneCause) {
  for (const double mttf_h : {0.2, 2.0, 50.0})
    for (const double restart_s : {0.0, 60.0, 1800.0}) {
      const double m = mttf_h * 3600, t = 600, d = 20;
      const double daly = t / (m * std::exp(restart_s / m) * (std::exp((t + d) / m) - 1));
      const Goodput share = goodput_of(job_of(mttf_h, restart_s, d, t));
      EXPECT_NEAR(share.useful, daly, 1e-12) << mttf_h << " h, " << restart_s << " s";
      EXPECT_NEAR(sum_of(share), 1, 1e-12);
    }
}

// The same paper, equation 37: sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / 18M) - d.
TEST(Goodput, BestIntervalIsDalys) {
  for (const double d : {2.0, 30.0, 120.0}) {
    const double m = 3 * 3600;
    const double daly = std::sqrt(2 * d * m) * (1 + std::sqrt(d / (2 * m)) / 3 + d / (18 * m)) - d;
    EXPECT_NEAR(best_interval_s(job_of(3, 600, d, 1)) / daly, 1, 0.01) << d;
  }
}

TEST(Goodput, PlayedThroughIsTheClosedForm) {
  Reliability job = job_of(2, 600, 15, 700);
  job.causes.push_back({"software", 0.3, 0, 120});
  std::vector<Reliability> jobs = {job};
  job.commit_s = 300;  // written while work goes on
  jobs.push_back(job);
  job.spares = 6;
  job.repair_h = 10;  // five in repair on average
  jobs.push_back(job);
  job.slow_chance = 0.4;
  job.slowdown = 0.1;
  jobs.push_back(job);
  for (const Reliability& each : jobs) {
    const Goodput exact = goodput_of(each);
    const MonteCarlo played = simulate_goodput(each, {.days = 60, .runs = 1500, .seed = 7});
    EXPECT_NEAR(played.useful / exact.useful, 1, 0.01);
    EXPECT_LT(std::abs(played.useful - exact.useful), 5 * played.standard_error + 1e-3);
    EXPECT_NEAR(sum_of(exact), 1, 1e-12);
    EXPECT_LE(played.low, played.useful);
    EXPECT_GE(played.high, played.useful);
  }
  EXPECT_GT(goodput_of(jobs[2]).waiting, 0.05);
}

TEST(Goodput, RunsAreTheirSeeds) {
  const Reliability job = job_of(2, 600, 15, 700);
  const auto run = [&](uint64_t seed) {
    return simulate_goodput(job, {.days = 5, .runs = 50, .seed = seed});
  };
  EXPECT_EQ(run(3).useful, run(3).useful);
  EXPECT_NE(run(3).useful, run(4).useful);
}

TEST(Goodput, WithoutFailuresOnlyCheckpointsCost) {
  const Goodput share = goodput_of({.causes = {}, .interval_s = 90, .write_s = 10});
  EXPECT_DOUBLE_EQ(share.useful, 0.9);
  EXPECT_EQ(simulate_goodput({.causes = {}, .interval_s = 90, .write_s = 10}, {}).useful, share.useful);
}

TEST(Goodput, RefusesWhatCannotBe) {
  const auto refusal = [](const Reliability& job) {
    try {
      goodput_of(job);
    } catch (const Fault& fault) {
      return fault.message();
    }
    return std::string();
  };
  EXPECT_THAT(refusal(job_of(-2, 600, 15, 700)), HasSubstr("failures an hour"));
  EXPECT_THAT(refusal(job_of(2, 600, 15, 0)), HasSubstr("interval of 0 s"));
  EXPECT_THAT(refusal(job_of(2, 600, -1, 700)), HasSubstr("takes -1 s"));
  Reliability job = job_of(2, 600, 15, 700);
  job.commit_s = 800;
  EXPECT_THAT(refusal(job), HasSubstr("whole after 800 s"));
  job = job_of(2, 600, 15, 700);
  job.spares = 2;
  EXPECT_THAT(refusal(job), HasSubstr("0 h of repair"));
  job = job_of(2, 600, 15, 700);
  job.slow_chance = 2;
  EXPECT_THAT(refusal(job), HasSubstr("chance 2"));
  EXPECT_THROW(simulate_goodput(job_of(2, 600, 15, 700), {.runs = 0}), Fault);
  EXPECT_THROW(simulate_goodput(job_of(1e-9, 600, 15, 700), {.days = 30, .runs = 1}), Fault);  // ran for ever
  EXPECT_THROW(profile_of(tables(), "nobody"), Fault);
  EXPECT_THROW(reliability_of(tables(), {.chips = 8}), Fault);  // no size of a checkpoint
  EXPECT_THROW(reliability_of(tables(), {.chips = 0, .checkpoint_bytes = 1}), Fault);
}

// Published: 419 unexpected interruptions in 54 days on 16,384 GPUs; RSC-1 projects 1.8 h and 0.23 h.
TEST(Profile, ScalesPublishedRates) {
  const Profile llama = profile_of(tables(), "llama3");
  EXPECT_NEAR(1 / (llama.per_chip_hour() * 16384), 54 * 24 / 419.0, 1e-9);
  const Profile rsc = profile_of(tables(), "rsc1");
  EXPECT_NEAR(1 / (rsc.per_chip_hour() * 16384), 1.8, 0.03 * 1.8);
  EXPECT_NEAR(1 / (rsc.per_chip_hour() * 131072), 0.23, 0.03 * 0.23);
  // Where failures come with hosts, a host of 16 chips fails as one of 8.
  const auto mttf = [&](const char* profile, double chips_per_host) {
    return goodput_of(reliability_of(tables(), {.profile = profile,
                                                .chips = 16384,
                                                .chips_per_host = chips_per_host,
                                                .checkpoint_bytes = 1e12})
                          .nominal)
        .mttf_h;
  };
  EXPECT_NEAR(mttf("rsc1", 16) / mttf("rsc1", 8), 2, 1e-9);
  EXPECT_NEAR(mttf("llama3", 16), mttf("llama3", 8), 1e-9);
}

TEST(Profile, IntervalWidensWithWhatIsNotKnown) {
  GoodputJob job = {.chips = 16384, .checkpoint_bytes = 5.7e12};
  const auto width = [&] {
    const GoodputInterval interval = goodput_interval(reliability_of(tables(), job), 1);
    EXPECT_LE(interval.useful.low, interval.useful.value);
    EXPECT_GE(interval.useful.high, interval.useful.value);
    return interval.useful.high - interval.useful.low;
  };
  const double published = width();
  job.own_hardware = false;
  EXPECT_GT(width(), published);
  job.mttf_h = 3;
  job.restart_s = 600;
  job.checkpoint_gb_s = 2000;
  EXPECT_NEAR(width(), 0, 1e-12);
}

constexpr const char* kRows =
    "id,system,chips,what,value,unit,conditions,source\n"
    "llama3.gpu,x,16384,of them faulty GPU,148,count,,\n"
    "llama3.made,x,16384,effective training time,90,% (more than),,\n"
    "rsc1.made,x,1024,measured job MTTF,7.9,h,,\n"
    "nobody.made,x,8,goodput,97,%,,\n";

TEST(FailureCheck, SetsCalibrationApart) {
  const FailureCheck check = check_failures(tables(), kRows, "rows.csv");
  ASSERT_EQ(check.rows.size(), 4u);
  EXPECT_EQ(check.rows[0].role, Role::kCalibration);
  EXPECT_EQ(check.rows[1].role, Role::kBound);
  EXPECT_TRUE(check.rows[1].holds());
  EXPECT_NEAR(check.rows[1].predicted, 90, 3);
  EXPECT_EQ(check.rows[2].role, Role::kEvidence);
  EXPECT_NEAR(check.rows[2].error(), 2.65, 0.01);  // small jobs die of other things
  EXPECT_EQ(check.rows[3].role, Role::kNotModelled);
  EXPECT_LT(check.monte_carlo_difference, 0.01);
  EXPECT_THROW(check_failures(tables(), std::string(kRows) + "a,b,1,c,much,h,,\n", "rows.csv"), Fault);
  EXPECT_THROW(check_failures(tables(), "id\n", "rows.csv"), Fault);
}

}  // namespace
}  // namespace opentrn::planner::goodput_tests
