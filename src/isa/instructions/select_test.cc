// A legal instruction of every opcode of its family, and a case for each of their rules.
#include <limits>

#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void select_reduce(Draft& d) {
  d.operands = {d.sbuf(kBf16, {64, 16}), d.sbuf(DType::kUint8, {64, 16}), d.sbuf(kBf16, {64, 16}),
                Operand::imm(0.0), d.sbuf(kF32, {64, 1})};
  d.attributes = {word(ReduceCmd::kResetReduce), word(AluOp::kMaximum), word(0)};
}

void range_select(Draft& d) {
  d.same(2);
  d.operands.insert(d.operands.end(), {d.sbuf(kF32, {64, 1}), d.sbuf(kF32, {64, 1}), d.sbuf(kF32, {64, 1})});
  d.attributes = {
      word(AluOp::kGreaterEqual), word(AluOp::kLess), word(ReduceCmd::kResetReduce),
      word(AluOp::kMaximum),      word_real(0),       word_real(std::numeric_limits<float>::lowest())};
}

void affine_select(Draft& d) {
  d.same(2);
  d.attributes = {d.list({1, 16}), word(1), word(0), word_real(0), word(AluOp::kGreaterEqual)};
}

void iota(Draft& d) {
  d.operands = {d.sbuf(kI32, {64, 16})};
  d.attributes = {d.list({4, 4, 1, 4}), word(0), word(16)};
}

}  // namespace drafts

std::vector<Case> select_cases() {
  return {
      {"select_reduce.C1", Opcode::kSelectReduce,
       [](Draft& d) {
         using namespace slot::select_reduce;
         d.shape(kPredicate, {64, 1});
       }},
      {"select_reduce.C2", Opcode::kSelectReduce,
       [](Draft& d) {
         using namespace slot::select_reduce;
         d.operands[kOnFalse] = d.operands[kOnTrue];
       }},
      {"select_reduce.C3", Opcode::kSelectReduce,
       [](Draft& d) {
         using namespace slot::select_reduce;
         d.shape(kReduceRes, {64, 2});
       }},
      {"select_reduce.C4", Opcode::kSelectReduce,
       [](Draft& d) {
         using namespace slot::select_reduce;
         d.space(kOnTrue, MemorySpace::kPsum);
         d.space(kPredicate, MemorySpace::kPsum);
       }},
      {"select_reduce.C5", Opcode::kSelectReduce,
       [](Draft& d) {
         using namespace slot::select_reduce;
         d.dtype(kOnTrue, DType::kInt32);
       }},
      {"select_reduce.C6", Opcode::kSelectReduce,
       [](Draft& d) {
         using namespace slot::select_reduce;
         d.dtype(kPredicate, DType::kUint32);
       }},
      {"select_reduce.C7", Opcode::kSelectReduce,
       [](Draft& d) {
         using namespace slot::select_reduce;
         d.dtype(kReduceRes, DType::kInt32);
       }},
      {"select_reduce.C8", Opcode::kSelectReduce,
       [](Draft& d) {
         using namespace slot::select_reduce;
         d.set(kAReduceOp, AluOp::kAdd);
       }},
      {"range_select.C1", Opcode::kRangeSelect,
       [](Draft& d) {
         using namespace slot::range_select;
         d.shape(kDst, {64, 1});
       }},
      {"range_select.C2", Opcode::kRangeSelect,
       [](Draft& d) {
         using namespace slot::range_select;
         d.shape(kBound1, {64, 2});
       }},
      {"range_select.C3", Opcode::kRangeSelect,
       [](Draft& d) {
         using namespace slot::range_select;
         d.dtype(kBound0, DType::kInt32);
       }},
      {"range_select.C4", Opcode::kRangeSelect,
       [](Draft& d) {
         using namespace slot::range_select;
         d.dtype(kOnTrueTile, DType::kInt32);
       }},
      {"range_select.C5", Opcode::kRangeSelect,
       [](Draft& d) {
         using namespace slot::range_select;
         d.set(kACompOp0, AluOp::kAdd);
       }},
      {"range_select.C6", Opcode::kRangeSelect,
       [](Draft& d) {
         using namespace slot::range_select;
         d.set(kAReduceOp, AluOp::kAdd);
       }},
      {"range_select.C7", Opcode::kRangeSelect,
       [](Draft& d) {
         using namespace slot::range_select;
         d.shape(kReduceRes, {64, 2});
       }},
      {"range_select.C8", Opcode::kRangeSelect,
       [](Draft& d) {
         using namespace slot::range_select;
         d.set_real(kAOnFalseValue, 0);
       }},
      {"range_select.C9", Opcode::kRangeSelect,
       [](Draft& d) {
         using namespace slot::range_select;
         d.set_real(kARangeStart, 1 << 24);
       }},
      {"affine_select.C1", Opcode::kAffineSelect,
       [](Draft& d) {
         using namespace slot::affine_select;
         d.shape(kDst, {64, 1});
       }},
      {"affine_select.C2", Opcode::kAffineSelect,
       [](Draft& d) {
         using namespace slot::affine_select;
         d.set_list(kAPattern, {1, 16, 3});
       }},
      {"affine_select.C3", Opcode::kAffineSelect,
       [](Draft& d) {
         using namespace slot::affine_select;
         d.set_list(kAPattern, {1, 15});
       }},
      {"affine_select.C4", Opcode::kAffineSelect,
       [](Draft& d) {
         using namespace slot::affine_select;
         d.set(kACmpOp, AluOp::kAdd);
       }},
      {"iota.C1", Opcode::kIota,
       [](Draft& d) {
         using namespace slot::iota;
         d.set_list(kAPattern, {1, 1, 1, 1, 1, 1, 1, 1, 1, 16});
       }},
      {"iota.C2", Opcode::kIota,
       [](Draft& d) {
         using namespace slot::iota;
         d.set_list(kAPattern, {1, 15});
       }},
      {"iota.C3", Opcode::kIota,
       [](Draft& d) {
         using namespace slot::iota;
         d.dtype(kDst, DType::kUint8);
         d.set(kAChannelMultiplier, 4);
       }},
  };
}

}  // namespace opentrn::isa
