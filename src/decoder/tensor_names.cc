#include "decoder/tensor_names.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::decoder {

namespace {

struct NameRow {
  std::string_view part, gguf, hugging_face;  // of a layer; {} is its number
};
constexpr NameRow kNames[] = {
    {"embedding", "token_embd.weight", "model.embed_tokens.weight"},
    {"norm", "output_norm.weight", "model.norm.weight"},
    {"norm_bias", "output_norm.bias", "model.norm.bias"},
    {"head", "output.weight", "lm_head.weight"},
    {"head_bias", "output.bias", "lm_head.bias"},
    {"attention_norm_bias", "blk.{}.attn_norm.bias", "model.layers.{}.input_layernorm.bias"},
    {"feed_forward_norm_bias", "blk.{}.ffn_norm.bias", "model.layers.{}.post_attention_layernorm.bias"},
    {"attention_norm", "blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight"},
    {"q", "blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight"},
    {"k", "blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight"},
    {"v", "blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight"},
    {"q_bias", "blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias"},
    {"k_bias", "blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias"},
    {"v_bias", "blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias"},
    {"q_norm", "blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_norm.weight"},
    {"k_norm", "blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_norm.weight"},
    {"output", "blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight"},
    {"output_bias", "blk.{}.attn_output.bias", "model.layers.{}.self_attn.o_proj.bias"},
    {"hidden_norm", "", "model.layers.{}.hidden_norm.weight"},
    {"sinks", "blk.{}.attn_sinks.weight", "model.layers.{}.self_attn.sinks"},
    {"feed_forward_norm", "blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
    {"gate", "blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight"},
    {"up", "blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight"},
    {"down", "blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"},
    {"positions", "position_embd.weight", ""},
    {"up_bias", "blk.{}.ffn_up.bias", "model.layers.{}.mlp.up_proj.bias"},
    {"down_bias", "blk.{}.ffn_down.bias", "model.layers.{}.mlp.down_proj.bias"},
    {"fc", "", "fc.weight"},
    {"fc_bias", "", "fc.bias"},
};

// Where Gemma 2 and 3 and OLMo 2, which norm what a layer gives, have other names.
constexpr NameRow kNormsAfter[] = {
    {"after_attention_norm", "blk.{}.post_attention_norm.weight",
     "model.layers.{}.post_attention_layernorm.weight"},
    {"feed_forward_norm", "blk.{}.ffn_norm.weight", "model.layers.{}.pre_feedforward_layernorm.weight"},
    {"after_feed_forward_norm", "blk.{}.post_ffw_norm.weight",
     "model.layers.{}.post_feedforward_layernorm.weight"},
};
// Of layers with a mixture of experts; the second {} is an expert's number. GGUF files have the experts of a
// layer in one tensor.
constexpr NameRow kMixtral[] = {
    {"router", "blk.{}.ffn_gate_inp.weight", "model.layers.{}.block_sparse_moe.gate.weight"},
    {"expert_gate", "blk.{}.ffn_gate_exps.weight", "model.layers.{}.block_sparse_moe.experts.{}.w1.weight"},
    {"expert_up", "blk.{}.ffn_up_exps.weight", "model.layers.{}.block_sparse_moe.experts.{}.w3.weight"},
    {"expert_down", "blk.{}.ffn_down_exps.weight", "model.layers.{}.block_sparse_moe.experts.{}.w2.weight"},
};
constexpr NameRow kQwenMoe[] = {
    {"router", "blk.{}.ffn_gate_inp.weight", "model.layers.{}.mlp.gate.weight"},
    {"expert_gate", "blk.{}.ffn_gate_exps.weight", "model.layers.{}.mlp.experts.{}.gate_proj.weight"},
    {"expert_up", "blk.{}.ffn_up_exps.weight", "model.layers.{}.mlp.experts.{}.up_proj.weight"},
    {"expert_down", "blk.{}.ffn_down_exps.weight", "model.layers.{}.mlp.experts.{}.down_proj.weight"},
    {"shared_gate", "blk.{}.ffn_gate_inp_shexp.weight", "model.layers.{}.mlp.shared_expert_gate.weight"},
    {"shared_expert_gate", "blk.{}.ffn_gate_shexp.weight",
     "model.layers.{}.mlp.shared_expert.gate_proj.weight"},
    {"shared_expert_up", "blk.{}.ffn_up_shexp.weight", "model.layers.{}.mlp.shared_expert.up_proj.weight"},
    {"shared_expert_down", "blk.{}.ffn_down_shexp.weight",
     "model.layers.{}.mlp.shared_expert.down_proj.weight"},
};
// gpt-oss's; both kinds of files have the experts of a layer in one tensor. Hugging Face's of `experts_...`
// have "_blocks" and "_scales" behind them where they are MXFP4.
constexpr NameRow kGptOss[] = {
    {"feed_forward_norm", "blk.{}.post_attention_norm.weight",
     "model.layers.{}.post_attention_layernorm.weight"},
    {"router", "blk.{}.ffn_gate_inp.weight", "model.layers.{}.mlp.router.weight"},
    {"router_bias", "blk.{}.ffn_gate_inp.bias", "model.layers.{}.mlp.router.bias"},
    {"expert_gate", "blk.{}.ffn_gate_exps.weight", ""},
    {"expert_up", "blk.{}.ffn_up_exps.weight", ""},
    {"expert_down", "blk.{}.ffn_down_exps.weight", ""},
    {"expert_gate_bias", "blk.{}.ffn_gate_exps.bias", ""},
    {"expert_up_bias", "blk.{}.ffn_up_exps.bias", ""},
    {"experts_gate_up", "", "model.layers.{}.mlp.experts.gate_up_proj"},
    {"experts_down", "", "model.layers.{}.mlp.experts.down_proj"},
    {"experts_gate_up_bias", "", "model.layers.{}.mlp.experts.gate_up_proj_bias"},
    {"experts_down_bias", "blk.{}.ffn_down_exps.bias", "model.layers.{}.mlp.experts.down_proj_bias"},
};
// llama.cpp calls this norm after what it is behind, and not after what it is in front of.
constexpr NameRow kSeedOss[] = {
    {"feed_forward_norm", "blk.{}.post_attention_norm.weight",
     "model.layers.{}.post_attention_layernorm.weight"},
};
// Of files in which several parts lie below each other.
constexpr NameRow kFusedQkv[] = {
    {"q", "blk.{}.attn_qkv.weight", "model.layers.{}.self_attn.qkv_proj.weight"},
    {"k", "blk.{}.attn_qkv.weight", "model.layers.{}.self_attn.qkv_proj.weight"},
    {"v", "blk.{}.attn_qkv.weight", "model.layers.{}.self_attn.qkv_proj.weight"},
    {"q_bias", "blk.{}.attn_qkv.bias", ""},
    {"k_bias", "blk.{}.attn_qkv.bias", ""},
    {"v_bias", "blk.{}.attn_qkv.bias", ""},
};
constexpr NameRow kFusedGateUp[] = {
    {"gate", "blk.{}.ffn_up.weight", "model.layers.{}.mlp.gate_up_proj.weight"},
    {"up", "blk.{}.ffn_up.weight", "model.layers.{}.mlp.gate_up_proj.weight"},
};
constexpr NameRow kLlama4[] = {
    {"gate", "", "model.layers.{}.feed_forward.gate_proj.weight"},
    {"up", "", "model.layers.{}.feed_forward.up_proj.weight"},
    {"down", "", "model.layers.{}.feed_forward.down_proj.weight"},
    {"router", "", "model.layers.{}.feed_forward.router.weight"},
    {"experts_gate_up", "", "model.layers.{}.feed_forward.experts.gate_up_proj"},
    {"experts_down", "", "model.layers.{}.feed_forward.experts.down_proj"},
    {"shared_expert_gate", "", "model.layers.{}.feed_forward.shared_expert.gate_proj.weight"},
    {"shared_expert_up", "", "model.layers.{}.feed_forward.shared_expert.up_proj.weight"},
    {"shared_expert_down", "", "model.layers.{}.feed_forward.shared_expert.down_proj.weight"},
};
constexpr NameRow kDeepSeek[] = {
    {"q_a", "", "model.layers.{}.self_attn.q_a_proj.weight"},
    {"q_a_norm", "", "model.layers.{}.self_attn.q_a_layernorm.weight"},
    {"q_b", "", "model.layers.{}.self_attn.q_b_proj.weight"},
    {"kv_a", "", "model.layers.{}.self_attn.kv_a_proj_with_mqa.weight"},
    {"kv_a_norm", "", "model.layers.{}.self_attn.kv_a_layernorm.weight"},
    {"key_up", "", "model.layers.{}.self_attn.kv_b_proj.weight"},
    {"value_up", "", "model.layers.{}.self_attn.kv_b_proj.weight"},
    {"router_bias", "", "model.layers.{}.mlp.gate.e_score_correction_bias"},
    {"shared_expert_gate", "", "model.layers.{}.mlp.shared_experts.gate_proj.weight"},
    {"shared_expert_up", "", "model.layers.{}.mlp.shared_experts.up_proj.weight"},
    {"shared_expert_down", "", "model.layers.{}.mlp.shared_experts.down_proj.weight"},
};
constexpr NameRow kMiniMaxM2[] = {
    {"router", "", "model.layers.{}.block_sparse_moe.gate.weight"},
    {"router_bias", "", "model.layers.{}.block_sparse_moe.e_score_correction_bias"},
    {"expert_gate", "", "model.layers.{}.block_sparse_moe.experts.{}.w1.weight"},
    {"expert_up", "", "model.layers.{}.block_sparse_moe.experts.{}.w3.weight"},
    {"expert_down", "", "model.layers.{}.block_sparse_moe.experts.{}.w2.weight"},
};
constexpr NameRow kGlm4[] = {
    {"after_attention_norm", "", "model.layers.{}.post_self_attn_layernorm.weight"},
    {"feed_forward_norm", "", "model.layers.{}.post_attention_layernorm.weight"},
    {"after_feed_forward_norm", "", "model.layers.{}.post_mlp_layernorm.weight"},
};
// GPT-2's; files have them with "transformer." in front, or without.
constexpr NameRow kGpt2[] = {
    {"embedding", "", "wte.weight"},
    {"positions", "", "wpe.weight"},
    {"norm", "", "ln_f.weight"},
    {"norm_bias", "", "ln_f.bias"},
    {"head", "", "lm_head.weight"},
    {"attention_norm", "", "h.{}.ln_1.weight"},
    {"attention_norm_bias", "", "h.{}.ln_1.bias"},
    {"qkv", "", "h.{}.attn.c_attn.weight"},
    {"qkv_bias", "", "h.{}.attn.c_attn.bias"},
    {"output", "", "h.{}.attn.c_proj.weight"},
    {"output_bias", "", "h.{}.attn.c_proj.bias"},
    {"feed_forward_norm", "", "h.{}.ln_2.weight"},
    {"feed_forward_norm_bias", "", "h.{}.ln_2.bias"},
    {"up", "", "h.{}.mlp.c_fc.weight"},
    {"up_bias", "", "h.{}.mlp.c_fc.bias"},
    {"down", "", "h.{}.mlp.c_proj.weight"},
    {"down_bias", "", "h.{}.mlp.c_proj.bias"},
};

// GPT-NeoX's (Pythia).
constexpr NameRow kGptNeoX[] = {
    {"embedding", "", "gpt_neox.embed_in.weight"},
    {"norm", "", "gpt_neox.final_layer_norm.weight"},
    {"norm_bias", "", "gpt_neox.final_layer_norm.bias"},
    {"head", "", "embed_out.weight"},
    {"attention_norm", "", "gpt_neox.layers.{}.input_layernorm.weight"},
    {"attention_norm_bias", "", "gpt_neox.layers.{}.input_layernorm.bias"},
    {"q", "", "gpt_neox.layers.{}.attention.query_key_value.weight"},
    {"k", "", "gpt_neox.layers.{}.attention.query_key_value.weight"},
    {"v", "", "gpt_neox.layers.{}.attention.query_key_value.weight"},
    {"q_bias", "", "gpt_neox.layers.{}.attention.query_key_value.bias"},
    {"k_bias", "", "gpt_neox.layers.{}.attention.query_key_value.bias"},
    {"v_bias", "", "gpt_neox.layers.{}.attention.query_key_value.bias"},
    {"output", "", "gpt_neox.layers.{}.attention.dense.weight"},
    {"output_bias", "", "gpt_neox.layers.{}.attention.dense.bias"},
    {"feed_forward_norm", "", "gpt_neox.layers.{}.post_attention_layernorm.weight"},
    {"feed_forward_norm_bias", "", "gpt_neox.layers.{}.post_attention_layernorm.bias"},
    {"up", "", "gpt_neox.layers.{}.mlp.dense_h_to_4h.weight"},
    {"up_bias", "", "gpt_neox.layers.{}.mlp.dense_h_to_4h.bias"},
    {"down", "", "gpt_neox.layers.{}.mlp.dense_4h_to_h.weight"},
    {"down_bias", "", "gpt_neox.layers.{}.mlp.dense_4h_to_h.bias"},
};
constexpr NameRow kOpt[] = {
    {"embedding", "", "model.decoder.embed_tokens.weight"},
    {"positions", "", "model.decoder.embed_positions.weight"},
    {"norm", "", "model.decoder.final_layer_norm.weight"},
    {"norm_bias", "", "model.decoder.final_layer_norm.bias"},
    {"attention_norm", "", "model.decoder.layers.{}.self_attn_layer_norm.weight"},
    {"attention_norm_bias", "", "model.decoder.layers.{}.self_attn_layer_norm.bias"},
    {"q", "", "model.decoder.layers.{}.self_attn.q_proj.weight"},
    {"k", "", "model.decoder.layers.{}.self_attn.k_proj.weight"},
    {"v", "", "model.decoder.layers.{}.self_attn.v_proj.weight"},
    {"q_bias", "", "model.decoder.layers.{}.self_attn.q_proj.bias"},
    {"k_bias", "", "model.decoder.layers.{}.self_attn.k_proj.bias"},
    {"v_bias", "", "model.decoder.layers.{}.self_attn.v_proj.bias"},
    {"output", "", "model.decoder.layers.{}.self_attn.out_proj.weight"},
    {"output_bias", "", "model.decoder.layers.{}.self_attn.out_proj.bias"},
    {"feed_forward_norm", "", "model.decoder.layers.{}.final_layer_norm.weight"},
    {"feed_forward_norm_bias", "", "model.decoder.layers.{}.final_layer_norm.bias"},
    {"up", "", "model.decoder.layers.{}.fc1.weight"},
    {"up_bias", "", "model.decoder.layers.{}.fc1.bias"},
    {"down", "", "model.decoder.layers.{}.fc2.weight"},
    {"down_bias", "", "model.decoder.layers.{}.fc2.bias"},
};
constexpr NameRow kStarCoder2[] = {
    {"up", "", "model.layers.{}.mlp.c_fc.weight"},
    {"up_bias", "", "model.layers.{}.mlp.c_fc.bias"},
    {"down", "", "model.layers.{}.mlp.c_proj.weight"},
    {"down_bias", "", "model.layers.{}.mlp.c_proj.bias"},
};
// Phi 1, 1.5 and 2.
constexpr NameRow kPhi[] = {
    {"norm", "", "model.final_layernorm.weight"},
    {"norm_bias", "", "model.final_layernorm.bias"},
    {"output", "", "model.layers.{}.self_attn.dense.weight"},
    {"output_bias", "", "model.layers.{}.self_attn.dense.bias"},
    {"up", "", "model.layers.{}.mlp.fc1.weight"},
    {"up_bias", "", "model.layers.{}.mlp.fc1.bias"},
    {"down", "", "model.layers.{}.mlp.fc2.weight"},
    {"down_bias", "", "model.layers.{}.mlp.fc2.bias"},
};

std::span<const NameRow> table_of(NameTable names) {
  switch (names) {
    case NameTable::kLlama: return kNames;
    case NameTable::kLlama4: return kLlama4;
    case NameTable::kGlm4: return kGlm4;
    case NameTable::kDeepSeek: return kDeepSeek;
    case NameTable::kMiniMaxM2: return kMiniMaxM2;
    case NameTable::kGpt2: return kGpt2;
    case NameTable::kGptNeoX: return kGptNeoX;
    case NameTable::kOpt: return kOpt;
    case NameTable::kStarCoder2: return kStarCoder2;
    case NameTable::kPhi: return kPhi;
  }
  return kNames;
}

}  // namespace

std::string tensor_name(const Config& config, FileFormat format, std::string_view part,
                        std::string_view layer, int64_t expert) {
  // The first of these that has the part.
  std::vector<std::span<const NameRow>> tables;
  // llama.cpp has one set of names for all.
  if (config.names != NameTable::kLlama && format == FileFormat::kHuggingFace)
    tables.push_back(table_of(config.names));
  if (config.expert_biases()) tables.push_back(kGptOss);
  if (config.architecture == "seed_oss") tables.push_back(kSeedOss);
  if (config.fused_qkv) tables.push_back(kFusedQkv);
  if (config.fused_gate_up) tables.push_back(kFusedGateUp);
  if (config.norms_after) tables.push_back(kNormsAfter);
  if (config.experts > 0)
    tables.push_back(config.architecture == "llama" ? std::span<const NameRow>(kMixtral) : kQwenMoe);
  tables.push_back(kNames);
  const NameRow* row = nullptr;
  for (const std::span<const NameRow> table : tables)
    if (const auto found = std::ranges::find(table, part, &NameRow::part); !row && found != table.end())
      row = &*found;
  OPENTRN_CHECK(row, "no name for {}", part);
  return fmt::format(fmt::runtime(format == FileFormat::kGguf ? row->gguf : row->hugging_face), layer,
                     expert);
}

std::optional<std::string> hugging_face_name(std::string_view gguf_name) {
  for (const NameRow& row : kNames) {
    const size_t hole = row.gguf.find("{}");
    if (hole == std::string_view::npos) {
      if (!row.gguf.empty() && row.gguf == gguf_name) return std::string(row.hugging_face);
      continue;
    }
    const std::string_view before = row.gguf.substr(0, hole), behind = row.gguf.substr(hole + 2);
    if (!gguf_name.starts_with(before) || !gguf_name.ends_with(behind) ||
        gguf_name.size() <= before.size() + behind.size())
      continue;
    const std::string_view layer = gguf_name.substr(hole, gguf_name.size() - before.size() - behind.size());
    if (layer.find_first_not_of("0123456789") == std::string_view::npos)
      return fmt::format(fmt::runtime(row.hugging_face), layer);
  }
  return std::nullopt;
}

}  // namespace opentrn::decoder
