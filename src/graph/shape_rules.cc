#include "graph/shape_rules.h"

#include <array>

#include "graph/shape/rules.h"

namespace opentrn::graph {

namespace {

using namespace shape;

struct Rule {
  OpKind kind;
  Types (*infer)(const Context&);
  uint32_t elements;  // that the op's tensors may have, for the rules that many ops share
  int constraints;    // that the specification numbers
  // The constraints that a stated result breaks whose shape or element differs from the inferred one.
  int result_shape;
  int result_element;
};

constexpr std::array<Rule, kOpKindCount> kRules{{
    {OpKind::abs_, shape::abs, kSigned | kFloats | kComplexes | kQuantizedPerTensor, 2, 1, 2},
    {OpKind::add_, shape::add, kAnyElement, 7, 1, 1},
    {OpKind::after_all_, shape::token, kAnyElement, 0, 0, 0},
    {OpKind::all_gather_, shape::all_gather, kAnyElement, 6, 6, 6},
    {OpKind::all_reduce_, shape::all_reduce, kAnyElement, 7, 6, 7},
    {OpKind::all_to_all_, shape::all_to_all, kAnyElement, 9, 9, 9},
    {OpKind::and_, shape::binary, kBools | kInts, 1, 1, 1},
    {OpKind::async_done_, shape::async_done, kAnyElement, 1, 1, 1},
    {OpKind::async_start_, shape::async_start, kAnyElement, 4, 4, 4},
    {OpKind::atan2_, shape::binary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::batch_norm_grad_, shape::batch_norm_grad, kAnyElement, 5, 3, 2},
    {OpKind::batch_norm_inference_, shape::batch_norm_inference, kAnyElement, 7, 7, 2},
    {OpKind::batch_norm_training_, shape::batch_norm_training, kAnyElement, 7, 7, 2},
    {OpKind::bitcast_convert_, shape::bitcast_convert, kAnyElement, 2, 1, 1},
    {OpKind::broadcast_, shape::broadcast, kAnyElement, 0, 0, 0},
    {OpKind::broadcast_in_dim_, shape::broadcast_in_dim, kAnyElement, 6, 5, 1},
    {OpKind::case_, shape::case_, kAnyElement, 4, 4, 4},
    {OpKind::cbrt_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::ceil_, shape::unary, kFloats | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::cholesky_, shape::cholesky, kAnyElement, 3, 1, 1},
    {OpKind::clamp_, shape::clamp, kAnyPlain | kQuantizedPerTensor, 4, 4, 4},
    {OpKind::collective_broadcast_, shape::collective_broadcast, kAnyElement, 6, 3, 3},
    {OpKind::collective_permute_, shape::collective_permute, kAnyElement, 5, 5, 5},
    {OpKind::collective_reduce_, shape::collective_reduce, kAnyElement, 4, 3, 4},
    {OpKind::compare_, shape::compare, kAnyPlain | kQuantizedPerTensor, 3, 2, 2},
    {OpKind::complex_, shape::complex, kAnyElement, 3, 2, 3},
    {OpKind::composite_, shape::composite, kAnyElement, 4, 4, 4},
    {OpKind::concatenate_, shape::concatenate, kAnyElement, 6, 6, 5},
    {OpKind::constant_, shape::constant, kAnyElement, 1, 1, 1},
    {OpKind::convert_, shape::convert, kAnyPlain, 1, 1, 1},
    {OpKind::convolution_, shape::convolution, kAnyElement, 34, 25, 27},
    {OpKind::cosine_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::count_leading_zeros_, shape::unary, kInts, 1, 1, 1},
    {OpKind::create_token_, shape::token, kAnyElement, 0, 0, 0},
    {OpKind::custom_call_, shape::custom_call, kAnyElement, 0, 0, 0},
    {OpKind::divide_, shape::binary, kNumbers | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::dot_, shape::dot, kAnyElement, 0, 0, 0},
    {OpKind::dot_general_, shape::dot_general, kAnyElement, 24, 12, 13},
    {OpKind::dynamic_broadcast_in_dim_, shape::dynamic_broadcast_in_dim, kAnyElement, 10, 5, 1},
    {OpKind::dynamic_conv_, shape::dynamic_conv, kAnyElement, 34, 25, 27},
    {OpKind::dynamic_gather_, shape::dynamic_gather, kAnyElement, 14, 13, 14},
    {OpKind::dynamic_iota_, shape::dynamic_iota, kAnyElement, 2, 2, 2},
    {OpKind::dynamic_pad_, shape::dynamic_pad, kAnyElement, 4, 4, 1},
    {OpKind::dynamic_reshape_, shape::dynamic_reshape, kAnyElement, 4, 2, 1},
    {OpKind::dynamic_slice_, shape::dynamic_slice, kAnyElement, 5, 5, 1},
    {OpKind::dynamic_update_slice_, shape::dynamic_update_slice, kAnyElement, 6, 1, 1},
    {OpKind::einsum_, shape::einsum, kAnyElement, 0, 0, 0},
    {OpKind::exponential_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::exponential_minus_one_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::fft_, shape::fft, kAnyElement, 5, 5, 2},
    {OpKind::floor_, shape::unary, kFloats | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::gather_, shape::gather, kAnyElement, 23, 22, 23},
    {OpKind::get_dimension_size_, shape::get_dimension_size, kAnyElement, 1, 0, 0},
    {OpKind::get_tuple_element_, shape::get_tuple_element, kAnyElement, 2, 2, 2},
    {OpKind::if_, shape::if_, kAnyElement, 3, 3, 3},
    {OpKind::imag_, shape::real_or_imag, kFloats | kComplexes, 2, 1, 2},
    {OpKind::infeed_, shape::infeed, kAnyElement, 3, 1, 1},
    {OpKind::iota_, shape::iota, kAnyElement, 1, 1, 1},
    {OpKind::is_finite_, shape::predicate, kFloats | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::log_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::log_plus_one_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::logistic_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::map_, shape::map, kAnyElement, 4, 1, 4},
    {OpKind::maximum_, shape::binary, kAnyPlain | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::minimum_, shape::binary, kAnyPlain | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::multiply_, shape::binary, kAnyPlain | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::negate_, shape::unary, kNumbers | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::not_, shape::unary, kBools | kInts, 1, 1, 1},
    {OpKind::optimization_barrier_, shape::optimization_barrier, kAnyElement, 1, 1, 1},
    {OpKind::or_, shape::binary, kBools | kInts, 1, 1, 1},
    {OpKind::outfeed_, shape::outfeed, kAnyElement, 0, 0, 0},
    {OpKind::pad_, shape::pad, kAnyElement, 4, 4, 1},
    {OpKind::partition_id_, shape::process_id, kAnyElement, 0, 0, 0},
    {OpKind::popcnt_, shape::unary, kInts, 1, 1, 1},
    {OpKind::power_, shape::binary, kNumbers | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::real_, shape::real_or_imag, kFloats | kComplexes, 2, 1, 2},
    {OpKind::real_dynamic_slice_, shape::real_dynamic_slice, kAnyElement, 0, 0, 0},
    {OpKind::recv_, shape::recv, kAnyElement, 5, 1, 1},
    {OpKind::reduce_, shape::reduce, kAnyElement, 8, 7, 8},
    {OpKind::reduce_precision_, shape::reduce_precision, kFloats | kQuantizedPerTensor, 3, 1, 1},
    {OpKind::reduce_scatter_, shape::reduce_scatter, kAnyElement, 9, 8, 9},
    {OpKind::reduce_window_, shape::reduce_window, kAnyElement, 16, 15, 16},
    {OpKind::remainder_, shape::binary, kNumbers | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::replica_id_, shape::process_id, kAnyElement, 0, 0, 0},
    {OpKind::reshape_, shape::reshape, kAnyElement, 3, 2, 1},
    {OpKind::return_, shape::return_, kAnyElement, 0, 0, 0},
    {OpKind::reverse_, shape::reverse, kAnyElement, 3, 1, 1},
    {OpKind::rng_, shape::rng, kAnyElement, 3, 3, 1},
    {OpKind::rng_bit_generator_, shape::rng_bit_generator, kAnyElement, 2, 1, 1},
    {OpKind::round_nearest_afz_, shape::unary, kFloats | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::round_nearest_even_, shape::unary, kFloats | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::rsqrt_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::scatter_, shape::scatter, kAnyElement, 25, 24, 25},
    {OpKind::select_, shape::select, kAnyElement, 2, 2, 2},
    {OpKind::select_and_scatter_, shape::select_and_scatter, kAnyElement, 12, 11, 12},
    {OpKind::send_, shape::send, kAnyElement, 5, 1, 1},
    {OpKind::set_dimension_size_, shape::set_dimension_size, kAnyElement, 0, 0, 0},
    {OpKind::shift_left_, shape::binary, kInts, 1, 1, 1},
    {OpKind::shift_right_arithmetic_, shape::binary, kInts, 1, 1, 1},
    {OpKind::shift_right_logical_, shape::binary, kInts, 1, 1, 1},
    {OpKind::sign_, shape::unary, kSigned | kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::sine_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::slice_, shape::slice, kAnyElement, 5, 5, 1},
    {OpKind::sort_, shape::sort, kAnyElement, 5, 2, 2},
    {OpKind::sqrt_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::subtract_, shape::binary, kNumbers | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::tan_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::tanh_, shape::unary, kFloats | kComplexes | kQuantizedPerTensor, 1, 1, 1},
    {OpKind::torch_index_select_, shape::torch_index_select, kAnyElement, 0, 0, 0},
    {OpKind::transpose_, shape::transpose, kAnyElement, 4, 3, 1},
    {OpKind::triangular_solve_, shape::triangular_solve, kAnyElement, 4, 4, 4},
    {OpKind::tuple_, shape::tuple, kAnyElement, 1, 1, 1},
    {OpKind::unary_einsum_, shape::einsum, kAnyElement, 0, 0, 0},
    {OpKind::uniform_dequantize_, shape::uniform_dequantize, kAnyElement, 2, 1, 2},
    {OpKind::uniform_quantize_, shape::uniform_quantize, kAnyElement, 2, 1, 2},
    {OpKind::while_, shape::while_, kAnyElement, 3, 3, 3},
    {OpKind::xor_, shape::binary, kBools | kInts, 1, 1, 1},
    {OpKind::chlo__asin_acos_kernel_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_acos_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_acosh_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_asin_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_asinh_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_atan_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_atanh_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_bessel_i1e_, shape::unary, kFloats, 0, 0, 0},
    {OpKind::chlo_broadcast_acos_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_add_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_and_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_atan2_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_compare_, shape::broadcast_compare, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_complex_, shape::broadcast_complex, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_divide_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_maximum_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_minimum_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_multiply_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_next_after_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_or_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_polygamma_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_power_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_remainder_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_select_, shape::broadcast_select, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_shift_left_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_shift_right_arithmetic_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_shift_right_logical_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_subtract_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_xor_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_broadcast_zeta_, shape::broadcasting, kAnyElement, 0, 0, 0},
    {OpKind::chlo_conj_, shape::unary, kAnyPlain, 0, 0, 0},
    {OpKind::chlo_constant_, shape::constant, kAnyElement, 0, 0, 0},
    {OpKind::chlo_constant_like_, shape::constant_like, kAnyElement, 0, 0, 0},
    {OpKind::chlo_cosh_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_digamma_, shape::unary, kFloats, 0, 0, 0},
    {OpKind::chlo_erf_, shape::unary, kFloats, 0, 0, 0},
    {OpKind::chlo_erf_inv_, shape::unary, kFloats, 0, 0, 0},
    {OpKind::chlo_erfc_, shape::unary, kFloats, 0, 0, 0},
    {OpKind::chlo_is_inf_, shape::predicate, kFloats, 0, 0, 0},
    {OpKind::chlo_is_neg_inf_, shape::predicate, kFloats, 0, 0, 0},
    {OpKind::chlo_is_pos_inf_, shape::predicate, kFloats, 0, 0, 0},
    {OpKind::chlo_lgamma_, shape::unary, kFloats, 0, 0, 0},
    {OpKind::chlo_mulhi_, shape::binary, kInts, 0, 0, 0},
    {OpKind::chlo_next_after_, shape::binary, kFloats, 0, 0, 0},
    {OpKind::chlo_polygamma_, shape::binary, kFloats, 0, 0, 0},
    {OpKind::chlo_ragged_dot_, shape::ragged_dot, kAnyElement, 0, 0, 0},
    {OpKind::chlo_scan_, shape::scan, kAnyElement, 0, 0, 0},
    {OpKind::chlo_sinh_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_square_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_tan_, shape::unary, kFloats | kComplexes, 0, 0, 0},
    {OpKind::chlo_top_k_, shape::top_k, kAnyElement, 0, 0, 0},
    {OpKind::chlo_zeta_, shape::binary, kFloats, 0, 0, 0},
    {OpKind::call_, shape::call, kAnyElement, 0, 0, 0},
}};

constexpr bool rules_in_order() {
  for (int i = 0; i < kOpKindCount; ++i)
    if (static_cast<int>(kRules[i].kind) != i) return false;
  return true;
}
static_assert(rules_in_order());

bool element_differs(const Type& inferred, const Type& stated) {
  return inferred.kind() != stated.kind() || (inferred.is_tensor() && !same_element(inferred, stated));
}

Types reconciled(const Context& c, const Rule& rule, const Types& inferred) {
  const auto stated = c.stated();
  if (stated.size() != inferred.size())
    c.fail("results", fmt::format("{} results; the op makes {}", stated.size(), inferred.size()));
  Types results;
  for (size_t i = 0; i < inferred.size(); ++i) {
    check_type(c, stated[i]);
    if (!agree(inferred[i], stated[i]))
      c.fail(element_differs(inferred[i], stated[i]) ? rule.result_element : rule.result_shape,
             fmt::format("result {} is stated as {}; it is {}", i, stated[i].to_string(),
                         inferred[i].to_string()));
    results.push_back(merged(stated[i], inferred[i]));
  }
  return results;
}

}  // namespace

std::vector<Type> infer_types(const Module& module, const Function& function, const Op& op,
                              std::span<const Type> stated) {
  const Rule& rule = kRules[static_cast<size_t>(op.kind)];
  const Context c(module, function, op, stated, rule.elements);
  try {
    check_definition(c, op);
    for (size_t i = 0; i < c.operand_count(); ++i) check_type(c, c.operand_type(i));
    for (const Type& type : stated) check_type(c, type);
    const Types inferred = rule.infer(c);
    return stated.empty() ? inferred : reconciled(c, rule, inferred);
  } catch (Fault& fault) {
    fault.set_location(module.source(op.location));
    const std::string& where = module.location(op.location).name;
    if (!where.empty()) fault.add_note(fmt::format("at {}", where));
    throw;
  }
}

int constraint_count(OpKind kind) { return kRules[static_cast<size_t>(kind)].constraints; }

}  // namespace opentrn::graph
