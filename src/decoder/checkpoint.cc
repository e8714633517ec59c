#include "decoder/checkpoint.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/new_file.h"
#include "decoder/config.h"
#include "decoder/tensor_names.h"
#include "decoder/weights.h"

namespace opentrn::decoder {

namespace {

using graph::ElementType;
using import::weights::Gguf;
using import::weights::StoredTensor;
using OrderedJson = nlohmann::ordered_json;

constexpr char kCheckpointLabel[] = "generate.checkpoint";
// Those whose config.json is written here; model_type is the same word.
constexpr std::string_view kWrittenArchitectures[] = {"llama", "qwen2", "qwen3", "granite"};

struct WrittenKind {
  ElementType element;
  const char *tensor, *config;  // as safetensors and config.json spell it
  size_t bytes;
};
constexpr WrittenKind kWrittenKinds[] = {{ElementType::kF32, "F32", "float32", 4},
                                         {ElementType::kF16, "F16", "float16", 2},
                                         {ElementType::kBF16, "BF16", "bfloat16", 2}};

const WrittenKind& written_kind(ElementType element) {
  const auto found = std::ranges::find(kWrittenKinds, element, &WrittenKind::element);
  OPENTRN_CHECK(found != std::end(kWrittenKinds), "no weights of {}", graph::name(element));
  return *found;
}

Config config_to_write(const Gguf& file) {
  const std::string_view architecture = file.text("general.architecture").value_or("");
  if (std::ranges::find(kWrittenArchitectures, architecture) == std::end(kWrittenArchitectures))
    throw Fault(FaultKind::kNotModelled, kCheckpointLabel,
                fmt::format("'{}' has no class of Hugging Face's here", architecture));
  Config config = config_of(file);
  if (!config.rope_divisors.empty() || config.rope_scale != 1)
    throw Fault(FaultKind::kNotModelled, kCheckpointLabel, "scaled rotary positions are not written");
  return config;
}

OrderedJson checkpoint_json(const Config& config, const WrittenKind& matrices,
                            std::span<const int64_t> stop_tokens) {
  OrderedJson json = {{"architectures", {hugging_face_class(config.architecture)}},
                      {"model_type", config.architecture},
                      {"torch_dtype", matrices.config},
                      {"hidden_size", config.hidden},
                      {"intermediate_size", config.feed_forward},
                      {"num_hidden_layers", config.layers},
                      {"num_attention_heads", config.heads},
                      {"num_key_value_heads", config.kv_heads},
                      {"head_dim", config.head_features},
                      {"hidden_act", "silu"},
                      {"rms_norm_eps", config.norm_epsilon},
                      {"rope_theta", config.rope_base},
                      {"max_position_embeddings", config.context},
                      {"vocab_size", config.vocabulary},
                      {"tie_word_embeddings", config.tied},
                      {"attention_bias", config.output_bias},
                      {"eos_token_id", std::vector<int64_t>(stop_tokens.begin(), stop_tokens.end())}};
  if (config.architecture == "granite")
    json.update({{"embedding_multiplier", config.embedding_scale},
                 {"residual_multiplier", config.residual_scale},
                 {"logits_scaling", config.logit_divisor},
                 {"attention_multiplier", config.score_scale()}});
  return json;
}

// A tensor's numbers as they are written; rows of queries and keys as two halves of each head.
std::vector<std::byte> written(const Config& config, const StoredTensor& tensor, const WrittenKind& kind) {
  const std::vector<float> values = tensor.decoded();
  const bool is_turned = config.rows_interleaved && (tensor.name.find(".attn_q.") != std::string::npos ||
                                                     tensor.name.find(".attn_k.") != std::string::npos);
  const int64_t rows = tensor.shape[0];
  const size_t columns = values.size() / static_cast<size_t>(rows);
  std::vector<std::byte> bytes(values.size() * kind.bytes);
  std::byte* to = bytes.data();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t from = is_turned ? interleaved_row(row, config.head_features, config.head_features) : row;
    for (const float value : std::span(values).subspan(static_cast<size_t>(from) * columns, columns)) {
      const uint16_t half = kind.element == ElementType::kF16 ? import::weights::float_to_half(value)
                                                              : import::weights::float_to_bfloat(value);
      std::memcpy(to, kind.bytes == 4 ? static_cast<const void*>(&value) : &half, kind.bytes);
      to += kind.bytes;
    }
  }
  return bytes;
}

// Eight bytes with the length of a header in JSON, the header, the tensors one behind the other.
void write_tensors(const Gguf& file, const Config& config, const std::string& path,
                   const WrittenKind& matrices) {
  OrderedJson header = {{"__metadata__", {{"format", "pt"}}}};
  size_t end = 0;
  const auto kind = [&](const StoredTensor& tensor) -> const WrittenKind& {
    return tensor.shape.size() < 2 ? kWrittenKinds[0] : matrices;
  };
  for (const StoredTensor& tensor : file.tensors.all()) {
    const auto name = hugging_face_name(tensor.name);
    if (!name)
      throw Fault(FaultKind::kInput, kCheckpointLabel,
                  fmt::format("no name of Hugging Face's for the tensor {}", tensor.name));
    const size_t size = static_cast<size_t>(tensor.element_count()) * kind(tensor).bytes;
    header[*name] = {
        {"dtype", kind(tensor).tensor}, {"shape", tensor.shape}, {"data_offsets", {end, end + size}}};
    end += size;
  }
  std::string words = header.dump();
  words.resize((words.size() + 7) / 8 * 8, ' ');
  NewFile out(path, kCheckpointLabel, "another folder");
  const uint64_t length = words.size();
  out.put(&length, sizeof length);
  out.put(words.data(), words.size());
  for (const StoredTensor& tensor : file.tensors.all()) {
    const std::vector<std::byte> bytes = written(config, tensor, kind(tensor));
    out.put(bytes.data(), bytes.size());
  }
  out.finish();
}

}  // namespace

void write_checkpoint(const Gguf& file, const std::filesystem::path& folder, ElementType matrices,
                      std::span<const int64_t> stop_tokens) {
  const WrittenKind& kind = written_kind(matrices);
  const Config config = config_to_write(file);
  std::filesystem::create_directories(folder);
  const std::string text = checkpoint_json(config, kind, stop_tokens).dump(1);
  NewFile out((folder / "config.json").string(), kCheckpointLabel, "another folder");
  out.put(text.data(), text.size());
  out.finish();
  write_tensors(file, config, (folder / "model.safetensors").string(), kind);
}

}  // namespace opentrn::decoder
