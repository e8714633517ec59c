// The part of a step's graph that draws tokens on the device, by the rules of the host's sampler: NxD
// Inference with `on_device_sampling_config` and `do_sample`.
//
// Nothing is sorted. Rows are cut into parts that lie on partitions of their own. With weights
// exp((logit - largest) / temperature), the smallest weights that top-k and top-p leave are found by halving
// intervals of their exponents, 27 times, each time with the number or the sum of weights above the middle;
// then sums along the row say which token passes the row's point.
#pragma once

#include "decoder/choice.h"
#include "decoder/likeliest.h"
#include "graph/builder.h"

namespace opentrn::decoder {

// Of sampling_row() for each row.
graph::Type sampling_type(int64_t rows);

// Of logits [rows, vocabulary] f32 and `sampling`, a choice that draws: a token for each row, and its largest
// logit. Top-k and top-p are read where the choice is truncated. Weights below e^-104 are 0, and exponents
// closer than 1.6e-6 are not told apart: of such tokens top-k keeps all where it keeps one, top-p the first
// ones. What is drawn from logits that are not finite is not defined, and may be no token.
ChosenTokens drawn(graph::Builder& builder, graph::ValueId logits, graph::ValueId sampling, Choice choice);

// The same as a program of its own, of arguments logits and sampling: what ranks do that have gathered the
// logits of all.
graph::Module draw_of(int64_t rows, int64_t vocabulary, Choice choice);

}  // namespace opentrn::decoder
