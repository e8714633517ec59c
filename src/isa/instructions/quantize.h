// Quantization of the operands of MX products. Opcodes with their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_QUANTIZE_INSTRUCTIONS(X) X(kQuantizeMx, quantize_mx, 40)

namespace opentrn::isa::slot {

namespace quantize_mx {
enum { kDst, kSrc, kDstScale };
enum { kAScaleRule };
}  // namespace quantize_mx

}  // namespace opentrn::isa::slot
