// Data movement by the DMA engines. Opcodes with their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_DMA_INSTRUCTIONS(X)  \
  X(kDmaCopy, dma_copy, 0)           \
  X(kDmaTranspose, dma_transpose, 1) \
  X(kDmaCompute, dma_compute, 2)

namespace opentrn::isa::slot {

namespace dma_copy {
enum { kDst, kSrc };
enum { kAPriority, kAOobMode, kADgeMode };
}  // namespace dma_copy
namespace dma_transpose {
enum { kDst, kSrc };
enum { kAAxes, kAPriority, kADgeMode, kAOobMode };
}  // namespace dma_transpose
namespace dma_compute {
enum { kDst, kSrc0 };
enum { kAReduceOp, kAUniqueIndices, kAOobMode };
}  // namespace dma_compute

}  // namespace opentrn::isa::slot
