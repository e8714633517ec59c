// How DMA rings of compute and of collectives share the memory that both want.
#pragma once

#include <cstdint>

namespace opentrn::arch {

class Tables;

// Bytes that a ring moves before another has its turn: the ring with the larger packets gets more.
struct DmaPackets {
  int64_t compute_bytes = 0, collective_bytes = 0;

  // Of memory that both want, from 0 to 1: what collectives get.
  double of_collectives() const {
    return static_cast<double>(collective_bytes) / static_cast<double>(collective_bytes + compute_bytes);
  }
};

// As the runtime has them where no variable says otherwise.
DmaPackets dma_packets(const Tables& tables);

}  // namespace opentrn::arch
