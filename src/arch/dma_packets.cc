#include "arch/dma_packets.h"

#include "arch/tables.h"

namespace opentrn::arch {

DmaPackets dma_packets(const Tables& tables) {
  const FactTable& facts = tables.facts();
  return {.compute_bytes = facts.spec<int64_t>("dma_packets.compute_bytes").value(),
          .collective_bytes = facts.spec<int64_t>("dma_packets.collective_bytes").value()};
}

}  // namespace opentrn::arch
