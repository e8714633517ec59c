// Sorts by what a comparator makes of floats, again in every step: JAX's sees -0 as 0 and every NaN as one,
// and asks for the total order. The keys are made once, as whole numbers in that order, and sorted beside the
// rest. Operands that nobody reads afterwards, and the comparator no more, are left out.
#include <algorithm>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"
#include "compiler/rewrite/inline_region.h"
#include "graph/copy.h"

namespace opentrn::compiler {

using graph::ComparisonType;

namespace {

// Whether the two values are the same function of the two elements of one operand; `operand` becomes its
// number.
bool is_mirrored(const Function& function, const graph::Block& body, ValueId a, ValueId b,
                 std::optional<size_t>& operand) {
  const auto place = [&](ValueId value) {
    return static_cast<size_t>(std::ranges::find(body.arguments, value) - body.arguments.begin());
  };
  const size_t at = place(a);
  if (at < body.arguments.size()) {
    if (at % 2 != 0 || place(b) != at + 1 || (operand && *operand != at / 2)) return false;
    operand = at / 2;
    return true;
  }
  if (a == b)
    return function.value(a).op == graph::kNoOp ? false
                                                : function.op(function.value(a).op).kind == OpKind::constant_;
  const OpId first = function.value(a).op, second = function.value(b).op;
  if (first == graph::kNoOp || second == graph::kNoOp) return false;
  const Op &x = function.op(first), &y = function.op(second);
  if (x.kind != y.kind || !x.regions.empty() || x.operands.size() != y.operands.size() ||
      x.results.size() != 1 || x.attributes != y.attributes || function.type(a) != function.type(b))
    return false;
  for (size_t i = 0; i < x.operands.size(); ++i)
    if (!is_mirrored(function, body, x.operands[i], y.operands[i], operand)) return false;
  return true;
}

// The comparison that a sort's region returns, of floats in their total order; null for any other.
const Op* comparison_of(const Function& function, const Op& op) {
  const graph::Block& body = function.block(op.regions[0]);
  const Op& end = function.op(body.ops.back());
  const OpId last = end.operands.size() == 1 ? function.value(end.operands[0]).op : graph::kNoOp;
  if (last == graph::kNoOp || function.op(last).kind != OpKind::compare_) return nullptr;
  const Op& compare = function.op(last);
  const auto direction = compare.enumeration(Attr::comparison_direction, ComparisonDirection::kEq);
  const ElementType element = function.type(compare.operands[0]).element();
  const bool is_float =
      element == ElementType::kF32 || element == ElementType::kBF16 || element == ElementType::kF16;
  if (!is_float || (direction != ComparisonDirection::kLt && direction != ComparisonDirection::kGt))
    return nullptr;
  if (compare.enumeration(Attr::compare_type, ComparisonType::kNone) != ComparisonType::kTotalOrder)
    return nullptr;
  std::optional<size_t> operand;
  return is_mirrored(function, body, compare.operands[0], compare.operands[1], operand) ? &compare : nullptr;
}

bool takes_sort(const Function& function, const Op& op) {
  for (const ValueId id : op.operands) {
    const Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || type.element_count() == 0 ||
        graph::is_complex(type.element()))
      return false;
  }
  return !op.operands.empty() && can_inline_region(function, op.regions[0]) &&
         comparison_of(function, op) != nullptr;
}

// Whole numbers in the total order of these floats.
Expr ordered(const Expr& floats) {
  const Expr bits = floats.as(ElementType::kF32).seen_as(ElementType::kI32);
  return select(bits < 0.0, bits ^ bits.bits(0x7FFFFFFFu), bits);
}

bool is_read(const Function& function, ValueId value) {
  bool found = false;
  graph::walk(function, function.body(), [&](OpId id) {
    found = found || std::ranges::find(function.op(id).operands, value) != function.op(id).operands.end();
  });
  return found;
}

std::vector<ValueId> by_keys(Builder& builder, const Function& function, const Op& op,
                             std::span<const ValueId> operands) {
  const auto direction =
      comparison_of(function, op)->enumeration(Attr::comparison_direction, ComparisonDirection::kEq);
  std::vector<ValueId> pairs;
  for (const ValueId operand : operands) pairs.insert(pairs.end(), 2, operand);
  const ValueId compared =
      inline_region(builder, function, op.regions[0], pairs, builder.type(operands[0]).dims_vector())[0];
  const Function& made_in = builder.function();
  const ValueId floats = made_in.op(made_in.value(compared).op).operands[0];
  const ValueId key = ordered({builder, floats}).id();
  std::vector<ValueId> sorted{key};
  std::vector<std::optional<size_t>> place(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!is_read(function, op.results[i])) continue;
    place[i] = sorted.size();
    sorted.push_back(operands[i]);
  }
  std::vector<Type> types, scalars;
  for (const ValueId value : sorted) {
    types.push_back(builder.type(value));
    scalars.insert(scalars.end(), 2, builder.type(value).with_dims({}));
  }
  const graph::RegionBody order{scalars, [&](Builder& body, std::span<const ValueId> a) {
                                  return std::vector{body.compare(direction, a[0], a[1])};
                                }};
  Builder::Attributes attributes;
  for (const auto& [attr, value] : op.attributes) attributes.emplace_back(attr, value);
  const OpId made = builder.add_with_regions(OpKind::sort_, sorted, std::move(attributes), types, {order});
  std::vector<ValueId> results;
  for (size_t i = 0; i < operands.size(); ++i)  // what nobody reads is given as it was
    results.push_back(place[i] ? builder.function().op(made).results[*place[i]] : operands[i]);
  return results;
}

constexpr Expansion kSortKeyExpansions[] = {{OpKind::sort_, takes_sort, by_keys}};

}  // namespace

std::span<const Expansion> sort_key_expansions() { return kSortKeyExpansions; }

}  // namespace opentrn::compiler
