// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void tensor_tensor(Draft& d) {
  d.same(3);
  d.attributes = {word(AluOp::kAdd)};
}

void tensor_scalar(Draft& d) {
  d.same(2);
  d.operands.insert(d.operands.end(), {d.sbuf(kF32, {64, 1}), Operand::imm(2.0)});
  d.attributes = {word(AluOp::kMultiply), word(0), word(AluOp::kAdd), word(0)};
}

void scalar_tensor_tensor(Draft& d) {
  d.operands = {d.sbuf(kF32, {64, 16}), d.sbuf(kF32, {64, 16}), d.sbuf(kF32, {64, 1}),
                d.sbuf(kF32, {64, 16})};
  d.attributes = {word(AluOp::kAdd), word(AluOp::kMultiply), word(0), word(0)};
}

void reciprocal(Draft& d) { d.same(2); }

}  // namespace drafts

std::vector<Case> elementwise_cases() {
  return {
      {"tensor_tensor.C1", Opcode::kTensorTensor,
       [](Draft& d) {
         using namespace slot::tensor_tensor;
         d.shape(kData2, {64, 1});
       }},
      {"tensor_tensor.C2", Opcode::kTensorTensor,
       [](Draft& d) {
         using namespace slot::tensor_tensor;
         d.space(kData1, MemorySpace::kPsum);
         d.space(kData2, MemorySpace::kPsum);
       }},
      {"tensor_tensor.C3", Opcode::kTensorTensor,
       [](Draft& d) {
         using namespace slot::tensor_tensor;
         d.set(kAOp, AluOp::kBitwiseAnd);
       }},
      {"tensor_tensor.C4", Opcode::kTensorTensor,
       [](Draft& d) {
         using namespace slot::tensor_tensor;
         d.set(kAOp, AluOp::kPower);
         d.space(kDst, MemorySpace::kPsum);
       }},
      {"tensor_tensor.C5", Opcode::kTensorTensor,
       [](Draft& d) {
         using namespace slot::tensor_tensor;
         d.set(kAOp, AluOp::kAbs);
       }},
      {"tensor_tensor.C6", Opcode::kTensorTensor,
       [](Draft& d) {
         using namespace slot::tensor_tensor;
         d.engine = Engine::kGpSimd;
         for (int i : {0, 1, 2}) d.dtype(i, DType::kInt32);
         d.set(kAOp, AluOp::kBitwiseAnd);
       }},
      {"tensor_scalar.C1", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar;
         d.shape(kDst, {64, 1});
       }},
      {"tensor_scalar.C2", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar;
         d.shape(kOperand0, {64, 2});
       }},
      {"tensor_scalar.C3", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar;
         d.set(kAOp0, AluOp::kBitwiseOr);
       }},
      {"tensor_scalar.C4", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar;
         d.engine = Engine::kScalar;
         d.set(kAOp0, AluOp::kMaximum);
       }},
      {"tensor_scalar.C5", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar;
         d.none(kOperand1);
       }},
      {"tensor_scalar.C6", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar;
         d.set(kAOp0, AluOp::kBitwiseOr);
         d.set(kAOp1, AluOp::kBitwiseAnd);
       }},
      {"tensor_scalar.C7", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar;
         d.engine = Engine::kGpSimd;
         for (int i : {0, 1, 2}) d.dtype(i, DType::kInt32);
         d.set(kAOp0, AluOp::kBitwiseOr);
         d.set(kAOp1, AluOp::kBitwiseAnd);
       }},
      {"tensor_scalar.C8", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar;
         d.dtype(kOperand0, DType::kBFloat16);
       }},
      {"tensor_scalar.C9", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar;
         d.engine = Engine::kScalar;
         d.generation = Generation::kV4;
         d.space(kDst, MemorySpace::kPsum);
         d.indirect(kDst, IndirectKind::kTensor);
       }},
      {"tensor_scalar.C10", Opcode::kTensorScalar, [](Draft& d) { d.engine = Engine::kGpSimd; }},
      {"tensor_scalar.C11", Opcode::kTensorScalar,
       [](Draft& d) {
         using namespace slot::tensor_scalar;
         d.set(kAOp1, AluOp::kRsqrt);
         d.space(kData, MemorySpace::kPsum);
       }},
      {"scalar_tensor_tensor.C1", Opcode::kScalarTensorTensor,
       [](Draft& d) {
         using namespace slot::scalar_tensor_tensor;
         d.shape(kOperand1, {64, 1});
       }},
      {"scalar_tensor_tensor.C2", Opcode::kScalarTensorTensor,
       [](Draft& d) {
         using namespace slot::scalar_tensor_tensor;
         d.shape(kOperand0, {64, 2});
       }},
      {"scalar_tensor_tensor.C3", Opcode::kScalarTensorTensor,
       [](Draft& d) {
         using namespace slot::scalar_tensor_tensor;
         d.space(kData, MemorySpace::kPsum);
         d.space(kOperand1, MemorySpace::kPsum);
       }},
      {"scalar_tensor_tensor.C4", Opcode::kScalarTensorTensor,
       [](Draft& d) {
         using namespace slot::scalar_tensor_tensor;
         d.set(kAOp1, AluOp::kBitwiseAnd);
       }},
      {"reciprocal.C1", Opcode::kReciprocal,
       [](Draft& d) {
         using namespace slot::reciprocal;
         d.shape(kDst, {64, 1});
       }},
  };
}

}  // namespace opentrn::isa
