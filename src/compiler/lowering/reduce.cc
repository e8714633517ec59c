// Reductions that no row-wise group holds: several operands at once (argmax and its like), any region of
// element-wise ops, an initial value known at run time.
//
// Kept dimensions go over partitions, reduced ones along them. Neighbours of a row are combined, then
// neighbours of what that gave: StableHLO leaves the grouping of a reduction to the implementation, not its
// order.
#include <algorithm>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/region.h"

namespace opentrn::compiler {

namespace {

// Columns of all operands together that a partition holds.
constexpr int64_t kReducedColumnsMax = 8192;

int64_t reduced_elements(const Function& function, const Op& op) {
  int64_t columns = 1;
  for (const int64_t d : op.integers(Attr::dimensions))
    columns *= function.type(op.operands[0]).dim(static_cast<int>(d));
  return columns;
}

bool takes_reduce(const Function& function, const Op& op) {
  if (op.kind != OpKind::reduce_ || op.regions.size() != 1 || !is_elementwise_region(function, op.regions[0]))
    return false;
  for (const graph::ValueId id : op.operands)
    if (function.type(id).quantization() || !device_dtype(function.type(id).element())) return false;
  const auto inputs = static_cast<int64_t>(op.results.size());
  return reduced_elements(function, op) * inputs <= kReducedColumnsMax;
}

class Reduction {
 public:
  Reduction(Lowering& lowering, const Op& op)
      : lowering_(lowering), emitter_(lowering.emitter()), function_(lowering.function()), op_(op) {}

  void run() {
    const size_t count = op_.results.size();
    const auto reduced = op_.integers(Attr::dimensions);
    for (size_t i = 0; i < count; ++i) {
      const View view = lowering_.view(op_.operands[i]);
      std::vector<isa::Dim> rows, columns;
      for (size_t d = 0; d < view.dims.size(); ++d)
        (std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) == reduced.end() ? rows : columns)
            .push_back(view.dims[d]);
      inputs_.emplace_back(view, rows, columns);
      View start = lowering_.view(op_.operands[count + i]);
      initial_.emplace_back(start, std::vector<isa::Dim>{{0, inputs_[0].rows()}}, std::vector<isa::Dim>{});
      const View out = lowering_.allocate(op_.results[i]);
      outputs_.emplace_back(out, out.dims, std::vector<isa::Dim>{});
    }
    for (int64_t row = 0; row < inputs_[0].rows(); row += kPartitions)
      reduce_rows(row, std::min(kPartitions, inputs_[0].rows() - row));
  }

 private:
  std::vector<Term> terms(std::span<const Tile> tiles) const {
    std::vector<Term> result;
    for (size_t i = 0; i < tiles.size(); ++i)
      result.push_back({.element = function_.type(op_.results[i]).element(), .splat = {}, .tile = tiles[i]});
    return result;
  }

  // The region on two sets of tiles.
  std::vector<Tile> meet(std::span<const Tile> a, std::span<const Tile> b) {
    std::vector<Term> arguments = terms(a);
    const std::vector<Term> others = terms(b);
    arguments.insert(arguments.end(), others.begin(), others.end());
    std::vector<Tile> result;
    for (const Term& term :
         emit_region(emitter_, function_, op_.regions[0], arguments, a[0].rows, a[0].columns)) {
      if (!term.splat) {
        result.push_back(term.tile);
        continue;
      }
      result.push_back(emitter_.sbuf(a[0].rows, a[0].columns, a[result.size()].dtype, "reduce"));
      emitter_.memset(result.back(), *term.splat);
    }
    return result;
  }

  static std::vector<Tile> columns(std::span<const Tile> tiles, int64_t begin, int64_t count, int64_t step) {
    std::vector<Tile> result;
    for (const Tile& tile : tiles) result.push_back(tile.patch(begin, 1, 0, count, step));
    return result;
  }

  void reduce_rows(int64_t row, int64_t rows) {
    std::vector<Tile> total;
    for (const Matrix& initial : initial_)
      total.push_back(initial.fetch(emitter_, row, rows, 0, 1, "initial"));
    std::vector<Tile> data;
    const int64_t width = inputs_[0].columns();
    if (width > 0)
      for (const Matrix& input : inputs_)
        data.push_back(input.fetch(emitter_, row, rows, 0, width, "reduce"));
    // Neighbours meet, the earlier one on the left: a region need not commute (argmax of several NaNs). A
    // last column without a partner waits for the end.
    std::vector<std::vector<Tile>> waiting;
    int64_t left = width;
    for (; left > 1; left /= 2) {
      if (left % 2 == 1) waiting.push_back(columns(data, left - 1, 1, 1));
      data = meet(columns(data, 0, left / 2, 2), columns(data, 1, left / 2, 2));
    }
    if (left == 1) total = meet(total, data);
    for (auto last = waiting.rbegin(); last != waiting.rend(); ++last) total = meet(total, *last);
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].store(emitter_, total[i], row, 0);
  }

  Lowering& lowering_;
  Emitter& emitter_;
  const Function& function_;
  const Op& op_;
  std::vector<Matrix> inputs_, initial_, outputs_;
};

}  // namespace

bool has_reduce(const Function& function, const Op& op) { return takes_reduce(function, op); }

bool lower_reduce(Lowering& lowering, const Op& op) {
  if (!takes_reduce(lowering.function(), op)) return false;
  Reduction(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
