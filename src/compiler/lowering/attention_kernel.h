// What the kernels of attention (attention.cc, attention_decode.cc) share: operands, masks, results.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "compiler/analysis/attention_op.h"
#include "compiler/lowering/emitter.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

// Results of all heads of a batch that are stored together, bytes of a partition, where they do not stay in
// SBUF.
inline constexpr int64_t kAttentionResultBytes = 24 * 1024;

// Combinations of the dimensions' indices.
int64_t combinations(std::span<const isa::Dim> dims);

// Element offset of the `index`-th combination of the dimensions' indices.
int64_t offset_of(std::span<const isa::Dim> dims, int64_t index);

// Features of a head by what a partition's end cuts: first, count.
std::vector<std::pair<int64_t, int64_t>> feature_parts(int64_t features);

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

// What the kernels of attention begin with and end in.
class AttentionKernelBase {
 protected:
  struct Mask {
    AttentionOperand input;
    bool is_predicate;
    double fill;
  };

  AttentionKernelBase(Lowering& lowering, const graph::Op& op);

  // With a soft cap c, what the kernels take for scores is -1 / (1 + exp(2 scale S / c)), so that
  // c tanh(scale S / c) is scale_ = 2 c times it, and c more, which no softmax sees: sinks and fills are c
  // less. The Scalar engine keeps the table of exponentials, where tanh would have it load another for each
  // block.
  bool is_capped() const { return attention_.cap.has_value(); }
  void write_capped(const Tile& dst, const Tile& scores);
  // dst = what a sink counts beside the scores, times `factor`.
  void write_sink(const Tile& dst, const Tile& sink, double factor);

  // Where a predicate is the only mask, its fill is divided by the scale in place of multiplying all scores
  // first: scores without a mask, or chosen over late_fill(), are still to be scaled.
  bool scales_late() const { return masks_.empty() || (masks_.size() == 1 && masks_[0].is_predicate); }
  double late_fill() const;
  // The scaled scores with every mask, in `dst`. mask_tile(index): the mask beside the scores.
  template <typename MaskTile>
  void write_masked(const Tile& dst, const Tile& scores, MaskTile&& mask_tile) {
    Tile result = scores;
    double scale = scale_;
    for (size_t i = 0; i < masks_.size(); ++i) {
      const Tile next = i + 1 == masks_.size() ? dst : fp32_like(dst, "masked");
      const Tile tile = mask_tile(i);
      if (masks_[i].is_predicate) {
        const Tile scaled = fp32_like(dst, "scaled");
        emitter_.tensor_scalar(AluOp::kMultiply, scaled, result, scale);
        emitter_.memset(next, masks_[i].fill);
        emitter_.copy_where(next, scaled, tile);
      } else {
        emitter_.scalar_tensor_tensor(AluOp::kMultiply, scale, AluOp::kAdd, next, result, tile);
      }
      result = next;
      scale = 1.0;
    }
  }

  // Whether results of all heads stand in SBUF until the last one is there.
  bool rows_together() const;
  // Room for the result, if it may stay in SBUF: by columns as its reader wishes, else by rows if `rows_fit`.
  void reserve_result(bool rows_fit);
  // total / sum of queries [query, query + sum.rows) of a head; heads come in order.
  void store(int64_t batch, int64_t head, int64_t query, const Tile& total, const Tile& sum);

  Lowering& lowering_;
  Emitter& emitter_;
  AttentionOp attention_;
  double scale_;  // of what the kernels take for scores
  size_t outer_rank_;
  AttentionOperand q_, k_, v_;
  View out_;
  int64_t batches_, heads_, queries_, keys_, features_, values_;
  DType dtype_;
  std::vector<Mask> masks_;

 private:
  Tile fp32_like(const Tile& tile, const char* name);

  Arrangement arrangement_;
  std::map<int64_t, Tile> results_;  // by first query: rows of all heads
};

}  // namespace opentrn::compiler
