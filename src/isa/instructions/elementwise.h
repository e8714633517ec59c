// Element-wise arithmetic. Opcodes with their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_ELEMENTWISE_INSTRUCTIONS(X)        \
  X(kTensorTensor, tensor_tensor, 15)              \
  X(kTensorScalar, tensor_scalar, 16)              \
  X(kScalarTensorTensor, scalar_tensor_tensor, 17) \
  X(kReciprocal, reciprocal, 27)

namespace opentrn::isa::slot {

namespace tensor_tensor {
enum { kDst, kData1, kData2 };
enum { kAOp };
}  // namespace tensor_tensor
namespace tensor_scalar {
enum { kDst, kData, kOperand0, kOperand1 };
enum { kAOp0, kAReverse0, kAOp1, kAReverse1 };
}  // namespace tensor_scalar
namespace scalar_tensor_tensor {
enum { kDst, kData, kOperand0, kOperand1 };
enum { kAOp0, kAOp1, kAReverse0, kAReverse1 };
}  // namespace scalar_tensor_tensor
namespace reciprocal {
enum { kDst, kData };
}  // namespace reciprocal

}  // namespace opentrn::isa::slot
