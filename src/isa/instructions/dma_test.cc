// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void dma_copy(Draft& d) {
  d.operands = {d.sbuf(kF32, {64, 16}), d.tile(kHbm, kF32, {64, 16})};
  d.attributes = {word(-1), word(0), word(0)};
}

void dma_transpose(Draft& d) {
  d.operands = {d.sbuf(kBf16, {64, 16}), d.tile(kHbm, kBf16, {16, 64})};
  d.attributes = {d.list({1, 0}), word(-1), word(0), word(0)};
}

void dma_compute(Draft& d) {
  d.operands = {d.tile(kHbm, kF32, {64, 16}), d.sbuf(kF32, {64, 16}), d.tile(kHbm, kF32, {64, 16})};
  d.attributes = {word(AluOp::kAdd), word(1), word(0)};
}

}  // namespace drafts

std::vector<Case> dma_cases() {
  return {
      {"dma_copy.C1", Opcode::kDmaCopy,
       [](Draft& d) {
         using namespace slot::dma_copy;
         d.shape(kSrc, {64, 15});
       }},
      {"dma_copy.C2", Opcode::kDmaCopy,
       [](Draft& d) {
         using namespace slot::dma_copy;
         d.generation = Generation::kV2;
         d.set(kADgeMode, 2);
       }},
      {"dma_copy.C3", Opcode::kDmaCopy,
       [](Draft& d) {
         using namespace slot::dma_copy;
         d.indirect(kSrc, IndirectKind::kVector);
         d.set(kADgeMode, 2);
       }},
      {"dma_copy.C4", Opcode::kDmaCopy,
       [](Draft& d) {
         using namespace slot::dma_copy;
         d.set(kADgeMode, 2);
         d.engine = Engine::kGpSimd;
       }},
      {"dma_copy.C5", Opcode::kDmaCopy,
       [](Draft& d) {
         using namespace slot::dma_copy;
         d.set(kAPriority, 0);
       }},
      {"dma_copy.C6", Opcode::kDmaCopy,
       [](Draft& d) {
         using namespace slot::dma_copy;
         d.set(kADgeMode, 2);
         d.dtype(kSrc, DType::kBFloat16);
       }},
      {"dma_copy.C7", Opcode::kDmaCopy, [](Draft& d) { d.engine = Engine::kScalar; }},
      {"dma_transpose.C1", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose;
         d.space(kDst, MemorySpace::kHbm);
       }},
      {"dma_transpose.C2", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose;
         d.dtype(kDst, DType::kFloat16);
       }},
      {"dma_transpose.C3", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose;
         d.shape(kDst, {64, 15});
       }},
      {"dma_transpose.C4", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose;
         d.set_list(kAAxes, {0, 1});
       }},
      {"dma_transpose.C5", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose;
         d.generation = Generation::kV2;
         d.set(kADgeMode, 2);
       }},
      {"dma_transpose.C6", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose;
         d.dtype(kSrc, DType::kFloat32);
         d.dtype(kDst, DType::kFloat32);
         d.set(kADgeMode, 2);
       }},
      {"dma_transpose.C7", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose;
         d.indirect(kSrc, IndirectKind::kVector);
         d.set(kADgeMode, 2);
       }},
      {"dma_transpose.C8", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose;
         d.set(kAPriority, 0);
       }},
      {"dma_transpose.C9", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose;
         d.set(kADgeMode, 1);
       }},
      {"dma_compute.C1", Opcode::kDmaCompute,
       [](Draft& d) {
         using namespace slot::dma_compute;
         d.operands.resize(18, d.operands[1]);
       }},
      {"dma_compute.C2", Opcode::kDmaCompute,
       [](Draft& d) {
         using namespace slot::dma_compute;
         d.set(kAReduceOp, AluOp::kMaximum);
       }},
      {"dma_compute.C3", Opcode::kDmaCompute,
       [](Draft& d) {
         using namespace slot::dma_compute;
         d.shape(2, {64, 17});
       }},
      {"dma_compute.C4", Opcode::kDmaCompute,
       [](Draft& d) {
         using namespace slot::dma_compute;
         d.indirect(kDst, IndirectKind::kVector);
         d.operands.push_back(d.operands[1]);
       }},
      {"dma_compute.C5", Opcode::kDmaCompute,
       [](Draft& d) {
         using namespace slot::dma_compute;
         d.indirect(kDst, IndirectKind::kVector);
         d.set(kAUniqueIndices, 0);
       }},
  };
}

}  // namespace opentrn::isa
