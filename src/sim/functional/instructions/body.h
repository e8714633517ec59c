// The bodies: one function per opcode, in the file named in the list, found by `body(opcode)`.
#pragma once

#include "sim/functional/context.h"
#include "sim/functional/unwritten.h"

namespace opentrn::sim {

using Body = void (*)(Context&);

// Null for registers and loops, which core.cc executes, and for sendrecv and core_barrier (core_group.cc).
Body body(isa::Opcode opcode);
// True when the opcode is executed somewhere.
bool is_executed(isa::Opcode opcode);

// Partitions of one of GpSimd's cores, which index by themselves.
inline constexpr int64_t kGpSimdCorePartitions = 16;

namespace bodies {
#define OPENTRN_BODY(opcode, name, number) void name(Context&);
OPENTRN_INSTRUCTIONS_WITH_BODY(OPENTRN_BODY)
#undef OPENTRN_BODY
}  // namespace bodies

}  // namespace opentrn::sim
