#include "python/model_bindings.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arch/price.h"
#include "arch/tables.h"
#include "compiler/compile.h"
#include "compiler/flags.h"
#include "compiler/padding.h"
#include "compiler/taps.h"
#include "deploy/deploy.h"
#include "graph/text/text.h"
#include "import/load.h"
#include "import/onnx/onnx.h"
#include "import/onnx/stages.h"
#include "import/onnx/tensor.h"
#include "isa/text.h"
#include "python/timing_bindings.h"
#include "runtime/host_ops.h"
#include "runtime/model.h"
#include "runtime/model_file.h"
#include "runtime/settings.h"
#include "sim/functional/custom_op.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using ByteArray = nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>, nb::c_contig>;
using compiler::CompiledModule;
using runtime::Model;

// The model and the types of its ports, which convert what goes in and out.
struct LoadedModel {
  Model model;
  compiler::PassCounts passes;
  std::vector<graph::Type> input_types, output_types;
  std::optional<runtime::LoopTrips> trips;  // of the last run
};

std::span<const std::byte> bytes_of(const ByteArray& array) {
  return {reinterpret_cast<const std::byte*>(array.data()), array.size()};
}

nb::bytes host_bytes(const graph::Type& type, const std::shared_ptr<sim::Buffer>& buffer) {
  const graph::Literal value = deploy::host_literal(type, buffer);
  return nb::bytes(value.bytes().data(), value.bytes().size());
}

std::shared_ptr<LoadedModel> loaded(const CompiledModule& compiled, arch::Generation generation) {
  auto result = std::make_shared<LoadedModel>();
  result->passes = compiled.passes;
  result->model = deploy::model_of(compiled, generation);
  for (const compiler::Port& from : compiled.inputs) result->input_types.push_back(from.type);
  for (const compiler::Port& from : compiled.outputs) result->output_types.push_back(from.type);
  return result;
}

using Dimensions = std::map<std::string, int64_t>;

// Text that was handed over, or a file of any format; `dimensions` are those that an ONNX model leaves open.
graph::Module module_of(const std::optional<std::string>& text, const std::string& path,
                        const Dimensions& dimensions) {
  sim::load_custom_ops_of_environment();
  if (text) return graph::parse_module(*text, path);
  if (std::filesystem::path(path).extension() == ".onnx")
    return import::onnx::import_file(path, {.dimensions = dimensions, .constants = {}});
  return import::load_file(path);
}

using OptionNames = std::map<std::string, std::string>;

std::shared_ptr<LoadedModel> compile_model(const std::optional<std::string>& text, const std::string& path,
                                           const std::string& target, const Dimensions& dimensions,
                                           const OptionNames& options) {
  nb::gil_scoped_release unlocked;
  const arch::Generation generation = arch::resolve_target(target);
  return loaded(
      compiler::compile(module_of(text, path, dimensions), compiler::options_from(generation, options)),
      generation);
}

std::string prepared_text(const std::optional<std::string>& text, const std::string& path,
                          const std::string& target, const Dimensions& dimensions,
                          const OptionNames& options) {
  nb::gil_scoped_release unlocked;
  return graph::print_module(compiler::prepare(
      module_of(text, path, dimensions), compiler::options_from(arch::resolve_target(target), options)));
}

nb::dict describe(const compiler::PassCounts& passes) {
  nb::dict row;
  row["casts"] = passes.casts;
  row["simplified"] = passes.simplified;
  row["folded"] = passes.folded;
  row["shared"] = passes.shared;
  row["attention"] = passes.attention;
  row["activations"] = passes.activations;
  row["integer_weights"] = passes.integer_weights;
  row["channels_first"] = passes.turned;
  row["prologues"] = passes.prologues;
  row["weights_quantised"] = passes.weights.count;
  row["weights_bytes_before"] = passes.weights.bytes_before;
  row["weights_bytes_after"] = passes.weights.bytes_after;
  row["weights_left_small"] = passes.weights.small;
  row["weights_left_shared"] = passes.weights.shared;
  row["weights_left_not_finite"] = passes.weights.not_finite;
  row["weights_left_unfit"] = passes.weights.unfit;
  row["weights_left_not_sparse"] = passes.weights.not_sparse;
  return row;
}

std::vector<graph::Type> types_of(const std::vector<runtime::Port>& ports) {
  std::vector<graph::Type> types;
  for (const runtime::Port& port : ports) {
    const auto element = graph::element_type_from_name(port.element);
    if (!element)
      throw Fault(FaultKind::kInput, "model_file",
                  fmt::format("{} is of unknown type {}", port.name, port.element));
    types.push_back(graph::Type::tensor(*element, port.shape));
  }
  return types;
}

using Facts = std::map<std::string, std::string>;

// (facts, [(dimensions, model)], {name: attached file})
nb::tuple load_models(const std::string& path) {
  sim::load_custom_ops_of_environment();
  runtime::Artifact artifact = runtime::load_artifact(path);
  nb::list buckets;
  for (runtime::Bucket& bucket : artifact.buckets) {
    auto result = std::make_shared<LoadedModel>();
    result->model = std::move(bucket.model);
    result->input_types = types_of(result->model.inputs);
    result->output_types = types_of(result->model.outputs);
    buckets.append(nb::make_tuple(bucket.dimensions, result));
  }
  nb::dict attachments;
  for (const runtime::Attachment& attachment : artifact.attachments)
    attachments[attachment.name.c_str()] = std::make_shared<runtime::Attachment>(attachment);
  return nb::make_tuple(artifact.facts, buckets, attachments);
}

using AttachmentPtr = std::shared_ptr<runtime::Attachment>;

AttachmentPtr attach(const std::string& name, const std::string& path) {
  const auto file = import::onnx::MappedFile::open(path);
  const auto bytes = file->bytes();
  const auto place = import::onnx::file_place(bytes.data());
  return std::make_shared<runtime::Attachment>(
      runtime::Attachment{name,
                          {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                          file,
                          place ? place->path.string() : ""});
}

// The ONNX model `model`, with its files of external data by their paths beside it.
std::shared_ptr<import::onnx::Stage> stages_of(const AttachmentPtr& model,
                                               const std::map<std::string, AttachmentPtr>& files,
                                               const Dimensions& dimensions) {
  sim::load_custom_ops_of_environment();
  const nb::gil_scoped_release unlocked;
  const auto bytes_of = [](const runtime::Attachment& attachment) {
    return std::as_bytes(std::span(attachment.bytes.data(), attachment.bytes.size()));
  };
  import::onnx::Options options{.dimensions = dimensions, .constants = {}, .files = {}};
  for (const auto& [name, file] : files) options.files[name] = {bytes_of(*file), file->owner};
  // nanobind's holders are of types without const; nothing changes a stage.
  return std::const_pointer_cast<import::onnx::Stage>(
      import::onnx::first_stage(bytes_of(*model), model->owner, "", options));
}

void save_models(const std::vector<std::shared_ptr<LoadedModel>>& models,
                 const std::vector<Dimensions>& dimensions, const Facts& facts, const std::string& path,
                 bool reference_weights, const std::vector<AttachmentPtr>& attachments) {
  const nb::gil_scoped_release unlocked;
  runtime::Artifact artifact{{}, facts, {}};
  for (const AttachmentPtr& attachment : attachments) artifact.attachments.push_back(*attachment);
  for (size_t i = 0; i < models.size(); ++i) artifact.buckets.push_back({dimensions.at(i), models[i]->model});
  runtime::save(artifact, path,
                reference_weights ? runtime::Weights::kReferenced : runtime::Weights::kCopied);
}

// Whole numbers of 64 bits that 32 do not hold: a fault, rather than another number.
void check_range(const runtime::Port& port, graph::ElementType element, std::span<const std::byte> bytes) {
  const auto check = [&]<typename Wide, typename Narrow>(Wide, Narrow) {
    for (size_t at = 0; at < bytes.size(); at += sizeof(Wide)) {
      Wide value;
      std::memcpy(&value, bytes.data() + at, sizeof(Wide));
      if (static_cast<Wide>(static_cast<Narrow>(value)) != value)
        throw Fault(FaultKind::kInput, "model.range",
                    fmt::format("{} of {}[{}] does not fit the 32 bits that the device has for {}", value,
                                port.name, at / sizeof(Wide), port.element),
                    "keep whole numbers below 2^31 on the device");
    }
  };
  if (element == graph::ElementType::kI64) check(int64_t{}, int32_t{});
  if (element == graph::ElementType::kUI64) check(uint64_t{}, uint32_t{});
}

std::shared_ptr<sim::Buffer> input_buffer(const LoadedModel& model, size_t i,
                                          std::span<const std::byte> bytes) {
  const graph::Type& type = model.input_types[i];
  if (!compiler::same_on_device(type.element())) check_range(model.model.inputs[i], type.element(), bytes);
  return deploy::device_buffer(type, bytes);
}

nb::list run(LoadedModel& self, const std::vector<ByteArray>& arrays) {
  std::vector<std::shared_ptr<sim::Buffer>> inputs, outputs;
  for (size_t i = 0; i < arrays.size() && i < self.input_types.size(); ++i)
    inputs.push_back(input_buffer(self, i, bytes_of(arrays[i])));
  {
    nb::gil_scoped_release unlocked;
    runtime::LoopTrips trips;
    outputs = runtime::execute(self.model, inputs, &trips);
    self.trips = std::move(trips);
  }
  nb::list results;
  for (size_t i = 0; i < outputs.size(); ++i) results.append(host_bytes(self.output_types[i], outputs[i]));
  return results;
}

// Arrays by address, row-major, each as long as its port says and kept by the caller: what a call of a
// compiled PyTorch graph costs is dominated by everything else.
void run_at(LoadedModel& self, const std::vector<uintptr_t>& inputs, const std::vector<uintptr_t>& outputs) {
  if (inputs.size() != self.input_types.size() || outputs.size() != self.output_types.size())
    throw Fault(
        FaultKind::kInput, "model.arguments",
        fmt::format("the program has {} inputs and {} results; {} and {} were given", self.input_types.size(),
                    self.output_types.size(), inputs.size(), outputs.size()));
  const nb::gil_scoped_release unlocked;
  std::vector<std::shared_ptr<sim::Buffer>> buffers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const graph::Type& type = self.input_types[i];
    const std::span bytes(reinterpret_cast<const std::byte*>(inputs[i]),
                          static_cast<size_t>(type.element_count() * storage_bytes(type.element())));
    buffers.push_back(input_buffer(self, i, bytes));
  }
  runtime::LoopTrips trips;
  const auto results = runtime::execute(self.model, buffers, &trips);
  self.trips = std::move(trips);
  for (size_t i = 0; i < results.size(); ++i) {
    const graph::Literal value = deploy::host_literal(self.output_types[i], results[i]);
    std::ranges::copy(value.bytes(), reinterpret_cast<std::byte*>(outputs[i]));
  }
}

nb::list describe(const std::vector<runtime::Port>& ports) {
  nb::list rows;
  for (const runtime::Port& port : ports) {
    nb::list shape;
    for (const int64_t dim : port.shape) shape.append(dim);
    rows.append(nb::make_tuple(port.name, port.element, shape));
  }
  return rows;
}

nb::list coverage_of(const graph::Module& module) {
  nb::list rows;
  for (const compiler::OpCoverage& row : compiler::coverage(module))
    rows.append(nb::make_tuple(row.op, row.count, row.unsupported, row.example, row.emulated, row.flops,
                               row.where.file, row.where.line, row.where.function));
  return rows;
}

nb::list coverage(const std::optional<std::string>& text, const std::string& path,
                  const Dimensions& dimensions) {
  return coverage_of(module_of(text, path, dimensions));
}

std::shared_ptr<LoadedModel> compile_graph(const graph::Module& module, const std::string& target,
                                           const OptionNames& given, bool recognise) {
  const nb::gil_scoped_release unlocked;
  const arch::Generation generation = arch::resolve_target(target);
  compiler::Options options = compiler::options_from(generation, given);
  options.recognise = recognise;
  return loaded(compiler::compile(module, options), generation);
}

graph::Module prepare(const std::optional<std::string>& text, const std::string& path,
                      const std::string& target, const Dimensions& dimensions, const OptionNames& options) {
  const nb::gil_scoped_release unlocked;
  return compiler::prepare(module_of(text, path, dimensions),
                           compiler::options_from(arch::resolve_target(target), options));
}

graph::Module prepare_graph(const graph::Module& module, const std::string& target,
                            const OptionNames& options) {
  const nb::gil_scoped_release unlocked;
  return compiler::prepare(module, compiler::options_from(arch::resolve_target(target), options));
}

// ([(result, axis)], what mixes): prove_padding() for (argument, axis) pairs.
nb::tuple prove_padding(const graph::Module& module,
                        const std::vector<std::tuple<size_t, int64_t>>& arguments) {
  std::vector<compiler::PortAxis> axes;
  for (const auto& [port, axis] : arguments) axes.push_back({port, axis});
  const compiler::PaddingProof proof = compiler::prove_padding(module, axes);
  nb::list results;
  for (const compiler::PortAxis& at : proof.results) results.append(nb::make_tuple(at.port, at.axis));
  return nb::make_tuple(results, proof.mixing);
}

// {"taps": [(kind, file, line, name, type, element, judgement, terms)], "whole": module, ...}
nb::dict tap(const graph::Module& module) {
  constexpr std::string_view kJudgements[] = {"exact", "rounded", "function", "sum", "unknown"};
  compiler::Taps taps = compiler::tap(module);
  nb::list rows;
  for (const compiler::Tap& row : taps.taps)
    rows.append(nb::make_tuple(row.kind, row.where.file, row.where.line, row.where.function,
                               row.type.to_string(), std::string(graph::name(row.type.element())),
                               std::string(kJudgements[static_cast<size_t>(row.judgement)]), row.terms));
  nb::dict result;
  result["taps"] = rows;
  result["result_count"] = taps.result_count;
  result["whole"] = std::move(taps.whole);
  result["alone"] = std::move(taps.alone);
  result["functions"] = std::move(taps.functions);
  result["magnitudes"] = std::move(taps.magnitudes);
  return result;
}

}  // namespace

void bind_models(nb::module_& module) {
  nb::class_<LoadedModel>(module, "LoadedModel")
      .def_prop_ro("inputs", [](const LoadedModel& self) { return describe(self.model.inputs); })
      .def_prop_ro("outputs", [](const LoadedModel& self) { return describe(self.model.outputs); })
      .def_prop_ro("instruction_count", [](const LoadedModel& self) { return self.model.program->size(); })
      .def_prop_ro("passes", [](const LoadedModel& self) { return describe(self.passes); })
      .def_prop_ro("kernel_count", [](const LoadedModel& self) { return self.model.origin.kernel_count(); })
      .def_prop_ro("op_count", [](const LoadedModel& self) { return self.model.origin.ops.size(); })
      .def_prop_ro("weight_files",
                   [](const LoadedModel& self) {
                     std::map<std::string, int64_t> bytes;
                     for (const runtime::ConstantData& constant : self.model.constants)
                       if (!constant.file.empty()) bytes[constant.file] += constant.bytes->bytes();
                     return bytes;
                   })
      .def_prop_ro("host_ops",
                   [](const LoadedModel& self) {
                     const runtime::HostOps found = runtime::host_ops(self.model);
                     nb::list rows;
                     for (const runtime::HostOp& op : found.calls)
                       rows.append(nb::make_tuple(op.ops, op.result, op.where.file, op.where.line,
                                                  op.where.function, op.flops, op.bytes));
                     return nb::make_tuple(rows, found.model_flops, found.memory_bytes);
                   })
      .def_prop_ro("constant_bytes", [](const LoadedModel& self) { return self.model.constant_bytes(); })
      .def("run", &run, "inputs"_a)
      .def("run_at", &run_at, "inputs"_a, "outputs"_a)
      .def_prop_ro("tensor_bytes",
                   [](const LoadedModel& self) {
                     int64_t bytes = 0;
                     for (isa::TensorId id = 0; id < self.model.program->tensor_count(); ++id)
                       if (const isa::Tensor& tensor = self.model.program->tensor(id); is_hbm(tensor.space))
                         bytes += tensor.bytes();
                     return bytes;
                   })
      .def(
          "set_stochastic_rounding",
          [](LoadedModel& self, std::optional<uint64_t> seed) {
            self.model.rounding = seed ? std::make_shared<runtime::StochasticRounding>(*seed) : nullptr;
          },
          "seed"_a.none())
      .def(
          "time",
          [](const LoadedModel& self, const std::vector<std::string>& settings,
             std::optional<int64_t> loop_iterations) {
            return time_program(self.model.program, self.model.generation, settings, self.model.origin,
                                self.trips ? &*self.trips : nullptr, loop_iterations);
          },
          "settings"_a = std::vector<std::string>{}, "loop_iterations"_a = nb::none())
      .def_prop_ro("generation",
                   [](const LoadedModel& self) { return static_cast<int>(self.model.generation); })
      .def("listing", [](const LoadedModel& self) { return isa::to_text(*self.model.program); });
  module.def("compile_model", &compile_model, "text"_a.none(), "path"_a, "target"_a,
             "dimensions"_a = Dimensions{}, "options"_a = OptionNames{});
  // (options of compile_model, the stated target or "", options that change nothing here)
  module.def(
      "compiler_flags",
      [](const std::string& text) {
        const compiler::CompilerFlags flags = compiler::parse_compiler_flags(text);
        return std::tuple(flags.options, flags.target, flags.without_effect);
      },
      "text"_a);
  module.def("prepared_text", &prepared_text, "text"_a.none(), "path"_a, "target"_a,
             "dimensions"_a = Dimensions{}, "options"_a = OptionNames{});
  module.def("load_models", &load_models, "path"_a);
  module.def("save_models", &save_models, "models"_a, "dimensions"_a, "facts"_a, "path"_a,
             "reference_weights"_a = false, "attachments"_a = std::vector<AttachmentPtr>{});
  nb::class_<runtime::Attachment>(module, "Attachment")
      .def_ro("name", &runtime::Attachment::name)
      .def_ro("path", &runtime::Attachment::path)
      .def_prop_ro("bytes", [](const runtime::Attachment& self) { return self.bytes.size(); });
  module.def("attach", &attach, "name"_a, "path"_a);
  module.def("onnx_stages_of", &stages_of, "model"_a, "files"_a, "dimensions"_a);
  module.def("coverage_of", &coverage_of, "module"_a);
  module.def(
      "external_files",
      [](const std::string& path) {
        std::vector<std::string> files;
        for (const auto& file : import::onnx::external_files(path)) files.push_back(file.string());
        return files;
      },
      "path"_a);
  module.def("compile_graph", &compile_graph, "module"_a, "target"_a, "options"_a = OptionNames{},
             "recognise"_a = true);
  module.def("prepare", &prepare, "text"_a.none(), "path"_a, "target"_a, "dimensions"_a, "options"_a);
  module.def("prepare_graph", &prepare_graph, "module"_a, "target"_a, "options"_a);
  module.def("difference_but_for_size", &compiler::difference_but_for_size, "smaller"_a, "larger"_a);
  module.def("prove_padding", &prove_padding, "module"_a, "arguments"_a);
  module.def("tap", &tap, "module"_a);
  module.def("peak_tflops", [](const std::string& target, const std::string& dtype) {
    return arch::neuron_core(arch::resolve_target(target)).peak_tflops.at(dtype).value();
  });
  module.def(
      "usd_per_core_hour",
      [](const std::string& target, int physical_cores_per_core) {
        return arch::usd_per_core_hour(arch::default_tables(), target, physical_cores_per_core);
      },
      "target"_a, "physical_cores_per_core"_a = 1);
  // Settings of a program as the environment states them. ValueError for a value that a variable does not
  // take.
  module.def("environment_settings", [] {
    const runtime::Settings settings = runtime::settings_of_environment();
    nb::dict row;
    row["target"] = settings.target;
    row["cores"] = settings.cores;
    row["physical_cores_per_core"] = settings.physical_cores_per_core;
    row["strict"] = settings.strict;
    row["check"] = settings.check;
    row["rounds_stochastically"] = settings.rounds_stochastically;
    row["rounding_seed"] = settings.rounding_seed;
    return row;
  });
  module.def("environment_core_races", &runtime::core_races_of_environment);
  module.def("environment_rounding", [] {
    const runtime::RoundingSettings settings = runtime::rounding_of_environment();
    return nb::make_tuple(settings.enabled, settings.seed);
  });
  module.def("is_model_file", &runtime::is_model_file, "path"_a);
  module.def("coverage", &coverage, "text"_a.none(), "path"_a, "dimensions"_a = Dimensions{});
}

}  // namespace opentrn::python
