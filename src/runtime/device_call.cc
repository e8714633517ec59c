#include "runtime/device_call.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/kernel_call.h"
#include "isa/kernel.h"
#include "sim/functional/custom_op.h"

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
    std::vector<std::byte> bytes = literal.dense();
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

// The operator's tensor over bytes of the host.
sim::CustomOpTensor tensor_over(std::vector<std::byte>& bytes, const graph::Type& type) {
  const auto dtype = graph::to_dtype(type.element());
  if (!dtype && type.element() != graph::ElementType::kI1)
    throw Fault(FaultKind::kNotModelled, "custom_op.type",
                fmt::format("{} has no form on a device", type.to_string()),
                "convert it to a type of the device in the model");
  return {bytes.data(), dtype.value_or(DType::kUint8), type.dims_vector()};
}

std::vector<RuntimeValue> evaluate_operator(const sim::CustomOp& op, std::span<const graph::Type> results,
                                            std::span<const RuntimeValue> operands) {
  std::vector<std::vector<std::byte>> in, out;
  std::vector<sim::CustomOpTensor> inputs, outputs;
  for (const RuntimeValue& operand : operands) in.push_back(operand.literal().dense());
  for (size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(tensor_over(in[i], operands[i].literal().type()));
  for (const graph::Type& type : results)
    out.emplace_back(static_cast<size_t>(type.element_count() * graph::storage_bytes(type.element())));
  for (size_t i = 0; i < results.size(); ++i) outputs.push_back(tensor_over(out[i], results[i]));
  op(outputs, inputs);
  std::vector<RuntimeValue> values;
  for (size_t i = 0; i < results.size(); ++i) values.push_back({Literal(results[i], std::move(out[i]))});
  return values;
}

}  // namespace

Model model_of_kernel(std::string_view payload) {
  isa::Kernel kernel = isa::kernel_from_text(payload);
  Model model;
  model.generation = kernel.generation;
  for (const auto& port : kernel.inputs) model.inputs.push_back(port_of(port, kernel.dtype(port)));
  for (const auto& port : kernel.outputs) model.outputs.push_back(port_of(port, kernel.dtype(port)));
  for (isa::Kernel::Constant& constant : kernel.constants)
    model.constants.push_back({constant.tensor, owned(std::move(constant.bytes)), "", 0});
  model.program = std::make_shared<isa::Program>(std::move(kernel.program));
  return model;
}

std::optional<std::vector<RuntimeValue>> evaluate_device_call(const graph::Op& op,
                                                              std::span<const graph::Type> results,
                                                              std::span<const RuntimeValue> operands) {
  if (graph::is_kernel_call(op)) return evaluate_kernel(graph::kernel_payload(op), results, operands);
  const auto custom = sim::find_custom_op(op.string(graph::Attr::call_target_name));
  if (!custom) return std::nullopt;
  return evaluate_operator(*custom, results, operands);
}

}  // namespace opentrn::runtime
