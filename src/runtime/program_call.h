// How another extension module of the process runs a compiled model that opentrn._core keeps, and counts the
// memory of its tensors.
//
// _core and the PyTorch device (src/torch) are shared objects of their own: what passes between them are
// these C functions, so that neither needs the other's C++ types.
#pragma once

#include <cstdint>

namespace opentrn::runtime {

// Runs `model`, which its Python object keeps alive. `inputs`, `outputs`: addresses of row-major arrays in
// the order and the element types of the program's ports. The execution counts for the logical core `core`.
// The caller holds no interpreter lock. Returns 0; otherwise the calling thread's Python error is set.
using ProgramCall = int (*)(void* model, int core, const void* const* inputs, void* const* outputs);

// A tensor of so many bytes begins (positive) or ends (negative) in the memory of a logical core: for the
// tools that list this process, which the first tensor makes them do. Returns what the end of the tensor is
// to hand back as `record`, 0 where nobody lists the process: a child of a fork does not count the ends of
// its parent's tensors. Any thread, no interpreter lock needed; never fails.
using MemoryCall = uint64_t (*)(int core, int64_t bytes, uint64_t record);

}  // namespace opentrn::runtime
