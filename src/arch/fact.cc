#include "arch/fact.h"

#include <cmath>

#include <fmt/ranges.h>

namespace opentrn::arch {
namespace {

[[noreturn]] void throw_wrong_type(const Fact& fact, std::string_view expected) {
  throw Fault(FaultKind::kInput, fact.key,
              fmt::format("the value is '{}'; expected {}", to_string(fact.value), expected));
}

template <typename T>
T get(const Fact& fact, std::string_view expected) {
  if (!fact.known())
    throw Fault(FaultKind::kUnspecified, fact.key, "no public source gives this value",
                fmt::format("set one for a what-if run: --set {}=<value>", fact.key));
  if (const T* value = std::get_if<T>(&fact.value)) return *value;
  throw_wrong_type(fact, expected);
}

double get_integer(const Fact& fact) {
  const double value = get<double>(fact, "an integer");
  if (value != std::floor(value) || std::abs(value) > 9007199254740992.0)
    throw_wrong_type(fact, "an integer");
  return value;
}

struct ValuePrinter {
  std::string operator()(std::monostate) const { return "unknown"; }
  std::string operator()(bool value) const { return value ? "yes" : "no"; }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<double>& value) const {
    return fmt::format("{}", fmt::join(value, ", "));
  }
  std::string operator()(const std::vector<std::string>& value) const {
    return fmt::format("{}", fmt::join(value, ", "));
  }
};

}  // namespace

std::string_view to_string(Confidence confidence) {
  switch (confidence) {
    case Confidence::kDocumented: return "documented";
    case Confidence::kMeasured: return "measured";
    case Confidence::kFitted: return "fitted";
    case Confidence::kAssumed: return "assumed";
    case Confidence::kUnknown: return "unknown";
  }
  return "?";
}

std::string to_string(const FactValue& value) { return std::visit(ValuePrinter{}, value); }

std::string_view Fact::name() const { return std::string_view(key).substr(key.rfind('.') + 1); }

template <>
double Fact::as<double>() const {
  return get<double>(*this, "a number");
}
template <>
int Fact::as<int>() const {
  return static_cast<int>(get_integer(*this));
}
template <>
int64_t Fact::as<int64_t>() const {
  return static_cast<int64_t>(get_integer(*this));
}
template <>
bool Fact::as<bool>() const {
  return get<bool>(*this, "true or false");
}
template <>
std::string Fact::as<std::string>() const {
  return get<std::string>(*this, "text");
}
template <>
std::vector<double> Fact::as<std::vector<double>>() const {
  return get<std::vector<double>>(*this, "a list of numbers");
}
template <>
std::vector<std::string> Fact::as<std::vector<std::string>>() const {
  return get<std::vector<std::string>>(*this, "a list of texts");
}

}  // namespace opentrn::arch
