// The ops of a graph: StableHLO's, CHLO's, and a call and return for functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace opentrn::graph {

// X(enumerator, dialect, name)
// clang-format off
#define OPENTRN_GRAPH_STABLEHLO_OPS(X)                                                                       \
  X(abs)                                                                                                     \
  X(add)                                                                                                     \
  X(after_all) X(all_gather) X(all_reduce) X(all_to_all) X(and) X(async_done) X(async_start) X(atan2)        \
      X(batch_norm_grad) X(batch_norm_inference) X(batch_norm_training) X(bitcast_convert) X(broadcast) X(   \
          broadcast_in_dim) X(case) X(cbrt) X(ceil) X(cholesky) X(clamp) X(collective_broadcast)             \
          X(collective_permute) X(collective_reduce) X(compare) X(complex) X(composite) X(concatenate) X(    \
              constant) X(convert) X(convolution) X(cosine) X(count_leading_zeros) X(create_token)           \
              X(custom_call) X(divide) X(dot) X(dot_general) X(dynamic_broadcast_in_dim) X(dynamic_conv) X(  \
                  dynamic_gather) X(dynamic_iota) X(dynamic_pad) X(dynamic_reshape) X(dynamic_slice)         \
                  X(dynamic_update_slice) X(einsum) X(exponential) X(exponential_minus_one) X(fft) X(floor)  \
                      X(gather) X(get_dimension_size) X(get_tuple_element) X(if) X(imag) X(infeed) X(iota)   \
                          X(is_finite) X(log) X(log_plus_one) X(logistic) X(map) X(maximum) X(minimum)       \
                              X(multiply) X(negate) X(not ) X(optimization_barrier) X(or) X(outfeed) X(pad)  \
                                  X(partition_id) X(popcnt) X(power) X(real) X(real_dynamic_slice) X(recv)   \
                                      X(reduce) X(reduce_precision) X(reduce_scatter) X(reduce_window)       \
                                          X(remainder) X(replica_id) X(reshape) X(return ) X(reverse) X(rng) \
                                              X(rng_bit_generator) X(round_nearest_afz)                      \
                                                  X(round_nearest_even) X(rsqrt) X(scatter) X(select)        \
                                                      X(select_and_scatter) X(send) X(set_dimension_size)    \
                                                          X(shift_left) X(shift_right_arithmetic)            \
                                                              X(shift_right_logical) X(sign) X(sine)         \
                                                                  X(slice) X(sort) X(sqrt) X(subtract)       \
                                                                      X(tan) X(tanh) X(torch_index_select)   \
                                                                          X(transpose) X(triangular_solve)   \
                                                                              X(tuple) X(unary_einsum)       \
                                                                                  X(uniform_dequantize)      \
                                                                                      X(uniform_quantize)    \
                                                                                          X(while) X(xor)

#define OPENTRN_GRAPH_CHLO_OPS(X)                                                                           \
  X(_asin_acos_kernel)                                                                                      \
  X(acos)                                                                                                   \
  X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(bessel_i1e) X(broadcast_acos) X(broadcast_add)               \
      X(broadcast_and) X(broadcast_atan2) X(broadcast_compare) X(broadcast_complex) X(broadcast_divide)     \
          X(broadcast_maximum) X(broadcast_minimum) X(broadcast_multiply) X(broadcast_next_after)           \
              X(broadcast_or) X(broadcast_polygamma) X(broadcast_power) X(broadcast_remainder)              \
                  X(broadcast_select) X(broadcast_shift_left) X(broadcast_shift_right_arithmetic)           \
                      X(broadcast_shift_right_logical) X(broadcast_subtract) X(broadcast_xor)               \
                          X(broadcast_zeta) X(conj) X(constant) X(constant_like) X(cosh) X(digamma) X(erf)  \
                              X(erf_inv) X(erfc) X(is_inf) X(is_neg_inf) X(is_pos_inf) X(lgamma) X(mulhi)   \
                                  X(next_after) X(polygamma) X(ragged_dot) X(scan) X(sinh) X(square) X(tan) \
                                      X(top_k) X(zeta)
// clang-format on

// A trailing underscore keeps C++ keywords (and_, case_, if_, not_, or_, return_, while_, xor_) apart.
enum class OpKind : uint8_t {
#define X(name) name##_,
  OPENTRN_GRAPH_STABLEHLO_OPS(X)
#undef X
#define X(name) chlo_##name##_,
      OPENTRN_GRAPH_CHLO_OPS(X)
#undef X
          call_,  // func.call
};
inline constexpr int kOpKindCount = static_cast<int>(OpKind::call_) + 1;

// "stablehlo.add", "chlo.erf", "func.call".
std::string_view name(OpKind kind);
// Accepts "func.return" for return_ and "call", "return" as MLIR prints them inside functions.
std::optional<OpKind> op_kind_from_name(std::string_view name);

}  // namespace opentrn::graph
