// Operands of attention (analysis/attention_op.h) as its kernels walk over them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compiler/lowering/emitter.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

// Results of all heads of a batch that are stored together, bytes of a partition, where they do not stay in
// SBUF.
inline constexpr int64_t kAttentionResultBytes = 24 * 1024;

// Combinations of the dimensions' indices.
int64_t combinations(std::span<const isa::Dim> dims);

// Element offset of the `index`-th combination of the dimensions' indices.
int64_t offset_of(std::span<const isa::Dim> dims, int64_t index);

// Q, K, V or a mask: [outer..., heads..., rows, columns].
struct AttentionOperand {
  View base;  // without dimensions
  std::vector<isa::Dim> outer, heads;
  isa::Dim rows, columns;

  AttentionOperand(const View& view, size_t outer_rank);

  // Where the head's first element lies, relative to the outer batch.
  int64_t head_offset(int64_t head) const { return offset_of(heads, head); }
  View of_batch(int64_t batch) const;
  // The first element of a head, without dimensions.
  View of_head(int64_t batch, int64_t head) const;
  // A head's rows and columns.
  Matrix head_rows(int64_t batch, int64_t head) const;
  // Heads [first, first + count) lie side by side: the columns of each follow those of the one before it.
  bool side_by_side(int64_t first, int64_t count) const;
};

}  // namespace opentrn::compiler
