// What a decoder-only language model is made of: the numbers that its graph and its weights follow from.
//
// One family: norms, positions, grouped heads, a feed-forward layer or a mixture of them (Llama and what is
// like it, from Mistral to Gemma, gpt-oss and DeepSeek V3; with layer norms GPT-2, GPT-NeoX, OPT, StableLM,
// StarCoder 2, Phi 1 and 2, Command R, Nemotron; architectures.cc has the list). What a model has beyond
// Llama's is a switch here, or a refusal by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/weights/weight_type.h"
#include "graph/element_type.h"
#include "import/weights/gguf.h"

namespace opentrn::decoder {

// kRelu2: the square of kRelu.
enum class Activation : uint8_t { kSilu, kGeluTanh, kGelu, kRelu, kRelu2 };
// What the experts of a mixture are taken by and weighed with: the softmax of their scores; their logistic
// functions; or the scores themselves, whose logistic functions weigh the taken ones (Llama 4).
enum class ExpertScores : uint8_t { kSoftmax, kLogistic, kLogisticOfTaken };
// How a folder of Hugging Face calls the tensors of a model: tables of tensor_names.cc.
enum class NameTable : uint8_t {
  kLlama,
  kLlama4,
  kGlm4,
  kDeepSeek,
  kMiniMaxM2,
  kGpt2,
  kGptNeoX,
  kOpt,
  kStarCoder2,
  kPhi
};

// How matrices are kept narrower than the type of a program.
struct NarrowWeights {
  compiler::WeightType type = compiler::WeightType::kInt8;
  bool per_tensor = false;  // one scale for each matrix of the checkpoint; else one for each of its outputs
  // Modules of the checkpoint that stay as they are: names, or parts of names between dots.
  std::vector<std::string> kept;
};

struct Config {
  std::string architecture;  // as the file names it: "llama", "qwen2"
  std::string name;          // of the model; may be empty
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_features = 0;
  int64_t feed_forward = 0;
  int64_t vocabulary = 0;
  int64_t context = 0;  // positions that the model was made for
  double norm_epsilon = 0;
  double rope_base = 10000;           // as llama.cpp and transformers take it where a file says nothing
  std::vector<double> rope_divisors;  // of the frequencies, one per pair of features; empty: 1
  double rope_scale = 1;              // of the turned features: YaRN's and LongRoPE's attention factor
  // LongRoPE's: the divisors of programs that reach beyond `rope_trained` positions; empty: the same ones.
  std::vector<double> rope_divisors_beyond;
  int64_t rope_trained = 0;
  int64_t turned_features = 0;  // of each head, its first ones, which positions turn; 0: all
  // Layers whose queries and keys are not turned, by number; empty: none does without (SmolLM3, Llama 4,
  // Command R).
  std::vector<bool> unturned;
  // A file has q, k and v in one matrix (Phi-3), and gate and up in one (Phi-3, GLM).
  bool fused_qkv = false, fused_gate_up = false;
  bool qkv_bias = false;
  bool output_bias = false;           // of what attention gives
  bool sinks = false;                 // a score of each head's own that is in the softmax and brings no value
  bool qk_norm = false;               // of each head's queries and keys, before they are turned
  bool qk_norm_of_all_heads = false;  // the norms are over the features of all heads (OLMo 2)
  // Queries and keys of layers that turn them are normed behind it, without weights (Llama 4).
  bool qk_norm_of_turned = false;
  // Queries of layers that do not turn grow with their positions p, by 1 + g ln(1 + floor((p + 1) / n)); 0:
  // they do not (Llama 4). With `all_queries_grow` those of all layers do, by p in place of p + 1 (Ministral
  // 3).
  double query_growth = 0;
  int64_t query_growth_positions = 0;
  bool all_queries_grow = false;
  bool tied = false;  // logits come from the table of embeddings
  // Gemma's. A file has its norms' weights less 1.
  bool norms_less_one = false;
  bool norms_after = false;  // what attention and feed-forward layers give is normed before it is added
  bool norms_before = true;  // what they read is normed; OLMo 2's is not
  Activation activation = Activation::kSilu;
  double attention_cap = 0, logit_cap = 0;  // c: scores x become c tanh(x / c); 0: none
  // Layers that see only the last `window` positions, by number; empty: none does. Their positions turn by
  // `local_rope_...` where its base is more than 0.
  std::vector<bool> windowed;
  int64_t window = 0;
  // They see the positions from the last multiple of `window` on, in place of the last ones (Llama 4).
  bool windows_are_chunks = false;
  double local_rope_base = 0;
  std::vector<double> local_rope_divisors;
  double local_rope_scale = 1;
  // Of models that are not Llama's kind: norms that take the mean away, with biases; a feed-forward layer
  // without gate (GPT-2, GPT-NeoX, OPT, StarCoder 2, Phi 1 and 2), with biases; a table of positions that is
  // added to the embeddings, in place of turns, from its row `first_position` on (GPT-2, OPT).
  bool layer_norms = false, norm_biases = false;
  bool gated = true, feed_forward_biases = false;
  bool position_table = false;
  int64_t first_position = 0;
  bool head_bias = false;  // of logits
  // Attention and the feed-forward layer read the same x, and both terms are added to it (GPT-NeoX, Phi 1 and
  // 2); by one norm where `one_norm`.
  bool parallel = false, one_norm = false;
  NameTable names = NameTable::kLlama;
  bool by_rows = false;  // a file has matrices [inputs, outputs], and one of q, k and v (GPT-2)
  bool by_heads =
      false;  // a file has one matrix with each head's q, k and v, one behind the other (GPT-NeoX)
  // A mixture of experts in place of each feed-forward layer: a token goes through the `experts_taken` that
  // the softmax of its scores gives most, weighted by it. 0 experts: none.
  int64_t experts = 0, experts_taken = 0;
  int64_t expert_features = 0;  // of one's feed-forward layer
  int64_t shared_features = 0;  // of one that all tokens go through, by a gate of its own; 0: there is none
  bool expert_weights_sum_to_1 = false;  // those of the taken ones are divided by their sum
  ExpertScores expert_scores = ExpertScores::kSoftmax;
  bool expert_inputs_weighed = false;  // what an expert reads is weighed, and not what it gives (Llama 4)
  // A bias of each expert is added where scores are compared, and not where they weigh (DeepSeek V3,
  // GLM-4.5).
  bool choice_bias = false;
  // Experts lie in groups, and are taken from those `groups_taken` whose largest scores are largest: the sum
  // of two with `choice_bias`, else the largest. 0 groups: from all.
  int64_t expert_groups = 0, groups_taken = 0;
  double expert_scale = 1;       // of the weights of the taken ones
  bool shared_gate = true;       // the shared expert has one
  bool stacked_experts = false;  // a file has a layer's experts in one tensor, [experts, inputs, outputs]
  std::vector<bool> dense;  // layers that have a feed-forward layer in their place, by number; empty: none
  // EAGLE's head (Li et al. 2024): one layer without a norm in front of its attention, over fc([embedding,
  // features]), where the features are those of the model behind its last norm, or the head's own result; the
  // model's head makes logits of that, without a norm.
  bool eagle = false, fc_bias = false;
  // EAGLE-3's (Li et al. 2025): attention reads [norm(embedding), norm(features)], the features are those of
  // `feature_layers`, or what the head's layer gave, in front of its norm, and the head has a norm and makes
  // logits of its own.
  bool eagle3 = false;
  bool norm_before_residual = false;  // what is added behind attention are the normed features
  // The tokens that its logits are of; empty: all of the vocabulary. Of a rank's part their number alone
  // means something.
  std::vector<int32_t> words;
  // A step also gives what such a head reads: of a model the normed features of all its tokens, of an EAGLE
  // head its result behind each last token.
  bool features = false;
  // Of a model with an EAGLE-3 head: its features are what so many layers made, ascending, side by side and
  // through the head's fc; empty: the normed ones of its end.
  std::vector<int64_t> feature_layers;
  bool pooled = false;  // a step gives the normed features of each last token, in place of logits
  // gpt-oss's: the router and the experts have biases, and the experts' gate and features are kept within
  // `gate_limit`; 0: neither.
  double gate_limit = 0;
  bool expert_biases() const { return gate_limit > 0; }
  // Multi-head latent attention (DeepSeek V2 and V3): keys and values of a token are made of
  // `latent_features` that all heads share, beside `turned_features` of a key that all heads share; these are
  // what its pools have. Queries have head_features, of which the last turned_features are turned; values
  // `value_features`. Queries are made of `query_rank` normed features; 0: of the layer's own. 0 latent
  // features: none.
  int64_t latent_features = 0, value_features = 0, query_rank = 0;
  // Granite's factors.
  double embedding_scale = 1, residual_scale = 1, logit_divisor = 1;
  double attention_scale = 0;  // of the scores; 0: 1 / sqrt(head_features)
  // Of the matrices of layers, which then have scales (narrow.h); none: they have the program's type. Not of
  // tables of embeddings, the head and the router.
  std::optional<NarrowWeights> narrow;
  // Of keys and values in their pools; none: that of the program. They are rounded as they are written, and
  // widened as attention reads them, as NxD Inference's kv_cache_quant does.
  std::optional<graph::ElementType> narrow_kv;
  // Positions turn neighbouring features, and a file has rows of q and k in that order: llama.cpp's files of
  // some architectures, and folders of Llama 4, GLM and Command R.
  bool rows_interleaved = false;
  // Of GGUF files: the same of an adapter's rows, which are Hugging Face's.
  bool adapter_rows_interleaved = false;
  bool beside_images = false;  // a file has towers of images, too, which are not read
  // A file may have layers behind the model's own, which guess the next token but one ("multi-token
  // prediction") and are not read (DeepSeek, GLM-4.5).
  bool beside_later_layers = false;

  bool is_latent() const { return latent_features > 0; }
  int64_t plain_features() const { return head_features - turned_features; }  // of a latent model's queries
  int64_t query_features() const { return heads * head_features; }
  // What the heads give to the product behind attention.
  int64_t weighed_features() const { return heads * (is_latent() ? value_features : head_features); }
  // Of a token in the pools of keys and of values; of a latent model the latent ones and the turned key.
  int64_t key_pool_features() const { return is_latent() ? latent_features : kv_features(); }
  int64_t value_pool_features() const { return is_latent() ? turned_features : kv_features(); }
  int64_t kv_features() const { return kv_heads * head_features; }
  graph::ElementType kv_element(graph::ElementType of_program) const {
    return narrow_kv.value_or(of_program);
  }
  int64_t qkv_features() const { return query_features() + 2 * kv_features(); }
  int64_t head_words() const { return words.empty() ? vocabulary : static_cast<int64_t>(words.size()); }
  int64_t result_features() const { return pooled ? hidden : head_words(); }
  double score_scale() const;
  bool is_windowed(int64_t layer) const { return !windowed.empty() && windowed[static_cast<size_t>(layer)]; }
  bool is_unturned(int64_t layer) const { return !unturned.empty() && unturned[static_cast<size_t>(layer)]; }
  bool has_grown_queries(int64_t layer) const { return all_queries_grow || is_unturned(layer); }
  bool has_experts(int64_t layer) const {
    return experts > 0 && (dense.empty() || !dense[static_cast<size_t>(layer)]);
  }
  int64_t rope_features() const { return turned_features > 0 ? turned_features : head_features; }
  bool has_local_rope() const { return local_rope_base > 0 && !windowed.empty(); }
};

// What one of `ranks` cores has of a model whose heads, feed-forward features and vocabulary they share, for
// the time of its part: products whose sums the ranks would add up are left as they are. Sizes that do not
// divide are rounded up, and with more ranks than heads of keys and values each rank has one, as NxD
// Inference pads and replicates them. Input fault decoder.config for no ranks, or more than heads.
Config part_of(const Config& config, int64_t ranks);

// The kinds of layers whose steps take different times.
enum class LayerKind : uint8_t { kDense, kExperts };
int64_t layers_of(const Config& config, LayerKind kind);
// A model of `layers` layers of one kind, for their time. The config has some of it.
Config model_of(const Config& config, LayerKind kind, int64_t layers);

// Input fault decoder.config where a number is absent or out of range; not modelled decoder.architecture.
Config config_of(const import::weights::Gguf& file);
// Hugging Face's class of an architecture that GGUF files name; an internal fault for one that has none.
std::string_view hugging_face_class(std::string_view architecture);
// Of Hugging Face's config.json. `text`: its content.
Config config_of_json(std::string_view text);

}  // namespace opentrn::decoder
