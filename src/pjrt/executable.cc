#include "pjrt/executable.h"

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "device/presence.h"
#include "pjrt/element.h"
#include "pjrt/layouts.h"
#include "pjrt/op_sharding.h"
#include "pjrt/process_rendezvous.h"
#include "pjrt/timeline.h"
#include "spmd/core_pairs.h"
#include "trace/trace.h"

namespace opentrn::pjrt {

namespace {

using Arrays = std::vector<std::vector<std::shared_ptr<Array>>>;  // by device

int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

struct Call {
  std::shared_ptr<const Program> program;
  Arrays arguments, results;
  std::shared_ptr<Completion> complete;
  Usage* usage;
  std::vector<int> cores;  // by device
  // Where several processes run the program: which of its devices `arguments` and `results` are of.
  Processes* processes = nullptr;
  std::vector<int> process_of = {};
  std::vector<size_t> own = {};
  std::string place = {};  // "jit_f (0123456789abcdef), call 3"

  void finish(const Completion::Outcome& outcome) const {
    if (outcome)
      for (const auto& of_device : results)
        for (const auto& result : of_device) result->fail(*outcome);
    if (complete) complete->set(outcome);
  }

  std::vector<std::vector<graph::Literal>> run_with_others(
      std::vector<std::vector<graph::Literal>> values) const {
    std::vector<std::vector<graph::Literal>> all(process_of.size());
    for (size_t i = 0; i < own.size(); ++i) all[own[i]] = std::move(values[i]);
    ProcessRendezvous rendezvous(*processes, process_of, place);
    auto results = program->run(std::move(all), &rendezvous);
    std::vector<std::vector<graph::Literal>> made;
    for (const size_t at : own) made.push_back(std::move(results[at]));
    return made;
  }

  // What a program hands through has the bytes of its argument; not where somebody has a pointer to them.
  void keep_from_pointers(std::vector<std::vector<graph::Literal>>& made) const {
    std::set<const std::byte*> pointers;
    for (const auto& of_device : arguments)
      for (const auto& argument : of_device)
        if (argument->has_pointer()) pointers.insert(argument->pointer());
    if (pointers.empty()) return;
    for (auto& of_device : made)
      for (graph::Literal& result : of_device)
        if (pointers.contains(result.bytes().data())) result = graph::Literal(result.type(), result.dense());
  }

  // By device of the program that runs, which may be a physical core.
  std::vector<int> cores_of_program() const {
    if (program->both_cores_way().empty()) return cores;
    std::vector<int> all;
    for (const int core : cores) all.insert(all.end(), static_cast<size_t>(spmd::kCoresOfPair), core);
    return all;
  }

  void run() const {
    try {
      interrupt::poll();  // before it copies anything
      std::vector<std::vector<graph::Literal>> values;
      for (const auto& of_device : arguments) {
        std::vector<graph::Literal>& each = values.emplace_back();
        for (const auto& argument : of_device) {
          if (const auto& failed = argument->ready->wait()) return finish(failed);
          each.push_back(argument->value());
        }
      }
      Timeline& timeline = Timeline::instance();
      if (timeline.wanted()) timeline.add(program, cores, unix_ns());
      const std::vector<int> of_program = cores_of_program();
      const device::CoresScope cores_scope(of_program);
      const device::CoreScope core_scope(cores.front());
      const auto began = std::chrono::steady_clock::now();
      std::vector<std::vector<graph::Literal>> made =
          processes ? run_with_others(std::move(values)) : program->run(std::move(values));
      const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
      program->took(took);
      if (usage->wanted()) usage->add(program, results.size(), std::chrono::duration<double>(took).count());
      keep_from_pointers(made);
      for (size_t device = 0; device < results.size(); ++device)
        for (size_t i = 0; i < results[device].size(); ++i)
          results[device][i]->set(std::move(made[device][i]));
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
  for (size_t i = 0; i < arguments.size(); ++i)
    if (const MinorToMajor& want = program.layouts().arguments[i]; arguments[i]->minor_to_major != want)
      throw Fault(FaultKind::kInput, "pjrt.execute",
                  fmt::format("argument {} of {} lies as {}, not as {}", i, program.name(),
                              to_text(arguments[i]->minor_to_major), to_text(want)),
                  "put it into the layout that the program was compiled for (jax.device_put)");
}

bool is_kept(std::span<const int64_t> keep, size_t i) {
  return std::find(keep.begin(), keep.end(), static_cast<int64_t>(i)) != keep.end();
}

bool are_ready(const Arrays& arguments) {
  return std::ranges::all_of(arguments, [](const auto& of_device) {
    return std::ranges::all_of(of_device, [](const auto& array) { return array->ready->done(); });
  });
}

// What is given away is given once.
void check_donated(const Program& program, const Arrays& arguments, std::span<const int64_t> keep) {
  for (const size_t i : program.donated())
    for (const auto& of_device : arguments)
      for (size_t j = 0; j < of_device.size() && !is_kept(keep, i); ++j)
        if (j != i && of_device[j] == of_device[i])
          throw Fault(
              FaultKind::kInput, "pjrt.donated",
              fmt::format("argument {} of {} is donated, and is argument {} too", i, program.name(), j),
              "give a copy of it, or do not donate it");
}

std::vector<std::string> serialised(const std::vector<Sharding>& shardings,
                                    const std::vector<graph::Type>& types, int64_t devices) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < shardings.size(); ++i)
    texts.push_back(op_sharding(shardings[i], types[i].rank(), devices));
  return texts;
}

}  // namespace

Texts::Texts(std::vector<std::string> from) : texts(std::move(from)) {
  for (const std::string& text : texts) {
    pointers.push_back(text.data());
    sizes.push_back(text.size());
  }
}

MemoryLayouts::MemoryLayouts(const std::vector<MinorToMajor>& orders) {
  for (const MinorToMajor& order : orders) {
    layouts.push_back(std::make_unique<MemoryLayout>(to_text(order)));
    pointers.push_back(layouts.back().get());
  }
}

Executable::Executable(std::shared_ptr<const Program> from)
    : program(std::move(from)),
      parameter_shardings(
          serialised(program->input_shardings(), program->inputs(), program->options().partitions)),
      output_shardings(
          serialised(program->output_shardings(), program->outputs(), program->options().partitions)),
      parameter_layouts(program->layouts().arguments),
      output_layouts(program->layouts().results) {
  for (const graph::Type& type : program->outputs()) {
    output_types.push_back(abi_type_of(type.element()));
    output_ranks.push_back(static_cast<size_t>(type.rank()));
    output_dims.insert(output_dims.end(), type.dims().begin(), type.dims().end());
    output_memory_kinds.push_back(kMemoryKind.data());
    output_memory_kind_sizes.push_back(kMemoryKind.size());
  }
}

namespace {

// Where the time of a program goes, or of the longest part of one of many devices.
void tell_where(NamedValues& told, const spmd::Cost& cost) {
  for (int i = 0; i < trace::kResourceCount; ++i)
    if (const double us = cost.critical_us[static_cast<size_t>(i)]; us > 0)
      told.add(fmt::format("critical path seconds: {}", trace::name(static_cast<trace::Resource>(i))),
               us / 1e6);
  for (int i = 0; i < isa::kEngineCount; ++i) {
    const trace::EngineTotals& engine = cost.engines[static_cast<size_t>(i)];
    if (engine.instructions == 0) continue;
    const std::string_view name = isa::name(static_cast<isa::Engine>(i));
    told.add(fmt::format("instructions: {}", name), engine.instructions);
    told.add(fmt::format("busy seconds: {}", name), engine.busy_ns / 1e9);
  }
  told.add("DMA descriptors", cost.descriptors);
  told.add("DMA bytes", cost.descriptor_bytes);
}

}  // namespace

const NamedValues& Executable::costs() {
  const std::lock_guard lock(costs_mutex_);
  if (costs_known_) return costs_.back();
  const spmd::Cost cost = program->cost();
  costs_known_ = cost.compute_us.has_value();
  if (!costs_known_ && !costs_.empty()) return costs_.back();
  NamedValues& told = costs_.emplace_back();
  if (cost.on_device) {
    told.add("flops", cost.model_flops);
    told.add("instructions", cost.instructions);
  }
  if (!cost.compute_us) {
    told.add("why there is no optimal_seconds", cost.why);
    return told;
  }
  told.add("bytes accessed", cost.hbm_bytes);
  told.add("tensor engine flops", cost.tensor_flops);
  told.add("optimal_seconds", *cost.device_us / 1e6);
  tell_where(told, cost);
  if (cost.collectives_us && *cost.collectives_us > 0) {
    told.add("estimated seconds of collectives", *cost.collectives_us / 1e6);
    told.add("exposed seconds of collectives", cost.exposed_us / 1e6);
  }
  if (cost.gathered_bytes > 0) told.add("bytes of gathered weights", cost.gathered_bytes);
  return told;
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
    if (!devices.back()->is_own) continue;
    own.push_back(i);
    own_devices.push_back(devices.back());
    logical_ids.push_back(
        {static_cast<int>(i) / options.partitions, static_cast<int>(i) % options.partitions});
  }
}

std::vector<std::vector<Buffer*>> LoadedExecutable::execute(
    std::span<Device* const> on, std::span<const std::span<Buffer* const>> arguments,
    std::span<const int64_t> keep, std::shared_ptr<Completion> complete) {
  const Program& program = *executable.program;
  Call call{executable.program, {}, {}, std::move(complete), &client->usage, {}};
  for (const Device* device : on) call.cores.push_back(device->core);
  if (own.size() < devices.size()) {
    call.processes = client->processes.get();
    for (const Device* device : devices) call.process_of.push_back(device->process);
    call.own = own;
    call.place = fmt::format("{} ({}), call {}", program.name(), program.code_digest(), program.next_call());
  }
  for (size_t device = 0; device < on.size(); ++device) {
    check_arguments(program, arguments[device]);
    auto& of_device = call.arguments.emplace_back();
    for (const Buffer* argument : arguments[device]) of_device.push_back(argument->live());
  }
  check_donated(program, call.arguments, keep);
  for (Device* device : on) {
    auto& of_device = call.results.emplace_back();
    for (size_t i = 0; i < program.outputs().size(); ++i)
      of_device.push_back(
          std::make_shared<Array>(device, program.outputs()[i], program.layouts().results[i]));
  }
  for (const size_t i : program.donated())
    if (!is_kept(keep, i))
      for (const auto& of_device : arguments) of_device[i]->remove();
  std::vector<std::vector<Buffer*>> results;
  for (const auto& of_device : call.results) {
    std::vector<Buffer*>& each = results.emplace_back();
    for (const auto& array : of_device) each.push_back(new Buffer(array));
  }
  const bool now = !call.processes && on.size() == 1 && program.is_short() && are_ready(call.arguments);
  auto task = [call = std::move(call)] { call.run(); };
  if (now)
    client->worker->run_or_add(std::move(task));
  else
    client->worker->add(std::move(task));
  return results;
}

}  // namespace opentrn::pjrt
