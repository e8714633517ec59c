// Activation functions, with a reduction on the way. Opcodes with their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_ACTIVATION_INSTRUCTIONS(X)    \
  X(kActivation, activation, 23)              \
  X(kActivationReduce, activation_reduce, 24) \
  X(kActivate2, activate2, 25)                \
  X(kExponential, exponential, 26)

namespace opentrn::isa::slot {

namespace activation {
enum { kDst, kData, kBias, kScale, kReduceRes };
enum { kAOp, kAReduceOp, kAReduceCmd };
}  // namespace activation
namespace activation_reduce {
enum { kDst, kData, kBias, kScale, kReduceRes };
enum { kAOp, kAReduceOp, kAReduceCmd };
}  // namespace activation_reduce
namespace activate2 {
enum { kDst, kData, kImm0, kImm1, kReluParam, kReduceRes };
enum { kAOp, kAOp0, kAOp1, kAReverse0, kAReverse1, kAReduceOp, kAReduceCmd };
}  // namespace activate2
namespace exponential {
enum { kDst, kSrc, kMaxValue, kReduceRes, kReduceInit };
enum { kAReduceCmd };
}  // namespace exponential

}  // namespace opentrn::isa::slot
