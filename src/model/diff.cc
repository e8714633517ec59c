#include "model/diff.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fault.h"
#include "base/interrupt.h"
#include "graph/eval/rounding.h"
#include "graph/eval/tensor.h"

namespace opentrn::model {
namespace {

using compiler::Judgement;
using graph::ElementType;
using graph::Literal;
using Doubles = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnitRoundoff = 0x1p-24;  // of fp32, in which engines add

// What the device holds in place of a type that it has not.
ElementType on_device(ElementType element) {
  switch (element) {
    case ElementType::kF64: return ElementType::kF32;
    case ElementType::kI64:
    case ElementType::kIndex: return ElementType::kI32;
    case ElementType::kUI64: return ElementType::kUI32;
    default: return element;
  }
}

bool counts(ElementType element) { return graph::is_integer(element) || graph::is_bool(element); }

Doubles doubles_of(const Literal& value) {
  Doubles result;
  graph::eval::visit_values(graph::eval::from_literal(value), [&](const auto& elements) {
    result.reserve(elements.size());
    for (const auto& element : elements) {
      if constexpr (std::is_same_v<std::decay_t<decltype(element)>, graph::eval::Complex>)
        result.push_back(element.real());  // no device has complex values: there are none behind prepare()
      else
        result.push_back(static_cast<double>(element));
    }
  });
  return result;
}

// The facts of a float format that units in the last place and limits are made of.
struct Steps {
  int mantissa_bits = 23, exponent_min = -126;
  double largest = 0;

  static Steps of(ElementType stated) {
    const ElementType element = on_device(stated);
    const graph::eval::Format& format = graph::eval::format_of(element);
    // TF32 lies in 32 bits, of which those that it has not are zeros or, in the largest number, ones.
    const ElementType stored = element == ElementType::kTF32 ? ElementType::kF32 : element;
    return {format.mantissa_bits, 1 - format.bias, graph::eval::largest_finite(stored)};
  }
  // The unit in the last place at a value; below the smallest normal number that of it.
  double ulp(double value) const {
    const int exponent = value == 0 || !std::isfinite(value) ? exponent_min : std::ilogb(value);
    return std::ldexp(1.0, std::max(exponent, exponent_min) - mantissa_bits);
  }
  double smallest_normal() const { return std::ldexp(1.0, exponent_min); }
};

double largest_of(const Doubles& values) {
  double largest = 0;
  for (const double value : values) {
    if (std::isnan(value)) return value;
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

double largest_finite_of(const Doubles& values) {
  double largest = 0;
  for (const double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

AccumulatedError accumulated_error(const Literal& device, const Literal& exact) {
  const Doubles have = doubles_of(device), want = doubles_of(exact);
  const bool is_count = counts(device.type().element());
  double error = 0;
  for (size_t i = 0; i < have.size(); ++i) {
    if (have[i] == want[i] || (std::isnan(have[i]) && std::isnan(want[i]))) continue;
    const double apart = std::abs(have[i] - want[i]);
    error = std::max(error, std::isnan(apart) ? kInfinity : apart);
  }
  const double largest = is_count ? largest_of(want) : largest_finite_of(want);
  return {error, largest > 0 ? error / largest : error};
}

// The same bits on both sides, whatever stands for splats.
bool same_bits_in(const Literal& a, const Literal& b) { return a.dense() == b.dense(); }

// A float's neighbour one unit in the last place up or down; other values as they are. Beyond the largest
// number is infinity or none.
double neighbour(ElementType element, double value, bool is_up) {
  if (element == ElementType::kF64) return std::nextafter(value, is_up ? kInfinity : -kInfinity);
  if (element == ElementType::kF32 || element == ElementType::kTF32)
    return std::nextafterf(static_cast<float>(value), is_up ? std::numeric_limits<float>::infinity()
                                                            : -std::numeric_limits<float>::infinity());
  if (!std::isfinite(value))
    return std::isinf(value) && (value > 0) != is_up
               ? std::copysign(graph::eval::largest_finite(element), value)
               : value;
  const bool is_away = value == 0 || (value > 0) == is_up;  // from zero
  const Steps steps = Steps::of(element);
  const double least = graph::eval::smallest_positive(element);
  if (value == 0) return is_up ? least : -least;
  const double size = std::abs(value);
  if (is_away) {
    const double next = size + steps.ulp(size);
    return std::copysign(next > steps.largest ? kInfinity : next, value);
  }
  // Below a power of two numbers are twice as dense.
  const bool is_power = size == std::ldexp(1.0, std::ilogb(size)) && size > steps.smallest_normal();
  return std::copysign(size - steps.ulp(size) / (is_power ? 2 : 1), value);
}

Literal moved(const Literal& value, bool is_up) {
  const ElementType element = value.type().element();
  if (!graph::is_float(element)) return value;
  Doubles values = doubles_of(value);
  for (double& each : values) each = neighbour(element, each, is_up);
  return graph::eval::to_literal(graph::eval::Tensor(value.type(), std::move(values)));
}

class Judge {
 public:
  Judge(const compiler::ObservedValues& observed, std::span<const Literal> arguments,
        std::span<const Literal> device, graph::eval::Options options)
      : observed_(observed), options_(std::move(options)) {
    options_.float64 = true;
    std::vector<Literal> operands(arguments.begin(), arguments.end());
    operands.insert(operands.end(), device.begin(), device.end());
    alone_ = evaluated(observed.alone, operands);
    magnitudes_ = evaluated(observed.magnitudes, operands);
    std::vector<Literal> above, below;
    for (const Literal& operand : operands) {
      above.push_back(moved(operand, true));
      below.push_back(moved(operand, false));
    }
    above_ = evaluated(observed.functions, above);
    below_ = evaluated(observed.functions, below);
  }

  // Asked for the observed values in their order.
  OpDiff row(size_t number, const Literal& have, const Literal& whole) {
    const compiler::ObservedValue& value = observed_.values[number];
    OpDiff row{.accumulated = accumulated_error(have, whole), .of_limit = 0.0};
    if (counts(have.type().element())) {
      const Doubles made = doubles_of(have), wanted = doubles_of(alone_[number]);
      for (size_t i = 0; i < made.size(); ++i) row.own_ulp += made[i] != wanted[i] ? 1 : 0;
      row.of_limit = row.own_ulp > 0 ? kInfinity : 0.0;
      row.verdict = row.own_ulp > 0 ? "bug" : "exact";
    } else {
      const bool is_within = judge_floats(value, doubles_of(have), doubles_of(alone_[number]), row);
      row.verdict = row.own_ulp == 0 ? "exact" : is_within ? "rounding" : "bug";
    }
    if (value.judgement == Judgement::kUnknown && row.own_ulp != 0) {
      row.of_limit.reset();
      row.verdict = "not judged";
    }
    return row;
  }

 private:
  std::vector<Literal> evaluated(const graph::Module& module, const std::vector<Literal>& operands) const {
    std::vector<graph::eval::RuntimeValue> values;
    for (const Literal& operand : operands) values.push_back({operand});
    std::vector<Literal> results;
    for (const auto& result : graph::eval::evaluate(module, module.entry(), values, options_))
      results.push_back(std::get<Literal>(result.value));
    return results;
  }

  // Whether every element is within its limit; the largest errors go into the row.
  bool judge_floats(const compiler::ObservedValue& value, const Doubles& have, const Doubles& want,
                    OpDiff& row) {
    const ElementType element = value.type.element();
    const Steps steps = Steps::of(element);
    const Doubles limits = limits_of(value, want, steps);
    bool is_within = true;
    double of_limit = 0;
    for (size_t i = 0; i < have.size(); ++i) {
      double error = std::abs(have[i] - want[i]);
      if (is_same(element, steps, have[i], want[i]))
        error = 0;
      else if (std::isnan(error))
        error = kInfinity;
      if (error == 0) continue;
      row.own_ulp = std::max(row.own_ulp, error / steps.ulp(want[i]));
      of_limit = std::max(of_limit, error / limits[i]);
      is_within = is_within && error <= limits[i];
    }
    row.of_limit = of_limit;
    return is_within;
  }

  // Equal, both no number, or out of the type's range on the same side (not where the model states a type
  // with more range than the device's); below the smallest normal number a device may have zero.
  static bool is_same(ElementType element, const Steps& steps, double have, double want) {
    if (have == want || (std::isnan(have) && std::isnan(want))) return true;
    const bool is_at_infinity = std::isinf(have) && std::signbit(have) == std::signbit(want);
    if (element == on_device(element) && std::abs(want) >= steps.largest &&
        (is_at_infinity || std::isnan(have)))
      return true;
    // The lowest double stands for minus infinity in masks.
    if (element == ElementType::kF64 && std::abs(want) == std::numeric_limits<double>::max() &&
        is_at_infinity)
      return true;
    return have == 0 && std::abs(want) < steps.smallest_normal();
  }

  // What rounding may do to each element. The values for functions and sums are taken in the order of those
  // that are observed.
  Doubles limits_of(const compiler::ObservedValue& value, const Doubles& want, const Steps& steps) {
    Doubles limits(want.size());
    const auto each = [&](auto&& limit) {
      for (size_t i = 0; i < want.size(); ++i) limits[i] = limit(i, steps.ulp(want[i]));
    };
    switch (value.judgement) {
      case Judgement::kRounded: each([](size_t, double ulp) { return kRoundingUlp * ulp; }); break;
      case Judgement::kSum: {
        // One rounding per term in the worst order; a random walk of them is as far as it gets in practice.
        const double roundings = std::min(value.terms + 2, 8 * std::sqrt(value.terms) + 2);
        const Doubles magnitudes = doubles_of(magnitudes_.at(next_sum_++));
        each([&](size_t i, double ulp) {
          return roundings * kUnitRoundoff * std::abs(magnitudes[i]) + kRoundingUlp * ulp;
        });
        break;
      }
      case Judgement::kFunction: {
        const Doubles above = doubles_of(above_.at(next_function_)),
                      below = doubles_of(below_.at(next_function_));
        ++next_function_;
        each([&](size_t i, double ulp) {
          const double reach = std::abs(above[i] - want[i]) + std::abs(below[i] - want[i]);
          return kFunctionUlp * ulp + (std::isfinite(reach) ? reach : 0);
        });
        break;
      }
      case Judgement::kExact:
      case Judgement::kUnknown: break;
    }
    return limits;
  }

  const compiler::ObservedValues& observed_;
  graph::eval::Options options_;
  std::vector<Literal> alone_, magnitudes_, above_, below_;
  size_t next_sum_ = 0, next_function_ = 0;
};

}  // namespace

std::vector<OpDiff> judge(const compiler::ObservedValues& observed, std::span<const Literal> arguments,
                          std::span<const Literal> device, std::span<const Literal> whole,
                          graph::eval::Options options) {
  OPENTRN_CHECK(device.size() == observed.values.size() && whole.size() == observed.values.size(),
                "{} values of {} that are observed", device.size(), observed.values.size());
  Judge judge(observed, arguments, device, std::move(options));
  std::vector<OpDiff> rows;
  for (size_t i = 0; i < device.size(); ++i) {
    interrupt::poll();
    rows.push_back(judge.row(i, device[i], whole[i]));
  }
  return rows;
}

ResultDiff compare_result(const Literal& fused, const Literal& kept, const Literal& exact,
                          ElementType element) {
  const AccumulatedError error = accumulated_error(fused, exact), kept_error = accumulated_error(kept, exact);
  const bool same = same_bits_in(fused, kept);
  // Fusing skips roundings or orders sums otherwise: errors of the size that the kept run has.
  const double slack =
      graph::is_float(exact.type().element()) ? 8 * Steps::of(element).ulp(largest_of(doubles_of(exact))) : 0;
  const bool fine = same || error.max_abs <= 8 * kept_error.max_abs + slack;
  return {error, kept_error.max_abs, same, fine ? "rounding" : "bug"};
}

Distance distance(const Literal& have, const Literal& want) {
  const Doubles a = doubles_of(have), b = doubles_of(want);
  long double of_a = 0, of_b = 0, of_both = 0, of_error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    of_a += static_cast<long double>(a[i]) * a[i];
    of_b += static_cast<long double>(b[i]) * b[i];
    of_both += static_cast<long double>(a[i]) * b[i];
    of_error += (static_cast<long double>(a[i]) - b[i]) * (static_cast<long double>(a[i]) - b[i]);
  }
  const auto size = static_cast<double>(std::sqrt(of_b)), length = static_cast<double>(std::sqrt(of_a));
  const auto error = static_cast<double>(std::sqrt(of_error));
  Distance result;
  result.relative_rms = size != 0 ? error / size : error == 0 ? 0.0 : kInfinity;
  result.cosine = size != 0 && length != 0
                      ? static_cast<double>(of_both / (std::sqrt(of_a) * std::sqrt(of_b)))
                      : static_cast<double>(error == 0);
  return result;
}

}  // namespace opentrn::model
