#include "pjrt/device_program.h"

#include "base/fault.h"
#include "compiler/compile.h"
#include "runtime/timing.h"
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

std::unique_ptr<DeviceProgram> compile_for_device(const graph::Module& module, const DeviceOptions& options) {
  Parts::SharedModel made = options.parts->model(
      [&] { return model_of(compiler::compile(module, options.compiler), options.compiler.generation); });
  if (options.compiler.stochastic_rounding) {
    auto rounding = std::make_shared<runtime::Model>(*made);
    rounding->rounding = std::make_shared<runtime::StochasticRounding>(options.rounding_seed);
    made = std::move(rounding);
  }
  return std::make_unique<DeviceProgram>(std::move(made));
}

std::vector<graph::Literal> DeviceProgram::run(std::span<const graph::Type> results,
                                               std::span<const graph::Literal> arguments) const {
  std::vector<std::shared_ptr<sim::Buffer>> inputs;
  for (const graph::Literal& argument : arguments) inputs.push_back(device_buffer(argument));
  runtime::LoopTrips trips;
  const auto outputs = runtime::execute(*model_, inputs, &trips);
  if (!trips.empty()) {
    const std::lock_guard lock(mutex_);
    trips_ = std::move(trips);
    predicted_.reset();
  }
  std::vector<graph::Literal> literals;
  for (size_t i = 0; i < outputs.size(); ++i) literals.push_back(host_literal(results[i], outputs[i]));
  return literals;
}

runtime::LoopTrips DeviceProgram::trips() const {
  const std::lock_guard lock(mutex_);
  return trips_;
}

DeviceProgram::Predicted DeviceProgram::predicted() const {
  {
    const std::lock_guard lock(mutex_);
    if (predicted_) return *predicted_;
  }
  Predicted made;
  try {
    made.summary = runtime::timed(*model_, trips());
  } catch (const Fault& fault) {
    // A loop whose trips depend on values has no time before it has run.
    made.why = fault.message();
  }
  const std::lock_guard lock(mutex_);
  predicted_ = made;
  return made;
}

trace::Trace DeviceProgram::timeline() const {
  trace::Recorder recorder;
  runtime::timed(*model_, trips(), &recorder);
  return recorder.take();
}

}  // namespace opentrn::pjrt
