// i64 numbers against constants that 32 bits do not hold: a device's i64 has 32 bits
// (analysis/device_type.h), so that the order is known, where the low bits of the constant would give
// another. Programs compare with the ends of the 64-bit range (jax.random.randint does).
#include <algorithm>
#include <limits>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/expand.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kLeast = std::numeric_limits<int32_t>::min(),
                  kLargest = std::numeric_limits<int32_t>::max();

// An i64 constant, or null; looks through broadcasts.
const graph::Literal* constant_of(const Function& function, ValueId value) {
  const Op* made = maker(function, value);
  while (made && made->kind == OpKind::broadcast_in_dim_) made = maker(function, made->operands[0]);
  if (!made || made->kind != OpKind::constant_) return nullptr;
  const graph::Literal& literal = made->literal(Attr::value);
  return literal.type().element() == ElementType::kI64 ? &literal : nullptr;
}

int64_t number(const graph::Literal& literal, int64_t i) {
  return graph::load_integer(ElementType::kI64, literal.element(i));
}

// Whether all of its numbers are below (-1) or above (1) those of 32 bits; 0: some are not.
int side_of(const Function& function, ValueId value) {
  const graph::Literal* literal = constant_of(function, value);
  if (!literal || literal->type().element_count() == 0) return 0;
  const int64_t count = literal->is_splat() ? 1 : literal->type().element_count();
  bool below = true, above = true;
  for (int64_t i = 0; i < count; ++i) {
    below &= number(*literal, i) < kLeast;
    above &= number(*literal, i) > kLargest;
  }
  return below ? -1 : above ? 1 : 0;
}

bool has_far_operand(const Function& function, const Op& op) {
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [&](ValueId value) { return side_of(function, value) != 0; });
}

std::vector<ValueId> compared(Builder& builder, const Function& function, const Op& op,
                              std::span<const ValueId>) {
  const int side = side_of(function, op.operands[1]) - side_of(function, op.operands[0]);
  const auto holds = [&] {
    switch (op.enumeration(Attr::comparison_direction, ComparisonDirection::kEq)) {
      case ComparisonDirection::kEq: return false;
      case ComparisonDirection::kNe: return true;
      case ComparisonDirection::kLt:
      case ComparisonDirection::kLe: return side > 0;
      case ComparisonDirection::kGt:
      case ComparisonDirection::kGe: return side < 0;
    }
    return false;
  };
  return {builder.splat(function.type(op.results[0]), holds() ? 1 : 0)};
}

// Constants are folded before; of two that lie on one side nothing is known here.
bool compares(const Function& function, const Op& op) {
  return side_of(function, op.operands[0]) != side_of(function, op.operands[1]);
}

// With the end of the 32-bit range in place of what lies beyond it.
std::vector<ValueId> bounded(Builder& builder, const Function& function, const Op& op,
                             std::span<const ValueId> operands) {
  std::vector<ValueId> near(operands.begin(), operands.end());
  for (size_t i = 0; i < near.size(); ++i)
    if (const int side = side_of(function, op.operands[i]); side != 0)
      near[i] =
          builder.splat(function.type(op.operands[i]), static_cast<double>(side < 0 ? kLeast : kLargest));
  return {builder.add(op.kind, std::move(near), op.attributes)};
}

constexpr Expansion kBoundExpansions[] = {
    {OpKind::compare_, compares, compared},
    {OpKind::minimum_, has_far_operand, bounded},
    {OpKind::maximum_, has_far_operand, bounded},
    {OpKind::clamp_, has_far_operand, bounded},
};

}  // namespace

std::span<const Expansion> bound_expansions() { return kBoundExpansions; }

}  // namespace opentrn::compiler
