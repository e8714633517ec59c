// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void tensor_scalar_cumulative(Draft& d) {
  d.same(2);
  d.operands.insert(d.operands.end(), {Operand::imm(1.0), Operand::none()});
  d.attributes = {word(AluOp::kMultiply), word(AluOp::kAdd), word(ReduceCmd::kResetReduce), word(0)};
}

void tensor_tensor_scan(Draft& d) {
  d.same(3);
  d.operands.push_back(d.sbuf(kF32, {64, 1}));
  d.attributes = {word(AluOp::kMultiply), word(AluOp::kAdd), word(0), word(0)};
}

}  // namespace drafts

std::vector<Case> scan_cases() {
  return {
      {"tensor_scalar_cumulative.C1", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative;
         d.shape(kDst, {64, 1});
       }},
      {"tensor_scalar_cumulative.C2", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative;
         d.operands[kImm0] = d.operands[kSrc];
       }},
      {"tensor_scalar_cumulative.C3", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative;
         d.set(kAOp0, AluOp::kBitwiseAnd);
       }},
      {"tensor_scalar_cumulative.C4", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative;
         d.set(kAOp1, AluOp::kEqual);
       }},
      {"tensor_scalar_cumulative.C5", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative;
         d.dtype(kSrc, DType::kInt32);
       }},
      {"tensor_scalar_cumulative.C6", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative;
         d.operands[kImm0] = d.tile(MemorySpace::kSbuf, DType::kBFloat16, {64, 1});
       }},
      {"tensor_scalar_cumulative.C7", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative;
         d.set(kAReduceCmd, ReduceCmd::kIdle);
       }},
      {"tensor_scalar_cumulative.C8", Opcode::kTensorScalarCumulative,
       [](Draft& d) {
         using namespace slot::tensor_scalar_cumulative;
         d.set(kAReduceCmd, ReduceCmd::kLoadReduce);
       }},
      {"tensor_tensor_scan.C1", Opcode::kTensorTensorScan,
       [](Draft& d) {
         using namespace slot::tensor_tensor_scan;
         d.shape(kData1, {64, 1});
       }},
      {"tensor_tensor_scan.C2", Opcode::kTensorTensorScan,
       [](Draft& d) {
         using namespace slot::tensor_tensor_scan;
         d.space(kData0, MemorySpace::kPsum);
         d.space(kData1, MemorySpace::kPsum);
       }},
      {"tensor_tensor_scan.C3", Opcode::kTensorTensorScan,
       [](Draft& d) {
         using namespace slot::tensor_tensor_scan;
         d.shape(kInitial, {64, 2});
       }},
      {"tensor_tensor_scan.C4", Opcode::kTensorTensorScan,
       [](Draft& d) {
         using namespace slot::tensor_tensor_scan;
         d.set(kAOp1, AluOp::kAbs);
       }},
  };
}

}  // namespace opentrn::isa
