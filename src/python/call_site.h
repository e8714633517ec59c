// The line of the user's kernel that is executing.
#pragma once

#include "isa/program.h"

namespace opentrn::python {

// Interned in `program`; location 0 when no user frame is on the stack. Frames of OpenTrn's own Python
// files are passed over, so an instruction emitted by nl.load() is charged to the kernel.
isa::LocationId call_site(isa::Program& program);

}  // namespace opentrn::python
