// How DMA rings of compute and of collectives share the memory that both want.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace opentrn::arch {

class Tables;

// Bytes that a ring moves before another has its turn: the ring with the larger packets gets more.
struct DmaPackets {
  int64_t compute_bytes = 0, collective_bytes = 0;  // of collectives: of their stream 0

  // Of each stream of collectives, where they are not all `collective_bytes`; those behind the last one have
  // its packets [assumed].
  std::vector<int64_t> of_stream = {};

  int64_t collective_bytes_of(int stream) const {
    if (of_stream.empty()) return collective_bytes;
    return of_stream[std::min(static_cast<size_t>(stream), of_stream.size() - 1)];
  }

  // Of memory that both want, from 0 to 1: what collectives of a stream get.
  double of_collectives(int stream = 0) const {
    const int64_t bytes = collective_bytes_of(stream);
    return static_cast<double>(bytes) / static_cast<double>(bytes + compute_bytes);
  }
};

// As the runtime has them where no variable says otherwise.
DmaPackets dma_packets(const Tables& tables);

}  // namespace opentrn::arch
