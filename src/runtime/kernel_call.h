// Values of NKI kernels that stand in a graph (graph/kernel_call.h): their program runs on the functional
// model, alone.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/eval/evaluate.h"
#include "runtime/model.h"

namespace opentrn::runtime {

// The kernel by itself, as a model. Faults of isa::kernel_from_text.
Model model_of_kernel(std::string_view payload);

// A graph::eval::KernelCallHandler. Faults as the kernel's instructions raise them, and kInput for operands
// and results that are not the kernel's.
std::vector<graph::eval::RuntimeValue> evaluate_kernel(std::string_view payload,
                                                       std::span<const graph::Type> results,
                                                       std::span<const graph::eval::RuntimeValue> operands);

}  // namespace opentrn::runtime
