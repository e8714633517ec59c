#include "decoder/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::decoder {

namespace {

using import::weights::Gguf;

// What an architecture of llama.cpp's (src/llama-arch.cpp) has.
struct Architecture {
  std::string_view gguf, json;
  bool interleaved;  // llama.cpp's LLAMA_ROPE_TYPE_NORM
  bool qkv_bias, qk_norm;
};
constexpr Architecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", true, false, false},
    {"llama", "MistralForCausalLM", true, false, false},
    {"qwen2", "Qwen2ForCausalLM", false, true, false},
    {"qwen3", "Qwen3ForCausalLM", false, false, true},
    {"granite", "GraniteForCausalLM", true, false, false},
};

// Beyond any model that is known; keeps products of sizes inside 63 bits.
constexpr int64_t kSizeMax = int64_t{1} << 24;

[[noreturn]] void refuse(std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kInput, "decoder.config", std::move(message), std::move(hint));
}

template <typename Name>
const Architecture& architecture_of(std::string_view given, Name&& name) {
  for (const Architecture& row : kArchitectures)
    if (name(row) == given) return row;
  std::vector<std::string_view> known;
  for (const Architecture& row : kArchitectures)
    if (std::ranges::find(known, name(row)) == known.end()) known.push_back(name(row));
  throw Fault(FaultKind::kNotModelled, "decoder.architecture",
              fmt::format("no builder for the architecture '{}'", printable(given)),
              fmt::format("there is one for {}; others run as a graph: torch.export and `opentrn run`",
                          fmt::join(known, ", ")));
}

void expect_size(std::string_view what, int64_t value) {
  if (value < 1 || value > kSizeMax) refuse(fmt::format("{} is {}; 1 to {} are read", what, value, kSizeMax));
}

void check(const Config& config) {
  expect_size("the number of layers", config.layers);
  expect_size("the hidden size", config.hidden);
  expect_size("the number of heads", config.heads);
  expect_size("the number of key-value heads", config.kv_heads);
  expect_size("the features of a head", config.head_features);
  expect_size("the feed-forward size", config.feed_forward);
  expect_size("the vocabulary", config.vocabulary);
  expect_size("the context length", config.context);
  if (config.layers > 1024) refuse(fmt::format("{} layers; at most 1024 are read", config.layers));
  if (config.heads % config.kv_heads != 0)
    refuse(fmt::format("{} heads do not share {} key-value heads evenly", config.heads, config.kv_heads));
  if (config.head_features % 2 != 0)
    refuse(fmt::format("heads have {} features, which do not make pairs", config.head_features));
  if (!(config.norm_epsilon > 0) || !(config.rope_base > 0) || !std::isfinite(config.rope_base))
    refuse(fmt::format("the norm's epsilon is {}, the base of the positions {}; both are above 0",
                       config.norm_epsilon, config.rope_base));
  for (const double scale : {config.embedding_scale, config.residual_scale, config.logit_divisor})
    if (!std::isfinite(scale) || scale == 0) refuse(fmt::format("a scale is {}", scale));
}

// Llama 3.1's stretching of slow frequencies: Hugging Face's modeling_rope_utils.py,
// _compute_llama3_parameters.
std::vector<double> llama3_divisors(const Config& config, double factor, double low, double high,
                                    double trained) {
  std::vector<double> divisors;
  for (int64_t i = 0; i < config.head_features / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.head_features);
    const double wavelength = 2 * std::numbers::pi * std::pow(config.rope_base, exponent);
    const double smooth = std::clamp((trained / wavelength - low) / (high - low), 0.0, 1.0);
    divisors.push_back(1.0 / ((1 - smooth) / factor + smooth));
  }
  return divisors;
}

void add_rope_of_gguf(Config& config, const Gguf& file) {
  const std::string prefix = config.architecture + ".rope.";
  config.rope_base = file.real(prefix + "freq_base").value_or(10000.0);  // llama.cpp's default
  const auto scaling = file.text(prefix + "scaling.type");
  const double factor = file.real(prefix + "scaling.factor").value_or(1.0);
  if (scaling && *scaling == "linear" && factor > 0)
    config.rope_divisors.assign(static_cast<size_t>(config.head_features / 2), factor);
  else if (scaling && *scaling != "none" && *scaling != "llama3")
    throw Fault(FaultKind::kNotModelled, "decoder.architecture",
                fmt::format("positions are scaled by '{}'", printable(*scaling)));
  const auto turned = file.integer(prefix + "dimension_count");
  if (turned && *turned != config.head_features)
    throw Fault(
        FaultKind::kNotModelled, "decoder.architecture",
        fmt::format("{} of a head's {} features are turned by positions", *turned, config.head_features));
  const auto* table = file.tensors.find("rope_freqs.weight");
  if (!table) return;
  if (table->element_count() != config.head_features / 2)
    refuse(fmt::format("rope_freqs.weight has {} elements; heads have {} pairs of features",
                       table->element_count(), config.head_features / 2));
  std::vector<float> divisors(static_cast<size_t>(config.head_features / 2));
  import::weights::decode(table->encoding, table->bytes, divisors);
  config.rope_divisors.assign(divisors.begin(), divisors.end());
}

using Json = nlohmann::json;

int64_t integer(const Json& json, const char* key, std::optional<int64_t> absent = {}) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) {
    if (absent) return *absent;
    refuse(fmt::format("config.json has no {}", key));
  }
  if (!found->is_number_integer()) refuse(fmt::format("{} of config.json is no integer", key));
  return found->get<int64_t>();
}

double real(const Json& json, const char* key, double absent) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return absent;
  if (!found->is_number()) refuse(fmt::format("{} of config.json is no number", key));
  return found->get<double>();
}

bool boolean(const Json& json, const char* key, bool absent) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return absent;
  if (!found->is_boolean()) refuse(fmt::format("{} of config.json is neither true nor false", key));
  return found->get<bool>();
}

// transformers 4 writes rope_theta and rope_scaling, 5 writes both into rope_parameters.
void add_rope_of_json(Config& config, const Json& json) {
  Json rope = json.contains("rope_parameters") ? json["rope_parameters"]
              : json.contains("rope_scaling")  ? json["rope_scaling"]
                                               : Json::object();
  if (!rope.is_object()) rope = Json::object();
  config.rope_base = real(rope, "rope_theta", real(json, "rope_theta", 10000.0));
  const auto found = rope.contains("rope_type") ? rope.find("rope_type") : rope.find("type");
  const std::string type = found != rope.end() && found->is_string() ? found->get<std::string>() : "default";
  if (type == "default") return;
  const double factor = real(rope, "factor", 0);
  if (!(factor > 0)) refuse(fmt::format("the factor of the positions' scaling is {}", factor));
  if (type == "linear") {
    config.rope_divisors.assign(static_cast<size_t>(config.head_features / 2), factor);
  } else if (type == "llama3") {
    config.rope_divisors =
        llama3_divisors(config, factor, real(rope, "low_freq_factor", 1), real(rope, "high_freq_factor", 4),
                        real(rope, "original_max_position_embeddings", static_cast<double>(config.context)));
  } else {
    throw Fault(FaultKind::kNotModelled, "decoder.architecture",
                fmt::format("positions are scaled by '{}'", printable(type)));
  }
}

}  // namespace

double Config::score_scale() const {
  return attention_scale != 0 ? attention_scale : 1.0 / std::sqrt(static_cast<double>(head_features));
}

Config config_of(const Gguf& file) {
  Config config;
  const auto architecture = file.text("general.architecture");
  if (!architecture) refuse("the file does not say its general.architecture");
  const Architecture& row = architecture_of(*architecture, [](const Architecture& r) { return r.gguf; });
  config.architecture = *architecture;
  config.name = std::string(file.text("general.name").value_or(""));
  const std::string prefix = config.architecture + ".";
  const auto needed = [&](const char* key) {
    const auto value = file.integer(prefix + key);
    if (!value) refuse(fmt::format("the file has no {}{}", prefix, key));
    return *value;
  };
  config.layers = needed("block_count");
  config.hidden = needed("embedding_length");
  config.heads = needed("attention.head_count");
  config.kv_heads = file.integer(prefix + "attention.head_count_kv").value_or(config.heads);
  expect_size("the number of heads", config.heads);
  config.head_features = file.integer(prefix + "attention.key_length").value_or(config.hidden / config.heads);
  config.feed_forward = needed("feed_forward_length");
  config.context = needed("context_length");
  const auto* table = file.tensors.find("token_embd.weight");
  if (!table || table->shape.size() != 2)
    refuse("the file has no tensor token_embd.weight of two dimensions");
  config.vocabulary = table->shape[0];
  config.norm_epsilon = file.real(prefix + "attention.layer_norm_rms_epsilon").value_or(0);
  config.qkv_bias = row.qkv_bias || file.tensors.find("blk.0.attn_q.bias") != nullptr;
  config.qk_norm = row.qk_norm;
  config.rows_interleaved = row.interleaved;
  config.tied = file.tensors.find("output.weight") == nullptr;
  config.embedding_scale = file.real(prefix + "embedding_scale").value_or(1);
  config.residual_scale = file.real(prefix + "residual_scale").value_or(1);
  config.logit_divisor = file.real(prefix + "logit_scale").value_or(1);
  config.attention_scale = file.real(prefix + "attention.scale").value_or(0);
  if (file.integer(prefix + "expert_count").value_or(0) > 0)
    throw Fault(FaultKind::kNotModelled, "decoder.architecture", "a mixture of experts has no builder yet");
  check(config);
  add_rope_of_gguf(config, file);
  check(config);
  return config;
}

Config config_of_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse("config.json is no JSON object");
  std::string given;
  if (const auto list = json.find("architectures"); list != json.end() && list->is_array() && !list->empty())
    if (list->front().is_string()) given = list->front().get<std::string>();
  const Architecture& row = architecture_of(given, [](const Architecture& r) { return r.json; });
  Config config;
  config.architecture = row.gguf;
  config.layers = integer(json, "num_hidden_layers");
  config.hidden = integer(json, "hidden_size");
  config.heads = integer(json, "num_attention_heads");
  expect_size("the number of heads", config.heads);
  config.kv_heads = integer(json, "num_key_value_heads", config.heads);
  config.head_features = integer(json, "head_dim", config.hidden / config.heads);
  config.feed_forward = integer(json, "intermediate_size");
  config.vocabulary = integer(json, "vocab_size");
  config.context = integer(json, "max_position_embeddings");
  config.norm_epsilon = real(json, "rms_norm_eps", 0);
  config.qkv_bias = row.qkv_bias || boolean(json, "attention_bias", false);
  config.qk_norm = row.qk_norm;
  config.tied = boolean(json, "tie_word_embeddings", false);
  config.embedding_scale = real(json, "embedding_multiplier", 1);
  config.residual_scale = real(json, "residual_multiplier", 1);
  config.logit_divisor = real(json, "logits_scaling", 1);
  config.attention_scale = real(json, "attention_multiplier", 0);
  if (boolean(json, "use_sliding_window", false) && !json.value("sliding_window", Json()).is_null())
    throw Fault(FaultKind::kNotModelled, "decoder.architecture", "attention with a sliding window");
  check(config);
  add_rope_of_json(config, json);
  check(config);
  return config;
}

}  // namespace opentrn::decoder
