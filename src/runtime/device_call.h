// Values of custom calls that are programs of a device: NKI kernels (graph/kernel_call.h), which run on the
// functional model, alone; and custom operators, by their registered name.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/eval/evaluate.h"
#include "runtime/model.h"

namespace opentrn::runtime {

// The kernel by itself, as a model. Faults of isa::kernel_from_text.
Model model_of_kernel(std::string_view payload);

// A graph::eval::DeviceCallHandler. Faults as the kernel's instructions or the operator raise them, and
// kInput for operands and results that are not the kernel's.
std::optional<std::vector<graph::eval::RuntimeValue>> evaluate_device_call(
    const graph::Op& op, std::span<const graph::Type> results,
    std::span<const graph::eval::RuntimeValue> operands);

}  // namespace opentrn::runtime
