// The part of a step's graph that chooses tokens on the device, as servers do that bring no logits to their
// host: vLLM's Neuron plugin and NxD Inference with `on_device_sampling_config`.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace opentrn::decoder {

struct ChosenTokens {
  graph::ValueId token{};  // [rows] i32, of the largest logits the first
  graph::ValueId logit{};  // [rows] f32
};
// Of logits [rows, vocabulary] f32. `columns`, [1] i32: only so many of them are logits; none: all. What is
// chosen among logits that are not finite is not defined.
ChosenTokens likeliest(graph::Builder& builder, graph::ValueId logits,
                       std::optional<graph::ValueId> columns = {});

}  // namespace opentrn::decoder
