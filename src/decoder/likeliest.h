// The part of a step's graph that chooses tokens on the device, as servers do that bring no logits to their
// host: vLLM's Neuron plugin and NxD Inference with `on_device_sampling_config`.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/builder.h"

namespace opentrn::decoder {

// Rows of logits cut into parts, so that as many partitions as there are work on them.
struct RowParts {
  int64_t count = 1;  // of a row
  int64_t width = 0;  // of a part; the last one of a row may reach behind its end
};
RowParts parts_of(int64_t rows, int64_t columns);
// [rows * count, width] of logits [rows, columns] f32; the lowest number of fp32 lies behind a row's end.
graph::ValueId in_parts(graph::Builder& builder, graph::ValueId logits, const RowParts& parts);
// i32 of the same shape: which column an element of in_parts() is.
graph::ValueId columns_in_parts(graph::Builder& builder, int64_t rows, const RowParts& parts);

struct ChosenTokens {
  graph::ValueId token{};  // [rows] i32, of the largest logits the first
  graph::ValueId logit{};  // [rows] f32
};
// Of logits [rows, vocabulary] f32. `columns`, [1] i32: only so many of them are logits; none: all. What is
// chosen among logits that are not finite is not defined.
ChosenTokens likeliest(graph::Builder& builder, graph::ValueId logits,
                       std::optional<graph::ValueId> columns = {});

}  // namespace opentrn::decoder
