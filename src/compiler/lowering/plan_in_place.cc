// Of a block's plan: what is read where it lies, at a place that registers hold, and what is written where
// something lies that nobody reads any more.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/plan.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

// A box of `whole` whose elements follow each other without a gap.
bool is_run_of(const graph::Type& whole, const graph::Type& box) {
  const auto all = whole.dims(), part = box.dims();
  size_t first = 0;  // the outermost dimension of several
  while (first < part.size() && part[first] == 1) ++first;
  return first == part.size() || std::equal(part.begin() + static_cast<std::ptrdiff_t>(first) + 1, part.end(),
                                            all.begin() + static_cast<std::ptrdiff_t>(first) + 1, all.end());
}

}  // namespace

// Less finds room in SBUF, and goes there or from there in one transfer a tile: those whose addresses are
// computed take 600 ns of a unit each, whatever they move.
bool Plan::is_large(ValueId value) const {
  constexpr int64_t kBytesMin = int64_t{1} << 20;
  const graph::Type& type = function_.type(value);
  return type.element_count() * size_bytes(*device_dtype(type.element())) >= kBytesMin;
}

// Products and what is computed element by element load their operands by DMA.
bool Plan::reads_in_place(const Op& op, size_t operand) const {
  if (op.kind == OpKind::dot_general_) return dot_general_row_rank(function_, op).has_value();
  return has_elementwise(function_, op) || (operand == 0 && is_reduction(function_, op));
}

// Large slices all of whose readers load what they read: those of weights that a loop's counter chooses. A
// copy would move each element three times in place of once.
void Plan::find_read_in_place() {
  is_read_in_place_.assign(function_.op_count(), false);
  std::vector<bool> loaded(function_.value_count(), true);
  const auto& ops = function_.block(block_).ops;
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const Op& op = function_.op(*it);
    const bool view = is_view_op(op.kind) && op.results.size() == 1;
    const bool in_place = op.kind == OpKind::dynamic_slice_ && loaded[index_of(op.results[0])] &&
                          has_dynamic_slices(function_, op) && !splat_of(function_, op.operands[0]);
    is_read_in_place_[index_of(*it)] = in_place && is_large(op.results[0]);
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (!(view ? loaded[index_of(op.results[0])] : reads_in_place(op, i)))
        loaded[index_of(op.operands[i])] = false;
    for (const ValueId value : captured_by(function_, op)) loaded[index_of(value)] = false;
  }
}

bool Plan::may_overwrite(OpId id, size_t operand) const { return overwritten_.contains({id, operand}); }

// A loop copies what it begins with; only the function's own block updates an input.
bool Plan::is_donated(ValueId value) const {
  if (!donated_inputs_ || block_ != function_.body()) return false;
  const graph::Value& made = function_.value(value);
  if (made.block != block_ || made.index >= function_.argument_attributes.size()) return false;
  return function_.argument_attributes[made.index].contains("tf.aliasing_output");
}

bool Plan::is_loop_body() const {
  const OpId parent = function_.block(block_).parent;
  return parent != graph::kNoOp && function_.op(parent).kind == OpKind::while_ &&
         function_.op(parent).regions[1] == block_;
}

// What a kernel of the block has made, or what a loop's body is given, lies in memory of its own.
void Plan::find_overwritten() {
  Readers readers;
  for (const OpId id : function_.block(block_).ops) {
    const Op& op = function_.op(id);
    if (op.kind != OpKind::dynamic_update_slice_ && op.kind != OpKind::while_ &&
        !scatters_rows(function_, op))
      continue;
    if (readers.empty())
      for (const OpId other : function_.block(block_).ops)
        if (!is_read_through(other) && !in_registers_[index_of(other)])
          for (const ValueId base : bases_read_by(other)) readers[base].push_back(other);
    const size_t count = op.kind == OpKind::while_ ? op.operands.size() : 1;
    for (size_t i = 0; i < count; ++i) {
      const ValueId value = op.operands[i];
      const bool own = group_of(value) >= 0 || is_donated(value) ||
                       (is_loop_body() && function_.value(value).block == block_);
      if (!own || !order_before(id, readers[value])) continue;
      overwritten_.insert({id, i});
      if (op.kind == OpKind::dynamic_update_slice_) find_written(id, readers);
    }
  }
}

// What an update puts into its operand is made there where nobody else reads it, in the order in which it
// lies.
void Plan::find_written(OpId id, const Readers& readers) {
  const Op& op = function_.op(id);
  if (!is_large(op.operands[1]) || !is_run_of(function_.type(op.operands[0]), function_.type(op.operands[1])))
    return;
  const auto made = same_order(op.operands[1]);
  const int writer = made ? group_of(*made) : -1;
  if (writer < 0 || readers.at(*made) != std::vector{id} || !makes_full(writer, *made) ||
      !reads_what_it_writes(writer, *made, op))
    return;
  std::vector<int> before;
  const auto comes_before = [&](int group) {
    if (group < 0 || depends(group, writer)) return false;
    before.push_back(group);
    return true;
  };
  for (const OpId reader : readers.at(op.operands[0]))
    if (const int group = group_of_op_[index_of(reader)]; reader != id && group != writer)
      if (!comes_before(group)) return;
  std::vector<ValueId> needed{op.operands[0]};
  for (size_t i = 2; i < op.operands.size(); ++i) add_base(op.operands[i], needed);
  for (const ValueId value : needed)
    if (const int group = group_of(value); group >= 0 && !comes_before(group)) return;
  if (!before.empty()) in_order_of_block_ = false;
  auto& reads = reads_[static_cast<size_t>(writer)];
  reads.insert(reads.end(), before.begin(), before.end());
  written_.emplace(*made, id);
}

// The value behind ops that leave every element where it is, each with one reader or none but these.
std::optional<ValueId> Plan::same_order(ValueId value) const {
  for (;;) {
    const OpId id = function_.value(value).op;
    if (id == graph::kNoOp) return std::nullopt;
    const Op& op = function_.op(id);
    if (!is_view_op(op.kind)) return is_read_through(id) ? std::nullopt : std::optional(value);
    const ValueId from = op.operands[function_.value(value).index];
    const bool same = op.kind == OpKind::reshape_ || op.kind == OpKind::optimization_barrier_ ||
                      (op.kind == OpKind::broadcast_in_dim_ &&
                       std::ranges::is_sorted(op.integers(Attr::broadcast_dimensions)));
    if (!same || function_.type(from).element_count() != function_.type(value).element_count())
      return std::nullopt;
    value = from;
  }
}

bool Plan::makes_full(int group, ValueId value) const {
  const Group& made_by = groups_[static_cast<size_t>(group)];
  return made_by.rowwise && made_by.permutation.empty() && form_of_value_[index_of(value)] == Form::kFull &&
         std::ranges::equal(made_by.shape, function_.type(value).dims());
}

// Of the update's operand the group reads nothing but what it writes there, element by element.
bool Plan::reads_what_it_writes(int writer, ValueId result, const Op& update) const {
  const Group& group = groups_[static_cast<size_t>(writer)];
  const ValueId operand = update.operands[0];
  const auto reads = [&](ValueId value) { return base_of(value) == operand; };
  const auto is_same_place = [&](ValueId value) {
    const Op* made = maker(function_, value);
    while (made && (made->kind == OpKind::reshape_ || made->kind == OpKind::optimization_barrier_)) {
      value = made->operands[function_.value(value).index];
      made = maker(function_, value);
    }
    return made && made->kind == OpKind::dynamic_slice_ && made->operands[0] == operand &&
           std::ranges::equal(made->integers(Attr::slice_sizes), function_.type(update.operands[1]).dims()) &&
           std::ranges::equal(std::span(made->operands).subspan(1), std::span(update.operands).subspan(2));
  };
  for (const auto& [number, prologue] : group.prologues)
    for (const OpId id : prologue)
      if (std::ranges::any_of(function_.op(id).operands, reads)) return false;
  std::set<ValueId> leads{result};
  for (auto id = group.ops.rbegin(); id != group.ops.rend(); ++id) {
    const Op& op = function_.op(*id);
    const bool led = std::ranges::any_of(op.results, [&](ValueId value) { return leads.contains(value); });
    const bool is_source = group.has_source && *id == group.ops.front();
    for (const ValueId value : op.operands) {
      if (led) leads.insert(base_of(value));
      if (reads(value) && (!led || is_source || op.kind == OpKind::reduce_ || !is_same_place(value)))
        return false;
    }
  }
  return true;
}

std::optional<OpId> Plan::update_with(ValueId result) const {
  const auto found = written_.find(result);
  return found == written_.end() ? std::nullopt : std::optional(found->second);
}

// Whether kernels of other groups that read the input can come before the result's, and no other op reads it.
bool Plan::comes_last(ValueId input, ValueId result) {
  const int writer = group_of(result);
  std::set<int> before;
  for (const OpId id : function_.block(block_).ops) {
    if (is_read_through(id)) continue;
    const std::vector<ValueId> bases = bases_read_by(id);
    if (std::ranges::find(bases, input) == bases.end()) continue;
    const int group = group_of_op_[index_of(id)];
    if (group < 0 || in_registers_[index_of(id)]) return false;
    if (group == writer) continue;
    if (depends(group, writer)) return false;
    before.insert(group);
  }
  for (const auto& [operand, ops] : groups_[writer].prologues)
    for (const OpId id : ops)
      if (std::ranges::find(function_.op(id).operands, input) != function_.op(id).operands.end())
        return false;
  if (!before.empty()) in_order_of_block_ = false;
  auto& reads = reads_[static_cast<size_t>(writer)];
  reads.insert(reads.end(), before.begin(), before.end());
  return true;
}

// False when some reader cannot come first, or the op itself reads the value twice.
bool Plan::order_before(OpId id, std::span<const OpId> readers) {
  const int writer = group_of_op_[index_of(id)];
  if (std::count(readers.begin(), readers.end(), id) != 1) return false;
  std::vector<int> before;
  for (const OpId reader : readers) {
    if (reader == id) continue;
    const int group = group_of_op_[index_of(reader)];
    if (group < 0 || depends(group, writer)) return false;
    before.push_back(group);
  }
  if (!before.empty()) in_order_of_block_ = false;
  auto& reads = reads_[static_cast<size_t>(writer)];
  reads.insert(reads.end(), before.begin(), before.end());
  return true;
}

std::optional<Plan::Update> Plan::updated_input(ValueId result) const {
  const auto found = updated_.find(result);
  return found == updated_.end() ? std::nullopt : std::optional(found->second);
}

// Of the function's donated inputs, and of what a loop carries, whose memory is the loop's own.
void Plan::find_updated() {
  const auto& arguments = function_.block(block_).arguments;
  const auto& returned = function_.op(function_.block(block_).ops.back()).operands;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::optional<int64_t> at;
    if (is_loop_body()) {
      at = static_cast<int64_t>(i);
    } else if (is_donated(arguments[i])) {
      const auto* result = function_.argument_attributes[i].find("tf.aliasing_output")->second.get<int64_t>();
      if (result != nullptr) at = *result;
    }
    if (!at || *at < 0 || *at >= static_cast<int64_t>(returned.size())) continue;
    const ValueId result = returned[static_cast<size_t>(*at)];
    if (updated_.contains(result)) continue;
    const auto update = update_of(arguments[i], result);
    if (update && (update->reads || is_loop_body()) && comes_last(arguments[i], result))
      updated_.emplace(result, *update);
  }
}

// Element by element: each op of the group that reads the input leads to the result, so that a tile is loaded
// before the result's tile of the same elements is stored.
std::optional<Plan::Update> Plan::update_of(ValueId input, ValueId result) const {
  const int index = group_of(result);
  if (index < 0 || !groups_[index].rowwise || !(function_.type(input) == function_.type(result)))
    return std::nullopt;
  const Group& group = groups_[index];
  if (form_of_value_[index_of(result)] != Form::kFull ||
      !std::ranges::equal(group.shape, function_.type(result).dims()))
    return std::nullopt;
  std::set<ValueId> leads{result};
  bool reads = false;
  for (auto id = group.ops.rbegin(); id != group.ops.rend(); ++id) {
    const Op& op = function_.op(*id);
    const bool led = std::ranges::any_of(op.results, [&](ValueId value) { return leads.contains(value); });
    const bool is_source = group.has_source && *id == group.ops.front();
    for (const ValueId operand : op.operands) {
      if (led) leads.insert(base_of(operand));
      if (base_of(operand) != input) continue;
      if (operand != input || !led || is_source || op.kind == OpKind::reduce_) return std::nullopt;
      reads = true;
    }
  }
  return Update{input, reads};
}

}  // namespace opentrn::compiler
