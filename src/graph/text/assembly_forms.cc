#include "graph/text/assembly_forms.h"

#include "graph/op_definitions.h"

namespace opentrn::graph::text {

std::string_view assembly_form(OpKind kind) {
  switch (kind) {
    case OpKind::constant_:
    case OpKind::chlo_constant_:
    case OpKind::while_:
    case OpKind::reduce_:
    case OpKind::convolution_:
    case OpKind::dot_:
    case OpKind::dot_general_:
    case OpKind::composite_:
    case OpKind::chlo_top_k_:
    case OpKind::chlo_scan_: return "special";

    case OpKind::return_: return "%* dict :operands";
    case OpKind::call_: return "@{callee} ( %* ) dict :fn";
    case OpKind::custom_call_: return "@{call_target_name} ( %* ) dict :fn";
    case OpKind::iota_: return "dim = {iota_dimension} dict :result";
    case OpKind::dynamic_iota_: return "% , dim = {iota_dimension} dict :fn";
    case OpKind::create_token_:
    case OpKind::replica_id_:
    case OpKind::partition_id_: return "dict :result";
    case OpKind::after_all_:
    case OpKind::clamp_: return "%* dict :same";
    case OpKind::get_tuple_element_: return "% [ {index} ] dict :fn";
    case OpKind::tuple_: return "%* dict :tuple";
    case OpKind::compare_: return "{comparison_direction} , % , % ?!{compare_type} dict :fn";
    case OpKind::slice_: return "% {slice} dict :fn";
    case OpKind::dynamic_slice_: return "%* , sizes = {slice_sizes} dict :fn";
    case OpKind::concatenate_: return "%* , dim = {dimension} dict :fn";
    case OpKind::is_finite_:
    case OpKind::dynamic_update_slice_:
    case OpKind::bitcast_convert_:
    case OpKind::reshape_:
    case OpKind::dynamic_reshape_:
    case OpKind::real_dynamic_slice_:
    case OpKind::dynamic_pad_: return "%* dict :fn";
    case OpKind::broadcast_: return "% , sizes = {broadcast_sizes} dict :fn";
    case OpKind::broadcast_in_dim_: return "% , dims = {broadcast_dimensions} dict :fn";
    case OpKind::dynamic_broadcast_in_dim_: return "% , % , dims = {broadcast_dimensions} dict :fn";
    case OpKind::cholesky_: return "% ?{lower} dict :same";
    case OpKind::complex_: return "%* dict :complex";
    case OpKind::einsum_: return "% , % , config = {einsum_config} dict :fn";
    case OpKind::unary_einsum_: return "% , config = {einsum_config} dict :fn";
    case OpKind::fft_: return "% , type = {fft_type} , length = {fft_length} dict :fn";
    case OpKind::get_dimension_size_: return "% , dim = {dimension} dict :fn";
    case OpKind::set_dimension_size_: return "% , % , dim = {dimension} dict :fn";
    case OpKind::select_: return "%* dict :select";
    case OpKind::reverse_: return "% , dims = {dimensions} dict :same";
    case OpKind::pad_:
      return "% , % , low = {edge_padding_low} , high = {edge_padding_high} , interior = {interior_padding} "
             "dict :fn";
    case OpKind::transpose_: return "% , dims = {permutation} dict :fn";
    case OpKind::optimization_barrier_: return "dict %* :pairwise";
    case OpKind::rng_: return "% , % , % , distribution = {rng_distribution} dict :fn";
    case OpKind::rng_bit_generator_: return "% , algorithm = {rng_algorithm} dict :fn";
    case OpKind::reduce_precision_: return "% , format = {format} dict :same";

    case OpKind::chlo_next_after_:
    case OpKind::chlo_polygamma_:
    case OpKind::chlo_zeta_:
    case OpKind::chlo_mulhi_: return "%* dict :arrow";
    case OpKind::chlo_broadcast_acos_:
    case OpKind::chlo_constant_like_:
    case OpKind::chlo_ragged_dot_: return {};
    default: break;
  }
  const OpClass op_class = definition(kind).op_class;
  if (op_class == OpClass::kBroadcasting) return "%* dict :fn";
  if (name(kind).starts_with("chlo."))
    return op_class == OpClass::kUnaryElementwise ? "%* dict :arrow" : std::string_view{};
  if (op_class == OpClass::kUnaryElementwise || op_class == OpClass::kBinaryElementwise)
    return "%* dict :same";
  return {};
}

}  // namespace opentrn::graph::text
