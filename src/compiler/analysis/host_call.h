// A call of the host in the middle of a program, which expand/host_ops.h makes of ops that no kernel takes: a
// custom_call whose configuration is those ops as a StableHLO module (runtime/host_ops.h runs it).
#pragma once

#include <string>
#include <string_view>

#include "graph/module.h"

namespace opentrn::compiler {

inline constexpr std::string_view kHostTarget = "opentrn.host";

bool is_host_call(const graph::Op& op);
// The kinds of its ops, "sort, add", and their arithmetic (cost.h). `op` is a host call.
std::string host_title(const graph::Op& op);
double host_flops(const graph::Op& op);

}  // namespace opentrn::compiler
