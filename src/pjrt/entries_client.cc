#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "base/build_id.h"
#include "base/fnv1a.h"
#include "pjrt/element.h"
#include "pjrt/entries.h"
#include "pjrt/interrupts.h"
#include "runtime/host_ops.h"

namespace opentrn::pjrt {

namespace {

graph::Type type_of(abi::ElementType element, const int64_t* dims, size_t rank) {
  if (rank > 0) require(dims, "the list of dimensions");
  for (size_t d = 0; d < rank; ++d)
    if (dims[d] < 0)
      throw Fault(FaultKind::kInput, "pjrt.arguments", fmt::format("dimension {} is {}", d, dims[d]));
  return graph::Type::tensor(element_of(element), {dims, dims + rank});
}

Device* device_of(const Client* client, Device* device, Memory* memory) {
  Device* on = memory ? memory->device : device ? device : client->own_devices.front();
  if (!on->is_own)
    throw Fault(
        FaultKind::kInput, "pjrt.devices",
        fmt::format("an array for device {}, which is one of process {}", on->id, on->process),
        "put arrays on jax.local_devices(), or make them with jax.make_array_from_process_local_data");
  return on;
}

// One file per program, named by its content.
void dump(const std::string& folder, std::string_view code) {
  if (folder.empty()) return;
  std::filesystem::create_directories(folder);
  const auto file = std::filesystem::path(folder) / fmt::format("{:016x}.mlirbc", fnv1a(code));
  if (!std::ofstream(file, std::ios::binary).write(code.data(), static_cast<std::streamsize>(code.size())))
    throw Fault(FaultKind::kInput, "pjrt.dump", fmt::format("{} cannot be written", file.string()),
                "set OPENTRN_DUMP to a folder that can");
}

std::string_view name_of(const abi::NamedValue& option) { return {option.name, option.name_size}; }

// Of what the caller of the ABI knows; its errors become ours.
Store store_of(const abi::ClientCreate& args) {
  const auto get = reinterpret_cast<abi::KeyValueGetter>(args.kv_get);
  const auto put = reinterpret_cast<abi::KeyValuePutter>(args.kv_put);
  require(args.kv_get, "the store for keys of several processes");
  require(args.kv_put, "the store for keys of several processes");
  static abi::CallbackError error = [](abi::Code code, const char* message, size_t size) {
    return error_of({code, std::string(message, size)});
  };
  const auto check = [](Error* failed, const std::string& key) {
    if (failed == nullptr) return;
    const std::unique_ptr<Error> owned(failed);
    throw Fault(FaultKind::kInput, "pjrt.absent",
                fmt::format("JAX's coordinator has no '{}': {}", key, owned->status.message),
                "start all processes that jax.distributed.initialize() counts");
  };
  return {[get, user = args.kv_get_user, check](const std::string& key, std::chrono::milliseconds timeout) {
            abi::KeyValueGet ask{};
            ask.struct_size = sizeof ask;
            ask.key = key.data();
            ask.key_size = key.size();
            ask.timeout_ms = static_cast<int>(std::min<int64_t>(timeout.count(), INT32_MAX));
            ask.error_of = &error;
            ask.user = user;
            check(get(&ask), key);
            std::string value(ask.value, ask.value_size);
            if (ask.deleter) ask.deleter(ask.value);
            return value;
          },
          [put, user = args.kv_put_user, check](const std::string& key, const std::string& value) {
            abi::KeyValuePut ask{};
            ask.struct_size = sizeof ask;
            ask.key = key.data();
            ask.key_size = key.size();
            ask.value = value.data();
            ask.value_size = value.size();
            ask.error_of = &error;
            ask.user = user;
            check(put(&ask), key);
          }};
}

struct Place {
  int64_t process = 0, processes = 1;
  std::vector<std::string> shardy;  // the command of its child; empty: nobody says it
};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The options are those of JAX's distributed runtime, and "shardy": what starts Shardy's child, a word on
// each line (python/opentrn/jax/plugin.py). A client that took others without a word would ignore them. The
// store for keys says nothing of processes: jaxlib gives one to a single one, too.
Place place_of(const abi::ClientCreate& args) {
  if (args.option_count > 0) require(args.options, "the client's options");
  Place place;
  for (size_t i = 0; i < args.option_count; ++i) {
    const abi::NamedValue& option = args.options[i];
    const bool number = option.kind == abi::ValueKind::kInt64;
    if (number && name_of(option) == "num_nodes") {
      place.processes = option.int64;
    } else if (number && name_of(option) == "node_id") {
      place.process = option.int64;
    } else if (option.kind == abi::ValueKind::kString && name_of(option) == "shardy") {
      place.shardy = lines_of({option.string, option.size});
    } else if (!number || name_of(option) != "partition_index") {
      throw Fault(FaultKind::kInput, "pjrt.client_options",
                  fmt::format("the platform neuron has no option '{}'", name_of(option)),
                  "set its environment variables instead (docs/jax.md)");
    }
  }
  constexpr int64_t kMost = 4096;
  if (place.processes < 1 || place.processes > kMost || place.process < 0 || place.process >= place.processes)
    throw Fault(FaultKind::kInput, "pjrt.client_options",
                fmt::format("process {} of {}", place.process, place.processes),
                fmt::format("processes from 0 on, at most {}", kMost));
  return place;
}

// XLA's other form, "hlo_with_config", comes with options of which nothing here would be taken.
void check_format(const abi::Program& program) {
  const std::string_view format = {program.format, program.format_size};
  if (format != "mlir" && format != "hlo")
    throw Fault(FaultKind::kNotModelled, "pjrt.format",
                fmt::format("a program in the format '{}'; the formats are 'mlir' and 'hlo'", format),
                "give StableHLO as 'mlir'");
}

}  // namespace

void report(const Program& program) {
  if (!program.host_reason().empty())
    fmt::print(stderr, "opentrn: {} runs on the host, by the reference evaluator: {}\n", program.name(),
               program.host_reason());
  if (const DeviceProgram* device = program.device_program())
    for (const runtime::HostOp& op : runtime::host_ops(device->model()).calls)
      fmt::print(stderr, "opentrn: {} does on the host, by the reference evaluator: {} {}\n", program.name(),
                 op.ops, op.where.known() ? fmt::format("({}:{})", op.where.file, op.where.line) : op.result);
  if (!program.whole_reason().empty())
    fmt::print(stderr, "opentrn: one device computes {} for all of them: {}\n", program.name(),
               program.whole_reason().substr(0, program.whole_reason().find('\n')));
  if (!program.narrowing().empty())
    fmt::print(stderr, "opentrn: {} {}\n", program.name(), program.narrowing());
  static std::mutex one_at_a_time;
  static std::set<std::string> told;
  const std::lock_guard guard(one_at_a_time);
  for (const std::string& flag : program.flags_without_effect())
    if (told.insert(flag).second)
      fmt::print(stderr, "opentrn: the compiler option {} has no effect here\n", flag);
}

void client_create(abi::ClientCreate& args) {
  const Place place = place_of(args);
  hear_signals();
  spmd::Shardy::of_process().set_command(place.shardy);
  runtime::Settings settings = runtime::settings_of_environment();
  std::unique_ptr<Processes> processes;
  if (place.processes > 1)
    processes = std::make_unique<Processes>(
        static_cast<int>(place.process), static_cast<int>(place.processes), store_of(args),
        fmt::format("{} with {} physical cores a device, OpenTrn {}", settings.target,
                    settings.physical_cores_per_core, build_id()),
        settings.cores);
  args.client = new Client(std::move(settings), std::move(processes));
}
// The child of a fork leaves the client to its parent.
void client_destroy(abi::ClientArgs& args) {
  if (!args.client->forked()) delete args.client;
}
void client_platform_name(abi::ClientText& args) { give(args, kPlatform); }
void client_platform_version(abi::ClientText& args) { give(args, args.client->platform_version); }
void client_process_index(abi::ClientNumber& args) { args.number = args.client->process(); }

void client_devices(abi::ClientDevices& args) {
  args.devices = args.client->devices.data();
  args.count = args.client->devices.size();
}

void client_memories(abi::ClientMemories& args) {
  args.memories = args.client->memories.data();
  args.count = args.client->memories.size();
}

void client_lookup_device(abi::ClientLookup& args) {
  for (Device* device : args.client->devices)
    if (device->id == args.id) {
      args.device = device;
      return;
    }
  throw Fault(FaultKind::kInput, "pjrt.devices",
              fmt::format("there is no device {}; there are {}", args.id, args.client->devices.size()));
}

void client_lookup_addressable_device(abi::ClientLookup& args) {
  for (Device* device : args.client->own_devices)
    if (device->core == args.id) {
      args.device = device;
      return;
    }
  throw Fault(FaultKind::kInput, "pjrt.devices", fmt::format("no device has core {}", args.id));
}

void client_topology(abi::ClientTopology& args) { args.topology = &args.client->topology; }

void client_compile(abi::ClientCompile& args) {
  require(args.program, "the program");
  if (args.program->code_size > 0) require(args.program->code, "the program's code");
  if (args.program->format_size > 0) require(args.program->format, "the program's format");
  if (args.options_size > 0) require(args.options, "the compile options");
  args.client->expect_not_forked();
  check_format(*args.program);
  const Compilation under_way;
  dump(args.client->settings.dump_folder, {args.program->code, args.program->code_size});
  auto program = std::make_shared<const Program>(std::string(args.program->code, args.program->code_size),
                                                 std::string(args.options, args.options_size),
                                                 args.client->settings, args.client->shardy);
  report(*program);
  args.executable = new LoadedExecutable(args.client, std::move(program));
}

void client_load(abi::ClientLoad& args) {
  require(args.executable, "the executable");
  args.loaded = new LoadedExecutable(args.client, args.executable->program);
}

void client_default_assignment(abi::ClientDefaultAssignment& args) {
  const auto count = static_cast<size_t>(args.replicas) * static_cast<size_t>(args.partitions);
  if (count > args.client->devices.size() || count > args.size)
    throw Fault(FaultKind::kInput, "pjrt.devices",
                fmt::format("{} replicas of {} partitions do not fit {} devices", args.replicas,
                            args.partitions, args.client->devices.size()),
                "set NEURON_RT_NUM_CORES, or an instance as NEURON_PLATFORM_TARGET_OVERRIDE");
  if (count > 0) require(args.assignment, "the assignment");
  for (size_t i = 0; i < count; ++i) args.assignment[i] = args.client->devices[i]->id;
}

// Who is alive is seen at the connections.
void client_update_processes(abi::ClientUpdateProcesses&) {}

void client_own_devices(abi::ClientDevices& args) {
  args.devices = args.client->own_devices.data();
  args.count = args.client->own_devices.size();
}

void client_buffer_from_host(abi::ClientBufferFromHost& args) {
  args.client->expect_not_forked();
  const graph::Type type = type_of(args.type, args.dims, args.rank);
  if (type.byte_count() > 0) require(args.data, "the host's array");
  auto array = std::make_shared<Array>(device_of(args.client, args.device, args.memory), type,
                                       order_of(args.device_layout, type.rank()));
  array->set({type, read_host(args.data, type, {args.byte_strides, args.byte_stride_count})});
  args.buffer = new Buffer(std::move(array));
  args.done_with_host_buffer = new Event{Completion::already()};
}

void client_uninitialized_buffer(abi::ClientUninitialized& args) {
  args.client->expect_not_forked();
  const graph::Type type = type_of(args.type, args.dims, args.rank);
  auto array = std::make_shared<Array>(device_of(args.client, args.device, args.memory), type,
                                       order_of(args.layout, type.rank()));
  array->set({type, std::vector<std::byte>(static_cast<size_t>(type.byte_count()))});
  args.buffer = new Buffer(std::move(array));
}

void client_error_buffer(abi::ClientErrorBuffer& args) {
  auto array = std::make_shared<Array>(device_of(args.client, nullptr, args.memory),
                                       type_of(args.type, args.dims, args.rank),
                                       order_of(args.layout, static_cast<int64_t>(args.rank)));
  array->fail({args.code, std::string(args.message, args.message_size)});
  args.buffer = new Buffer(std::move(array));
}

// A client's topology lives as long as the client.
void topology_destroy(abi::TopologyArgs&) {}
void topology_platform_name(abi::TopologyText& args) { give(args, kPlatform); }
void topology_platform_version(abi::TopologyText& args) {
  give(args, args.topology->client->platform_version);
}

void topology_devices(abi::TopologyDevices& args) {
  args.devices = args.topology->client->devices.data();
  args.count = args.topology->client->devices.size();
}

void topology_attributes(abi::TopologyAttributes& args) {
  args.attributes = nullptr;
  args.count = 0;
}

void topology_fingerprint(abi::TopologyFingerprint& args) {
  args.fingerprint = std::hash<std::string>{}(
      fmt::format("{} {}", args.topology->client->platform_version, args.topology->client->devices.size()));
}

}  // namespace opentrn::pjrt
