// A trace through one engine or a fleet of them, on a virtual clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serving/config.h"
#include "serving/engine.h"
#include "serving/metrics.h"
#include "serving/trace.h"

namespace opentrn::serving {

enum class Routing : uint8_t { kRoundRobin, kLeastLoaded, kPrefix };

// "round-robin", "least-loaded" (fewest requests that wait or run) or "prefix" (requests that begin alike go
// to one replica); input fault `serving.fleet`.
Routing routing_of(std::string_view name);

// Prefill on engines of its own: a request gets its first token there, its keys and values cross a link (one
// request after the other, of each prefill engine), and one of the other engines gives the rest.
struct Disaggregation {
  int32_t prefill_replicas = 0;  // 0: every engine does both
  double kv_bytes_per_token = 0;
  double link_gb_s = 0;
  Ps link_latency = 0;
};

// Engines that start and stop with the load: every `interval` as many are wanted as keep the requests that
// run or wait at `target` for each. Fewer only when no more were wanted for `down_after`. A stopping engine
// ends what it has.
struct Autoscaling {
  int32_t least = 0;  // 0: off; all replicas run from the start to the end
  double target = 8;
  Ps interval = 15 * kPsPerSecond;
  Ps start_time = 120 * kPsPerSecond;  // from the decision to the first request
  Ps down_after = 300 * kPsPerSecond;  // Kubernetes' default stabilisation of scaling down
};

struct ReplayConfig {
  SchedulerConfig scheduler;
  Slo slo;
  // Requests that the clients have under way at once; 0: any number. The next one is sent when one ends, and
  // not before it arrives in the trace.
  int64_t max_concurrency = 0;
  int32_t replicas = 1;
  Routing routing = Routing::kLeastLoaded;
  Disaggregation disaggregation;
  Autoscaling autoscaling;  // of `replicas`, the most there are
  // Bins of the series over time.
  int32_t bins = 240;
};

// One bin of the run: means over its time, weighted by time, of all replicas together.
struct Bin {
  double running = 0, waiting = 0;
  double kv_use = 0;  // fraction of all blocks
  double busy = 0;    // fraction of all devices' time
  double prefill_busy = 0;
  double tokens_per_s = 0;  // tokens given
  double padding = 0;       // fraction of computed tokens that were padding
  double arrivals_per_s = 0;
};

struct Replay {
  Summary summary;
  StepTotals steps;
  std::vector<StepTotals> replicas;  // those that prefill alone come last
  double replica_s = 0;              // time for which engines were up or starting, summed
  double bin_s = 0;
  std::vector<Bin> series;
  std::vector<Request> requests;  // in the order of the trace
  double kv_peak = 0;             // fraction of one replica's blocks
  int32_t running_peak = 0, waiting_peak = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;  // tokens
};

// An executor for each replica; `make` is called once per replica.
using MakeExecutor = std::function<std::unique_ptr<Executor>(int32_t replica)>;

// Requests that can never run (a prompt of max_model_len or more) are refused and counted. Input fault
// `serving.deadlock` when the rules of the policy leave requests waiting for ever. `config.scheduler` as
// completed() returns it.
Replay replay(Trace trace, const ReplayConfig& config, const MakeExecutor& make);

}  // namespace opentrn::serving
