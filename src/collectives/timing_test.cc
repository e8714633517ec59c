// The time of collectives against what can be said without simulating: bytes over the links that bound them,
// and steps times their cost.
#include "collectives/timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/units.h"
#include "collectives/algorithms.h"
#include "collectives/predict.h"
#include "collectives/repeat.h"
#include "collectives/verify.h"

namespace opentrn::collectives {
namespace {

using arch::default_tables;
using fabric::Platform;

constexpr int64_t kGiB = int64_t{1} << 30;

Request request_of(Kind kind, int ranks, int64_t bytes) {
  return {.kind = kind, .ranks = ranks, .bytes = bytes, .dtype = DType::kUint8};
}

Predictions predicted(const Platform& platform, Kind kind, int ranks, int64_t bytes,
                      const std::string& algorithm) {
  const Job job{request_of(kind, ranks, bytes), place_ranks(platform, ranks, 1, 1), algorithm, 0, 1};
  return predict(default_tables(), platform, std::span(&job, 1));
}

double link_bytes_per_s(const Platform& platform) {
  for (const fabric::Link& link : platform.network().links)
    if (link.kind == fabric::LinkClass::kNeuronLink) return static_cast<double>(link.bytes_per_s);
  return 0;
}

// A ring over cycles that use each link once in each direction keeps all of them busy: gathering takes
// (r - 1) / r of the bytes over the directed rings.
TEST(CollectiveTime, LargeRingsAreBoundByTheirLinks) {
  const Platform platform = Platform::make(default_tables(), "trn1n.32xlarge");
  for (const auto& [ranks, rings] : {std::pair(8, 2), {16, 2}, {32, 4}}) {
    const double bytes = 4.0 * kGiB;
    const auto result = predicted(platform, Kind::kAllGather, ranks, 4 * kGiB / ranks, "ring");
    const double floor = bytes * (ranks - 1) / ranks / rings / link_bytes_per_s(platform) * kPsPerS;
    EXPECT_GE(static_cast<double>(result.end_ps), floor) << ranks;
    EXPECT_LE(static_cast<double>(result.end_ps), 1.02 * floor) << ranks;
  }
}

// The mesh puts every part of an all-gather on every link of a row of four chips once, whatever the routes.
TEST(CollectiveTime, TheMeshOverARow) {
  const Platform platform = Platform::make(default_tables(), "trn1n.32xlarge");
  const auto result = predicted(platform, Kind::kAllGather, 8, kGiB / 8, "mesh");
  int64_t most = 0;
  for (size_t i = 0; i < result.carried.size(); ++i)
    if (platform.network().links[i].kind == fabric::LinkClass::kNeuronLink)
      most = std::max(most, result.carried[i]);
  EXPECT_NEAR(static_cast<double>(most), kGiB, 1e3);
  EXPECT_NEAR(static_cast<double>(result.end_ps), kGiB / link_bytes_per_s(platform) * kPsPerS, 0.01 * kGiB);
}

TEST(CollectiveTime, SmallMessagesCostTheirStepsAndHops) {
  const Platform platform = Platform::make(default_tables(), "trn1n.32xlarge");
  const Costs costs = costs_of(default_tables(), platform.generation(), "mesh");
  const int64_t farthest = platform.path(0, 4).latency_ps;  // two hops along the row
  const auto result = predicted(platform, Kind::kAllReduce, 8, 8, "mesh");
  EXPECT_NEAR(static_cast<double>(result.end_ps), static_cast<double>(3 * costs.step_ps + 2 * farthest), 1e4);
}

TEST(CollectiveTime, NothingIsWrittenToARankThatHasNotArrived) {
  const Platform platform = Platform::make(default_tables(), "trn1n.32xlarge");
  const RankCores cores = place_ranks(platform, 4, 1, 1);
  const Plan plan = make_plan("ring", request_of(Kind::kAllReduce, 4, 1 << 20), layout_of(platform, cores));
  constexpr int64_t kLate = 1'000'000'000;  // 1 ms
  const collectives::Run at_once{
      &plan, costs_of(default_tables(), platform.generation(), "ring"), cores, {}, 0};
  collectives::Run late = at_once;
  late.arrivals_ps = {0, 0, kLate, 0};
  const int64_t quick = time_of(platform, std::span(&at_once, 1)).end_ps();
  const Timing timing = time_of(platform, std::span(&late, 1));
  EXPECT_GE(timing.end_ps(), kLate + quick / 2);
  EXPECT_LE(timing.end_ps(), kLate + quick);
  for (const StepTime& step : timing.runs[0].steps[2]) EXPECT_GE(step.start_ps, kLate);
}

TEST(CollectiveTime, GroupsThatShareLinksSlowEachOtherDown) {
  const Platform platform = Platform::make(default_tables(), "trn1n.32xlarge");
  const RankCores all = place_ranks(platform, 32, 1, 1);
  const auto job = [&](std::vector<int> ranks) {
    Job out{request_of(Kind::kAllGather, static_cast<int>(ranks.size()), 64 << 20), {}, "ring", 0, 1};
    for (const int rank : ranks) out.cores.push_back(all[static_cast<size_t>(rank)]);
    return out;
  };
  // Two rows share no link; even and odd cores of one row share all of them.
  const std::vector<Job> rows = {job({0, 1, 2, 3, 4, 5, 6, 7}), job({8, 9, 10, 11, 12, 13, 14, 15})};
  const std::vector<Job> mixed = {job({0, 2, 4, 6}), job({1, 3, 5, 7})};
  const auto time = [&](std::span<const Job> jobs) {
    return predict(default_tables(), platform, jobs).end_ps;
  };
  EXPECT_EQ(time(rows), time(std::span(rows).first(1)));
  EXPECT_NEAR(static_cast<double>(time(mixed)), 2.0 * static_cast<double>(time(std::span(mixed).first(1))),
              0.02 * static_cast<double>(time(mixed)));
}

TEST(CollectiveTime, PriorityGoesFirst) {
  const Platform platform = Platform::make(default_tables(), "trn1n.32xlarge");
  const RankCores all = place_ranks(platform, 8, 1, 1);
  std::vector<Job> jobs;
  for (const int first : {0, 1}) {
    Job& job = jobs.emplace_back(Job{request_of(Kind::kAllGather, 4, 64 << 20), {}, "ring", first, 1});
    for (int rank = first; rank < 8; rank += 2) job.cores.push_back(all[static_cast<size_t>(rank)]);
  }
  const int64_t alone = predict(default_tables(), platform, std::span(jobs).first(1)).end_ps;
  const Predictions both = predict(default_tables(), platform, jobs);
  EXPECT_EQ(both.jobs[0].time.end_ps(), alone);
  EXPECT_GT(both.jobs[1].time.end_ps(), alone);
}

TEST(CollectiveTime, RepeatsTakeTheirTime) {
  const Platform platform = Platform::make(default_tables(), "trn1n.32xlarge");
  Job job{request_of(Kind::kAllReduce, 8, 1 << 16), place_ranks(platform, 8, 1, 1), "mesh", 0, 1};
  const int64_t once = predict(default_tables(), platform, std::span(&job, 1)).end_ps;
  job.repeats = 3;
  const Predictions thrice = predict(default_tables(), platform, std::span(&job, 1));
  // Ranks begin the next operation when their own part of the last one is done, after a signal.
  EXPECT_GE(thrice.end_ps, 5 * once / 2);
  EXPECT_LE(thrice.end_ps, 3 * once + 3 * 1'000'000);
}

TEST(CollectiveTime, RanksThatDoNotFitAreRefused) {
  const Platform platform = Platform::make(default_tables(), "trn2.48xlarge");
  EXPECT_THROW(place_ranks(platform, 129, 1, 1), Fault);
  EXPECT_THROW(place_ranks(platform, 65, 2, 1), Fault);
  EXPECT_THROW(place_ranks(platform, 4, 3, 1), Fault);
  EXPECT_THROW(place_ranks(platform, 4, 1, 2), Fault);
  EXPECT_EQ(place_ranks(platform, 64, 2, 1).back(), (std::vector<int>{126, 127}));
}

TEST(CollectiveTime, MachinesForSoManyRanks) {
  const auto name = [](Generation generation, int ranks, int lnc) {
    return platform_for(default_tables(), generation, ranks, lnc).name();
  };
  EXPECT_EQ(name(Generation::kV3, 4, 2), "trn2.3xlarge");
  EXPECT_EQ(name(Generation::kV3, 64, 2), "trn2.48xlarge");
  EXPECT_EQ(name(Generation::kV3, 256, 2), "Trn2 UltraServer");
}

}  // namespace
}  // namespace opentrn::collectives
