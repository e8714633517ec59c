// Which kernels read what a group makes, and how they want it.
#pragma once

#include "compiler/lowering/lowering.h"

namespace opentrn::compiler {

// Whether every reader of what the group makes, or of what is made of it row by row, takes rows as they are.
bool rows_are_read(const Lowering& lowering, int group);

// Whether only gathers read it, as their indices, or what is made of it for them element by element.
bool only_gathers_read(const Lowering& lowering, int group);

}  // namespace opentrn::compiler
