// Products, and what is computed of them element by element, in the shape in which their results are read.
//
//   reshape(dot_general(x: 32x8, w: 8x4)) to 4x8x4   becomes   dot_general(reshape(x) to 4x8x8, w: 8x4)
//
// Frameworks merge the leading dimensions of what they multiply and split them again afterwards (PyTorch's
// Linear, and its products of batches). The kernels multiply in any number of dimensions, but a reshape
// between a product and what reads its sums makes two kernels of one, with the sums in memory between them.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/lowering/takes.h"
#include "graph/builder.h"

namespace opentrn::compiler {

namespace {

// Element-wise ops between a product and the reshape.
constexpr int kChainMax = 16;

// For each dimension of a shape those that it becomes.
using Split = std::vector<std::vector<int64_t>>;

// nullopt where a reshape does more than split dimensions.
std::optional<Split> split_of(std::span<const int64_t> from, std::span<const int64_t> to) {
  Split split;
  size_t at = 0;
  for (const int64_t dim : from) {
    if (dim == 0 || at == to.size()) return std::nullopt;
    std::vector<int64_t> parts{to[at++]};
    int64_t product = parts[0];
    while (product < dim && at < to.size()) product *= parts.emplace_back(to[at++]);
    if (product != dim) return std::nullopt;
    split.push_back(std::move(parts));
  }
  // Dimensions of one at the end belong to the last one, which is not to be split.
  return at == to.size() ? std::optional(split) : std::nullopt;
}

std::vector<int64_t> named(const Op& op, Attr attr) {
  if (!op.has(attr)) return {};
  const auto dims = op.integers(attr);
  return {dims.begin(), dims.end()};
}

class Splitter {
 public:
  explicit Splitter(Function& function) : function_(function) {}

  int64_t run() {
    users_.assign(function_.value_count(), {});
    graph::walk(function_, function_.body(), [&](OpId id) {
      for (const ValueId value : function_.op(id).operands) users_[index_of(value)].push_back(id);
      if (function_.op(id).kind == OpKind::reshape_) reshapes_.push_back(id);
    });
    // Later ones first: what is made of their operands is met after them.
    for (auto id = reshapes_.rbegin(); id != reshapes_.rend(); ++id) take(*id);
    return changed_;
  }

 private:
  const graph::Type& type(ValueId value) const { return function_.type(value); }
  std::vector<int64_t> dims_of(ValueId value) const {
    const auto dims = type(value).dims();
    return {dims.begin(), dims.end()};
  }
  bool is_plain(ValueId value) const {
    return type(value).is_tensor() && type(value).is_static() && !type(value).quantization();
  }
  const Op* maker_in(BlockId block, ValueId value) const {
    const OpId id = function_.value(value).op;
    return id != graph::kNoOp && function_.op(id).block == block ? &function_.op(id) : nullptr;
  }

  // Readers beside the reshape lose nothing by a view in between.
  bool reads_views(OpId id) const {
    switch (function_.op(id).kind) {
      case OpKind::reshape_:
      case OpKind::transpose_:
      case OpKind::dot_general_:
      case OpKind::return_: return true;
      default: return false;
    }
  }

  static bool splits_features(const Split& split) { return split.empty() || split.back().size() > 1; }

  // The product keeps its right operand's free dimensions.
  bool can_split_product(const Op& op, const Split& split) const {
    const size_t batches = named(op, Attr::lhs_batching_dimensions).size();
    const size_t left =
        type(op.operands[0]).dims().size() - batches - named(op, Attr::lhs_contracting_dimensions).size();
    for (size_t d = batches + left; d < split.size(); ++d)
      if (split[d].size() > 1) return false;
    return left > 0 && is_plain(op.operands[0]) && is_plain(op.operands[1]);
  }

  // `value` can be made split: by a product, or element by element of what one makes.
  bool can_split(BlockId block, ValueId value, const Split& split, int depth = 0) const {
    const Op* op = maker_in(block, value);
    if (!op || depth > kChainMax || op->results.size() != 1 || !is_plain(value)) return false;
    std::set<OpId> computing;  // in the old shape
    for (const OpId user : users_[index_of(value)]) {
      if (function_.op(user).block != block) return false;
      if (!reads_views(user)) computing.insert(user);
    }
    if (computing.size() > (depth == 0 ? 0 : 1)) return false;
    if (op->kind == OpKind::dot_general_) return can_split_product(*op, split);
    if (!op->regions.empty() || !has_elementwise(function_, *op)) return false;
    return std::ranges::any_of(op->operands, [&](ValueId operand) {
      return dims_of(operand) == dims_of(value) && can_split(block, operand, split, depth + 1);
    });
  }

  void take(OpId id) {
    const Op op = function_.op(id);
    if (!is_plain(op.operands[0]) || !is_plain(op.results[0])) return;
    const auto split = split_of(dims_of(op.operands[0]), dims_of(op.results[0]));
    if (!split || splits_features(*split) || split->size() == dims_of(op.results[0]).size()) return;
    if (!can_split(op.block, op.operands[0], *split)) return;
    made_.clear();
    const ValueId made = split_value(op.block, op.operands[0], *split);
    replace(op.results[0], made);
    ++changed_;
  }

  static std::vector<int64_t> split_dims(const Split& split) {
    std::vector<int64_t> dims;
    for (const auto& parts : split) dims.insert(dims.end(), parts.begin(), parts.end());
    return dims;
  }

  // What the value is in the other shape; its other readers see it through a reshape.
  ValueId split_value(BlockId block, ValueId value, const Split& split) {
    const auto known = made_.find(value);
    return known != made_.end() ? known->second : made_[value] = split_anew(block, value, split);
  }

  ValueId split_anew(BlockId block, ValueId value, const Split& split) {
    if (!can_split(block, value, split, 1)) return reshaped(block, value, split_dims(split));
    const OpId old = function_.value(value).op;
    const Op op = function_.op(old);
    std::vector<ValueId> operands;
    Op made = op;
    if (op.kind == OpKind::dot_general_) {
      operands = split_operands(block, op, split, made);
    } else {
      for (const ValueId operand : op.operands)
        operands.push_back(dims_of(operand) == dims_of(value) ? split_value(block, operand, split) : operand);
    }
    const ValueId result =
        insert(block, place_of(old), made, std::move(operands), type(value).with_dims(split_dims(split)));
    const ValueId back = insert_reshape(block, place_of(old), result, dims_of(value));
    replace(value, back);
    for (const ValueId operand : function_.op(old).operands) std::erase(users_[index_of(operand)], old);
    return result;
  }

  // The operands of a product whose result is split so; `made` gets the dimensions that it names.
  std::vector<ValueId> split_operands(BlockId block, const Op& op, const Split& split, Op& made) {
    const auto batches = named(op, Attr::lhs_batching_dimensions).size();
    std::vector<ValueId> operands;
    for (const bool left : {true, false}) {
      const ValueId value = op.operands[left ? 0 : 1];
      const Attr batch = left ? Attr::lhs_batching_dimensions : Attr::rhs_batching_dimensions;
      const Attr contracted = left ? Attr::lhs_contracting_dimensions : Attr::rhs_contracting_dimensions;
      const auto batch_dims = named(op, batch), contracted_dims = named(op, contracted);
      Split own;
      for (const int64_t dim : dims_of(value)) own.push_back({dim});
      for (size_t i = 0; i < batch_dims.size(); ++i) own[static_cast<size_t>(batch_dims[i])] = split[i];
      size_t free = batches;
      for (size_t d = 0; left && d < own.size(); ++d)
        if (std::ranges::count(batch_dims, d) == 0 && std::ranges::count(contracted_dims, d) == 0)
          own[d] = split[free++];
      const auto moved = [&](const std::vector<int64_t>& dims) {
        std::vector<int64_t> result;
        for (const int64_t d : dims) {
          int64_t first = 0;
          for (int64_t before = 0; before < d; ++before)
            first += static_cast<int64_t>(own[static_cast<size_t>(before)].size());
          for (size_t part = 0; part < own[static_cast<size_t>(d)].size(); ++part)
            result.push_back(first + static_cast<int64_t>(part));
        }
        return result;
      };
      if (op.has(batch)) made.set(batch, moved(batch_dims));
      if (op.has(contracted)) made.set(contracted, moved(contracted_dims));
      operands.push_back(reshaped(block, value, split_dims(own)));
    }
    return operands;
  }

  // -- building
  size_t place_of(OpId id) const {
    const auto& ops = function_.block(function_.op(id).block).ops;
    return static_cast<size_t>(std::ranges::find(ops, id) - ops.begin());
  }

  ValueId insert(BlockId block, size_t place, const Op& like, std::vector<ValueId> operands,
                 graph::Type result) {
    const OpId id = function_.insert(block, place, like.kind, operands, {std::move(result)}, like.location);
    function_.op(id).attributes = like.attributes;
    function_.op(id).extra = like.extra;
    users_.resize(function_.value_count());
    for (const ValueId operand : operands) users_[index_of(operand)].push_back(id);
    return function_.op(id).results[0];
  }

  ValueId insert_reshape(BlockId block, size_t place, ValueId value, std::vector<int64_t> dims) {
    Op like;
    like.kind = OpKind::reshape_;
    const OpId made = function_.value(value).op;
    if (made != graph::kNoOp) like.location = function_.op(made).location;
    return insert(block, place, like, {value}, type(value).with_dims(std::move(dims)));
  }

  // Behind what makes the value, so that every reader can have it.
  ValueId reshaped(BlockId block, ValueId value, std::vector<int64_t> dims) {
    if (dims == dims_of(value)) return value;
    const OpId made = function_.value(value).op;
    const bool here = made != graph::kNoOp && function_.op(made).block == block;
    if (here && function_.op(made).kind == OpKind::reshape_ &&
        dims_of(function_.op(made).operands[0]) == dims)
      return function_.op(made).operands[0];
    if (here && splat_of(function_, value)) {
      Op like;
      like.kind = OpKind::constant_;
      graph::Type shaped = type(value).with_dims(std::move(dims));
      like.set(Attr::value, graph::splat_literal(shaped, *splat_of(function_, value)));
      return insert(block, place_of(made) + 1, like, {}, std::move(shaped));
    }
    if (here && function_.op(made).kind == OpKind::broadcast_in_dim_)
      if (const auto wide = rebroadcast(block, made, dims)) return *wide;
    return insert_reshape(block, here ? place_of(made) + 1 : 0, value, std::move(dims));
  }

  // A broadcast in the other shape, where what it repeats along is not split.
  std::optional<ValueId> rebroadcast(BlockId block, OpId id, const std::vector<int64_t>& dims) {
    const Op op = function_.op(id);
    const auto split = split_of(dims_of(op.results[0]), dims);
    if (!split) return std::nullopt;
    std::vector<int64_t> places;
    for (const int64_t d : op.integers(Attr::broadcast_dimensions)) {
      if ((*split)[static_cast<size_t>(d)].size() > 1) return std::nullopt;
      int64_t place = 0;
      for (int64_t before = 0; before < d; ++before)
        place += static_cast<int64_t>((*split)[static_cast<size_t>(before)].size());
      places.push_back(place);
    }
    Op like = op;
    like.set(Attr::broadcast_dimensions, std::move(places));
    return insert(block, place_of(id) + 1, like, op.operands, type(op.results[0]).with_dims(dims));
  }

  void replace(ValueId from, ValueId to) {
    for (const OpId user : users_[index_of(from)]) {
      for (ValueId& operand : function_.op(user).operands)
        if (operand == from) operand = to;
      users_[index_of(to)].push_back(user);
    }
    users_[index_of(from)].clear();
  }

  Function& function_;
  std::vector<std::vector<OpId>> users_;
  std::vector<OpId> reshapes_;
  std::map<ValueId, ValueId> made_;  // for the reshape in hand
  int64_t changed_ = 0;
};

}  // namespace

int64_t split_products(Function& function) { return Splitter(function).run(); }

}  // namespace opentrn::compiler
