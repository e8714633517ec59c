// What a timed run spent its time on, in numbers that a report can print as they are.
//
//   trace::Recorder recorder;
//   sim::timing::simulate(cores, table, &recorder);
//   const profile::Profile profile = profile::analyse(recorder.trace(), cores, tables);
//   std::cout << profile::text(profile);
//
// Two kinds of time are told apart. Busy time is how long an engine was occupied; engines overlap, so
// busy times add up to more than the run. Critical time is the part of the critical path that belongs
// to an instruction: every nanosecond of the run belongs to one, so critical times add up to the run,
// and they say what to make faster. Of a loop that was extrapolated, the last iteration stepped counts for
// all that were not (trace::Event::times).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arch/tables.h"
#include "isa/executable.h"
#include "trace/trace.h"

namespace opentrn::profile {

struct OpcodeCount {
  isa::Opcode opcode;
  int64_t count = 0;
};

// One line of the user's source. A program that has none, as an ONNX model's, is told by its ops' names in
// place of lines: `file` is then empty and `function` the name; both are empty where nothing is known.
struct Line {
  std::string file;
  int line = 0;
  std::string function;
  double critical_ns = 0;
  double busy_ns = 0;   // of engines; DMA transfers are in dma_ns
  double stall_ns = 0;  // engines were idle before its instructions, waiting
  double dma_ns = 0;    // its transfers, summed
  int64_t dma_bytes = 0;
  double flops = 0;
  int64_t instructions = 0;
  std::vector<OpcodeCount> opcodes;  // most frequent first
};

// One engine, summed over the cores.
struct Engine {
  isa::Engine engine;
  trace::EngineTotals totals;
  double active_percent = 0;  // of the run, per core
};

// Idle time of one engine for one reason.
struct StallTime {
  isa::Engine engine;
  trace::Stall cause;
  double ns = 0;
  int64_t count = 0;
};

// Idle time that instructions of one line caused to instructions of another.
struct Wait {
  uint32_t waiting = 0, waited_for = 0;  // indices into Profile::lines
  isa::Engine engine;                    // that was idle
  isa::Opcode waited_for_opcode = isa::Opcode::kDmaCopy;
  trace::Stall cause;
  double ns = 0;
  int64_t count = 0;
};

struct OpcodeTime {
  isa::Engine engine;
  isa::Opcode opcode;
  int64_t count = 0;
  double busy_ns = 0;
};

struct DmaQueue {
  std::string name;
  int core = 0;
  int64_t transfers = 0;
  int64_t bytes = 0;
  double active_ns = 0;        // at least one transfer in flight
  double achieved_gb_s = 0;    // bytes / active_ns
  double latency_mean_ns = 0;  // of a transfer, trigger to last byte
  double latency_max_ns = 0;
  std::array<double, trace::kStallCount> stall_ns{};
};

// On-chip memory, as much as held something at once while the program ran; limits are negative where the
// tables do not say.
struct Memory {
  int64_t sbuf_bytes_per_partition_used = 0;
  int64_t sbuf_bytes_per_partition_limit = -1;
  int64_t psum_banks_used = 0;
  int64_t psum_banks_limit = -1;
  int64_t hbm_bytes_used = 0;
  int64_t spill_save_bytes = 0;
  int64_t spill_reload_bytes = 0;
};

struct Share {
  trace::Resource resource;
  double ns = 0;
  double percent = 0;
};

struct Profile {
  trace::Summary summary;
  int64_t events = 0;               // in the trace
  std::vector<Share> bound_by;      // largest first, without zeros
  std::vector<Engine> engines;      // those with instructions, or idle with a queue
  std::vector<StallTime> stalls;    // largest first
  std::vector<Line> lines;          // most critical time first
  std::vector<Wait> waits;          // largest first
  std::vector<OpcodeTime> opcodes;  // most busy time first
  std::vector<DmaQueue> queues;     // most bytes first
  Memory memory;

  // Percent of the run, of every core's peak. Their names and definitions are Neuron Explorer's.
  double mfu_estimated_percent = 0;  // without transposes, of the BF16 peak
  double hfu_estimated_percent = 0;  // with transposes
  double mbu_estimated_percent = 0;  // HBM bytes over the bandwidth of the HBM stack
  double arithmetic_intensity = 0;   // flops without transposes per HBM byte; 0 without HBM traffic
  double ridge_intensity = 0;        // of the machine: peak flops of the cores / bandwidth of the HBM stack
  double bytes_per_descriptor = 0;
  double bytes_per_transfer = 0;
};

// `cores` are the executables that were timed, in the order in which they were given to simulate().
Profile analyse(const trace::Trace& trace, std::span<const isa::Executable* const> cores,
                const arch::Tables& tables);

}  // namespace opentrn::profile
