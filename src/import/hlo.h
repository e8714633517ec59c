// XLA's own form of a program: a serialised HloModuleProto, or the HloProto around it.
#pragma once

#include <cstddef>
#include <span>

#include "graph/module.h"

namespace opentrn::import {

// The entry computation becomes @main; tuples are taken apart. Throws Fault{kInput, "hlo.proto"}, and
// kNotModelled for opcodes that are not taken (by name).
graph::Module read_hlo(std::span<const std::byte> bytes);

}  // namespace opentrn::import
