#include "compiler/lowering/equal_rows.h"

#include <algorithm>

#include "compiler/lowering/plan.h"
#include "compiler/lowering/readers.h"
#include "compiler/lowering/residency.h"
#include "compiler/lowering/spaced_loads.h"
#include "compiler/lowering/tiling.h"

namespace opentrn::compiler {

namespace {

struct Cutting {
  Lowering& lowering;
  int index;
  const std::map<JointTransfers::Key, Matrix>& operands;
  int64_t results, widest;
  const Group& group = lowering.plan().groups()[static_cast<size_t>(index)];
  int64_t rows = group.rows(), columns = group.columns(), ops = std::ssize(group.ops);

  bool pays_as_wide() const {
    const auto is_run = [](const auto& operand) { return operand.second.columns_are_runs(); };
    const int64_t moved = std::ranges::count_if(operands, is_run) + results;
    return pays_as_wide_rows(lowering.emitter().generation(), {ops, moved, rows, columns, widest});
  }

  bool is_plain() const {
    return std::ranges::all_of(operands, [&](const auto& operand) {
      const Matrix& m = operand.second;
      return m.all().contiguous() || (m.same_in_every_row() && m.same_in_every_column()) || is_apart(operand);
    });
  }

  // A coordinate of many points: what it lies among is loaded with it.
  bool is_apart(const std::pair<const JointTransfers::Key, Matrix>& operand) const {
    const Matrix& m = operand.second;
    return spacing_of(m) > 1 && !lowering.emitter().residency().holds(m.all().tensor) &&
           !lowering.emitter().is_moved(m.all().tensor) && lies_in_a_whole(lowering, operand.first.first);
  }
  bool has_short_rows_apart() const {
    return columns * kPartitions <= rows &&
           std::ranges::any_of(operands, [&](const auto& operand) { return is_apart(operand); });
  }

  // All operands are kept by rows of their own, as what a loop carries is: cut otherwise they would go to HBM
  // and back, which takes longer than a few idle partitions do in as many ops. Where one comes from HBM, the
  // others are better there too than rows of two kinds.
  bool holds_rows(int64_t cut_columns) const {
    constexpr int64_t kThroughMemory = 2000;  // in columns of the Vector engine
    const Residency& residency = lowering.emitter().residency();
    return ops * (columns - cut_columns) <= kThroughMemory &&
           std::ranges::all_of(operands, [&](const auto& operand) {
             const Matrix& m = operand.second;
             const isa::TensorId tensor = m.all().tensor;
             return (m.same_in_every_row() && m.same_in_every_column()) ||
                    (residency.holds(tensor) && residency.columns(tensor) != cut_columns);
           });
  }

  // Everything that is made is read by kernels that come and that are not cut so themselves: as rows they may
  // find it in SBUF, where that costs little more. Gathers want indices one in a partition.
  bool finds_readers(int64_t cut_columns) const {
    constexpr int64_t kThroughMemory = 500;  // in columns of the Vector engine
    return columns <= widest && ops * (columns - cut_columns) <= kThroughMemory &&
           !(cut_columns == 1 && only_gathers_read(lowering, index)) && rows_are_read(lowering, index);
  }
};

}  // namespace

std::optional<int64_t> equal_rows(Lowering& lowering, int group,
                                  const std::map<JointTransfers::Key, Matrix>& operands, int64_t results,
                                  int64_t widest) {
  const Cutting cutting{lowering, group, operands, results, widest};
  const int64_t rows_now = cutting.rows, columns_now = cutting.columns, total = rows_now * columns_now;
  // Rows that fill most partitions stay what they are: the next kernel may find them in SBUF.
  const bool wide = cutting.pays_as_wide() || cutting.has_short_rows_apart();
  if (!wide && columns_now <= widest && 4 * rows_now >= 3 * kPartitions) return std::nullopt;
  if (!cutting.is_plain()) return std::nullopt;
  int64_t rows = std::min(kPartitions, total);
  while (rows > 1 && total % rows != 0) --rows;
  const bool stays = rows <= std::min(rows_now, kPartitions) || cutting.holds_rows(total / rows) ||
                     cutting.finds_readers(total / rows);
  return (wide && rows == kPartitions) || !stays ? std::optional(rows) : std::nullopt;
}

std::optional<int64_t> period_of_rows(const Matrix& m, int64_t rows, int64_t row_bytes) {
  constexpr int64_t kRepeatedBytes = 4 * 1024;  // of a partition
  int64_t period = 1;
  for (const isa::Dim& dim : m.row_dims()) period = dim.step == 0 ? period : period * dim.count;
  const bool leads = std::ranges::is_partitioned(m.row_dims(), [](const isa::Dim& d) { return d.step == 0; });
  const bool comes_again = leads && period != rows && period % kPartitions == 0 && rows % period == 0 &&
                           period / kPartitions * row_bytes <= kRepeatedBytes;
  return comes_again ? std::optional(period) : std::nullopt;
}

}  // namespace opentrn::compiler
