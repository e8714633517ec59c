// Models with norms by the root mean square beyond Llama's own keys, after transformers' configuration_*.py
// and modeling_*.py of them.
#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/utf8.h"
#include "decoder/config_json.h"

namespace opentrn::decoder {

namespace {

size_t layer_count(const Config& config) {
  return static_cast<size_t>(std::clamp<int64_t>(config.layers, 0, kSizeMax));
}

// Whether any is true; else the list is emptied, which says the same.
void drop_if_none(std::vector<bool>& list) {
  if (std::ranges::find(list, true) == list.end()) list.clear();
}

// A model of which no layer has experts has none.
void drop_dense(Config& config) {
  if (std::ranges::find(config.dense, false) == config.dense.end())
    config.experts = config.shared_features = 0;
  if (config.experts == 0) config.dense.clear();
  drop_if_none(config.dense);
}

}  // namespace

void add_windows(Config& config, const Json& json, int64_t pattern) {
  if (json.value("sliding_window", Json()).is_null()) return;
  config.window = integer(json, "sliding_window");
  config.windowed.assign(layer_count(config), true);
  if (const auto types = json.find("layer_types"); types != json.end() && types->is_array()) {
    config.windowed.clear();
    for (const Json& type : *types) {
      if (!type.is_string()) refuse_config("layer_types of config.json is not a list of names");
      const auto name = type.get<std::string>();
      if (name != "sliding_attention" && name != "full_attention")
        throw Fault(FaultKind::kNotModelled, "decoder.architecture",
                    fmt::format("layers of type '{}'", printable(name)));
      config.windowed.push_back(name == "sliding_attention");
    }
  } else if (pattern > 0) {
    for (size_t i = 0; i < config.windowed.size(); ++i)
      config.windowed[i] = (i + 1) % static_cast<size_t>(pattern) != 0;
  }
  drop_if_none(config.windowed);
}

// transformers' configuration_qwen2.py and _qwen3.py: the first max_window_layers see everything.
void add_windows_of_qwen(Config& config, const Json& json, Family family) {
  if (!boolean(json, "use_sliding_window", false) || json.value("sliding_window", Json()).is_null()) return;
  if (family != Family::kLlama)
    throw Fault(FaultKind::kNotModelled, "decoder.architecture", "experts behind attention with a window");
  add_windows(config, json, 0);
  const int64_t whole = integer(json, "max_window_layers", 28);
  if (json.value("layer_types", Json()).is_array()) return;
  for (size_t i = 0; i < config.windowed.size() && static_cast<int64_t>(i) < whole; ++i)
    config.windowed[i] = false;
  drop_if_none(config.windowed);
}

// Of feed-forward layers with a gate; experts have SiLU alone.
void add_activation(Config& config, const Json& json) {
  const bool experts = json.contains("num_experts_per_tok");
  if (experts)
    expect_activation(json, {"hidden_act"}, {"silu", "swish"});
  else
    expect_activation(json, {"hidden_act"}, {"silu", "swish", "gelu_pytorch_tanh", "gelu_new"});
  if (json.value("hidden_act", Json("silu")).dump().starts_with("\"gelu"))
    config.activation = Activation::kGeluTanh;
}

// transformers' configuration_gemma.py, _gemma2.py and _gemma3.py.
void add_gemma(Config& config, const Json& json, Family family) {
  // "gelu" of older files means that by tanh, too.
  expect_activation(json, {"hidden_activation", "hidden_act"}, {"gelu_pytorch_tanh", "gelu"});
  config.activation = Activation::kGeluTanh;
  config.norms_less_one = true;
  config.tied = boolean(json, "tie_word_embeddings", true);
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  if (family == Family::kGemma) return;
  if (boolean(json, "use_bidirectional_attention", false))
    throw Fault(FaultKind::kNotModelled, "decoder.architecture", "attention to later tokens",
                "use_bidirectional_attention of config.json is true: a model of embeddings, not of text");
  config.norms_after = true;
  config.attention_scale = 1.0 / std::sqrt(real(json, "query_pre_attn_scalar", 256));
  // transformers' Gemma 3 reads this key and caps no scores.
  if (family == Family::kGemma2) config.attention_cap = real(json, "attn_logit_softcapping", 0);
  config.logit_cap = real(json, "final_logit_softcapping", 0);
  const int64_t every = integer(json, "sliding_window_pattern", family == Family::kGemma3 ? 6 : 2);
  add_windows(config, json, every);
  if (family == Family::kGemma3) config.local_rope_base = real(json, "rope_local_base_freq", 10000);
  if (family == Family::kGemma3 && !json.contains("rope_theta") && !json.contains("rope_parameters"))
    config.rope_base = 1e6;
}

// Layers that positions do not turn: those that no_rope_layers has a 0 for, else every so many's last one.
static void add_unturned(Config& config, const Json& json) {
  const size_t count = layer_count(config);
  config.unturned.assign(count, false);
  if (const auto list = json.find("no_rope_layers");
      list != json.end() && list->is_array() && !list->empty()) {
    if (list->size() != count)
      refuse_config(fmt::format("no_rope_layers names {} layers of {}", list->size(), count));
    for (size_t i = 0; i < count; ++i) {
      const Json& turns = (*list)[i];
      if (!turns.is_number_integer() && !turns.is_boolean())
        refuse_config("no_rope_layers of config.json is not a list of 0 and 1");
      config.unturned[i] = turns == 0 || turns == false;
    }
  } else {
    const int64_t every = integer(json, "no_rope_layer_interval", 4);
    if (every < 1) refuse_config(fmt::format("no_rope_layer_interval is {}", every));
    for (size_t i = 0; i < count; ++i) config.unturned[i] = (i + 1) % static_cast<size_t>(every) == 0;
  }
  drop_if_none(config.unturned);
}

// Layers without experts: those that moe_layers does not name, else all but every so many's last one.
static void add_dense_layers_of_llama4(Config& config, const Json& json) {
  const size_t count = layer_count(config);
  config.dense.assign(count, true);
  if (const auto list = json.find("moe_layers"); list != json.end() && list->is_array()) {
    for (const Json& layer : *list) {
      if (!layer.is_number_integer() || layer < 0 || layer >= count)
        refuse_config(fmt::format("moe_layers names {}; there are {} layers", layer.dump(), count));
      config.dense[layer.get<size_t>()] = false;
    }
  } else {
    const int64_t step = integer(json, "interleave_moe_layer_step", 1);
    if (step < 1) refuse_config(fmt::format("interleave_moe_layer_step is {}", step));
    for (size_t i = 0; i < count; ++i) config.dense[i] = (i + 1) % static_cast<size_t>(step) != 0;
  }
  drop_dense(config);
}

// transformers' configuration_smollm3.py.
void add_smollm3(Config& config, const Json& json) {
  if (boolean(json, "mlp_bias", false)) refuse_architecture("biases of feed-forward layers");
  if (boolean(json, "use_sliding_window", false)) add_windows(config, json, 0);
  add_unturned(config, json);
}

// transformers' configuration_phi3.py.
void add_phi3(Config& config, const Json& json) {
  config.fused_qkv = config.fused_gate_up = true;
  add_windows(config, json, 0);
  add_turned_share(config, json, "partial_rotary_factor", 1);
  config.rope_trained = integer(json, "original_max_position_embeddings", 0);
}

// transformers' configuration_glm.py and _glm4.py.
void add_glm(Config& config, const Json& json, Family family) {
  config.qkv_bias = boolean(json, "attention_bias", true);
  config.output_bias = false;
  config.fused_gate_up = config.rows_interleaved = true;
  config.norms_after = family == Family::kGlm4;
  if (config.norms_after) config.names = NameTable::kGlm4;
  add_turned_share(config, json, "partial_rotary_factor", 0.5);
}

// transformers' configuration_olmo2.py and _olmo3.py: norms of what a layer gives alone, and those of queries
// and keys over all heads.
void add_olmo2(Config& config, const Json& json, Family family) {
  config.norms_before = false;
  config.norms_after = config.qk_norm = config.qk_norm_of_all_heads = true;
  if (family == Family::kOlmo2) return;
  add_windows(config, json, 4);
  // Scaled positions are of the layers that see everything.
  const Json rope = json.value("rope_parameters", Json::object());
  const double base = real(json, "rope_theta", config.rope_base);
  config.local_rope_base = rope.is_object() ? real(rope, "rope_theta", base) : base;
}

// transformers' configuration_llama4.py.
void add_llama4(Config& config, const Json& json) {
  config.names = NameTable::kLlama4;
  config.rows_interleaved = true;
  add_unturned(config, json);
  config.qk_norm_of_turned = boolean(json, "use_qk_norm", true);
  if (boolean(json, "attn_temperature_tuning", true)) {
    config.query_growth = real(json, "attn_scale", 0.1);
    config.query_growth_positions = integer(json, "floor_scale", 8192);
    expect_size("floor_scale", config.query_growth_positions);
  }
  if (config.window = integer(json, "attention_chunk_size", 0); config.window != 0) {
    config.windows_are_chunks = true;
    config.windowed.assign(layer_count(config), true);
    for (size_t i = 0; i < config.unturned.size(); ++i) config.windowed[i] = !config.unturned[i];
    drop_if_none(config.windowed);
  }
  config.experts = integer(json, "num_local_experts", 16);
  config.experts_taken = integer(json, "num_experts_per_tok", 1);
  config.expert_features = config.shared_features = config.feed_forward;
  config.expert_scores = ExpertScores::kLogisticOfTaken;
  config.expert_inputs_weighed = config.stacked_experts = true;
  config.shared_gate = false;
  config.feed_forward = integer(json, "intermediate_size_mlp", 16384);
  add_dense_layers_of_llama4(config, json);
}

// Keys of DeepSeek's experts, which others have taken over: the first layers have none.
static void add_experts_of_deepseek(Config& config, const Json& json) {
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"})
    if (json.contains(key)) config.experts = integer(json, key);
  config.experts_taken = integer(json, "num_experts_per_tok");
  config.expert_features = integer(json, "moe_intermediate_size");
  const int64_t shared = integer(json, "n_shared_experts", 0);
  if (shared < 0 || shared > 1024) refuse_config(fmt::format("n_shared_experts is {}", shared));
  config.shared_features = shared * std::clamp<int64_t>(config.expert_features, 0, kSizeMax);
  config.shared_gate = false;
  config.expert_scale = real(json, "routed_scaling_factor", 1);
  config.expert_weights_sum_to_1 = boolean(json, "norm_topk_prob", false);
  config.names = NameTable::kDeepSeek;
  config.beside_later_layers = true;
  int64_t first = integer(json, "first_k_dense_replace", 0);
  if (const auto types = json.find("mlp_layer_types"); types != json.end() && types->is_array())
    first = std::ranges::find(*types, "sparse") - types->begin();
  if (integer(json, "moe_layer_freq", 1) != 1) refuse_architecture("experts in every so many layers");
  config.dense.assign(layer_count(config), false);
  for (size_t i = 0; i < config.dense.size() && static_cast<int64_t>(i) < first; ++i) config.dense[i] = true;
  drop_dense(config);
}

static void add_groups(Config& config, const Json& json) {
  config.expert_groups = integer(json, "n_group", 0);
  config.groups_taken = integer(json, "topk_group", 0);
  if (config.expert_groups == config.groups_taken)
    config.expert_groups = config.groups_taken = 0;  // all of them
}

// transformers' configuration_deepseek_v2.py and _v3.py.
void add_deepseek(Config& config, const Json& json, Family family) {
  if (boolean(json, "attention_bias", false)) refuse_architecture("biases of latent attention");
  if (!boolean(json, "rope_interleave", true))
    refuse_architecture("halves of latent attention that are turned");
  const auto size = [&](const char* key) {
    const int64_t value = integer(json, key);
    expect_size(key, value);
    return value;
  };
  config.latent_features = size("kv_lora_rank");
  config.turned_features = size("qk_rope_head_dim");
  config.head_features = size("qk_nope_head_dim") + config.turned_features;
  config.value_features = size("v_head_dim");
  config.query_rank = integer(json, "q_lora_rank", 0);
  config.kv_heads = 1;
  config.rows_interleaved = true;
  add_experts_of_deepseek(config, json);
  const Json rope = json.value(json.contains("rope_parameters") ? "rope_parameters" : "rope_scaling", Json());
  config.attention_scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(config.head_features, 1)));
  if (rope.is_object() && real(rope, "mscale_all_dim", 0) != 0) {
    const double factor = real(rope, "factor", 1);
    const double scale = factor <= 1 ? 1 : 0.1 * real(rope, "mscale_all_dim", 0) * std::log(factor) + 1;
    config.attention_scale *= scale * scale;
  }
  if (family != Family::kDeepSeekV2) {
    config.expert_scores = ExpertScores::kLogistic;
    config.choice_bias = true;
    return add_groups(config, json);
  }
  // Whatever norm_topk_prob says: modeling_deepseek_v2.py does not read it.
  config.expert_weights_sum_to_1 = false;
  const Json method = json.value("topk_method", Json("greedy"));
  if (method == "group_limited_greedy")
    add_groups(config, json);
  else if (method != "greedy")
    refuse_architecture(fmt::format("experts that are taken by {}", printable(method.dump())));
}

// transformers' configuration_glm4_moe.py.
void add_glm4_moe(Config& config, const Json& json) {
  config.output_bias = false;
  config.qk_norm = boolean(json, "use_qk_norm", false);
  add_turned_share(config, json, "partial_rotary_factor", 0.5);
  add_experts_of_deepseek(config, json);
  config.expert_scores = ExpertScores::kLogistic;
  config.choice_bias = true;
  add_groups(config, json);
}

// transformers' modular_minimax_m2.py: Mixtral's experts, which are chosen as DeepSeek V3's.
void add_minimax_m2(Config& config, const Json& json) {
  config.names = NameTable::kMiniMaxM2;
  config.experts = integer(json, "num_local_experts");
  config.experts_taken = integer(json, "num_experts_per_tok");
  config.expert_features = config.feed_forward;
  config.expert_weights_sum_to_1 = config.choice_bias = true;
  config.expert_scores = ExpertScores::kLogistic;
  config.qk_norm_of_all_heads = true;
  const auto head = static_cast<double>(std::max<int64_t>(config.head_features, 1));
  // Files say how many features, or which share of them. Half a feature more is rounded down to the number.
  const int64_t turned = integer(json, "rotary_dim", 0);
  add_turned_share(
      config, json, "partial_rotary_factor",
      turned > 0 && turned < config.head_features ? (static_cast<double>(turned) + 0.5) / head : 1);
}

// transformers' configuration_olmoe.py.
void add_olmoe(Config& config, const Json& json) {
  if (!json.value("clip_qkv", Json()).is_null()) refuse_architecture("queries and keys kept within a limit");
  config.qk_norm_of_all_heads = true;
  config.experts = integer(json, json.contains("num_experts") ? "num_experts" : "num_local_experts");
  config.experts_taken = integer(json, "num_experts_per_tok");
  config.expert_features = config.feed_forward;
  config.expert_weights_sum_to_1 = boolean(json, "norm_topk_prob", false);
}

// transformers' configuration_dots1.py: DeepSeek V3's experts behind Qwen 3's attention.
void add_dots1(Config& config, const Json& json) {
  add_experts_of_deepseek(config, json);
  config.expert_scores = ExpertScores::kLogistic;
  config.choice_bias = true;
  add_groups(config, json);
  add_windows(config, json, 0);
  if (json.value("layer_types", Json()).is_array()) return;
  const int64_t whole = integer(json, "max_window_layers", 62);
  for (size_t i = 0; i < config.windowed.size() && static_cast<int64_t>(i) < whole; ++i)
    config.windowed[i] = false;
  drop_if_none(config.windowed);
}

// transformers' configuration_exaone4.py: norms of what a layer gives, and layers that see everything know no
// positions where others have a window.
void add_exaone4(Config& config, const Json& json) {
  config.norms_before = false;
  config.norms_after = true;
  // "LLLG": so many, the last of which sees everything.
  const Json pattern = json.value("sliding_window_pattern", Json(4));
  if (pattern.is_string())
    add_windows(config, json, static_cast<int64_t>(pattern.get<std::string>().size()));
  else
    add_windows(config, json, pattern.is_null() ? 0 : integer(json, "sliding_window_pattern", 4));
  if (json.value("sliding_window", Json()).is_null()) return;
  config.unturned.assign(layer_count(config), true);
  for (size_t i = 0; i < std::min(config.unturned.size(), config.windowed.size()); ++i)
    config.unturned[i] = !config.windowed[i];
}

// transformers' configuration_seed_oss.py.
void add_seed_oss(Config& config, const Json& json) {
  if (boolean(json, "mlp_bias", false)) refuse_architecture("biases of feed-forward layers");
  config.qkv_bias = boolean(json, "attention_bias", true);
  config.output_bias = boolean(json, "attention_out_bias", false);
}

// transformers' configuration_ernie4_5.py.
void add_ernie4_5(Config& config, const Json& json) {
  if (boolean(json, "use_bias", false)) refuse_architecture("biases of feed-forward layers");
  config.rows_interleaved = true;
  config.tied = boolean(json, "tie_word_embeddings", true);
  config.rope_base = 500000;
}

// transformers' configuration_ministral3.py: queries of all layers grow beyond the trained positions.
void add_ministral3(Config& config, const Json& json) {
  add_windows(config, json, 0);
  const Json rope = json.value("rope_parameters", Json::object());
  if (!rope.is_object() || !rope.contains("llama_4_scaling_beta")) return;
  config.all_queries_grow = true;
  config.query_growth = real(rope, "llama_4_scaling_beta", 0);
  config.query_growth_positions = integer(rope, "original_max_position_embeddings");
  expect_size("original_max_position_embeddings", config.query_growth_positions);
  if (!std::isfinite(config.query_growth))
    refuse_config(fmt::format("llama_4_scaling_beta is {}", config.query_growth));
}

// transformers' configuration_arcee.py.
void add_arcee(Config& config, const Json& json) {
  expect_activation(json, {"hidden_act"}, {"relu2"});
  config.activation = Activation::kRelu2;
  config.gated = false;
  config.feed_forward_biases = boolean(json, "mlp_bias", false);
}

// transformers' configuration_gpt_oss.py.
void add_gpt_oss(Config& config, const Json& json) {
  expect_activation(json, {"hidden_act"}, {"silu"});
  config.qkv_bias = config.output_bias = boolean(json, "attention_bias", true);
  config.sinks = true;
  config.gate_limit = real(json, "swiglu_limit", kGateLimit);
  if (!(config.gate_limit > 0))
    refuse_config(fmt::format("swiglu_limit is {}; a number above 0 is read", config.gate_limit));
  config.experts = integer(json, "num_local_experts");
  config.experts_taken = integer(json, "num_experts_per_tok");
  config.expert_features = config.feed_forward;
  config.expert_weights_sum_to_1 = true;
  add_windows(config, json, 2);
}

// Layers without experts: those of mlp_only_layers, and all but each decoder_sparse_step-th.
static void add_dense_layers_of_qwen(Config& config, const Json& json) {
  const size_t count = layer_count(config);
  const int64_t step = integer(json, "decoder_sparse_step", 1);
  if (step < 1) refuse_config(fmt::format("decoder_sparse_step is {}", step));
  config.dense.assign(count, false);
  for (size_t i = 0; i < count; ++i) config.dense[i] = (i + 1) % static_cast<size_t>(step) != 0;
  if (const auto only = json.find("mlp_only_layers"); only != json.end() && only->is_array())
    for (const Json& layer : *only) {
      if (!layer.is_number_integer() || layer < 0)
        refuse_config("mlp_only_layers of config.json is not a list of layers");
      if (layer < count) config.dense[layer.get<size_t>()] = true;
    }
  drop_dense(config);
}

// transformers' configuration_mixtral.py, _qwen2_moe.py and _qwen3_moe.py.
void add_experts(Config& config, const Json& json, Family family) {
  config.experts_taken = integer(json, "num_experts_per_tok");
  if (family == Family::kMixtral) {
    config.experts = integer(json, "num_local_experts");
    config.expert_features = config.feed_forward;
    config.expert_weights_sum_to_1 = true;
    return;
  }
  // transformers 5 writes Mixtral's name for Qwen 3's.
  config.experts = integer(json, json.contains("num_experts") ? "num_experts" : "num_local_experts");
  expect_size("the number of experts", config.experts);
  config.expert_features = integer(json, "moe_intermediate_size");
  config.expert_weights_sum_to_1 = boolean(json, "norm_topk_prob", false);
  if (config.architecture == "qwen2moe")
    config.shared_features = integer(json, "shared_expert_intermediate_size");
  add_dense_layers_of_qwen(config, json);
}

}  // namespace opentrn::decoder
