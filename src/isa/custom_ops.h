// Custom operators by name: which ones this process has, and how long their authors say they take. What they
// compute is sim/functional's; programs name them, so that a file means the same operator in every process.
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace opentrn::isa {

// Names that begin so are ops of a model that the host does, and go on with the ops, as a StableHLO module.
inline constexpr std::string_view kHostOpPrefix = "opentrn.host:";

// Negative: not stated.
struct CustomOpTime {
  double ns = -1;
  double cycles_per_element = -1;  // of GpSimd, per element of a partition of the longest operand
};

// The operator exists from now on.
void announce_custom_op(std::string_view name);
bool has_custom_op(std::string_view name);
// Of instructions recorded from now on.
void state_custom_op_time(std::string_view name, CustomOpTime time);
CustomOpTime custom_op_time(std::string_view name);
// Of every operator that has one: what a compilation depends on beside its model.
std::map<std::string, CustomOpTime, std::less<>> custom_op_times();

}  // namespace opentrn::isa
