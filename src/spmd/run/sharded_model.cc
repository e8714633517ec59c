#include "spmd/run/sharded_model.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "arch/arch.h"
#include "arch/core_features.h"
#include "arch/timing_table.h"
#include "base/fault.h"
#include "collectives/predict.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/narrowing.h"
#include "graph/control_arguments.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "spmd/core_pairs.h"
#include "spmd/one_device.h"
#include "spmd/run/step_traffic.h"

namespace opentrn::spmd {

using graph::Literal;
using graph::Type;
using graph::ValueId;
using runtime::Settings;

namespace {

constexpr int64_t kElementsShown = 16;

int64_t devices_in(const Mesh& mesh) {
  int64_t devices = 1;
  for (const Mesh::Axis& axis : mesh.axes) devices *= axis.size;
  return devices;
}

// The axis "core" is that of the physical cores of a logical one, which are then the devices.
bool has_core_axis(const Mesh& mesh) {
  return std::ranges::any_of(mesh.axes, [](const Mesh::Axis& axis) { return axis.name == "core"; });
}

void check_core_axis(const Mesh& mesh, Generation generation) {
  const Mesh::Axis& last = mesh.axes.back();
  const auto cores = static_cast<int64_t>(arch::timing(generation).constant("hbm_cores_per_stack"));
  if (arch::core_features(generation).logical_cores && last.name == "core" && last.size <= cores) return;
  throw Fault(
      FaultKind::kInput, "spmd.mesh",
      fmt::format(
          "the axis 'core' is that of the {} physical cores of a logical one, on generations that have "
          "such; the mesh has {} of {} as its last axis, on {}",
          cores, last.name, last.size, table_key(generation)),
      "write it last, tp=4,core=2, with trn2 or later as the target, or call the axis something else");
}

Literal dense(const Literal& literal) {
  return literal.is_splat() ? Literal(literal.type(), literal.dense()) : literal;
}

}  // namespace

Settings devices_of(const std::string& target, const Mesh& mesh, std::optional<int> physical_cores) {
  const auto variable = [&](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) == "NEURON_PLATFORM_TARGET_OVERRIDE") return target;
    if (std::string_view(name) != "NEURON_LOGICAL_NC_CONFIG") return std::nullopt;
    if (physical_cores) return std::to_string(*physical_cores);
    if (has_core_axis(mesh)) return "1";
    const char* lnc = std::getenv(name);
    return lnc ? std::optional<std::string>(lnc) : std::nullopt;
  };
  Settings settings = runtime::read_settings(variable);
  const arch::Tables& tables = arch::default_tables();
  if (has_core_axis(mesh)) check_core_axis(mesh, settings.generation);
  const int64_t devices = devices_in(mesh);
  const auto too_many = [&](const std::string& what) {
    throw Fault(FaultKind::kInput, "spmd.devices", fmt::format("the mesh has {} devices: {}", devices, what),
                "a smaller mesh, or a larger instance as the target (opentrn ls)");
  };
  const bool is_machine =
      tables.find_instance(target) != nullptr || tables.find_ultraserver(target) != nullptr;
  if (is_machine && devices > static_cast<int64_t>(settings.cores.size()))
    too_many(fmt::format("{} has {} logical cores", target, settings.cores.size()));
  try {
    const auto ranks = static_cast<int>(devices);
    const fabric::Platform platform =
        collectives::machine_of(tables, target, settings.generation, ranks, settings.physical_cores_per_core);
    (void)collectives::place_ranks(platform, ranks, settings.physical_cores_per_core, 0);
  } catch (const Fault& fault) {
    too_many(fault.message());
  }
  settings.cores.clear();
  for (int core = 0; core < devices; ++core) settings.cores.push_back(core);
  return settings;
}

ShardedModel::ShardedModel(const graph::Module& module, const Mesh& mesh,
                           std::span<const Annotation> annotations, compiler::Options options,
                           const Settings& settings)
    : grid_(mesh), settings_(settings) {
  graph::verify(module);
  const graph::Function flat = compiler::inline_calls(module, module.entry());
  cut(module, flat, stated_by(annotations, module, flat, grid_));
  compile(module, flat, std::move(options));
}

ShardedModel::ShardedModel(const graph::Module& module, const Mesh& mesh, Stated cuts,
                           compiler::Options options, const Settings& settings, std::string choice)
    : grid_(mesh), settings_(settings) {
  compiled_.choice = std::move(choice);
  graph::verify(module);
  const graph::Function flat = compiler::inline_calls(module, module.entry());
  cut(module, flat, cuts);
  compile(module, flat, std::move(options));
}

ShardedModel::ShardedModel(const graph::Module& module, const Mesh& mesh, SpmdModule local,
                           compiler::Options options, const Settings& settings, std::string choice)
    : grid_(mesh), settings_(settings) {
  compiled_.choice = std::move(choice);
  compiled_.local = std::move(local);
  compile(module, compiler::inline_calls(module, module.entry()), std::move(options));
}

void ShardedModel::cut(const graph::Module& module, const graph::Function& flat, const Stated& stated) {
  compiled_.is_of_one_device = is_of_one_device(flat);
  if (compiled_.is_of_one_device) {
    compiled_.local = of_one_device(module, flat, grid_, stated);
  } else {
    std::vector<const Cuts*> results;
    for (const std::optional<Cuts>& cuts : stated.results) results.push_back(cuts ? &*cuts : nullptr);
    compiled_.local = partition(module, flat, grid_, stated.values, results);
    if (has_core_axis(grid_.mesh()) && grid_.mesh().axes.back().size == kCoresOfPair)
      mark_exchanges_inside(compiled_.local.module.entry(), devices());
  }
}

void ShardedModel::compile(const graph::Module& module, const graph::Function& flat,
                           compiler::Options options) {
  compiled_.name = module.name.empty() ? module.entry().name : module.name;
  graph::verify(compiled_.local.module);
  narrowing_ = compiler::to_text(compiler::narrowing(module));
  name_ports(module, flat);
  compiled_.control_inputs = graph::control_arguments(module.entry());
  compiled_.parts = Parts::with_fingerprints();
  compiled_.rounds_stochastically = options.stochastic_rounding;
  options.hbm_bytes_of_core = hbm_bytes_of_core(settings_);
  build(options);
  if (options.strict && !host_reason().empty())
    throw Fault(FaultKind::kNotModelled, "compiler.no_lowering", host_reason());
}

ShardedModel::ShardedModel(const Mesh& mesh, const Settings& settings, Compiled compiled)
    : grid_(mesh), settings_(settings), compiled_(std::move(compiled)) {
  compiler::Options options;
  options.generation = settings.generation;
  options.stochastic_rounding = compiled_.rounds_stochastically;
  build(options);
}

void ShardedModel::build(const compiler::Options& options, uint64_t rounding_seed) {
  const SpmdModule& local = compiled_.local;
  held_.assign(static_cast<size_t>(devices()), {});
  for (int64_t device = 0; device < devices(); ++device)
    for (const HeldConstant& constant : local.constants)
      held_[static_cast<size_t>(device)].push_back(part_of(constant.whole, constant.sharding, device));
  DeviceOptions device_options;
  device_options.compiler = options;
  device_options.parts = &compiled_.parts;
  device_options.rounding_seed = rounding_seed;
  program_ = std::make_unique<ParallelProgram>(local.module, local.module.entry(), devices(), device_options);
}

void ShardedModel::set_rounding_seed(uint64_t seed) {
  if (!compiled_.rounds_stochastically) return;
  compiled_.parts = Parts(compiled_.parts.outcomes(), compiled_.name);
  compiler::Options options;
  options.generation = settings_.generation;
  options.stochastic_rounding = true;
  build(options, seed);
}

void ShardedModel::name_ports(const graph::Module& module, const graph::Function& flat) {
  const TensorNames names = names_of(module, flat);
  const auto port = [&](const std::string& name, ValueId value, const Sharding& sharding) -> Port {
    const Type& type = flat.type(value);
    return {name, compiled_.is_of_one_device ? whole_of(type, sharding) : type, sharding};
  };
  for (size_t i = 0; i < names.arguments.size(); ++i)
    compiled_.inputs.push_back(port(names.arguments[i], flat.arguments()[i], compiled_.local.inputs[i]));
  for (size_t i = 0; i < names.results.size(); ++i)
    compiled_.outputs.push_back(port(names.results[i], flat.returned()[i], compiled_.local.outputs[i]));
  for (const HeldConstant& constant : compiled_.local.constants)
    compiled_.weights.push_back({constant.name, constant.whole.type(), constant.sharding});
}

std::vector<Literal> ShardedModel::run(std::span<const Literal> arguments) const {
  if (arguments.size() != inputs().size())
    throw Fault(FaultKind::kInput, "spmd.input",
                fmt::format("the model takes {} inputs, {} were given", inputs().size(), arguments.size()));
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!(arguments[i].type() == inputs()[i].type))
      throw Fault(FaultKind::kInput, "spmd.input",
                  fmt::format("{} is {}, not {}", inputs()[i].name, inputs()[i].type.to_string(),
                              arguments[i].type().to_string()));
  std::vector<ParallelProgram::Values> by_device(static_cast<size_t>(devices()));
  for (size_t device = 0; device < by_device.size(); ++device) {
    for (size_t i = 0; i < arguments.size(); ++i)
      by_device[device].push_back(
          {dense(part_of(arguments[i], inputs()[i].sharding, static_cast<int64_t>(device)))});
    for (const Literal& literal : held_[device]) by_device[device].push_back({literal});
  }
  const auto results = program_->run(by_device);
  std::vector<Literal> whole;
  for (size_t i = 0; i < outputs().size(); ++i) {
    std::vector<Literal> parts;
    for (const auto& of_device : results) parts.push_back(dense(of_device[i].literal()));
    whole.push_back(joined(parts, outputs()[i].type, outputs()[i].sharding));
    if (compiled_.is_of_one_device) check_copies(outputs()[i], whole.back(), parts);
  }
  return whole;
}

void ShardedModel::check_copies(const Port& result, const Literal& whole,
                                std::span<const Literal> parts) const {
  for (size_t device = 0; device < parts.size(); ++device) {
    if (dense(part_of(whole, result.sharding, static_cast<int64_t>(device))).dense() == parts[device].dense())
      continue;
    throw Fault(
        FaultKind::kInput, "spmd.result",
        fmt::format("result {} is taken to be the same on every device that has the same part of it, and "
                    "device {} has other values",
                    result.name, device),
        fmt::format("say how it lies, --shard {}=AXIS where each device has a part of its own", result.name));
  }
}

std::optional<traffic::Traffic> ShardedModel::traffic() const {
  return traffic_of(*program_, compiled_.name, settings_);
}

std::vector<ShardedModel::CollectiveSum> ShardedModel::collectives() const {
  std::map<std::string, CollectiveSum> sums;
  for_stages(program_->stages(), [&](const ParallelProgram::Stage& stage) {
    if (!stage.collective) return;
    CollectiveSum& sum = sums[stage.collective->name];
    sum.name = stage.collective->name.substr(stage.collective->name.find('.') + 1);
    ++sum.count;
    sum.bytes += stage.collective->bytes;
  });
  std::vector<CollectiveSum> list;
  for (auto& [name, sum] : sums) list.push_back(std::move(sum));
  return list;
}

int64_t ShardedModel::argument_bytes() const {
  int64_t bytes = 0;
  for (const Type& type : program_->argument_types())
    if (type.is_tensor()) bytes += type.byte_count();
  return bytes;
}

std::string ShardedModel::local_text() const {
  return graph::print_module(compiled_.local.module, {.elide_larger = kElementsShown});
}

}  // namespace opentrn::spmd
