// Reductions along the free dimensions or the partitions, and statistics of batch normalisation. Opcodes with
// their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_REDUCE_INSTRUCTIONS(X)                   \
  X(kTensorReduce, tensor_reduce, 18)                    \
  X(kTensorScalarReduce, tensor_scalar_reduce, 19)       \
  X(kTensorPartitionReduce, tensor_partition_reduce, 22) \
  X(kBnStats, bn_stats, 32)                              \
  X(kBnAggr, bn_aggr, 33)

namespace opentrn::isa::slot {

// axes: number of trailing free dimensions reduced.
namespace tensor_reduce {
enum { kDst, kData };
enum { kAOp, kAAxes, kANegate };
}  // namespace tensor_reduce
namespace tensor_scalar_reduce {
enum { kDst, kData, kOperand0, kReduceRes, kReduceInit };
enum { kAOp0, kAReverse0, kAReduceOp, kAReduceCmd, kAReduceResNegate };
}  // namespace tensor_scalar_reduce
namespace tensor_partition_reduce {
enum { kDst, kData };
enum { kAOp };
}  // namespace tensor_partition_reduce
namespace bn_stats {
enum { kDst, kData };
}  // namespace bn_stats
namespace bn_aggr {
enum { kDst, kData };
}  // namespace bn_aggr

}  // namespace opentrn::isa::slot
