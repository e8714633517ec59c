// @opentrn.recurrence(factors, data, start): a custom call of the compiler's own, which passes write for what
// follows from the element before (expand/extreme_scatter.cc) and a kernel takes (lowering/recurrence.cc).
// Of fp32 rows along the last dimension
//
//   result[i] = (factors[i] op0 result[i - 1]) op1 data[i],  result[-1] = start
//
// and `start` has one element in each row. The backend_config names both ops.
#pragma once

#include <optional>
#include <string>

#include "graph/module.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

inline constexpr const char* kRecurrenceTarget = "opentrn.recurrence";

struct RecurrenceCall {
  graph::OpKind first = graph::OpKind::multiply_, second = graph::OpKind::add_;

  std::string words() const {
    return std::string(graph::name(first)) + " " + std::string(graph::name(second));
  }
  static std::optional<RecurrenceCall> of(const graph::Op& op) {
    using graph::OpKind;
    if (op.kind != OpKind::custom_call_ || op.string(graph::Attr::call_target_name) != kRecurrenceTarget)
      return std::nullopt;
    const std::string words = op.string(graph::Attr::backend_config);
    for (const RecurrenceCall call : {RecurrenceCall{}, RecurrenceCall{OpKind::minimum_, OpKind::maximum_},
                                      RecurrenceCall{OpKind::maximum_, OpKind::minimum_}})
      if (call.words() == words) return call;
    return std::nullopt;
  }
};

}  // namespace opentrn::compiler
