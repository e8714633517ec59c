#include "python/sharded_bindings.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arch/arch.h"
#include "arch/evidence.h"
#include "base/fault.h"
#include "compiler/flags.h"
#include "device/presence.h"
#include "graph/element_type.h"
#include "python/model_bindings.h"
#include "python/program_call.h"
#include "python/unlocked.h"
#include "runtime/model_file.h"
#include "runtime/settings.h"
#include "spmd/one_device.h"
#include "spmd/run/cost.h"
#include "spmd/run/fastest_cuts.h"
#include "spmd/run/logical_core.h"
#include "spmd/run/sharded_file.h"
#include "spmd/run/sharded_model.h"
#include "spmd/run/torch_layers.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;
using spmd::ShardedModel;

namespace {

using ByteArray = nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>, nb::c_contig>;
using Dimensions = std::map<std::string, int64_t>;
using OptionNames = std::map<std::string, std::string>;
// (op, name of its schema, nodes that it reads, shape)
using TorchNodeRow = std::tuple<std::string, std::string, std::vector<size_t>, std::string>;

// (name, element, shape, sharding) of each.
nb::list ports(const std::vector<ShardedModel::Port>& ports) {
  nb::list list;
  for (const ShardedModel::Port& port : ports) {
    nb::list shape;
    for (const int64_t size : port.type.dims()) shape.append(size);
    list.append(nb::make_tuple(port.name, std::string(graph::name(port.type.element())), shape,
                               spmd::to_text(port.sharding, port.type.rank())));
  }
  return list;
}

nb::list run_model(const ShardedModel& self, const std::vector<ByteArray>& arrays) {
  std::vector<graph::Literal> arguments, results;
  {
    const Unlocked unlocked;
    for (size_t i = 0; i < arrays.size() && i < self.inputs().size(); ++i) {
      const auto* bytes = reinterpret_cast<const std::byte*>(arrays[i].data());
      arguments.emplace_back(self.inputs()[i].type, std::span(bytes, arrays[i].size()), nullptr);
    }
    results = self.run(arguments);
  }
  nb::list list;
  for (const graph::Literal& result : results) {
    const std::vector<std::byte> bytes = result.dense();
    list.append(nb::bytes(bytes.data(), bytes.size()));
  }
  return list;
}

// Arrays by address, row-major, each as long as its port says and kept by the caller. Without the interpreter
// lock.
void run_addresses(const ShardedModel& self, const void* const* inputs, void* const* outputs) {
  std::vector<graph::Literal> arguments;
  for (size_t i = 0; i < self.inputs().size(); ++i) {
    const graph::Type& type = self.inputs()[i].type;
    const auto bytes = static_cast<size_t>(type.element_count() * graph::storage_bytes(type.element()));
    arguments.emplace_back(type, std::span(static_cast<const std::byte*>(inputs[i]), bytes), nullptr);
  }
  // A result may be an argument's memory, and its place another argument's: first all are read, then written.
  std::vector<std::vector<std::byte>> results;
  for (const graph::Literal& result : self.run(arguments)) results.push_back(result.dense());
  for (size_t i = 0; i < results.size(); ++i)
    std::ranges::copy(results[i], static_cast<std::byte*>(outputs[i]));
}

void run_at(const ShardedModel& self, const std::vector<uintptr_t>& inputs,
            const std::vector<uintptr_t>& outputs, std::optional<int> core) {
  run_at_addresses(self.inputs().size(), self.outputs().size(), inputs, outputs, core,
                   [&](const void* const* from, void* const* to) { run_addresses(self, from, to); });
}

// As run_at(), for other extension modules (runtime/program_call.h).
int call_model(void* model, int core, const void* const* inputs, void* const* outputs) {
  return call_program(core,
                      [&] { run_addresses(*static_cast<const ShardedModel*>(model), inputs, outputs); });
}

nb::dict cost(const ShardedModel& self) {
  const spmd::Cost cost = [&] {
    const Unlocked unlocked;
    return self.cost();
  }();
  nb::dict row;
  row["device_us"] = cost.device_us;
  row["compute_us"] = cost.compute_us;
  row["collectives_us"] = cost.collectives_us;
  row["exposed_us"] = cost.exposed_us;
  row["tensor_flops"] = cost.tensor_flops;
  row["model_flops"] = cost.model_flops;
  row["hbm_bytes"] = cost.hbm_bytes;
  row["launch_us"] = cost.launch_us;
  row["instructions"] = cost.instructions;
  row["bound_by"] = cost.bound_by;
  row["why"] = cost.why;
  return row;
}

// Of all devices, where arguments lie in memory that they share: those once.
int64_t tensor_bytes(const ShardedModel& self) {
  int64_t bytes = self.devices() * (self.bytes_at_most() - self.argument_bytes());
  for (const auto* ports : {&self.inputs(), &self.weights()})
    for (const ShardedModel::Port& port : *ports) bytes += port.type.byte_count();
  return bytes;
}

// Of the parts; that of the collectives stands in their report.
std::string band(const ShardedModel& self) {
  return arch::to_text(
      arch::band(arch::default_tables(), {.generation = self.settings().generation, .model = true}));
}

nb::list collectives(const ShardedModel& self) {
  nb::list list;
  for (const ShardedModel::CollectiveSum& sum : self.collectives())
    list.append(nb::make_tuple(sum.name, sum.count, sum.bytes));
  return list;
}

std::shared_ptr<ShardedModel> sharded(const graph::Module& module, const std::string& target,
                                      const OptionNames& options, const std::string& mesh_text,
                                      const std::vector<std::string>& annotation_texts) {
  const spmd::Mesh mesh = spmd::parse_mesh(mesh_text);
  if (annotation_texts.size() == 1 && annotation_texts[0] == "auto") {
    const runtime::Settings settings = spmd::devices_of(target, mesh);
    return spmd::fastest_cuts(module, mesh, compiler::options_from(settings.generation, options), settings)
        .model;
  }
  std::vector<spmd::Annotation> annotations;
  for (const std::string& text : annotation_texts) annotations.push_back(spmd::parse_annotation(text));
  const runtime::Settings settings = spmd::devices_of(target, mesh);
  return std::make_shared<ShardedModel>(module, mesh, annotations,
                                        compiler::options_from(settings.generation, options), settings);
}

// (the model of a graph's text for a logical core as the environment has it, why one of its two physical
// cores computes). The model is a ShardedModel where both do, and "" where there is no second one.
nb::tuple compile_for_logical_core(const std::string& text, const std::filesystem::path& path,
                                   const std::string& target, const OptionNames& given) {
  std::shared_ptr<ShardedModel> on_both;
  std::string why;
  graph::Module module;
  {
    const Unlocked unlocked;
    module = module_of(text, path, {});
    const compiler::Options options = options_for(target, given);
    runtime::Settings settings = runtime::settings_of_environment();
    if (settings.generation != options.generation) settings.physical_cores_per_core = 1;
    on_both = spmd::model_on_both_cores(module, options, settings, why);
  }
  return on_both ? nb::make_tuple(on_both, why)
                 : nb::make_tuple(compile_for_one_core(module, target, given), why);
}

nb::object load_devices(const runtime::Artifact& artifact, const std::string& name) {
  std::shared_ptr<ShardedModel> model;
  {
    const Unlocked unlocked;
    model = spmd::sharded_model_of(artifact, name);
  }
  return nb::cast(model);
}

void save(const ShardedModel& self, const OptionNames& facts, const std::filesystem::path& path,
          unsigned permissions) {
  const Unlocked unlocked;
  runtime::save(spmd::artifact_of(self, facts), path.string(), runtime::Weights::kCopied, permissions);
}

}  // namespace

void bind_sharded_models(nb::module_& module) {
  load_devices_by(&load_devices);
  module.def("compile_for_logical_core", &compile_for_logical_core, "text"_a, "path"_a, "target"_a,
             "options"_a = OptionNames{});
  nb::class_<ShardedModel>(module, "ShardedModel")
      .def_prop_ro("inputs", [](const ShardedModel& self) { return ports(self.inputs()); })
      .def_prop_ro("outputs", [](const ShardedModel& self) { return ports(self.outputs()); })
      .def_prop_ro("weights", [](const ShardedModel& self) { return ports(self.weights()); })
      .def_prop_ro("control_inputs",
                   [](const ShardedModel& self) {
                     nb::list list;
                     for (const size_t number : self.control_inputs()) list.append(number);
                     return list;
                   })
      .def_prop_ro("choice", [](const ShardedModel& self) { return self.choice(); })
      .def_prop_ro("devices", &ShardedModel::devices)
      .def_prop_ro("host_reason", [](const ShardedModel& self) { return self.host_reason(); })
      .def_prop_ro("collectives", collectives)
      .def_prop_ro("part_count",
                   [](const ShardedModel& self) { return self.compiled().parts.outcomes().size(); })
      .def_prop_ro("argument_bytes", &ShardedModel::argument_bytes)
      .def_prop_ro("band", band)
      .def_prop_ro("narrowing", [](const ShardedModel& self) { return self.narrowing(); })
      .def_prop_ro("tensor_bytes", tensor_bytes)
      .def(
          "set_stochastic_rounding",
          [](ShardedModel& self, std::optional<uint64_t> seed) {
            if (seed) self.set_rounding_seed(*seed);
          },
          "seed"_a.none())
      .def("run", run_model, "arrays"_a)
      .def("run_at", &run_at, "inputs"_a, "outputs"_a, "core"_a = nb::none())
      // (the function, the model) for whoever calls it without Python; the object is to be kept alive.
      .def_prop_ro("call",
                   [](const ShardedModel& self) {
                     return nb::make_tuple(reinterpret_cast<uintptr_t>(&call_model),
                                           reinterpret_cast<uintptr_t>(&self));
                   })
      .def("cost", cost)
      .def("traffic",
           [](const ShardedModel& self) {
             const Unlocked unlocked;
             return self.traffic();
           })
      .def("local_text", &ShardedModel::local_text)
      .def("save", save, "facts"_a, "path"_a, "permissions"_a = 0666);
  module.def(
      "shard_model",
      [](const std::optional<std::string>& text, const std::filesystem::path& path, const std::string& target,
         const Dimensions& dimensions, const OptionNames& options, const std::string& mesh,
         const std::vector<std::string>& annotations) {
        const Unlocked unlocked;
        return sharded(module_of(text, path, dimensions), target, options, mesh, annotations);
      },
      "text"_a.none(), "path"_a, "target"_a, "dimensions"_a, "options"_a, "mesh"_a, "annotations"_a);
  module.def(
      "groups_of_mesh",
      [](const std::string& mesh, const std::vector<int64_t>& devices) {
        return spmd::groups_with(spmd::parse_mesh(mesh), devices);
      },
      "mesh"_a, "devices"_a,
      "The groups of devices along those axes of a mesh along which these, one of the groups, differ");
  module.def(
      "both_cores_us_min",
      [](const std::string& target, double device_us, double exposed_us, double hbm_bytes) {
        return spmd::both_cores_us_min(device_us, exposed_us, hbm_bytes, arch::resolve_target(target));
      },
      "target"_a, "device_us"_a, "exposed_us"_a, "hbm_bytes"_a,
      "What a run on one of two physical cores would take at least if both shared its compute evenly");
  module.def("devices_of_mesh", [](const std::string& mesh) {
    int64_t devices = 1;
    for (const spmd::Mesh::Axis& axis : spmd::parse_mesh(mesh).axes) devices *= axis.size;
    return devices;
  });
  module.def(
      "environment_weight_collectives",
      [] {
        const runtime::WeightCollectives read = runtime::settings_of_environment().weight_collectives;
        return nb::make_tuple(read.is_ordered, read.has_stream, read.layers_early, read.layers_late);
      },
      "AWS's variables of collectives of weights: (ordered by layers, in a stream of their own, layers "
      "early, "
      "layers late). ValueError for a value that a variable does not take.");
  module.def(
      "order_of_layers",
      [](const std::vector<TorchNodeRow>& rows, size_t early, size_t late) {
        std::vector<spmd::TorchNode> nodes;
        for (const auto& [kind, op, inputs, shape] : rows)
          nodes.push_back({kind == "placeholder" ? spmd::TorchNode::Kind::kArgument
                           : kind == "output"    ? spmd::TorchNode::Kind::kResult
                                                 : spmd::TorchNode::Kind::kCall,
                           op, inputs, shape});
        return spmd::order_of_layers(nodes, {early, late});
      },
      "nodes"_a, "early"_a, "late"_a,
      "The order of a graph's nodes with its gathers and scatters of weights so many layers away. nodes: "
      "(op, as "
      "torch.fx names it, name of the op's schema, numbers of the nodes that it reads, shape) of each.");
  module.def(
      "shard_graph",
      [](const graph::Module& graph, const std::string& target, const OptionNames& options,
         const std::string& mesh, const std::vector<std::string>& annotations) {
        const Unlocked unlocked;
        return sharded(graph, target, options, mesh, annotations);
      },
      "module"_a, "target"_a, "options"_a, "mesh"_a, "annotations"_a);
}

}  // namespace opentrn::python
