// Models with layer norms: GPT-2, GPT-NeoX (Pythia), OPT, StableLM, StarCoder 2, Phi 1 and 2, Command R,
// after transformers' configuration_*.py and modeling_*.py of them.
#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "decoder/config_json.h"

namespace opentrn::decoder {

namespace {

void add_layer_norms(Config& config, const Json& json, const char* epsilon) {
  config.layer_norms = config.norm_biases = true;
  config.norm_epsilon = real(json, epsilon, 1e-5);
}

void add_biases(Config& config, bool value) {
  config.qkv_bias = config.output_bias = config.feed_forward_biases = value;
}

void add_activation(Config& config, const Json& json, const char* key, Activation absent) {
  const std::string name =
      expect_activation(json, {key}, {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu"});
  config.activation = name.empty()     ? absent
                      : name == "relu" ? Activation::kRelu
                      : name == "silu" ? Activation::kSilu
                      : name == "gelu" ? Activation::kGelu
                                       : Activation::kGeluTanh;
}

// Keys that most of them share.
Config common(const Json& json, const char* architecture, const char* feed_forward) {
  Config config;
  config.architecture = architecture;
  config.layers = integer(json, "num_hidden_layers");
  config.hidden = integer(json, "hidden_size");
  config.heads = integer(json, "num_attention_heads");
  expect_size("the number of heads", config.heads);
  config.kv_heads = config.heads;
  config.head_features = config.hidden / config.heads;
  config.feed_forward = integer(json, feed_forward);
  config.vocabulary = integer(json, "vocab_size");
  config.context = integer(json, "max_position_embeddings");
  return config;
}

void refuse_normed_queries(const Json& json) {
  if (boolean(json, "qk_layernorm", false)) refuse_architecture("layer norms of queries and keys");
}

}  // namespace

void add_turned_share(Config& config, const Json& json, const char* key, double absent) {
  const auto rope = json.find("rope_parameters");
  const bool is_there = rope != json.end() && rope->is_object() && rope->contains("partial_rotary_factor");
  const double share = is_there ? real(*rope, "partial_rotary_factor", absent) : real(json, key, absent);
  if (!(share > 0 && share <= 1)) refuse_config(fmt::format("{} is {}", key, share));
  if (share < 1)
    config.turned_features = static_cast<int64_t>(static_cast<double>(config.head_features) * share);
}

// transformers' configuration_gpt2.py.
Config config_of_gpt2(const Json& json) {
  Config config;
  config.architecture = "gpt2";
  config.names = NameTable::kGpt2;
  config.by_rows = config.position_table = true;
  add_layer_norms(config, json, "layer_norm_epsilon");
  add_biases(config, true);
  config.gated = false;
  config.activation = Activation::kGeluTanh;
  expect_activation(json, {"activation_function"}, {"gelu_new", "gelu_pytorch_tanh"});
  config.layers = integer(json, "n_layer");
  config.hidden = integer(json, "n_embd");
  config.heads = config.kv_heads = integer(json, "n_head");
  expect_size("the number of heads", config.heads);
  config.head_features = config.hidden / config.heads;
  config.feed_forward = integer(json, "n_inner", 4 * std::clamp<int64_t>(config.hidden, 0, kSizeMax));
  config.vocabulary = integer(json, "vocab_size");
  config.context = integer(json, "n_positions");
  config.tied = boolean(json, "tie_word_embeddings", true);
  if (!boolean(json, "scale_attn_weights", true)) config.attention_scale = 1;
  if (boolean(json, "scale_attn_by_inverse_layer_idx", false))
    refuse_architecture("scores scaled by the number of the layer");
  if (config.heads * config.head_features != config.hidden)
    refuse_config(fmt::format("{} heads share {} features", config.heads, config.hidden));
  return config;
}

Config config_of_gpt_neox(const Json& json) {
  Config config = common(json, "gpt_neox", "intermediate_size");
  config.names = NameTable::kGptNeoX;
  config.by_heads = true;
  config.gated = false;
  add_layer_norms(config, json, "layer_norm_eps");
  add_biases(config, true);
  config.qkv_bias = config.output_bias = boolean(json, "attention_bias", true);
  add_activation(config, json, "hidden_act", Activation::kGelu);
  add_turned_share(config, json, "rotary_pct", 0.25);
  config.parallel = boolean(json, "use_parallel_residual", true);
  config.rope_base = real(json, "rotary_emb_base", config.rope_base);
  config.tied = boolean(json, "tie_word_embeddings", false);
  return config;
}

Config config_of_opt(const Json& json) {
  Config config = common(json, "opt", "ffn_dim");
  config.names = NameTable::kOpt;
  config.position_table = true;
  config.first_position = 2;
  config.gated = false;
  add_layer_norms(config, json, "layer_norm_eps");
  add_biases(config, boolean(json, "enable_bias", true));
  add_activation(config, json, "activation_function", Activation::kRelu);
  config.tied = boolean(json, "tie_word_embeddings", true);
  if (!boolean(json, "do_layer_norm_before", true)) refuse_architecture("norms behind what they are of");
  if (integer(json, "word_embed_proj_dim", config.hidden) != config.hidden)
    refuse_architecture("embeddings of another size than the layers'");
  if (!boolean(json, "layer_norm_elementwise_affine", true) ||
      boolean(json, "_remove_final_layer_norm", false))
    refuse_architecture("layer norms without weights, or none at the end");
  return config;
}

Config config_of_stablelm(const Json& json) {
  Config config = common(json, "stablelm", "intermediate_size");
  config.kv_heads = integer(json, "num_key_value_heads", config.heads);
  add_layer_norms(config, json, "layer_norm_eps");
  config.qkv_bias = boolean(json, "use_qkv_bias", false);
  expect_activation(json, {"hidden_act"}, {"silu", "swish"});
  add_turned_share(config, json, "partial_rotary_factor", 0.25);
  config.parallel = config.one_norm = boolean(json, "use_parallel_residual", false);
  config.tied = boolean(json, "tie_word_embeddings", false);
  refuse_normed_queries(json);
  return config;
}

Config config_of_starcoder2(const Json& json) {
  Config config = common(json, "starcoder2", "intermediate_size");
  config.kv_heads = integer(json, "num_key_value_heads", config.heads);
  config.names = NameTable::kStarCoder2;
  config.gated = false;
  add_layer_norms(config, json, "norm_epsilon");
  add_biases(config, boolean(json, "use_bias", true));
  add_activation(config, json, "hidden_act", Activation::kGeluTanh);
  add_windows(config, json, 0);
  config.tied = boolean(json, "tie_word_embeddings", true);
  return config;
}

Config config_of_phi(const Json& json) {
  Config config = common(json, "phi", "intermediate_size");
  config.kv_heads = integer(json, "num_key_value_heads", config.heads);
  config.names = NameTable::kPhi;
  config.gated = false;
  config.parallel = config.one_norm = config.head_bias = true;
  add_layer_norms(config, json, "layer_norm_eps");
  add_biases(config, true);
  add_activation(config, json, "hidden_act", Activation::kGeluTanh);
  add_turned_share(config, json, "partial_rotary_factor", 0.5);
  config.tied = boolean(json, "tie_word_embeddings", false);
  refuse_normed_queries(json);
  return config;
}

// transformers' configuration_cohere.py and _cohere2.py (Command R and R7B).
Config config_of_cohere(const Json& json, Family family) {
  Config config = common(json, "cohere", "intermediate_size");
  config.kv_heads = integer(json, "num_key_value_heads", config.heads);
  add_layer_norms(config, json, "layer_norm_eps");
  config.norm_biases = false;
  config.qkv_bias = config.output_bias = boolean(json, "attention_bias", false);
  expect_activation(json, {"hidden_act"}, {"silu", "swish"});
  config.parallel = config.one_norm = config.rows_interleaved = true;
  config.tied = boolean(json, "tie_word_embeddings", true);
  const double scale = real(json, "logit_scale", 0.0625);
  if (!(scale > 0)) refuse_config(fmt::format("logit_scale is {}; a number above 0 is read", scale));
  config.logit_divisor = 1 / scale;
  if (boolean(json, "use_qk_norm", false)) refuse_architecture("layer norms of queries and keys");
  config.head_features = integer(json, "head_dim", config.head_features);
  if (family == Family::kCohere) return config;
  add_windows(config, json, integer(json, "sliding_window_pattern", 4));
  // Layers that see everything know no positions.
  config.unturned.assign(static_cast<size_t>(std::clamp<int64_t>(config.layers, 0, kSizeMax)), true);
  for (size_t i = 0; i < std::min(config.unturned.size(), config.windowed.size()); ++i)
    config.unturned[i] = !config.windowed[i];
  return config;
}

// transformers' configuration_nemotron.py: layer norms whose weights a file has less 1.
Config config_of_nemotron(const Json& json) {
  Config config = common(json, "nemotron", "intermediate_size");
  config.kv_heads = integer(json, "num_key_value_heads", config.heads);
  config.head_features = integer(json, "head_dim", config.head_features);
  config.gated = false;
  config.norms_less_one = true;
  add_layer_norms(config, json, "norm_eps");
  config.qkv_bias = config.output_bias = boolean(json, "attention_bias", false);
  config.feed_forward_biases = boolean(json, "mlp_bias", false);
  expect_activation(json, {"hidden_act"}, {"relu2"});
  config.activation = Activation::kRelu2;
  add_turned_share(config, json, "partial_rotary_factor", 0.5);
  config.tied = boolean(json, "tie_word_embeddings", false);
  return config;
}

}  // namespace opentrn::decoder
