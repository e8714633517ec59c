#include "pjrt/device_program.h"

#include "compiler/compile.h"
#include "sim/functional/buffer.h"

namespace opentrn::pjrt {

namespace {

std::shared_ptr<sim::Buffer> device_buffer(const graph::Literal& literal) {
  const auto wrapped = [](std::span<const std::byte> bytes, std::shared_ptr<void> owner) {
    return sim::Buffer::wrap_read_only(bytes.data(), static_cast<int64_t>(bytes.size()), std::move(owner));
  };
  if (compiler::same_on_device(literal.type().element())) {
    auto owner = std::make_shared<graph::Literal>(literal);
    return wrapped(owner->bytes(), owner);
  }
  auto owner = std::make_shared<std::vector<std::byte>>(compiler::to_device(literal));
  return wrapped(*owner, owner);
}

graph::Literal host_literal(const graph::Type& type, const std::shared_ptr<sim::Buffer>& buffer) {
  const std::span<const std::byte> bytes{buffer->data(), static_cast<size_t>(buffer->bytes())};
  if (compiler::same_on_device(type.element())) return {type, bytes, buffer};
  return compiler::from_device(type, bytes);
}

runtime::Port port_of(const compiler::Port& from) {
  const auto dims = from.type.dims();
  return {from.name, from.tensor, std::string(graph::name(from.type.element())), {dims.begin(), dims.end()}};
}

runtime::Model model_of(const compiler::CompiledModule& compiled, arch::Generation generation) {
  runtime::Model model;
  model.program = compiled.program;
  model.generation = generation;
  model.origin = compiled.origin;
  for (const compiler::Port& port : compiled.inputs) model.inputs.push_back(port_of(port));
  for (const compiler::Port& port : compiled.outputs) model.outputs.push_back(port_of(port));
  for (const compiler::Constant& constant : compiled.constants)
    model.constants.push_back({constant.tensor, device_buffer(constant.literal)});
  return model;
}

}  // namespace

Parts::SharedModel compile_for_device(const graph::Module& module, const DeviceOptions& options) {
  const Parts::SharedModel made = options.parts->model(
      [&] { return model_of(compiler::compile(module, options.compiler), options.compiler.generation); });
  if (!options.compiler.stochastic_rounding) return made;
  auto rounding = std::make_shared<runtime::Model>(*made);
  rounding->rounding = std::make_shared<runtime::StochasticRounding>(options.rounding_seed);
  return rounding;
}

std::vector<graph::Literal> run_on_device(const runtime::Model& model, std::span<const graph::Type> results,
                                          std::span<const graph::Literal> arguments) {
  std::vector<std::shared_ptr<sim::Buffer>> inputs;
  for (const graph::Literal& argument : arguments) inputs.push_back(device_buffer(argument));
  const auto outputs = runtime::execute(model, inputs);
  std::vector<graph::Literal> literals;
  for (size_t i = 0; i < outputs.size(); ++i) literals.push_back(host_literal(results[i], outputs[i]));
  return literals;
}

}  // namespace opentrn::pjrt
