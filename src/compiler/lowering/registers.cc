#include "compiler/lowering/registers.h"

#include <algorithm>
#include <limits>

namespace opentrn::compiler {

namespace {

constexpr Interval kWord{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};

bool fits(Interval all) { return all.low >= kWord.low && all.high <= kWord.high; }

// 1 or 0 where the comparison has the same result for all, else either.
Interval decided(bool always, bool never) { return {always ? 1 : 0, never ? 0 : 1}; }

Interval product(Interval a, Interval b) {
  const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return {low, high};
}

bool is_number(const Registers::Value& value, int64_t number) {
  const auto* is = std::get_if<int64_t>(&value);
  return is && *is == number;
}

}  // namespace

std::optional<Interval> interval_of(AluOp op, Interval a, Interval b) {
  if (!fits(a) || !fits(b)) return std::nullopt;  // so that no sum or product below passes 64 bits
  const bool apart = a.high < b.low || b.high < a.low;
  const bool same = a.is_one() && a == b;
  std::optional<Interval> made;
  switch (op) {
    case AluOp::kAdd: made = {a.low + b.low, a.high + b.high}; break;
    case AluOp::kSubtract: made = {a.low - b.high, a.high - b.low}; break;
    case AluOp::kMultiply: made = product(a, b); break;
    case AluOp::kMaximum: return Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
    case AluOp::kMinimum: return Interval{std::min(a.low, b.low), std::min(a.high, b.high)};
    case AluOp::kEqual: return decided(same, apart);
    case AluOp::kNotEqual: return decided(apart, same);
    case AluOp::kLess: return decided(a.high < b.low, a.low >= b.high);
    case AluOp::kLessEqual: return decided(a.high <= b.low, a.low > b.high);
    case AluOp::kGreater: return decided(a.low > b.high, a.high <= b.low);
    case AluOp::kGreaterEqual: return decided(a.low >= b.high, a.high < b.low);
    default: return std::nullopt;
  }
  return made && fits(*made) ? made : std::nullopt;
}

Interval Registers::interval(const Value& value) const {
  if (const auto* number = std::get_if<int64_t>(&value)) return {*number, *number};
  const auto found = known_.find(std::get<isa::RegisterId>(value));
  return found == known_.end() ? kWord : found->second;
}

std::optional<Registers::Value> Registers::result_for_certain(AluOp op, const Value& a,
                                                              const Value& b) const {
  const Interval of_a = interval(a), of_b = interval(b);
  if (const auto made = interval_of(op, of_a, of_b); made && made->is_one()) return Value(made->low);
  switch (op) {
    case AluOp::kMaximum:
      if (of_a.low >= of_b.high) return a;
      if (of_b.low >= of_a.high) return b;
      return std::nullopt;
    case AluOp::kMinimum:
      if (of_a.high <= of_b.low) return a;
      if (of_b.high <= of_a.low) return b;
      return std::nullopt;
    case AluOp::kAdd:
      if (is_number(a, 0)) return b;
      [[fallthrough]];
    case AluOp::kSubtract: return is_number(b, 0) ? std::optional(a) : std::nullopt;
    case AluOp::kMultiply:
      if (is_number(a, 1)) return b;
      return is_number(b, 1) ? std::optional(a) : std::nullopt;
    default: return std::nullopt;
  }
}

Registers::Value Registers::alu(AluOp op, const Value& a, const Value& b) {
  if (const auto known = result_for_certain(op, a, b)) return *known;
  const isa::RegisterId made = emitter_.new_register();
  emitter_.register_alu(op, made, a, b);
  if (const auto values = interval_of(op, interval(a), interval(b))) holds(made, *values);
  return made;
}

Registers::Value Registers::clamped(const Value& value, int64_t low, int64_t high) {
  return alu(AluOp::kMinimum, alu(AluOp::kMaximum, value, low), high);
}

isa::RegisterId Registers::in_register(const Value& value) {
  if (const auto* id = std::get_if<isa::RegisterId>(&value)) return *id;
  const isa::RegisterId made = emitter_.new_register();
  emitter_.register_move(made, value);
  holds(made, interval(value));
  return made;
}

}  // namespace opentrn::compiler
