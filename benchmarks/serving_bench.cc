// How fast a trace is replayed: opentrn_serving_bench [TRACE]
//
// TRACE is Azure's conversation hour (AzureLLMInferenceTrace_conv.csv); without it as many requests of the
// same mean lengths and rate are drawn. Best of three, without reading the file.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "base/fault.h"
#include "serving/arrivals.h"
#include "serving/replay.h"
#include "serving/step_times.h"

namespace {

using namespace opentrn::serving;

// Requests, mean tokens and rate of the conversation trace of 2023.
SyntheticLoad like_azure() {
  SyntheticLoad load;
  load.requests = 19366;
  load.per_second = 19366 / 3500.0;
  load.prompt_tokens = 1155;
  load.output_tokens = 211;
  load.spread = 0.9;
  return load;
}

void report(const Trace& trace, Policy policy, bool async) {
  ReplayConfig config;
  config.scheduler.policy = policy;
  config.scheduler.max_num_seqs = 64;
  config.scheduler.async_scheduling = async;
  config.scheduler = completed(config.scheduler);
  const std::shared_ptr<const StepTimes> times =
      LinearTimes::parse("step=3000,prefill_token=20,decode_seq=50,context_token=0.002");
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    Trace copy = trace;
    const std::clock_t start = std::clock();
    const Replay run = replay(std::move(copy), config,
                              [&](int32_t) { return std::make_unique<TimeExecutor>(times, HostTimes{}); });
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    if (i == 0)
      std::fputs(fmt::format("{:12} {:5}: {} requests, {} tokens given, {} steps", to_string(policy),
                             async ? "async" : "sync", run.summary.completed, run.summary.output_tokens,
                             run.steps.steps)
                     .c_str(),
                 stdout);
  }
  std::fputs(fmt::format("; {:.3f} s of one core\n", best).c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Trace trace;
    if (argc > 1) {
      std::ifstream in(argv[1]);
      trace = read_trace(in, argv[1]);
    } else {
      trace = synthetic_trace(like_azure());
    }
    report(trace, Policy::kNeuron, false);
    report(trace, Policy::kVllm, false);
    report(trace, Policy::kVllm, true);
  } catch (const opentrn::Fault& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 2;
  }
}
