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
                            [&](int32_t) { return std::make_unique<TimeExecutor>(shared, HostTimes{}); });
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
                            [&](int32_t) { return std::make_unique<TimeExecutor>(times, HostTimes{}); });
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

// Eight requests at once: a token takes the step, the host's time for the step and eight times that for a
// request.
TEST(Replay, HostTimeGrowsWithTheRequestsThatRun) {
  ReplayConfig config;
  config.scheduler = completed(config.scheduler);
  SyntheticLoad arrivals;
  arrivals.process = ArrivalProcess::kBurst;
  arrivals.requests = 8;
  const std::shared_ptr<const StepTimes> times = LinearTimes::parse("step=500");
  const auto between = [&](HostTimes host) {
    const Replay run = replay(synthetic_trace(arrivals), config,
                              [&](int32_t) { return std::make_unique<TimeExecutor>(times, host); });
    return run.summary.itl_ms.percentile(50);
  };
  const double without = between(HostTimes{});
  EXPECT_NEAR(between({ps_of_us(100), 0}) - without, 0.1, 1e-9);
  EXPECT_NEAR(between({ps_of_us(100), ps_of_us(30)}) - without, 0.1 + 8 * 0.03, 1e-9);
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
           [&](int32_t) { return std::make_unique<TimeExecutor>(times, HostTimes{}); });
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "serving.deadlock");
  }
}

// One request: prefill, the link, decode, each as long as stated.
TEST(Replay, DisaggregatedTimesAddUp) {
  ReplayConfig config;
  config.disaggregation = {1, 1000, 0.001, 3 * kPsPerMs};  // 1 ms for a token
  config.scheduler = completed(config.scheduler);
  SyntheticLoad load;
  load.requests = 1;
  load.prompt_tokens = 100;
  load.output_tokens = 5;
  const std::shared_ptr<const StepTimes> times = LinearTimes::parse("step=2000");
  const auto make = [&](int32_t) { return std::make_unique<TimeExecutor>(times, HostTimes{}); };
  const Replay run = replay(synthetic_trace(load), config, make);
  ASSERT_EQ(run.summary.completed, 1);
  EXPECT_DOUBLE_EQ(run.summary.ttft_ms.mean(), 2);
  EXPECT_DOUBLE_EQ(run.summary.e2e_ms.mean(), 2 + 100 + 3 + 4 * 2);
  EXPECT_EQ(run.replicas.at(0).decode_steps, 4);
  EXPECT_EQ(run.replicas.at(0).prefill_steps, 0);
  EXPECT_EQ(run.replicas.at(1).steps, 1);
  config.disaggregation.link_gb_s = 0;
  EXPECT_THROW(replay(synthetic_trace(load), config, make), Fault);
}

TEST(Replay, EveryRequestEndsInEveryFleet) {
  SplitMix64 random(2);
  for (int round = 0; round < 60; ++round) {
    SyntheticLoad load;
    load.seed = static_cast<uint64_t>(round);
    load.requests = 1 + random.below(300);
    load.per_second = 1 + random.below(60);
    load.spread = 0.9;
    ReplayConfig config;
    config.replicas = 1 + static_cast<int32_t>(random.below(5));
    config.routing = static_cast<Routing>(random.below(3));
    config.scheduler.policy = static_cast<Policy>(random.below(3));
    config.scheduler.max_model_len = config.scheduler.max_num_batched_tokens = 2048;
    config.scheduler.async_scheduling = random.below(2) == 0;
    if (random.below(2) == 0)
      config.disaggregation = {1 + static_cast<int32_t>(random.below(3)), 1e5, 10, kPsPerMs};
    if (random.below(2) == 0) {
      config.autoscaling.least =
          1 + static_cast<int32_t>(random.below(static_cast<uint32_t>(config.replicas)));
      config.autoscaling.target = 1 + random.below(8);
      config.autoscaling.interval = kPsPerSecond;
      config.autoscaling.start_time = static_cast<Ps>(random.below(10)) * kPsPerSecond;
      config.autoscaling.down_after = static_cast<Ps>(random.below(10)) * kPsPerSecond;
    }
    config.scheduler = completed(config.scheduler);
    const std::shared_ptr<const StepTimes> times =
        LinearTimes::parse("step=5000,prefill_token=50,decode_seq=200");
    const Replay run = replay(synthetic_trace(load), config,
                              [&](int32_t) { return std::make_unique<TimeExecutor>(times, HostTimes{}); });
    ASSERT_EQ(run.summary.completed, load.requests) << round;
    const double all = seconds(run.steps.end) * static_cast<double>(run.replicas.size());
    EXPECT_LE(run.replica_s, all * (1 + 1e-9)) << round;
    EXPECT_GE(run.replica_s, seconds(run.steps.busy) * (1 - 1e-9)) << round;
    for (const Request& request : run.requests) {
      EXPECT_EQ(request.output_tokens, std::min(request.max_tokens, 2048 - request.prompt_tokens));
      EXPECT_TRUE(request.blocks.empty());
    }
  }
}

// Eight clients of a server that takes one second for each request: a request is sent when one ends, and
// measured from then.
TEST(Replay, ClientsSendTheNextRequestWhenOneEnds) {
  SyntheticLoad load;
  load.process = ArrivalProcess::kBurst;
  load.requests = 40;
  load.output_tokens = 1;
  ReplayConfig config;
  config.max_concurrency = 8;
  config.scheduler.max_num_seqs = 1;
  config.scheduler = completed(config.scheduler);
  const std::shared_ptr<const StepTimes> times = LinearTimes::parse("step=1000000");
  const auto make = [&](int32_t) { return std::make_unique<TimeExecutor>(times, HostTimes{}); };
  const Replay run = replay(synthetic_trace(load), config, make);
  ASSERT_EQ(run.summary.completed, 40);
  EXPECT_EQ(run.running_peak + run.waiting_peak, 8);
  for (size_t i = 0; i < run.requests.size(); ++i) {
    const Request& request = run.requests[i];
    EXPECT_EQ(request.arrival, i < 8 ? 0 : static_cast<Ps>(i - 7) * kPsPerSecond);
    EXPECT_EQ(request.last_token, static_cast<Ps>(i + 1) * kPsPerSecond);
  }
  // Through a prefill engine too, whose requests end with their first token.
  config.disaggregation = {1, 1000, 10, 0};
  EXPECT_EQ(replay(synthetic_trace(load), config, make).requests.back().arrival, 32 * kPsPerSecond);
  config.max_concurrency = -1;
  EXPECT_THROW(replay(synthetic_trace(load), config, make), Fault);
}

// Load comes in a burst: engines start after their time, and the price is that of the time they were up.
TEST(Replay, ScalesUpAndDown) {
  SyntheticLoad load;
  load.process = ArrivalProcess::kBurst;
  load.requests = 400;
  ReplayConfig config;
  config.replicas = 4;
  config.autoscaling = {1, 8, kPsPerSecond, 5 * kPsPerSecond, 10 * kPsPerSecond};
  config.scheduler = completed(config.scheduler);
  const std::shared_ptr<const StepTimes> times =
      LinearTimes::parse("step=5000,prefill_token=50,decode_seq=200");
  const auto make = [&](int32_t) { return std::make_unique<TimeExecutor>(times, HostTimes{}); };
  Trace trace = synthetic_trace(load);
  // A second wave, after the engines have started.
  for (int i = 0; i < 400; ++i) {
    TraceRequest request = trace.requests.front();
    request.arrival = 8 * kPsPerSecond;
    trace.requests.push_back(request);
  }
  const Replay run = replay(trace, config, make);
  for (const StepTotals& replica : run.replicas) EXPECT_GT(replica.steps, 0);
  EXPECT_LT(run.replica_s, 4 * seconds(run.steps.end));
  EXPECT_GT(run.replica_s, seconds(run.steps.end));
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
