#include "runtime/model.h"

#include <functional>
#include <mutex>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/activity.h"
#include "base/fork.h"
#include "base/guarded_files.h"
#include "base/interrupt.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "runtime/accounting.h"
#include "runtime/host_ops.h"
#include "runtime/settings.h"
#include "runtime/unwritten.h"

namespace opentrn::runtime {

namespace {

// One for the process, which serves one caller at a time. Never destroyed: threads of a plugin may still run
// when static objects are.
ThreadPool& pool() {
  static ThreadPool& instance = *new ThreadPool(default_thread_count());
  return instance;
}
ForkSafeMutex pool_turn;

// Seeds and runs are small numbers: they are spread before they are added.
uint64_t seed_of_run(StochasticRounding& rounding) {
  return SplitMix64(SplitMix64(rounding.seed).next() + rounding.runs++).next();
}

// As results of kernels read: NaN, or -1.
void fill_unwritten(sim::Buffer& buffer) {
  for (int64_t i = 0; i < buffer.bytes(); ++i)
    if (buffer.initialised().test_none(i, 1)) buffer.data()[i] = std::byte{0xFF};
}

// Which input's memory holds the result: that of a donated input, updated in place.
std::optional<size_t> place_of(const Port& output, const Model& model) {
  for (size_t i = 0; i < model.inputs.size(); ++i)
    if (model.inputs[i].tensor == output.tensor) return i;
  return std::nullopt;
}

bool share_memory(const sim::Buffer& a, const sim::Buffer& b) {
  const std::less<const std::byte*> before;
  return before(a.data(), b.data() + b.bytes()) && before(b.data(), a.data() + a.bytes());
}

// The program to run: that of the model, or the one in which products read inputs and constants themselves,
// if those hold what they read when the run begins and nothing changes it. Under the lock of a run.
const isa::Program& program_to_run(const Model& model, const sim::Core& core,
                                   std::span<const std::shared_ptr<sim::Buffer>> outputs) {
  Prepared& prepared = *model.prepared;
  if (prepared.of != model.program)
    prepared = {.of = model.program, .direct = sim::direct_operands(*model.program)};
  const sim::DirectOperands& direct = prepared.direct;
  if (direct.program == nullptr) return *model.program;
  for (const isa::TensorId id : direct.sources) {
    const auto source = core.buffer(id);
    if (source == nullptr || !source->initialised().all()) return *model.program;
    for (const auto& output : outputs)
      if (share_memory(*source, *output)) return *model.program;
  }
  return *direct.program;
}

thread_local const sim::PrintCallback* t_prints = nullptr;

// Constants may lie in files, which are the user's to change.
std::set<const MappedFile*> files_of(const Model& model) {
  std::set<const MappedFile*> files;
  for (const ConstantData& constant : model.constants)
    if (const MappedFile* file = mapped_file_of(constant.bytes->data())) files.insert(file);
  return files;
}

}  // namespace

PrintScope::PrintScope(sim::PrintCallback callback) : callback_(std::move(callback)), outer_(t_prints) {
  t_prints = &callback_;
}
PrintScope::~PrintScope() { t_prints = outer_; }

int64_t Model::constant_bytes() const {
  int64_t bytes = 0;
  for (const ConstantData& constant : constants) bytes += constant.bytes->bytes();
  return bytes;
}

std::vector<std::shared_ptr<sim::Buffer>> execute(const Model& model,
                                                  std::span<const std::shared_ptr<sim::Buffer>> inputs,
                                                  LoopTrips* trips, std::span<void* const> places) {
  if (inputs.size() != model.inputs.size())
    throw Fault(FaultKind::kInput, "model.inputs",
                fmt::format("{} inputs for a model that takes {}", inputs.size(), model.inputs.size()));
  const GuardedFiles files(files_of(model));
  prepare_host_ops();
  const auto turn = interrupt::lock(pool_turn);
  Accounted accounted(model);
  sim::CheckOptions checks;
  checks.core_races = core_races_of_environment();
  checks.limit_loops(loop_limit_of_environment());
  sim::Core core(model.generation, &pool(), checks);
  core.remember_in(&model.prepared->memory);
  if (t_prints != nullptr) core.set_print_callback(*t_prints);
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
  for (size_t i = 0; i < model.outputs.size(); ++i) {
    const Port& port = model.outputs[i];
    if (const auto input = place_of(port, model)) {
      if (!inputs[*input]->writable())
        throw Fault(FaultKind::kInput, "model.donated_input",
                    fmt::format("input {} ({}) is updated in place and lies in memory that is only read",
                                *input, model.inputs[*input].name),
                    "hand over memory of the run's own");
      outputs.push_back(inputs[*input]);
      continue;
    }
    const int64_t bytes = model.device_bytes(port);
    outputs.push_back(!places.empty() && places[i] != nullptr
                          ? sim::Buffer::wrap(places[i], bytes, nullptr, /*initialised=*/false)
                          : sim::Buffer::allocate(bytes));
    if (const isa::Tensor& tensor = model.program->tensor(port.tensor); tensor.filled) {
      outputs.back()->fill_fresh(tensor.dtype);
      outputs.back()->mark_all_initialised();
    }
    core.bind(port.tensor, outputs.back());
  }
  {
    const Activity activity("executing instructions", static_cast<int64_t>(model.program->size()));
    try {
      core.run(program_to_run(model, core, outputs));
    } catch (const Fault& fault) {
      accounted.failed(fault.kind());
      files.expect_unchanged();  // what was read instead may be why
      throw;
    }
    files.expect_unchanged();
  }
  for (const UnwrittenOutput& output : unwritten_outputs(model, outputs))
    fill_unwritten(*outputs[output.number]);
  accounted.completed(core.trip_counts());
  if (trips) *trips = core.trip_counts();
  return outputs;
}

}  // namespace opentrn::runtime
