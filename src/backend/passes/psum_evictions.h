// Hoists PSUM evictions: a tile that leaves PSUM for the last time is copied out as soon as it can be, which
// shortens its live range.
//
// A kernel may sum up more tiles than there are banks and copy all of them out afterwards: nki-library's
// bwmm_shard_on_I.py has twelve. AWS's compiler orders such a kernel otherwise, as it runs on hardware with
// eight. Used where the order of the kernel does not fit.
#pragma once

#include <memory>

#include "isa/program.h"

namespace opentrn::backend {

// The program itself when nothing moves, or when it has control flow. Instructions move up only, and not past
// one that touches a tensor of theirs, unless both only read it.
std::shared_ptr<const isa::Program> hoist_psum_evictions(const std::shared_ptr<const isa::Program>& program);

}  // namespace opentrn::backend
