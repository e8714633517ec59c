// isa::Executable: a Program after the backend: where every tensor lies, which engine runs each
// instruction, in which order, and what it waits for.
//
// The order of each stream is the issue order of that engine; streams start together. An
// instruction starts when its engine reaches it and every instruction it waits for is complete.
// Waits are stored as instruction indices; `semaphore_count` is what the hardware form needs after
// waits implied by stream order and by other waits have been removed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/generation.h"
#include "isa/kinds.h"
#include "isa/program.h"

namespace opentrn::isa {

// A stream is an engine's instruction queue or one DMA queue.
using StreamId = uint16_t;
struct Stream {
  Engine engine = Engine::kUnknown;
  uint16_t queue = 0;  // DMA queue number; 0 for compute engines
};

struct Placement {
  bool placed = false;  // HBM tensors are placed too: partition 0, byte_offset from the core's HBM base
  Address address;
};

struct ScheduledInstruction {
  InstructionIndex instruction = 0;
  StreamId stream = 0;
  Engine engine = Engine::kUnknown;   // engine that does the work
  Engine trigger = Engine::kUnknown;  // DMA only: the engine whose queue starts it
  DgeMode dge = DgeMode::kNone;       // DMA only: how descriptors come to be
  uint32_t waits = 0;                 // first of wait_count entries in Executable::waits
  uint32_t wait_count = 0;
};

struct Executable {
  std::shared_ptr<const Program> program;
  Generation generation = Generation::kV3;
  std::vector<Stream> streams;
  std::vector<ScheduledInstruction> schedule;  // a topological order of all streams and waits
  std::vector<uint32_t> waits;                 // indices into `schedule`
  std::vector<Placement> placements;           // by TensorId
  uint32_t semaphore_count = 0;
  int64_t sbuf_bytes_per_partition_used = 0;  // live at once, at most
  int64_t psum_banks_used = 0;
  int64_t hbm_bytes_used = 0;
  int64_t spill_save_bytes = 0;        // to HBM
  int64_t spill_reload_bytes = 0;      // from there, each time
  std::shared_ptr<const Kinds> kinds;  // of the program's instructions, where the backend looked them up

  std::span<const uint32_t> waits_of(const ScheduledInstruction& in) const {
    return {waits.data() + in.waits, in.wait_count};
  }
};

// Throws Fault{kInternal} when the schedule is not a permutation of the program, a stream is out of
// order with its waits, or a wait points forward.
void verify(const Executable& executable);

}  // namespace opentrn::isa
