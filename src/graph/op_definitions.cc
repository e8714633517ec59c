#include "graph/op_definitions.h"

#include <array>

namespace opentrn::graph {

namespace {

constexpr AttrSpec kAllGather[] = {
    {Attr::all_gather_dim, AttrKind::kInt, Needed::kYes},
    {Attr::replica_groups, AttrKind::kMatrix, Needed::kYes},
    {Attr::channel_id, AttrKind::kInt, Needed::kNo},
    {Attr::use_global_device_ids, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kAllReduce[] = {
    {Attr::replica_groups, AttrKind::kMatrix, Needed::kYes},
    {Attr::channel_id, AttrKind::kInt, Needed::kNo},
    {Attr::use_global_device_ids, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kAllToAll[] = {
    {Attr::split_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::concat_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::split_count, AttrKind::kInt, Needed::kYes},
    {Attr::replica_groups, AttrKind::kMatrix, Needed::kYes},
    {Attr::channel_id, AttrKind::kInt, Needed::kNo},
};
constexpr AttrSpec kBatchNormGrad[] = {
    {Attr::epsilon, AttrKind::kReal, Needed::kYes},
    {Attr::feature_index, AttrKind::kInt, Needed::kYes},
};
constexpr AttrSpec kBroadcast[] = {
    {Attr::broadcast_sizes, AttrKind::kInts, Needed::kYes},
};
constexpr AttrSpec kBroadcastInDim[] = {
    {Attr::broadcast_dimensions, AttrKind::kInts, Needed::kYes},
};
constexpr AttrSpec kCbrt[] = {
    {Attr::result_accuracy, AttrKind::kAny, Needed::kNo},
};
constexpr AttrSpec kCholesky[] = {
    {Attr::lower, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kCollectiveBroadcast[] = {
    {Attr::replica_groups, AttrKind::kMatrix, Needed::kYes},
    {Attr::channel_id, AttrKind::kInt, Needed::kNo},
    {Attr::has_dynamic_root, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kCollectivePermute[] = {
    {Attr::source_target_pairs, AttrKind::kMatrix, Needed::kYes},
    {Attr::channel_id, AttrKind::kInt, Needed::kNo},
};
constexpr AttrSpec kCollectiveReduce[] = {
    {Attr::replica_groups, AttrKind::kMatrix, Needed::kYes},
    {Attr::channel_id, AttrKind::kInt, Needed::kNo},
    {Attr::use_global_device_ids, AttrKind::kBool, Needed::kNo},
    {Attr::has_dynamic_root, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kCompare[] = {
    {Attr::comparison_direction, AttrKind::kComparisonDirection, Needed::kYes},
    {Attr::compare_type, AttrKind::kComparisonType, Needed::kNo},
};
constexpr AttrSpec kComposite[] = {
    {Attr::name, AttrKind::kString, Needed::kYes},
    {Attr::composite_attributes, AttrKind::kDictionary, Needed::kNo},
    {Attr::decomposition, AttrKind::kSymbol, Needed::kYes},
    {Attr::version, AttrKind::kInt, Needed::kNo},
};
constexpr AttrSpec kConcatenate[] = {
    {Attr::dimension, AttrKind::kInt, Needed::kYes},
};
constexpr AttrSpec kConstant[] = {
    {Attr::value, AttrKind::kLiteral, Needed::kYes},
};
constexpr AttrSpec kConvolution[] = {
    {Attr::window_strides, AttrKind::kInts, Needed::kNo},
    {Attr::padding, AttrKind::kMatrix, Needed::kNo},
    {Attr::lhs_dilation, AttrKind::kInts, Needed::kNo},
    {Attr::rhs_dilation, AttrKind::kInts, Needed::kNo},
    {Attr::window_reversal, AttrKind::kInts, Needed::kNo},
    {Attr::input_batch_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::input_feature_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::input_spatial_dimensions, AttrKind::kInts, Needed::kYes},
    {Attr::kernel_input_feature_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::kernel_output_feature_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::kernel_spatial_dimensions, AttrKind::kInts, Needed::kYes},
    {Attr::output_batch_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::output_feature_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::output_spatial_dimensions, AttrKind::kInts, Needed::kYes},
    {Attr::feature_group_count, AttrKind::kInt, Needed::kYes},
    {Attr::batch_group_count, AttrKind::kInt, Needed::kYes},
    {Attr::precision_config, AttrKind::kPrecisions, Needed::kNo},
};
constexpr AttrSpec kCustomCall[] = {
    {Attr::call_target_name, AttrKind::kString, Needed::kYes},
    {Attr::has_side_effect, AttrKind::kBool, Needed::kNo},
    {Attr::backend_config, AttrKind::kAny, Needed::kNo},
    {Attr::api_version, AttrKind::kCustomCallApi, Needed::kNo},
    {Attr::called_computations, AttrKind::kSymbols, Needed::kNo},
    {Attr::operand_layouts, AttrKind::kAny, Needed::kNo},
    {Attr::result_layouts, AttrKind::kAny, Needed::kNo},
    {Attr::output_operand_aliases, AttrKind::kAny, Needed::kNo},
    {Attr::result_tilings, AttrKind::kAny, Needed::kNo},
};
constexpr AttrSpec kDot[] = {
    {Attr::precision_config, AttrKind::kPrecisions, Needed::kNo},
};
constexpr AttrSpec kDotGeneral[] = {
    {Attr::lhs_batching_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::rhs_batching_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::lhs_contracting_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::rhs_contracting_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::precision_config, AttrKind::kPrecisions, Needed::kNo},
    {Attr::lhs_precision_type, AttrKind::kType, Needed::kNo},
    {Attr::rhs_precision_type, AttrKind::kType, Needed::kNo},
    {Attr::accumulation_type, AttrKind::kType, Needed::kNo},
    {Attr::lhs_component_count, AttrKind::kInt, Needed::kNo},
    {Attr::rhs_component_count, AttrKind::kInt, Needed::kNo},
    {Attr::num_primitive_operations, AttrKind::kInt, Needed::kNo},
    {Attr::allow_imprecise_accumulation, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kDynamicBroadcastInDim[] = {
    {Attr::broadcast_dimensions, AttrKind::kInts, Needed::kYes},
    {Attr::known_expanding_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::known_nonexpanding_dimensions, AttrKind::kInts, Needed::kNo},
};
constexpr AttrSpec kDynamicConv[] = {
    {Attr::window_strides, AttrKind::kInts, Needed::kNo},
    {Attr::lhs_dilation, AttrKind::kInts, Needed::kNo},
    {Attr::rhs_dilation, AttrKind::kInts, Needed::kNo},
    {Attr::window_reversal, AttrKind::kInts, Needed::kNo},
    {Attr::input_batch_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::input_feature_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::input_spatial_dimensions, AttrKind::kInts, Needed::kYes},
    {Attr::kernel_input_feature_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::kernel_output_feature_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::kernel_spatial_dimensions, AttrKind::kInts, Needed::kYes},
    {Attr::output_batch_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::output_feature_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::output_spatial_dimensions, AttrKind::kInts, Needed::kYes},
    {Attr::feature_group_count, AttrKind::kInt, Needed::kYes},
    {Attr::batch_group_count, AttrKind::kInt, Needed::kYes},
    {Attr::precision_config, AttrKind::kPrecisions, Needed::kNo},
};
constexpr AttrSpec kDynamicGather[] = {
    {Attr::offset_dims, AttrKind::kInts, Needed::kNo},
    {Attr::collapsed_slice_dims, AttrKind::kInts, Needed::kNo},
    {Attr::operand_batching_dims, AttrKind::kInts, Needed::kNo},
    {Attr::start_indices_batching_dims, AttrKind::kInts, Needed::kNo},
    {Attr::start_index_map, AttrKind::kInts, Needed::kNo},
    {Attr::index_vector_dim, AttrKind::kInt, Needed::kYes},
    {Attr::indices_are_sorted, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kDynamicIota[] = {
    {Attr::iota_dimension, AttrKind::kInt, Needed::kYes},
};
constexpr AttrSpec kDynamicSlice[] = {
    {Attr::slice_sizes, AttrKind::kInts, Needed::kYes},
};
constexpr AttrSpec kEinsum[] = {
    {Attr::einsum_config, AttrKind::kString, Needed::kYes},
};
constexpr AttrSpec kFft[] = {
    {Attr::fft_type, AttrKind::kFftType, Needed::kYes},
    {Attr::fft_length, AttrKind::kInts, Needed::kYes},
};
constexpr AttrSpec kGather[] = {
    {Attr::offset_dims, AttrKind::kInts, Needed::kNo},
    {Attr::collapsed_slice_dims, AttrKind::kInts, Needed::kNo},
    {Attr::operand_batching_dims, AttrKind::kInts, Needed::kNo},
    {Attr::start_indices_batching_dims, AttrKind::kInts, Needed::kNo},
    {Attr::start_index_map, AttrKind::kInts, Needed::kNo},
    {Attr::index_vector_dim, AttrKind::kInt, Needed::kYes},
    {Attr::slice_sizes, AttrKind::kInts, Needed::kYes},
    {Attr::indices_are_sorted, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kGetTupleElement[] = {
    {Attr::index, AttrKind::kInt, Needed::kYes},
};
constexpr AttrSpec kInfeed[] = {
    {Attr::infeed_config, AttrKind::kString, Needed::kNo},
    {Attr::layout, AttrKind::kAny, Needed::kNo},
};
constexpr AttrSpec kMap[] = {
    {Attr::dimensions, AttrKind::kInts, Needed::kYes},
};
constexpr AttrSpec kOutfeed[] = {
    {Attr::outfeed_config, AttrKind::kString, Needed::kNo},
};
constexpr AttrSpec kPad[] = {
    {Attr::edge_padding_low, AttrKind::kInts, Needed::kYes},
    {Attr::edge_padding_high, AttrKind::kInts, Needed::kYes},
    {Attr::interior_padding, AttrKind::kInts, Needed::kYes},
};
constexpr AttrSpec kRecv[] = {
    {Attr::channel_id, AttrKind::kInt, Needed::kYes},
    {Attr::channel_type, AttrKind::kInt, Needed::kYes},
    {Attr::is_host_transfer, AttrKind::kBool, Needed::kNo},
    {Attr::source_target_pairs, AttrKind::kMatrix, Needed::kNo},
};
constexpr AttrSpec kReducePrecision[] = {
    {Attr::exponent_bits, AttrKind::kInt, Needed::kYes},
    {Attr::mantissa_bits, AttrKind::kInt, Needed::kYes},
};
constexpr AttrSpec kReduceScatter[] = {
    {Attr::scatter_dimension, AttrKind::kInt, Needed::kYes},
    {Attr::replica_groups, AttrKind::kMatrix, Needed::kYes},
    {Attr::channel_id, AttrKind::kInt, Needed::kNo},
    {Attr::use_global_device_ids, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kReduceWindow[] = {
    {Attr::window_dimensions, AttrKind::kInts, Needed::kYes},
    {Attr::window_strides, AttrKind::kInts, Needed::kNo},
    {Attr::base_dilations, AttrKind::kInts, Needed::kNo},
    {Attr::window_dilations, AttrKind::kInts, Needed::kNo},
    {Attr::padding, AttrKind::kMatrix, Needed::kNo},
};
constexpr AttrSpec kRng[] = {
    {Attr::rng_distribution, AttrKind::kRngDistribution, Needed::kYes},
};
constexpr AttrSpec kRngBitGenerator[] = {
    {Attr::rng_algorithm, AttrKind::kRngAlgorithm, Needed::kYes},
};
constexpr AttrSpec kScatter[] = {
    {Attr::update_window_dims, AttrKind::kInts, Needed::kNo},
    {Attr::inserted_window_dims, AttrKind::kInts, Needed::kNo},
    {Attr::input_batching_dims, AttrKind::kInts, Needed::kNo},
    {Attr::scatter_indices_batching_dims, AttrKind::kInts, Needed::kNo},
    {Attr::scatter_dims_to_operand_dims, AttrKind::kInts, Needed::kNo},
    {Attr::index_vector_dim, AttrKind::kInt, Needed::kYes},
    {Attr::indices_are_sorted, AttrKind::kBool, Needed::kNo},
    {Attr::unique_indices, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kSelectAndScatter[] = {
    {Attr::window_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::window_strides, AttrKind::kInts, Needed::kNo},
    {Attr::padding, AttrKind::kMatrix, Needed::kNo},
};
constexpr AttrSpec kSlice[] = {
    {Attr::start_indices, AttrKind::kInts, Needed::kYes},
    {Attr::limit_indices, AttrKind::kInts, Needed::kYes},
    {Attr::strides, AttrKind::kInts, Needed::kYes},
};
constexpr AttrSpec kSort[] = {
    {Attr::dimension, AttrKind::kInt, Needed::kNo},
    {Attr::is_stable, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kTorchIndexSelect[] = {
    {Attr::dim, AttrKind::kInt, Needed::kYes},
    {Attr::batch_dims, AttrKind::kInt, Needed::kYes},
};
constexpr AttrSpec kTranspose[] = {
    {Attr::permutation, AttrKind::kInts, Needed::kYes},
};
constexpr AttrSpec kTriangularSolve[] = {
    {Attr::left_side, AttrKind::kBool, Needed::kYes},
    {Attr::lower, AttrKind::kBool, Needed::kYes},
    {Attr::unit_diagonal, AttrKind::kBool, Needed::kYes},
    {Attr::transpose_a, AttrKind::kTranspose, Needed::kYes},
};
constexpr AttrSpec kBroadcastAcos[] = {
    {Attr::broadcast_dimensions, AttrKind::kInts, Needed::kNo},
};
constexpr AttrSpec kBroadcastCompare[] = {
    {Attr::broadcast_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::comparison_direction, AttrKind::kComparisonDirection, Needed::kYes},
    {Attr::compare_type, AttrKind::kComparisonType, Needed::kNo},
};
constexpr AttrSpec kConstantLike[] = {
    {Attr::value, AttrKind::kAny, Needed::kYes},
};
constexpr AttrSpec kRaggedDot[] = {
    {Attr::lhs_batching_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::rhs_batching_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::lhs_contracting_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::rhs_contracting_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::lhs_ragged_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::rhs_group_dimensions, AttrKind::kInts, Needed::kNo},
    {Attr::precision_config, AttrKind::kPrecisions, Needed::kNo},
};
constexpr AttrSpec kScan[] = {
    {Attr::dimension, AttrKind::kInt, Needed::kYes},
    {Attr::is_reverse, AttrKind::kBool, Needed::kNo},
};
constexpr AttrSpec kTopK[] = {
    {Attr::k, AttrKind::kInt, Needed::kYes},
    {Attr::is_stable, AttrKind::kBool, Needed::kNo},  // true where absent
};
constexpr AttrSpec kCall[] = {
    {Attr::callee, AttrKind::kSymbol, Needed::kYes},
};

constexpr std::array<OpDefinition, kOpKindCount> kDefinitions{{
    {OpKind::abs_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::add_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::after_all_, OpClass::kOther, {0, kVariadic}, {1, 1}, {0, 0}, false, {}},
    {OpKind::all_gather_, OpClass::kCollective, {1, kVariadic}, {1, kVariadic}, {0, 0}, false, kAllGather},
    {OpKind::all_reduce_, OpClass::kCollective, {1, kVariadic}, {1, kVariadic}, {1, 1}, false, kAllReduce},
    {OpKind::all_to_all_, OpClass::kCollective, {1, kVariadic}, {1, kVariadic}, {0, 0}, false, kAllToAll},
    {OpKind::and_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::async_done_, OpClass::kCollective, {1, 1}, {0, kVariadic}, {0, 0}, false, {}},
    {OpKind::async_start_, OpClass::kCollective, {0, kVariadic}, {1, 1}, {1, 1}, false, {}},
    {OpKind::atan2_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::batch_norm_grad_, OpClass::kOther, {5, 5}, {3, 3}, {0, 0}, false, kBatchNormGrad},
    {OpKind::batch_norm_inference_, OpClass::kOther, {5, 5}, {1, 1}, {0, 0}, false, kBatchNormGrad},
    {OpKind::batch_norm_training_, OpClass::kOther, {3, 3}, {3, 3}, {0, 0}, false, kBatchNormGrad},
    {OpKind::bitcast_convert_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::broadcast_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kBroadcast},
    {OpKind::broadcast_in_dim_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kBroadcastInDim},
    {OpKind::case_, OpClass::kControlFlow, {1, 1}, {0, kVariadic}, {1, kVariadic}, false, {}},
    {OpKind::cbrt_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::ceil_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::cholesky_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kCholesky},
    {OpKind::clamp_, OpClass::kOther, {3, 3}, {1, 1}, {0, 0}, false, {}},
    {OpKind::collective_broadcast_,
     OpClass::kCollective,
     {1, kVariadic},
     {1, kVariadic},
     {0, 0},
     false,
     kCollectiveBroadcast},
    {OpKind::collective_permute_,
     OpClass::kCollective,
     {1, kVariadic},
     {1, kVariadic},
     {0, 0},
     false,
     kCollectivePermute},
    {OpKind::collective_reduce_,
     OpClass::kCollective,
     {1, kVariadic},
     {1, kVariadic},
     {1, 1},
     false,
     kCollectiveReduce},
    {OpKind::compare_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, kCompare},
    {OpKind::complex_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::composite_, OpClass::kOther, {0, kVariadic}, {0, kVariadic}, {0, kVariadic}, false, kComposite},
    {OpKind::concatenate_, OpClass::kOther, {1, kVariadic}, {1, 1}, {0, 0}, false, kConcatenate},
    {OpKind::constant_, OpClass::kOther, {0, 0}, {1, 1}, {0, 0}, false, kConstant},
    {OpKind::convert_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::convolution_, OpClass::kOther, {2, 2}, {1, 1}, {0, 0}, false, kConvolution},
    {OpKind::cosine_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::count_leading_zeros_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::create_token_, OpClass::kOther, {0, 0}, {1, 1}, {0, 0}, false, {}},
    {OpKind::custom_call_,
     OpClass::kOther,
     {0, kVariadic},
     {0, kVariadic},
     {0, kVariadic},
     true,
     kCustomCall},
    {OpKind::divide_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::dot_, OpClass::kOther, {2, 2}, {1, 1}, {0, 0}, false, kDot},
    {OpKind::dot_general_, OpClass::kOther, {2, 2}, {1, 1}, {0, 0}, false, kDotGeneral},
    {OpKind::dynamic_broadcast_in_dim_,
     OpClass::kDynamic,
     {2, 2},
     {1, 1},
     {0, 0},
     false,
     kDynamicBroadcastInDim},
    {OpKind::dynamic_conv_, OpClass::kDynamic, {3, 3}, {1, 1}, {0, 0}, false, kDynamicConv},
    {OpKind::dynamic_gather_, OpClass::kDynamic, {3, 3}, {1, 1}, {0, 0}, false, kDynamicGather},
    {OpKind::dynamic_iota_, OpClass::kDynamic, {1, 1}, {1, 1}, {0, 0}, false, kDynamicIota},
    {OpKind::dynamic_pad_, OpClass::kDynamic, {5, 5}, {1, 1}, {0, 0}, false, {}},
    {OpKind::dynamic_reshape_, OpClass::kDynamic, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::dynamic_slice_, OpClass::kOther, {1, kVariadic}, {1, 1}, {0, 0}, false, kDynamicSlice},
    {OpKind::dynamic_update_slice_, OpClass::kOther, {2, kVariadic}, {1, 1}, {0, 0}, false, {}},
    {OpKind::einsum_, OpClass::kOther, {2, 2}, {1, 1}, {0, 0}, false, kEinsum},
    {OpKind::exponential_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::exponential_minus_one_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::fft_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kFft},
    {OpKind::floor_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::gather_, OpClass::kOther, {2, 2}, {1, 1}, {0, 0}, false, kGather},
    {OpKind::get_dimension_size_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kConcatenate},
    {OpKind::get_tuple_element_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kGetTupleElement},
    {OpKind::if_, OpClass::kControlFlow, {1, 1}, {0, kVariadic}, {2, 2}, false, {}},
    {OpKind::imag_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::infeed_, OpClass::kOther, {1, 1}, {1, kVariadic}, {0, 0}, true, kInfeed},
    {OpKind::iota_, OpClass::kOther, {0, 0}, {1, 1}, {0, 0}, false, kDynamicIota},
    {OpKind::is_finite_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::log_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::log_plus_one_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::logistic_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::map_, OpClass::kControlFlow, {1, kVariadic}, {1, 1}, {1, 1}, false, kMap},
    {OpKind::maximum_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::minimum_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::multiply_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::negate_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::not_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::optimization_barrier_, OpClass::kOther, {0, kVariadic}, {0, kVariadic}, {0, 0}, false, {}},
    {OpKind::or_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::outfeed_, OpClass::kOther, {1, kVariadic}, {1, 1}, {0, 0}, true, kOutfeed},
    {OpKind::pad_, OpClass::kOther, {2, 2}, {1, 1}, {0, 0}, false, kPad},
    {OpKind::partition_id_, OpClass::kCollective, {0, 0}, {1, 1}, {0, 0}, false, {}},
    {OpKind::popcnt_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::power_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::real_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::real_dynamic_slice_, OpClass::kDynamic, {4, 4}, {1, 1}, {0, 0}, false, {}},
    {OpKind::recv_, OpClass::kOther, {1, 1}, {1, kVariadic}, {0, 0}, true, kRecv},
    {OpKind::reduce_, OpClass::kControlFlow, {2, kVariadic}, {1, kVariadic}, {1, 1}, false, kMap},
    {OpKind::reduce_precision_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kReducePrecision},
    {OpKind::reduce_scatter_, OpClass::kCollective, {1, 1}, {1, 1}, {1, 1}, false, kReduceScatter},
    {OpKind::reduce_window_,
     OpClass::kControlFlow,
     {2, kVariadic},
     {1, kVariadic},
     {1, 1},
     false,
     kReduceWindow},
    {OpKind::remainder_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::replica_id_, OpClass::kCollective, {0, 0}, {1, 1}, {0, 0}, false, {}},
    {OpKind::reshape_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::return_, OpClass::kOther, {0, kVariadic}, {0, 0}, {0, 0}, false, {}},
    {OpKind::reverse_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kMap},
    {OpKind::rng_, OpClass::kOther, {3, 3}, {1, 1}, {0, 0}, true, kRng},
    {OpKind::rng_bit_generator_, OpClass::kOther, {1, 1}, {2, 2}, {0, 0}, false, kRngBitGenerator},
    {OpKind::round_nearest_afz_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::round_nearest_even_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::rsqrt_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::scatter_, OpClass::kControlFlow, {3, kVariadic}, {1, kVariadic}, {1, 1}, false, kScatter},
    {OpKind::select_, OpClass::kOther, {3, 3}, {1, 1}, {0, 0}, false, {}},
    {OpKind::select_and_scatter_, OpClass::kControlFlow, {3, 3}, {1, 1}, {2, 2}, false, kSelectAndScatter},
    {OpKind::send_, OpClass::kOther, {1, kVariadic}, {1, 1}, {0, 0}, true, kRecv},
    {OpKind::set_dimension_size_, OpClass::kOther, {2, 2}, {1, 1}, {0, 0}, false, kConcatenate},
    {OpKind::shift_left_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::shift_right_arithmetic_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::shift_right_logical_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::sign_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::sine_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::slice_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kSlice},
    {OpKind::sort_, OpClass::kControlFlow, {1, kVariadic}, {1, kVariadic}, {1, 1}, false, kSort},
    {OpKind::sqrt_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::subtract_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::tan_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::tanh_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, kCbrt},
    {OpKind::torch_index_select_, OpClass::kOther, {2, 2}, {1, 1}, {0, 0}, false, kTorchIndexSelect},
    {OpKind::transpose_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kTranspose},
    {OpKind::triangular_solve_, OpClass::kOther, {2, 2}, {1, 1}, {0, 0}, false, kTriangularSolve},
    {OpKind::tuple_, OpClass::kOther, {0, kVariadic}, {1, 1}, {0, 0}, false, {}},
    {OpKind::unary_einsum_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kEinsum},
    {OpKind::uniform_dequantize_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::uniform_quantize_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::while_, OpClass::kControlFlow, {0, kVariadic}, {0, kVariadic}, {2, 2}, false, {}},
    {OpKind::xor_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo__asin_acos_kernel_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_acos_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_acosh_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_asin_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_asinh_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_atan_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_atanh_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_bessel_i1e_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_broadcast_acos_, OpClass::kBroadcasting, {1, 1}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_add_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_and_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_atan2_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_compare_,
     OpClass::kBroadcasting,
     {2, 2},
     {1, 1},
     {0, 0},
     false,
     kBroadcastCompare},
    {OpKind::chlo_broadcast_complex_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_divide_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_maximum_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_minimum_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_multiply_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_next_after_,
     OpClass::kBroadcasting,
     {2, 2},
     {1, 1},
     {0, 0},
     false,
     kBroadcastAcos},
    {OpKind::chlo_broadcast_or_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_polygamma_,
     OpClass::kBroadcasting,
     {2, 2},
     {1, 1},
     {0, 0},
     false,
     kBroadcastAcos},
    {OpKind::chlo_broadcast_power_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_remainder_,
     OpClass::kBroadcasting,
     {2, 2},
     {1, 1},
     {0, 0},
     false,
     kBroadcastAcos},
    {OpKind::chlo_broadcast_select_, OpClass::kBroadcasting, {3, 3}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_broadcast_shift_left_,
     OpClass::kBroadcasting,
     {2, 2},
     {1, 1},
     {0, 0},
     false,
     kBroadcastAcos},
    {OpKind::chlo_broadcast_shift_right_arithmetic_,
     OpClass::kBroadcasting,
     {2, 2},
     {1, 1},
     {0, 0},
     false,
     kBroadcastAcos},
    {OpKind::chlo_broadcast_shift_right_logical_,
     OpClass::kBroadcasting,
     {2, 2},
     {1, 1},
     {0, 0},
     false,
     kBroadcastAcos},
    {OpKind::chlo_broadcast_subtract_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_xor_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_broadcast_zeta_, OpClass::kBroadcasting, {2, 2}, {1, 1}, {0, 0}, false, kBroadcastAcos},
    {OpKind::chlo_conj_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_constant_, OpClass::kOther, {0, 0}, {1, 1}, {0, 0}, false, kConstant},
    {OpKind::chlo_constant_like_, OpClass::kOther, {1, 1}, {1, 1}, {0, 0}, false, kConstantLike},
    {OpKind::chlo_cosh_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_digamma_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_erf_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_erf_inv_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_erfc_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_is_inf_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_is_neg_inf_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_is_pos_inf_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_lgamma_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_mulhi_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_next_after_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_polygamma_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_ragged_dot_, OpClass::kOther, {3, 3}, {1, 1}, {0, 0}, false, kRaggedDot},
    {OpKind::chlo_scan_, OpClass::kControlFlow, {1, kVariadic}, {1, kVariadic}, {1, 1}, false, kScan},
    {OpKind::chlo_sinh_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_square_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_tan_, OpClass::kUnaryElementwise, {1, 1}, {1, 1}, {0, 0}, false, {}},
    {OpKind::chlo_top_k_, OpClass::kOther, {1, 1}, {2, 2}, {0, 0}, false, kTopK},
    {OpKind::chlo_zeta_, OpClass::kBinaryElementwise, {2, 2}, {1, 1}, {0, 0}, false, {}},
    {OpKind::call_, OpClass::kOther, {0, kVariadic}, {0, kVariadic}, {0, 0}, false, kCall},
}};

constexpr bool definitions_in_order() {
  for (int i = 0; i < kOpKindCount; ++i)
    if (static_cast<int>(kDefinitions[i].kind) != i) return false;
  return true;
}
static_assert(definitions_in_order());

constexpr std::string_view kComparisonDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
constexpr std::string_view kComparisonTypes[] = {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
constexpr std::string_view kPrecisions[] = {"DEFAULT", "HIGH", "HIGHEST"};
constexpr std::string_view kFftTypes[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
constexpr std::string_view kRngAlgorithms[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
constexpr std::string_view kRngDistributions[] = {"", "UNIFORM", "NORMAL"};
constexpr std::string_view kTransposes[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
constexpr std::string_view kCustomCallApis[] = {
    "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"};

}  // namespace

const OpDefinition& definition(OpKind kind) { return kDefinitions[static_cast<size_t>(kind)]; }

const AttrSpec* find_spec(const OpDefinition& definition, Attr attr) {
  for (const AttrSpec& spec : definition.attributes)
    if (spec.attr == attr) return &spec;
  return nullptr;
}

std::span<const std::string_view> enum_words(AttrKind kind) {
  switch (kind) {
    case AttrKind::kComparisonDirection: return kComparisonDirections;
    case AttrKind::kComparisonType: return kComparisonTypes;
    case AttrKind::kPrecisions: return kPrecisions;
    case AttrKind::kFftType: return kFftTypes;
    case AttrKind::kRngAlgorithm: return kRngAlgorithms;
    case AttrKind::kRngDistribution: return kRngDistributions;
    case AttrKind::kTranspose: return kTransposes;
    case AttrKind::kCustomCallApi: return kCustomCallApis;
    default: return {};
  }
}

}  // namespace opentrn::graph
