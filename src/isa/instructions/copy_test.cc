// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void tensor_copy(Draft& d) { d.same(2); }

void memset(Draft& d) { d.operands = {d.sbuf(kF32, {64, 16}), Operand::imm(1.5)}; }

void tensor_copy_predicated(Draft& d) {
  d.operands = {d.sbuf(kF32, {64, 16}), d.sbuf(kF32, {64, 16}), d.sbuf(DType::kUint8, {64, 16})};
  d.attributes = {word(0)};
}

void nc_transpose(Draft& d) { d.operands = {d.psum(kF32, {16, 64}), d.sbuf(kF32, {64, 16})}; }

void nc_stream_shuffle(Draft& d) {
  std::vector<int64_t> mask(32);
  for (int64_t i = 0; i < 32; ++i) mask[static_cast<size_t>(i)] = i == 5 ? 255 : 31 - i;
  d.same(2);
  d.attributes = {d.list(mask)};
}

void local_gather(Draft& d) {
  d.operands = {d.sbuf(kF32, {64, 32}), d.sbuf(kF32, {64, 100}), d.sbuf(kU16, {64, 2})};
  d.attributes = {word(1), word(-1)};
}

void nc_n_gather(Draft& d) {
  d.operands = {d.sbuf(kF32, {64, 8}), d.sbuf(kF32, {64, 100}), d.sbuf(kU32, {64, 8})};
}

}  // namespace drafts

std::vector<Case> copy_cases() {
  return {
      {"tensor_copy.C1", Opcode::kTensorCopy,
       [](Draft& d) {
         using namespace slot::tensor_copy;
         d.shape(kSrc, {64, 17});
       }},
      {"tensor_copy.C2", Opcode::kTensorCopy,
       [](Draft& d) {
         using namespace slot::tensor_copy;
         d.engine = Engine::kScalar;
         d.generation = Generation::kV2;
       }},
      {"tensor_copy.C3", Opcode::kTensorCopy,
       [](Draft& d) {
         using namespace slot::tensor_copy;
         d.engine = Engine::kScalar;
         d.generation = Generation::kV4;
         d.space(kDst, MemorySpace::kPsum);
         d.indirect(kDst, IndirectKind::kTensor);
       }},
      {"memset.C1", Opcode::kMemset,
       [](Draft& d) {
         using namespace slot::memset;
         d.dtype(kDst, DType::kFloat8E5M2x4);
       }},
      {"tensor_copy_predicated.C1", Opcode::kTensorCopyPredicated,
       [](Draft& d) {
         using namespace slot::tensor_copy_predicated;
         d.shape(kPredicate, {64, 17});
       }},
      {"tensor_copy_predicated.C2", Opcode::kTensorCopyPredicated,
       [](Draft& d) {
         using namespace slot::tensor_copy_predicated;
         d.dtype(kPredicate, DType::kInt8);
       }},
      {"tensor_copy_predicated.C3", Opcode::kTensorCopyPredicated,
       [](Draft& d) {
         using namespace slot::tensor_copy_predicated;
         d.dtype(kSrc, DType::kBFloat16);
       }},
      {"tensor_copy_predicated.C4", Opcode::kTensorCopyPredicated,
       [](Draft& d) {
         using namespace slot::tensor_copy_predicated;
         d.space(kSrc, MemorySpace::kPsum);
         d.space(kPredicate, MemorySpace::kPsum);
       }},
      {"nc_transpose.C1", Opcode::kNcTranspose,
       [](Draft& d) {
         using namespace slot::nc_transpose;
         d.shape(kDst, {64, 16});
       }},
      {"nc_transpose.C2", Opcode::kNcTranspose,
       [](Draft& d) {
         using namespace slot::nc_transpose;
         d.dtype(kDst, DType::kInt32);
       }},
      {"nc_transpose.C3", Opcode::kNcTranspose,
       [](Draft& d) {
         using namespace slot::nc_transpose;
         d.engine = Engine::kTensor;
         d.space(kDst, MemorySpace::kSbuf);
       }},
      {"nc_transpose.C4", Opcode::kNcTranspose,
       [](Draft& d) {
         using namespace slot::nc_transpose;
         d.engine = Engine::kVector;
       }},
      {"nc_transpose.C5", Opcode::kNcTranspose,
       [](Draft& d) {
         using namespace slot::nc_transpose;
         d.space(kDst, MemorySpace::kSbuf);
       }},
      {"nc_stream_shuffle.C1", Opcode::kNcStreamShuffle,
       [](Draft& d) {
         using namespace slot::nc_stream_shuffle;
         d.dtype(kDst, DType::kInt32);
       }},
      {"nc_stream_shuffle.C2", Opcode::kNcStreamShuffle,
       [](Draft& d) {
         using namespace slot::nc_stream_shuffle;
         d.shape(kDst, {64, 15});
       }},
      {"nc_stream_shuffle.C3", Opcode::kNcStreamShuffle,
       [](Draft& d) {
         using namespace slot::nc_stream_shuffle;
         d.set_list(kAShuffleMask, {0, 1, 2});
       }},
      {"nc_stream_shuffle.C4", Opcode::kNcStreamShuffle,
       [](Draft& d) {
         using namespace slot::nc_stream_shuffle;
         d.set_list(kAShuffleMask, std::vector<int64_t>(32, 32));
       }},
      {"local_gather.C1", Opcode::kLocalGather,
       [](Draft& d) {
         using namespace slot::local_gather;
         d.shape(kIndex, {32, 2});
       }},
      {"local_gather.C2", Opcode::kLocalGather,
       [](Draft& d) {
         using namespace slot::local_gather;
         d.shape(kDst, {60, 32});
         d.shape(kSrcBuffer, {60, 100});
         d.shape(kIndex, {60, 2});
       }},
      {"local_gather.C3", Opcode::kLocalGather,
       [](Draft& d) {
         using namespace slot::local_gather;
         d.set(kANumElemPerIdx, 3);
       }},
      {"local_gather.C4", Opcode::kLocalGather,
       [](Draft& d) {
         using namespace slot::local_gather;
         d.set(kANumValidIndices, 33);
       }},
      {"local_gather.C5", Opcode::kLocalGather,
       [](Draft& d) {
         using namespace slot::local_gather;
         d.dtype(kIndex, DType::kInt32);
       }},
      {"local_gather.C6", Opcode::kLocalGather,
       [](Draft& d) {
         using namespace slot::local_gather;
         d.dtype(kDst, DType::kInt32);
       }},
      {"local_gather.C7", Opcode::kLocalGather,
       [](Draft& d) {
         using namespace slot::local_gather;
         d.shape(kDst, {64, 31});
       }},
      {"nc_n_gather.C1", Opcode::kNcNGather,
       [](Draft& d) {
         using namespace slot::nc_n_gather;
         d.shape(kDst, {64, 9});
       }},
      {"nc_n_gather.C2", Opcode::kNcNGather,
       [](Draft& d) {
         using namespace slot::nc_n_gather;
         d.shape(kData, {32, 100});
       }},
      {"nc_n_gather.C3", Opcode::kNcNGather,
       [](Draft& d) {
         using namespace slot::nc_n_gather;
         d.dtype(kDst, DType::kInt32);
       }},
      {"nc_n_gather.C4", Opcode::kNcNGather,
       [](Draft& d) {
         using namespace slot::nc_n_gather;
         d.dtype(kIndices, DType::kInt32);
       }},
  };
}

}  // namespace opentrn::isa
