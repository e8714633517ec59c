// Running results along the free dimension. Opcodes with their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_SCAN_INSTRUCTIONS(X)                       \
  X(kTensorScalarCumulative, tensor_scalar_cumulative, 20) \
  X(kTensorTensorScan, tensor_tensor_scan, 21)

namespace opentrn::isa::slot {

namespace tensor_scalar_cumulative {
enum { kDst, kSrc, kImm0, kImm1 };
enum { kAOp0, kAOp1, kAReduceCmd, kAReverse0 };
}  // namespace tensor_scalar_cumulative
namespace tensor_tensor_scan {
enum { kDst, kData0, kData1, kInitial };
enum { kAOp0, kAOp1, kAReverse0, kAReverse1 };
}  // namespace tensor_tensor_scan

}  // namespace opentrn::isa::slot
