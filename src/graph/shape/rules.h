// The shape rules, by the file that holds them.
#pragma once

#include "graph/shape/context.h"

namespace opentrn::graph::shape {

// elementwise.cc
Types unary(const Context& c);
Types abs(const Context& c);
Types real_or_imag(const Context& c);
Types predicate(const Context& c);
Types convert(const Context& c);
Types reduce_precision(const Context& c);
Types uniform_quantize(const Context& c);
Types uniform_dequantize(const Context& c);
Types binary(const Context& c);
Types add(const Context& c);
Types compare(const Context& c);
Types complex(const Context& c);
Types clamp(const Context& c);
Types select(const Context& c);
Types bitcast_convert(const Context& c);

// layout.cc
Types constant(const Context& c);
Types iota(const Context& c);
Types broadcast(const Context& c);
Types broadcast_in_dim(const Context& c);
Types reshape(const Context& c);
Types transpose(const Context& c);
Types reverse(const Context& c);
Types pad(const Context& c);
Types dynamic_pad(const Context& c);
Types slice(const Context& c);
Types real_dynamic_slice(const Context& c);
Types concatenate(const Context& c);
Types dynamic_slice(const Context& c);
Types dynamic_update_slice(const Context& c);
Types get_dimension_size(const Context& c);
Types set_dimension_size(const Context& c);
Types dynamic_broadcast_in_dim(const Context& c);
Types dynamic_iota(const Context& c);
Types dynamic_reshape(const Context& c);

// matmul.cc
Types dot_general(const Context& c);
Types dot(const Context& c);
Types einsum(const Context& c);
Types convolution(const Context& c);
Types dynamic_conv(const Context& c);

// reduce.cc
Types reduce(const Context& c);
Types reduce_window(const Context& c);
Types select_and_scatter(const Context& c);
Types map(const Context& c);
Types sort(const Context& c);

// gather_scatter.cc
Types gather(const Context& c);
Types dynamic_gather(const Context& c);
Types scatter(const Context& c);
Types torch_index_select(const Context& c);

// linear_algebra.cc
Types batch_norm_inference(const Context& c);
Types batch_norm_training(const Context& c);
Types batch_norm_grad(const Context& c);
Types cholesky(const Context& c);
Types triangular_solve(const Context& c);
Types fft(const Context& c);
Types rng(const Context& c);
Types rng_bit_generator(const Context& c);

// collective.cc, also for send and recv
void check_source_target_pairs(const Context& c);

// control.cc
Types if_(const Context& c);
Types case_(const Context& c);
Types while_(const Context& c);
Types call(const Context& c);
Types composite(const Context& c);
Types custom_call(const Context& c);
Types optimization_barrier(const Context& c);
Types tuple(const Context& c);
Types get_tuple_element(const Context& c);
Types token(const Context& c);
Types infeed(const Context& c);
Types outfeed(const Context& c);
Types send(const Context& c);
Types recv(const Context& c);
Types return_(const Context& c);

// collective.cc
Types all_gather(const Context& c);
Types all_reduce(const Context& c);
Types all_to_all(const Context& c);
Types reduce_scatter(const Context& c);
Types collective_broadcast(const Context& c);
Types collective_reduce(const Context& c);
Types collective_permute(const Context& c);
Types process_id(const Context& c);
Types async_start(const Context& c);
Types async_done(const Context& c);

// chlo.cc
Types broadcasting(const Context& c);
Types broadcast_compare(const Context& c);
Types broadcast_complex(const Context& c);
Types broadcast_select(const Context& c);
Types constant_like(const Context& c);
Types top_k(const Context& c);
Types ragged_dot(const Context& c);
Types scan(const Context& c);

// definition.cc: counts of operands, results and regions, presence and kind of attributes, as
// op_definitions.h has them.
void check_definition(const Context& c, const Op& op);
// A type is well formed: dimensions not negative, bounds and quantization parameters that fit the shape.
void check_type(const Context& c, const Type& type);

}  // namespace opentrn::graph::shape
