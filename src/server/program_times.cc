#include "server/program_times.h"

#include <chrono>

#include "runtime/timing.h"

namespace opentrn::server {

using serving::Ps;

Ps ProgramTimes::of(const decoder::Bucket& bucket) {
  const auto known = times_.find(bucket);
  if (known != times_.end()) return known->second;
  const auto begin = std::chrono::steady_clock::now();
  const runtime::Model& program = engine_.program(bucket);
  const double device_us = runtime::port_times(program, {}, engine_.cores_on_stack()).summary.total_ns / 1e3;
  const Ps time = serving::ps_of_us(device_us + engine_.exchange_us(bucket) + engine_.results_us(bucket));
  compile_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  times_.emplace(bucket, time);
  return time;
}

}  // namespace opentrn::server
