// What leaves the engines: user code on GpSimd, and values printed by the host. Opcodes with their numbers,
// and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_HOST_INSTRUCTIONS(X) \
  X(kCustomOp, custom_op, 47)        \
  X(kDevicePrint, device_print, 56)

namespace opentrn::isa::slot {

// operands: n_out outputs, then inputs; op is the operator's name (isa/custom_ops.h). Its author states its
// time: ns + cycles_per_element * (elements per partition of the longest operand) cycles of GpSimd; both are
// negative when it is not stated.
namespace custom_op {
enum { kOperand0 };
enum { kAOp, kAOutputs, kANs, kACyclesPerElement };
}  // namespace custom_op
namespace device_print {
enum { kTensor };
enum { kAText };
}  // namespace device_print

}  // namespace opentrn::isa::slot
