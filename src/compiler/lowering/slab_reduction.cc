// A slab is what one reduced index has of all kept elements. Each partition takes a run of kept elements, of
// every slab: the transfer has runs instead of single elements, and one instruction walks across the slabs.
#include "compiler/lowering/slab_reduction.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/analysis/values.h"
#include "compiler/lowering/exact_reduction.h"
#include "compiler/lowering/tiling.h"

namespace opentrn::compiler {

namespace {

// Elements of a partition that are loaded at once.
constexpr int64_t kLoadedElements = 4096;
// Shorter runs cost as many descriptors as elements do.
constexpr int64_t kLeastRun = 8;

// Kept elements of a partition: a divisor of `side_by_side`, so that a partition holds no part of two runs;
// 0: none is long enough to be worth it and at most `fitting`.
int64_t run_of(int64_t kept, int64_t side_by_side, int64_t fitting) {
  const int64_t most = std::min(side_by_side, fitting);
  const int64_t least = std::min(most, std::max(kLeastRun, tiles(kept, kPartitions)));
  for (int64_t run = least; run <= most; ++run)
    if (side_by_side % run == 0) return run;
  for (int64_t run = least; run >= kLeastRun; --run)
    if (side_by_side % run == 0) return run;
  return 0;
}

// The run where it pays for `kept` elements of each of so many slabs, else 0. Transposing rows on chip is as
// quick for a few blocks of 128 kept elements, and where slabs are as many as rows of a tile for more of
// them: short runs are as many descriptors. What is reduced exactly is loaded at once. Slabs that lie one
// behind the other are one long run of a partition, however few elements they have.
int64_t run_that_pays(int64_t kept, int64_t slabs, int64_t side_by_side, bool are_joined, bool exactly) {
  if (are_joined && !exactly && slabs >= kLeastRun && kept / side_by_side >= kPartitions / 2 &&
      side_by_side <= kLoadedElements / kLeastRun)
    return side_by_side;
  const int64_t blocks = slabs < kPartitions / 4 ? 4 : slabs < kPartitions ? 3 * kLeastRun : 2 * kLeastRun;
  if (slabs < 2 || kept < blocks * kPartitions) return 0;
  return run_of(kept, side_by_side, exactly ? kLoadedElements / slabs : kLoadedElements / 2);
}

int64_t count_behind(const graph::Type& type, int64_t dimension) {
  int64_t count = 1;
  for (int d = static_cast<int>(dimension) + 1; d < type.rank(); ++d) count *= type.dim(d);
  return count;
}

class SlabReduction {
 public:
  SlabReduction(Emitter& emitter, const SlabOp& op, const Matrix& input, const Matrix& output, int64_t run)
      : emitter_(emitter), op_(op), run_(run), slabs_(input.columns()) {
    std::vector<isa::Dim> partitions = input.row_dims(), columns = input.column_dims();
    partitions.back() = {run, partitions.back().count / run};
    columns.push_back({1, run});
    input_ = {input.all(), std::move(partitions), std::move(columns)};
    output_ = {output.all(), {{run, input_.rows()}}, {{1, run}}};
  }

  void reduce() {
    for (int64_t row = 0; row < input_.rows(); row += kPartitions)
      output_.store(emitter_, reduced(row, std::min(kPartitions, input_.rows() - row)), row, 0);
  }

 private:
  Tile reduced(int64_t row, int64_t rows) {
    if (graph::is_float(op_.element)) return rounded(sums(row, rows));
    return reduce_exactly(emitter_, op_.combiner, op_.element, loaded(row, rows, 0, slabs_), op_.initial,
                          op_.bits, run_);
  }

  Tile loaded(int64_t row, int64_t rows, int64_t slab, int64_t count) {
    const Tile data = emitter_.sbuf(rows, count * run_, input_.dtype(), "slabs");
    input_.load(emitter_, data, row, slab * run_);
    return data;
  }

  // Slabs of one load: where there are few in all, a part of them, so that those that came are reduced while
  // the others are on their way.
  int64_t slabs_at_once() const {
    constexpr int64_t kParts = 3, kWorthParts = 512;  // elements of a partition
    const int64_t most = std::max<int64_t>(1, kLoadedElements / run_);
    const bool is_one_load = slabs_ <= most && input_.rows() <= kPartitions;
    return is_one_load && slabs_ * run_ >= kWorthParts && slabs_ >= 2 * kParts ? tiles(slabs_, kParts) : most;
  }

  // Those of several loads, or with an initial value, are rounded to a narrow type at the end.
  Tile sums(int64_t row, int64_t rows) {
    const AluOp alu = alu_of(op_.combiner);
    const int64_t together = slabs_at_once();
    const bool is_met = !is_neutral(op_.combiner, op_.element, op_.initial),
               at_once = slabs_ <= together && !is_met;
    std::optional<Tile> total;
    for (int64_t slab = 0; slab < slabs_; slab += together) {
      const int64_t count = std::min(together, slabs_ - slab);
      const Tile data = loaded(row, rows, slab, count);
      const Tile part = emitter_.sbuf(rows, run_, at_once ? output_.dtype() : DType::kFloat32, "reduce");
      emitter_.reduce(alu, part, data.patch(0, run_, 1, count, run_));
      if (total) emitter_.tensor_tensor(alu, part, *total, part);
      total = part;
    }
    if (is_met) emitter_.tensor_scalar(alu, *total, *total, op_.initial);
    return *total;
  }

  Tile rounded(const Tile& total) {
    if (total.dtype == output_.dtype()) return total;
    const Tile narrow = emitter_.sbuf(total.rows, run_, output_.dtype(), "reduce");
    emitter_.tensor_copy(narrow, total);
    return narrow;
  }

  Emitter& emitter_;
  SlabOp op_;
  int64_t run_, slabs_;
  Matrix input_;   // runs of kept elements over partitions; slabs, and the elements of a run, along them
  Matrix output_;  // likewise
};

}  // namespace

SlabOp slab_op(const graph::Function& function, const graph::Op& op) {
  const graph::ElementType element = function.type(op.results[0]).element();
  const int bits = graph::is_float(element) ? 0 : magnitude_bits(function, op.operands[0]);
  return {*combiner_of(function, op), element, *splat_of(function, op.operands[1]), bits};
}

bool reduce_slabs(Emitter& emitter, const SlabOp& op, const Matrix& input, const Matrix& output) {
  if (!input.rows_are_runs() || input.columns_are_runs() || !output.all().contiguous()) return false;
  const int64_t side_by_side = input.row_dims().back().count;
  const bool are_joined = input.column_dims().size() == 1 && input.column_dims()[0].step == side_by_side;
  const int64_t run =
      run_that_pays(input.rows(), input.columns(), side_by_side, are_joined, !graph::is_float(op.element));
  if (run == 0) return false;
  SlabReduction(emitter, op, input, output, run).reduce();
  return true;
}

bool reduces_slabs(const graph::Function& function, const graph::Op& op) {
  const graph::Type& type = function.type(op.operands[0]);
  if (type.element_count() == 0) return false;
  int64_t slabs = 1, side_by_side = 1;
  const auto reduced = op.integers(graph::Attr::dimensions);
  for (const int64_t d : reduced) slabs *= type.dim(static_cast<int>(d));
  for (int64_t d = type.rank(); d-- > 0 && std::ranges::count(reduced, d) == 0;)
    side_by_side *= type.dim(static_cast<int>(d));
  const bool exactly = !graph::is_float(type.element());
  const bool are_joined = reduced.size() == 1 && count_behind(type, reduced[0]) == side_by_side;
  return side_by_side > 1 &&
         run_that_pays(type.element_count() / slabs, slabs, side_by_side, are_joined, exactly) > 0;
}

}  // namespace opentrn::compiler
