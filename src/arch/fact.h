// One published, measured or assumed number, with where it comes from.
//
// No hardware number stands in code: every one is a Fact read from tables/*.toml. A Fact whose value
// is not known is still a Fact -- it says which public page is silent -- and reading it is a fault,
// not a zero.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fault.h"

namespace opentrn::arch {

enum class Confidence : uint8_t {
  kDocumented,  // stated by the vendor's documentation
  kMeasured,    // read from a published measurement
  kFitted,      // chosen so that published figures are met; Fact::calibrated_on names them
  kAssumed,     // our choice, or a what-if override
  kUnknown,     // no public source gives it; the value is empty
};
std::string_view to_string(Confidence confidence);

// Integers are exact in a double up to 2^53, which every table value respects.
using FactValue =
    std::variant<std::monostate, bool, double, std::string, std::vector<double>, std::vector<std::string>>;
std::string to_string(const FactValue& value);  // "2.8", "fp32, bf16", "unknown"

struct Alternative {
  FactValue value;
  std::string source;
  std::string note;
};

struct Fact {
  std::string key;  // "neuron_core.v3.tensor_clock_ghz": table, item, name with unit
  FactValue value;
  Confidence confidence = Confidence::kUnknown;
  std::string source;  // "owner/repo@commit:path", or what an assumption rests on
  std::string date;    // of the value, where it ages (prices); else empty
  std::string when;    // the condition under which it holds; else empty
  std::string note;
  std::string reason;  // why this value and not an alternative
  std::vector<Alternative> alternatives;
  // Ids of the published rows (fidelity/rows.csv) that the value was read off or chosen by, with * for any
  // text: a prediction of such a row is no evidence for the model.
  std::vector<std::string> calibrated_on;
  bool information = false;  // nothing computes with it: an override would change no result

  bool known() const { return !std::holds_alternative<std::monostate>(value); }
  // The last part of the key: "tensor_clock_ghz".
  std::string_view name() const;
  // The value as T; kUnspecified when unknown, kInput when it is of another type.
  template <typename T>
  T as() const;
};
template <>
double Fact::as<double>() const;
template <>
int Fact::as<int>() const;
template <>
int64_t Fact::as<int64_t>() const;
template <>
bool Fact::as<bool>() const;
template <>
std::string Fact::as<std::string>() const;
template <>
std::vector<double> Fact::as<std::vector<double>>() const;
template <>
std::vector<std::string> Fact::as<std::vector<std::string>>() const;

// A table value as a member of a struct: reads like a T, and knows its Fact.
//
//   int partitions = core.partitions;                    // throws when unknown
//   if (core.tensor_clock_ghz.known()) ...
//   core.tensor_clock_ghz.fact().source
//
// The value is copied out when read; a hot loop should keep it in a local. The Fact lives as long as
// the Tables it came from.
template <typename T>
class Spec {
 public:
  Spec() = default;
  explicit Spec(const Fact* fact) : fact_(fact) {
    if (fact_ != nullptr && fact_->known()) value_ = fact_->as<T>();
  }
  operator T() const { return value(); }  // NOLINT(google-explicit-constructor): reads as the value
  const T& value() const {
    if (!known()) [[unlikely]]
      throw_unknown();
    return value_;
  }
  T value_or(T otherwise) const { return known() ? value_ : otherwise; }
  bool known() const { return fact_ != nullptr && fact_->known(); }
  bool listed() const { return fact_ != nullptr; }  // false: the table has no such row for this item
  const Fact& fact() const {
    OPENTRN_CHECK(fact_ != nullptr, "this value has no row in the tables");
    return *fact_;
  }

 private:
  [[noreturn]] void throw_unknown() const {
    if (fact_ == nullptr)
      throw Fault(FaultKind::kUnspecified, "arch.unknown", "the tables have no row for this value",
                  "look at `opentrn describe`, or add a row with its source");
    throw Fault(FaultKind::kUnspecified, fact_->key, "no public source gives this value",
                "set one for a what-if run: --set " + fact_->key + "=<value>");
  }
  const Fact* fact_ = nullptr;
  T value_{};
};

}  // namespace opentrn::arch
