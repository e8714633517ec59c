// What one run of a program costs on the simulated devices, by the timing model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/settings.h"
#include "spmd/run/parallel.h"
#include "trace/summary.h"

namespace opentrn::spmd {

// Of one device in one run.
struct Cost {
  // Instructions and DMA; nullopt, with `why`, where the timing model cannot tell.
  std::optional<double> compute_us;
  std::string why;
  // While at least one collective is under way; nullopt where there are some of which nobody knows how long
  // they take, which then count as nothing.
  std::optional<double> collectives_us = 0.0;
  // Of that, while no part goes on, and what parts take longer for collectives beside them.
  double exposed_us = 0;
  double gathered_bytes = 0;  // of weights that lie in parts, where most are gathered at once
  double tensor_flops = 0;    // done by the Tensor engine
  double model_flops = 0;     // of the program's arithmetic, whoever does it; bodies of loops once
  double hbm_bytes = 0;       // read and written
  int64_t instructions = 0;
  std::string bound_by;  // of the longest part
  // Where the time of that part goes, by trace::Resource: parts of its critical path, all its runs together.
  std::array<double, trace::kResourceCount> critical_us{};
  std::array<trace::EngineTotals, isa::kEngineCount> engines{};  // of one of its runs
  int64_t descriptors = 0;                                       // likewise, and the bytes that they move
  double descriptor_bytes = 0;
  bool on_device = false;
  // Physical cores of the device that computed: flops, bytes and instructions are of them together.
  int cores = 1;

  // From the start of the run to its end (step_time.h); nullopt where the compute time is.
  std::optional<double> device_us;
  // Before it, once for a run: the parts of a program of several devices are launched together.
  double launch_us = 0;
};

Cost cost_of(const DeviceProgram& program);
Cost cost_of(const ParallelProgram& program, const runtime::Settings& settings);
// What a run of `device_us` on one of two physical cores would take at least if both shared its compute
// evenly: the HBM stack is the same, and what collectives expose would not become less.
double both_cores_us_min(double device_us, double exposed_us, double hbm_bytes, Generation generation);
// Of a program that the host runs, and why.
Cost cost_on_host(const std::string& reason);

}  // namespace opentrn::spmd
