// Reductions of what is computed from broadcasts, over a short dimension or beside one: distances between
// points of a few coordinates, forces between particles.
//
// - reduce(f(broadcast(x), broadcast(y)), last dimension) becomes f of the first coordinate, f of the second
//   and so on, met one by one
// - reduce(f(broadcast(x), broadcast(r)), another one) becomes a reduction for each coordinate, side by side
//
// A kernel takes a row of the last dimension in each partition, so that 128 rows of three elements are a
// tile. Without that dimension the rows are as long as the one in front of it. Coordinates are parts of the
// small tensors that are broadcast.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/expand.h"
#include "compiler/lowering/exact_reduction.h"
#include "compiler/rewrite/expression.h"

namespace opentrn::compiler {

namespace {

// Coordinates that are reduced, and that stay beside a longer reduction; fewer elements in all are over
// before that matters.
constexpr int64_t kReducedMost = 16, kKeptMost = 4, kReducedLeast = 64, kElementsMin = 1 << 14;
// A broadcast's operand has at most so small a part of the elements: its coordinates are copies.
constexpr int64_t kBroadcastLeast = 4;
constexpr int kOpsMax = 24;

bool computes_elements(const Op& op) {
  if (op.results.size() != 1 || !op.regions.empty()) return false;
  const OpClass op_class = graph::definition(op.kind).op_class;
  return op_class == OpClass::kUnaryElementwise || op_class == OpClass::kBinaryElementwise ||
         op.kind == OpKind::select_ || op.kind == OpKind::compare_ || op.kind == OpKind::convert_;
}

// What a value has at one place of a dimension, without that dimension.
class Coordinate {
 public:
  Coordinate(Builder& builder, int64_t place) : builder_(builder), place_(place) {}

  ValueId of(ValueId value, int64_t dimension) {
    for (const auto& [from, to] : made_)
      if (from == std::pair(value, dimension)) return to;
    const ValueId result = made(value, dimension);
    made_.emplace_back(std::pair(value, dimension), result);
    return result;
  }

 private:
  static Dims without(const Type& type, int64_t dimension) {
    Dims dims = type.dims_vector();
    dims.erase(dims.begin() + dimension);
    return dims;
  }

  ValueId made(ValueId value, int64_t dimension) {
    const Type type = builder_.type(value);
    if (const auto number = splat_of(builder_.function(), value))
      return builder_.splat(type.with_dims(without(type, dimension)), *number);
    const Op* op = maker(builder_.function(), value);
    if (op && op->kind == OpKind::broadcast_in_dim_) return of_broadcast(*op, type, dimension);
    if (op && computes_elements(*op)) return of_elements(*op, type, dimension);
    return builder_.reshape(part_of(builder_, value, dimension, place_, place_ + 1),
                            without(type, dimension));
  }

  ValueId of_broadcast(const Op& op, const Type& type, int64_t dimension) {
    Dims at = dims_of(op, Attr::broadcast_dimensions);
    ValueId operand = op.operands[0];
    const auto found = std::ranges::find(at, dimension);
    if (found != at.end()) {
      const int64_t own = found - at.begin();
      at.erase(found);
      const Type of_operand = builder_.type(operand);
      operand = of_operand.dim(static_cast<int>(own)) == 1
                    ? builder_.reshape(operand, without(of_operand, own))
                    : of(operand, own);
    }
    for (int64_t& d : at) d -= d > dimension ? 1 : 0;
    return builder_.broadcast_in_dim(operand, without(type, dimension), at);
  }

  ValueId of_elements(const Op& op, const Type& type, int64_t dimension) {
    // The op may move while others are added.
    const std::vector<ValueId> given = op.operands;
    const OpKind kind = op.kind;
    const auto attributes = op.attributes;
    std::vector<ValueId> operands;
    for (const ValueId operand : given)
      operands.push_back(builder_.type(operand).rank() == 0 ? operand : of(operand, dimension));
    Builder::Attributes copied(attributes.begin(), attributes.end());
    return builder_.add(kind, std::move(operands), std::move(copied),
                        {type.with_dims(without(type, dimension))});
  }

  Builder& builder_;
  int64_t place_;
  std::vector<std::pair<std::pair<ValueId, int64_t>, ValueId>> made_;
};

// Elements of a value that is computed of small ones, at most, at each place of `dimension`; false where a
// whole tensor is read that has it.
struct Tree {
  int ops = 0, broadcasts = 0;
  bool is_small = true;

  void add(const Function& function, ValueId value, int64_t dimension, int64_t elements) {
    if (!is_small || splat_of(function, value) || function.type(value).rank() == 0) return;
    const Op* op = maker(function, value);
    if (++ops > kOpsMax || !op) {
      is_small = false;
    } else if (op->kind == OpKind::broadcast_in_dim_) {
      ++broadcasts;
      const Dims at = dims_of(*op, Attr::broadcast_dimensions);
      const bool has_it = std::ranges::find(at, dimension) != at.end();
      is_small = !has_it || function.type(op->operands[0]).element_count() * kBroadcastLeast <= elements;
    } else if (computes_elements(*op)) {
      for (const ValueId operand : op->operands) add(function, operand, dimension, elements);
    } else {
      is_small = false;
    }
  }
};

// What both have in common: a reduction of floats over one dimension, of what is computed of broadcasts along
// `dimension`.
bool reduces_broadcasts(const Function& function, const Op& op, int64_t dimension) {
  if (op.results.size() != 1 || op.operands.size() != 2 || !splat_of(function, op.operands[1])) return false;
  const Type& type = function.type(op.operands[0]);
  if (!combiner_of(function, op) || type.quantization() || type.element() != ElementType::kF32 ||
      type.element_count() < kElementsMin)
    return false;
  const Op* last = maker(function, op.operands[0]);
  if (!last || !computes_elements(*last)) return false;
  Tree tree;
  tree.add(function, op.operands[0], dimension, type.element_count());
  return tree.is_small && tree.broadcasts > 1;
}

// The dimension that is reduced, of several.
std::optional<int64_t> reduced_dimension(const Function& function, const Op& op) {
  const Type& type = function.type(op.operands[0]);
  const Dims dims = dims_of(op, Attr::dimensions);
  if (!type.is_tensor() || !type.is_static() || type.rank() < 3 || dims.size() != 1) return std::nullopt;
  return dims[0];
}

bool over_short_dimension(const Function& function, const Op& op) {
  const auto reduced = reduced_dimension(function, op);
  if (!reduced) return false;
  const Type& type = function.type(op.operands[0]);
  const int64_t count = type.dim(static_cast<int>(*reduced));
  const int last = type.rank() - (*reduced == type.rank() - 1 ? 2 : 1);
  return count > 1 && count <= kReducedMost && type.dim(last) * 2 >= count &&
         reduces_broadcasts(function, op, *reduced);
}

std::vector<ValueId> one_after_another(Builder& builder, const Function& function, const Op& op,
                                       std::span<const ValueId> operands) {
  const Type type = builder.type(operands[0]);
  const OpKind combiner = *combiner_of(function, op);
  const int64_t reduced = *reduced_dimension(function, op);
  std::optional<Expr> total;
  for (int64_t i = 0; i < type.dim(static_cast<int>(reduced)); ++i) {
    const Expr one(builder, Coordinate(builder, i).of(operands[0], reduced));
    total = total ? total->binary(combiner, one) : one;
  }
  const double initial = *splat_of(function, op.operands[1]);
  if (!is_neutral(combiner, type.element(), initial)) total = total->binary(combiner, total->number(initial));
  return {total->id()};
}

bool beside_short_dimension(const Function& function, const Op& op) {
  const auto reduced = reduced_dimension(function, op);
  if (!reduced) return false;
  const Type& type = function.type(op.operands[0]);
  const int last = type.rank() - 1;
  return *reduced != last && type.dim(last) <= kKeptMost && type.dim(last) > 1 &&
         type.dim(static_cast<int>(*reduced)) >= kReducedLeast && reduces_broadcasts(function, op, last);
}

std::vector<ValueId> one_beside_another(Builder& builder, const Function& function, const Op& op,
                                        std::span<const ValueId> operands) {
  const Type type = builder.type(operands[0]), result = function.type(op.results[0]);
  const Type scalar = type.with_dims({});
  const int64_t last = type.rank() - 1;
  Dims kept = result.dims_vector(), one = kept;
  kept.pop_back();
  one.back() = 1;
  const OpKind combiner = *combiner_of(function, op);
  const graph::RegionBody body{{scalar, scalar}, [&](Builder& inside, std::span<const ValueId> a) {
                                 return std::vector{inside.add(combiner, {a[0], a[1]})};
                               }};
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < type.dim(static_cast<int>(last)); ++i) {
    const ValueId data = Coordinate(builder, i).of(operands[0], last);
    const OpId made =
        builder.add_with_regions(OpKind::reduce_, {data, operands[1]},
                                 {{Attr::dimensions, Attribute(Dims{*reduced_dimension(function, op)})}},
                                 {result.with_dims(kept)}, {body});
    parts.push_back(builder.reshape(builder.function().op(made).results[0], one));
  }
  return {builder.add(OpKind::concatenate_, std::move(parts),
                      {{Attr::dimension, Attribute(int64_t{result.rank()} - 1)}})};
}

constexpr Expansion kShortDimensions[] = {{OpKind::reduce_, over_short_dimension, one_after_another},
                                          {OpKind::reduce_, beside_short_dimension, one_beside_another}};

}  // namespace

std::span<const Expansion> short_dimension_expansions() { return kShortDimensions; }

}  // namespace opentrn::compiler
