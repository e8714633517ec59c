// The timing model: how long a compiled program takes, and why.
//
//   const auto result = sim::timing::simulate(executable, arch::timing(Generation::kV3));
//   result.total_ns, result.bound_by()
//
// What is modelled: engines issue in order from their own queues and wait on semaphores; instructions stream
// (initiation interval) and their results appear later (latency); the Tensor engine loads weights behind the
// running multiply and slows down after idling; DMA triggers, descriptor generation, sixteen DMA engines, HBM
// shared by the cores of a stack; shared SBUF and PSUM ports; loops, stepped until steady, then extrapolated.
// Values are never seen: run-time trip counts must be given. All numbers come from the timing table.
//
// Where it stops being true: transfers on one DMA engine are served first come, first served (the hardware
// goes round robin between queues); refresh and bank conflicts of HBM are in its sustained rate only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "arch/timing_table.h"
#include "isa/executable.h"
#include "trace/trace.h"

namespace opentrn::sim::timing {

struct SimulateOptions {
  bool keep_instructions = false;  // fill the per-instruction arrays and the critical path of the result
  bool dma_engine_tracks = false;  // one trace event per DMA engine and transfer
  // Iterations of loops whose bounds are not constants: by loop_begin or while_begin instruction.
  std::map<isa::InstructionIndex, int64_t> trip_counts{};
  // As observed when the program was executed: runs of (iterations, entries), by loop, in order of entry.
  std::map<isa::InstructionIndex, std::vector<std::pair<int64_t, int64_t>>> observed_trips{};
  std::optional<int64_t> default_trip_count{};
  int64_t iterations_stepped_max = 64;  // of one loop, before the rest is extrapolated from the last ones
};

// Of one core's instructions, by schedule index; loops: the last iteration stepped.
struct InstructionTimes {
  std::vector<double> start_ns, end_ns;
  std::vector<trace::Stall> stall;
  std::vector<uint32_t> waited_for;  // schedule index that ended the stall, or trace::kNoIndex
};

struct TimingResult : trace::Summary {
  std::vector<InstructionTimes> instructions_of;      // per core, when asked for
  std::vector<trace::CriticalSegment> critical_path;  // latest first; when asked for, or with a trace
};

// kNotModelled for an instruction without a sourced cost; kInput for a loop whose trip count is unknown.
TimingResult simulate(const isa::Executable& executable, const arch::TimingTable& table,
                      trace::TraceSink* sink = nullptr, const SimulateOptions& options = {});

// When all cores of an HBM stack run the program, from one moment on: until the last has ended. Each has DMA
// engines of its own, and they share the bandwidth of the stack. 0: the cores do not share one.
double beside_copies_ns(const isa::Executable& executable, const arch::TimingTable& table,
                        const SimulateOptions& options = {});

// The cores of one logical core, run together: they share an HBM stack and meet at sendrecv and core_barrier.
TimingResult simulate(std::span<const isa::Executable* const> cores, const arch::TimingTable& table,
                      trace::TraceSink* sink = nullptr, const SimulateOptions& options = {});

}  // namespace opentrn::sim::timing
