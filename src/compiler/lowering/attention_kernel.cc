#include "compiler/lowering/attention_kernel.h"

#include <algorithm>
#include <limits>

#include "compiler/lowering/tiling.h"

namespace opentrn::compiler {

int64_t combinations(std::span<const isa::Dim> dims) {
  int64_t result = 1;
  for (const isa::Dim& dim : dims) result *= dim.count;
  return result;
}

int64_t offset_of(std::span<const isa::Dim> dims, int64_t index) {
  int64_t offset = 0;
  for (size_t i = dims.size(); i-- > 0;) {
    offset += index % dims[i].count * dims[i].step;
    index /= dims[i].count;
  }
  return offset;
}

std::vector<std::pair<int64_t, int64_t>> feature_parts(int64_t features) {
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (int64_t first = 0; first < features; first += kPartitions)
    parts.emplace_back(first, std::min(kPartitions, features - first));
  return parts;
}

AttentionOperand::AttentionOperand(const View& view, size_t outer_rank)
    : base{view.tensor, view.dtype, view.offset, {}} {
  const auto begin = view.dims.begin();
  const auto heads_begin = begin + static_cast<std::ptrdiff_t>(outer_rank);
  outer.assign(begin, heads_begin);
  heads.assign(heads_begin, view.dims.end() - 2);
  rows = view.dims.end()[-2];
  columns = view.dims.back();
}

View AttentionOperand::of_batch(int64_t batch) const {
  View view = base;
  view.offset += offset_of(outer, batch);
  return view;
}

View AttentionOperand::of_head(int64_t batch, int64_t head) const {
  View view = of_batch(batch);
  view.offset += head_offset(head);
  return view;
}

Matrix AttentionOperand::head_rows(int64_t batch, int64_t head) const {
  return {of_head(batch, head), {rows}, {columns}};
}

bool AttentionOperand::side_by_side(int64_t first, int64_t count) const {
  for (int64_t i = 1; i < count; ++i)
    if (head_offset(first + i) != head_offset(first) + i * columns.count) return false;
  return count == 1 || columns.step == 1;
}

AttentionKernelBase::AttentionKernelBase(Lowering& lowering, const graph::Op& op)
    : lowering_(lowering),
      emitter_(lowering.emitter()),
      attention_(*attention_of(op)),
      scale_(attention_.cap ? 2 * *attention_.cap : attention_.scale),
      outer_rank_(lowering.function().type(op.operands[0]).rank() > 2 ? 1 : 0),
      q_(lowering.view(op.operands[0]), outer_rank_),
      k_(lowering.view(op.operands[1]), outer_rank_),
      v_(lowering.view(op.operands[2]), outer_rank_),
      out_(lowering.allocate(op.results[0])),
      batches_(combinations(q_.outer)),
      heads_(combinations(q_.heads)),
      queries_(q_.rows.count),
      keys_(k_.rows.count),
      features_(q_.columns.count),
      values_(v_.columns.count),
      dtype_(q_.base.dtype),
      arrangement_(lowering.arrangement_of(op.results[0])) {
  for (const AttentionOp::Mask& mask : attention_.masks)
    masks_.push_back({AttentionOperand(lowering.view(mask.value), outer_rank_), mask.is_predicate,
                      mask.fill - attention_.cap.value_or(0.0)});
}

void AttentionKernelBase::write_capped(const Tile& dst, const Tile& scores) {
  emitter_.activation(ActivationFunction::kExp, dst, scores, 2 * attention_.scale / *attention_.cap);
  emitter_.tensor_scalar(AluOp::kAdd, 1.0, AluOp::kDivide, -1.0, dst, dst, /*reverse1=*/true);
}

void AttentionKernelBase::write_sink(const Tile& dst, const Tile& sink, double factor) {
  if (!is_capped()) return emitter_.tensor_scalar(AluOp::kMultiply, dst, sink, factor);
  emitter_.tensor_scalar(AluOp::kSubtract, *attention_.cap, AluOp::kMultiply, factor, dst, sink);
}

double AttentionKernelBase::late_fill() const {
  // Times a scale beyond one it stays finite.
  const double least = -std::numeric_limits<float>::max() / (scale_ > 1 ? 2 * scale_ : 1.0);
  return std::max<double>(masks_[0].fill / scale_, least);
}

Tile AttentionKernelBase::fp32_like(const Tile& tile, const char* name) {
  return emitter_.sbuf(tile.rows, tile.groups * tile.runs * tile.columns, DType::kFloat32, name);
}

bool AttentionKernelBase::rows_together() const {
  return heads_ > 1 &&
         tiles(queries_, kPartitions) * heads_ * values_ * size_bytes(out_.dtype) <= kAttentionResultBytes;
}

void AttentionKernelBase::reserve_result(bool rows_fit) {
  if (arrangement_.by_columns && rows_together())
    emitter_.residency().reserve(out_, batches_ * queries_, heads_ * values_, arrangement_);
  else if (rows_fit)
    emitter_.residency().reserve(out_, batches_ * queries_, heads_ * values_);
}

void AttentionKernelBase::store(int64_t batch, int64_t head, int64_t query, const Tile& total,
                                const Tile& sum) {
  const int64_t row = batch * queries_ + query, width = heads_ * values_, first = head * values_;
  if (const auto place = emitter_.residency().place(out_.tensor, row, total.rows)) {
    emitter_.tensor_scalar(AluOp::kDivide, place->column_range(first, values_), total, sum);
    return;
  }
  const bool together = rows_together();
  const int64_t columns = together ? width : values_;
  Tile& rows = results_[query];
  if (!together || head == 0) rows = emitter_.sbuf(total.rows, columns, out_.dtype, "attention");
  emitter_.tensor_scalar(AluOp::kDivide, rows.column_range(together ? first : 0, values_), total, sum);
  if (together && head + 1 < heads_) return;
  if (emitter_.residency().is_by_columns(out_.tensor))
    return emitter_.residency().turn_in(out_.tensor, row, 0, rows);
  const View base{out_.tensor, out_.dtype, out_.offset + row * width + (together ? 0 : first), {}};
  Matrix(base, {{width, total.rows}}, {{1, columns}}).store(emitter_, rows, 0, 0);
}

}  // namespace opentrn::compiler
