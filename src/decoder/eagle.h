// An EAGLE head (Li et al. 2024, "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty") as
// its authors publish it: config.json, and tensors fc.weight, layers.0... and embed_tokens.weight, in
// safetensors.
#pragma once

#include <memory>

#include "decoder/engine.h"
#include "import/weights/safetensors.h"

namespace opentrn::decoder {

// Whether a folder has an EAGLE head, of whatever kind, in place of a model.
bool is_eagle(const import::weights::Checkpoint& file);

// For guesses of `model`, whose Config::features is set. Embeddings and the head that makes logits are the
// model's where the folder has none. `options`: generation and element are the model's. Not modelled
// decoder.eagle for EAGLE-3, several layers, norms of the input, and experts; input fault decoder.eagle for
// another size than the model's.
std::unique_ptr<Engine> eagle_engine(const import::weights::Checkpoint& file, const Engine& model,
                                     EngineOptions options);

}  // namespace opentrn::decoder
