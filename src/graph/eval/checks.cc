#include "graph/eval/checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/eval/rounding.h"
#include "graph/eval/tensor.h"
#include "graph/text/text.h"
#include "graph/verify.h"

namespace opentrn::graph::eval {

namespace {

std::string text_of(Real value) { return fmt::format("{}", value); }
std::string text_of(Complex value) { return fmt::format("({}, {})", value.real(), value.imag()); }
template <typename T>
std::string text_of(T value) {
  return fmt::format("{}", value);
}

// Calls agree(a, b) on every pair of elements.
template <typename Agree>
std::optional<std::string> first_difference(const Literal& actual, const Literal& expected, Agree&& agree) {
  if (!(actual.type() == expected.type()))
    return fmt::format("{} where {} is expected", actual.type().to_string(), expected.type().to_string());
  const Tensor a = from_literal(actual);
  const Tensor b = from_literal(expected);
  return visit_values(a, [&]<typename T>(const std::vector<T>& values) -> std::optional<std::string> {
    const std::vector<T>& others = b.values<T>();
    size_t wrong = 0;
    size_t first = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (agree(values[i], others[i])) continue;
      if (wrong++ == 0) first = i;
    }
    if (wrong == 0) return std::nullopt;
    return fmt::format("{} of {} elements of {} differ, the first at {}: {} where {} is expected", wrong,
                       values.size(), actual.type().to_string(), first, text_of(values[first]),
                       text_of(others[first]));
  });
}

bool same(Real a, Real b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool near(Real a, Real b, double tolerance) {
  if (same(a, b)) return true;
  return std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= tolerance;
}

// How many steps of the type lie between two values; infinitely many from a finite value to one that is
// not.
uint64_t ulps_between(ElementType type, Real a, Real b) {
  if (same(a, b)) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return UINT64_MAX;
  const uint64_t from_zero_a = encode(type, std::fabs(a));
  const uint64_t from_zero_b = encode(type, std::fabs(b));
  if (std::signbit(a) != std::signbit(b)) return from_zero_a + from_zero_b;
  return from_zero_a > from_zero_b ? from_zero_a - from_zero_b : from_zero_b - from_zero_a;
}

// Compares parts of complex numbers, and reals.
template <typename Part>
auto by_part(Part part) {
  return [part](const auto& a, const auto& b) {
    using T = std::decay_t<decltype(a)>;
    if constexpr (std::is_same_v<T, Complex>)
      return part(a.real(), b.real()) && part(a.imag(), b.imag());
    else if constexpr (std::is_same_v<T, Real>)
      return part(a, b);
    else
      return a == b;
  };
}

const Attribute* find_extra(const Op& op, std::string_view name) {
  if (!op.extra) return nullptr;
  const auto found = op.extra->find(name);
  return found == op.extra->end() ? nullptr : &found->second;
}

template <typename T>
T extra_or(const Op& op, std::string_view name, T absent) {
  const Attribute* attribute = find_extra(op, name);
  if (!attribute) return absent;
  const T* value = attribute->get<T>();
  if (!value) throw Fault(FaultKind::kInput, "check.attribute", fmt::format("{} is of another kind", name));
  return *value;
}

const Literal& expected_constant(const Op& op) {
  const Attribute* attribute = find_extra(op, "value");
  const Literal* literal = attribute ? attribute->get<Literal>() : nullptr;
  if (!literal) throw Fault(FaultKind::kInput, "check.attribute", "the check states no value to expect");
  return *literal;
}

const Function& function_named(const Module& module, const Attribute& attribute) {
  const auto* symbol = attribute.get<SymbolRef>();
  const auto* string = attribute.get<std::string>();
  const std::string name = symbol ? symbol->name : string ? *string : "";
  const Function* function = module.find(name);
  if (!function)
    throw Fault(FaultKind::kInput, "interpreter.run_parallel", fmt::format("no function @{}", name));
  return *function;
}

const AttributeList& list_of(const Attribute* attribute, const char* what) {
  const AttributeList* list = attribute ? attribute->as_list() : nullptr;
  if (!list)
    throw Fault(FaultKind::kInput, "interpreter.run_parallel", fmt::format("{} is not a list", what));
  return *list;
}

}  // namespace

std::optional<std::string> find_unequal(const Literal& actual, const Literal& expected) {
  return first_difference(actual, expected, by_part(same));
}

std::optional<std::string> find_farther(const Literal& actual, const Literal& expected, double tolerance) {
  return first_difference(actual, expected, by_part([&](Real a, Real b) { return near(a, b, tolerance); }));
}

std::optional<std::string> find_far_in_norm(const Literal& actual, const Literal& expected,
                                            double tolerance) {
  double largest = 0;
  visit_values(from_literal(expected), [&]<typename T>(const std::vector<T>& values) {
    if constexpr (std::is_same_v<T, Real> || std::is_same_v<T, Complex>)
      for (const T& value : values)
        if (const double magnitude = std::abs(value); std::isfinite(magnitude))
          largest = std::max(largest, magnitude);
  });
  return find_farther(actual, expected, tolerance * largest);
}

std::optional<std::string> find_ulps_apart(const Literal& actual, const Literal& expected, uint64_t ulps_min,
                                           uint64_t ulps_max) {
  const ElementType type = real_part(actual.type().element());
  return first_difference(actual, expected, by_part([&](Real a, Real b) {
                            const uint64_t ulps = ulps_between(type, a, b);
                            return ulps_min <= ulps && ulps <= ulps_max;
                          }));
}

Options Checker::options() {
  Options options;
  options.custom_call = [this](const Op& op, const Module& module, std::span<const RuntimeValue> operands) {
    return call(op, module, operands);
  };
  return options;
}

// Tolerances of the custom calls are those of the reference interpreter
// (stablehlo/tools/StablehloTranslateMain.cpp), those of the check dialect its attributes' defaults.
void Checker::check(const Op& op, std::string_view target, std::span<const RuntimeValue> operands) {
  const bool constant = target.ends_with("_const");
  if (operands.size() != (constant ? 1u : 2u))
    throw Fault(FaultKind::kInput, std::string(target), fmt::format("{} operands", operands.size()));
  const Literal& actual = operands[0].literal();
  const Literal& expected = constant ? expected_constant(op) : operands[1].literal();
  // A dialect op states its tolerance; a custom call has none of its own.
  const bool dialect_op = op.results.empty() && !op.has(Attr::has_side_effect);
  std::optional<std::string> difference;
  const bool inexact = target.starts_with("check.expect_almost_eq") || target == "check.expect_close";
  if (norm_tolerance_ > 0 && inexact) {
    difference = find_far_in_norm(actual, expected, norm_tolerance_);
  } else if (target == "check.expect_eq" || target == "check.expect_eq_const") {
    difference = find_unequal(actual, expected);
  } else if (target == "check.expect_almost_eq" || target == "check.expect_almost_eq_const") {
    difference = find_farther(actual, expected, extra_or<double>(op, "tolerance", dialect_op ? 1e-4 : 1e-3));
  } else if (target == "check.expect_close") {
    const int64_t most = extra_or<int64_t>(op, "max_ulp_difference", dialect_op ? 1 : 3);
    const int64_t least = extra_or<int64_t>(op, "min_ulp_difference", 0);
    difference = find_ulps_apart(actual, expected, static_cast<uint64_t>(least), static_cast<uint64_t>(most));
  } else {  // check.eq
    difference = is_float(expected.type().element()) || is_complex(expected.type().element())
                     ? find_farther(actual, expected, 1e-4)
                     : find_unequal(actual, expected);
  }
  const std::lock_guard lock(mutex_);
  ++checks_;
  if (difference) throw Fault(FaultKind::kInput, std::string(target), *difference);
}

std::vector<RuntimeValue> Checker::run_parallel(const Op& op, const Module& module,
                                                std::span<const RuntimeValue> operands) {
  const AttributeList& rows = list_of(find_extra(op, "programs"), "programs");
  std::vector<const Function*> functions;
  std::vector<std::vector<RuntimeValue>> arguments;
  size_t next = 0;
  for (const Attribute& row : rows) {
    for (const Attribute& program : list_of(&row, "a row of programs")) {
      const Function& function = function_named(module, program);
      const size_t count = function.arguments().size();
      if (next + count > operands.size())
        throw Fault(FaultKind::kInput, "interpreter.run_parallel", "fewer operands than its programs take");
      functions.push_back(&function);
      arguments.emplace_back(operands.begin() + static_cast<std::ptrdiff_t>(next),
                             operands.begin() + static_cast<std::ptrdiff_t>(next + count));
      next += count;
    }
  }
  Options nested = options();
  std::vector<const Function*> feeds;
  if (const Attribute* infeed = find_extra(op, "infeed"))
    for (const Attribute& name : list_of(infeed, "infeed")) feeds.push_back(&function_named(module, name));
  size_t fed = 0;
  nested.infeed = [&]() -> std::vector<RuntimeValue> {
    const Function* feed = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (fed == feeds.size())
        throw Fault(FaultKind::kInput, "interpreter.run_parallel", "the infeed has no more values");
      feed = feeds[fed++];
    }
    return evaluate(module, *feed, {}, options());
  };
  const auto replicas = static_cast<int64_t>(rows.size());
  const auto results = evaluate_parallel(
      module, functions, replicas, static_cast<int64_t>(functions.size()) / std::max<int64_t>(replicas, 1),
      arguments, nested);
  std::vector<RuntimeValue> all;
  for (const auto& of_process : results) all.insert(all.end(), of_process.begin(), of_process.end());
  return all;
}

std::optional<std::vector<RuntimeValue>> Checker::call(const Op& op, const Module& module,
                                                       std::span<const RuntimeValue> operands) {
  const std::string& target = op.string(Attr::call_target_name);
  if (target == "interpreter.run_parallel") return run_parallel(op, module, operands);
  if (target == "interpreter.print") return std::vector<RuntimeValue>{};
  if (target == "interpreter.probe") {
    const std::lock_guard lock(mutex_);
    probes_[extra_or<std::string>(op, "probe_id", "")].push_back(operands[0].literal());
    return std::vector<RuntimeValue>{operands[0]};
  }
  if (target == "check.expect_serialized_eq") {
    const std::lock_guard lock(mutex_);
    const auto& values = probes_[extra_or<std::string>(op, "probe_id", "")];
    const auto at = static_cast<size_t>(extra_or<int64_t>(op, "iteration", 0));
    ++checks_;
    if (at >= values.size())
      throw Fault(FaultKind::kInput, target, fmt::format("the probe was passed {} times", values.size()));
    if (const auto difference = find_unequal(values[at], operands[0].literal()))
      throw Fault(FaultKind::kInput, target, *difference);
    return std::vector<RuntimeValue>{};
  }
  if (target == "check.eq" || target == "check.expect_eq" || target == "check.expect_eq_const" ||
      target == "check.expect_almost_eq" || target == "check.expect_almost_eq_const" ||
      target == "check.expect_close") {
    check(op, target, operands);
    if (op.results.empty()) return std::vector<RuntimeValue>{};
    return std::vector<RuntimeValue>{{Literal(Type::scalar(ElementType::kI1), {std::byte{1}})}};
  }
  return std::nullopt;
}

namespace {

// main, or else every public function.
std::vector<const Function*> entries_of(const Module& module) {
  if (const Function* main = module.find("main")) return {main};
  std::vector<const Function*> entries;
  for (const Function& function : module.functions)
    if (function.is_public) entries.push_back(&function);
  return entries;
}

void run_part(CheckedPart& report, std::string_view text, std::string_view filename, double norm_tolerance) {
  const Module module = parse_module(text, filename);
  verify(module);
  const std::vector<const Function*> entries = entries_of(module);
  report.name = !module.name.empty() || entries.empty() ? module.name : entries.front()->name;
  for (const Function* entry : entries) {
    if (!entry->arguments().empty()) {
      report.takes_arguments = true;
      continue;
    }
    Checker checker(norm_tolerance);
    evaluate(module, *entry, {}, checker.options());
    report.checks += checker.checks();
  }
}

}  // namespace

std::vector<CheckedPart> run_checked_file(std::string_view text, std::string_view filename,
                                          double norm_tolerance) {
  std::vector<CheckedPart> parts;
  for (const std::string_view part : split_input_file(text)) {
    CheckedPart& report = parts.emplace_back();
    try {
      run_part(report, part, filename, norm_tolerance);
    } catch (const Fault& fault) {
      report.problem = fault.what();
      report.label = fault.label();
    }
  }
  return parts;
}

}  // namespace opentrn::graph::eval
