// Passes over weights: constants that products read are kept narrower or sparse.
#pragma once

#include <cstdint>

#include "compiler/weights/weight_type.h"
#include "graph/module.h"
#include "numerics/sparsity.h"

namespace opentrn::compiler {

// What passes did to weights: constants that only products read.
struct WeightCounts {
  int64_t count = 0;         // of those that are kept narrower or sparse now
  int64_t bytes_before = 0;  // of those
  int64_t bytes_after = 0;   // with scales and tags
  // Left as they are: of fewer than kWeightElements elements; read by something else too; with an element
  // that is no number; of a shape or type that the product's instruction does not take; not sparse.
  int64_t small = 0, shared = 0, not_finite = 0, unfit = 0, not_sparse = 0;
};
inline constexpr int64_t kWeightElements = int64_t{1} << 14;
// In int8 or fp8, with a scale per channel (quantise.cc).
WeightCounts quantise_weights(graph::Function& function, WeightType type);
// Weights that the model has in integers stay in eight bits (integer.cc). Gives their number.
int64_t keep_integer_weights(graph::Function& function);
// In MXFP8 or MXFP4, and what they are multiplied with in MXFP8 (microscale.cc). `as_kernels`:
// products become one op each (analysis/packed_product.h), else a graph that the evaluator knows.
WeightCounts microscale_weights(graph::Function& function, WeightType type, bool as_kernels);
// Only the M largest of every N weights along the contraction stay (sparse.cc).
void prune_weights(graph::Function& function, numerics::SparsityPattern pattern);
// Products of 16 bits with weights that obey the pattern become one op each (analysis/packed_product.h).
WeightCounts compress_weights(graph::Function& function, numerics::SparsityPattern pattern);

}  // namespace opentrn::compiler
