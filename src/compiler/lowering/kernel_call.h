// Calls of the user's own NKI kernels: the kernel's program stands among the compiled ones.
#pragma once

#include <string>

#include "graph/module.h"

namespace opentrn::compiler {

// What reports call the op: its kind, and of a kernel call whose kernel it is.
std::string op_title(const graph::Op& op);

}  // namespace opentrn::compiler
