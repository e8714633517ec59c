#include "compiler/lowering/short_rows.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/exact_reduction.h"
#include "compiler/lowering/spaced_loads.h"
#include "compiler/lowering/tiling.h"

namespace opentrn::compiler {

namespace {

// Longer rows have as much work of their own as an instruction takes whatever its length.
constexpr int64_t kColumnsMost = 32;
// Fewer tiles of rows stay what they are: the next kernel may find them in SBUF.
constexpr int64_t kRowsLeast = 8 * kPartitions;
// Elements of a partition in a tile, and what lies between them that is loaded too, times those that are
// read.
constexpr int64_t kTileElements = 2048, kSpread = 4;

// How the elements of a partition lie: what is loaded of them, and in what order a tile of that is read.
struct Layout {
  Matrix loaded;
  std::vector<isa::Dim> order;  // outermost first, at most three
};

int64_t elements_of(const std::vector<isa::Dim>& dims) {
  int64_t count = 1;
  for (const isa::Dim& dim : dims) count *= dim.count;
  return count;
}

// Elements from the first to the last; nullopt where they do not go forwards.
std::optional<int64_t> span_of(const std::vector<isa::Dim>& dims) {
  int64_t span = 1;
  for (const isa::Dim& dim : dims) {
    if (dim.step < 0) return std::nullopt;
    span += (dim.count - 1) * dim.step;
  }
  return span;
}

// `may_spread`: what lies between elements may be read, too.
std::optional<Layout> layout_of(const Matrix& block, bool may_spread) {
  View base = block.all();
  base.dims.clear();
  std::vector<isa::Dim> read, order;
  for (const isa::Dim& dim : block.column_dims())
    if (dim.step != 0) read.push_back(dim);
  read = merged(std::move(read));
  const int64_t count = elements_of(read);
  const bool is_run = read.empty() || (read.size() == 1 && read[0].step == 1);
  const auto span = span_of(read);
  if (is_run || (may_spread && span && *span <= kSpread * count)) {
    order = block.column_dims();
    read = {{1, *span}};
  } else {
    int64_t step = count;
    for (const isa::Dim& dim : block.column_dims()) {
      step /= dim.step == 0 ? 1 : dim.count;
      order.push_back({dim.step == 0 ? 0 : step, dim.count});
    }
  }
  order = merged(std::move(order));
  if (order.size() > 3) return std::nullopt;
  return Layout{{base, block.row_dims(), std::move(read)}, std::move(order)};
}

// The tile read in this order.
Tile in_order(const Tile& tile, const std::vector<isa::Dim>& order) {
  const auto dim = [&](size_t from_last) {
    return from_last < order.size() ? order[order.size() - 1 - from_last] : isa::Dim{0, 1};
  };
  return tile.patches(0, dim(2).count, dim(2).step, dim(1).count, dim(1).step, dim(0).count, dim(0).step);
}

bool is_plain(const Tile& tile) { return tile.runs == 1 && tile.groups == 1 && tile.column_step == 1; }

class ShortRows {
 public:
  ShortRows(Lowering& lowering, int index, const std::map<JointTransfers::Key, Matrix>& operands,
            const std::map<graph::ValueId, Matrix>& outputs)
      : lowering_(lowering),
        emitter_(lowering.emitter()),
        function_(lowering.function()),
        plan_(lowering.plan()),
        index_(index),
        group_(plan_.groups()[static_cast<size_t>(index)]),
        operands_(operands),
        outputs_(outputs),
        columns_(group_.columns()) {}

  bool lie_regularly() {
    const auto stays = [&](const Matrix& m) {
      const isa::TensorId tensor = m.all().tensor;
      return emitter_.residency().holds(tensor) || emitter_.is_moved(tensor);
    };
    for (const auto& [key, m] : operands_)
      if (stays(m) && !is_worth_memory() && !(m.same_in_every_row() && m.same_in_every_column()))
        return false;
    for (const auto& [value, m] : outputs_)
      if (lowering_.is_in_kept_place(value) || stays(m)) return false;
    return find_blocks();
  }

  // So many tiles of rows take longer than what is kept takes to HBM and back.
  bool is_worth_memory() const { return group_.rows() >= 4 * kRowsLeast; }

  void compute() {
    for (const RunsOfRows& block : blocks_) {
      block_ = block;
      terms_.clear();
      loads_.clear();
      for (const graph::OpId id : group_.ops) compute(id);
    }
  }

 private:
  bool find_blocks() {
    const int64_t most = std::max<int64_t>(1, kTileElements / columns_);
    for (int64_t count = most; 4 * count >= most; --count) {
      blocks_ = cut_into_runs(group_.rows(), count);
      if (std::ranges::all_of(blocks_, [&](const RunsOfRows& block) { return fits(block); })) return true;
    }
    return false;
  }

  bool fits(const RunsOfRows& block) {
    for (const auto& [key, m] : operands_)
      if (!layout(block, key.first, m)) return false;
    return std::ranges::all_of(outputs_, [&](const auto& output) {
      return output.second.runs_of_rows(block.begin, block.runs, block.count).has_value();
    });
  }

  std::optional<Layout> layout(const RunsOfRows& block, graph::ValueId value, const Matrix& m) {
    const auto runs = m.runs_of_rows(block.begin, block.runs, block.count);
    return runs ? layout_of(*runs, lies_in_a_whole(lowering_, value)) : std::nullopt;
  }

  int64_t elements(bool is_column) const { return is_column ? block_.count : block_.count * columns_; }
  Tile fresh(int64_t count, DType dtype, const char* name) {
    return emitter_.sbuf(block_.runs, count, dtype, name);
  }
  Tile plain(const Tile& tile) {
    if (is_plain(tile)) return tile;
    const Tile copy = fresh(tile.columns * tile.runs * tile.groups, tile.dtype, "plain");
    emitter_.tensor_copy(copy, tile);
    return copy;
  }
  bool is_column(graph::ValueId value) const {
    return plan_.seen_inside(index_, value)->form == Form::kColumn;
  }

  // Bodies of several instructions on whole numbers expect tiles of all columns.
  Term in_form(graph::ElementType element, const Tile& tile) {
    return {.element = element, .splat = {}, .tile = graph::is_float(element) ? tile : plain(tile)};
  }

  Term operand(graph::ValueId value, bool column_op) {
    const graph::ElementType element = function_.type(value).element();
    if (const auto number = splat_of(function_, value)) return {.element = element, .splat = number};
    const auto seen = plan_.seen_inside(index_, value);
    if (!seen) return in_form(element, loaded(value, column_op));
    const Tile& tile = terms_.at(seen->base).tile;
    if (column_op || seen->form == Form::kFull) return {.element = element, .splat = {}, .tile = tile};
    return in_form(element, plain(tile).patch(0, block_.count, 1, columns_, 0));
  }

  Tile loaded(graph::ValueId value, bool column_op) {
    const JointTransfers::Key key{value, column_op};
    const Matrix& m = operands_.at(key);
    const Layout layout = *this->layout(block_, value, m);
    const int64_t count = layout.loaded.columns();
    if (m.same_in_every_row()) {
      auto found = same_.find(key);
      if (found == same_.end())
        found = same_.emplace(key, lowering_.fetch(layout.loaded, 0, blocks_[0].runs, 0, count)).first;
      return in_order(found->second.row_range(0, block_.runs), layout.order);
    }
    auto found = loads_.find(key);
    if (found == loads_.end())
      found = loads_.emplace(key, lowering_.fetch(layout.loaded, 0, block_.runs, 0, count)).first;
    return in_order(found->second, layout.order);
  }

  void compute(graph::OpId id) {
    const Op& op = function_.op(id);
    lowering_.begin_op(id);
    const graph::ValueId result = op.results[0];
    const Term term = op.kind == OpKind::reduce_ ? reduced(op) : element_by_element(op, is_column(result));
    terms_[result] = term;
    if (const auto output = outputs_.find(result); output != outputs_.end())
      output->second.runs_of_rows(block_.begin, block_.runs, block_.count)
          ->store(emitter_, in_sbuf(emitter_, term.tile, output->second.dtype()), 0, 0);
  }

  Term element_by_element(const Op& op, bool column_op) {
    std::vector<Term> operands;
    for (const graph::ValueId value : op.operands) operands.push_back(operand(value, column_op));
    return emit_elementwise(emitter_, function_, op, operands, block_.runs, elements(column_op));
  }

  Term reduced(const Op& op) {
    const graph::ElementType element = function_.type(op.results[0]).element();
    const graph::OpKind combiner = *combiner_of(function_, op);
    const double initial = *splat_of(function_, op.operands[1]);
    const Term data = operand(op.operands[0], false);
    Tile all = data.tile;
    if (data.splat) {
      all = fresh(elements(false), *device_dtype(data.element), "splat");
      emitter_.memset(all, *data.splat);
    }
    const bool by_rows = all.groups == 1 && all.runs == block_.count && all.columns == columns_;
    Tile dst = fresh(block_.count, *device_dtype(element), "reduce");
    emitter_.reduce(alu_of(combiner), dst,
                    by_rows ? all : plain(all).patch(0, block_.count, columns_, columns_, 1));
    if (!is_neutral(combiner, element, initial)) {
      const Tile met = fresh(block_.count, dst.dtype, "reduce");
      emitter_.tensor_scalar(alu_of(combiner), met, dst, initial);
      dst = met;
    }
    return {.element = element, .splat = {}, .tile = dst};
  }

  Lowering& lowering_;
  Emitter& emitter_;
  const Function& function_;
  const Plan& plan_;
  int index_;
  const Group& group_;
  const std::map<JointTransfers::Key, Matrix>& operands_;
  const std::map<graph::ValueId, Matrix>& outputs_;
  int64_t columns_;

  std::vector<RunsOfRows> blocks_;
  RunsOfRows block_{};  // in hand
  std::map<graph::ValueId, Term> terms_;
  std::map<JointTransfers::Key, Tile> loads_, same_;  // of this block, and of all of them
};

}  // namespace

bool are_short_rows(int64_t rows, int64_t columns) {
  return columns >= 2 && columns <= kColumnsMost && rows >= kRowsLeast;
}

bool has_short_rows(const Function& function, const Group& group) {
  if (!group.rowwise || group.has_source || !group.permutation.empty() ||
      !are_short_rows(group.rows(), group.columns()))
    return false;
  return std::ranges::all_of(group.ops, [&](graph::OpId id) {
    const Op& op = function.op(id);
    return op.kind != OpKind::reduce_ || graph::is_float(function.type(op.results[0]).element());
  });
}

bool compute_short_rows(Lowering& lowering, int group, const std::map<JointTransfers::Key, Matrix>& operands,
                        const std::map<graph::ValueId, Matrix>& outputs) {
  if (!has_short_rows(lowering.function(), lowering.plan().groups()[static_cast<size_t>(group)]))
    return false;
  ShortRows kernel(lowering, group, operands, outputs);
  if (!kernel.lie_regularly()) return false;
  kernel.compute();
  return true;
}

}  // namespace opentrn::compiler
