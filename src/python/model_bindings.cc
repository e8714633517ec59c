#include "python/model_bindings.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <fmt/ranges.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arch/price.h"
#include "arch/tables.h"
#include "base/activity.h"
#include "base/mapped_file.h"
#include "compiler/analysis/padding.h"
#include "compiler/compile.h"
#include "compiler/flags.h"
#include "compiler/options.h"
#include "graph/control_arguments.h"
#include "graph/op_definitions.h"
#include "graph/text/text.h"
#include "import/load.h"
#include "import/onnx/onnx.h"
#include "import/onnx/stages.h"
#include "isa/roles.h"
#include "isa/text.h"
#include "model/cache.h"
#include "model/reports.h"
#include "model/runtime_model.h"
#include "profile/programs.h"
#include "profile/programs_text.h"
#include "profile/recommendations.h"
#include "python/convert.h"
#include "python/program_call.h"
#include "python/timing.h"
#include "python/timing_bindings.h"
#include "python/unlocked.h"
#include "runtime/host_ops.h"
#include "runtime/model.h"
#include "runtime/model_file.h"
#include "runtime/settings.h"
#include "runtime/unwritten.h"
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
  std::vector<bool> is_unread;  // by input: no instruction has it, so that what it holds does not matter
  // Of the graph; empty and 0 where it is not there any more.
  std::vector<size_t> control_inputs;
  int64_t splat_bytes =
      0;  // that constants of one value would take: no memory holds them, every run makes them
};

// Constants of a few elements are made of one value everywhere, and cost nothing.
constexpr int64_t kSplatBytesMin = 64 << 10;

// Ops whose operand of one value is a number of an instruction, however often the graph writes it.
bool takes_numbers(graph::OpKind kind) {
  using graph::OpKind;
  const graph::OpClass of = graph::definition(kind).op_class;
  return of == graph::OpClass::kUnaryElementwise || of == graph::OpClass::kBinaryElementwise ||
         kind == OpKind::select_ || kind == OpKind::compare_ || kind == OpKind::clamp_;
}

int64_t splat_bytes(const graph::Module& module) {
  int64_t bytes = 0;
  for (const graph::Function& function : module.functions) {
    std::set<graph::ValueId> filled;
    graph::walk(function, function.body(), [&](graph::OpId id) {
      const graph::Op& op = function.op(id);
      if (takes_numbers(op.kind)) return;
      for (const graph::ValueId value : op.operands) {
        const graph::OpId maker = function.value(value).op;
        if (maker == graph::kNoOp || function.op(maker).kind != graph::OpKind::constant_) continue;
        const graph::Literal& literal = function.op(maker).literal(graph::Attr::value);
        const int64_t size = literal.type().byte_count();
        if (literal.is_splat() && size >= kSplatBytesMin && filled.insert(value).second) bytes += size;
      }
    });
  }
  return bytes;
}

std::vector<bool> unread_inputs(const Model& model) {
  std::vector<bool> accessed = isa::accessed_tensors(*model.program);
  for (const runtime::Port& port : model.outputs)
    accessed[port.tensor] = true;  // an input that is a result too
  std::vector<bool> unread;
  for (const runtime::Port& port : model.inputs) unread.push_back(!accessed[port.tensor]);
  return unread;
}

std::shared_ptr<LoadedModel> noted(std::shared_ptr<LoadedModel> model, const graph::Module& module) {
  model->control_inputs = graph::control_arguments(module.entry());
  model->splat_bytes = splat_bytes(module);
  return model;
}

std::span<const std::byte> bytes_of(const ByteArray& array) {
  return {reinterpret_cast<const std::byte*>(array.data()), array.size()};
}

nb::bytes host_bytes(const graph::Type& type, const std::shared_ptr<sim::Buffer>& buffer) {
  const graph::Literal value = model::host_literal(type, buffer);
  return nb::bytes(value.bytes().data(), value.bytes().size());
}

std::shared_ptr<LoadedModel> loaded(const CompiledModule& compiled, Generation generation) {
  auto result = std::make_shared<LoadedModel>();
  result->passes = compiled.passes;
  result->model = model::model_of(compiled, generation);
  result->is_unread = unread_inputs(result->model);
  for (const compiler::Port& from : compiled.inputs) result->input_types.push_back(from.type);
  for (const compiler::Port& from : compiled.outputs) result->output_types.push_back(from.type);
  return result;
}

using Dimensions = std::map<std::string, int64_t>;
// Bytes, as the system has them: Python's str of a name that is not UTF-8 converts to nothing else.
using Path = std::filesystem::path;

using OptionNames = std::map<std::string, std::string>;

std::shared_ptr<LoadedModel> compile_model(const std::optional<std::string>& text, const Path& path,
                                           const std::string& target, const Dimensions& dimensions,
                                           const OptionNames& options) {
  const Unlocked unlocked;
  const Generation generation = arch::resolve_target(target);
  const graph::Module module = module_of(text, path, dimensions);
  return noted(loaded(compiler::compile(module, options_for(target, options)), generation), module);
}

std::string prepared_text(const std::optional<std::string>& text, const Path& path, const std::string& target,
                          const Dimensions& dimensions, const OptionNames& options) {
  const Unlocked unlocked;
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
  row["channels_first"] = passes.channels_first;
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

using AttachmentPtr = std::shared_ptr<runtime::Attachment>;

DevicesLoader load_devices = nullptr;

// (facts, [(dimensions, model)], [attached file]); of a model on a mesh the one ShardedModel that it is.
// `name`: what faults call the file.
nb::tuple loaded(runtime::Artifact artifact, const std::string& name) {
  nb::list buckets;
  if (artifact.facts.contains(std::string(runtime::kMeshFact))) {
    if (load_devices == nullptr)
      throw Fault(FaultKind::kNotModelled, "build.part",
                  fmt::format("{} is a model on several devices, which this build leaves out", name),
                  "./dev build opentrn_python builds the rest");
    buckets.append(nb::make_tuple(Dimensions{}, load_devices(artifact, name)));
    return nb::make_tuple(artifact.facts, buckets, nb::list());
  }
  for (runtime::Bucket& bucket : artifact.buckets) {
    auto result = std::make_shared<LoadedModel>();
    result->model = std::move(bucket.model);
    result->is_unread = unread_inputs(result->model);
    result->input_types = types_of(result->model.inputs);
    result->output_types = types_of(result->model.outputs);
    buckets.append(nb::make_tuple(bucket.dimensions, result));
  }
  std::vector<AttachmentPtr> attachments;
  for (const runtime::Attachment& attachment : artifact.attachments)
    attachments.push_back(std::make_shared<runtime::Attachment>(attachment));
  return nb::make_tuple(artifact.facts, buckets, attachments);
}

nb::tuple load_models(const Path& path) {
  sim::load_custom_ops_of_environment();
  runtime::Artifact artifact = [&] {
    const nb::gil_scoped_release unlocked;
    return runtime::load_artifact(path.string());
  }();
  return loaded(std::move(artifact), path.string());
}

// (what load_models() gives of the entry, or None; whether the entry may be written; a line for the user or
// "")
nb::tuple look_up(const model::Cache& cache, const std::string& key) {
  sim::load_custom_ops_of_environment();
  model::CacheLookup found = [&] {
    const nb::gil_scoped_release unlocked;
    return cache.look_up(key);
  }();
  const nb::object hit =
      found.hit ? nb::object(loaded(std::move(*found.hit), cache.path_of(key).string())) : nb::none();
  return nb::make_tuple(hit, found.is_trusted, found.notice);
}

// An ONNX model, and the parts of files beside it that its tensors' data is: what goes along with its
// programs, and what a key of it counts. The model is the first.
std::vector<AttachmentPtr> files_of_onnx(const Path& path) {
  const Unlocked unlocked;
  const auto model = MappedFile::open(path, "onnx.file");
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::vector<AttachmentPtr> files{std::make_shared<runtime::Attachment>(
      runtime::Attachment{"model.onnx", text(model->bytes()), model, model->path().string(), 0})};
  for (const import::onnx::ExternalPart& part : import::onnx::external_parts(path))
    files.push_back(std::make_shared<runtime::Attachment>(
        runtime::Attachment{part.location, text(part.bytes), part.owner, part.path.string(), part.begin}));
  return files;
}

// The ONNX model that is the first of `files`, with its parts of files beside it.
std::shared_ptr<import::onnx::Stage> stages_of(const std::vector<AttachmentPtr>& files,
                                               const Dimensions& dimensions) {
  sim::load_custom_ops_of_environment();
  const Unlocked unlocked;
  if (files.empty()) throw Fault(FaultKind::kInput, "model_file", "the model itself is not attached");
  const auto bytes_of = [](const runtime::Attachment& attachment) {
    return std::as_bytes(std::span(attachment.bytes.data(), attachment.bytes.size()));
  };
  import::onnx::Options options{.dimensions = dimensions, .constants = {}, .files = {}};
  for (const AttachmentPtr& file : std::span(files).subspan(1))
    options.files[file->name].push_back({bytes_of(*file), file->owner, static_cast<size_t>(file->begin)});
  // nanobind's holders are of types without const; nothing changes a stage.
  return std::const_pointer_cast<import::onnx::Stage>(
      import::onnx::first_stage(bytes_of(*files[0]), files[0]->owner, {}, options));
}

void save_models(const std::vector<std::shared_ptr<LoadedModel>>& models,
                 const std::vector<Dimensions>& dimensions, const Facts& facts, const Path& path,
                 bool reference_weights, const std::vector<AttachmentPtr>& attachments,
                 unsigned permissions) {
  const Unlocked unlocked;
  runtime::Artifact artifact{{}, facts, {}};
  for (const AttachmentPtr& attachment : attachments) artifact.attachments.push_back(*attachment);
  for (size_t i = 0; i < models.size(); ++i) artifact.buckets.push_back({dimensions.at(i), models[i]->model});
  runtime::save(artifact, path.string(),
                reference_weights ? runtime::Weights::kReferenced : runtime::Weights::kCopied, permissions);
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
  const bool is_unread = i < model.is_unread.size() && model.is_unread[i];
  if (!compiler::same_on_device(type.element()) && !is_unread)
    check_range(model.model.inputs[i], type.element(), bytes);
  return model::device_buffer(type, bytes);
}

// Warns in Python, or raises what it makes of the warning.
void warn_of_unwritten(const LoadedModel& self, std::span<const std::shared_ptr<sim::Buffer>> outputs) {
  const auto found = runtime::unwritten_outputs(self.model, outputs);
  if (found.empty()) return;
  const nb::gil_scoped_acquire locked;
  nb::list rows;
  for (const runtime::UnwrittenOutput& output : found) {
    const runtime::Port& port = self.model.outputs[output.number];
    nb::object made = nb::none();
    if (output.made.known()) made = nb::make_tuple(output.made.file, output.made.line, output.made.function);
    nb::list shape;
    for (const int64_t size : port.shape) shape.append(size);
    rows.append(nb::make_tuple(output.number, port.name, port.element, shape, output.count, output.first,
                               made, output.moved));
  }
  nb::module_::import_("opentrn.kernel.unwritten").attr("tell_of_model")(rows);
}

nb::list run(LoadedModel& self, const std::vector<ByteArray>& arrays) {
  std::vector<std::shared_ptr<sim::Buffer>> inputs, outputs;
  for (size_t i = 0; i < arrays.size() && i < self.input_types.size(); ++i)
    inputs.push_back(input_buffer(self, i, bytes_of(arrays[i])));
  {
    const Unlocked unlocked;
    runtime::LoopTrips trips;
    outputs = runtime::execute(self.model, inputs, &trips);
    self.trips = std::move(trips);
    warn_of_unwritten(self, outputs);
  }
  nb::list results;
  for (size_t i = 0; i < outputs.size(); ++i) results.append(host_bytes(self.output_types[i], outputs[i]));
  return results;
}

// Results that the device writes where the caller wants them: those of the same bytes on both sides whose
// place overlaps no argument and no other result, as an op that works in place has them.
class Places {
 public:
  Places(const LoadedModel& model, const void* const* inputs, void* const* outputs) {
    for (size_t i = 0; i < model.input_types.size(); ++i)
      taken_.push_back(range_of(inputs[i], model.input_types[i]));
    for (size_t i = 0; i < model.output_types.size(); ++i) {
      const Range range = range_of(outputs[i], model.output_types[i]);
      const bool is_free = compiler::same_on_device(model.output_types[i].element()) &&
                           std::ranges::none_of(taken_, [&](const Range& other) {
                             return range.begin < other.end && other.begin < range.end;
                           });
      places_.push_back(is_free ? outputs[i] : nullptr);
      taken_.push_back(range);
    }
  }
  std::span<void* const> all() const { return places_; }

 private:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
  };
  static Range range_of(const void* data, const graph::Type& type) {
    const auto* begin = static_cast<const std::byte*>(data);
    return {begin, begin + type.element_count() * storage_bytes(type.element())};
  }

  std::vector<Range> taken_;
  std::vector<void*> places_;
};

// Arrays by address, row-major, each as long as its port says and kept by the caller. Without the interpreter
// lock.
void run_addresses(LoadedModel& self, const void* const* inputs, void* const* outputs) {
  std::vector<std::shared_ptr<sim::Buffer>> buffers;
  for (size_t i = 0; i < self.input_types.size(); ++i) {
    const graph::Type& type = self.input_types[i];
    const std::span bytes(static_cast<const std::byte*>(inputs[i]),
                          static_cast<size_t>(type.element_count() * storage_bytes(type.element())));
    buffers.push_back(input_buffer(self, i, bytes));
  }
  runtime::LoopTrips trips;
  const Places places(self, inputs, outputs);
  const auto results = runtime::execute(self.model, buffers, &trips, places.all());
  self.trips = std::move(trips);
  warn_of_unwritten(self, results);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]->data() == outputs[i]) continue;
    const graph::Literal value = model::host_literal(self.output_types[i], results[i]);
    std::ranges::copy(value.bytes(), static_cast<std::byte*>(outputs[i]));
  }
}

// What a call of a compiled PyTorch graph costs is dominated by everything else.
// `core`: the logical one that it counts for; without one the current one.
void run_at(LoadedModel& self, const std::vector<uintptr_t>& inputs, const std::vector<uintptr_t>& outputs,
            std::optional<int> core) {
  run_at_addresses(self.input_types.size(), self.output_types.size(), inputs, outputs, core,
                   [&](const void* const* from, void* const* to) { run_addresses(self, from, to); });
}

// As run_at(), for other extension modules (runtime/program_call.h).
int call_model(void* model, int core, const void* const* inputs, void* const* outputs) {
  return call_program(core, [&] { run_addresses(*static_cast<LoadedModel*>(model), inputs, outputs); });
}

std::map<std::string, int64_t> weight_files(const Model& model) {
  std::map<std::string, int64_t> bytes;
  for (const runtime::ConstantData& constant : model.constants)
    if (!constant.file.empty()) bytes[constant.file] += constant.bytes->bytes();
  return bytes;
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

std::shared_ptr<Timing> timed(const LoadedModel& self, std::optional<int64_t> loop_iterations) {
  return nb::cast<std::shared_ptr<Timing>>(
      time_program(self.model.program, self.model.generation, {}, self.model.origin,
                   self.trips ? &*self.trips : nullptr, loop_iterations));
}

nlohmann::ordered_json ports_json(const std::vector<runtime::Port>& ports) {
  auto rows = nlohmann::ordered_json::array();
  for (const runtime::Port& port : ports)
    if (port.name != import::onnx::kRandomKey) rows.push_back({port.name, port.element, port.shape});
  return rows;
}

// Without a time where loops depend on values; memory does not.
std::string description(const LoadedModel& self, const std::map<std::string, int64_t>& dimensions) {
  std::shared_ptr<Timing> timing;
  nlohmann::ordered_json time_us;
  try {
    timing = timed(self, std::nullopt);
    time_us = timing->profile.summary.total_ns / 1e3;
  } catch (const Fault& fault) {
    if (fault.label() != "timing.trip_count") throw;
    timing = timed(self, 1);
  }
  auto placed = nlohmann::ordered_json::array();
  for (const auto& [memory, name, role, offset, bytes] : memory_map(*timing))
    placed.push_back(
        {{"memory", memory}, {"name", name}, {"role", role}, {"offset", offset}, {"bytes", bytes}});
  const runtime::Model& model = self.model;
  return dumped({{"dimensions", nlohmann::ordered_json(dimensions)},
                 {"neuron_core", version(model.generation)},
                 {"inputs", ports_json(model.inputs)},
                 {"outputs", ports_json(model.outputs)},
                 {"instructions", model.program->size()},
                 {"kernels", model.origin.kernel_count()},
                 {"ops", model.origin.ops.size()},
                 {"constant_bytes", model.constant_bytes()},
                 {"weight_files", nlohmann::ordered_json(weight_files(model))},
                 {"time_us", time_us},
                 {"memory", profile_json(*timing)["memory"]},
                 {"memory_map", placed}});
}

nb::list coverage_of(const graph::Module& module) { return coverage_rows(compiler::coverage(module)); }

nb::list coverage(const std::optional<std::string>& text, const Path& path, const Dimensions& dimensions) {
  const Interruptible work;
  return coverage_of(module_of(text, path, dimensions));
}

std::shared_ptr<LoadedModel> compile_graph(const graph::Module& module, const std::string& target,
                                           const OptionNames& given, bool recognise) {
  const Unlocked unlocked;
  compiler::Options options = options_for(target, given);
  options.recognise = recognise;
  return noted(loaded(compiler::compile(module, options), arch::resolve_target(target)), module);
}

graph::Module prepare(const std::optional<std::string>& text, const Path& path, const std::string& target,
                      const Dimensions& dimensions, const OptionNames& options) {
  const Unlocked unlocked;
  return compiler::prepare(module_of(text, path, dimensions),
                           compiler::options_from(arch::resolve_target(target), options));
}

graph::Module prepare_graph(const graph::Module& module, const std::string& target,
                            const OptionNames& options) {
  const Unlocked unlocked;
  return compiler::prepare(module, compiler::options_from(arch::resolve_target(target), options));
}

// ([(result, axis)], what mixes): prove_padding() for (argument, axis) pairs.
nb::tuple prove_padding(const graph::Module& module,
                        const std::vector<std::tuple<size_t, int64_t>>& arguments) {
  const Interruptible work;
  std::vector<compiler::PortAxis> axes;
  for (const auto& [port, axis] : arguments) axes.push_back({port, axis});
  const compiler::PaddingProof proof = compiler::prove_padding(module, axes);
  nb::list results;
  for (const compiler::PortAxis& at : proof.results) results.append(nb::make_tuple(at.port, at.axis));
  return nb::make_tuple(results, proof.mixing);
}

// A text of the option's table as Python has such values.
nb::object value_of(const compiler::OptionRow& row, std::string_view text) {
  if (row.type == compiler::OptionType::kSwitch) return nb::bool_(text == "true");
  if (row.type == compiler::OptionType::kWord) return nb::str(text.data(), text.size());
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw Fault(FaultKind::kInput, "compiler.option", fmt::format("{} is '{}'", row.name, text),
                fmt::format("it takes one of {}", fmt::join(row.values, ", ")));
  return nb::int_(number);
}

}  // namespace

nb::list coverage_rows(const std::vector<compiler::OpCoverage>& coverage) {
  nb::list rows;
  for (const compiler::OpCoverage& row : coverage)
    rows.append(nb::make_tuple(row.op, row.count, row.unsupported, row.example, row.emulated, row.flops,
                               row.where.file, row.where.line, row.where.function));
  return rows;
}

// A model is held to the HBM of the logical core that it runs on, as programs of JAX and PyTorch are.
compiler::Options options_for(const std::string& target, const OptionNames& given) {
  compiler::Options options = compiler::options_from(arch::resolve_target(target), given);
  options.hbm_bytes_of_core = runtime::hbm_bytes_of_core(target);
  return options;
}

nb::object compile_for_one_core(const graph::Module& module, const std::string& target,
                                const std::map<std::string, std::string>& options) {
  return nb::cast(compile_graph(module, target, options, true));
}

void load_devices_by(DevicesLoader loader) { load_devices = loader; }

graph::Module module_of(const std::optional<std::string>& text, const Path& path,
                        const Dimensions& dimensions) {
  sim::load_custom_ops_of_environment();
  if (!text && path.extension() == ".onnx")
    return import::onnx::import_file(path, {.dimensions = dimensions, .constants = {}});
  if (!dimensions.empty())
    throw Fault(FaultKind::kInput, "import.dimension",
                fmt::format("'{}' is not a dimension of {}: its shapes are all stated",
                            dimensions.begin()->first, path.string()),
                "leave it out");
  if (text) return import::load_text(*text, path.string());
  return import::load_file(path.string());
}

void bind_models(nb::module_& module) {
  nb::class_<LoadedModel>(module, "LoadedModel")
      .def_prop_ro("inputs", [](const LoadedModel& self) { return describe(self.model.inputs); })
      .def_prop_ro("outputs", [](const LoadedModel& self) { return describe(self.model.outputs); })
      .def_prop_ro("instruction_count", [](const LoadedModel& self) { return self.model.program->size(); })
      .def_prop_ro("passes", [](const LoadedModel& self) { return describe(self.passes); })
      .def_prop_ro("kernel_count", [](const LoadedModel& self) { return self.model.origin.kernel_count(); })
      .def_prop_ro("op_count", [](const LoadedModel& self) { return self.model.origin.ops.size(); })
      .def_prop_ro("weight_files", [](const LoadedModel& self) { return weight_files(self.model); })
      .def_prop_ro("host_ops",
                   [](const LoadedModel& self) {
                     const runtime::HostOps found = runtime::host_ops(self.model);
                     const model::HostShares shares = model::shares_of(found);
                     nb::list rows;
                     for (const runtime::HostOp& op : found.calls)
                       rows.append(nb::make_tuple(op.ops, op.result, op.where.file, op.where.line,
                                                  op.where.function, op.flops, op.bytes));
                     return nb::make_tuple(rows, shares.flops, shares.bytes);
                   })
      .def_prop_ro("narrowing", [](const LoadedModel& self) { return self.model.narrowing; })
      .def_prop_ro("constant_bytes", [](const LoadedModel& self) { return self.model.constant_bytes(); })
      .def("run", &run, "inputs"_a)
      .def("run_at", &run_at, "inputs"_a, "outputs"_a, "core"_a = nb::none())
      // (the function, the model) for whoever calls it without Python; the object is to be kept alive.
      .def_prop_ro("call",
                   [](LoadedModel& self) {
                     return nb::make_tuple(reinterpret_cast<uintptr_t>(&call_model),
                                           reinterpret_cast<uintptr_t>(&self));
                   })
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
          "settings"_a = std::vector<std::string>{}, "loop_iterations"_a = nb::none(),
          nb::sig(
              "def time(self, settings: Sequence[str] = [], loop_iterations: int | None = None) -> Timing"))
      .def("description", &description, "dimensions"_a,
           "What `opentrn describe` says of the program for these sizes, as JSON.")
      .def_ro("control_inputs", &LoadedModel::control_inputs)
      .def_ro("splat_bytes", &LoadedModel::splat_bytes)
      .def_prop_ro("generation", [](const LoadedModel& self) { return version(self.model.generation); })
      .def("listing", [](const LoadedModel& self) { return isa::to_text(*self.model.program); });
  module.def("compile_model", &compile_model, "text"_a.none(), "path"_a, "target"_a,
             "dimensions"_a = Dimensions{}, "options"_a = OptionNames{});
  // (what native work is under way, "" for none; how many of its steps are done, of how many or 0)
  module.def("activity", [] {
    const Activity::Shown shown = Activity::shown();
    return std::tuple(std::string(shown.what == nullptr ? "" : shown.what), shown.done, shown.total);
  });
  // (options of compile_model, the stated target or "", options that change nothing here)
  module.def(
      "compiler_flags",
      [](const std::string& text) {
        const compiler::CompilerFlags flags = compiler::parse_compiler_flags(text);
        return std::tuple(flags.options, flags.target, flags.without_effect);
      },
      "text"_a);
  module.def(
      "cache_dir_of_flags", &compiler::cache_dir_of, "flags"_a,
      "What --cache_dir of NEURON_CC_FLAGS names; \"\" where it names nothing. Raises InputError for an open "
      "quote.");
  module.def("flag_words", &compiler::flag_words, "flags"_a, "source"_a,
             "The words, as a shell splits them. Raises InputError for an open quotation mark, which names "
             "`source`.");
  module.def("has_compiler_flag", &compiler::has_flag, "flags"_a, "flag"_a,
             "Whether the word stands in NEURON_CC_FLAGS. Raises InputError for an open quote.");
  nb::class_<compiler::OptionRow>(module, "OptionRow", "An option of the compiler, as users choose it.")
      .def_ro("name", &compiler::OptionRow::name, "neuronx-cc's or ours, without the dashes in front.")
      .def_prop_ro(
          "default", [](const compiler::OptionRow& row) { return value_of(row, row.standard); },
          "What it is where nobody says.")
      .def_prop_ro(
          "values",
          [](const compiler::OptionRow& row) {
            nb::list values;
            for (const std::string& each : row.values) values.append(value_of(row, each));
            return values;
          },
          "All that it takes.")
      .def(
          "value", [](const compiler::OptionRow& row, std::string_view text) { return value_of(row, text); },
          "text"_a, "What a text of `values` means: a word, a number or a switch.")
      .def_ro("help", &compiler::OptionRow::help)
      .def_ro("letter", &compiler::OptionRow::letter, "Its flag of one letter, as -O, or nothing.")
      .def_ro("pattern", &compiler::OptionRow::pattern,
              "What --help writes in place of the values, or nothing.")
      .def_ro("of_program", &compiler::OptionRow::of_program,
              "Whether it says which numbers are computed, and not how the program is run.");
  module.def(
      "compiler_options", [] { return compiler::option_rows(); },
      "The table of the options that users choose (src/compiler/options.h).");
  module.def("prepared_text", &prepared_text, "text"_a.none(), "path"_a, "target"_a,
             "dimensions"_a = Dimensions{}, "options"_a = OptionNames{});
  module.def("load_models", &load_models, "path"_a);
  module.def(
      "facts_of_model_file", [](const Path& path) { return runtime::load_facts(path.string()); }, "path"_a);
  module.def("look_up_in_cache", &look_up, "cache"_a, "key"_a,
             "(what load_models() gives of the entry, or None; whether the entry may be written; a line for "
             "the user).");
  module.def("save_models", &save_models, "models"_a, "dimensions"_a, "facts"_a, "path"_a,
             "reference_weights"_a = false, "attachments"_a = std::vector<AttachmentPtr>{},
             "permissions"_a = 0666);
  nb::class_<runtime::Attachment>(module, "Attachment")
      .def_ro("name", &runtime::Attachment::name)
      .def_prop_ro("path",
                   [](const runtime::Attachment& self) -> std::optional<Path> {
                     if (self.path.empty()) return std::nullopt;
                     return Path(self.path);
                   })
      .def_ro("begin", &runtime::Attachment::begin)
      .def_prop_ro("bytes", [](const runtime::Attachment& self) { return self.bytes.size(); })
      .def_prop_ro("view", [](nb::handle self) {
        const auto& bytes = nb::inst_ptr<runtime::Attachment>(self)->bytes;
        return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(bytes.data(), {bytes.size()}, self);
      });
  module.def("files_of_onnx", &files_of_onnx, "path"_a);
  module.def("onnx_stages_of", &stages_of, "files"_a, "dimensions"_a);
  module.def("coverage_of", &coverage_of, "module"_a);
  module.def("compile_graph", &compile_graph, "module"_a, "target"_a, "options"_a = OptionNames{},
             "recognise"_a = true);
  module.def("prepare", &prepare, "text"_a.none(), "path"_a, "target"_a, "dimensions"_a, "options"_a);
  module.def("prepare_graph", &prepare_graph, "module"_a, "target"_a, "options"_a);
  module.def("difference_but_for_size", &compiler::difference_but_for_size, "smaller"_a, "larger"_a);
  module.def("prove_padding", &prove_padding, "module"_a, "arguments"_a);
  module.def("peak_tflops", [](const std::string& target, const std::string& dtype) {
    return arch::neuron_core(arch::resolve_target(target)).peak_tflops.at(dtype).value();
  });
  // Bytes of HBM of one logical core.
  module.def(
      "memory_of_core",
      [](const std::string& target, int physical_cores_per_core) {
        return runtime::hbm_bytes_of_core(arch::resolve_target(target), physical_cores_per_core);
      },
      "target"_a, "physical_cores_per_core"_a = 1);
  // USD per hour of one logical core, and the instance whose rate it is, by kind of rate.
  module.def(
      "rates_of_core",
      [](const std::string& target, int physical_cores_per_core) {
        std::map<std::string, std::optional<std::pair<double, std::string>>> rates;
        for (const auto& [kind, rate] :
             arch::rates_of_core(arch::default_tables(), target, physical_cores_per_core))
          rates[kind] = rate ? std::optional(std::pair(rate->usd_h, rate->instance)) : std::nullopt;
        return rates;
      },
      "target"_a, "physical_cores_per_core"_a = 1);
  // JSON to JSON: what frameworks tell of their programs, and the same with totals and prices.
  module.def(
      "summarise_programs",
      [](const std::string& usage, double host_s) {
        return profile::summarise_programs(nlohmann::ordered_json::parse(usage), host_s).dump();
      },
      "usage"_a, "host_s"_a);
  module.def(
      "programs_text",
      [](const std::string& summary, size_t rows_max) {
        return profile::programs_text(nlohmann::ordered_json::parse(summary), rows_max);
      },
      "summary"_a, "rows_max"_a, "Of summarise_programs(), in at most 80 columns.");
  module.def(
      "recommendations",
      [](const std::string& profile, const profile::SourceLine& source) {
        return profile::recommendations(nlohmann::ordered_json::parse(profile), source);
      },
      "profile"_a, "source"_a,
      "Markdown, of the JSON of a Timing. source(file, line): the text of a line, \"\" where it is not "
      "there.");
  module.def(
      "join_usages",
      [](const std::vector<std::string>& usages) {
        std::vector<nlohmann::ordered_json> parts;
        for (const std::string& usage : usages) parts.push_back(nlohmann::ordered_json::parse(usage));
        return profile::join_usages(std::move(parts)).dump();
      },
      "usages"_a);
  // Settings of a program as the environment states them. ValueError for a value that a variable does not
  // take.
  module.def("environment_settings", [] {
    const runtime::Settings settings = runtime::settings_of_environment();
    nb::dict row;
    row["target"] = settings.target;
    row["cores"] = settings.cores;
    row["physical_cores_per_core"] = settings.physical_cores_per_core;
    row["uses_both_cores"] = settings.uses_both_cores;
    row["strict"] = settings.strict;
    row["check"] = settings.check;
    row["rounds_stochastically"] = settings.rounds_stochastically;
    row["rounding_seed"] = settings.rounding_seed;
    return row;
  });
  module.def("environment_core_races", &runtime::core_races_of_environment);
  module.def("environment_loop_limit", &runtime::loop_limit_of_environment);
  module.def("environment_rounding", [] {
    const runtime::RoundingSettings settings = runtime::rounding_of_environment();
    return nb::make_tuple(settings.enabled, settings.seed);
  });
  module.def("coverage", &coverage, "text"_a.none(), "path"_a, "dimensions"_a = Dimensions{});
}

}  // namespace opentrn::python
