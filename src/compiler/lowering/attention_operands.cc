#include "compiler/lowering/attention_operands.h"

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

}  // namespace opentrn::compiler
