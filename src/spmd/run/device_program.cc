#include "spmd/run/device_program.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "arch/arch.h"
#include "base/fault.h"
#include "model/runtime_model.h"
#include "runtime/timing.h"
#include "runtime/unwritten.h"
#include "spmd/run/wide_numbers.h"

namespace opentrn::spmd {

int64_t hbm_bytes_of_core(const runtime::Settings& settings) {
  return runtime::hbm_bytes_of_core(settings.generation, settings.physical_cores_per_core);
}

std::unique_ptr<DeviceProgram> compile_for_device(const graph::Module& module, const DeviceOptions& options) {
  expect_narrow_constants(module);
  Parts::SharedModel made = options.parts->model(module, [&] {
    compiler::Options given = options.compiler;
    given.donate_inputs = true;
    return model::model_of(compiler::compile(module, given), given.generation);
  });
  if (options.compiler.stochastic_rounding) {
    auto rounding = std::make_shared<runtime::Model>(*made);
    rounding->rounding = std::make_shared<runtime::StochasticRounding>(options.rounding_seed);
    made = std::move(rounding);
  }
  return std::make_unique<DeviceProgram>(std::move(made));
}

namespace {

bool is_updated_in_place(const runtime::Model& model, size_t input) {
  return std::any_of(model.outputs.begin(), model.outputs.end(), [&](const runtime::Port& output) {
    return output.tensor == model.inputs[input].tensor;
  });
}

std::shared_ptr<sim::Buffer> writable_copy(const sim::Buffer& from) {
  auto bytes = std::make_shared<std::vector<std::byte>>(from.data(), from.data() + from.bytes());
  return sim::Buffer::wrap(bytes->data(), from.bytes(), bytes);
}

// JAX shows no warnings of a plugin: they go where the plugin's other notes go.
void warn_of_unwritten(const runtime::Model& model, std::span<const std::shared_ptr<sim::Buffer>> outputs) {
  const auto found = runtime::unwritten_outputs(model, outputs);
  if (found.empty()) return;
  const char* const given = std::getenv("OPENTRN_UNWRITTEN");
  const std::string_view what = given == nullptr ? "warn" : given;
  if (what == "off") return;
  if (what == "error")
    throw Fault(FaultKind::kProgram, "model.unwritten", runtime::text_of(model, found.front()),
                "write the whole output, or look at the part that was written only");
  for (const auto& output : found) fmt::print(stderr, "opentrn: {}\n", runtime::text_of(model, output));
}

}  // namespace

std::vector<graph::Literal> DeviceProgram::run(std::span<const graph::Type> results,
                                               std::span<const graph::Literal> arguments) const {
  expect_narrow_arguments(arguments);
  std::vector<std::shared_ptr<sim::Buffer>> inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    inputs.push_back(model::device_buffer(arguments[i]));
    // The values of an argument may be somebody else's too.
    if (is_updated_in_place(*model_, i)) inputs.back() = writable_copy(*inputs.back());
  }
  runtime::LoopTrips trips;
  const auto outputs = runtime::execute(*model_, inputs, &trips);
  warn_of_unwritten(*model_, outputs);
  if (!trips.empty()) {
    const std::lock_guard lock(mutex_);
    trips_ = std::move(trips);
    predicted_.clear();
  }
  std::vector<graph::Literal> literals;
  for (size_t i = 0; i < outputs.size(); ++i) literals.push_back(model::host_literal(results[i], outputs[i]));
  return literals;
}

runtime::LoopTrips DeviceProgram::trips() const {
  const std::lock_guard lock(mutex_);
  return trips_;
}

DeviceProgram::Predicted DeviceProgram::predicted(int copies) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = predicted_.find(copies); found != predicted_.end()) return found->second;
  }
  Predicted made;
  try {
    made.times = runtime::port_times(*model_, trips(), copies);
  } catch (const Fault& fault) {
    // A loop whose trips depend on values has no time before it has run.
    made.why = fault.message();
  }
  const std::lock_guard lock(mutex_);
  return predicted_.insert_or_assign(copies, std::move(made)).first->second;
}

trace::Trace DeviceProgram::timeline() const { return runtime::timeline(*model_, trips()); }

}  // namespace opentrn::spmd
