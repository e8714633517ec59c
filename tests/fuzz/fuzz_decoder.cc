// config.json of language models, and the graphs of steps that follow from one that is read.
#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "decoder/config.h"
#include "decoder/program.h"
#include "graph/verify.h"
#include "tests/fuzz/bodies.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

namespace opentrn::fuzz {
namespace {

using nlohmann::json;

// Keys that most families have.
constexpr std::string_view kCommon =
    R"({"num_hidden_layers":2,"hidden_size":32,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,
        "intermediate_size":48,"vocab_size":40,"max_position_embeddings":64,"rms_norm_eps":1e-5,
        "rope_theta":1000.0})";

// Keys that several families add.
constexpr std::string_view kExperts =
    R"({"n_routed_experts":8,"num_experts_per_tok":3,"moe_intermediate_size":24,"n_shared_experts":2,
        "first_k_dense_replace":1,"n_group":4,"topk_group":2,"routed_scaling_factor":1.7})";
constexpr std::string_view kLatent =
    R"({"num_key_value_heads":4,"kv_lora_rank":12,"q_lora_rank":10,"qk_nope_head_dim":6,"qk_rope_head_dim":4,
        "v_head_dim":5})";
constexpr std::string_view kYarn =
    R"({"rope_scaling":{"type":"yarn","factor":4.0,"beta_fast":8.0,"beta_slow":0.5,"mscale":1.0,
        "mscale_all_dim":0.7,"original_max_position_embeddings":32}})";
struct FamilyRow {
  std::string_view own;
  std::array<std::string_view, 3> more = {};
};

// What each family adds to them.
constexpr auto kFamilies = std::to_array<FamilyRow>({
    {R"({"architectures":["LlamaForCausalLM"],"attention_bias":true,"tie_word_embeddings":true,
        "rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
        "original_max_position_embeddings":32}})"},
    {R"({"architectures":["MistralForCausalLM"],"sliding_window":10})"},
    {R"({"architectures":["MixtralForCausalLM"],"num_local_experts":6,"num_experts_per_tok":2})"},
    {R"({"architectures":["Qwen2ForCausalLM"],"use_sliding_window":true,"sliding_window":7,
        "max_window_layers":1})"},
    {R"({"architectures":["Qwen3ForCausalLM"]})"},
    {R"({"architectures":["Qwen2MoeForCausalLM"],"num_experts":9,"num_experts_per_tok":3,
        "moe_intermediate_size":24,"shared_expert_intermediate_size":40,"decoder_sparse_step":1,
        "mlp_only_layers":[1]})"},
    {R"({"architectures":["Qwen3MoeForCausalLM"],"num_experts":9,"num_experts_per_tok":3,
        "moe_intermediate_size":24,"norm_topk_prob":true})"},
    {R"({"architectures":["GptOssForCausalLM"],"num_local_experts":8,"num_experts_per_tok":2,
        "attention_bias":true,"swiglu_limit":7.0,"sliding_window":12})",
     {kYarn}},
    {R"({"architectures":["SmolLM3ForCausalLM"],"no_rope_layers":[1,0]})"},
    {R"({"architectures":["Phi3ForCausalLM"],"sliding_window":10,"partial_rotary_factor":0.5,"rope_scaling":
        {"rope_type":"longrope","original_max_position_embeddings":32,"factor":4.0,"short_factor":[1.0,1.5],
        "long_factor":[1.0,3.5]}})"},
    {R"({"architectures":["GemmaForCausalLM"],"hidden_act":"gelu"})"},
    {R"({"architectures":["Gemma2ForCausalLM"],"sliding_window":12,"query_pre_attn_scalar":24,
        "attn_logit_softcapping":3.0,"final_logit_softcapping":2.0,"hidden_activation":"gelu_pytorch_tanh"})"},
    {R"({"architectures":["Gemma3ForCausalLM"],"sliding_window":8,"query_pre_attn_scalar":20,
        "rope_local_base_freq":500.0,"layer_types":["full_attention","sliding_attention"],"rope_parameters":
        {"full_attention":{"rope_type":"yarn","factor":4.0,"rope_theta":5000.0,
        "original_max_position_embeddings":32},"sliding_attention":{"rope_type":"linear","factor":2.0,
        "rope_theta":300.0}}})"},
    {R"({"architectures":["Llama4ForCausalLM"],"num_local_experts":5,"num_experts_per_tok":2,
        "intermediate_size_mlp":40,"interleave_moe_layer_step":2,"attention_chunk_size":12,
        "no_rope_layers":[1,0],"floor_scale":8,"attn_scale":0.3})"},
    {R"({"architectures":["GlmForCausalLM"],"attention_bias":false,"partial_rotary_factor":0.5})"},
    {R"({"architectures":["Glm4ForCausalLM"],"attention_bias":true,"partial_rotary_factor":0.5})"},
    {R"({"architectures":["Glm4MoeForCausalLM"],"norm_topk_prob":true,"use_qk_norm":true,"attention_bias":true,"partial_rotary_factor":0.5})",
     {kExperts}},
    {R"({"architectures":["Olmo2ForCausalLM"]})"},
    {R"({"architectures":["Olmo3ForCausalLM"],"sliding_window":10})"},
    {R"({"architectures":["DeepseekV2ForCausalLM"],"topk_method":"group_limited_greedy"})",
     {kExperts, kLatent}},
    {R"({"architectures":["DeepseekV3ForCausalLM"],"norm_topk_prob":true})", {kExperts, kLatent, kYarn}},
    {R"({"architectures":["CohereForCausalLM"],"logit_scale":0.3,"layer_norm_eps":1e-5,"use_qk_norm":false})"},
    {R"({"architectures":["Cohere2ForCausalLM"],"logit_scale":0.3,"layer_norm_eps":1e-5,"sliding_window":10})"},
    {R"({"architectures":["GPT2LMHeadModel"],"n_layer":2,"n_embd":32,"n_head":4,"n_positions":64,"n_inner":40,
        "layer_norm_epsilon":1e-5})"},
    {R"({"architectures":["GPTNeoXForCausalLM"],"rotary_pct":0.25,"rotary_emb_base":500,
        "use_parallel_residual":true,"hidden_act":"relu"})"},
    {R"({"architectures":["OPTForCausalLM"],"ffn_dim":48,"word_embed_proj_dim":32})"},
    {R"({"architectures":["StableLmForCausalLM"],"use_qkv_bias":true})"},
    {R"({"architectures":["Starcoder2ForCausalLM"],"sliding_window":9})"},
    {R"({"architectures":["PhiForCausalLM"],"hidden_act":"gelu_new","partial_rotary_factor":0.5})"},
    {R"({"architectures":["SeedOssForCausalLM"],"attention_bias":true,"attention_out_bias":true})"},
    {R"({"architectures":["Ernie4_5ForCausalLM"]})"},
    {R"({"architectures":["Ministral3ForCausalLM"],"rope_parameters":{"rope_type":"yarn","factor":4.0,
        "original_max_position_embeddings":8,"llama_4_scaling_beta":0.1}})"},
    {R"({"architectures":["OlmoeForCausalLM"],"num_experts":7,"num_experts_per_tok":3})"},
    {R"({"architectures":["Exaone4ForCausalLM"],"sliding_window":9,"sliding_window_pattern":"LG"})"},
    {R"({"architectures":["ArceeForCausalLM"],"hidden_act":"relu2","mlp_bias":true})"},
    {R"({"architectures":["NemotronForCausalLM"],"hidden_act":"relu2","norm_eps":1e-5,"attention_bias":true,
        "partial_rotary_factor":0.5})"},
    {R"({"architectures":["MiniMaxM2ForCausalLM"],"num_local_experts":6,"num_experts_per_tok":2,"rotary_dim":4})"},
    {R"({"architectures":["LlavaForConditionalGeneration"],"text_config":{"model_type":"llama",
        "num_hidden_layers":2,"hidden_size":32,"num_attention_heads":4,"intermediate_size":48,
        "vocab_size":40}})"},
});

// What takes a value's place.
constexpr auto kValues = std::to_array<std::string_view>({
    "0",
    "-1",
    "1",
    "3",
    "7",
    "1024",
    "1025",
    "16777216",
    "16777217",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e300",
    "-1e-300",
    "1e-320",
    "0.5",
    "null",
    "true",
    "false",
    R"("x")",
    "[]",
    "{}",
    "[0]",
    "[-1,4611686018427387904]",
    "[1,0,1]",
    R"(["sliding_attention","full_attention"])",
    R"(["chunked_attention",3])",
    R"([{"a":1}])",
    R"({"rope_type":"dynamic","factor":2.0})",
});
// Keys that only some of the families have.
constexpr auto kKeys = std::to_array<std::string_view>({
    "sliding_window",
    "moe_layers",
    "mlp_only_layers",
    "decoder_sparse_step",
    "first_k_dense_replace",
    "n_group",
    "topk_group",
    "kv_lora_rank",
    "q_lora_rank",
    "floor_scale",
    "attn_scale",
    "no_rope_layers",
    "rope_scaling",
    "rope_parameters",
    "layer_types",
    "text_config",
    "head_dim",
    "num_key_value_heads",
    "partial_rotary_factor",
    "attention_multiplier",
    "quantization_config",
    "num_nextn_predict_layers",
    "model_type",
    "hidden_act",
});
constexpr std::string_view kWords[] = {"-1", "1e400", "null", "[[", "{\"", "18446744073709551616", "\\ud800"};

json family(SplitMix64& random) {
  json config = json::parse(kCommon);
  const FamilyRow& row = kFamilies[random.below(static_cast<uint32_t>(kFamilies.size()))];
  for (const std::string_view more : row.more)
    if (!more.empty()) config.merge_patch(json::parse(more));
  config.merge_patch(json::parse(row.own));
  return config;
}

template <typename Values>
auto one_of(SplitMix64& random, const Values& values) {
  return values[random.below(static_cast<uint32_t>(values.size()))];
}

void damage(SplitMix64& random, json& config) {
  json& object = config.contains("text_config") && random.below(4) ? config["text_config"] : config;
  if (!object.is_object()) return;
  std::vector<std::string> keys(kKeys.begin(), kKeys.end());
  for (const auto& item : object.items()) keys.push_back(item.key());
  for (uint32_t n = 1 + random.below(3); n > 0; --n) {
    json& value = object[one_of(random, keys)];
    if (value.is_object() && !value.empty() && random.below(2)) {  // of rope_scaling, say
      auto inner = value.begin();
      std::advance(inner, random.below(static_cast<uint32_t>(value.size())));
      *inner = json::parse(one_of(random, kValues));
    } else {
      value = json::parse(one_of(random, kValues));
    }
  }
}

bool is_refusal(const Fault& fault) {
  return fault.kind() == FaultKind::kInput || fault.kind() == FaultKind::kNotModelled;
}

void expect_well_formed(const graph::Module& step) {
  try {
    graph::verify(step);
  } catch (const Fault& fault) {
    broken("a step's graph breaks a rule: {}", fault.what());
  }
}

// Steps of a model of few layers: the whole one's, and those of one of two ranks. Refusals are none of a
// file's.
void build_steps(const decoder::Config& config) {
  const decoder::Pool pool{.block_tokens = 32, .blocks = 3};
  for (const decoder::Bucket& bucket : {decoder::Bucket{.sequences = 2, .tokens = 1, .context = 64},
                                        decoder::Bucket{.sequences = 1, .tokens = 32, .context = 64}}) {
    expect_well_formed(decoder::build(config, bucket, pool, graph::ElementType::kBF16));
    try {
      const decoder::Config part = decoder::part_of(config, 2);
      for (int64_t layer = 0; layer < config.layers; ++layer)
        for (const auto kind : {decoder::PartKind::kAttention, decoder::PartKind::kFeedForward})
          expect_well_formed(
              decoder::build_part(part, bucket, pool, graph::ElementType::kBF16, kind, layer, config).module);
    } catch (const Fault& fault) {
      if (!is_refusal(fault)) throw;
    }
  }
}

// Whether graphs of it are small enough to be built many times.
bool is_small(const decoder::Config& config) { return config.layers <= 4 && config.experts <= 64; }

}  // namespace

void decoder_bytes(Bytes file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  try {
    const decoder::Config config = decoder::config_of_json(text);
    if (is_small(config)) build_steps(config);
  } catch (const Fault& fault) {
    if (!is_refusal(fault))
      broken("a bad config.json is neither an input error nor not modelled: {}\n{}", fault.what(), text);
  }
}

std::vector<std::byte> decoder_seed(SplitMix64& random) {
  std::vector<std::byte> bytes;
  for (const char c : family(random).dump()) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

void decoder_case(uint64_t seed) {
  SplitMix64 random(seed);
  const json whole = family(random);
  build_steps(decoder::config_of_json(whole.dump()));  // what is right is read
  for (int i = 0; i < 20; ++i) {
    json bad = whole;
    damage(random, bad);
    std::string text = bad.dump();
    if (random.below(4) == 0) mutate(random, text, kWords);
    decoder_bytes(std::as_bytes(std::span(text)));
  }
}

}  // namespace opentrn::fuzz
