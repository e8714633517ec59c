// The line of the user's kernel that is executing.
#pragma once

#include "nki/machine.h"

namespace opentrn::python {

// Interned in the machine's program; location 0 when no user frame is on the stack. Frames of OpenTrn's own
// Python files are passed over, so an instruction emitted by nl.load() is charged to the kernel.
isa::LocationId call_site(nki::Machine& machine);

}  // namespace opentrn::python
