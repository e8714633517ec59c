#include "compiler/lowering/plan.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/slab_reduction.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "arch/arch.h"
#include "base/interrupt.h"
#include "compiler/analysis/attention_op.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/dims.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/region.h"
#include "compiler/lowering/scalars.h"
#include "compiler/lowering/short_rows.h"
#include "compiler/lowering/takes.h"
#include "compiler/lowering/tiling.h"
#include "cost/usual.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

constexpr uint32_t kNoPlace = std::numeric_limits<uint32_t>::max();

// Element-wise work has no rows of its own: the cut that takes Vector the least time, counting what
// passes between two instructions. Many small rows (a 7 x 7 image) or few long ones are both slow.
int cheapest_row_rank(std::span<const int64_t> dims, Generation generation) {
  constexpr int64_t kColumns = 2048;
  const cost::UsualCosts& costs = cost::default_costs(generation).usual;
  const auto busy = [&](int64_t columns) {
    // One input, and no fast modes: what is computed is not known here.
    return cost::to_ps(costs.busy_ns(isa::Opcode::kTensorScalarCumulative, isa::Engine::kVector, columns));
  };
  const int64_t partitions = arch::neuron_core(generation).partitions;
  int best = std::max<int>(0, static_cast<int>(dims.size()) - 1);
  cost::Ps best_busy = std::numeric_limits<cost::Ps>::max();
  for (int rank = best; rank > 0; --rank) {
    int64_t rows = 1, columns = 1;
    for (int i = 0; i < static_cast<int>(dims.size()); ++i)
      (i < rank ? rows : columns) *= dims[static_cast<size_t>(i)];
    const int64_t tiles = (rows + partitions - 1) / partitions;
    const cost::Ps tile =
        columns / kColumns * busy(kColumns) + (columns % kColumns > 0 ? busy(columns % kColumns) : 0);
    if (tiles * tile >= best_busy) continue;
    best = rank;
    best_busy = tiles * tile;
  }
  return best;
}

int64_t product(std::span<const int64_t> dims) {
  int64_t result = 1;
  for (const int64_t dim : dims) result *= dim;
  return result;
}

std::vector<int64_t> without_ones(std::span<const int64_t> dims) {
  std::vector<int64_t> result;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(result), [](int64_t dim) { return dim != 1; });
  return result;
}

// The operand's dimensions, kept ones first, when `dimensions` are reduced.
std::vector<int64_t> kept_then_reduced(int rank, std::span<const int64_t> dimensions) {
  std::vector<int64_t> order;
  for (int i = 0; i < rank; ++i)
    if (std::find(dimensions.begin(), dimensions.end(), i) == dimensions.end()) order.push_back(i);
  for (int i = 0; i < rank; ++i)
    if (std::find(dimensions.begin(), dimensions.end(), i) != dimensions.end()) order.push_back(i);
  return order;
}

// Whether the rows of a reduction are so few, or so short, that the element-wise work before it takes longer
// on them than spread over all partitions and through memory.
bool leaves_partitions_idle(const Function& function, const Group& group, const Op& reduction,
                            Generation generation) {
  const int64_t partitions = arch::neuron_core(generation).partitions;
  constexpr int64_t kThroughMemory = 6000;  // in columns of the Vector engine
  constexpr int64_t kTensors = 4, kWidest = 2048;
  if (group.split || group.has_source || !group.permutation.empty()) return false;
  const int64_t columns =
                    count_of(function.type(reduction.operands[0]), reduction.integers(Attr::dimensions)),
                rows = product(group.shape) / columns;
  if (are_short_rows(rows, columns) && graph::is_float(function.type(reduction.results[0]).element()))
    return false;
  if (rows >= partitions)
    return pays_as_wide_rows(generation, {std::ssize(group.ops), kTensors, rows, columns, kWidest});
  return static_cast<int64_t>(group.ops.size()) * (columns - columns * rows / partitions) > kThroughMemory;
}

}  // namespace

std::optional<int> source_row_rank(const Function& function, const Op& op) {
  for (const auto rank_of : {dot_general_row_rank, packed_product_row_rank, convolution_row_rank})
    if (const auto rank = rank_of(function, op)) return rank;
  return std::nullopt;
}

bool is_reduction(const Function& function, const Op& op) {
  if (op.kind != OpKind::reduce_ || op.results.size() != 1 || !combiner_of(function, op)) return false;
  if (!splat_of(function, op.operands[1])) return false;
  const graph::Type& type = function.type(op.operands[0]);
  if (!device_dtype(type.element()) || type.quantization()) return false;
  if (graph::is_float(type.element())) return true;
  int64_t columns = 1;
  for (const int64_t d : op.integers(Attr::dimensions)) columns *= type.dim(static_cast<int>(d));
  return columns <= kExactReductionColumns;
}

std::vector<OpId> Group::all_ops() const {
  std::vector<OpId> all;
  for (const auto& [operand, prologue] : prologues) all.insert(all.end(), prologue.begin(), prologue.end());
  all.insert(all.end(), ops.begin(), ops.end());
  return all;
}

int64_t Group::rows() const { return product(std::span(shape).first(static_cast<size_t>(row_rank()))); }
int64_t Group::columns() const { return product(std::span(shape).subspan(static_cast<size_t>(row_rank()))); }

Plan::Plan(const Function& function, graph::BlockId block, Generation generation, int64_t columns_max,
           std::optional<size_t> in_register, int64_t prologue_elements, bool donated_inputs)
    : function_(function),
      block_(block),
      generation_(generation),
      columns_max_(columns_max),
      prologue_elements_(prologue_elements),
      donated_inputs_(donated_inputs) {
  group_of_op_.assign(function.op_count(), -1);
  place_of_op_.assign(function.op_count(), 0);
  form_of_value_.assign(function.value_count(), Form::kFull);
  uint32_t place_in_block = 0;
  for (const OpId id : function.block(block).ops) place_of_op_[index_of(id)] = place_in_block++;
  find_register_ops(in_register);
  find_widening();
  find_read_in_place();
  for (const OpId id : function.block(block).ops) place(id);
  find_prologues();
  find_outputs(in_register);
  find_overwritten();
  find_updated();
}

// Backwards, so that every reader is known. An op qualifies when it has readers and all of them are
// addresses, or arithmetic that qualifies itself.
void Plan::find_register_ops(std::optional<size_t> in_register) {
  in_registers_.assign(function_.op_count(), false);
  std::vector<bool> addressed(function_.value_count(), false), otherwise(function_.value_count(), false);
  const auto& ops = function_.block(block_).ops;
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const Op& op = function_.op(*it);
    const bool chosen = op.results.size() == 1 && is_register_op(function_, op) &&
                        addressed[index_of(op.results[0])] && !otherwise[index_of(op.results[0])];
    in_registers_[index_of(*it)] = chosen;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const bool to_register =
          chosen || is_address(op, i) || (op.kind == OpKind::return_ && in_register == i);
      (to_register ? addressed : otherwise)[index_of(op.operands[i])] = true;
    }
    for (const ValueId value : captured_by(function_, op)) otherwise[index_of(value)] = true;
  }
}

// What takes its operand in a type other than that of its own numbers, on the way into the engine.
bool Plan::widens_as_it_reads(const Op& op, size_t operand) const {
  switch (op.kind) {
    case OpKind::add_:
    case OpKind::subtract_:
    case OpKind::multiply_:
    case OpKind::divide_:
    case OpKind::maximum_:
    case OpKind::minimum_:
    case OpKind::exponential_:
    case OpKind::tanh_:
    case OpKind::logistic_:
    case OpKind::sqrt_:
    case OpKind::rsqrt_:
    case OpKind::chlo_erf_: return has_elementwise(function_, op);
    case OpKind::reduce_: {
      if (operand != 0 || !is_reduction(function_, op)) return false;
      // Over the last dimensions: others move slabs (slab_reduction.h).
      const auto reduced = op.integers(Attr::dimensions);
      const int rank = function_.type(op.operands[0]).rank();
      return std::ranges::all_of(reduced,
                                 [&](int64_t d) { return d >= rank - static_cast<int64_t>(reduced.size()); });
    }
    default: return false;
  }
}

// Conversions of 16-bit floats to fp32 whose every reader takes the narrow number. A value that others read
// too, as products, lies as they want it, and its readers by rows have a copy of their own.
void Plan::find_widening() {
  is_widening_.assign(function_.op_count(), false);
  std::vector<bool> widens(function_.value_count(), true), by_rows(function_.value_count(), true);
  const auto& ops = function_.block(block_).ops;
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const Op& op = function_.op(*it);
    const bool view = is_view_op(op.kind);
    const bool wide = op.results.size() == 1 && widens[index_of(op.results[0])];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const size_t read = index_of(op.operands[i]);
      if (!(view ? wide : widens_as_it_reads(op, i))) widens[read] = false;
      if (view ? op.results.size() != 1 || !by_rows[index_of(op.results[0])]
               : source_row_rank(function_, op) || attention_of(op))
        by_rows[read] = false;
    }
    for (const ValueId value : captured_by(function_, op))
      widens[index_of(value)] = by_rows[index_of(value)] = false;
    if (op.kind != OpKind::convert_ || !wide || !by_rows[index_of(op.operands[0])]) continue;
    const graph::Type &from = function_.type(op.operands[0]), &to = function_.type(op.results[0]);
    is_widening_[index_of(*it)] =
        (from.element() == graph::ElementType::kBF16 || from.element() == graph::ElementType::kF16) &&
        to.element() == graph::ElementType::kF32 && !splat_of(function_, op.operands[0]);
  }
}

bool Plan::is_read_through(OpId id) const {
  return is_view_op(function_.op(id).kind) || is_widening_[index_of(id)] || is_read_in_place_[index_of(id)];
}

ValueId Plan::made_or_sliced(ValueId value) const {
  for (;;) {
    const OpId id = function_.value(value).op;
    if (id == graph::kNoOp || !is_read_through(id) || is_read_in_place_[index_of(id)]) return value;
    value = function_.op(id).operands[function_.value(value).index];
  }
}

// What the places of slices depend on that lie between the value and its base.
void Plan::add_addresses(ValueId value, std::vector<ValueId>& bases) const {
  for (;;) {
    const OpId id = function_.value(value).op;
    if (id == graph::kNoOp || !is_read_through(id)) return;
    const Op& op = function_.op(id);
    if (is_read_in_place_[index_of(id)])
      for (size_t i = 1; i < op.operands.size(); ++i) add_base(op.operands[i], bases);
    value = op.operands[function_.value(value).index];
  }
}

void Plan::add_base(ValueId value, std::vector<ValueId>& bases) const {
  value = base_of(value);
  const OpId id = function_.value(value).op;
  if (id == graph::kNoOp || !in_registers_[index_of(id)]) return bases.push_back(value);
  for (const ValueId operand : function_.op(id).operands) add_base(operand, bases);
}

std::vector<ValueId> Plan::bases_read_by(OpId id) const {
  const Op& op = function_.op(id);
  std::vector<ValueId> bases;
  for (const ValueId operand : op.operands) {
    add_base(operand, bases);
    add_addresses(operand, bases);
  }
  for (const ValueId value : captured_by(function_, op)) add_base(value, bases);
  return bases;
}

int Plan::group_of(ValueId value) const {
  const OpId id = function_.value(value).op;
  return id == graph::kNoOp ? -1 : group_of_op_[index_of(id)];
}

ValueId Plan::base_of(ValueId value) const {
  for (;;) {
    const OpId id = function_.value(value).op;
    if (id == graph::kNoOp || !is_read_through(id)) return value;
    value = function_.op(id).operands[function_.value(value).index];
  }
}

// A full value may be reshaped if the rows stay what they are; a column may gain and lose dimensions of
// one, and be broadcast along the columns.
std::optional<Plan::Seen> Plan::seen_inside(int group, ValueId value) const {
  if (group_of(value) == group) return Seen{value, form_of_value_[index_of(value)]};
  const OpId id = function_.value(value).op;
  if (id == graph::kNoOp || !groups_[group].permutation.empty()) return std::nullopt;
  const Op& op = function_.op(id);
  if (is_widening(id)) return seen_inside(group, op.operands[0]);
  if (op.kind != OpKind::reshape_ && op.kind != OpKind::broadcast_in_dim_) return std::nullopt;
  const auto inner = seen_inside(group, op.operands[0]);
  if (!inner || inner->form != Form::kColumn) return std::nullopt;
  const Group& g = groups_[group];
  const auto from = function_.type(op.operands[0]).dims();
  const auto to = function_.type(value).dims();
  if (op.kind == OpKind::reshape_)
    return without_ones(from) == without_ones(to) ? inner : std::optional<Seen>{};
  // Row dimensions keep their places, so that row i stays row i.
  const auto places = op.integers(Attr::broadcast_dimensions);
  const auto rank = static_cast<size_t>(g.row_rank());
  if (to.size() < rank ||
      !std::equal(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(rank), g.shape.begin()))
    return std::nullopt;
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1 && (places[i] >= static_cast<int64_t>(rank) || to[places[i]] != from[i]))
      return std::nullopt;
  // Every row dimension other than one comes from the operand.
  int64_t elements = 1;
  for (size_t i = 0; i < rank; ++i) elements *= to[i];
  if (product(from) != elements) return std::nullopt;
  return inner;
}

std::vector<int> Plan::groups_read_by(OpId id) const {
  std::vector<int> read;
  for (const ValueId base : bases_read_by(id))
    if (const int group = group_of(base); group >= 0) read.push_back(group);
  return read;
}

bool Plan::depends(int from, int on) const {
  std::vector<bool> seen(groups_.size());
  std::vector<int> waiting{from};
  while (!waiting.empty()) {
    const int at = waiting.back();
    waiting.pop_back();
    if (at == on) return true;
    // Were `on` behind it, its ops would be among those that `latest_` counts.
    if (in_order_of_block_ && latest_[at] < place_of_op_[index_of(groups_[on].ops.front())]) continue;
    for (const int next : reads_[at])
      if (!seen[next]) {
        seen[next] = true;
        waiting.push_back(next);
      }
  }
  return false;
}

// What the op's result would be to the group; nullopt when it does not fit the iteration space.
std::optional<Form> Plan::result_form(int group, OpId id) const {
  const Op& op = function_.op(id);
  const Group& g = groups_[group];
  const auto dims = function_.type(op.results[0]).dims();
  if (op.kind == OpKind::reduce_) {
    const auto inside = seen_inside(group, op.operands[0]);
    if (!inside || inside->form != Form::kFull) return std::nullopt;
    const auto reduced = op.integers(Attr::dimensions);
    const auto rank = static_cast<int>(g.shape.size());
    const int kept = rank - static_cast<int>(reduced.size());
    for (const int64_t d : reduced)
      if (d < kept) return std::nullopt;
    if (g.split && *g.split != kept) return std::nullopt;
    return Form::kColumn;
  }
  bool any_full = false, any_column = false;
  for (const ValueId operand : op.operands) {
    const auto inside = seen_inside(group, operand);
    if (!inside) {
      // It comes from outside, so nothing behind it may be made here.
      if (group_of(base_of(operand)) == group) return std::nullopt;
      continue;
    }
    any_full |= inside->form == Form::kFull;
    any_column |= inside->form == Form::kColumn;
  }
  if (std::equal(dims.begin(), dims.end(), g.shape.begin(), g.shape.end())) {
    // With one column, full and column look alike.
    return any_full || any_column ? std::optional(Form::kFull) : std::nullopt;
  }
  if (any_full || !g.split) return std::nullopt;
  const auto row_dims = std::span(g.shape).first(static_cast<size_t>(g.row_rank()));
  if (without_ones(dims) != without_ones(row_dims)) return std::nullopt;
  return Form::kColumn;
}

// Five full values alive at once are the most that the kernels of practice need; a group of fewer has fewer.
bool Plan::fits(const Group& group) const {
  if (!group.whole_rows) return true;
  int64_t loaded = 0;
  for (const OpId id : group.ops) {
    const Op& op = function_.op(id);
    for (const ValueId operand : op.operands)
      if (group_of(base_of(operand)) != group_of(op.results[0]) && !splat_of(function_, operand)) ++loaded;
  }
  const auto full = static_cast<int64_t>(group.ops.size()) + loaded;
  return group.columns() * std::min<int64_t>(full, 5) <= columns_max_;
}

bool Plan::try_join(OpId id, int group) {
  const auto form = result_form(group, id);
  if (!form) return false;
  for (const int other : groups_read_by(id))
    if (other != group && depends(other, group)) return false;
  const Op& op = function_.op(id);
  // Tried in place: a copy of the group for each op makes the plan of a long group quadratic.
  Group& joined = groups_[group];
  // Each partition has several results of a reduction over slabs, which what follows would need one by one.
  if (joined.ops.size() == 1 && joined.split && !joined.permutation.empty() &&
      reduces_slabs(function_, function_.op(joined.ops[0])))
    return false;
  if (op.kind == OpKind::reduce_ && leaves_partitions_idle(function_, joined, op, generation_)) return false;
  const auto split = joined.split;
  const bool whole_rows = joined.whole_rows;
  joined.ops.push_back(id);
  if (op.kind == OpKind::reduce_) {
    joined.split = static_cast<int>(joined.shape.size() - op.integers(Attr::dimensions).size());
    joined.whole_rows = true;
  }
  group_of_op_[index_of(id)] = group;
  if (!fits(joined)) {
    group_of_op_[index_of(id)] = -1;
    joined.ops.pop_back();
    joined.split = split;
    joined.whole_rows = whole_rows;
    return false;
  }
  form_of_value_[index_of(op.results[0])] = *form;
  add_reads(group, id);
  return true;
}

// Ops come in the order of the block, so this one is later than everything before. Groups that read `group`
// have it behind them too, however early their own ops are.
void Plan::add_reads(int group, OpId id) {
  for (const int other : groups_read_by(id))
    if (other != group) {
      reads_[group].push_back(other);
      readers_[other].push_back(group);
    }
  const uint32_t place = place_of_op_[index_of(id)];
  std::vector<int> waiting{group};
  while (!waiting.empty()) {
    const int at = waiting.back();
    waiting.pop_back();
    if (latest_[at] == place) continue;
    latest_[at] = place;
    waiting.insert(waiting.end(), readers_[at].begin(), readers_[at].end());
  }
}

void Plan::start_group(OpId id) {
  const Op& op = function_.op(id);
  Group group;
  group.ops = {id};
  if (is_reduction(function_, op)) {
    group.rowwise = true;
    const graph::Type& type = function_.type(op.operands[0]);
    const auto reduced = op.integers(Attr::dimensions);
    const auto order = kept_then_reduced(type.rank(), reduced);
    for (const int64_t d : order) group.shape.push_back(type.dim(static_cast<int>(d)));
    if (!std::is_sorted(order.begin(), order.end())) group.permutation = order;
    group.split = type.rank() - static_cast<int>(reduced.size());
    group.whole_rows = true;
    form_of_value_[index_of(op.results[0])] = Form::kColumn;
  } else if (const auto rank = source_row_rank(function_, op)) {
    group.rowwise = group.has_source = true;
    const auto dims = function_.type(op.results[0]).dims();
    group.shape.assign(dims.begin(), dims.end());
    group.split = *rank;
  } else if (has_elementwise(function_, op)) {
    group.rowwise = true;
    const auto dims = function_.type(op.results[0]).dims();
    group.shape.assign(dims.begin(), dims.end());
    group.free_rank = cheapest_row_rank(dims, generation_);
  }
  const int number = static_cast<int>(groups_.size());
  group_of_op_[index_of(id)] = number;
  groups_.push_back(std::move(group));
  reads_.emplace_back();
  readers_.emplace_back();
  latest_.push_back(kNoPlace);
  add_reads(number, id);
}

void Plan::place(OpId id) {
  interrupt::poll();
  const Op& op = function_.op(id);
  if (op.kind == OpKind::constant_ || op.kind == OpKind::return_ || is_read_through(id)) return;
  if (in_registers_[index_of(id)]) return;
  if (has_elementwise(function_, op) || is_reduction(function_, op)) {
    std::vector<int> candidates = groups_read_by(id);
    std::sort(candidates.rbegin(), candidates.rend());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    for (const int group : candidates)
      if (groups_[group].rowwise && try_join(id, group)) {
        for (const int other : candidates) try_merge(other, group);
        return;
      }
  }
  start_group(id);
}

// Element-wise groups that an op has joined are one: what one gives the other is then in no memory, which
// takes longer than the few tiles more that are alive at once. A step of Adam reads four tensors and writes
// four, and would read both moments again.
bool Plan::try_merge(int from, int into) {
  constexpr size_t kOpsMax = 32;
  const auto is_elementwise = [&](int index) {
    const Group& g = groups_[index];
    return g.rowwise && !g.has_source && !g.split && g.permutation.empty() && !g.ops.empty();
  };
  Group &merged = groups_[into], &other = groups_[from];
  if (from == into || !is_elementwise(from) || !is_elementwise(into) || merged.shape != other.shape ||
      merged.ops.size() + other.ops.size() > kOpsMax)
    return false;
  for (const auto& [reader, read] : {std::pair(from, into), std::pair(into, from)})
    for (const int next : reads_[reader])
      if (next != read && depends(next, read)) return false;
  // What one reads rearranged of the other has to be in memory first.
  for (const auto& [ops, made] : {std::pair(&merged.ops, from), std::pair(&other.ops, into)})
    for (const OpId id : *ops)
      for (const ValueId operand : function_.op(id).operands)
        if (group_of(operand) != made && group_of(base_of(operand)) == made) return false;
  for (const OpId id : other.ops) group_of_op_[index_of(id)] = into;
  merged.ops.insert(merged.ops.end(), other.ops.begin(), other.ops.end());
  std::ranges::sort(merged.ops, {}, [&](OpId id) { return place_of_op_[index_of(id)]; });
  other.ops.clear();
  const auto renamed = [&](std::vector<int>& groups) { std::ranges::replace(groups, from, into); };
  for (const int reader : readers_[from]) renamed(reads_[reader]);
  for (const int read : reads_[from]) renamed(readers_[read]);
  for (auto* of : {&reads_, &readers_}) {
    auto& gone = (*of)[from];
    auto& kept = (*of)[into];
    kept.insert(kept.end(), gone.begin(), gone.end());
    gone.clear();
    std::erase(kept, into);
  }
  latest_[into] = kNoPlace;
  add_reads(into, merged.ops.back());
  return true;
}

// An operand is made by a group of element-wise ops that nothing else reads, and is read as it is made or
// rearranged; some value that the group reads has every element, and so the operand's place in memory.
std::optional<int> Plan::prologue_of(int group, size_t operand,
                                     const std::vector<std::vector<OpId>>& users) const {
  const Op& source = function_.op(groups_[group].ops[0]);
  ValueId value = source.operands[operand];
  const ValueId base = base_of(value);
  const int found = group_of(base);
  if (found < 0 || found == group) return std::nullopt;
  const Group& made = groups_[found];
  if (!made.rowwise || made.has_source || made.split || !made.permutation.empty()) return std::nullopt;
  const int64_t elements = function_.type(base).element_count();
  if (elements < prologue_elements_) return std::nullopt;
  bool reshaped = false;
  for (; value != base; value = function_.op(function_.value(value).op).operands[0]) {
    const Op& op = function_.op(function_.value(value).op);
    if (users[index_of(value)].size() != 1 || function_.type(value).element_count() != elements ||
        (op.kind != OpKind::transpose_ && op.kind != OpKind::reshape_))
      return std::nullopt;
    reshaped |= op.kind == OpKind::reshape_;
  }
  if (users[index_of(base)].size() != 1 || function_.op(made.ops.back()).results[0] != base)
    return std::nullopt;
  bool any_full = false, all_full = true;
  for (const OpId id : made.ops) {
    const Op& op = function_.op(id);
    if (op.results[0] != base)
      for (const OpId user : users[index_of(op.results[0])])
        if (group_of_op_[index_of(user)] != found) return std::nullopt;
    for (const ValueId read : op.operands) {
      if (group_of(read) == found || splat_of(function_, read)) continue;
      const bool full = function_.type(made_or_sliced(read)).element_count() == elements;
      any_full |= full, all_full &= full;
    }
  }
  // Not every reshape of a broadcast is one of strides.
  if (!any_full || (reshaped && !all_full)) return std::nullopt;
  return found;
}

void Plan::find_prologues() {
  std::vector<std::vector<OpId>> users(function_.value_count());
  for (const OpId id : function_.block(block_).ops) {
    for (const ValueId value : function_.op(id).operands) users[index_of(value)].push_back(id);
    for (const ValueId value : captured_by(function_, function_.op(id))) users[index_of(value)].push_back(id);
  }
  for (int group = 0; group < static_cast<int>(groups_.size()); ++group) {
    Group& source = groups_[group];
    if (!source.has_source || function_.op(source.ops[0]).kind != OpKind::dot_general_) continue;
    for (const size_t operand : {0, 1}) {
      const auto made = prologue_of(group, operand, users);
      if (!made) continue;
      for (const OpId id : groups_[*made].ops) group_of_op_[index_of(id)] = group;
      source.prologues[operand] = std::exchange(groups_[*made].ops, {});
      std::erase(reads_[group], *made);
      reads_[group].insert(reads_[group].end(), reads_[*made].begin(), reads_[*made].end());
      reads_[*made].clear();
    }
  }
}

std::vector<int> Plan::order() const {
  // 0 new, 1 begun, 2 done; a stack, as chains of groups can be long.
  std::vector<int> result;
  std::vector<uint8_t> state(groups_.size());
  for (int root = 0; root < static_cast<int>(groups_.size()); ++root) {
    if (groups_[root].ops.empty()) continue;
    std::vector<int> stack{root};
    while (!stack.empty()) {
      const int at = stack.back();
      if (state[at] == 2) {
        stack.pop_back();
        continue;
      }
      if (state[at] == 1) {
        state[at] = 2;
        result.push_back(at);
        stack.pop_back();
        continue;
      }
      state[at] = 1;
      for (const int next : reads_[at])
        if (state[next] == 0) stack.push_back(next);
    }
  }
  return result;
}

void Plan::find_outputs(std::optional<size_t> in_register) {
  read_outside_.assign(function_.value_count(), false);
  std::optional<ValueId> counter;  // of a loop, which only readers of memory need there
  if (is_loop_body() && in_register) counter = function_.block(block_).arguments[*in_register];
  std::vector<ValueId> bases;
  for (const OpId id : function_.block(block_).ops) {
    const Op& op = function_.op(id);
    if (is_read_through(id) || in_registers_[index_of(id)]) continue;
    const int group = group_of_op_[index_of(id)];
    bases.clear();
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (op.kind == OpKind::return_ && counter && in_register == i) continue;
      if (group >= 0 && seen_inside(group, op.operands[i])) continue;
      size_t before = bases.size();
      add_base(op.operands[i], bases);
      if (!is_address(op, i)) before = bases.size();
      add_addresses(op.operands[i], bases);
      if (counter)
        bases.erase(std::remove(bases.begin() + static_cast<std::ptrdiff_t>(before), bases.end(), *counter),
                    bases.end());
    }
    for (const ValueId value : captured_by(function_, op)) add_base(value, bases);
    for (const ValueId base : bases) read_outside_[index_of(base)] = true;
  }
}

std::vector<ValueId> Plan::outputs(int group) const {
  std::vector<ValueId> result;
  for (const OpId id : groups_[group].ops)
    for (const ValueId value : function_.op(id).results)
      if (read_outside_[index_of(value)]) result.push_back(value);
  return result;
}

}  // namespace opentrn::compiler
