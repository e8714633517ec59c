// @opentrn.recurrence(factors, data, start): a custom call of the compiler's own, which passes write for what
// follows from the element before (expand/extreme_scatter.cc) and a kernel takes (lowering/recurrence.cc).
// Of fp32 rows along the last dimension
//
//   result[i] = (factors[i] op0 result[i - 1]) op1 data[i],  result[-1] = start
//
// and `start` has one element in each row. The backend_config names both ops, and says "backward" where i - 1
// is i + 1, from the last element on.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string>

#include "graph/module.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

inline constexpr const char* kRecurrenceTarget = "opentrn.recurrence";

struct RecurrenceCall {
  graph::OpKind first = graph::OpKind::multiply_, second = graph::OpKind::add_;
  bool is_backward = false;

  std::string words() const {
    return std::string(graph::name(first)) + " " + std::string(graph::name(second)) +
           (is_backward ? " backward" : "");
  }
  // What changes nothing, as a factor and as data.
  double neutral_factor() const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (first == graph::OpKind::multiply_) return 1;
    return first == graph::OpKind::add_ ? 0 : first == graph::OpKind::minimum_ ? kInfinity : -kInfinity;
  }
  double neutral_term() const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (second == graph::OpKind::add_) return 0;
    return second == graph::OpKind::minimum_ ? kInfinity : -kInfinity;
  }
  // Those that there are.
  static std::array<RecurrenceCall, 5> kinds() {
    using graph::OpKind;
    return {RecurrenceCall{OpKind::multiply_, OpKind::add_}, RecurrenceCall{OpKind::add_, OpKind::minimum_},
            RecurrenceCall{OpKind::add_, OpKind::maximum_},
            RecurrenceCall{OpKind::minimum_, OpKind::maximum_},
            RecurrenceCall{OpKind::maximum_, OpKind::minimum_}};
  }
  static std::optional<RecurrenceCall> of(const graph::Op& op) {
    using graph::OpKind;
    if (op.kind != OpKind::custom_call_ || op.string(graph::Attr::call_target_name) != kRecurrenceTarget)
      return std::nullopt;
    const std::string words = op.string(graph::Attr::backend_config);
    for (RecurrenceCall call : kinds())
      for (const bool is_backward : {false, true}) {
        call.is_backward = is_backward;
        if (call.words() == words) return call;
      }
    return std::nullopt;
  }
};

}  // namespace opentrn::compiler
