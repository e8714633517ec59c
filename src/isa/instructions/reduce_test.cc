// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void tensor_reduce(Draft& d) {
  d.operands = {d.sbuf(kF32, {64, 4}), d.sbuf(kF32, {64, 4, 16})};
  d.attributes = {word(AluOp::kAdd), word(1), word(0)};
}

void tensor_scalar_reduce(Draft& d) {
  d.same(2);
  d.operands.insert(d.operands.end(), {Operand::imm(1.0), d.sbuf(kF32, {64, 1}), Operand::none()});
  d.attributes = {word(AluOp::kAdd), word(0), word(AluOp::kMaximum), word(ReduceCmd::kResetReduce), word(0)};
}

void tensor_partition_reduce(Draft& d) {
  d.operands = {d.sbuf(kF32, {1, 16}), d.sbuf(kF32, {64, 16})};
  d.attributes = {word(AluOp::kAdd)};
}

void bn_stats(Draft& d) { d.operands = {d.sbuf(kF32, {64, 6}), d.sbuf(kF32, {64, 512})}; }

void bn_aggr(Draft& d) { d.operands = {d.sbuf(kF32, {64, 2}), d.sbuf(kF32, {64, 12})}; }

}  // namespace drafts

std::vector<Case> reduce_cases() {
  return {
      {"tensor_reduce.C1", Opcode::kTensorReduce,
       [](Draft& d) {
         using namespace slot::tensor_reduce;
         d.set(kAAxes, 3);
       }},
      {"tensor_reduce.C2", Opcode::kTensorReduce,
       [](Draft& d) {
         using namespace slot::tensor_reduce;
         d.shape(kDst, {64, 1});
       }},
      {"tensor_reduce.C3", Opcode::kTensorReduce,
       [](Draft& d) {
         using namespace slot::tensor_reduce;
         d.set(kAOp, AluOp::kEqual);
       }},
      {"tensor_reduce.C4", Opcode::kTensorReduce,
       [](Draft& d) {
         using namespace slot::tensor_reduce;
         d.set(kAOp, AluOp::kBitwiseAnd);
       }},
      {"tensor_reduce.C5", Opcode::kTensorReduce,
       [](Draft& d) {
         using namespace slot::tensor_reduce;
         d.dtype(kDst, DType::kInt32);
         d.dtype(kData, DType::kInt32);
         d.set(kAOp, AluOp::kBitwiseAnd);
         d.set(kANegate, 1);
       }},
      {"tensor_scalar_reduce.C1", Opcode::kTensorScalarReduce,
       [](Draft& d) {
         using namespace slot::tensor_scalar_reduce;
         d.shape(kDst, {64, 1});
       }},
      {"tensor_scalar_reduce.C2", Opcode::kTensorScalarReduce,
       [](Draft& d) {
         using namespace slot::tensor_scalar_reduce;
         d.operands[kOperand0] = d.operands[kData];
       }},
      {"tensor_scalar_reduce.C3", Opcode::kTensorScalarReduce,
       [](Draft& d) {
         using namespace slot::tensor_scalar_reduce;
         d.shape(kReduceRes, {64, 2});
       }},
      {"tensor_scalar_reduce.C4", Opcode::kTensorScalarReduce,
       [](Draft& d) {
         using namespace slot::tensor_scalar_reduce;
         d.set(kAOp0, AluOp::kBitwiseAnd);
       }},
      {"tensor_scalar_reduce.C5", Opcode::kTensorScalarReduce,
       [](Draft& d) {
         using namespace slot::tensor_scalar_reduce;
         d.set(kAReduceOp, AluOp::kSubtract);
       }},
      {"tensor_scalar_reduce.C6", Opcode::kTensorScalarReduce,
       [](Draft& d) {
         using namespace slot::tensor_scalar_reduce;
         d.set(kAReduceCmd, ReduceCmd::kIdle);
       }},
      {"tensor_scalar_reduce.C7", Opcode::kTensorScalarReduce,
       [](Draft& d) {
         using namespace slot::tensor_scalar_reduce;
         d.set(kAReduceCmd, ReduceCmd::kLoadReduce);
       }},
      {"tensor_partition_reduce.C1", Opcode::kTensorPartitionReduce,
       [](Draft& d) {
         using namespace slot::tensor_partition_reduce;
         d.shape(kDst, {2, 16});
       }},
      {"tensor_partition_reduce.C2", Opcode::kTensorPartitionReduce,
       [](Draft& d) {
         using namespace slot::tensor_partition_reduce;
         d.set(kAOp, AluOp::kMultiply);
       }},
      {"tensor_partition_reduce.C3", Opcode::kTensorPartitionReduce,
       [](Draft& d) {
         using namespace slot::tensor_partition_reduce;
         d.set(kAOp, AluOp::kBitwiseOr);
       }},
      {"bn_stats.C1", Opcode::kBnStats,
       [](Draft& d) {
         using namespace slot::bn_stats;
         d.shape(kData, {64, 513});
       }},
      {"bn_stats.C2", Opcode::kBnStats,
       [](Draft& d) {
         using namespace slot::bn_stats;
         d.shape(kDst, {64, 5});
       }},
      {"bn_stats.C3", Opcode::kBnStats,
       [](Draft& d) {
         using namespace slot::bn_stats;
         d.shape(kDst, {32, 6});
       }},
      {"bn_aggr.C1", Opcode::kBnAggr,
       [](Draft& d) {
         using namespace slot::bn_aggr;
         d.shape(kData, {64, 13});
       }},
      {"bn_aggr.C2", Opcode::kBnAggr,
       [](Draft& d) {
         using namespace slot::bn_aggr;
         d.shape(kDst, {64, 3});
       }},
      {"bn_aggr.C3", Opcode::kBnAggr,
       [](Draft& d) {
         using namespace slot::bn_aggr;
         d.shape(kDst, {32, 2});
       }},
  };
}

}  // namespace opentrn::isa
