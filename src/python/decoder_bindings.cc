#include "python/decoder_bindings.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "decoder/checkpoint.h"
#include "decoder/core_part.h"
#include "decoder/eagle.h"
#include "decoder/engine.h"
#include "decoder/exchange.h"
#include "decoder/generation.h"
#include "decoder/narrow.h"
#include "decoder/sampler.h"
#include "decoder/weights.h"
#include "import/weights/gguf.h"
#include "import/weights/safetensors.h"
#include "isa/text.h"
#include "python/timing_bindings.h"
#include "python/unlocked.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using decoder::Bucket;
using decoder::Engine;
using import::weights::Checkpoint;
using import::weights::Gguf;
using import::weights::GgufList;
using import::weights::StoredTensor;

nb::object to_str(std::string_view text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::object to_python(const GgufList& list) {
  return std::visit(
      [](const auto& values) -> nb::object {
        nb::list result;
        for (const auto& value : values) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string_view>)
            result.append(to_str(value));
          else
            result.append(value);
        }
        return result;
      },
      list);
}

nb::dict metadata_of(const Gguf& file) {
  nb::dict result;
  for (const auto& [key, held] : file.metadata)
    result[to_str(key)] = std::visit(
        [](const auto& value) -> nb::object {
          using Value = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<Value, std::string_view>)
            return to_str(value);
          else if constexpr (std::is_same_v<Value, GgufList>)
            return to_python(value);
          else
            return nb::cast(value);
        },
        held);
  return result;
}

nb::list tensors_of(const Gguf& file) {
  nb::list rows;
  for (const StoredTensor& tensor : file.tensors.all())
    rows.append(nb::make_tuple(to_str(tensor.name), std::string(name(tensor.encoding)), tensor.shape));
  return rows;
}

using Floats = nb::ndarray<nb::numpy, float, nb::c_contig>;

Floats floats(std::vector<float> values, const std::vector<int64_t>& shape) {
  auto owner = std::make_unique<std::vector<float>>(std::move(values));
  float* data = owner->data();
  std::vector<size_t> sizes(shape.begin(), shape.end());
  nb::capsule keep(owner.release(), [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  return Floats(data, sizes.size(), sizes.data(), keep);
}

Floats decoded(const Gguf& file, const std::string& name) {
  const StoredTensor* tensor = file.tensors.find(name);
  if (!tensor) throw nb::key_error(name.c_str());
  return floats(tensor->decoded(), tensor->shape);
}

graph::ElementType element_of(const std::string& name) {
  const auto element = graph::element_type_from_name(name);
  if (element == graph::ElementType::kBF16 || element == graph::ElementType::kF16 ||
      element == graph::ElementType::kF32)
    return *element;
  throw Fault(FaultKind::kInput, "decoder.element",
              fmt::format("no weights in '{}'; there are bf16, f16 and f32", name));
}

using Sizes = std::vector<int64_t>;

std::unique_ptr<Engine> engine_of(decoder::Config config, const import::weights::TensorTable& tensors,
                                  decoder::FileFormat format, const std::string& target,
                                  const std::string& element, decoder::Pool pool, Sizes sequences,
                                  Sizes tokens, Sizes contexts,
                                  const std::optional<std::filesystem::path>& lora, int64_t ranks,
                                  std::string instance, int cores_per_rank, const Checkpoint* eagle,
                                  const std::string& quantization, const std::string& kv_cache_dtype) {
  decoder::EngineOptions options;
  config.narrow_kv = decoder::kv_type(kv_cache_dtype, arch::resolve_target(target));
  config.narrow = decoder::narrow_weights(quantization, arch::resolve_target(target));
  options.ranks = ranks;
  options.cores_per_rank = cores_per_rank;
  options.instance = std::move(instance);
  options.generation = arch::resolve_target(target);
  options.element = element_of(element);
  options.pool = pool;
  options.sequence_buckets = std::move(sequences);
  options.token_buckets = std::move(tokens);
  options.context_buckets = std::move(contexts);
  // The table of positions is no longer than what programs reach.
  if (!options.context_buckets.empty())
    config.context = std::min(config.context, std::max<int64_t>(1, options.context_buckets.back()));
  std::optional<decoder::Adapter> adapter;
  if (lora) adapter.emplace(import::weights::read_adapter(*lora));
  decoder::GivenWeights given;
  if (eagle) given = decoder::give_features(*eagle, config, options.element);
  auto weights = load_weights(config, tensors, format, options.element, adapter ? &*adapter : nullptr, given);
  return std::make_unique<Engine>(std::move(config), std::move(options), std::move(weights));
}

std::unique_ptr<Engine> engine_of_gguf(const Gguf& file, const std::string& target,
                                       const std::string& element, int64_t block_tokens, int64_t blocks,
                                       Sizes sequences, Sizes tokens, Sizes contexts,
                                       const std::optional<std::filesystem::path>& lora, int64_t ranks,
                                       std::string instance, int cores_per_rank, const Checkpoint* eagle,
                                       const std::string& quantization, const std::string& kv_cache_dtype) {
  const Unlocked unlocked;
  return engine_of(decoder::config_of(file), file.tensors, decoder::FileFormat::kGguf, target, element,
                   {block_tokens, blocks}, std::move(sequences), std::move(tokens), std::move(contexts), lora,
                   ranks, std::move(instance), cores_per_rank, eagle, quantization, kv_cache_dtype);
}

std::unique_ptr<Engine> engine_of_checkpoint(const Checkpoint& file, const std::string& target,
                                             const std::string& element, int64_t block_tokens, int64_t blocks,
                                             Sizes sequences, Sizes tokens, Sizes contexts,
                                             const std::optional<std::filesystem::path>& lora, int64_t ranks,
                                             std::string instance, int cores_per_rank,
                                             const Checkpoint* eagle, const std::string& quantization,
                                             const std::string& kv_cache_dtype) {
  const Unlocked unlocked;
  return engine_of(decoder::config_of_json(file.config), file.tensors, decoder::FileFormat::kHuggingFace,
                   target, element, {block_tokens, blocks}, std::move(sequences), std::move(tokens),
                   std::move(contexts), lora, ranks, std::move(instance), cores_per_rank, eagle, quantization,
                   kv_cache_dtype);
}

// An EAGLE head of `model`, which gives features.
std::unique_ptr<Engine> eagle_engine_of(const Checkpoint& file, const Engine& model, int64_t block_tokens,
                                        int64_t blocks, Sizes sequences, Sizes tokens, Sizes contexts) {
  const Unlocked unlocked;
  decoder::EngineOptions options;
  options.pool = {block_tokens, blocks};
  options.sequence_buckets = std::move(sequences);
  options.token_buckets = std::move(tokens);
  options.context_buckets = std::move(contexts);
  return decoder::eagle_engine(file, model, std::move(options));
}

using BucketTuple = std::tuple<int64_t, int64_t, int64_t, bool>;
BucketTuple to_tuple(const Bucket& bucket) {
  return {bucket.sequences, bucket.tokens, bucket.context, bucket.every_token};
}
Bucket to_bucket(const BucketTuple& from, const std::string& choice = "host") {
  return {std::get<0>(from), std::get<1>(from), std::get<2>(from), std::get<3>(from),
          decoder::choice_of_text(choice)};
}

using SequenceTuple = std::tuple<std::vector<int32_t>, int32_t, std::vector<int32_t>>;

// The number of the weights with an adapter, of the file that the engine was made of.
int64_t add_adapter(Engine& engine, const import::weights::TensorTable& tensors, decoder::FileFormat format,
                    const std::filesystem::path& folder) {
  const Unlocked unlocked;
  decoder::Adapter adapter(import::weights::read_adapter(folder));
  decoder::GivenWeights given;
  if (!engine.config().feature_layers.empty())
    given.emplace(decoder::kFeatureWeight, engine.weight(decoder::kFeatureWeight));
  return engine.add_adapter(
      load_weights(engine.config(), tensors, format, engine.options().element, &adapter, given));
}

// (logits [rows, vocabulary] or features [rows, hidden], the bucket, rows of each sequence)
nb::tuple step(Engine& engine, const std::vector<SequenceTuple>& sequences, bool every_token,
               int64_t adapter) {
  std::vector<decoder::SequenceStep> steps;
  for (const auto& [tokens, position, blocks] : sequences) steps.push_back({tokens, position, blocks});
  decoder::StepResult result;
  {
    const Unlocked unlocked;
    result = engine.step(steps, {.every_token = every_token, .adapter = adapter});
  }
  const int64_t features = engine.config().result_features();
  std::vector<float> logits(result.logits.begin(), result.logits.end());
  const auto rows = static_cast<int64_t>(logits.size()) / features;
  return nb::make_tuple(floats(std::move(logits), {rows, features}), to_tuple(result.bucket),
                        result.rows_per_sequence);
}

nb::object time_of(Engine& engine, const BucketTuple& of, const std::vector<std::string>& settings,
                   const std::string& choice) {
  const runtime::Model& model = engine.program(to_bucket(of, choice));
  return time_program(model.program, model.generation, settings, model.origin, nullptr, std::nullopt, true);
}

decoder::LayerKind layer_kind_of(const std::string& name) {
  OPENTRN_CHECK(name == "dense" || name == "experts", "a layer of the kind {}", name);
  return name == "dense" ? decoder::LayerKind::kDense : decoder::LayerKind::kExperts;
}

nb::dict sizes_of_config(const std::string& json) {
  const decoder::Config config = decoder::config_of_json(json);
  nb::dict row;
  row["context"] = config.context;
  row["dense"] = decoder::layers_of(config, decoder::LayerKind::kDense);
  row["experts"] = decoder::layers_of(config, decoder::LayerKind::kExperts);
  return row;
}

// Of a model that is known by its config.json alone: the step of one of `ranks` cores, of its first `layers`
// layers (0: all), or of so many layers of a `kind` ("dense", "experts"). `contiguous`: keys and values of a
// sequence lie side by side, and nothing is gathered, as servers without blocks have them. `fuse_attention`,
// `sequence_ranks`: decoder::StepOptions. `choice`: as decoder::Bucket has it, by its text.
nb::object time_of_config(const std::string& json, const std::string& target, const std::string& element,
                          const BucketTuple& of, int64_t ranks, int64_t layers, bool contiguous,
                          bool fuse_attention, int64_t sequence_ranks, const std::string& choice,
                          int cores_per_rank, const std::string& quantization,
                          const std::string& kv_cache_dtype, const std::string& kind) {
  constexpr int64_t kBlockTokens = 32;
  const Bucket whole = to_bucket(of, choice);
  const Generation generation = arch::resolve_target(target);
  std::unique_ptr<runtime::Model> model;
  {
    const Unlocked unlocked;
    decoder::Config of_model = decoder::config_of_json(json);
    if (!kind.empty()) of_model = decoder::model_of(of_model, layer_kind_of(kind), layers);
    of_model.narrow = decoder::narrow_weights(quantization, generation);
    of_model.narrow_kv = decoder::kv_type(kv_cache_dtype, generation);
    auto [config, bucket, options] =
        decoder::core_part(of_model, whole, ranks, cores_per_rank,
                           {.fuse_attention = fuse_attention, .sequence_ranks = sequence_ranks});
    if (layers > 0) config.layers = std::min(config.layers, layers);
    if (bucket.context < whole.tokens || bucket.context % kBlockTokens != 0)
      throw Fault(FaultKind::kInput, "decoder.buckets",
                  fmt::format("a program of {} tokens and {} positions", whole.tokens, bucket.context),
                  "as many positions as tokens at least, in blocks of 32");
    config.context = std::max(config.context, bucket.context);
    const decoder::Pool blocks{kBlockTokens, bucket.sequences * bucket.context / kBlockTokens + 1};
    const decoder::Pool pool = contiguous ? decoder::Pool{bucket.context, bucket.sequences} : blocks;
    model = decoder::compiled_step(config, bucket, pool, element_of(element), generation, options);
  }
  return time_program(model->program, model->generation, {}, model->origin, nullptr, std::nullopt, true);
}

// Of such ranks: microseconds that they exchange in a step of the whole model. `cores_per_rank`: as
// decoder::Sharing, of the `ranks` physical cores.
double exchange_us_of_config(const std::string& json, const std::string& target, const std::string& element,
                             const BucketTuple& of, int64_t ranks, const std::string& instance,
                             int cores_per_rank, const std::string& choice) {
  const Unlocked unlocked;
  const decoder::Config config = decoder::config_of_json(json);
  return decoder::exchange_us({config.layers, config.hidden, config.vocabulary}, to_bucket(of, choice),
                              element_of(element), {ranks, cores_per_rank, instance},
                              arch::resolve_target(target));
}

// Microseconds that a step's results take to the host.
double results_us_of_config(const std::string& json, const BucketTuple& of, const std::string& choice) {
  return decoder::results_us(to_bucket(of, choice), decoder::config_of_json(json).vocabulary);
}

using decoder::Finish;

constexpr const char* kFinishes[] = {"", "stop", "length"};

// (the bucket, [(request, token, "", "stop" or "length")], the draft model's buckets)
nb::tuple generation_step(decoder::Generation& generation) {
  decoder::GenerationStep done;
  {
    const Unlocked unlocked;
    done = generation.step();
  }
  nb::list tokens;
  for (const decoder::NewToken& made : done.tokens)
    tokens.append(nb::make_tuple(made.request, made.token, kFinishes[static_cast<size_t>(made.finish)]));
  nb::list drafted;
  for (const Bucket& bucket : done.drafted) drafted.append(to_tuple(bucket));
  return nb::make_tuple(to_tuple(done.bucket), tokens, drafted);
}

using SamplingTuple = std::tuple<double, int32_t, double, double, uint64_t>;
decoder::SamplingParams to_sampling(const SamplingTuple& from) {
  decoder::SamplingParams params;
  params.temperature = std::get<0>(from);
  params.top_k = std::get<1>(from);
  params.top_p = std::get<2>(from);
  params.min_p = std::get<3>(from);
  return params;
}

// (prompt, new tokens at most, stop tokens, (temperature, top_k, top_p, min_p, seed))
using RequestTuple = std::tuple<std::vector<int32_t>, int64_t, std::vector<int32_t>, SamplingTuple>;

// (guesses of a step, the most and the fewest tokens that are looked for)
using SpeculationTuple = std::tuple<int64_t, int64_t, int64_t>;

std::unique_ptr<decoder::Generation> generation_of(Engine& engine, const std::vector<RequestTuple>& rows,
                                                   const SpeculationTuple& speculation, Engine* draft) {
  std::vector<decoder::Request> requests;
  for (const auto& [prompt, most, stop, sampling] : rows)
    requests.push_back({prompt, most, stop, to_sampling(sampling), std::get<4>(sampling)});
  const auto& [tokens, longest, shortest] = speculation;
  return std::make_unique<decoder::Generation>(engine, std::move(requests),
                                               decoder::Speculation{tokens, longest, shortest}, draft);
}

void bind_engine(nb::module_& module) {
  nb::class_<Engine>(module, "DecoderEngine")
      .def("step", &step, "sequences"_a, "every_token"_a = false, "adapter"_a = 0)
      .def(
          "add_adapter",
          [](Engine& engine, const Gguf& file, const std::filesystem::path& folder) {
            return add_adapter(engine, file.tensors, decoder::FileFormat::kGguf, folder);
          },
          "file"_a, "folder"_a)
      .def(
          "add_adapter",
          [](Engine& engine, const Checkpoint& file, const std::filesystem::path& folder) {
            return add_adapter(engine, file.tensors, decoder::FileFormat::kHuggingFace, folder);
          },
          "file"_a, "folder"_a)
      .def("time", &time_of, "bucket"_a, "settings"_a = std::vector<std::string>{}, "choice"_a = "host",
           nb::sig("def time(self, bucket: tuple[int, int, int, bool], settings: Sequence[str] = [], "
                   "choice: str = \"host\") -> Timing"))
      .def(
          "exchange_us",
          [](const Engine& engine, const BucketTuple& of, const std::string& choice) {
            const Unlocked unlocked;
            return engine.exchange_us(to_bucket(of, choice));
          },
          "bucket"_a, "choice"_a = "host")
      .def(
          "results_us",
          [](const Engine& engine, const BucketTuple& of, const std::string& choice) {
            return engine.results_us(to_bucket(of, choice));
          },
          "bucket"_a, "choice"_a = "host")
      .def(
          "bucket_of",
          [](const Engine& engine, int64_t sequences, int64_t tokens, int64_t context, bool every_token) {
            return to_tuple(engine.bucket_of(sequences, tokens, context, every_token));
          },
          "sequences"_a, "tokens"_a, "context"_a, "every_token"_a = false)
      .def(
          "bucket_text",
          [](const Engine&, const BucketTuple& of, const std::string& choice) {
            return to_bucket(of, choice).text();
          },
          "bucket"_a, "choice"_a = "host")
      .def(
          "prepare",
          [](Engine& engine, const BucketTuple& of, const std::string& choice) {
            const Unlocked unlocked;
            return engine.program(to_bucket(of, choice)).program->size();
          },
          "bucket"_a, "choice"_a = "host")
      .def(
          "listing",
          [](Engine& engine, const BucketTuple& of) {
            return isa::to_text(*engine.program(to_bucket(of)).program);
          },
          "bucket"_a)
      .def("pooled", &Engine::pooled)
      .def_prop_ro("pool_bytes", &Engine::pool_bytes)
      .def_prop_ro("weight_bytes", &Engine::weight_bytes)
      .def_prop_ro("config", [](const Engine& engine) {
        const decoder::Config& config = engine.config();
        nb::dict row;
        row["architecture"] = config.architecture;
        row["name"] = config.name;
        row["layers"] = config.layers;
        row["hidden"] = config.hidden;
        row["heads"] = config.heads;
        row["kv_heads"] = config.kv_heads;
        row["head_features"] = config.head_features;
        row["feed_forward"] = config.feed_forward;
        row["vocabulary"] = config.vocabulary;
        row["context"] = config.context;
        row["eagle"] = config.eagle3 ? 3 : config.eagle ? 1 : 0;  // the version of such a head
        return row;
      });
}

}  // namespace

void bind_decoder(nb::module_& module) {
  nb::class_<Gguf>(module, "Gguf")
      .def_prop_ro("metadata", &metadata_of)
      .def_prop_ro("tensors", &tensors_of)
      .def("decoded", &decoded, "name"_a);
  module.def(
      "read_gguf", [](const std::filesystem::path& path) { return import::weights::read_gguf(path); },
      "path"_a);
  module.def(
      "write_checkpoint",
      [](const Gguf& file, const std::filesystem::path& folder, const std::string& element,
         const std::vector<int64_t>& stop_tokens) {
        decoder::write_checkpoint(file, folder, element_of(element), stop_tokens);
      },
      "file"_a, "folder"_a, "element"_a, "stop_tokens"_a,
      "config.json and model.safetensors of a GGUF file's model, in a folder that is made.");
  nb::class_<Checkpoint>(module, "Checkpoint").def_ro("config", &Checkpoint::config);
  module.def(
      "read_checkpoint",
      [](const std::filesystem::path& folder) { return import::weights::read_checkpoint(folder); },
      "folder"_a);
  // Positions that the model was made for.
  module.def("decoder_context", [](const Gguf& file) { return decoder::config_of(file).context; });
  module.def("decoder_context",
             [](const Checkpoint& file) { return decoder::config_of_json(file.config).context; });
  module.def("decoder_engine", &engine_of_gguf, "file"_a, "target"_a, "element"_a, "block_tokens"_a,
             "blocks"_a, "sequences"_a, "tokens"_a, "contexts"_a, "lora"_a = nb::none(), "ranks"_a = 1,
             "instance"_a = "", "cores_per_rank"_a = 1, "eagle"_a.none() = nb::none(),
             "quantization"_a = "none", "kv_cache_dtype"_a = "auto");
  module.def("decoder_engine", &engine_of_checkpoint, "file"_a, "target"_a, "element"_a, "block_tokens"_a,
             "blocks"_a, "sequences"_a, "tokens"_a, "contexts"_a, "lora"_a = nb::none(), "ranks"_a = 1,
             "instance"_a = "", "cores_per_rank"_a = 1, "eagle"_a.none() = nb::none(),
             "quantization"_a = "none", "kv_cache_dtype"_a = "auto");
  module.def("eagle_engine", &eagle_engine_of, "file"_a, "model"_a, "block_tokens"_a, "blocks"_a,
             "sequences"_a, "tokens"_a, "contexts"_a);
  module.def("is_eagle", &decoder::is_eagle, "file"_a);
  module.def(
      "time_of_config", &time_of_config, "config"_a, "target"_a, "element"_a, "bucket"_a, "ranks"_a = 1,
      "layers"_a = 0, "contiguous"_a = false, "fuse_attention"_a = true, "sequence_ranks"_a = 1,
      "choice"_a = "host", "cores_per_rank"_a = 1, "quantization"_a = "none", "kv_cache_dtype"_a = "auto",
      "kind"_a = "",
      nb::sig(
          "def time_of_config(config: str, target: str, element: str, bucket: tuple[int, int, int, bool], "
          "ranks: int = 1, layers: int = 0, contiguous: bool = False, fuse_attention: bool = True, "
          "sequence_ranks: int = 1, choice: str = \"host\", cores_per_rank: int = 1, quantization: str = "
          "\"none\", kv_cache_dtype: str = \"auto\", kind: str = \"\") "
          "-> Timing"));
  module.def("sizes_of_config", &sizes_of_config, "config"_a,
             nb::sig("def sizes_of_config(config: str) -> dict[str, int]"));
  module.def("exchange_us_of_config", &exchange_us_of_config, "config"_a, "target"_a, "element"_a, "bucket"_a,
             "ranks"_a, "instance"_a, "cores_per_rank"_a = 1, "choice"_a = "host");
  module.def("results_us_of_config", &results_us_of_config, "config"_a, "bucket"_a, "choice"_a = "host");
  bind_engine(module);
  nb::class_<decoder::Generation>(module, "DecoderGeneration")
      .def_prop_ro("done", &decoder::Generation::done)
      .def_prop_ro("guessed", &decoder::Generation::guessed)
      .def_prop_ro("right", &decoder::Generation::right)
      .def("step", &generation_step);
  module.def("decoder_generation", &generation_of, "engine"_a, "requests"_a,
             "speculation"_a = SpeculationTuple{0, 4, 2}, "draft"_a = nb::none(), nb::keep_alive<0, 1>(),
             nb::keep_alive<0, 4>());
  module.def(
      "guessed_tokens",
      [](const std::vector<int32_t>& text, const SpeculationTuple& speculation, int64_t most) {
        const auto& [tokens, longest, shortest] = speculation;
        return decoder::guesses(text, {tokens, longest, shortest}, most);
      },
      "text"_a, "speculation"_a, "most"_a);
}

}  // namespace opentrn::python
