// How values are kept in SBUF, from all that read them: the assignment of layouts to products that needs the
// fewest transposes.
//
// The Tensor engine contracts over partitions. What only products read that contract its columns is kept
// with columns over partitions: its maker turns it once for all of them, or makes it so (a product gives its
// result either way round). Queries and keys of attention are read so too. Values of attention are read by
// rows, which begin anew with every sequence.
#include <algorithm>

#include "compiler/analysis/attention_op.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/tiling.h"

namespace opentrn::compiler {

namespace {

View row_major(std::span<const int64_t> dims) {
  View view;
  view.dims.resize(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i]) view.dims[i] = {step, dims[i]};
  return view;
}

class Finder {
 public:
  Finder(const Function& function, const Plan& plan, Generation generation)
      : function_(function), plan_(plan), generation_(generation) {}

  std::map<ValueId, Arrangement> run() {
    for (const OpId id : function_.block(plan_.block()).ops) {
      const Op& op = function_.op(id);
      if (!plan_.is_read_through(id)) find_wishes(op);
    }
    std::map<ValueId, Arrangement> result;
    for (const auto& [value, wishes] : wishes_)
      if (!wishes.others && wishes.by_columns > 0 && wishes.by_groups == 0)
        result[value] = {.by_columns = true, .group_rows = 0};
    for (const auto& [value, wishes] : wishes_)
      if (!wishes.others && wishes.by_columns == 0 && wishes.by_groups > 0 && makes_any_rows(value, result) &&
          pays_in_groups(value, wishes.group_rows))
        result[value] = {.by_columns = false, .group_rows = wishes.group_rows};
    return result;
  }

 private:
  struct Wishes {
    int by_columns = 0, by_groups = 0;
    int64_t group_rows = 0;
    bool others = false;
  };

  // Columns of the value as its maker keeps it; 0 for what is not arranged here.
  int64_t width_of(ValueId value) const {
    const OpId id = function_.value(value).op;
    const int group = plan_.group_of(value);
    if (id == graph::kNoOp || group < 0 || !plan_.read_from_memory(value)) return 0;
    const graph::Type& type = function_.type(value);
    if (!type.is_tensor() || !graph::is_float(type.element()) || !device_dtype(type.element())) return 0;
    if (attention_of(function_.op(id))) return type.dim(type.rank() - 1) * heads_of(type);
    const Group& made_by = plan_.groups()[static_cast<size_t>(group)];
    const auto seen = plan_.seen_inside(group, value);
    if (!made_by.rowwise || !made_by.permutation.empty() || !seen || seen->form != Form::kFull) return 0;
    return made_by.columns();
  }

  // [outer, queries, heads..., values], as the kernel writes it.
  static int64_t heads_of(const graph::Type& type) {
    int64_t heads = 1;
    for (int d = 2; d + 1 < type.rank(); ++d) heads *= type.dim(d);
    return heads;
  }

  // The operand as strides of the value behind it.
  std::optional<View> seen_from(ValueId value) const {
    std::vector<ValueId> chain;
    const ValueId base = plan_.base_of(value);
    for (; value != base; value = function_.op(function_.value(value).op).operands[0]) {
      const Op& op = function_.op(function_.value(value).op);
      if (op.operands.size() != 1) return std::nullopt;
      chain.push_back(value);
    }
    std::optional<View> view = row_major(function_.type(base).dims());
    for (size_t i = chain.size(); view && i-- > 0;)
      view = Lowering::rearranged(function_, function_.op(function_.value(chain[i]).op),
                                  function_.value(chain[i]).index, *view);
    return view;
  }

  void find_wishes(const Op& op) {
    const auto attention = attention_of(op);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId base = plan_.base_of(op.operands[i]);
      const int64_t width = width_of(base);
      if (width == 0) continue;
      const bool inside = op.results.size() == 1 && plan_.group_of(op.results[0]) == plan_.group_of(base);
      if (inside) continue;
      Wishes& wishes = wishes_[base];
      if (op.kind == OpKind::dot_general_ && contracts_columns(op, i, width))
        ++wishes.by_columns;
      else if (attention && i < 2 && heads_over_partitions(op, width, plan_.base_of(op.operands[1 - i])))
        ++wishes.by_columns;
      else if (const int64_t rows = attention && i == 2 ? sequence_rows(op, width) : 0; rows > 0)
        ++wishes.by_groups, wishes.group_rows = rows;
      else
        wishes.others = true;
    }
    // Regions read from memory as it is.
    for (const graph::BlockId region : op.regions) find_captured(region);
  }

  void find_captured(graph::BlockId block) {
    for (const OpId id : function_.block(block).ops) {
      const Op& op = function_.op(id);
      for (const ValueId operand : op.operands) {
        const ValueId base = plan_.base_of(operand);
        if (plan_.group_of(base) >= 0) wishes_[base].others = true;
      }
      for (const graph::BlockId region : op.regions) find_captured(region);
    }
  }

  // Free dimensions are all rows one after another, the contracted ones columns from a multiple of 128.
  bool contracts_columns(const Op& op, size_t operand, int64_t width) const {
    const Attr batching = operand == 0 ? Attr::lhs_batching_dimensions : Attr::rhs_batching_dimensions,
               contracting =
                   operand == 0 ? Attr::lhs_contracting_dimensions : Attr::rhs_contracting_dimensions;
    if (op.operands[0] == op.operands[1]) return false;
    if (op.has(batching) && !op.integers(batching).empty()) return false;
    const auto view = seen_from(op.operands[operand]);
    if (!view || !op.has(contracting) || view->offset % width % kPartitions != 0) return false;
    std::vector<isa::Dim> free, contracted;
    const auto named = op.integers(contracting);
    for (const int64_t d : named) contracted.push_back(view->dims[static_cast<size_t>(d)]);
    for (size_t d = 0; d < view->dims.size(); ++d)
      if (std::find(named.begin(), named.end(), static_cast<int64_t>(d)) == named.end())
        free.push_back(view->dims[d]);
    const auto columns = merged(contracted), rows = merged(free);
    return columns.size() == 1 && columns[0].step == 1 && columns[0].count <= width &&
           (rows.empty() || (rows.size() == 1 && rows[0].step == width));
  }

  // Both operands of the scores find every head's features in one tile, on the same partitions.
  bool heads_over_partitions(const Op& op, int64_t width, ValueId other) const {
    const auto q = seen_from(op.operands[0]), k = seen_from(op.operands[1]);
    if (!q || !k || width_of(other) != width || q->dims.size() != k->dims.size()) return false;
    const size_t rank = q->dims.size(), outer = rank > 2 ? 1 : 0;
    const int64_t features = q->dims.back().count;
    if (kPartitions % features != 0 || features < kPartitions / 4) return false;
    for (const View* view : {&*q, &*k}) {
      if (view->offset % width != 0 || view->dims.back().step != 1) return false;
      if (view->dims[rank - 2].step != width && view->dims[rank - 2].count > 1) return false;
      if (outer > 0 && view->dims[0].count > 1 && view->dims[0].step % width != 0) return false;
    }
    for (size_t d = outer; d + 2 < rank; ++d) {
      const isa::Dim &of_q = q->dims[d], &of_k = k->dims[d];
      if (of_q.count > 1 && of_q.step % features != 0) return false;
      if (features < kPartitions && of_q.count > 1 && of_q.step != of_k.step) return false;
      if (of_k.count > 1 && of_k.step % features != 0) return false;
    }
    return true;
  }

  // Rows of one sequence where several lie one after another and none of them fills whole tiles; else 0.
  int64_t sequence_rows(const Op& op, int64_t width) const {
    const auto v = seen_from(op.operands[2]);
    if (!v || v->dims.size() < 3 || v->offset != 0 || v->dims.back().step != 1) return 0;
    const isa::Dim &outer = v->dims[0], &rows = v->dims[v->dims.size() - 2];
    const bool fits = rows.step == width && outer.step == width * rows.count && outer.count > 1;
    return fits && rows.count % kPartitions != 0 ? rows.count : 0;
  }

  // A product whose left operand is kept by columns gives its rows in any blocks.
  bool makes_any_rows(ValueId value, const std::map<ValueId, Arrangement>& known) const {
    const Group& group = plan_.groups()[static_cast<size_t>(plan_.group_of(value))];
    const Op& first = function_.op(group.ops[0]);
    if (!group.has_source || first.kind != OpKind::dot_general_ || group.whole_rows) return false;
    const auto left = known.find(plan_.base_of(first.operands[0]));
    return left != known.end() && left->second.by_columns && plan_.outputs(plan_.group_of(value)).size() == 1;
  }

  // Blocks that begin anew with every sequence are more products, which take as long for a few rows as for
  // 128. Without them the value goes through memory, once each way.
  bool pays_in_groups(ValueId value, int64_t group_rows) const {
    const Op& product = function_.op(plan_.groups()[static_cast<size_t>(plan_.group_of(value))].ops[0]);
    const graph::Type& left = function_.type(product.operands[0]);
    const int64_t width = width_of(value), rows = function_.type(value).element_count() / width;
    int64_t contracted = 1;
    for (const int64_t d : product.integers_or(Attr::lhs_contracting_dimensions, 0, 0))
      contracted *= left.dim(static_cast<int>(d));
    const int64_t more = rows / group_rows * tiles(group_rows, kPartitions) - tiles(rows, kPartitions);
    const int64_t products = more * tiles(contracted, kPartitions) * tiles(width, kPsumBankColumns);
    const double of_products = static_cast<double>(products) *
                               matmul_ns(generation_, std::min(width, kPsumBankColumns), bytes_of(left));
    const int64_t sequence_bytes = width * bytes_of(function_.type(value));
    const double through_memory = 2 *
                                  static_cast<double>(rows / group_rows * tiles(group_rows, kPartitions)) *
                                  transfer_ns(generation_, std::min(group_rows, kPartitions), sequence_bytes);
    return of_products <= through_memory;
  }

  static int64_t bytes_of(const graph::Type& type) { return size_bytes(*device_dtype(type.element())); }

  const Function& function_;
  const Plan& plan_;
  Generation generation_;
  std::map<ValueId, Wishes> wishes_;
};

}  // namespace

std::map<ValueId, Arrangement> find_arrangements(const Function& function, const Plan& plan,
                                                 Generation generation) {
  return Finder(function, plan, generation).run();
}

}  // namespace opentrn::compiler
