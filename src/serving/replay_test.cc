// Queues of which theory knows the answer, and the books of a run.
#include "serving/replay.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"
#include "serving/arrivals.h"

namespace opentrn::serving {
namespace {

constexpr double kServiceS = 0.01;

// One request at a time, one token each: a queue with one server.
class Server final : public Executor {
 public:
  explicit Server(bool exponential) : exponential_(exponential) {}
  Outcome run(const Step& step) override {
    const double s = exponential_ ? -std::log1p(-random_.uniform()) * kServiceS : kServiceS;
    return {ps_of_seconds(s), 0, std::vector<Sampled>(step.entries.size())};
  }

 private:
  bool exponential_;
  SplitMix64 random_{7};
};

Replay queue(bool exponential, double load, int64_t requests) {
  SyntheticLoad arrivals;
  arrivals.per_second = load / kServiceS;
  arrivals.requests = requests;
  arrivals.prompt_tokens = 8;
  arrivals.output_tokens = 1;
  arrivals.seed = 3;
  ReplayConfig config;
  config.scheduler.max_num_seqs = 1;
  config.scheduler.prefix_caching = false;
  config.scheduler = completed(config.scheduler);
  return replay(synthetic_trace(arrivals), config,
                [&](int32_t) { return std::make_unique<Server>(exponential); });
}

// Mean time in the system: M/M/1 s / (1 - rho); M/D/1 s (1 + rho / (2 (1 - rho))) (Pollaczek and Khinchine).
TEST(Replay, IsAnMM1Queue) {
  for (const double rho : {0.3, 0.5, 0.7}) {
    const Replay run = queue(true, rho, 400000);
    EXPECT_NEAR(run.summary.e2e_ms.mean(), 1e3 * kServiceS / (1 - rho), 0.03 * 1e3 * kServiceS / (1 - rho))
        << rho;
    EXPECT_NEAR(seconds(run.steps.busy) / run.summary.duration_s(), rho, 0.01);
  }
}

TEST(Replay, IsAnMD1Queue) {
  for (const double rho : {0.3, 0.5, 0.8}) {
    const Replay run = queue(false, rho, 400000);
    const double expected = 1e3 * kServiceS * (1 + rho / (2 * (1 - rho)));
    EXPECT_NEAR(run.summary.e2e_ms.mean(), expected, 0.03 * expected) << rho;
  }
}

// Little's law, for a batching server too: mean number in the system = rate * mean time in it.
TEST(Replay, KeepsLittlesLaw) {
  SyntheticLoad arrivals;
  arrivals.per_second = 20;
  arrivals.requests = 4000;
  arrivals.spread = 0.9;
  ReplayConfig config;
  config.scheduler = completed(config.scheduler);
  const std::shared_ptr<const StepTimes> shared =
      LinearTimes::parse("step=500,prefill_token=5,decode_seq=20");
  const Replay run = replay(synthetic_trace(arrivals), config,
                            [&](int32_t) { return std::make_unique<TimeExecutor>(shared, 0); });
  double inside = 0;  // integral of the number of requests over time, from the series
  for (size_t i = 0; i < run.series.size(); ++i) {
    const double width = std::min(run.bin_s, seconds(run.steps.end) - static_cast<double>(i) * run.bin_s);
    inside += (run.series[i].running + run.series[i].waiting) * width;
  }
  double spent = 0;
  for (const Request& request : run.requests) spent += seconds(request.last_token - request.arrival);
  // Requests that come while a step runs are counted from the next step on: half a step each.
  EXPECT_NEAR(inside, spent, 0.06 * spent);
  EXPECT_EQ(run.summary.completed, 4000);
}

TEST(Replay, StepsNeverOverlapAndTokensAddUp) {
  SyntheticLoad arrivals;
  arrivals.per_second = 50;
  arrivals.requests = 500;
  ReplayConfig config;
  config.replicas = 3;
  config.scheduler.policy = Policy::kVllm;
  config.scheduler.async_scheduling = true;
  config.scheduler = completed(config.scheduler);
  const std::shared_ptr<const StepTimes> times = LinearTimes::parse("step=500,prefill_token=5,decode_seq=20");
  const Replay run = replay(synthetic_trace(arrivals), config,
                            [&](int32_t) { return std::make_unique<TimeExecutor>(times, 0); });
  EXPECT_EQ(run.summary.output_tokens, 500 * 128);
  for (const StepTotals& replica : run.replicas) EXPECT_LE(replica.busy, replica.end);
  for (const Request& request : run.requests) {
    EXPECT_LE(request.arrival, request.first_scheduled);
    EXPECT_LT(request.first_scheduled, request.first_token);
    EXPECT_EQ(request.output_tokens, 128);
  }
  // 127 gaps of each request.
  EXPECT_EQ(run.summary.itl_ms.count(), 500 * 127);
}

// Two blocks of max_model_len, one of them the null block: AWS's rule counts both, and the second request can
// never have one. Its server would hang; a replay says so.
TEST(Replay, SaysWhenTheRulesHang) {
  ReplayConfig config;
  config.scheduler.max_model_len = 32;
  config.scheduler.max_num_batched_tokens = 32;
  config.scheduler.num_blocks = 2;
  config.scheduler = completed(config.scheduler);
  SyntheticLoad arrivals;
  arrivals.process = ArrivalProcess::kBurst;
  arrivals.requests = 2;
  arrivals.prompt_tokens = 10;
  arrivals.output_tokens = 10;
  const std::shared_ptr<const StepTimes> times = LinearTimes::parse("step=500");
  try {
    replay(synthetic_trace(arrivals), config,
           [&](int32_t) { return std::make_unique<TimeExecutor>(times, 0); });
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "serving.deadlock");
  }
}

TEST(Distribution, PercentilesAreThoseOfTheExpandedList) {
  SplitMix64 random(1);
  for (int round = 0; round < 50; ++round) {
    Distribution values;
    std::vector<double> all;
    for (uint32_t i = 0; i < 1 + random.below(30); ++i) {
      const double value = random.below(10);
      const int64_t times = 1 + random.below(4);
      values.add(value, times);
      all.insert(all.end(), static_cast<size_t>(times), value);
    }
    std::sort(all.begin(), all.end());
    for (const double p : {0.0, 12.5, 50.0, 99.0, 100.0}) {
      const double place = p / 100 * static_cast<double>(all.size() - 1);
      const auto low = static_cast<size_t>(place);
      const double high = all[std::min(low + 1, all.size() - 1)];
      EXPECT_NEAR(values.percentile(p), all[low] + (high - all[low]) * (place - static_cast<double>(low)),
                  1e-12);
    }
  }
}

}  // namespace
}  // namespace opentrn::serving
