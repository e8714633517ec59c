// The bodies: one function per opcode, in the file named in the list, found by `body(opcode)`.
#pragma once

#include "sim/functional/context.h"
#include "sim/functional/unwritten.h"

namespace opentrn::sim {

using Body = void (*)(Context&);

// Null for registers and loops, which core.cc executes, and for sendrecv and core_barrier (core_group.cc).
Body body(isa::Opcode opcode);
// True when the opcode is executed somewhere.
bool is_executed(isa::Opcode opcode);

namespace bodies {
// dma.cc
void dma_copy(Context&);
void dma_compute(Context&);
// dma_transpose.cc
void dma_transpose(Context&);
// copy.cc
void tensor_copy(Context&);
void memset(Context&);
void tensor_copy_predicated(Context&);
// transpose.cc
void nc_transpose(Context&);
void nc_stream_shuffle(Context&);
// gather.cc
void local_gather(Context&);
void nc_n_gather(Context&);
// matmul.cc
void nc_matmul(Context&);
void nc_matmul_mx(Context&);
void nc_matmul_sparse(Context&);
// elementwise.cc
void tensor_tensor(Context&);
void tensor_scalar(Context&);
void scalar_tensor_tensor(Context&);
void reciprocal(Context&);
// reduce.cc
void tensor_reduce(Context&);
void tensor_scalar_reduce(Context&);
void tensor_scalar_cumulative(Context&);
void tensor_tensor_scan(Context&);
void tensor_partition_reduce(Context&);
// activation.cc
void activation(Context&);
void activation_reduce(Context&);
void activate2(Context&);
void exponential(Context&);
// select.cc
void select_reduce(Context&);
void range_select(Context&);
void affine_select(Context&);
void iota(Context&);
// batch_norm.cc
void bn_stats(Context&);
void bn_aggr(Context&);
// search.cc
void max8(Context&);
void nc_find_index8(Context&);
void nc_match_replace8(Context&);
void sequence_bounds(Context&);
void nonzero_with_count(Context&);
void topk(Context&);
// quantize.cc
void quantize_mx(Context&);
// random.cc
void dropout(Context&);
void rng(Context&);
void set_rng_seed(Context&);
void rand_set_state(Context&);
void rand_get_state(Context&);
void rand2(Context&);
// custom_op.cc
void custom_op(Context&);
// device_print.cc
void device_print(Context&);
}  // namespace bodies

}  // namespace opentrn::sim
