// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void quantize_mx(Draft& d) {
  d.operands = {d.sbuf(DType::kFloat8E5M2x4, {64, 4}), d.sbuf(kBf16, {64, 16}),
                d.sbuf(DType::kUint8, {64, 4})};
  d.attributes = {word(0)};
}

}  // namespace drafts

std::vector<Case> quantize_cases() {
  return {
      {"quantize_mx.C1", Opcode::kQuantizeMx,
       [](Draft& d) {
         using namespace slot::quantize_mx;
         d.dtype(kSrc, DType::kFloat32);
       }},
      {"quantize_mx.C2", Opcode::kQuantizeMx,
       [](Draft& d) {
         using namespace slot::quantize_mx;
         d.dtype(kDst, DType::kFloat4E2M1FnX4);
       }},
      {"quantize_mx.C3", Opcode::kQuantizeMx,
       [](Draft& d) {
         using namespace slot::quantize_mx;
         d.dtype(kDstScale, DType::kInt8);
       }},
      {"quantize_mx.C4", Opcode::kQuantizeMx,
       [](Draft& d) {
         using namespace slot::quantize_mx;
         d.shape(kSrc, {48, 16});
       }},
      {"quantize_mx.C5", Opcode::kQuantizeMx,
       [](Draft& d) {
         using namespace slot::quantize_mx;
         d.shape(kSrc, {64, 18});
       }},
      {"quantize_mx.C6", Opcode::kQuantizeMx,
       [](Draft& d) {
         using namespace slot::quantize_mx;
         d.shape(kDst, {64, 5});
       }},
  };
}

}  // namespace opentrn::isa
