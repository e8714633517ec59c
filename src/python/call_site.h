// The line of the user's kernel that is executing.
#pragma once

#include <Python.h>
#include <frameobject.h>

#include "nki/machine.h"

namespace opentrn::python {

// Interned in the machine's program; location 0 when no user frame is on the stack. Frames of OpenTrn's own
// Python files are passed over, so an instruction emitted by nl.load() is charged to the kernel. The function
// of a place in a helper also says which line of the kernel called it: "load_rows, called from kernel.py:40
// in kernel".
isa::LocationId call_site(nki::Machine& machine);

// The offset of the bytecode that `frame` executes.
inline int bytecode_offset(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return frame->f_lasti * static_cast<int>(sizeof(_Py_CODEUNIT));
#endif
}

}  // namespace opentrn::python
