// EAGLE heads as their authors publish them: config.json, and tensors in safetensors. Of the first version
// (Li et al. 2024, "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty") fc.weight,
// layers.0...; of the third (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language
// Models via Training-Time Test") fc.weight, midlayer..., norm.weight, lm_head.weight, and d2t, which says
// for each of its words how far behind it the model's token is.
#pragma once

#include <memory>

#include "decoder/engine.h"
#include "decoder/weights.h"
#include "import/weights/safetensors.h"

namespace opentrn::decoder {

// Whether a folder has an EAGLE head, of whatever kind, in place of a model.
bool is_eagle(const import::weights::Checkpoint& file);

// What a model gives to such a head: sets Config::features and feature_layers, and returns the weights that
// the model has from the head. Faults as eagle_engine().
GivenWeights give_features(const import::weights::Checkpoint& head, Config& model,
                           graph::ElementType element);

// For guesses of `model`, whose Config give_features() made. Embeddings and the head that makes logits are
// the model's where the folder has none. `options`: generation, element and ranks are the
// model's. Not modelled
// decoder.eagle for several layers, experts, norms of the input in a head of the first version, and norms of
// features in one of the third; input fault decoder.eagle for another size than the model's, or a table of
// words that are none of it.
std::unique_ptr<Engine> eagle_engine(const import::weights::Checkpoint& file, const Engine& model,
                                     EngineOptions options);

}  // namespace opentrn::decoder
