#include "pjrt/executable.h"

#include <algorithm>

#include <fmt/format.h>

#include "pjrt/element.h"

namespace opentrn::pjrt {

namespace {

struct Call {
  std::shared_ptr<const Program> program;
  std::vector<std::shared_ptr<Array>> arguments, results;
  std::shared_ptr<Completion> complete;

  void finish(const Completion::Outcome& outcome) const {
    if (outcome)
      for (const auto& result : results) result->fail(*outcome);
    if (complete) complete->set(outcome);
  }

  void run() const {
    try {
      std::vector<graph::Literal> values;
      for (const auto& argument : arguments) {
        if (const auto& failed = argument->ready->wait()) return finish(failed);
        values.push_back(argument->value);
      }
      std::vector<graph::Literal> made = program->run(values);
      for (size_t i = 0; i < results.size(); ++i) results[i]->set(std::move(made[i]));
      finish(std::nullopt);
    } catch (...) {
      finish(status_of_exception());
    }
  }
};

void check_arguments(const Program& program, std::span<Buffer* const> arguments) {
  if (arguments.size() != program.inputs().size())
    throw Fault(FaultKind::kInput, "pjrt.execute",
                fmt::format("{} takes {} arguments, not {}", program.name(), program.inputs().size(),
                            arguments.size()));
  for (size_t i = 0; i < arguments.size(); ++i)
    if (const graph::Type& want = program.inputs()[i]; want.is_static() && !(arguments[i]->type == want))
      throw Fault(FaultKind::kInput, "pjrt.execute",
                  fmt::format("argument {} of {} is {}, not {}", i, program.name(), want.to_string(),
                              arguments[i]->type.to_string()));
}

}  // namespace

Executable::Executable(std::shared_ptr<const Program> from) : program(std::move(from)) {
  for (const graph::Type& type : program->outputs()) {
    output_types.push_back(abi_type_of(type.element()));
    output_ranks.push_back(static_cast<size_t>(type.rank()));
    output_dims.insert(output_dims.end(), type.dims().begin(), type.dims().end());
    output_memory_kinds.push_back(kMemoryKind.data());
    output_memory_kind_sizes.push_back(kMemoryKind.size());
  }
  if (const runtime::Model* model = program->device_model())
    costs.add("instructions", static_cast<int64_t>(model->program->size()));
}

LoadedExecutable::LoadedExecutable(Client* of, std::shared_ptr<const Program> program)
    : client(of), executable(std::move(program)) {
  const CompileOptions& options = executable.program->options();
  const size_t count = static_cast<size_t>(options.replicas) * static_cast<size_t>(options.partitions);
  for (size_t i = 0; i < count; ++i) {
    const size_t id = options.devices.empty() ? i : static_cast<size_t>(options.devices[i]);
    if (id >= client->devices.size())
      throw Fault(FaultKind::kInput, "pjrt.devices",
                  fmt::format("{} is compiled for device {}; there are {}", executable.program->name(), id,
                              client->devices.size()),
                  "set NEURON_RT_NUM_CORES, or an instance as NEURON_PLATFORM_TARGET_OVERRIDE");
    devices.push_back(client->devices[id]);
    logical_ids.push_back(
        {static_cast<int>(i) / options.partitions, static_cast<int>(i) % options.partitions});
  }
}

std::vector<Buffer*> LoadedExecutable::execute(Device* device, std::span<Buffer* const> arguments,
                                               std::span<const int64_t> keep,
                                               std::shared_ptr<Completion> complete) {
  const Program& program = *executable.program;
  check_arguments(program, arguments);
  Call call{executable.program, {}, {}, std::move(complete)};
  for (const Buffer* argument : arguments) call.arguments.push_back(argument->live());
  for (const graph::Type& type : program.outputs())
    call.results.push_back(std::make_shared<Array>(device, type));
  for (const size_t i : program.donated())
    if (std::find(keep.begin(), keep.end(), static_cast<int64_t>(i)) == keep.end())
      arguments[i]->array.reset();
  std::vector<Buffer*> results;
  for (const auto& array : call.results) results.push_back(new Buffer(array));
  client->worker.add([call = std::move(call)] { call.run(); });
  return results;
}

}  // namespace opentrn::pjrt
