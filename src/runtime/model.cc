#include "runtime/model.h"

#include <mutex>

#include <fmt/format.h>

#include "base/random.h"
#include "base/thread_pool.h"
#include "runtime/host_ops.h"
#include "runtime/settings.h"

namespace opentrn::runtime {

namespace {

// One for the process, which serves one caller at a time. Never destroyed: threads of a plugin may still run
// when static objects are.
ThreadPool& pool() {
  static ThreadPool& instance = *new ThreadPool(default_thread_count());
  return instance;
}
std::mutex pool_turn;

// Seeds and runs are small numbers: they are spread before they are added.
uint64_t seed_of_run(StochasticRounding& rounding) {
  return SplitMix64(SplitMix64(rounding.seed).next() + rounding.runs++).next();
}

}  // namespace

int64_t Model::constant_bytes() const {
  int64_t bytes = 0;
  for (const ConstantData& constant : constants) bytes += constant.bytes->bytes();
  return bytes;
}

std::vector<std::shared_ptr<sim::Buffer>> execute(const Model& model,
                                                  std::span<const std::shared_ptr<sim::Buffer>> inputs,
                                                  LoopTrips* trips) {
  if (inputs.size() != model.inputs.size())
    throw Fault(FaultKind::kInput, "model.inputs",
                fmt::format("{} inputs for a model that takes {}", inputs.size(), model.inputs.size()));
  prepare_host_ops();
  std::lock_guard turn(pool_turn);
  sim::CheckOptions checks;
  checks.core_races = core_races_of_environment();
  sim::Core core(static_cast<int>(model.generation), &pool(), checks);
  if (model.rounding) core.set_stochastic_rounding(seed_of_run(*model.rounding));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Port& port = model.inputs[i];
    if (inputs[i]->bytes() != model.device_bytes(port))
      throw Fault(FaultKind::kInput, "model.inputs",
                  fmt::format("input {} ({}) has {} bytes; it takes {}", i, port.name, inputs[i]->bytes(),
                              model.device_bytes(port)));
    core.bind(port.tensor, inputs[i]);
  }
  for (const ConstantData& constant : model.constants) core.bind(constant.tensor, constant.bytes);
  std::vector<std::shared_ptr<sim::Buffer>> outputs;
  for (const Port& port : model.outputs) {
    outputs.push_back(sim::Buffer::allocate(model.device_bytes(port)));
    if (const isa::Tensor& tensor = model.program->tensor(port.tensor); tensor.filled) {
      outputs.back()->fill_fresh(tensor.dtype);
      outputs.back()->mark_all_initialised();
    }
    core.bind(port.tensor, outputs.back());
  }
  core.run(*model.program);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i]->initialised().all())
      throw Fault(
          FaultKind::kInternal, "model.outputs",
          fmt::format("the program wrote {} of the {} bytes of output {} ({})",
                      outputs[i]->initialised().count(), outputs[i]->bytes(), i, model.outputs[i].name),
          "please report this model");
  if (trips) *trips = core.trip_counts();
  return outputs;
}

}  // namespace opentrn::runtime
