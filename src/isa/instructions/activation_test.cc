// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void activation(Draft& d) {
  d.same(2);
  d.operands.insert(d.operands.end(), {d.sbuf(kBf16, {64, 1}), Operand::imm(1.0), d.sbuf(kF32, {64, 1})});
  d.attributes = {word(ActivationFunction::kExp), word(AluOp::kAdd), word(ReduceCmd::kResetReduce)};
}

void activation_reduce(Draft& d) { activation(d); }

void activate2(Draft& d) {
  d.same(2);
  d.operands.insert(d.operands.end(),
                    {d.sbuf(kF32, {64, 1}), d.sbuf(kF32, {64, 1}), Operand::imm(0.0), d.sbuf(kF32, {64, 1})});
  d.attributes = {
      word(ActivationFunction::kExp), word(AluOp::kMultiply),       word(AluOp::kAdd), word(0), word(0),
      word(AluOp::kMaximum),          word(ReduceCmd::kResetReduce)};
}

void exponential(Draft& d) {
  d.same(2);
  d.operands.insert(d.operands.end(), {d.sbuf(kF32, {64, 1}), d.sbuf(kF32, {64, 1}), Operand::imm(0.0)});
  d.attributes = {word(ReduceCmd::kResetReduce)};
}

}  // namespace drafts

std::vector<Case> activation_cases() {
  return {
      {"activation.C1", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation;
         d.shape(kDst, {64, 1});
       }},
      {"activation.C2", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation;
         d.shape(kBias, {64, 2});
       }},
      {"activation.C3", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation;
         d.operands[kScale] = d.operands[kBias];
       }},
      {"activation.C4", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation;
         d.dtype(kBias, DType::kTFloat32);
       }},
      {"activation.C5", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation;
         d.generation = Generation::kV2;
         d.number(kBias, 1.0);
       }},
      {"activation.C6", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation;
         d.shape(kReduceRes, {64, 2});
       }},
      {"activation.C7", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation;
         d.set(kAReduceOp, AluOp::kMaximum);
       }},
      {"activation.C8", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation;
         d.generation = Generation::kV4;
         d.space(kDst, MemorySpace::kPsum);
         d.indirect(kDst, IndirectKind::kTensor);
       }},
      {"activation.C9", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation;
         d.set(kAReduceCmd, ReduceCmd::kLoadReduce);
       }},
      {"activation.C10", Opcode::kActivation,
       [](Draft& d) {
         using namespace slot::activation;
         d.generation = Generation::kV2;
         d.set(kAOp, static_cast<int64_t>(ActivationFunction::kReciprocal));
       }},
      {"activation_reduce.C1", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation_reduce;
         d.shape(kDst, {64, 1});
       }},
      {"activation_reduce.C2", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation_reduce;
         d.shape(kBias, {64, 2});
       }},
      {"activation_reduce.C3", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation_reduce;
         d.operands[kScale] = d.operands[kBias];
       }},
      {"activation_reduce.C4", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation_reduce;
         d.dtype(kBias, DType::kTFloat32);
       }},
      {"activation_reduce.C5", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation_reduce;
         d.generation = Generation::kV2;
         d.number(kBias, 1.0);
       }},
      {"activation_reduce.C6", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation_reduce;
         d.shape(kReduceRes, {64, 2});
       }},
      {"activation_reduce.C7", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation_reduce;
         d.generation = Generation::kV2;
         d.set(kAReduceOp, AluOp::kMaximum);
       }},
      {"activation_reduce.C8", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation_reduce;
         d.generation = Generation::kV4;
         d.space(kDst, MemorySpace::kPsum);
         d.indirect(kDst, IndirectKind::kTensor);
       }},
      {"activation_reduce.C9", Opcode::kActivationReduce,
       [](Draft& d) {
         using namespace slot::activation;
         d.generation = Generation::kV2;
         d.set(kAOp, static_cast<int64_t>(ActivationFunction::kReciprocal));
       }},
      {"activate2.C1", Opcode::kActivate2,
       [](Draft& d) {
         using namespace slot::activate2;
         d.shape(kDst, {64, 1});
       }},
      {"activate2.C2", Opcode::kActivate2,
       [](Draft& d) {
         using namespace slot::activate2;
         d.shape(kImm0, {64, 2});
       }},
      {"activate2.C3", Opcode::kActivate2,
       [](Draft& d) {
         using namespace slot::activate2;
         d.set(kAOp1, AluOp::kMultiply);
       }},
      {"activate2.C4", Opcode::kActivate2,
       [](Draft& d) {
         using namespace slot::activate2;
         d.dtype(kImm1, DType::kBFloat16);
       }},
      {"activate2.C5", Opcode::kActivate2,
       [](Draft& d) {
         using namespace slot::activate2;
         d.set(kAOp1, AluOp::kBypass);
         d.set(kAReverse1, 1);
       }},
      {"activate2.C6", Opcode::kActivate2,
       [](Draft& d) {
         using namespace slot::activate2;
         d.set(kAReduceOp, AluOp::kMultiply);
       }},
      {"activate2.C7", Opcode::kActivate2,
       [](Draft& d) {
         using namespace slot::activate2;
         d.shape(kReduceRes, {64, 2});
       }},
      {"activate2.C8", Opcode::kActivate2,
       [](Draft& d) {
         using namespace slot::activate2;
         d.space(kDst, MemorySpace::kPsum);
         d.indirect(kDst, IndirectKind::kTensor);
       }},
      {"exponential.C1", Opcode::kExponential,
       [](Draft& d) {
         using namespace slot::exponential;
         d.shape(kDst, {64, 1});
       }},
      {"exponential.C2", Opcode::kExponential,
       [](Draft& d) {
         using namespace slot::exponential;
         d.shape(kMaxValue, {64, 2});
       }},
      {"exponential.C3", Opcode::kExponential,
       [](Draft& d) {
         using namespace slot::exponential;
         d.shape(kReduceRes, {64, 2});
       }},
      {"exponential.C4", Opcode::kExponential,
       [](Draft& d) {
         using namespace slot::exponential;
         d.dtype(kDst, DType::kFloat8E5M2x4);
       }},
      {"exponential.C5", Opcode::kExponential,
       [](Draft& d) {
         using namespace slot::exponential;
         d.dtype(kMaxValue, DType::kBFloat16);
       }},
      {"exponential.C6", Opcode::kExponential,
       [](Draft& d) {
         using namespace slot::exponential;
         d.set(kAReduceCmd, ReduceCmd::kReset);
       }},
      {"exponential.C7", Opcode::kExponential,
       [](Draft& d) {
         using namespace slot::exponential;
         d.number(kReduceInit, 1.0);
       }},
      {"exponential.C8", Opcode::kExponential,
       [](Draft& d) {
         using namespace slot::exponential;
         d.dtype(kReduceRes, DType::kInt32);
       }},
  };
}

}  // namespace opentrn::isa
