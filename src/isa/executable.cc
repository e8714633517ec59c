#include "isa/executable.h"

namespace opentrn::isa {

void verify(const Executable& executable) {
  const size_t n = executable.program->size();
  OPENTRN_CHECK(executable.schedule.size() == n, "{} scheduled of {} instructions",
                executable.schedule.size(), n);
  std::vector<bool> seen(n);
  for (size_t i = 0; i < n; ++i) {
    const ScheduledInstruction& entry = executable.schedule[i];
    OPENTRN_CHECK(entry.instruction < n && !seen[entry.instruction], "instruction {} scheduled twice",
                  entry.instruction);
    seen[entry.instruction] = true;
    OPENTRN_CHECK(entry.stream < executable.streams.size(), "stream {} does not exist", entry.stream);
    for (uint32_t wait : executable.waits_of(entry))
      OPENTRN_CHECK(wait < i, "entry {} waits for {}, which comes later", i, wait);
  }
}

}  // namespace opentrn::isa
