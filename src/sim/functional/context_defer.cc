// The part of Context that chains need: operands that are loaded with the rows that use them, and work that
// waits.
#include "base/fault.h"
#include "numerics/convert.h"
#include "sim/functional/chain_run.h"
#include "sim/functional/context.h"

namespace opentrn::sim {

using isa::Operand;
using isa::OperandKind;

namespace {

void load_column(const View& view, float* values) {
  numerics::load_f32_strided(view.dtype, view.base, view.partition_stride / view.element_bytes, values,
                             static_cast<size_t>(view.partitions));
}

}  // namespace

PerPartition Context::per_partition(int slot, int64_t partitions) {
  PerPartition result;
  if (!has(slot)) return result;
  result.present = true;
  const Operand& op = operand(slot);
  if (op.kind == OperandKind::kImmediate) {
    result.scalar = static_cast<float>(op.immediate);
    return result;
  }
  const View view = source(slot);
  expect_elements(view, slot, 1);
  expect_partitions(view, slot, partitions);
  result.is_vector = true;
  float* const values = scratch.floats(partitions);
  result.values = values;
  if (defers()) {
    OPENTRN_CHECK(late_count_ < kLateOperandsMax, "{} has many vector operands", name());
    if (late_ == nullptr) late_ = scratch.array<LateOperand>(kLateOperandsMax);
    new (&late_[late_count_++]) LateOperand{view, values};
  } else {
    load_column(view, values);
  }
  return result;
}

void Context::load_late(int64_t begin, int64_t end) const {
  for (int i = 0; i < late_count_; ++i) load_column(late_[i].view.part(begin, end), late_[i].values + begin);
}

void Context::defer(const View& tile, const std::function<void(int64_t, int64_t)>& rows,
                    const Producer* producer) const {
  if (late_count_ == 0) return chain_->defer(tile.row_begin, tile.partitions, rows, producer);
  const Producer late_producer = [&](const Rect& rect, float* out, int64_t pitch) {
    load_late(rect.row, rect.row + rect.rows);
    (*producer)(rect, out, pitch);
  };
  chain_->defer(
      tile.row_begin, tile.partitions,
      [&](int64_t begin, int64_t end) {
        load_late(begin, end);
        rows(begin, end);
      },
      producer ? &late_producer : nullptr);
}

const Producer* Context::producer(const View& source) const { return chain_->producer_for(source); }

bool Context::defer_copy(const View& to, const View& from) const {
  if (chain_ == nullptr || !chain_->alias(to, from)) return false;
  chain_->defer(
      to.row_begin, 0, [](int64_t, int64_t) {}, nullptr);
  return true;
}

}  // namespace opentrn::sim
