#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "pjrt/entries.h"

namespace opentrn::pjrt {

namespace {

// Text that the caller frees.
template <typename Record>
void give_owned(Record& args, std::string text) {
  auto* owner = new std::string(std::move(text));
  args.bytes = owner->data();
  args.size = owner->size();
  args.owner = owner;
  args.deleter = [](void* mine) { delete static_cast<std::string*>(mine); };
}

void give_shardings(abi::ExecutableShardings& args, const Texts& shardings) {
  args.count = shardings.pointers.size();
  args.shardings = shardings.pointers.data();
  args.sizes = shardings.sizes.data();
}

int64_t bytes_of(const std::vector<graph::Type>& types) {
  int64_t bytes = 0;
  for (const graph::Type& type : types) bytes += type.byte_count();
  return bytes;
}

// HBM of a program that is neither its arguments nor its results.
int64_t temporary_bytes(const isa::Program& program) {
  int64_t bytes = 0;
  for (isa::TensorId id = 0; id < program.tensor_count(); ++id)
    if (const isa::Tensor& tensor = program.tensor(id);
        tensor.space == isa::MemorySpace::kHbm && !tensor.is_input && !tensor.is_output)
      bytes += tensor.bytes();
  return bytes;
}

std::vector<const DeviceProgram*> device_programs(const Program& program) {
  std::vector<const DeviceProgram*> devices;
  if (program.device_program()) devices.push_back(program.device_program());
  if (program.parallel())
    for_stages(program.parallel()->stages(), [&](const ParallelProgram::Stage& stage) {
      if (stage.program) devices.push_back(stage.program);
    });
  return devices;
}

// XLA's host transfers (send, recv) come to the program as functions of the caller's.
void refuse_transfers(const abi::ExecuteOptions& options, const std::string& name) {
  if (options.send_count == 0 && options.receive_count == 0) return;
  throw Fault(FaultKind::kNotModelled, "pjrt.host_transfers",
              fmt::format("{} is called with {} send and {} receive callbacks", name, options.send_count,
                          options.receive_count),
              "host callbacks as jax.pure_callback and jax.experimental.io_callback make them");
}

// Instructions have no public encoding. These are the bytes of a program as OpenTrn holds it.
int64_t code_bytes(const isa::Program& program) {
  size_t operands = 0;
  for (const isa::Instruction& instruction : program.instructions()) operands += instruction.operand_count;
  return static_cast<int64_t>(program.size() * sizeof(isa::Instruction) + operands * sizeof(isa::Operand) +
                              program.attribute_word_count() * sizeof(isa::AttributeWord));
}

}  // namespace

void executable_destroy(abi::ExecutableArgs& args) { delete args.executable; }
void executable_name(abi::ExecutableText& args) { give(args, args.executable->program->name()); }
void executable_fingerprint(abi::ExecutableText& args) {
  give(args, args.executable->program->fingerprint());
}

void executable_replicas(abi::ExecutableNumber& args) {
  args.number = static_cast<size_t>(args.executable->program->options().replicas);
}
void executable_partitions(abi::ExecutableNumber& args) {
  args.number = static_cast<size_t>(args.executable->program->options().partitions);
}
void executable_outputs(abi::ExecutableNumber& args) { args.number = args.executable->output_types.size(); }

void executable_code_size(abi::ExecutableNumber& args) {
  args.number = 0;
  for (const DeviceProgram* device : device_programs(*args.executable->program))
    args.number += static_cast<size_t>(code_bytes(*device->model().program));
}

void executable_costs(abi::ExecutableCost& args) {
  const NamedValues& costs = args.executable->costs();
  args.properties = costs.data();
  args.count = costs.size();
}

void executable_memory_stats(abi::ExecutableMemoryStats& args) {
  const Program& program = *args.executable->program;
  const abi::Args header = args;
  Executable* const executable = args.executable;
  args = {};
  static_cast<abi::Args&>(args) = header;
  args.executable = executable;
  args.argument = bytes_of(program.inputs());
  args.output = bytes_of(program.outputs());
  for (const size_t i : program.donated()) args.alias += program.inputs()[i].byte_count();
  // Parts of a program run one after the other.
  for (const DeviceProgram* device : device_programs(program)) {
    args.temporary = std::max(args.temporary, temporary_bytes(*device->model().program));
    args.code += device->model().constant_bytes();
  }
  args.total = args.argument + args.output + args.temporary + args.code;
  // Between its parts, a program of several devices also keeps what later ones read.
  args.peak = program.parallel() ? program.parallel()->bytes_at_most() : args.total;
  args.total_allocated = args.total;
}

void executable_output_types(abi::ExecutableElementTypes& args) {
  args.types = args.executable->output_types.data();
  args.count = args.executable->output_types.size();
}

void executable_output_dims(abi::ExecutableDimensions& args) {
  args.count = args.executable->output_ranks.size();
  args.dims = args.executable->output_dims.data();
  args.ranks = args.executable->output_ranks.data();
}

void executable_output_memory_kinds(abi::ExecutableMemoryKinds& args) {
  args.count = args.executable->output_memory_kinds.size();
  args.kinds = args.executable->output_memory_kinds.data();
  args.sizes = args.executable->output_memory_kind_sizes.data();
}

// What one device runs, as StableHLO: jaxlib makes HLO of it.
void executable_optimized(abi::ExecutableOptimized& args) {
  require(args.program, "the program to fill");
  constexpr std::string_view kFormat = "mlir";
  const std::string text = args.executable->program->local_text();
  args.program->format = kFormat.data();
  args.program->format_size = kFormat.size();
  if (args.program->code)
    std::memcpy(args.program->code, text.data(), std::min(text.size(), args.program->code_size));
  args.program->code_size = text.size();
}

void executable_serialize(abi::ExecutableSerialized& args) {
  give_owned(args, args.executable->program->serialised());
}

void executable_deserialize(abi::ExecutableDeserialize& args) {
  require(args.bytes, "the serialised executable");
  args.client->expect_not_forked();
  auto program = Program::deserialised({args.bytes, args.size}, args.client->settings, args.client->shardy);
  report(*program);
  args.loaded = new LoadedExecutable(args.client, std::move(program));
}

void loaded_destroy(abi::LoadedArgs& args) { delete args.executable; }
void loaded_executable(abi::LoadedExecutableOf& args) {
  args.executable = new Executable(args.loaded->executable.program);
}

void loaded_devices(abi::LoadedDevices& args) {
  args.devices = args.executable->own_devices.data();
  args.count = args.executable->own_devices.size();
}

void loaded_logical_ids(abi::LoadedLogicalIds& args) {
  args.ids = args.executable->logical_ids.data();
  args.count = args.executable->logical_ids.size();
}

void loaded_assignment(abi::LoadedSerialized& args) {
  const CompileOptions& options = args.executable->executable.program->options();
  std::vector<int> ids;
  for (const Device* device : args.executable->devices) ids.push_back(device->id);
  give_owned(args, device_assignment(options.replicas, options.partitions, ids));
}

void loaded_delete(abi::LoadedArgs& args) { args.executable->deleted = true; }
void loaded_is_deleted(abi::LoadedFlag& args) { args.flag = args.executable->deleted; }
void loaded_fingerprint(abi::LoadedText& args) {
  give(args, args.executable->executable.program->fingerprint());
}

void loaded_execute(abi::Execute& args) {
  LoadedExecutable& loaded = *args.executable;
  if (loaded.deleted) throw Fault(FaultKind::kInput, "pjrt.deleted", "the executable has been deleted");
  const std::vector<Device*> devices = args.device ? std::vector<Device*>{args.device} : loaded.own_devices;
  if (args.devices != devices.size())
    throw Fault(FaultKind::kInput, "pjrt.execute",
                fmt::format("{} is compiled for {} devices and called on {}",
                            loaded.executable.program->name(), devices.size(), args.devices));
  loaded.client->expect_not_forked();
  require(args.options, "the options");
  refuse_transfers(*args.options, loaded.executable.program->name());
  require(args.arguments, "the list of arguments");
  require(args.outputs, "the list of outputs");
  for (size_t i = 0; i < args.devices; ++i)
    for (size_t k = 0; k < args.argument_count; ++k)
      require(args.arguments[i][k], fmt::format("argument {}", k).c_str());
  std::vector<std::span<Buffer* const>> arguments;
  for (size_t i = 0; i < args.devices; ++i) arguments.push_back({args.arguments[i], args.argument_count});
  std::shared_ptr<Completion> complete;
  if (args.complete) complete = std::make_shared<Completion>();
  const auto results = loaded.execute(
      devices, arguments, {args.options->non_donatable, args.options->non_donatable_count}, complete);
  for (size_t i = 0; i < args.devices; ++i) {
    std::copy(results[i].begin(), results[i].end(), args.outputs[i]);
    if (args.complete) args.complete[i] = new Event{complete};
  }
}

void executable_parameter_shardings(abi::ExecutableShardings& args) {
  give_shardings(args, args.executable->parameter_shardings);
}
void executable_output_shardings(abi::ExecutableShardings& args) {
  give_shardings(args, args.executable->output_shardings);
}

}  // namespace opentrn::pjrt
