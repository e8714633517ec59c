// Comparisons of fractions that are made of random bits:
//
//   compare(bitcast_convert(bits >> 9 | 0x3f800000) - 1, number)   becomes   compare(bits >> 9, whole number)
//
// So libraries draw fp32 from [0, 1), and masks of dropout are such fractions below a number. The fraction is
// the bits' upper 23 as a multiple of 2^-23, exactly, whose comparison with a number is that of whole
// numbers.
#include <cmath>
#include <optional>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/rewrite/rewrite.h"
#include "graph/builder.h"

namespace opentrn::compiler {

namespace {

constexpr double kUnits = 0x1p23;  // of a fraction

const Op* made_by(const Function& function, ValueId value, OpKind kind) {
  const Op* op = maker(function, value);
  return op != nullptr && op->kind == kind ? op : nullptr;
}

// The other operand of a binary op one of whose operands is this number everywhere.
std::optional<ValueId> beside(const Function& function, const Op& op, double number) {
  for (const size_t place : {0, 1})
    if (splat_of(function, op.operands[place]) == number) return op.operands[1 - place];
  return std::nullopt;
}

// The words of fewer than 24 bits that the value is 2^-23 times of.
std::optional<ValueId> units_of(const Function& function, ValueId value) {
  for (const OpKind kind : {OpKind::maximum_, OpKind::add_})  // of 0: a fraction is not below it
    if (const Op* same = made_by(function, value, kind)) {
      const auto inside = beside(function, *same, 0);
      return inside ? units_of(function, *inside) : std::nullopt;
    }
  if (function.type(value).element() != ElementType::kF32) return std::nullopt;
  const Op* from_one = made_by(function, value, OpKind::subtract_);
  if (from_one == nullptr || splat_of(function, from_one->operands[1]) != 1.0) return std::nullopt;
  const Op* seen = made_by(function, from_one->operands[0], OpKind::bitcast_convert_);
  if (seen == nullptr || function.type(seen->operands[0]).element() != ElementType::kUI32)
    return std::nullopt;
  const Op* joined = made_by(function, seen->operands[0], OpKind::or_);
  const auto words = joined ? beside(function, *joined, 0x3f800000) : std::nullopt;
  const Op* shifted = words ? made_by(function, *words, OpKind::shift_right_logical_) : nullptr;
  const auto count = shifted ? splat_of(function, shifted->operands[1]) : std::nullopt;
  return count && *count >= 9 && *count < 32 ? words : std::nullopt;
}

ComparisonDirection mirrored(ComparisonDirection direction) {
  switch (direction) {
    case ComparisonDirection::kLt: return ComparisonDirection::kGt;
    case ComparisonDirection::kLe: return ComparisonDirection::kGe;
    case ComparisonDirection::kGt: return ComparisonDirection::kLt;
    case ComparisonDirection::kGe: return ComparisonDirection::kLe;
    default: return direction;
  }
}

// units < n, or units >= n
struct Bound {
  bool below;
  double units;
};

std::optional<Bound> bound_of(ComparisonDirection direction, double number) {
  if (std::isnan(number)) return std::nullopt;
  const double units = std::min(std::max(number, -1.0), 2.0) * kUnits;
  const double reached = std::max(std::ceil(units), 0.0), passed = std::max(std::floor(units) + 1, 0.0);
  switch (direction) {
    case ComparisonDirection::kLt: return Bound{true, reached};
    case ComparisonDirection::kLe: return Bound{true, passed};
    case ComparisonDirection::kGt: return Bound{false, passed};
    case ComparisonDirection::kGe: return Bound{false, reached};
    default: return std::nullopt;
  }
}

}  // namespace

int64_t compare_fractions(Function& function) {
  int64_t compared = 0;
  function =
      rewritten(function,
                [&](graph::Builder& builder, const Op& op,
                    std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                  if (op.kind != OpKind::compare_) return std::nullopt;
                  const auto direction = op.enumeration(Attr::comparison_direction, ComparisonDirection::kEq);
                  for (const size_t place : {0, 1}) {
                    const auto number = splat_of(builder.function(), operands[1 - place]);
                    const auto units = number ? units_of(builder.function(), operands[place]) : std::nullopt;
                    const auto bound = units ? bound_of(place == 0 ? direction : mirrored(direction), *number)
                                             : std::nullopt;
                    if (!bound) continue;
                    ++compared;
                    const ValueId limit = builder.splat(builder.type(*units), bound->units);
                    return {{builder.compare(
                        bound->below ? ComparisonDirection::kLt : ComparisonDirection::kGe, *units, limit)}};
                  }
                  return std::nullopt;
                });
  return compared;
}

}  // namespace opentrn::compiler
