// Selection by a predicate, a range or an affine index, and the generation of such indices. Opcodes with
// their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_SELECT_INSTRUCTIONS(X) \
  X(kSelectReduce, select_reduce, 28)  \
  X(kRangeSelect, range_select, 29)    \
  X(kAffineSelect, affine_select, 30)  \
  X(kIota, iota, 31)

namespace opentrn::isa::slot {

namespace select_reduce {
enum { kDst, kPredicate, kOnTrue, kOnFalse, kReduceRes };
enum { kAReduceCmd, kAReduceOp, kAReversePred };
}  // namespace select_reduce
namespace range_select {
enum { kDst, kOnTrueTile, kBound0, kBound1, kReduceRes };
enum { kACompOp0, kACompOp1, kAReduceCmd, kAReduceOp, kARangeStart, kAOnFalseValue };
}  // namespace range_select
// pattern: flat list step, num, step, num, ... outermost first.
namespace affine_select {
enum { kDst, kOnTrueTile };
enum { kAPattern, kAChannelMultiplier, kAOffset, kAOnFalseValue, kACmpOp };
}  // namespace affine_select
namespace iota {
enum { kDst };
enum { kAPattern, kAOffset, kAChannelMultiplier };
}  // namespace iota

}  // namespace opentrn::isa::slot
