// Which earlier instructions each instruction must come after.
//
// Found in program order over placed memory: read after write, write after read, write after write, by the
// bytes touched; registers; edges and no-reorder blocks that the program states; loop markers, which every
// instruction is kept on its side of. Only what is needed is kept: of several producers on one in-order
// engine the latest.
//
// Not listed, because an engine runs its instructions in order:
//   * write after read and write after write on one engine;
//   * a matmul accumulating onto the previous one's PSUM region: the array adds in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/engine_choice.h"
#include "backend/lifetime.h"
#include "base/large_pages.h"
#include "isa/executable.h"

namespace opentrn::backend {

inline constexpr int kComputeStreams = isa::kEngineCount;  // stream number = engine number
// The stream of an instruction: compute engines first, then DMA queues.
inline uint8_t stream_of(const EngineChoice& choice) {
  const bool dma = choice.engine == isa::Engine::kDma;
  return static_cast<uint8_t>(dma ? kComputeStreams + choice.queue : static_cast<int>(choice.engine));
}
inline constexpr int kStreamsMax = kComputeStreams + 2 * isa::kEngineCount;
constexpr bool is_dma_stream(uint8_t stream) { return stream >= kComputeStreams; }

struct Dependency {
  uint32_t producer : 31;
  uint32_t reads_result : 1;  // the producer wrote what this instruction reads
};

class Dependencies {
 public:
  std::span<const Dependency> of(isa::InstructionIndex i) const {
    return {edges_.data() + begin_[i], begin_[i + 1] - begin_[i]};
  }
  size_t edge_count() const { return edges_.size(); }

 private:
  friend class DependencyFinder;
  LargeVector<uint64_t> begin_;
  LargeVector<Dependency> edges_;
};

// `in_order`: streams of compute engines will keep program order. Without it every producer is listed.
Dependencies find_dependencies(const isa::Program& program, const isa::Kinds& kinds,
                               const std::vector<EngineChoice>& choices,
                               const std::vector<isa::Placement>& placements, const arch::NeuronCore& core,
                               bool in_order);

}  // namespace opentrn::backend
