// Cuts of chains of products, as tensor parallelism has them: the columns of a weight, what is made of its
// product element by element or head by head, and the rows of the weight that the chain ends in. Between
// chains, where terms are summed, each device has rows (a part of the batch or of the sequence), of which all
// are gathered in front of the next chain's products.
//
// A product begins a chain if its columns can be followed to where they are summed over: by a product with a
// weight, or by a reduction. A head of keys that all queries of a device read is no such place (its columns
// are what scores are summed over): its product is made whole by each. Where devices do not divide the heads
// of queries, they have rows of attention and all its heads (decision 0216). Weights that no chain reaches
// are cut where they are updated.
#pragma once

#include <optional>

#include "graph/module.h"
#include "spmd/annotations.h"
#include "spmd/cuts.h"

namespace opentrn::spmd {

struct ChainCuts {
  graph::Function function;  // with ops that say where a value is gathered
  Stated stated;             // of its values
};

// nullopt where no product begins a chain and there are no such heads.
std::optional<ChainCuts> chain_cuts(graph::Function function, const AxisGrid& grid, const Axes& axes);

}  // namespace opentrn::spmd
