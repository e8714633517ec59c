#include "runtime/kernel_call.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/element_value.h"
#include "graph/kernel_call.h"
#include "isa/kernel.h"

namespace opentrn::runtime {

using graph::Literal;
using graph::eval::RuntimeValue;

namespace {

std::shared_ptr<sim::Buffer> owned(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  return sim::Buffer::wrap_read_only(owner->data(), static_cast<int64_t>(owner->size()), owner);
}

Port port_of(const isa::Kernel::Port& port, DType dtype) {
  return {port.name, port.tensor, std::string(name(dtype)), port.shape};
}

[[noreturn]] void refuse(std::string_view kernel, std::string what) {
  throw Fault(FaultKind::kInput, "kernel_call.type", fmt::format("NKI kernel {}: {}", kernel, what),
              "trace the kernel with the types and shapes of the call");
}

// Under Options::float64 values come in f64; a kernel computes in its own types.
std::vector<std::byte> device_bytes(const Literal& literal, DType dtype) {
  const graph::ElementType from = literal.type().element();
  if (from != graph::ElementType::kF64) return literal.dense();
  for (int i = 0; i < graph::kElementTypeCount; ++i) {
    const auto to = static_cast<graph::ElementType>(i);
    if (!graph::is_float(to) || graph::to_dtype(to) != dtype) continue;
    const int64_t count = literal.type().element_count(), size = graph::storage_bytes(to);
    std::vector<std::byte> bytes(static_cast<size_t>(count * size));
    for (int64_t k = 0; k < count; ++k)
      graph::store_real(to, graph::load_real(from, literal.element(k)), bytes.data() + k * size);
    return bytes;
  }
  return {};
}

}  // namespace

Model model_of_kernel(std::string_view payload) {
  isa::Kernel kernel = isa::kernel_from_text(payload);
  Model model;
  model.generation = static_cast<arch::Generation>(kernel.generation);
  for (const auto& port : kernel.inputs) model.inputs.push_back(port_of(port, kernel.dtype(port)));
  for (const auto& port : kernel.outputs) model.outputs.push_back(port_of(port, kernel.dtype(port)));
  for (isa::Kernel::Constant& constant : kernel.constants)
    model.constants.push_back({constant.tensor, owned(std::move(constant.bytes)), "", 0});
  model.program = std::make_shared<isa::Program>(std::move(kernel.program));
  return model;
}

std::vector<RuntimeValue> evaluate_kernel(std::string_view payload, std::span<const graph::Type> results,
                                          std::span<const RuntimeValue> operands) {
  const Model model = model_of_kernel(payload);
  const std::string_view name = isa::kernel_name(payload);
  if (operands.size() != model.inputs.size() || results.size() != model.outputs.size())
    refuse(name, fmt::format("{} operands and {} results of {} and {}", operands.size(), results.size(),
                             model.inputs.size(), model.outputs.size()));
  std::vector<std::shared_ptr<sim::Buffer>> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Literal& literal = operands[i].literal();
    std::vector<std::byte> bytes = device_bytes(literal, model.program->tensor(model.inputs[i].tensor).dtype);
    if (static_cast<int64_t>(bytes.size()) != model.device_bytes(model.inputs[i]))
      refuse(name, fmt::format("operand {} is {}", i, literal.type().to_string()));
    inputs.push_back(owned(std::move(bytes)));
  }
  std::vector<RuntimeValue> values;
  const auto outputs = execute(model, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const sim::Buffer& made = *outputs[i];
    if (made.bytes() != results[i].element_count() * graph::storage_bytes(results[i].element()))
      refuse(name, fmt::format("result {} is {}", i, results[i].to_string()));
    values.push_back({Literal(results[i], std::vector<std::byte>(made.data(), made.data() + made.bytes()))});
  }
  return values;
}

}  // namespace opentrn::runtime
