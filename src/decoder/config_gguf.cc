// The configuration that a GGUF file states: its keys are read as those of config.json of the same class, and
// what llama.cpp's converter does to weights (its folder conversion/) is said behind that.
#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/utf8.h"
#include "decoder/architectures.h"
#include "decoder/config_json.h"

namespace opentrn::decoder {

namespace {

using import::weights::Gguf;
using import::weights::GgufList;

struct KeyRow {
  const char *gguf, *json;  // behind the architecture's name and a dot
};
constexpr KeyRow kIntegers[] = {
    {"block_count", "num_hidden_layers"},
    {"embedding_length", "hidden_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"feed_forward_length", "intermediate_size"},
    {"context_length", "max_position_embeddings"},
    {"attention.sliding_window", "sliding_window"},
    {"expert_count", "num_local_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"block_count", "n_layer"},
    {"embedding_length", "n_embd"},
    {"attention.head_count", "n_head"},
    {"feed_forward_length", "n_inner"},
    {"context_length", "n_positions"},
};
constexpr KeyRow kReals[] = {
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
    {"attention.layer_norm_epsilon", "norm_epsilon"},
    {"attention.layer_norm_epsilon", "norm_eps"},
    {"rope.freq_base", "rope_theta"},
    {"rope.freq_base", "rotary_emb_base"},
    {"rope.freq_base_swa", "rope_local_base_freq"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"logit_scale", "logits_scaling"},  // Granite divides by it
    {"logit_scale", "logit_scale"},     // Command R multiplies
    {"attention.scale", "attention_multiplier"},
};
constexpr const char* kNeeded[] = {"block_count", "embedding_length", "attention.head_count",
                                   "feed_forward_length", "context_length"};

class Keys {
 public:
  Keys(const Gguf& file, const Architecture& row)
      : file_(file), row_(row), prefix_(std::string(row.gguf) + ".") {}

  Json config_json() const {
    for (const char* key : kNeeded)
      if (!integer(key)) refuse_config(fmt::format("the file has no {}{}", prefix_, key));
    const bool mixes = row_.family == Family::kMixtral || row_.family == Family::kOlmoe ||
                       row_.family == Family::kQwenMoe || row_.family == Family::kGptOss;
    if (!mixes && integer("expert_count").value_or(0) > 0)
      refuse_architecture(fmt::format("'{}' with a mixture of experts", row_.gguf),
                          "of GGUF files those of llama, qwen2moe, qwen3moe, olmoe and gpt-oss are read");
    Json json = {{"architectures", {std::string(row_.json)}},
                 {"vocab_size", vocabulary()},
                 {"tie_word_embeddings", !has("output.weight")}};
    for (const KeyRow& key : kIntegers)
      if (const auto value = integer(key.gguf)) json[key.json] = *value;
    for (const KeyRow& key : kReals)
      if (const auto value = file_.real(prefix_ + key.gguf)) json[key.json] = *value;
    if (json.value("sliding_window", Json()) == 0) json["sliding_window"] = nullptr;
    if (!json.contains("rope_theta")) json["rope_theta"] = 10000.0;  // llama.cpp's default
    add_biases(json);
    add_windows_of_layers(json);
    add_turned(json);
    add_scaling(json);
    add_family(json);
    return json;
  }

  // What the converter makes of weights, and what is said by which tensors a file has.
  void add_file(Config& config) const {
    config.architecture = row_.gguf;
    config.name = std::string(file_.text("general.name").value_or(""));
    config.adapter_rows_interleaved = config.rows_interleaved;
    config.rows_interleaved = row_.interleaved;
    config.tied = !has("output.weight");
    config.qkv_bias = row_.qkv_bias || has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias");
    config.output_bias = has("blk.0.attn_output.bias");
    config.fused_qkv = has("blk.0.attn_qkv.weight");
    config.norms_less_one = config.by_rows = config.by_heads = false;
    const auto turned = integer("rope.dimension_count");
    if (!config.position_table && turned && *turned != config.rope_features())
      refuse_architecture(
          fmt::format("{} of a head's {} features are turned by positions", *turned, config.head_features));
    if (const auto* table = file_.tensors.find("rope_freqs.weight")) add_frequencies(config, *table);
  }

 private:
  std::optional<int64_t> integer(const std::string& key) const { return file_.integer(prefix_ + key); }
  bool has(std::string_view tensor) const { return file_.tensors.find(tensor) != nullptr; }
  bool flag(const char* key, bool absent) const {
    const auto found = file_.metadata.find(prefix_ + key);
    if (found == file_.metadata.end()) return absent;
    if (const auto* value = std::get_if<bool>(&found->second)) return *value;
    refuse_config(fmt::format("{}{} is neither true nor false", prefix_, key));
  }

  int64_t vocabulary() const {
    const auto* table = file_.tensors.find("token_embd.weight");
    if (!table || table->shape.size() != 2)
      refuse_config("the file has no tensor token_embd.weight of two dimensions");
    return table->shape[0];
  }

  void add_biases(Json& json) const {
    json["attention_bias"] = has("blk.0.attn_output.bias");
    json["use_bias"] = has("blk.0.ffn_up.bias");
    json["use_qkv_bias"] = has("blk.0.attn_q.bias");
    json["mlp_bias"] = has("blk.0.ffn_up.bias");
    if (row_.family == Family::kArcee || row_.family == Family::kNemotron) json["hidden_act"] = "relu2";
  }

  // Which layers have a window: every one but each so many's last, or a list.
  void add_windows_of_layers(Json& json) const {
    const auto found = file_.metadata.find(prefix_ + "attention.sliding_window_pattern");
    if (found == file_.metadata.end()) return;
    if (const auto* every = std::get_if<int64_t>(&found->second)) {
      json["sliding_window_pattern"] = *every;
      return;
    }
    const auto* list = std::get_if<GgufList>(&found->second);
    const auto* layers = list ? std::get_if<std::vector<int64_t>>(list) : nullptr;
    if (!layers)
      refuse_config(fmt::format("{}attention.sliding_window_pattern is neither a number nor a list of layers",
                                prefix_));
    json["layer_types"] = Json::array();
    for (const int64_t windowed : *layers)
      json["layer_types"].push_back(windowed != 0 ? "sliding_attention" : "full_attention");
  }

  // The share of a head's features that positions turn: so that it gives the number again when it is rounded
  // down.
  void add_turned(Json& json) const {
    const auto turned = integer("rope.dimension_count");
    const int64_t head = head_features(json);
    double share = 1;
    if (turned && *turned > 0 && *turned < head)
      share = (static_cast<double>(*turned) + 0.5) / static_cast<double>(head);
    for (const char* key : {"partial_rotary_factor", "rotary_pct"}) json[key] = share;
  }
  static int64_t head_features(const Json& json) {
    const int64_t heads = json.at("num_attention_heads").get<int64_t>();
    expect_size("the number of heads", heads);
    return json.contains("head_dim") ? json["head_dim"].get<int64_t>()
                                     : json.at("hidden_size").get<int64_t>() / heads;
  }

  // llama.cpp's keys and defaults.
  void add_scaling(Json& json) const {
    const std::string scaling = prefix_ + "rope.scaling.";
    const auto type = file_.text(scaling + "type");
    const double factor = file_.real(scaling + "factor").value_or(1);
    const auto trained = file_.integer(scaling + "original_context_length");
    const double attention = file_.real(scaling + "attn_factor").value_or(1);
    Json rope = Json::object();
    if (has("rope_factors_short.weight") || has("rope_factors_long.weight")) {
      rope = {{"rope_type", "longrope"},
              {"short_factor", numbers("rope_factors_short.weight")},
              {"long_factor", numbers("rope_factors_long.weight")},
              {"attention_factor", attention}};
    } else if (type && *type == "linear") {
      rope = {{"rope_type", "linear"}, {"factor", factor}};
    } else if (type && *type == "yarn") {
      // The factor of attention multiplies YaRN's own (ggml's rope_yarn).
      const double own = factor <= 1 ? 1.0 : 0.1 * std::log(factor) + 1;
      rope = {{"rope_type", "yarn"},
              {"factor", factor},
              {"beta_fast", file_.real(scaling + "yarn_beta_fast").value_or(32)},
              {"beta_slow", file_.real(scaling + "yarn_beta_slow").value_or(1)},
              {"truncate", row_.family != Family::kGptOss},  // as its config.json has it; no key says it
              {"attention_factor", own * attention}};
    } else if (type && *type != "none" && *type != "llama3" && *type != "longrope") {
      refuse_architecture(fmt::format("positions are scaled by '{}'", printable(*type)));
    }
    if (rope.empty()) return;
    if (trained) rope["original_max_position_embeddings"] = *trained;
    json["rope_scaling"] = rope;
  }
  std::vector<float> numbers(std::string_view tensor) const {
    const auto* found = file_.tensors.find(tensor);
    return found ? found->decoded() : std::vector<float>();
  }

  // What llama.cpp's graphs (src/models) have of themselves.
  void add_family(Json& json) const {
    const Json features = integer("expert_feed_forward_length").value_or(json["intermediate_size"]);
    const int64_t layers = json["num_hidden_layers"].get<int64_t>();
    switch (row_.family) {
      case Family::kMixtral:
      case Family::kOlmoe:
      case Family::kGptOss: json["intermediate_size"] = features; break;
      case Family::kQwenMoe:
        json["moe_intermediate_size"] = features;
        if (!json.contains("shared_expert_intermediate_size"))
          json["shared_expert_intermediate_size"] = json["intermediate_size"];
        json["norm_topk_prob"] = row_.gguf != "qwen2moe";
        break;
      // The largest ones, of 46 and 62 layers, have scores by their width's share of a head.
      case Family::kGemma2:
      case Family::kGemma3: {
        const bool largest = layers == (row_.family == Family::kGemma2 ? 46 : 62);
        json["query_pre_attn_scalar"] =
            largest ? json["hidden_size"].get<int64_t>() / json["num_attention_heads"].get<int64_t>()
                    : head_features(json);
        break;
      }
      case Family::kStableLm:
        json["use_parallel_residual"] = !has("blk.0.ffn_norm.weight");
        json["qk_layernorm"] = has("blk.0.attn_q_norm.weight");
        break;
      case Family::kCohere: json["use_qk_norm"] = has("blk.0.attn_q_norm.weight"); break;
      case Family::kGptNeoX:
        json["use_parallel_residual"] = flag("use_parallel_residual", true);
        json["attention_bias"] = has("blk.0.attn_qkv.bias");
        break;
      default: break;
    }
  }

  static void add_frequencies(Config& config, const import::weights::StoredTensor& table) {
    if (table.element_count() != config.rope_features() / 2)
      refuse_config(fmt::format("rope_freqs.weight has {} elements; heads have {} pairs of features",
                                table.element_count(), config.rope_features() / 2));
    const std::vector<float> divisors = table.decoded();
    config.rope_divisors.assign(divisors.begin(), divisors.end());
  }

  const Gguf& file_;
  const Architecture& row_;
  std::string prefix_;
};

// OLMo 3's files have OLMo 2's name and windows.
const Architecture& architecture_of(const Gguf& file) {
  const auto name = file.text("general.architecture");
  if (!name) refuse_config("the file does not say its general.architecture");
  const std::string prefix = std::string(*name) + ".";
  if (*name == "olmo2" && file.integer(prefix + "attention.sliding_window").value_or(0) > 0)
    return architecture_of_class("Olmo3ForCausalLM");
  return architecture_of_gguf(*name, file.integer(prefix + "expert_count").value_or(0) > 0);
}

}  // namespace

Config config_of(const Gguf& file) {
  const Keys keys(file, architecture_of(file));
  Config config = config_of_class(keys.config_json());
  keys.add_file(config);
  check_sizes(config);
  return config;
}

}  // namespace opentrn::decoder
