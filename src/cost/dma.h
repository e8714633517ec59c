// What a DMA instruction asks of the DMA engines.
//
// A transfer is cut into descriptors: pieces contiguous on both sides, never across a partition. SBUF
// partition p is served by DMA engine p * engines / partitions, so a tile of few partitions uses few engines;
// a transfer that transposes is dealt out by rows of HBM instead, and between HBM and HBM all engines work.
// An engine needs for each descriptor its bytes at the engine's rate and a little more, for each transfer a
// little more (the semaphore update), and, on v2, for a transfer of 8 descriptors a least time. The published
// curve of throughput against bytes per partition is flat below 2 KiB because GpSimd writes the descriptors
// of its transfers one by one (dma_engines.h), not because of the engines: they are done with 8 descriptors
// of 256 B in 97 ns. Sources: DMA overview, DMA bandwidth guide, timing tables.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "arch/timing_table.h"
#include "cost/rules.h"
#include "isa/executable.h"

namespace opentrn::cost {

inline constexpr int kDmaEnginesMax = 32;

struct DmaWork {
  int64_t bytes = 0;  // written
  int64_t descriptors = 0;
  int64_t hbm_read = 0;
  int64_t hbm_written = 0;
  int first_engine = 0;  // engines [first_engine, last_engine] take part
  int last_engine = 0;
  Ps first_busy = 0, middle_busy = 0, last_busy = 0;  // how long each is occupied
  int engines() const { return last_engine - first_engine + 1; }
};

class DmaRules {
 public:
  DmaRules(const arch::TimingTable& table, int64_t partitions);
  // `placements` by TensorId; tiles lie at partition 0 where there are none yet.
  DmaWork work(const isa::Program& program, const isa::Instruction& instruction,
               std::span<const isa::Placement> placements, const std::vector<PatternFacts>& patterns) const;
  int engines() const { return engines_; }

 private:
  struct Side;
  Side side_of(const isa::Program& program, std::span<const isa::Placement> placements,
               const isa::Operand& operand, const std::vector<PatternFacts>& patterns) const;
  int64_t transposed_rows(const isa::Program& program, std::span<const isa::Operand> operands,
                          int64_t partitions) const;
  double rate_of(const isa::Program& program, const isa::Instruction& in) const;

  int engines_ = 0;
  int64_t partitions_ = 0;
  Generation generation_ = Generation::kV3;
  double ps_per_byte_ = 0;  // of one engine
  double descriptor_min_ps_ = 0, descriptor_extra_ps_ = 0;
  double transfer_min_ps_ = 0, transfer_extra_ps_ = 0, transfer_min_descriptors_ = 1;
  int64_t split_bytes_ = 1;
  double transpose_hbm_rate_ = 1, transpose_sbuf_rate_ = 1, read_add_write_rate_ = 1;
};

}  // namespace opentrn::cost
