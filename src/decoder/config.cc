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
#include "decoder/architectures.h"
#include "decoder/config_json.h"

namespace opentrn::decoder {

namespace {

// Beyond what rows of Architecture say.
void expect_windows(const Config& config) {
  if (config.windowed.empty()) return;
  if (config.windowed.size() != static_cast<size_t>(config.layers))
    refuse_config(
        fmt::format("{} layers are told what they see; there are {}", config.windowed.size(), config.layers));
  expect_size("the window of attention", config.window);
}

void expect_experts(const Config& config) {
  if (config.experts == 0) return;
  OPENTRN_CHECK(config.dense.empty() || config.dense.size() == static_cast<size_t>(config.layers),
                "{} layers", config.dense.size());
  expect_size("the number of experts", config.experts);
  expect_size("the features of an expert", config.expert_features);
  if (config.experts > 1024) refuse_config(fmt::format("{} experts; at most 1024 are read", config.experts));
  if (config.experts_taken < 1 || config.experts_taken > config.experts)
    refuse_config(fmt::format("a token goes through {} of {} experts", config.experts_taken, config.experts));
  if (config.expert_groups > 0 &&
      (config.experts % config.expert_groups != 0 || config.groups_taken < 1 ||
       config.groups_taken > config.expert_groups ||
       config.experts_taken > config.experts / config.expert_groups * config.groups_taken))
    refuse_config(fmt::format("a token goes through {} experts in {} of {} groups of {}",
                              config.experts_taken, config.groups_taken, config.expert_groups,
                              config.experts));
  if (config.shared_features != 0) expect_size("the features of the shared expert", config.shared_features);
}

void expect_latent(const Config& config) {
  if (config.value_features > 1024)
    refuse_config(
        fmt::format("values of a head have {} features; at most 1024 are read", config.value_features));
  if (config.query_rank != 0) expect_size("q_lora_rank", config.query_rank);
}

}  // namespace

void check_sizes(const Config& config) {
  expect_size("the number of layers", config.layers);
  expect_size("the hidden size", config.hidden);
  expect_size("the number of heads", config.heads);
  expect_size("the number of key-value heads", config.kv_heads);
  expect_size("the features of a head", config.head_features);
  expect_size("the feed-forward size", config.feed_forward);
  expect_size("the vocabulary", config.vocabulary);
  expect_size("the context length", config.context);
  if (config.head_features > 1024)
    refuse_config(fmt::format("heads have {} features; at most 1024 are read", config.head_features));
  if (config.layers > 1024) refuse_config(fmt::format("{} layers; at most 1024 are read", config.layers));
  if (config.heads % config.kv_heads != 0)
    refuse_config(
        fmt::format("{} heads do not share {} key-value heads evenly", config.heads, config.kv_heads));
  if (!config.position_table && config.rope_features() % 2 != 0)
    refuse_config(
        fmt::format("{} features of a head are turned, which do not make pairs", config.rope_features()));
  if (!(config.norm_epsilon > 0) || !(config.rope_base > 0) || !std::isfinite(config.rope_base))
    refuse_config(fmt::format("the norm's epsilon is {}, the base of the positions {}; both are above 0",
                              config.norm_epsilon, config.rope_base));
  for (const double scale :
       {config.embedding_scale, config.residual_scale, config.logit_divisor, config.expert_scale})
    if (!std::isfinite(scale) || scale == 0) refuse_config(fmt::format("a scale is {}", scale));
  for (const double cap : {config.attention_cap, config.logit_cap, config.local_rope_base, config.gate_limit,
                           config.rope_scale, config.local_rope_scale})
    if (!std::isfinite(cap) || cap < 0) refuse_config(fmt::format("a cap or base is {}", cap));
  expect_windows(config);
  expect_experts(config);
  expect_latent(config);
}

namespace {

// Llama 3.1's stretching of slow frequencies: Hugging Face's modeling_rope_utils.py,
// _compute_llama3_parameters.
std::vector<double> llama3_divisors(const Config& config, double factor, double low, double high,
                                    double trained) {
  std::vector<double> divisors;
  for (int64_t i = 0; i < config.rope_features() / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.rope_features());
    const double wavelength = 2 * std::numbers::pi * std::pow(config.rope_base, exponent);
    const double smooth = std::clamp((trained / wavelength - low) / (high - low), 0.0, 1.0);
    divisors.push_back(1.0 / ((1 - smooth) / factor + smooth));
  }
  return divisors;
}

// YaRN (Peng et al. 2023) as Hugging Face's modeling_rope_utils.py, _compute_yarn_parameters, has it: pairs
// that turn more than `fast` times over the trained positions keep their frequency, those that turn less than
// `slow` times are stretched by `factor`, and between the two lies a ramp.
struct Yarn {
  double factor = 1, fast = 32, slow = 1, trained = 0;
  bool whole = true;  // the ramp begins and ends at whole pairs
};
std::vector<double> yarn_divisors(const Config& config, const Yarn& yarn) {
  const auto features = static_cast<double>(config.rope_features());
  const auto pair_of = [&](double turns) {
    return features * std::log(yarn.trained / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.rope_base));
  };
  double low = pair_of(yarn.fast), high = pair_of(yarn.slow);
  if (yarn.whole) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, features - 1);
  if (low == high) high += 0.001;
  std::vector<double> divisors;
  for (int64_t i = 0; i < config.rope_features() / 2; ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    divisors.push_back(1.0 / (stretched / yarn.factor + 1 - stretched));
  }
  return divisors;
}
double yarn_scale(double factor, double weight = 1) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1;
}

void add_yarn(Config& config, const Yarn& yarn, double scale) {
  for (const double value : {yarn.factor, yarn.fast, yarn.slow, yarn.trained, scale})
    if (!std::isfinite(value) || !(value > 0))
      refuse_config(
          fmt::format("YaRN's factor is {}, beta_fast {}, beta_slow {}, the trained positions {}, the "
                      "attention factor {}; all are above 0",
                      yarn.factor, yarn.fast, yarn.slow, yarn.trained, scale));
  config.rope_divisors = yarn_divisors(config, yarn);
  config.rope_scale = scale;
}

void add_yarn_of_json(Config& config, const Json& rope, double factor) {
  Yarn yarn;
  yarn.factor = factor;
  yarn.fast = real(rope, "beta_fast", yarn.fast);
  yarn.slow = real(rope, "beta_slow", yarn.slow);
  yarn.trained = real(rope, "original_max_position_embeddings", static_cast<double>(config.context));
  yarn.whole = boolean(rope, "truncate", true);
  const double weight = real(rope, "mscale", 0), all = real(rope, "mscale_all_dim", 0);
  const double scale =
      weight != 0 && all != 0 ? yarn_scale(factor, weight) / yarn_scale(factor, all) : yarn_scale(factor);
  add_yarn(config, yarn, real(rope, "attention_factor", scale));
}

std::vector<double> factors(const Config& config, const Json& rope, const char* key) {
  const auto found = rope.find(key);
  const auto wanted = static_cast<size_t>(config.rope_features() / 2);
  if (found == rope.end() || !found->is_array() || found->size() != wanted)
    refuse_config(fmt::format("{} of config.json is no list of {} factors", key, wanted));
  std::vector<double> values;
  for (const Json& value : *found) {
    values.push_back(value.is_number() ? value.get<double>() : 0.0);
    if (!std::isfinite(values.back()) || values.back() <= 0)
      refuse_config(fmt::format("{} of config.json has a factor that is not above 0", key));
  }
  return values;
}

// LongRoPE (Ding et al. 2024) as transformers' modeling_rope_utils.py, _compute_longrope_parameters, has it.
// Which factors hold follows from the positions that programs reach, as vLLM decides it, and not from a
// request's.
void add_long_rope(Config& config, const Json& rope) {
  const auto trained =
      static_cast<double>(integer(rope, "original_max_position_embeddings",
                                  config.rope_trained > 0 ? config.rope_trained : config.context));
  if (!(trained >= 1 && trained <= static_cast<double>(kSizeMax)))
    refuse_config(fmt::format("original_max_position_embeddings is {}", trained));
  config.rope_trained = static_cast<int64_t>(trained);
  config.rope_divisors = factors(config, rope, "short_factor");
  config.rope_divisors_beyond = factors(config, rope, "long_factor");
  const double factor = real(rope, "factor", static_cast<double>(config.context) / trained);
  const double scale = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(trained));
  config.rope_scale = real(rope, "attention_factor", scale);
  if (!std::isfinite(config.rope_scale) || config.rope_scale <= 0)
    refuse_config(fmt::format("the attention factor of positions is {}", config.rope_scale));
}

// How one kind of layers turns positions. `base`: where the object says none.
void add_rope(Config& config, const Json& rope, double base) {
  config.rope_base = real(rope, "rope_theta", base);
  const auto found = rope.contains("rope_type") ? rope.find("rope_type") : rope.find("type");
  const std::string type = found != rope.end() && found->is_string() ? found->get<std::string>() : "default";
  // Qwen VL's has a position for each of three axes, which are the same where there is text alone.
  if (type == "default" || type == "mrope") return;
  if (type == "longrope" || type == "su") return add_long_rope(config, rope);
  const double factor = real(rope, "factor", 0);
  if (!(factor > 0)) refuse_config(fmt::format("the factor of the positions' scaling is {}", factor));
  if (type == "linear") {
    config.rope_divisors.assign(static_cast<size_t>(config.rope_features() / 2), factor);
  } else if (type == "llama3") {
    config.rope_divisors =
        llama3_divisors(config, factor, real(rope, "low_freq_factor", 1), real(rope, "high_freq_factor", 4),
                        real(rope, "original_max_position_embeddings", static_cast<double>(config.context)));
  } else if (type == "yarn") {
    add_yarn_of_json(config, rope, factor);
  } else {
    throw Fault(FaultKind::kNotModelled, "decoder.architecture",
                fmt::format("positions are scaled by '{}'", printable(type)));
  }
}

// transformers 4 writes rope_theta and rope_scaling, 5 writes both into rope_parameters.
void add_rope_of_json(Config& config, const Json& json) {
  Json rope = json.contains("rope_parameters") ? json["rope_parameters"]
              : json.contains("rope_scaling")  ? json["rope_scaling"]
                                               : Json::object();
  if (!rope.is_object()) rope = Json::object();
  // One for layers that see everything and one for those with a window.
  if (const auto local = rope.find("sliding_attention"); local != rope.end() && local->is_object()) {
    Config of_windows = config;
    add_rope(of_windows, *local, config.local_rope_base);
    config.local_rope_base = of_windows.rope_base;
    config.local_rope_divisors = of_windows.rope_divisors;
    config.local_rope_scale = of_windows.rope_scale;
  }
  if (const auto whole = rope.find("full_attention"); whole != rope.end() && whole->is_object())
    rope = Json(*whole);
  add_rope(config, rope, real(json, "rope_theta", config.rope_base));
}

}  // namespace

double Config::score_scale() const {
  return attention_scale != 0 ? attention_scale : 1.0 / std::sqrt(static_cast<double>(head_features));
}

Config part_of(const Config& config, int64_t ranks) {
  if (ranks < 1 || ranks > config.heads)
    refuse_config(fmt::format("{} ranks share {} heads", ranks, config.heads));
  const auto share = [&](int64_t whole) { return (whole + ranks - 1) / ranks; };
  Config part = config;
  part.heads = share(config.heads);
  part.kv_heads = share(config.kv_heads);
  // Groups of a whole number of heads: padded ones have queries of zeros.
  part.heads = (part.heads + part.kv_heads - 1) / part.kv_heads * part.kv_heads;
  part.feed_forward = share(config.feed_forward);
  part.expert_features = share(config.expert_features);
  part.shared_features = share(config.shared_features);
  part.vocabulary = share(config.vocabulary);
  part.words.resize(static_cast<size_t>(share(static_cast<int64_t>(config.words.size()))));
  return part;
}

int64_t layers_of(const Config& config, LayerKind kind) {
  const int64_t dense = config.experts == 0 ? config.layers : std::ranges::count(config.dense, true);
  return kind == LayerKind::kDense ? dense : config.layers - dense;
}

Config model_of(const Config& config, LayerKind kind, int64_t layers) {
  OPENTRN_CHECK(layers_of(config, kind) > 0 && layers <= config.layers, "{} layers of {}", layers,
                config.layers);
  Config made = config;
  made.layers = layers;
  made.dense.clear();
  if (kind == LayerKind::kDense) made.experts = made.shared_features = 0;
  return made;
}

static Config config_with_layer_norms(Family family, const Json& json) {
  Config config = family == Family::kGpt2         ? config_of_gpt2(json)
                  : family == Family::kGptNeoX    ? config_of_gpt_neox(json)
                  : family == Family::kOpt        ? config_of_opt(json)
                  : family == Family::kStableLm   ? config_of_stablelm(json)
                  : family == Family::kStarCoder2 ? config_of_starcoder2(json)
                  : family == Family::kPhi        ? config_of_phi(json)
                  : family == Family::kNemotron   ? config_of_nemotron(json)
                                                  : config_of_cohere(json, family);
  check_sizes(config);
  if (!config.position_table) add_rope_of_json(config, json);
  check_sizes(config);
  return config;
}

static void add_family(Config& config, const Json& json, Family family) {
  if (family != Family::kSmolLm3 && family != Family::kDots1) add_windows_of_qwen(config, json, family);
  if (family < Family::kGemma && family != Family::kArcee) add_activation(config, json);
  switch (family) {
    case Family::kMixtral: add_experts(config, json, family); [[fallthrough]];
    case Family::kMistral: return add_windows(config, json, 0);
    case Family::kQwenMoe: return add_experts(config, json, family);
    case Family::kGptOss: return add_gpt_oss(config, json);
    case Family::kMiniMaxM2: return add_minimax_m2(config, json);
    case Family::kOlmoe: return add_olmoe(config, json);
    case Family::kDots1: return add_dots1(config, json);
    case Family::kExaone4: return add_exaone4(config, json);
    case Family::kSeedOss: return add_seed_oss(config, json);
    case Family::kErnie4_5: return add_ernie4_5(config, json);
    case Family::kMinistral3: return add_ministral3(config, json);
    case Family::kArcee: return add_arcee(config, json);
    case Family::kSmolLm3: return add_smollm3(config, json);
    case Family::kLlama4: return add_llama4(config, json);
    case Family::kDeepSeekV2:
    case Family::kGlm4MoeLite:
    case Family::kDeepSeekV3: return add_deepseek(config, json, family);
    case Family::kGlm4Moe: return add_glm4_moe(config, json);
    case Family::kGlm:
    case Family::kGlm4: return add_glm(config, json, family);
    case Family::kOlmo2:
    case Family::kOlmo3: return add_olmo2(config, json, family);
    case Family::kPhi3: return add_phi3(config, json);
    case Family::kGemma:
    case Family::kGemma2:
    case Family::kGemma3: return add_gemma(config, json, family);
    default: return;
  }
}

static std::string class_of(const Json& json) {
  const auto list = json.find("architectures");
  if (list == json.end() || !list->is_array() || list->empty() || !list->front().is_string()) return {};
  return list->front().get<std::string>();
}

Config config_of_class(const Json& json) {
  const Architecture& row = architecture_of_class(class_of(json));
  if (row.family >= Family::kGpt2) return config_with_layer_norms(row.family, json);
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
  config.output_bias = boolean(json, "attention_bias", false);
  config.qkv_bias = boolean(json, "qkv_bias", row.qkv_bias) || config.output_bias;
  config.qk_norm = row.qk_norm;
  config.tied = boolean(json, "tie_word_embeddings", false);
  config.embedding_scale = real(json, "embedding_multiplier", 1);
  config.residual_scale = real(json, "residual_multiplier", 1);
  config.logit_divisor = real(json, "logits_scaling", 1);
  config.attention_scale = real(json, "attention_multiplier", 0);
  add_family(config, json, row.family);
  check_sizes(config);
  add_rope_of_json(config, json);
  check_sizes(config);
  return config;
}

Config config_of_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse_config("config.json is not a JSON object");
  const std::optional<Json> inside = text_of_wrapped(json, class_of(json));
  if (!inside) return config_of_class(json);
  Config config = config_of_class(*inside);
  config.beside_images = true;
  return config;
}

}  // namespace opentrn::decoder
