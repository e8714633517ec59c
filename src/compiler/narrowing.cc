#include "compiler/narrowing.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Elements of a constant that are looked at; a larger one may hold any number.
constexpr int64_t kConstantElements = 1 << 16;

// Both ends included.
struct Range {
  double low = -kInfinity, high = kInfinity;

  Range join(const Range& other) const { return {std::min(low, other.low), std::max(high, other.high)}; }
  bool within(const Range& other) const { return low >= other.low && high <= other.high; }
};

// An infinite bound times 0 counts as 0: there are no infinite elements among integers.
double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

Range operator+(const Range& a, const Range& b) { return {a.low + b.low, a.high + b.high}; }
Range operator-(const Range& a, const Range& b) { return {a.low - b.high, a.high - b.low}; }
Range operator*(const Range& a, const Range& b) {
  const auto [low, high] =
      std::minmax({times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high)});
  return {low, high};
}
Range operator*(const Range& a, double count) { return a * Range{count, count}; }

// What the device's form of the type holds.
Range device_range(ElementType element) {
  if (graph::is_bool(element)) return {0, 1};
  if (!graph::is_integer(element) && element != ElementType::kIndex) return {};
  const int bits = std::min(32, graph::bit_width(element));
  const double most = static_cast<double>(int64_t{1} << bits);
  if (graph::is_signed_integer(element) || element == ElementType::kIndex) return {-most / 2, most / 2 - 1};
  return {0, most - 1};
}

// Of i64, and of ui64 in sums.
bool is_wide_integer(ElementType element) {
  return element == ElementType::kI64 || element == ElementType::kUI64 || element == ElementType::kIndex;
}
bool is_wide_float(ElementType element) {
  return element == ElementType::kF64 || element == ElementType::kComplexF64;
}

// Ops that compute nothing: what they give is as exact as what they take.
bool only_moves(OpKind kind) {
  switch (kind) {
    case OpKind::constant_:
    case OpKind::broadcast_in_dim_:
    case OpKind::reshape_:
    case OpKind::transpose_:
    case OpKind::slice_:
    case OpKind::dynamic_slice_:
    case OpKind::dynamic_update_slice_:
    case OpKind::concatenate_:
    case OpKind::pad_:
    case OpKind::gather_:
    case OpKind::reverse_:
    case OpKind::select_:
    case OpKind::while_:
    case OpKind::if_:
    case OpKind::case_:
    case OpKind::optimization_barrier_: return true;
    default: return false;
  }
}

class Analysis {
 public:
  Analysis(const graph::Module& module, const Function& function)
      : module_(module), function_(function), ranges_(function.value_count()), uses_(function.value_count()) {
    graph::walk(function_, function_.body(), [&](OpId id) {
      for (const ValueId operand : function_.op(id).operands) uses_[index_of(operand)].push_back(id);
    });
  }

  Narrowing run() {
    block(function_.body());
    const auto is_wide = [&](ValueId value) {
      return type(value).is_tensor() && is_wide_float(type(value).element());
    };
    if (found_.floats.ops == 0 && std::ranges::any_of(function_.arguments(), is_wide))
      found_.floats = {1, "an f64 argument", {}};
    return found_;
  }

 private:
  const graph::Type& type(ValueId value) const { return function_.type(value); }
  const Range& range(ValueId value) const { return ranges_[index_of(value)]; }
  static Range range_of(const graph::Type& type) {
    return type.is_tensor() ? device_range(type.element()) : Range{};
  }
  double elements(ValueId value) const {
    return type(value).is_tensor() && type(value).is_static()
               ? static_cast<double>(type(value).element_count())
               : kInfinity;
  }
  const Op* maker(ValueId value) const {
    const OpId op = function_.value(value).op;
    return op == graph::kNoOp ? nullptr : &function_.op(op);
  }

  void block(BlockId id) {
    for (const ValueId argument : function_.block(id).arguments)
      if (!bounded_.contains(argument)) ranges_[index_of(argument)] = range_of(type(argument));
    for (const OpId op : function_.block(id).ops) visit(function_.op(op));
  }

  void visit(const Op& op) {
    if (op.kind == OpKind::while_) {
      block(op.regions[0]);
      bound_counters(op);
      block(op.regions[1]);
    } else if (op.kind == OpKind::if_ || op.kind == OpKind::case_) {
      for (const BlockId region : op.regions) block(region);
    }
    for (const ValueId result : op.results) {
      if (!type(result).is_tensor()) continue;
      const ElementType element = type(result).element();
      const Range limits = device_range(element);
      const std::optional<Range> made = computed(op, result);
      if (is_wide_float(element)) {
        if (!only_moves(op.kind)) note(found_.floats, op, result);
      } else if (made && is_wide_integer(element) && is_narrow(op, element) && !made->within(limits) &&
                 !is_position_from_the_end(op, result)) {
        note(found_.integers, op, result);
      }
      ranges_[index_of(result)] = made && made->within(limits) ? *made : limits;
    }
  }

  // Elementwise ui64 is computed in two words.
  static bool is_narrow(const Op& op, ElementType element) {
    return element != ElementType::kUI64 || op.kind == OpKind::reduce_ || op.kind == OpKind::reduce_window_ ||
           op.kind == OpKind::dot_general_ || op.kind == OpKind::scatter_;
  }

  void note(Narrowed& narrowed, const Op& op, ValueId result) {
    if (narrowed.ops++ > 0) return;
    const std::string_view name = graph::name(op.kind);
    narrowed.first = fmt::format("{} to {}", name.substr(name.find('.') + 1), type(result).to_string());
    narrowed.where = module_.source(op.location);
  }

  // `while (i < n)`: within the body i is below what n can be, so that i + 1 is in range; and what grows by a
  // constant in each round does so for as many rounds as i can count.
  void bound_counters(const Op& loop) {
    const auto& condition = function_.block(loop.regions[0]);
    const Op& returned = function_.op(condition.ops.back());
    const Op* test = maker(returned.operands[0]);
    if (!test || test->kind != OpKind::compare_ || direction(*test) != ComparisonDirection::kLt) return;
    const auto counter = std::ranges::find(condition.arguments, test->operands[0]);
    if (counter == condition.arguments.end()) return;
    const auto number = static_cast<size_t>(counter - condition.arguments.begin());
    const std::optional<double> step = step_of(loop, number);
    const Range start = range(loop.operands[number]), end = range(test->operands[1]);
    bound(loop, number, {step && *step > 0 ? start.low : -kInfinity, end.high - 1});
    if (!step || *step < 1) return;
    const double rounds = std::max(0.0, end.high - start.low);
    for (size_t i = 0; i < loop.operands.size(); ++i)
      if (const auto each = i == number ? std::nullopt : step_of(loop, i))
        bound(loop, i, range(loop.operands[i]) + Range{std::min(0.0, *each), std::max(0.0, *each)} * rounds);
  }

  // What a round adds to a carried value; nullopt where that is no constant.
  std::optional<double> step_of(const Op& loop, size_t number) const {
    const auto& body = function_.block(loop.regions[1]);
    const Op* sum = maker(function_.op(body.ops.back()).operands[number]);
    if (!sum || sum->kind != OpKind::add_ || sum->operands[0] != body.arguments[number]) return std::nullopt;
    return splat_of(function_, sum->operands[1]);
  }

  void bound(const Op& loop, size_t number, const Range& range) {
    const ValueId inside = function_.block(loop.regions[1]).arguments[number];
    const Range limits = range_of(type(inside));
    ranges_[index_of(inside)] = {std::max(range.low, limits.low), std::min(range.high, limits.high)};
    bounded_[inside] = true;
  }

  // JAX converts positions to the type that they have.
  ValueId unconverted(ValueId value) const {
    const Op* op = maker(value);
    const bool same = op && op->kind == OpKind::convert_ && type(op->operands[0]) == type(value);
    return same ? op->operands[0] : value;
  }

  static ComparisonDirection direction(const Op& compare) {
    return compare.enumeration(Attr::comparison_direction, ComparisonDirection::kEq);
  }

  // select(i < 0, i + n, i): the sum counts only where i is below 0, so that n cannot carry it beyond.
  bool is_position_from_the_end(const Op& op, ValueId sum) const {
    if (op.kind != OpKind::add_) return false;
    const auto& uses = uses_[index_of(sum)];
    return !uses.empty() && std::ranges::all_of(uses, [&](OpId id) {
      const Op& select = function_.op(id);
      if (select.kind != OpKind::select_ || select.operands[1] != sum) return false;
      const Op* test = maker(select.operands[0]);
      if (!test || test->kind != OpKind::compare_ || direction(*test) != ComparisonDirection::kLt)
        return false;
      const ValueId first = unconverted(op.operands[0]), second = unconverted(op.operands[1]);
      const ValueId position = test->operands[0];
      if (first != position && second != position) return false;
      const ValueId length = first == position ? second : first;
      return range(test->operands[1]).high <= 0 && range(length).low >= 0;
    });
  }

  Range constant(const Op& op) const {
    const graph::Literal& literal = op.literal(Attr::value);
    const ElementType element = literal.type().element();
    const int64_t count = literal.is_splat() ? std::min<int64_t>(1, literal.type().element_count())
                                             : literal.type().element_count();
    const bool integer = graph::is_integer(element) || graph::is_bool(element);
    if ((!integer && !graph::is_float(element)) || count > kConstantElements) return {};
    Range all{kInfinity, -kInfinity};
    for (int64_t i = 0; i < count; ++i) {
      const double value = integer ? static_cast<double>(graph::load_integer(element, literal.element(i)))
                                   : graph::load_real(element, literal.element(i));
      all = all.join({value, value});
    }
    return count == 0 ? Range{0, 0} : all;
  }

  Range union_of(const std::vector<ValueId>& values, size_t begin, size_t end) const {
    Range all = range(values[begin]);
    for (size_t i = begin + 1; i < end; ++i) all = all.join(range(values[i]));
    return all;
  }

  // `count` elements, and where they start from.
  std::optional<Range> reduced(const Op& op, size_t data, double count) const {
    const auto combiner = combiner_of(function_, op);
    if (!combiner) return Range{};
    const size_t start = data + op.operands.size() / 2;
    const Range each = range(op.operands[data]), initial = range(op.operands[start]);
    switch (*combiner) {
      case OpKind::add_: return initial + (each * count).join(each * 0.0);
      case OpKind::maximum_:
      case OpKind::minimum_: return each.join(initial);
      case OpKind::multiply_: return Range{};
      default: return std::nullopt;
    }
  }

  // What the op would give with all its bits; nullopt: what its type holds.
  std::optional<Range> computed(const Op& op, ValueId result) const {
    const auto& in = op.operands;
    switch (op.kind) {
      case OpKind::constant_: return constant(op);
      case OpKind::iota_: return Range{0, elements(result)};
      case OpKind::add_: return range(in[0]) + range(in[1]);
      case OpKind::subtract_: return range(in[0]) - range(in[1]);
      case OpKind::multiply_: return range(in[0]) * range(in[1]);
      case OpKind::negate_: return Range{0, 0} - range(in[0]);
      case OpKind::maximum_: {
        const Range &a = range(in[0]), &b = range(in[1]);
        return Range{std::max(a.low, b.low), std::max(a.high, b.high)};
      }
      case OpKind::minimum_: {
        const Range &a = range(in[0]), &b = range(in[1]);
        return Range{std::min(a.low, b.low), std::min(a.high, b.high)};
      }
      case OpKind::clamp_: {
        const Range &low = range(in[0]), &value = range(in[1]), &high = range(in[2]);
        return Range{std::min(std::max(value.low, low.low), high.low),
                     std::max(low.high, std::min(std::max(value.high, low.high), high.high))};
      }
      case OpKind::remainder_: {
        const double most = std::max(std::abs(range(in[1]).low), std::abs(range(in[1]).high));
        return Range{range(in[0]).low < 0 ? -most : 0, most};
      }
      case OpKind::abs_: {
        const Range& a = range(in[0]);
        return Range{0, std::max(std::abs(a.low), std::abs(a.high))};
      }
      case OpKind::select_: return union_of(in, 1, 3);
      case OpKind::concatenate_: return union_of(in, 0, in.size());
      case OpKind::pad_:
      case OpKind::dynamic_update_slice_: return union_of(in, 0, 2);
      case OpKind::convert_:
      case OpKind::floor_:
      case OpKind::ceil_:
      case OpKind::round_nearest_even_:
      case OpKind::round_nearest_afz_:
      case OpKind::broadcast_in_dim_:
      case OpKind::reshape_:
      case OpKind::transpose_:
      case OpKind::slice_:
      case OpKind::dynamic_slice_:
      case OpKind::reverse_:
      case OpKind::optimization_barrier_:
      case OpKind::gather_: return range(in[function_.value(result).index]);
      case OpKind::reduce_:
        return op.results.size() > 1 ? std::nullopt
                                     : reduced(op, 0, elements(in[0]) / std::max(1.0, elements(result)));
      case OpKind::reduce_window_:
        return op.results.size() > 1 ? std::nullopt : reduced(op, 0, window_elements(op));
      case OpKind::dot_general_:
        return range(in[0]) * range(in[1]) * std::min(elements(in[0]), elements(in[1]));
      case OpKind::convolution_:
      case OpKind::power_:
      case OpKind::shift_left_: return Range{};
      case OpKind::scatter_: return op.results.size() > 1 ? std::nullopt : scattered(op);
      default: return std::nullopt;
    }
  }

  static double window_elements(const Op& op) {
    double count = 1;
    for (const int64_t size : op.integers(Attr::window_dimensions)) count *= static_cast<double>(size);
    return count;
  }

  // One update replaces an element, or all of them are added to one.
  std::optional<Range> scattered(const Op& op) const {
    const Range &into = range(op.operands[0]), &updates = range(op.operands[2]);
    const auto& body = function_.block(op.regions[0]);
    const Op& returned = function_.op(body.ops.back());
    if (returned.operands[0] == body.arguments[1]) return into.join(updates);
    const Op* combiner = maker(returned.operands[0]);
    if (!combiner || combiner->kind != OpKind::add_) return Range{};
    return into + (updates * elements(op.operands[2])).join(updates * 0.0);
  }

  const graph::Module& module_;
  const Function& function_;
  std::vector<Range> ranges_;
  std::vector<std::vector<OpId>> uses_;
  std::map<ValueId, bool> bounded_;
  Narrowing found_;
};

bool states_64_bits(const graph::Module& module) {
  for (const Function& function : module.functions)
    for (size_t v = 0; v < function.value_count(); ++v)
      if (const graph::Type& type = function.type(ValueId{static_cast<uint32_t>(v)});
          type.is_tensor() && (is_wide_integer(type.element()) || is_wide_float(type.element())))
        return true;
  return false;
}

std::string at(const SourceLocation& where) {
  return where.known() ? fmt::format(" at {}:{}", where.file, where.line) : "";
}

std::string part(const Narrowed& narrowed, std::string_view effect) {
  const std::string more = narrowed.ops > 1 ? fmt::format(" and {} more", narrowed.ops - 1) : "";
  return fmt::format("{}{}{} {}", narrowed.first, at(narrowed.where), more, effect);
}

}  // namespace

Narrowing narrowing(const graph::Module& module) {
  if (!states_64_bits(module)) return {};
  Function function = inline_calls(module, module.entry());
  remove_dead_ops(function);
  return Analysis(module, function).run();
}

std::string to_text(const Narrowing& narrowing) {
  std::vector<std::string> parts;
  if (narrowing.integers.ops > 0) parts.push_back(part(narrowing.integers, "may exceed them and wrap"));
  if (narrowing.floats.ops > 0) parts.push_back(part(narrowing.floats, "is rounded to f32"));
  if (parts.empty()) return {};
  return fmt::format("computes 64-bit numbers in 32 bits: {}", fmt::join(parts, "; "));
}

}  // namespace opentrn::compiler
