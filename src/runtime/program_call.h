// How another extension module of the process runs a compiled model that opentrn._core keeps.
//
// _core and the PyTorch device (src/torch) are shared objects of their own: what passes between them is this
// C function, so that neither needs the other's C++ types.
#pragma once

namespace opentrn::runtime {

// Runs `model`, which its Python object keeps alive. `inputs`, `outputs`: addresses of row-major arrays in
// the order and the element types of the program's ports. The caller holds no interpreter lock. Returns 0;
// otherwise the calling thread's Python error is set.
using ProgramCall = int (*)(void* model, const void* const* inputs, void* const* outputs);

}  // namespace opentrn::runtime
