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

struct ReplayConfig {
  SchedulerConfig scheduler;
  Slo slo;
  int32_t replicas = 1;
  Routing routing = Routing::kLeastLoaded;
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
  std::vector<StepTotals> replicas;
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
