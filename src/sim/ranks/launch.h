// The ranks of a launch on one clock: their cores, the CC-cores beside them, and the fabric between them.
//
// A collective of a rank's program is a trigger on an engine's queue. It goes to the queue of the core's
// CC-cores, and starts when it is at the head there and all ranks of its group have come to it. Its steps are
// flows over the fabric, together with those of the collectives that are under way at the time. Its end
// releases what waits for it in the programs. Meanwhile engines go on with what does not wait.
//
// Assumed, as no public source says it:
//  - One queue for each core, in the order of its program. (NKI's collectives have no streams.)
//  - No bytes flow before the last rank has come.
//  - Collectives take HBM bandwidth before the kernels' own DMA, to the share that their packets have
//    (arch/dma_packets.h). What they have to move above that passes where kernels leave room in the same
//    microsecond; else it passes after their end, which is so much later: as a whole, and for all ranks that
//    are not through. DMA rings of collectives take nothing from the others.
//  - Operands in SBUF take the time of operands in HBM.
//  - A collective that starts slows those under way from then on; what ranks have already been given of them
//    stays.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "arch/dma_packets.h"
#include "arch/tables.h"
#include "collectives/predict.h"
#include "fabric/platform.h"
#include "sim/timing/logical_core.h"
#include "trace/trace.h"

namespace opentrn::sim::ranks {

using timing::Ps;

// Of one group, at one place of the program.
struct Collective {
  std::string label;                           // of its events: "all_reduce"
  std::vector<int> group;                      // ranks
  std::vector<collectives::Request> requests;  // at once; their ranks are numbered as in the group
  int core = 0;                                // whose program triggers it
  bool of_one_core = false;                    // its operands are that core's (SBUF); else of all of a rank
  int priority = 0;                            // 0 goes first
};

// Where a collective lies in a core's program.
struct Copies {
  size_t collective = 0;  // its number in the launch
  timing::CollectiveCopies tensors;
};

struct Rank {
  std::vector<const isa::Executable*> cores;
  std::vector<std::vector<Copies>> collectives;  // [core], in the order of its program
  trace::TraceSink* sink = nullptr;
  timing::SimulateOptions options;
};

struct CollectiveTimes {
  std::vector<std::string> algorithms, why;   // of each request
  std::vector<Ps> triggered, arrived, ended;  // by rank of the group
  std::vector<collectives::Plan> plans;
  std::vector<collectives::Run> runs;  // of these plans, with their arrivals
  std::vector<collectives::RunTime> times;
};

struct Result {
  std::vector<timing::TimingResult> ranks;
  std::vector<CollectiveTimes> collectives;
};

// `cores`: the physical cores of each rank on the platform. Cores that share an HBM stack share its
// bandwidth.
Result simulate(const arch::Tables& tables, const fabric::Platform& platform,
                const collectives::RankCores& cores, std::span<const Rank> ranks,
                std::span<const Collective> collectives, const arch::DmaPackets& packets);

}  // namespace opentrn::sim::ranks
