// A product is taken apart into a number and factors, whatever its order:
//
//   GELU        1/2 * x * (1 + erf(x / sqrt 2)),  1/2 * x * erfc(-x / sqrt 2)
//   its form    1/2 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), or ... x * (1 + 0.044715 x^2)
//   SiLU        x * logistic(x)
//
// 1 / (1 + exp(-x)), as JAX writes it, is logistic(x).
//
// The op that replaces it rounds once; the graph rounded each step.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <vector>

#include "base/activity.h"
#include "compiler/analysis/activation_op.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/recognise/recognise.h"

namespace opentrn::compiler {

namespace {

constexpr double kCubic = 0.044715;
constexpr int kDepthMax = 8;

struct Factors {
  double number = 1;
  std::vector<ValueId> values;

  bool is_power_of(ValueId value, size_t exponent) const {
    return values.size() == exponent &&
           std::all_of(values.begin(), values.end(), [&](ValueId v) { return v == value; });
  }
};

class Recogniser {
 public:
  explicit Recogniser(const Function& function) : function_(function) {}

  std::optional<std::string_view> name_of(const Op& op, ValueId& input) const {
    if (op.kind != OpKind::multiply_) return std::nullopt;
    const ElementType element = function_.type(op.results[0]).element();
    // A constant in the model is rounded to its type.
    switch (element) {
      case ElementType::kF32: tolerance_ = 1e-6; break;
      case ElementType::kF16: tolerance_ = 1e-3; break;
      case ElementType::kBF16: tolerance_ = 4e-3; break;
      default: return std::nullopt;
    }
    is_narrow_ = element != ElementType::kF32;
    const Factors factors = factors_of(op.results[0], 0);
    if (factors.values.size() != 2) return std::nullopt;
    for (const size_t i : {0, 1}) {
      input = factors.values[i];
      const ValueId gate = factors.values[1 - i];
      if (function_.type(input).element() != element) continue;
      if (is(factors.number, 1.0) && is_logistic(gate, input)) return kSilu;
      if (!is(factors.number, 0.5)) continue;
      if (is_erfc(gate, input) || is_one_plus_erf(gate, input)) return kGelu;
      if (is_one_plus_tanh(gate, input)) return kGeluTanh;
    }
    return std::nullopt;
  }

  // The x of 1 / (1 + exp(-x)).
  std::optional<ValueId> logistic_of(const Op& op) const {
    if (op.kind != OpKind::divide_ || splat_of(function_, op.operands[0]) != 1.0) return std::nullopt;
    const ElementType element = function_.type(op.results[0]).element();
    if (element != ElementType::kF32 && element != ElementType::kF16 && element != ElementType::kBF16)
      return std::nullopt;
    const auto term = beside_one(op.operands[1]);
    const Op* raised = term ? maker(*term, OpKind::exponential_) : nullptr;
    const Op* negative = raised ? maker(raised->operands[0], OpKind::negate_) : nullptr;
    return negative ? std::optional(negative->operands[0]) : std::nullopt;
  }

 private:
  const Op* maker(ValueId value) const {
    const OpId id = function_.value(value).op;
    return id == graph::kNoOp ? nullptr : &function_.op(id);
  }
  const Op* maker(ValueId value, OpKind kind) const {
    const Op* op = maker(value);
    return op && op->kind == kind ? op : nullptr;
  }
  bool is(double number, double wanted) const {
    return std::abs(number - wanted) <= tolerance_ * std::abs(wanted);
  }

  // In a graph of 16 bits, products with numbers that these bits do not hold are taken in float32 and rounded
  // (torch's): the value before a convert that widens it, and a product before one that rounds it.
  ValueId without_widening(ValueId value) const {
    for (;;) {
      const Op* op = is_narrow_ ? maker(value, OpKind::convert_) : nullptr;
      if (!op || !graph::is_float(function_.type(op->operands[0]).element())) return value;
      const bool widens = function_.type(value).element() == ElementType::kF32;
      const Op* before = maker(op->operands[0]);
      if (!widens && !(before && (before->kind == OpKind::multiply_ || before->kind == OpKind::divide_)))
        return value;
      value = op->operands[0];
    }
  }

  Factors factors_of(ValueId value, int depth) const {
    value = without_widening(value);
    const Op* op = depth < kDepthMax ? maker(value) : nullptr;
    if (const auto number = splat_of(function_, value)) return {*number, {}};
    if (op && op->kind == OpKind::multiply_) {
      Factors product = factors_of(op->operands[0], depth + 1);
      const Factors right = factors_of(op->operands[1], depth + 1);
      product.number *= right.number;
      product.values.insert(product.values.end(), right.values.begin(), right.values.end());
      return product;
    }
    if (op && (op->kind == OpKind::negate_ || op->kind == OpKind::divide_)) {
      const auto divisor = op->kind == OpKind::negate_ ? -1.0 : splat_of(function_, op->operands[1]);
      if (divisor && *divisor != 0) {
        Factors product = factors_of(op->operands[0], depth + 1);
        product.number /= *divisor;
        return product;
      }
    }
    if (op && op->kind == OpKind::power_) {
      const auto exponent = splat_of(function_, op->operands[1]);
      if (exponent == 3.0) return {1, {op->operands[0], op->operands[0], op->operands[0]}};
    }
    return {1, {value}};
  }

  bool is_multiple(ValueId value, ValueId x, double number) const {
    const Factors factors = factors_of(value, 0);
    return factors.is_power_of(x, 1) && is(factors.number, number);
  }

  bool is_logistic(ValueId gate, ValueId x) const {
    const Op* op = maker(gate, OpKind::logistic_);
    return op && op->operands[0] == x;
  }
  bool is_erfc(ValueId gate, ValueId x) const {
    const Op* op = maker(gate, OpKind::chlo_erfc_);
    return op && is_multiple(op->operands[0], x, -std::numbers::sqrt2 / 2);
  }

  // The other term of 1 + term.
  std::optional<ValueId> beside_one(ValueId sum) const {
    const Op* op = maker(sum, OpKind::add_);
    if (!op) return std::nullopt;
    for (const size_t i : {0, 1})
      if (splat_of(function_, op->operands[i]) == 1.0) return op->operands[1 - i];
    return std::nullopt;
  }

  bool is_one_plus_erf(ValueId gate, ValueId x) const {
    const auto term = beside_one(gate);
    const Op* op = term ? maker(*term, OpKind::chlo_erf_) : nullptr;
    return op && is_multiple(op->operands[0], x, std::numbers::sqrt2 / 2);
  }

  bool is_one_plus_tanh(ValueId gate, ValueId x) const {
    const auto term = beside_one(gate);
    const Op* op = term ? maker(*term, OpKind::tanh_) : nullptr;
    if (!op) return false;
    const Factors factors = factors_of(op->operands[0], 0);
    if (!is(factors.number, std::sqrt(2 / std::numbers::pi))) return false;
    if (factors.values.size() == 1) return is_cubic_sum(factors.values[0], x);
    if (factors.values.size() != 2) return false;
    return (factors.values[0] == x && is_one_plus_square(factors.values[1], x)) ||
           (factors.values[1] == x && is_one_plus_square(factors.values[0], x));
  }
  // x + a x^3
  bool is_cubic_sum(ValueId sum, ValueId x) const {
    const Op* op = maker(sum, OpKind::add_);
    if (!op) return false;
    const auto cubic = [&](ValueId value) {
      const Factors factors = factors_of(value, 0);
      return factors.is_power_of(x, 3) && is(factors.number, kCubic);
    };
    return (op->operands[0] == x && cubic(op->operands[1])) ||
           (op->operands[1] == x && cubic(op->operands[0]));
  }
  bool is_one_plus_square(ValueId sum, ValueId x) const {
    const auto term = beside_one(sum);
    if (!term) return false;
    const Factors factors = factors_of(*term, 0);
    return factors.is_power_of(x, 2) && is(factors.number, kCubic);
  }

  const Function& function_;
  mutable double tolerance_ = 0;
  mutable bool is_narrow_ = false;
};

}  // namespace

int64_t recognise_activations(Function& function) {
  const Activity activity("recognising activations");
  int64_t found = 0;
  const Recogniser recogniser(function);
  graph::walk(function, function.body(), [&](OpId id) {
    ValueId input{};
    Op& op = function.op(id);
    if (const auto x = recogniser.logistic_of(op)) {
      op.kind = OpKind::logistic_;
      op.operands = {*x};
      ++found;
      return;
    }
    const auto name = recogniser.name_of(op, input);
    if (!name) return;
    op.kind = OpKind::composite_;
    op.operands = {input};
    op.attributes.clear();
    op.set(Attr::name, std::string(*name));
    ++found;
  });
  return found;
}

}  // namespace opentrn::compiler
