// What a decoder-only language model is made of: the numbers that its graph and its weights follow from.
//
// One family: RMS norm, rotary positions, grouped heads, a gated feed-forward layer (Llama, SmolLM, Mistral,
// Qwen2, Qwen3, Granite). What a model has beyond that is a switch here, or a refusal by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "import/weights/gguf.h"

namespace opentrn::decoder {

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
  bool qkv_bias = false;
  bool qk_norm = false;  // of each head's queries and keys, before they are turned
  bool tied = false;     // logits come from the table of embeddings
  // Granite's factors.
  double embedding_scale = 1, residual_scale = 1, logit_divisor = 1;
  double attention_scale = 0;  // of the scores; 0: 1 / sqrt(head_features)
  // llama.cpp turns neighbouring features of these architectures, and its files have rows in that order.
  bool rows_interleaved = false;

  int64_t query_features() const { return heads * head_features; }
  int64_t kv_features() const { return kv_heads * head_features; }
  int64_t qkv_features() const { return query_features() + 2 * kv_features(); }
  double score_scale() const;
};

// Input fault decoder.config where a number is absent or out of range; not modelled decoder.architecture.
Config config_of(const import::weights::Gguf& file);
// Of Hugging Face's config.json. `text`: its content.
Config config_of_json(std::string_view text);

}  // namespace opentrn::decoder
