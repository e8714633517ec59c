// The bodies of the ops, by family. Semantics: stablehlo/docs/spec.md, the section of the op's name; for
// chlo ops stablehlo/dialect/ChloOps.td.
#pragma once

#include "graph/eval/call.h"

namespace opentrn::graph::eval {

// elementwise.cc
Tensor unary(const Call& call);
Tensor binary(const Call& call);
Tensor compare_op(const Call& call);
Tensor select(const Call& call);
Tensor clamp(const Call& call);
Tensor convert(const Call& call);
Tensor bitcast_convert(const Call& call);
Tensor reduce_precision(const Call& call);
Tensor complex(const Call& call);
Tensor real(const Call& call);
Tensor imag(const Call& call);
Tensor classify(const Call& call);  // is_finite, is_inf, is_pos_inf, is_neg_inf
// broadcasting.cc: chlo.broadcast_*
Tensor broadcasting(Call& call);
Tensor constant_like(const Call& call);

// movement.cc
Tensor broadcast(const Call& call);
Tensor broadcast_in_dim(const Call& call);
Tensor concatenate_op(const Call& call);
Tensor iota(const Call& call);
Tensor pad(const Call& call);
Tensor reshape(const Call& call);
Tensor reverse(const Call& call);
Tensor slice(const Call& call);
Tensor transpose_op(const Call& call);
Tensor get_dimension_size(const Call& call);
Tensor set_dimension_size(const Call& call);
// dynamic.cc
Tensor dynamic_broadcast_in_dim(const Call& call);
Tensor dynamic_iota(const Call& call);
Tensor dynamic_pad(const Call& call);
Tensor dynamic_reshape(const Call& call);
Tensor dynamic_slice(const Call& call);
Tensor dynamic_update_slice(const Call& call);
Tensor real_dynamic_slice(const Call& call);
// gather_scatter.cc
Tensor gather(const Call& call);
Tensor torch_index_select(const Call& call);
Items scatter(const Call& call);

// dot.cc
Tensor dot(const Call& call);
Tensor dot_general(const Call& call);
Tensor einsum(const Call& call);
Tensor unary_einsum(const Call& call);
Tensor ragged_dot(const Call& call);
// convolution.cc: convolution and dynamic_conv
Tensor convolution(const Call& call);
// linear_algebra.cc
Tensor cholesky(const Call& call);
Tensor triangular_solve(const Call& call);
// fft.cc
Tensor fft(const Call& call);
// batch_norm.cc
Items batch_norm_grad(const Call& call);
Tensor batch_norm_inference(const Call& call);
Items batch_norm_training(const Call& call);

// reduce.cc
Items reduce(const Call& call);
Items map(const Call& call);
Items scan(const Call& call);
// window.cc
Items reduce_window(const Call& call);
Tensor select_and_scatter(const Call& call);
// sort.cc
Items sort(const Call& call);
Items top_k(const Call& call);

// random.cc
Items rng_bit_generator(const Call& call);
Tensor rng(const Call& call);

// quantized.cc
Tensor uniform_quantize(const Call& call);
Tensor uniform_dequantize(const Call& call);
bool is_quantized_arithmetic(const Call& call);
// Dequantises the operands, runs `body`, quantises its results.
Items dequantize_op_quantize(Call& call, Items (*body)(Call&));

// control.cc
Items call_function(const Call& call);
Items case_op(const Call& call);
Items composite(const Call& call);
Items custom_call(const Call& call);
Items if_op(const Call& call);
Items while_op(const Call& call);
Items infeed(const Call& call);
Items outfeed(const Call& call);

// collective.cc
Items all_gather(const Call& call);
Items all_reduce(const Call& call);
Items all_to_all(const Call& call);
Items collective_broadcast(const Call& call);
Items collective_permute(const Call& call);
Items collective_reduce(const Call& call);
Items reduce_scatter(const Call& call);
Items send(const Call& call);
Items recv(const Call& call);

}  // namespace opentrn::graph::eval
