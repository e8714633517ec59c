// A model's values on the device against float64, op by op: what is rounding, and what is a bug.
//
// Two errors are told apart. The accumulated error is against the model evaluated in float64 from the inputs.
// An op's own error is against that op alone, evaluated in float64 from the operands that the device had; its
// limit follows from what the op does (compiler/observed_values.h): nothing for what moves or compares, half
// a unit in the last place for one rounding, kFunctionUlp for approximated functions (and what one unit in an
// operand makes), and for sums one rounding per term of partial sums as large as the sum of the terms'
// magnitudes. An own error beyond the limit is a bug.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/observed_values.h"
#include "graph/eval/evaluate.h"
#include "graph/literal.h"

namespace opentrn::model {

// Of approximated functions: the activation tables promise fewer, compositions of several (tan, log1p) add
// up.
inline constexpr double kFunctionUlp = 8;
// One rounding to nearest, and a second one where the device computes in fp32 and rounds to a narrower type.
inline constexpr double kRoundingUlp = 0.51;

// Of a value against the model in float64: the largest, and the same over the largest element; infinite where
// only one side is a number.
struct AccumulatedError {
  double max_abs = 0, max_rel = 0;
};

struct OpDiff {
  AccumulatedError accumulated;
  double own_ulp = 0;  // the op's own error in units in the last place; of integers: elements that differ
  std::optional<double>
      of_limit;  // the largest own error over what rounding explains there; none: no limit is known
  std::string_view verdict = {};  // "exact", "rounding", "bug" or "not judged"
};

// One row per value. `arguments`: the model's, in the types of the module with observed values; `device`:
// what the device made of each value; `whole`: what the module with observed values gives for it in float64.
// `options`: how ops are evaluated; float64 is set. Faults as eval::evaluate(), and an internal one where
// there are not as many values as observed.
std::vector<OpDiff> judge(const compiler::ObservedValues& observed, std::span<const graph::Literal> arguments,
                          std::span<const graph::Literal> device, std::span<const graph::Literal> whole,
                          graph::eval::Options options = {});

// A result of the model as it is compiled (`fused`), against float64 (`exact`) and against the run that kept
// every value (`kept`). `element`: what the model states of the result.
struct ResultDiff {
  AccumulatedError accumulated;
  double max_abs_kept = 0;
  bool same_bits = false;
  std::string_view verdict;  // "rounding" or "bug"
};
ResultDiff compare_result(const graph::Literal& fused, const graph::Literal& kept,
                          const graph::Literal& exact, graph::ElementType element);

// How far a result is from that of the model as it is stated: what casts and weights cost. `relative_rms`:
// root mean square of the error over that of the result; `cosine`: of the angle between both.
struct Distance {
  double relative_rms = 0, cosine = 0;
};
Distance distance(const graph::Literal& have, const graph::Literal& want);

}  // namespace opentrn::model
