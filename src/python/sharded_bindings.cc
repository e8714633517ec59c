#include "python/sharded_bindings.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arch/arch.h"
#include "arch/evidence.h"
#include "compiler/flags.h"
#include "graph/element_type.h"
#include "python/model_bindings.h"
#include "python/unlocked.h"
#include "runtime/model_file.h"
#include "spmd/one_device.h"
#include "spmd/run/fastest_cuts.h"
#include "spmd/run/sharded_file.h"
#include "spmd/run/sharded_model.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;
using spmd::ShardedModel;

namespace {

using ByteArray = nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>, nb::c_contig>;
using Dimensions = std::map<std::string, int64_t>;
using OptionNames = std::map<std::string, std::string>;

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

nb::list run(const ShardedModel& self, const std::vector<ByteArray>& arrays) {
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
  row["instructions"] = cost.instructions;
  row["bound_by"] = cost.bound_by;
  row["why"] = cost.why;
  return row;
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

void save(const ShardedModel& self, const OptionNames& facts, const std::filesystem::path& path,
          unsigned permissions) {
  const Unlocked unlocked;
  runtime::save(spmd::artifact_of(self, facts), path.string(), runtime::Weights::kCopied, permissions);
}

}  // namespace

void bind_sharded_models(nb::module_& module) {
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
      .def("run", run, "arrays"_a)
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
  module.def("devices_of_mesh", [](const std::string& mesh) {
    int64_t devices = 1;
    for (const spmd::Mesh::Axis& axis : spmd::parse_mesh(mesh).axes) devices *= axis.size;
    return devices;
  });
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
