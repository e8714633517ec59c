// The kernel behind every op of the device that memory_ops.cc does not have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "torch/program.h"

namespace opentrn::torch_device {

// Ops of ATen that have a rule or a decomposition of ours go to the device even where PyTorch would take them
// apart itself. `names`: "aten::native_layer_norm" or "aten::add.Tensor". Once.
void take_over(const std::vector<std::string>& names);

// Runs an op as a program, whatever else is registered for it: `stack` holds its arguments, then its results.
void run_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Programs of the table.
std::vector<std::shared_ptr<Program>> programs();

// The table keeps as many; the one whose last run is longest ago goes first, and is compiled again when its
// class comes again. 0: all.
void bound_programs(size_t most);

// Counts host time of runs from now on: two readings of a clock for each.
void count_host_time(bool on);

// Of what PyTorch warns while a call is only asked about, as when it is traced: it warns when the call runs.
c10::WarningHandler* ignores_warnings();

}  // namespace opentrn::torch_device
