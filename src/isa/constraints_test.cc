// One case per label of constraints(): a legal instruction, changed until exactly that rule breaks.
#include "isa/constraints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "isa/constraints_draft.h"

namespace opentrn::isa {
namespace {

struct Case {
  std::string_view label;
  Opcode opcode;
  void (*break_rule)(Draft&);
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"isa.C1", Opcode::kRangeSelect, [](Draft& d) { d.generation = 2; }},
      {"isa.C2", Opcode::kTensorTensor, [](Draft& d) { d.engine = Engine::kScalar; }},
      {"isa.C3", Opcode::kTensorTensor, [](Draft& d) { d.number(1, 2.0); }},
      {"isa.C4", Opcode::kTensorTensor, [](Draft& d) { d.space(1, MemorySpace::kHbm); }},
      {"isa.C5", Opcode::kTensorCopy,
       [](Draft& d) { d.engine = Engine::kGpSimd; d.space(1, MemorySpace::kPsum); }},
      {"isa.C6", Opcode::kReciprocal, [](Draft& d) { d.shape(0, {129, 16}); d.shape(1, {129, 16}); }},
      {"isa.C7", Opcode::kReciprocal, [](Draft& d) { d.place(0, 32); }},
      {"isa.C8", Opcode::kReciprocal,
       [](Draft& d) { d.shape(0, {64, 1 << 20}); d.shape(1, {64, 1 << 20}); }},
      {"isa.C9", Opcode::kTensorCopy, [](Draft& d) { d.dtype(1, DType::kInt64); }},
      {"isa.C10", Opcode::kTensorCopy, [](Draft& d) { d.indirect(1, IndirectKind::kTensor); }},
      {"isa.C11", Opcode::kTensorCopy,
       [](Draft& d) { d.shape(0, {32, 16}); d.walk(1, {{32, 32}, {1, 16}}); }},
      {"isa.C12", Opcode::kTensorCopy,
       [](Draft& d) {
         d.shape(0, {64, 32}); d.shape(1, {64, 400});
         d.walk(1, {{400, 64}, {200, 2}, {90, 2}, {40, 2}, {18, 2}, {7, 2}});
       }},
      {"isa.C13", Opcode::kTensorTensor, [](Draft& d) { d.set(0, AluOp::kAbsMax); }},
      {"dma_copy.C1", Opcode::kDmaCopy,
       [](Draft& d) { using namespace slot::dma_copy; d.shape(kSrc, {64, 15}); }},
      {"dma_copy.C2", Opcode::kDmaCopy,
       [](Draft& d) { using namespace slot::dma_copy; d.generation = 2; d.set(kADgeMode, 2); }},
      {"dma_copy.C3", Opcode::kDmaCopy,
       [](Draft& d) {
         using namespace slot::dma_copy; d.indirect(kSrc, IndirectKind::kVector); d.set(kADgeMode, 2);
       }},
      {"dma_copy.C4", Opcode::kDmaCopy,
       [](Draft& d) { using namespace slot::dma_copy; d.set(kADgeMode, 2); d.engine = Engine::kGpSimd; }},
      {"dma_copy.C5", Opcode::kDmaCopy,
       [](Draft& d) { using namespace slot::dma_copy; d.set(kAPriority, 2); }},
      {"dma_copy.C6", Opcode::kDmaCopy,
       [](Draft& d) { using namespace slot::dma_copy; d.set(kADgeMode, 2); d.dtype(kSrc, DType::kBFloat16); }},
      {"dma_transpose.C1", Opcode::kDmaTranspose,
       [](Draft& d) { using namespace slot::dma_transpose; d.space(kDst, MemorySpace::kHbm); }},
      {"dma_transpose.C2", Opcode::kDmaTranspose,
       [](Draft& d) { using namespace slot::dma_transpose; d.dtype(kDst, DType::kFloat16); }},
      {"dma_transpose.C3", Opcode::kDmaTranspose,
       [](Draft& d) { using namespace slot::dma_transpose; d.shape(kDst, {64, 15}); }},
      {"dma_transpose.C4", Opcode::kDmaTranspose,
       [](Draft& d) { using namespace slot::dma_transpose; d.set_list(kAAxes, {0, 1}); }},
      {"dma_transpose.C5", Opcode::kDmaTranspose,
       [](Draft& d) { using namespace slot::dma_transpose; d.generation = 2; d.set(kADgeMode, 2); }},
      {"dma_transpose.C6", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose; d.dtype(kSrc, DType::kFloat32); d.dtype(kDst, DType::kFloat32);
         d.set(kADgeMode, 2);
       }},
      {"dma_transpose.C7", Opcode::kDmaTranspose,
       [](Draft& d) {
         using namespace slot::dma_transpose; d.indirect(kSrc, IndirectKind::kVector); d.set(kADgeMode, 2);
       }},
      {"dma_compute.C1", Opcode::kDmaCompute,
       [](Draft& d) { using namespace slot::dma_compute; d.operands.resize(18, d.operands[1]); }},
      {"dma_compute.C2", Opcode::kDmaCompute,
       [](Draft& d) { using namespace slot::dma_compute; d.set(kAReduceOp, AluOp::kMaximum); }},
      {"dma_compute.C3", Opcode::kDmaCompute,
       [](Draft& d) { using namespace slot::dma_compute; d.shape(2, {64, 17}); }},
      {"dma_compute.C4", Opcode::kDmaCompute,
       [](Draft& d) {
         using namespace slot::dma_compute; d.indirect(kDst, IndirectKind::kVector);
         d.operands.push_back(d.operands[1]);
       }},
      {"dma_compute.C5", Opcode::kDmaCompute,
       [](Draft& d) {
         using namespace slot::dma_compute; d.indirect(kDst, IndirectKind::kVector);
         d.set(kAUniqueIndices, 0);
       }},
      {"tensor_copy.C1", Opcode::kTensorCopy,
       [](Draft& d) { using namespace slot::tensor_copy; d.shape(kSrc, {64, 17}); }},
      {"tensor_copy.C2", Opcode::kTensorCopy,
       [](Draft& d) { using namespace slot::tensor_copy; d.engine = Engine::kScalar; d.generation = 2; }},
      {"tensor_copy.C3", Opcode::kTensorCopy,
       [](Draft& d) {
         using namespace slot::tensor_copy; d.engine = Engine::kScalar; d.generation = 4;
         d.space(kDst, MemorySpace::kPsum); d.indirect(kDst, IndirectKind::kTensor);
       }},
      {"memset.C1", Opcode::kMemset,
       [](Draft& d) { using namespace slot::memset; d.dtype(kDst, DType::kFloat8E5M2x4); }},
      {"tensor_copy_predicated.C1", Opcode::kTensorCopyPredicated,
       [](Draft& d) { using namespace slot::tensor_copy_predicated; d.shape(kPredicate, {64, 17}); }},
      {"tensor_copy_predicated.C2", Opcode::kTensorCopyPredicated,
       [](Draft& d) { using namespace slot::tensor_copy_predicated; d.dtype(kPredicate, DType::kInt8); }},
      {"tensor_copy_predicated.C3", Opcode::kTensorCopyPredicated,
       [](Draft& d) { using namespace slot::tensor_copy_predicated; d.dtype(kSrc, DType::kBFloat16); }},
      {"tensor_copy_predicated.C4", Opcode::kTensorCopyPredicated,
       [](Draft& d) {
         using namespace slot::tensor_copy_predicated; d.space(kSrc, MemorySpace::kPsum);
         d.space(kPredicate, MemorySpace::kPsum);
       }},
      {"nc_transpose.C1", Opcode::kNcTranspose,
       [](Draft& d) { using namespace slot::nc_transpose; d.shape(kDst, {64, 16}); }},
      {"nc_transpose.C2", Opcode::kNcTranspose,
       [](Draft& d) { using namespace slot::nc_transpose; d.dtype(kDst, DType::kInt32); }},
      {"nc_transpose.C3", Opcode::kNcTranspose,
       [](Draft& d) {
         using namespace slot::nc_transpose; d.engine = Engine::kTensor; d.space(kDst, MemorySpace::kSbuf);
       }},
      {"nc_transpose.C4", Opcode::kNcTranspose,
       [](Draft& d) { using namespace slot::nc_transpose; d.engine = Engine::kVector; }},
      {"nc_transpose.C5", Opcode::kNcTranspose,
       [](Draft& d) { using namespace slot::nc_transpose; d.space(kDst, MemorySpace::kSbuf); }},
      {"nc_stream_shuffle.C1", Opcode::kNcStreamShuffle,
       [](Draft& d) { using namespace slot::nc_stream_shuffle; d.dtype(kDst, DType::kInt32); }},
      {"nc_stream_shuffle.C2", Opcode::kNcStreamShuffle,
       [](Draft& d) { using namespace slot::nc_stream_shuffle; d.shape(kDst, {64, 15}); }},
      {"nc_stream_shuffle.C3", Opcode::kNcStreamShuffle,
       [](Draft& d) { using namespace slot::nc_stream_shuffle; d.set_list(kAShuffleMask, {0, 1, 2}); }},
      {"nc_stream_shuffle.C4", Opcode::kNcStreamShuffle,
       [](Draft& d) {
         using namespace slot::nc_stream_shuffle; d.set_list(kAShuffleMask, std::vector<int64_t>(32, 32));
       }},
      {"local_gather.C1", Opcode::kLocalGather,
       [](Draft& d) { using namespace slot::local_gather; d.shape(kIndex, {32, 2}); }},
      {"local_gather.C2", Opcode::kLocalGather,
       [](Draft& d) {
         using namespace slot::local_gather; d.shape(kDst, {60, 32}); d.shape(kSrcBuffer, {60, 100});
         d.shape(kIndex, {60, 2});
       }},
      {"local_gather.C3", Opcode::kLocalGather,
       [](Draft& d) { using namespace slot::local_gather; d.set(kANumElemPerIdx, 3); }},
      {"local_gather.C4", Opcode::kLocalGather,
       [](Draft& d) { using namespace slot::local_gather; d.set(kANumValidIndices, 33); }},
      {"local_gather.C5", Opcode::kLocalGather,
       [](Draft& d) { using namespace slot::local_gather; d.dtype(kIndex, DType::kInt32); }},
      {"local_gather.C6", Opcode::kLocalGather,
       [](Draft& d) { using namespace slot::local_gather; d.dtype(kDst, DType::kInt32); }},
      {"local_gather.C7", Opcode::kLocalGather,
       [](Draft& d) { using namespace slot::local_gather; d.shape(kDst, {64, 31}); }},
      {"nc_n_gather.C1", Opcode::kNcNGather,
       [](Draft& d) { using namespace slot::nc_n_gather; d.shape(kDst, {64, 9}); }},
      {"nc_n_gather.C2", Opcode::kNcNGather,
       [](Draft& d) { using namespace slot::nc_n_gather; d.shape(kData, {32, 100}); }},
      {"nc_n_gather.C3", Opcode::kNcNGather,
       [](Draft& d) { using namespace slot::nc_n_gather; d.dtype(kDst, DType::kInt32); }},
      {"nc_n_gather.C4", Opcode::kNcNGather,
       [](Draft& d) { using namespace slot::nc_n_gather; d.dtype(kIndices, DType::kInt32); }},
      {"sendrecv.C1", Opcode::kSendRecv,
       [](Draft& d) { using namespace slot::sendrecv; d.space(kSrc, MemorySpace::kHbm); }},
      {"sendrecv.C2", Opcode::kSendRecv,
       [](Draft& d) { using namespace slot::sendrecv; d.dtype(kDst, DType::kInt32); }},
      {"sendrecv.C3", Opcode::kSendRecv,
       [](Draft& d) { using namespace slot::sendrecv; d.shape(kDst, {64, 17}); }},
      {"sendrecv.C4", Opcode::kSendRecv,
       [](Draft& d) { using namespace slot::sendrecv; d.set(kASendToRank, 2); }},
      {"sendrecv.C5", Opcode::kSendRecv,
       [](Draft& d) {
         using namespace slot::sendrecv; d.shape(kDst, {64, 257}); d.shape(kSrc, {64, 257});
         d.set(kADmaEngine, 2);
       }},
      {"core_barrier.C1", Opcode::kCoreBarrier,
       [](Draft& d) { using namespace slot::core_barrier; d.set_list(kACores, {0, 1, 2}); }},
      {"nc_matmul.C1", Opcode::kNcMatmul,
       [](Draft& d) { using namespace slot::nc_matmul; d.shape(kMoving, {64, 256}); }},
      {"nc_matmul.C2", Opcode::kNcMatmul,
       [](Draft& d) { using namespace slot::nc_matmul; d.set(kATileRows, 64); d.set(kATileColumns, 128); }},
      {"nc_matmul.C3", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul; d.shape(kStationary, {128, 129}); d.shape(kDst, {128, 256});
       }},
      {"nc_matmul.C4", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul; d.shape(kMoving, {128, 513}); d.shape(kDst, {64, 513});
       }},
      {"nc_matmul.C5", Opcode::kNcMatmul,
       [](Draft& d) { using namespace slot::nc_matmul; d.shape(kDst, {65, 256}); }},
      {"nc_matmul.C6", Opcode::kNcMatmul,
       [](Draft& d) { using namespace slot::nc_matmul; d.dtype(kStationary, DType::kInt8); }},
      {"nc_matmul.C7", Opcode::kNcMatmul,
       [](Draft& d) { using namespace slot::nc_matmul; d.set(kATileRows, 96); d.set(kATileColumns, 128); }},
      {"nc_matmul.C8", Opcode::kNcMatmul,
       [](Draft& d) { using namespace slot::nc_matmul; d.generation = 2; d.set(kAPerfMode, 1); }},
      {"nc_matmul.C9", Opcode::kNcMatmul,
       [](Draft& d) { using namespace slot::nc_matmul; d.set(kAPerfMode, 1); }},
      {"nc_matmul.C10", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul; d.dtype(kStationary, DType::kFloat8E4M3);
         d.dtype(kMoving, DType::kFloat8E5M2); d.set(kAPerfMode, 1);
       }},
      {"nc_matmul.C11", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul; d.dtype(kStationary, DType::kFloat8E4M3);
         d.dtype(kMoving, DType::kFloat8E5M2); d.shape(kStationary, {128, 2, 32});
         d.shape(kMoving, {128, 2, 128}); d.shape(kDst, {32, 128}); d.set(kAPerfMode, 1);
         d.set(kATileRows, 128); d.set(kATileColumns, 64);
       }},
      {"nc_matmul.C12", Opcode::kNcMatmul,
       [](Draft& d) { using namespace slot::nc_matmul; d.dtype(kMoving, DType::kFloat32); }},
      {"nc_matmul.C13", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul; d.generation = 4; d.dtype(kStationary, DType::kFloat8E4M3);
         d.dtype(kMoving, DType::kFloat8E4M3Fn);
       }},
      {"nc_matmul.C14", Opcode::kNcMatmul,
       [](Draft& d) { using namespace slot::nc_matmul; d.dtype(kDst, DType::kBFloat16); }},
      {"nc_matmul.C15", Opcode::kNcMatmul,
       [](Draft& d) { using namespace slot::nc_matmul; d.set(kAAccumulate, 2); }},
      {"nc_matmul.C16", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul; d.generation = 4; d.indirect(kMoving, IndirectKind::kTensor);
         d.shape(kStationary, {64, 64}); d.shape(kMoving, {64, 256});
         d.indirect(kMoving, IndirectKind::kTensor); d.set(kATileRows, 64); d.set(kATileColumns, 128);
         d.set(kATileRow, 64);
       }},
      {"nc_matmul.C17", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul; d.generation = 4; d.indirect(kMoving, IndirectKind::kTensor);
         d.set(kAIsTranspose, 1);
       }},
      {"nc_matmul.C18", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul; d.generation = 4; d.dtype(kStationary, DType::kFloat32);
         d.dtype(kMoving, DType::kFloat32); d.indirect(kMoving, IndirectKind::kTensor);
       }},
      {"nc_matmul.C19", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul; d.shape(kDst, {64, 1024}); d.walk(kDst, {{1024, 64}, {1, 256}}, 300);
       }},
      {"nc_matmul_mx.C1", Opcode::kNcMatmulMx,
       [](Draft& d) { using namespace slot::nc_matmul_mx; d.shape(kMoving, {64, 256}); }},
      {"nc_matmul_mx.C2", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx; d.shape(kMoving, {48, 256}); d.shape(kStationary, {48, 64});
       }},
      {"nc_matmul_mx.C3", Opcode::kNcMatmulMx,
       [](Draft& d) { using namespace slot::nc_matmul_mx; d.shape(kStationary, {128, 63}); }},
      {"nc_matmul_mx.C4", Opcode::kNcMatmulMx,
       [](Draft& d) { using namespace slot::nc_matmul_mx; d.shape(kMoving, {128, 4097}); }},
      {"nc_matmul_mx.C5", Opcode::kNcMatmulMx,
       [](Draft& d) { using namespace slot::nc_matmul_mx; d.shape(kDst, {64, 255}); }},
      {"nc_matmul_mx.C6", Opcode::kNcMatmulMx,
       [](Draft& d) { using namespace slot::nc_matmul_mx; d.dtype(kMoving, DType::kUint32); }},
      {"nc_matmul_mx.C7", Opcode::kNcMatmulMx,
       [](Draft& d) { using namespace slot::nc_matmul_mx; d.dtype(kDst, DType::kFloat16); }},
      {"nc_matmul_mx.C8", Opcode::kNcMatmulMx,
       [](Draft& d) { using namespace slot::nc_matmul_mx; d.dtype(kMovingScale, DType::kFloat32); }},
      {"nc_matmul_mx.C9", Opcode::kNcMatmulMx,
       [](Draft& d) { using namespace slot::nc_matmul_mx; d.set(kATileRow, 64); }},
      {"nc_matmul_mx.C10", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx; d.set(kATileRows, 128); d.set(kATileColumns, 64);
       }},
      {"nc_matmul_mx.C11", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx; d.set(kATileRows, 64); d.set(kATileColumns, 128);
       }},
      {"nc_matmul_sparse.C1", Opcode::kNcMatmulSparse,
       [](Draft& d) { using namespace slot::nc_matmul_sparse; d.set(kAPattern, 304); }},
      {"nc_matmul_sparse.C2", Opcode::kNcMatmulSparse,
       [](Draft& d) { using namespace slot::nc_matmul_sparse; d.shape(kMoving, {64, 4, 256}); }},
      {"nc_matmul_sparse.C3", Opcode::kNcMatmulSparse,
       [](Draft& d) { using namespace slot::nc_matmul_sparse; d.shape(kStationary, {128, 129}); }},
      {"nc_matmul_sparse.C4", Opcode::kNcMatmulSparse,
       [](Draft& d) {
         using namespace slot::nc_matmul_sparse; d.shape(kDst, {64, 1024});
         d.walk(kDst, {{1024, 64}, {1, 256}}, 300);
       }},
      {"tensor_tensor.C1", Opcode::kTensorTensor,
       [](Draft& d) { using namespace slot::tensor_tensor; d.shape(kData2, {64, 1}); }},
      {"tensor_tensor.C2", Opcode::kTensorTensor,
       [](Draft& d) {
         using namespace slot::tensor_tensor; d.space(kData1, MemorySpace::kPsum);
         d.space(kData2, MemorySpace::kPsum);
       }},
      {"tensor_tensor.C3", Opcode::kTensorTensor,
       [](Draft& d) { using namespace slot::tensor_tensor; d.set(kAOp, AluOp::kBitwiseAnd); }},
      {"tensor_tensor.C4", Opcode::kTensorTensor,
       [](Draft& d) {
         using namespace slot::tensor_tensor; d.set(kAOp, AluOp::kPower); d.space(kDst, MemorySpace::kPsum);
       }},
      {"tensor_tensor.C5", Opcode::kTensorTensor,
       [](Draft& d) { using namespace slot::tensor_tensor; d.set(kAOp, AluOp::kAbs); }},
      {"tensor_tensor.C6", Opcode::kTensorTensor,
       [](Draft& d) {
         using namespace slot::tensor_tensor; d.engine = Engine::kGpSimd;
         for (int i : {0, 1, 2}) d.dtype(i, DType::kInt32);
         d.set(kAOp, AluOp::kBitwiseAnd);
       }},
      {"tensor_scalar.C1", Opcode::kTensorScalar,
       [](Draft& d) { using namespace slot::tensor_scalar; d.shape(kDst, {64, 1}); }},
      {"tensor_scalar.C2", Opcode::kTensorScalar,
       [](Draft& d) { using namespace slot::tensor_scalar; d.shape(kOperand0, {64, 2}); }},
      {"tensor_scalar.C3", Opcode::kTensorScalar,
       [](Draft& d) { using namespace slot::tensor_scalar; d.set(kAOp0, AluOp::kBitwiseOr); }},
      {"tensor_scalar.C4", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar; d.engine = Engine::kScalar; d.set(kAOp0, AluOp::kMaximum);
       }},
      {"tensor_scalar.C5", Opcode::kTensorScalar,
       [](Draft& d) { using namespace slot::tensor_scalar; d.none(kOperand1); }},
      {"tensor_scalar.C6", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar; d.set(kAOp0, AluOp::kBitwiseOr);
         d.set(kAOp1, AluOp::kBitwiseAnd);
       }},
      {"tensor_scalar.C7", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar; d.engine = Engine::kGpSimd;
         for (int i : {0, 1, 2}) d.dtype(i, DType::kInt32);
         d.set(kAOp0, AluOp::kBitwiseOr);
         d.set(kAOp1, AluOp::kBitwiseAnd);
       }},
      {"tensor_scalar.C8", Opcode::kTensorScalar,
       [](Draft& d) { using namespace slot::tensor_scalar; d.dtype(kOperand0, DType::kBFloat16); }},
      {"tensor_scalar.C9", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar; d.engine = Engine::kScalar; d.generation = 4;
         d.space(kDst, MemorySpace::kPsum); d.indirect(kDst, IndirectKind::kTensor);
       }},
      {"tensor_scalar.C10", Opcode::kTensorScalar, [](Draft& d) { d.engine = Engine::kGpSimd; }},
      {"tensor_scalar.C11", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar; d.set(kAOp1, AluOp::kRsqrt); d.space(kData, MemorySpace::kPsum);
       }},
      {"scalar_tensor_tensor.C1", Opcode::kScalarTensorTensor,
       [](Draft& d) { using namespace slot::scalar_tensor_tensor; d.shape(kOperand1, {64, 1}); }},
      {"scalar_tensor_tensor.C2", Opcode::kScalarTensorTensor,
       [](Draft& d) { using namespace slot::scalar_tensor_tensor; d.shape(kOperand0, {64, 2}); }},
      {"scalar_tensor_tensor.C3", Opcode::kScalarTensorTensor,
       [](Draft& d) {
         using namespace slot::scalar_tensor_tensor; d.space(kData, MemorySpace::kPsum);
         d.space(kOperand1, MemorySpace::kPsum);
       }},
      {"scalar_tensor_tensor.C4", Opcode::kScalarTensorTensor,
       [](Draft& d) { using namespace slot::scalar_tensor_tensor; d.set(kAOp1, AluOp::kBitwiseAnd); }},
      {"tensor_reduce.C1", Opcode::kTensorReduce,
       [](Draft& d) { using namespace slot::tensor_reduce; d.set(kAAxes, 3); }},
      {"tensor_reduce.C2", Opcode::kTensorReduce,
       [](Draft& d) { using namespace slot::tensor_reduce; d.shape(kDst, {64, 1}); }},
      {"tensor_reduce.C3", Opcode::kTensorReduce,
       [](Draft& d) { using namespace slot::tensor_reduce; d.set(kAOp, AluOp::kEqual); }},
      {"tensor_reduce.C4", Opcode::kTensorReduce,
       [](Draft& d) { using namespace slot::tensor_reduce; d.set(kAOp, AluOp::kBitwiseAnd); }},
      {"tensor_reduce.C5", Opcode::kTensorReduce,
       [](Draft& d) {
         using namespace slot::tensor_reduce; d.dtype(kDst, DType::kInt32); d.dtype(kData, DType::kInt32);
         d.set(kAOp, AluOp::kBitwiseAnd); d.set(kANegate, 1);
       }},
      {"tensor_scalar_reduce.C1", Opcode::kTensorScalarReduce,
       [](Draft& d) { using namespace slot::tensor_scalar_reduce; d.shape(kDst, {64, 1}); }},
      {"tensor_scalar_reduce.C2", Opcode::kTensorScalarReduce,
       [](Draft& d) {
         using namespace slot::tensor_scalar_reduce; d.operands[kOperand0] = d.operands[kData];
       }},
      {"tensor_scalar_reduce.C3", Opcode::kTensorScalarReduce,
       [](Draft& d) { using namespace slot::tensor_scalar_reduce; d.shape(kReduceRes, {64, 2}); }},
      {"tensor_scalar_reduce.C4", Opcode::kTensorScalarReduce,
       [](Draft& d) { using namespace slot::tensor_scalar_reduce; d.set(kAOp0, AluOp::kBitwiseAnd); }},
      {"tensor_scalar_reduce.C5", Opcode::kTensorScalarReduce,
       [](Draft& d) { using namespace slot::tensor_scalar_reduce; d.set(kAReduceOp, AluOp::kSubtract); }},
      {"tensor_scalar_reduce.C6", Opcode::kTensorScalarReduce,
       [](Draft& d) { using namespace slot::tensor_scalar_reduce; d.set(kAReduceCmd, ReduceCmd::kIdle); }},
      {"tensor_scalar_reduce.C7", Opcode::kTensorScalarReduce,
       [](Draft& d) {
         using namespace slot::tensor_scalar_reduce; d.set(kAReduceCmd, ReduceCmd::kLoadReduce);
       }},
      {"tensor_scalar_cumulative.C1", Opcode::kTensorScalarCumulative,
       [](Draft& d) { using namespace slot::tensor_scalar_cumulative; d.shape(kDst, {64, 1}); }},
      {"tensor_scalar_cumulative.C2", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative; d.operands[kImm0] = d.operands[kSrc];
       }},
      {"tensor_scalar_cumulative.C3", Opcode::kTensorScalarCumulative,
       [](Draft& d) { using namespace slot::tensor_scalar_cumulative; d.set(kAOp0, AluOp::kBitwiseAnd); }},
      {"tensor_scalar_cumulative.C4", Opcode::kTensorScalarCumulative,
       [](Draft& d) { using namespace slot::tensor_scalar_cumulative; d.set(kAOp1, AluOp::kEqual); }},
      {"tensor_scalar_cumulative.C5", Opcode::kTensorScalarCumulative,
       [](Draft& d) { using namespace slot::tensor_scalar_cumulative; d.dtype(kSrc, DType::kInt32); }},
      {"tensor_scalar_cumulative.C6", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative;
         d.operands[kImm0] = d.tile(MemorySpace::kSbuf, DType::kBFloat16, {64, 1});
       }},
      {"tensor_scalar_cumulative.C7", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative; d.set(kAReduceCmd, ReduceCmd::kIdle);
       }},
      {"tensor_scalar_cumulative.C8", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative; d.set(kAReduceCmd, ReduceCmd::kLoadReduce);
       }},
      {"tensor_tensor_scan.C1", Opcode::kTensorTensorScan,
       [](Draft& d) { using namespace slot::tensor_tensor_scan; d.shape(kData1, {64, 1}); }},
      {"tensor_tensor_scan.C2", Opcode::kTensorTensorScan,
       [](Draft& d) {
         using namespace slot::tensor_tensor_scan; d.space(kData0, MemorySpace::kPsum);
         d.space(kData1, MemorySpace::kPsum);
       }},
      {"tensor_tensor_scan.C3", Opcode::kTensorTensorScan,
       [](Draft& d) { using namespace slot::tensor_tensor_scan; d.shape(kInitial, {64, 2}); }},
      {"tensor_tensor_scan.C4", Opcode::kTensorTensorScan,
       [](Draft& d) { using namespace slot::tensor_tensor_scan; d.set(kAOp1, AluOp::kAbs); }},
      {"tensor_partition_reduce.C1", Opcode::kTensorPartitionReduce,
       [](Draft& d) { using namespace slot::tensor_partition_reduce; d.shape(kDst, {2, 16}); }},
      {"tensor_partition_reduce.C2", Opcode::kTensorPartitionReduce,
       [](Draft& d) { using namespace slot::tensor_partition_reduce; d.set(kAOp, AluOp::kMultiply); }},
      {"tensor_partition_reduce.C3", Opcode::kTensorPartitionReduce,
       [](Draft& d) { using namespace slot::tensor_partition_reduce; d.set(kAOp, AluOp::kBitwiseOr); }},
      {"activation.C1", Opcode::kActivation,
       [](Draft& d) { using namespace slot::activation; d.shape(kDst, {64, 1}); }},
      {"activation.C2", Opcode::kActivation,
       [](Draft& d) { using namespace slot::activation; d.shape(kBias, {64, 2}); }},
      {"activation.C3", Opcode::kActivation,
       [](Draft& d) { using namespace slot::activation; d.operands[kScale] = d.operands[kBias]; }},
      {"activation.C4", Opcode::kActivation,
       [](Draft& d) { using namespace slot::activation; d.dtype(kBias, DType::kTFloat32); }},
      {"activation.C5", Opcode::kActivation,
       [](Draft& d) { using namespace slot::activation; d.generation = 2; d.number(kBias, 1.0); }},
      {"activation.C6", Opcode::kActivation,
       [](Draft& d) { using namespace slot::activation; d.shape(kReduceRes, {64, 2}); }},
      {"activation.C7", Opcode::kActivation,
       [](Draft& d) { using namespace slot::activation; d.set(kAReduceOp, AluOp::kMaximum); }},
      {"activation.C8", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation; d.generation = 4; d.space(kDst, MemorySpace::kPsum);
         d.indirect(kDst, IndirectKind::kTensor);
       }},
      {"activation.C9", Opcode::kActivation,
       [](Draft& d) { using namespace slot::activation; d.set(kAReduceCmd, ReduceCmd::kLoadReduce); }},
      {"activation.C10", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation; d.generation = 2;
         d.set(kAOp, static_cast<int64_t>(ActivationFunction::kReciprocal));
       }},
      {"activation_reduce.C1", Opcode::kActivationReduce,
       [](Draft& d) { using namespace slot::activation_reduce; d.shape(kDst, {64, 1}); }},
      {"activation_reduce.C2", Opcode::kActivationReduce,
       [](Draft& d) { using namespace slot::activation_reduce; d.shape(kBias, {64, 2}); }},
      {"activation_reduce.C3", Opcode::kActivationReduce,
       [](Draft& d) { using namespace slot::activation_reduce; d.operands[kScale] = d.operands[kBias]; }},
      {"activation_reduce.C4", Opcode::kActivationReduce,
       [](Draft& d) { using namespace slot::activation_reduce; d.dtype(kBias, DType::kTFloat32); }},
      {"activation_reduce.C5", Opcode::kActivationReduce,
       [](Draft& d) { using namespace slot::activation_reduce; d.generation = 2; d.number(kBias, 1.0); }},
      {"activation_reduce.C6", Opcode::kActivationReduce,
       [](Draft& d) { using namespace slot::activation_reduce; d.shape(kReduceRes, {64, 2}); }},
      {"activation_reduce.C7", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation_reduce; d.generation = 2; d.set(kAReduceOp, AluOp::kMaximum);
       }},
      {"activation_reduce.C8", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation_reduce; d.generation = 4; d.space(kDst, MemorySpace::kPsum);
         d.indirect(kDst, IndirectKind::kTensor);
       }},
      {"activation_reduce.C9", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation; d.generation = 2;
         d.set(kAOp, static_cast<int64_t>(ActivationFunction::kReciprocal));
       }},
      {"activate2.C1", Opcode::kActivate2,
       [](Draft& d) { using namespace slot::activate2; d.shape(kDst, {64, 1}); }},
      {"activate2.C2", Opcode::kActivate2,
       [](Draft& d) { using namespace slot::activate2; d.shape(kImm0, {64, 2}); }},
      {"activate2.C3", Opcode::kActivate2,
       [](Draft& d) { using namespace slot::activate2; d.set(kAOp1, AluOp::kMultiply); }},
      {"activate2.C4", Opcode::kActivate2,
       [](Draft& d) { using namespace slot::activate2; d.dtype(kImm1, DType::kBFloat16); }},
      {"activate2.C5", Opcode::kActivate2,
       [](Draft& d) { using namespace slot::activate2; d.set(kAOp1, AluOp::kBypass); d.set(kAReverse1, 1); }},
      {"activate2.C6", Opcode::kActivate2,
       [](Draft& d) { using namespace slot::activate2; d.set(kAReduceOp, AluOp::kMultiply); }},
      {"activate2.C7", Opcode::kActivate2,
       [](Draft& d) { using namespace slot::activate2; d.shape(kReduceRes, {64, 2}); }},
      {"activate2.C8", Opcode::kActivate2,
       [](Draft& d) {
         using namespace slot::activate2; d.space(kDst, MemorySpace::kPsum);
         d.indirect(kDst, IndirectKind::kTensor);
       }},
      {"exponential.C1", Opcode::kExponential,
       [](Draft& d) { using namespace slot::exponential; d.shape(kDst, {64, 1}); }},
      {"exponential.C2", Opcode::kExponential,
       [](Draft& d) { using namespace slot::exponential; d.shape(kMaxValue, {64, 2}); }},
      {"exponential.C3", Opcode::kExponential,
       [](Draft& d) { using namespace slot::exponential; d.shape(kReduceRes, {64, 2}); }},
      {"exponential.C4", Opcode::kExponential,
       [](Draft& d) { using namespace slot::exponential; d.dtype(kDst, DType::kFloat8E5M2x4); }},
      {"exponential.C5", Opcode::kExponential,
       [](Draft& d) { using namespace slot::exponential; d.dtype(kMaxValue, DType::kBFloat16); }},
      {"exponential.C6", Opcode::kExponential,
       [](Draft& d) { using namespace slot::exponential; d.set(kAReduceCmd, ReduceCmd::kReset); }},
      {"exponential.C7", Opcode::kExponential,
       [](Draft& d) { using namespace slot::exponential; d.number(kReduceInit, 1.0); }},
      {"exponential.C8", Opcode::kExponential,
       [](Draft& d) { using namespace slot::exponential; d.dtype(kReduceRes, DType::kInt32); }},
      {"reciprocal.C1", Opcode::kReciprocal,
       [](Draft& d) { using namespace slot::reciprocal; d.shape(kDst, {64, 1}); }},
      {"select_reduce.C1", Opcode::kSelectReduce,
       [](Draft& d) { using namespace slot::select_reduce; d.shape(kPredicate, {64, 1}); }},
      {"select_reduce.C2", Opcode::kSelectReduce,
       [](Draft& d) { using namespace slot::select_reduce; d.operands[kOnFalse] = d.operands[kOnTrue]; }},
      {"select_reduce.C3", Opcode::kSelectReduce,
       [](Draft& d) { using namespace slot::select_reduce; d.shape(kReduceRes, {64, 2}); }},
      {"select_reduce.C4", Opcode::kSelectReduce,
       [](Draft& d) {
         using namespace slot::select_reduce; d.space(kOnTrue, MemorySpace::kPsum);
         d.space(kPredicate, MemorySpace::kPsum);
       }},
      {"select_reduce.C5", Opcode::kSelectReduce,
       [](Draft& d) { using namespace slot::select_reduce; d.dtype(kOnTrue, DType::kInt32); }},
      {"select_reduce.C6", Opcode::kSelectReduce,
       [](Draft& d) { using namespace slot::select_reduce; d.dtype(kPredicate, DType::kUint32); }},
      {"select_reduce.C7", Opcode::kSelectReduce,
       [](Draft& d) { using namespace slot::select_reduce; d.dtype(kReduceRes, DType::kInt32); }},
      {"select_reduce.C8", Opcode::kSelectReduce,
       [](Draft& d) { using namespace slot::select_reduce; d.set(kAReduceOp, AluOp::kAdd); }},
      {"range_select.C1", Opcode::kRangeSelect,
       [](Draft& d) { using namespace slot::range_select; d.shape(kDst, {64, 1}); }},
      {"range_select.C2", Opcode::kRangeSelect,
       [](Draft& d) { using namespace slot::range_select; d.shape(kBound1, {64, 2}); }},
      {"range_select.C3", Opcode::kRangeSelect,
       [](Draft& d) { using namespace slot::range_select; d.dtype(kBound0, DType::kInt32); }},
      {"range_select.C4", Opcode::kRangeSelect,
       [](Draft& d) { using namespace slot::range_select; d.dtype(kOnTrueTile, DType::kInt32); }},
      {"range_select.C5", Opcode::kRangeSelect,
       [](Draft& d) { using namespace slot::range_select; d.set(kACompOp0, AluOp::kAdd); }},
      {"range_select.C6", Opcode::kRangeSelect,
       [](Draft& d) { using namespace slot::range_select; d.set(kAReduceOp, AluOp::kAdd); }},
      {"range_select.C7", Opcode::kRangeSelect,
       [](Draft& d) { using namespace slot::range_select; d.shape(kReduceRes, {64, 2}); }},
      {"range_select.C8", Opcode::kRangeSelect,
       [](Draft& d) { using namespace slot::range_select; d.set_real(kAOnFalseValue, 0); }},
      {"range_select.C9", Opcode::kRangeSelect,
       [](Draft& d) { using namespace slot::range_select; d.set_real(kARangeStart, 1 << 24); }},
      {"affine_select.C1", Opcode::kAffineSelect,
       [](Draft& d) { using namespace slot::affine_select; d.shape(kDst, {64, 1}); }},
      {"affine_select.C2", Opcode::kAffineSelect,
       [](Draft& d) { using namespace slot::affine_select; d.set_list(kAPattern, {1, 16, 3}); }},
      {"affine_select.C3", Opcode::kAffineSelect,
       [](Draft& d) { using namespace slot::affine_select; d.set_list(kAPattern, {1, 15}); }},
      {"affine_select.C4", Opcode::kAffineSelect,
       [](Draft& d) { using namespace slot::affine_select; d.set(kACmpOp, AluOp::kAdd); }},
      {"iota.C1", Opcode::kIota,
       [](Draft& d) { using namespace slot::iota; d.set_list(kAPattern, {1, 1, 1, 1, 1, 1, 1, 1, 1, 16}); }},
      {"iota.C2", Opcode::kIota,
       [](Draft& d) { using namespace slot::iota; d.set_list(kAPattern, {1, 15}); }},
      {"iota.C3", Opcode::kIota,
       [](Draft& d) {
         using namespace slot::iota; d.dtype(kDst, DType::kUint8); d.set(kAChannelMultiplier, 4);
       }},
      {"bn_stats.C1", Opcode::kBnStats,
       [](Draft& d) { using namespace slot::bn_stats; d.shape(kData, {64, 513}); }},
      {"bn_stats.C2", Opcode::kBnStats,
       [](Draft& d) { using namespace slot::bn_stats; d.shape(kDst, {64, 5}); }},
      {"bn_stats.C3", Opcode::kBnStats,
       [](Draft& d) { using namespace slot::bn_stats; d.shape(kDst, {32, 6}); }},
      {"bn_aggr.C1", Opcode::kBnAggr,
       [](Draft& d) { using namespace slot::bn_aggr; d.shape(kData, {64, 13}); }},
      {"bn_aggr.C2", Opcode::kBnAggr,
       [](Draft& d) { using namespace slot::bn_aggr; d.shape(kDst, {64, 3}); }},
      {"bn_aggr.C3", Opcode::kBnAggr,
       [](Draft& d) { using namespace slot::bn_aggr; d.shape(kDst, {32, 2}); }},
      {"max8.C1", Opcode::kMax8, [](Draft& d) { using namespace slot::max8; d.shape(kSrc, {64, 7}); }},
      {"max8.C2", Opcode::kMax8, [](Draft& d) { using namespace slot::max8; d.shape(kDst, {64, 9}); }},
      {"max8.C3", Opcode::kMax8, [](Draft& d) { using namespace slot::max8; d.shape(kDst, {32, 8}); }},
      {"nc_find_index8.C1", Opcode::kNcFindIndex8,
       [](Draft& d) { using namespace slot::nc_find_index8; d.shape(kData, {64, 16385}); }},
      {"nc_find_index8.C2", Opcode::kNcFindIndex8,
       [](Draft& d) { using namespace slot::nc_find_index8; d.shape(kVals, {64, 7}); }},
      {"nc_find_index8.C3", Opcode::kNcFindIndex8,
       [](Draft& d) { using namespace slot::nc_find_index8; d.shape(kDst, {64, 7}); }},
      {"nc_find_index8.C4", Opcode::kNcFindIndex8,
       [](Draft& d) { using namespace slot::nc_find_index8; d.dtype(kDst, DType::kInt32); }},
      {"nc_find_index8.C5", Opcode::kNcFindIndex8,
       [](Draft& d) { using namespace slot::nc_find_index8; d.shape(kVals, {32, 8}); }},
      {"nc_match_replace8.C1", Opcode::kNcMatchReplace8,
       [](Draft& d) { using namespace slot::nc_match_replace8; d.shape(kDst, {64, 99}); }},
      {"nc_match_replace8.C2", Opcode::kNcMatchReplace8,
       [](Draft& d) { using namespace slot::nc_match_replace8; d.shape(kVals, {64, 7}); }},
      {"nc_match_replace8.C3", Opcode::kNcMatchReplace8,
       [](Draft& d) { using namespace slot::nc_match_replace8; d.shape(kVals, {32, 8}); }},
      {"nc_match_replace8.C4", Opcode::kNcMatchReplace8,
       [](Draft& d) { using namespace slot::nc_match_replace8; d.shape(kDstIdx, {64, 7}); }},
      {"sequence_bounds.C1", Opcode::kSequenceBounds,
       [](Draft& d) { using namespace slot::sequence_bounds; d.shape(kSegmentIds, {2, 50}); }},
      {"sequence_bounds.C2", Opcode::kSequenceBounds,
       [](Draft& d) { using namespace slot::sequence_bounds; d.shape(kDst, {1, 2, 51}); }},
      {"sequence_bounds.C3", Opcode::kSequenceBounds,
       [](Draft& d) { using namespace slot::sequence_bounds; d.dtype(kDst, DType::kInt16); }},
      {"nonzero_with_count.C1", Opcode::kNonzeroWithCount,
       [](Draft& d) { using namespace slot::nonzero_with_count; d.shape(kDst, {32, 17}); }},
      {"nonzero_with_count.C2", Opcode::kNonzeroWithCount,
       [](Draft& d) { using namespace slot::nonzero_with_count; d.shape(kDst, {64, 16}); }},
      {"nonzero_with_count.C3", Opcode::kNonzeroWithCount,
       [](Draft& d) { using namespace slot::nonzero_with_count; d.dtype(kSrc, DType::kInt16); }},
      {"nonzero_with_count.C4", Opcode::kNonzeroWithCount,
       [](Draft& d) { using namespace slot::nonzero_with_count; d.dtype(kDst, DType::kFloat32); }},
      {"topk.C1", Opcode::kTopk,
       [](Draft& d) { using namespace slot::topk; d.dtype(kSrc, DType::kFloat32); }},
      {"topk.C2", Opcode::kTopk,
       [](Draft& d) { using namespace slot::topk; d.dtype(kIdxDst, DType::kInt32); }},
      {"topk.C3", Opcode::kTopk, [](Draft& d) { using namespace slot::topk; d.shape(kIdxDst, {64, 9}); }},
      {"topk.C4", Opcode::kTopk, [](Draft& d) { using namespace slot::topk; d.set(kAN, 7); }},
      {"topk.C5", Opcode::kTopk,
       [](Draft& d) { using namespace slot::topk; d.shape(kValDst, {64, 43}); d.shape(kIdxDst, {64, 43}); }},
      {"topk.C6", Opcode::kTopk, [](Draft& d) { using namespace slot::topk; d.set(kAN, 49); }},
      {"topk.C7", Opcode::kTopk,
       [](Draft& d) {
         using namespace slot::topk; for (int i : {0, 1, 2}) d.shape(i, {60, i == 2 ? 3 : 8});
       }},
      {"quantize_mx.C1", Opcode::kQuantizeMx,
       [](Draft& d) { using namespace slot::quantize_mx; d.dtype(kSrc, DType::kFloat32); }},
      {"quantize_mx.C2", Opcode::kQuantizeMx,
       [](Draft& d) { using namespace slot::quantize_mx; d.dtype(kDst, DType::kFloat4E2M1FnX4); }},
      {"quantize_mx.C3", Opcode::kQuantizeMx,
       [](Draft& d) { using namespace slot::quantize_mx; d.dtype(kDstScale, DType::kInt8); }},
      {"quantize_mx.C4", Opcode::kQuantizeMx,
       [](Draft& d) { using namespace slot::quantize_mx; d.shape(kSrc, {48, 16}); }},
      {"quantize_mx.C5", Opcode::kQuantizeMx,
       [](Draft& d) { using namespace slot::quantize_mx; d.shape(kSrc, {64, 18}); }},
      {"quantize_mx.C6", Opcode::kQuantizeMx,
       [](Draft& d) { using namespace slot::quantize_mx; d.shape(kDst, {64, 5}); }},
      {"dropout.C1", Opcode::kDropout,
       [](Draft& d) { using namespace slot::dropout; d.shape(kDst, {64, 1}); }},
      {"dropout.C2", Opcode::kDropout,
       [](Draft& d) { using namespace slot::dropout; d.dtype(kDst, DType::kBFloat16); }},
      {"dropout.C3", Opcode::kDropout,
       [](Draft& d) { using namespace slot::dropout; d.operands[kProb] = d.operands[kData]; }},
      {"dropout.C4", Opcode::kDropout,
       [](Draft& d) {
         using namespace slot::dropout;
         d.operands[kProb] = d.tile(MemorySpace::kSbuf, DType::kInt32, {64, 1});
       }},
      {"rng.C1", Opcode::kRng,
       [](Draft& d) { using namespace slot::rng; d.dtype(kDst, DType::kFloat32); }},
      {"rng.C2", Opcode::kRng,
       [](Draft& d) { using namespace slot::rng; d.generation = 2; d.engine = Engine::kGpSimd; }},
      {"set_rng_seed.C1", Opcode::kSetRngSeed,
       [](Draft& d) { using namespace slot::set_rng_seed; d.shape(kSrcSeeds, {2, 1}); }},
      {"rand_set_state.C1", Opcode::kRandSetState,
       [](Draft& d) { using namespace slot::rand_set_state; d.dtype(kSrcSeeds, DType::kInt32); }},
      {"rand_set_state.C2", Opcode::kRandSetState,
       [](Draft& d) { using namespace slot::rand_set_state; d.shape(kSrcSeeds, {64, 24}); }},
      {"rand_set_state.C3", Opcode::kRandSetState,
       [](Draft& d) {
         using namespace slot::rand_set_state; d.engine = Engine::kVector; d.shape(kSrcSeeds, {64, 24});
       }},
      {"rand_set_state.C4", Opcode::kRandSetState,
       [](Draft& d) { using namespace slot::rand_set_state; d.space(kSrcSeeds, MemorySpace::kPsum); }},
      {"rand_get_state.C1", Opcode::kRandGetState,
       [](Draft& d) { using namespace slot::rand_get_state; d.dtype(kDst, DType::kInt32); }},
      {"rand_get_state.C2", Opcode::kRandGetState,
       [](Draft& d) { using namespace slot::rand_get_state; d.shape(kDst, {64, 24}); }},
      {"rand_get_state.C3", Opcode::kRandGetState,
       [](Draft& d) {
         using namespace slot::rand_get_state; d.engine = Engine::kVector; d.shape(kDst, {64, 24});
       }},
      {"rand_get_state.C4", Opcode::kRandGetState,
       [](Draft& d) { using namespace slot::rand_get_state; d.space(kDst, MemorySpace::kPsum); }},
      {"rand2.C1", Opcode::kRand2,
       [](Draft& d) { using namespace slot::rand2; d.dtype(kDst, DType::kFloat8E5M2x4); }},
      {"rand2.C2", Opcode::kRand2,
       [](Draft& d) { using namespace slot::rand2; d.operands[kMin] = d.operands[kDst]; }},
      {"rand2.C3", Opcode::kRand2, [](Draft& d) { using namespace slot::rand2; d.number(kMax, 0); }},
      {"register_load.C1", Opcode::kRegisterLoad,
       [](Draft& d) { using namespace slot::register_load; d.shape(kSrc, {1, 2}); }},
      {"register_store.C1", Opcode::kRegisterStore,
       [](Draft& d) { using namespace slot::register_store; d.shape(kDst, {1, 2}); }},
      {"loop_begin.C1", Opcode::kLoopBegin,
       [](Draft& d) { using namespace slot::loop; d.set(kAStep, 0); }},
  };
  return all;
}

TEST(Constraints, EveryOpcodeHasALegalInstruction) {
  for (const InstructionDefinition& row : definitions())
    for (int generation = std::max(3, row.first_generation); generation <= 4; ++generation) {
      Draft draft(row.opcode);
      draft.generation = generation;
      EXPECT_NO_THROW(draft.run()) << row.name << " on v" << generation;
    }
}

TEST(Constraints, EveryLabelHasACase) {
  std::set<std::string_view> tested;
  for (const Case& c : cases()) EXPECT_TRUE(tested.insert(c.label).second) << c.label;
  for (const Constraint& rule : constraints()) {
    EXPECT_TRUE(tested.contains(rule.label)) << rule.label;
    EXPECT_FALSE(rule.rule.empty() || rule.source.empty()) << rule.label;
  }
  EXPECT_EQ(tested.size(), constraints().size());
}

TEST(Constraints, EveryCaseBreaksItsRule) {
  for (const Case& c : cases()) {
    Draft draft(c.opcode);
    c.break_rule(draft);
    try {
      draft.run();
      ADD_FAILURE() << c.label << " was not refused";
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), c.label) << fault.what();
      EXPECT_EQ(fault.kind(), c.label == "isa.C8" ? FaultKind::kCapacity : FaultKind::kProgram) << c.label;
      EXPECT_THAT(fault.what(), testing::HasSubstr("NeuronCore-v")) << c.label;
    }
  }
}

TEST(Constraints, NumbersHaveNoGaps) {
  std::map<std::string_view, int> last;
  for (const Constraint& rule : constraints()) {
    const size_t dot = rule.label.find(".C");
    ASSERT_NE(dot, std::string_view::npos) << rule.label;
    EXPECT_EQ(rule.label.substr(dot + 2), std::to_string(++last[rule.label.substr(0, dot)])) << rule.label;
  }
}

TEST(Constraints, AFaultShowsTheOperands) {
  Draft draft(Opcode::kNcMatmul);
  draft.shape(slot::nc_matmul::kMoving, {128, 513});
  draft.shape(slot::nc_matmul::kDst, {64, 513});
  try {
    draft.run();
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_THAT(fault.what(), testing::HasSubstr("moving has 513 columns; at most 512 are possible"));
    EXPECT_THAT(fault.what(), testing::HasSubstr("moving = bfloat16[128, 513] in sbuf"));
    EXPECT_FALSE(fault.hint().empty());
  }
}

TEST(Constraints, LimitsFollowTheGeneration) {
  namespace s = slot::nc_matmul;
  const auto columns = [](int generation, DType dst, int64_t n) {
    Draft d(Opcode::kNcMatmul);
    d.generation = generation;
    d.operands[s::kDst] = d.tile(MemorySpace::kPsum, dst, {64, n});
    d.shape(s::kMoving, {128, n});
    d.run();
  };
  EXPECT_NO_THROW(columns(2, DType::kFloat32, 512));
  EXPECT_THROW(columns(2, DType::kFloat32, 513), Fault);
  EXPECT_NO_THROW(columns(4, DType::kFloat32, 4096));
  EXPECT_THROW(columns(4, DType::kFloat32, 4097), Fault);
  EXPECT_NO_THROW(columns(4, DType::kBFloat16, 8192));
}

// Kernels pass the result of a comparison: bool is stored as one byte.
TEST(Constraints, ABoolPredicateIsAByte) {
  Draft copy(Opcode::kTensorCopyPredicated);
  copy.dtype(slot::tensor_copy_predicated::kPredicate, DType::kBool);
  EXPECT_NO_THROW(copy.run());
  Draft select(Opcode::kSelectReduce);
  select.dtype(slot::select_reduce::kPredicate, DType::kBool);
  EXPECT_NO_THROW(select.run());
}

}  // namespace
}  // namespace opentrn::isa
