// What becomes of padding: a model compiled for a batch of 8 can serve 5 when the three rows of padding reach
// nothing but rows of the results that are cut off again. This is decided from the graph, op by op: values
// know which of their axes carry the padded dimension, and an op that mixes elements along such an axis ends
// the proof.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/module.h"

namespace opentrn::compiler {

// An axis of an argument or of a result.
struct PortAxis {
  size_t port = 0;
  int64_t axis = 0;
};

struct PaddingProof {
  // Axes of the results that carry the dimension; their first elements are those of the unpadded model. Only
  // when `mixing` is empty.
  std::vector<PortAxis> results;
  // The first op for which elements of the padding may reach others, with its place: "stablehlo.reduce at
  // ...".
  std::string mixing;

  bool holds() const { return mixing.empty(); }
};

// What of two sizes of one model differs beyond sizes: an op, or a constant that is no leading part of the
// other (1 / batch, a reversed counter). Empty when nothing does; only then does a proof for the larger one
// speak for the smaller one.
std::string difference_but_for_size(const graph::Module& smaller, const graph::Module& larger);

// `module` is of prepare(), with the padded size; `arguments`: the axes that are padded at their end.
PaddingProof prove_padding(const graph::Module& module, const std::vector<PortAxis>& arguments);

}  // namespace opentrn::compiler
