// The importer functions of all operators, by the file that holds them. The table is in op_table.cc.
#pragma once

#include "import/onnx/node.h"

namespace opentrn::import::onnx {

// data_shape.cc
void import_compress(Node& n);
void import_non_max_suppression(Node& n);
void import_non_zero(Node& n);
void import_unique(Node& n);

// elementwise.cc
void import_ceil(Node& n);
void import_floor(Node& n);
void import_round(Node& n);
void import_exp(Node& n);
void import_log(Node& n);
void import_neg(Node& n);
void import_sqrt(Node& n);
void import_sin(Node& n);
void import_cos(Node& n);
void import_tan(Node& n);
void import_tanh(Node& n);
void import_sinh(Node& n);
void import_cosh(Node& n);
void import_asin(Node& n);
void import_acos(Node& n);
void import_atan(Node& n);
void import_asinh(Node& n);
void import_acosh(Node& n);
void import_atanh(Node& n);
void import_erf(Node& n);
void import_not(Node& n);
void import_add(Node& n);
void import_sub(Node& n);
void import_mul(Node& n);
void import_div(Node& n);
void import_and(Node& n);
void import_or(Node& n);
void import_xor(Node& n);
void import_equal(Node& n);
void import_greater(Node& n);
void import_greater_or_equal(Node& n);
void import_less(Node& n);
void import_less_or_equal(Node& n);
void import_max(Node& n);
void import_min(Node& n);
void import_sum(Node& n);
void import_mean(Node& n);
void import_identity(Node& n);
void import_abs(Node& n);
void import_sign(Node& n);
void import_reciprocal(Node& n);
void import_mod(Node& n);
void import_pow(Node& n);
void import_bit_shift(Node& n);
void import_is_nan(Node& n);
void import_is_inf(Node& n);
void import_where(Node& n);
void import_clip(Node& n);
void import_prelu(Node& n);
void import_cast(Node& n);
void import_cast_like(Node& n);
void import_bit_cast(Node& n);
void import_binarizer(Node& n);

// activation.cc
void import_relu(Node& n);
void import_leaky_relu(Node& n);
void import_elu(Node& n);
void import_sigmoid(Node& n);
void import_softplus(Node& n);
void import_gelu(Node& n);
void import_celu(Node& n);
void import_selu(Node& n);
void import_hard_sigmoid(Node& n);
void import_hard_swish(Node& n);
void import_mish(Node& n);
void import_softsign(Node& n);
void import_swish(Node& n);
void import_thresholded_relu(Node& n);
void import_shrink(Node& n);
void import_softmax(Node& n);
void import_log_softmax(Node& n);
void import_hardmax(Node& n);

// layout.cc
void import_constant(Node& n);
void import_constant_of_shape(Node& n);
void import_shape(Node& n);
void import_size(Node& n);
void import_reshape(Node& n);
void import_flatten(Node& n);
void import_transpose(Node& n);
void import_squeeze(Node& n);
void import_unsqueeze(Node& n);
void import_expand(Node& n);
void import_tile(Node& n);
void import_concat(Node& n);
void import_split(Node& n);
void import_slice(Node& n);
void import_pad(Node& n);
void import_range(Node& n);
void import_eye_like(Node& n);
void import_trilu(Node& n);
void import_depth_to_space(Node& n);
void import_det(Node& n);
void import_space_to_depth(Node& n);
void import_center_crop_pad(Node& n);
void import_one_hot(Node& n);
void import_reverse_sequence(Node& n);
void import_col2im(Node& n);
void import_array_feature_extractor(Node& n);

// reduce.cc
void import_reduce_sum(Node& n);
void import_reduce_prod(Node& n);
void import_reduce_max(Node& n);
void import_reduce_min(Node& n);
void import_reduce_mean(Node& n);
void import_reduce_l1(Node& n);
void import_reduce_l2(Node& n);
void import_reduce_sum_square(Node& n);
void import_reduce_log_sum(Node& n);
void import_reduce_log_sum_exp(Node& n);
void import_arg_max(Node& n);
void import_arg_min(Node& n);
void import_cum_sum(Node& n);
void import_cum_prod(Node& n);
void import_top_k(Node& n);

// matmul.cc
void import_matmul(Node& n);
void import_gemm(Node& n);
void import_einsum(Node& n);

// convolution.cc
void import_conv(Node& n);
void import_conv_integer(Node& n);
void import_qlinear_conv(Node& n);
void import_conv_transpose(Node& n);
void import_deform_conv(Node& n);

// pooling.cc
void import_average_pool(Node& n);
void import_lp_pool(Node& n);
void import_max_pool(Node& n);
void import_global_average_pool(Node& n);
void import_global_max_pool(Node& n);
void import_global_lp_pool(Node& n);
void import_max_unpool(Node& n);
void import_lrn(Node& n);

// normalization.cc
void import_batch_normalization(Node& n);
void import_instance_normalization(Node& n);
void import_layer_normalization(Node& n);
void import_rms_normalization(Node& n);
void import_group_normalization(Node& n);
void import_lp_normalization(Node& n);
void import_mean_variance_normalization(Node& n);

// gather_scatter.cc
void import_gather(Node& n);
void import_gather_elements(Node& n);
void import_gather_nd(Node& n);
void import_scatter_elements(Node& n);
void import_scatter_nd(Node& n);
void import_tensor_scatter(Node& n);

// control.cc
void import_if(Node& n);
void import_loop(Node& n);
void import_scan(Node& n);

// recurrent.cc
void import_rnn(Node& n);
void import_gru(Node& n);
void import_lstm(Node& n);
void import_dynamic_quantize_lstm(Node& n);

// quantize.cc
void import_quantize_linear(Node& n);
void import_dequantize_linear(Node& n);
void import_dynamic_quantize_linear(Node& n);
void import_matmul_integer(Node& n);
void import_qlinear_matmul(Node& n);

// attention.cc
void import_attention(Node& n);
void import_microsoft_rotary_embedding(Node& n);
void import_multi_head_attention(Node& n);
void import_packed_attention(Node& n);
void import_flex_attention(Node& n);
void import_rotary_embedding(Node& n);
void import_linear_attention(Node& n);
void import_causal_conv_with_state(Node& n);
void import_swiglu(Node& n);

// group_query_attention.cc
void import_group_query_attention(Node& n);

// experts.cc
void import_moe(Node& n);
void import_qmoe(Node& n);

// loss.cc
void import_negative_log_likelihood_loss(Node& n);
void import_softmax_cross_entropy_loss(Node& n);

// image.cc
void import_resize(Node& n);
void import_upsample(Node& n);
void import_grid_sample(Node& n);
void import_affine_grid(Node& n);
void import_roi_align(Node& n);
void import_max_roi_pool(Node& n);

// sequence.cc: Importer::import_sequence() takes such nodes before, but for those without outputs.
void import_list(Node& n);

// signal.cc
void import_hann_window(Node& n);
void import_hamming_window(Node& n);
void import_blackman_window(Node& n);
void import_dft(Node& n);
void import_stft(Node& n);
void import_mel_weight_matrix(Node& n);

// random.cc
void import_bernoulli(Node& n);
void import_dropout(Node& n);
void import_multinomial(Node& n);
void import_random_normal(Node& n);
void import_random_normal_like(Node& n);
void import_random_uniform(Node& n);
void import_random_uniform_like(Node& n);

// tfidf.cc
void import_tf_idf_vectorizer(Node& n);

// trees.cc
void import_tree_ensemble(Node& n);

// fused.cc
void import_bias_gelu(Node& n);
void import_embed_layer_normalization(Node& n);
void import_fast_gelu(Node& n);
void import_fused_conv(Node& n);
void import_fused_gemm(Node& n);
void import_fused_matmul(Node& n);
void import_gather_block_quantized(Node& n);
void import_matmul_nbits(Node& n);
void import_microsoft_gelu(Node& n);
void import_quick_gelu(Node& n);
void import_skip_layer_normalization(Node& n);
void import_skip_simplified_layer_normalization(Node& n);

// quantized_operators.cc
void import_dynamic_quantize_matmul(Node& n);
void import_matmul_integer_to_float(Node& n);
void import_qgemm(Node& n);
void import_qlinear_add(Node& n);
void import_qlinear_concat(Node& n);
void import_qlinear_global_average_pool(Node& n);
void import_qlinear_leaky_relu(Node& n);
void import_qlinear_mul(Node& n);
void import_qlinear_sigmoid(Node& n);

// training.cc
void import_adagrad(Node& n);
void import_adam(Node& n);
void import_momentum(Node& n);

// What one file lends to others.
ElementType element_type_of(int64_t data_type);
// Beyond a narrow float's largest value: that value, or what the format has.
ValueId saturated(const Emit& e, ValueId x, ElementType to, bool saturate);
ValueId softplus(const Emit& e, ValueId x);
ValueId gelu(const Emit& e, ValueId x, bool tanh_form);
ValueId hard_sigmoid(const Emit& e, ValueId x, double alpha, double beta);
ValueId elu(const Emit& e, ValueId x, double alpha);
ValueId leaky_relu(const Emit& e, ValueId x, double alpha);
ValueId log_softmax(const Emit& e, ValueId x, int64_t axis);
// Rounds to even, adds the zero point, saturates to the zero point's type.
ValueId quantized(const Emit& e, ValueId scaled, ValueId zero);
// Scale and zero point, ui8, of fp32 numbers from their range, which includes 0.
struct Quantisation {
  ValueId scale;
  ValueId zero;
};
Quantisation dynamic_range(const Emit& e, ValueId x);
// Numbers of `bits` bits, the lowest first in each byte: ui8 [count, bytes] to fp32 [count, numbers].
ValueId unpacked_bits(const Emit& e, ValueId packed, int64_t bits, int64_t numbers);
// The k largest of each row [rows, columns], the earlier of two equal ones first, and their places, i64.
std::pair<ValueId, ValueId> largest(const Emit& e, ValueId x, int64_t k);
// x [N, C, L], w [C, 1, taps], no padding.
ValueId depthwise_convolution(const Emit& e, ValueId x, ValueId w);
// image [N, C, H, W] at y, x [N, P]: [N, C, P]; zeros outside.
ValueId bilinear_sample(const Emit& e, ValueId image, ValueId y, ValueId x);

}  // namespace opentrn::import::onnx
