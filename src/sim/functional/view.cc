#include "sim/functional/view.h"

namespace opentrn::sim {

View View::part(int64_t begin, int64_t end) const {
  View view = *this;
  view.partitions = end - begin;
  view.base = row(begin);
  view.rounding = rounding_from(begin * elements);
  if (buffer != nullptr && buffer->fold_rows() > 0) {
    const int64_t first = row_begin + begin;
    if (buffer->alias_rows() != nullptr) {
      const int64_t column = view.base - buffer->data() - first * buffer->row_pitch();
      view.base = buffer->alias_rows() + first * buffer->alias_pitch() + column;
      view.partition_stride = buffer->alias_pitch();
      return view;
    }
    const int64_t fold = buffer->fold_rows();
    view.base += (FoldLane::current() - first / fold) * fold * buffer->row_pitch();
  }
  return view;
}

bool View::same_walk(const View& other) const {
  if (base != other.base || element_bytes != other.element_bytes || partitions != other.partitions ||
      elements != other.elements || free_rank != other.free_rank || table != other.table)
    return false;
  if (partitions > 1 && partition_stride != other.partition_stride) return false;
  for (int i = 0; i < free_rank; ++i)
    if (free[i].count != other.free[i].count || free[i].stride != other.free[i].stride) return false;
  return true;
}

int collapse(ByteDim* dims, int rank) {
  int out = 0;
  for (int i = 0; i < rank; ++i) {
    if (dims[i].count == 1) continue;
    if (out > 0 && dims[out - 1].stride == dims[i].count * dims[i].stride) {
      dims[out - 1] = {dims[out - 1].count * dims[i].count, dims[i].stride};
      continue;
    }
    dims[out++] = dims[i];
  }
  return out;
}

FlatView flatten(const View& view) {
  FlatView flat{.base = view.base, .element_bytes = view.element_bytes};
  flat.dims[0] = {view.partitions, view.partition_stride};
  for (int i = 0; i < view.free_rank; ++i) flat.dims[i + 1] = view.free[i];
  const int rank = view.free_rank + 1;
  if (view.table == nullptr) {
    flat.rank = collapse(flat.dims.data(), rank);
    return flat;
  }
  // Collapse what lies on either side of the indirect dimension.
  flat.table = view.table;
  const int outer = collapse(flat.dims.data(), view.table_dim);
  const ByteDim indirect = flat.dims[view.table_dim];
  std::array<ByteDim, isa::kMaxRank> rest{};
  int inner = 0;
  for (int i = view.table_dim + 1; i < rank; ++i) rest[inner++] = flat.dims[i];
  inner = collapse(rest.data(), inner);
  flat.table_dim = outer;
  flat.dims[outer] = indirect;
  for (int i = 0; i < inner; ++i) flat.dims[outer + 1 + i] = rest[i];
  flat.rank = outer + 1 + inner;
  return flat;
}

RunCursor::RunCursor(const FlatView& view) : view_(view) {
  const bool has_run = view.rank > 0 && view.table_dim != view.rank - 1;
  outer_rank_ = has_run ? view.rank - 1 : view.rank;
  run_count_ = has_run ? view.dims[view.rank - 1].count : 1;
  run_stride_ = has_run ? view.dims[view.rank - 1].stride : view.element_bytes;
  locate();
}

void RunCursor::locate() {
  address_ = view_.base;
  skipped_ = false;
  remaining_ = run_count_;
  for (int d = 0; d < outer_rank_; ++d) {
    if (d != view_.table_dim) {
      address_ += index_[d] * view_.dims[d].stride;
    } else if (view_.table[index_[d]] == kSkippedIndex) {
      skipped_ = true;
    } else {
      address_ += view_.table[index_[d]];
    }
  }
  if (skipped_) address_ = view_.base;
}

void RunCursor::advance(int64_t elements) {
  remaining_ -= elements;
  if (remaining_ > 0) {
    address_ += elements * run_stride_;
    return;
  }
  // Where the next run begins if no table says it.
  std::byte* next = address_ + (elements - run_count_) * run_stride_;
  int d = outer_rank_ - 1;
  for (; d >= 0; --d) {
    next += view_.dims[d].stride;
    if (++index_[d] < view_.dims[d].count) break;
    next -= view_.dims[d].count * view_.dims[d].stride;
    index_[d] = 0;
  }
  if (d < 0) {
    remaining_ = 0;
    return;
  }
  if (view_.table != nullptr) return locate();
  address_ = next;
  remaining_ = run_count_;
}

}  // namespace opentrn::sim
