// How much of the on-chip memories held something at once while the program ran: from the first access to
// each tensor to the end of the last, by the places that the allocator gave them: never more than there is.
// The scheduler starts instructions before their turn, so it is more than in program order.
#pragma once

#include "arch/arch.h"
#include "isa/executable.h"
#include "trace/trace.h"

namespace opentrn::profile {

struct HighWater {
  int64_t sbuf_bytes_per_partition =
      0;  // a tensor of up to 32 rows counts a quarter, of up to 64 rows a half
  int64_t psum_banks = 0;
};

// Of core `core`, whose executable this is.
HighWater high_water(const trace::Trace& trace, uint16_t core, const isa::Executable& executable,
                     const arch::NeuronCore& limits);

}  // namespace opentrn::profile
