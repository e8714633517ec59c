// What a request, a layout and a plan must obey where a user can break it: each rule has a label, which
// stands in messages and in the name of its test.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::collectives {

enum class Rule : uint8_t {
  kRanks,
  kBytes,
  kElements,
  kDivides,
  kCounts,
  kPairs,
  kRoot,
  kReduction,
  kLayout,
  kAlgorithm,
  kServes,
  kPlan,
  kBuffers,
  kMsccl,
};

struct RuleRow {
  Rule rule;
  std::string_view label;  // "collectives.ranks"
  std::string_view text;   // the rule in one sentence
  std::string_view hint;   // what to try
};
std::span<const RuleRow> rules();
const RuleRow& row_of(Rule rule);

template <typename... Args>
[[noreturn]] void refuse(Rule rule, fmt::format_string<Args...> format, Args&&... args) {
  const RuleRow& row = row_of(rule);
  throw Fault(FaultKind::kInput, std::string(row.label), fmt::format(format, std::forward<Args>(args)...),
              std::string(row.hint));
}

}  // namespace opentrn::collectives
