#include "compiler/observed_values.h"

#include <algorithm>

#include "compiler/analysis/cost.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "graph/copy.h"

namespace opentrn::compiler {

namespace {

// Weights that stay narrow: known without running.
bool is_converted_constant(const Function& function, const Op& op) {
  if (op.kind != OpKind::convert_) return false;
  const OpId from = function.value(op.operands[0]).op;
  return from != graph::kNoOp && function.op(from).kind == OpKind::constant_;
}

bool is_observed(const Function& function, const Op& op, ValueId value) {
  if (op.kind == OpKind::constant_ || op.kind == OpKind::return_ || is_view_op(op.kind)) return false;
  if (is_converted_constant(function, op)) return false;
  const graph::Type& type = function.type(value);
  return type.is_tensor() && type.is_static() && !type.quantization() && type.element_count() > 0 &&
         device_dtype(type.element()).has_value();
}

// The op that a region of two arguments applies to them; nullopt when it does more.
bool region_is(const Function& function, const Op& op, std::initializer_list<OpKind> kinds) {
  if (op.regions.size() != 1) return false;
  const auto& ops = function.block(op.regions[0]).ops;
  if (ops.size() != 2) return false;
  const OpKind inner = function.op(ops[0]).kind;
  return std::find(kinds.begin(), kinds.end(), inner) != kinds.end();
}

Judgement judgement_of_region(const Function& function, const Op& op) {
  if (region_is(function, op, {OpKind::maximum_, OpKind::minimum_, OpKind::and_, OpKind::or_, OpKind::xor_}))
    return Judgement::kExact;
  return region_is(function, op, {OpKind::add_}) ? Judgement::kSum : Judgement::kUnknown;
}

// A scatter that replaces has no op in its region, only a return.
bool region_only_returns(const Function& function, const Op& op) {
  return op.regions.size() == 1 && function.block(op.regions[0]).ops.size() == 1;
}

// A value that only the host has (expand/host_ops.h): in f64 it would lack its rounding.
bool has_no_form(const Function& function, ValueId value) {
  const graph::Type& type = function.type(value);
  return type.is_tensor() && !type.quantization() && !device_dtype(graph::real_part(type.element()));
}

Judgement judgement_of(const Function& function, const Op& op) {
  if (std::ranges::any_of(op.operands, [&](ValueId value) { return has_no_form(function, value); }))
    return Judgement::kUnknown;
  switch (op.kind) {
    case OpKind::while_:
    case OpKind::if_:
    case OpKind::case_:
    case OpKind::rng_:
    case OpKind::rng_bit_generator_:
    case OpKind::fft_:
    case OpKind::cholesky_:
    case OpKind::triangular_solve_:
    case OpKind::custom_call_:
    case OpKind::map_:
    case OpKind::batch_norm_grad_:
    case OpKind::batch_norm_inference_:
    case OpKind::batch_norm_training_:
    case OpKind::select_and_scatter_:
    case OpKind::uniform_quantize_:
    case OpKind::uniform_dequantize_:
    case OpKind::chlo_scan_: return Judgement::kUnknown;
    case OpKind::scatter_:
      if (region_only_returns(function, op)) return Judgement::kExact;
      [[fallthrough]];
    case OpKind::reduce_:
    case OpKind::reduce_window_:
      if (op.results.size() != 1) return Judgement::kUnknown;
      if (graph::is_float(function.type(op.results[0]).element())) return judgement_of_region(function, op);
      return Judgement::kExact;
    default: break;
  }
  if (!graph::is_float(function.type(op.results[0]).element())) return Judgement::kExact;
  switch (op.kind) {
    case OpKind::dot_general_:
    case OpKind::dot_:
    case OpKind::convolution_: return Judgement::kSum;
    case OpKind::add_:
    case OpKind::subtract_:
    case OpKind::multiply_:
    case OpKind::convert_:
    case OpKind::chlo_square_:
    case OpKind::reduce_precision_: return Judgement::kRounded;
    case OpKind::abs_:
    case OpKind::negate_:
    case OpKind::maximum_:
    case OpKind::minimum_:
    case OpKind::clamp_:
    case OpKind::select_:
    case OpKind::sign_:
    case OpKind::floor_:
    case OpKind::ceil_:
    case OpKind::round_nearest_afz_:
    case OpKind::round_nearest_even_:
    case OpKind::bitcast_convert_:
    case OpKind::concatenate_:
    case OpKind::pad_:
    case OpKind::gather_:
    case OpKind::torch_index_select_:
    case OpKind::dynamic_slice_:
    case OpKind::dynamic_update_slice_:
    case OpKind::sort_:
    case OpKind::chlo_top_k_:
    case OpKind::iota_: return Judgement::kExact;
    default: return Judgement::kFunction;
  }
}

// The op on the magnitudes of its operands: what its rounding errors are measured by.
void copy_on_magnitudes(graph::Copier& copier, const Function& from, const Op& op, Function& to) {
  std::vector<ValueId> operands;
  for (const ValueId value : op.operands) {
    operands.push_back(copier.at(value));
    const graph::Type& type = from.type(value);
    if (!type.is_tensor() || !graph::is_float(type.element())) continue;
    const OpId made = to.append(to.body(), OpKind::abs_, {operands.back()}, {type}, op.location);
    operands.back() = to.op(made).results[0];
  }
  const OpId made = copier.copy(op, to.body());
  to.op(made).operands = std::move(operands);
}

enum class Which : uint8_t { kAll, kFunctions, kMagnitudes };

bool wanted(Which which, Judgement judgement) {
  return which == Which::kAll || (which == Which::kFunctions && judgement == Judgement::kFunction) ||
         (which == Which::kMagnitudes && judgement == Judgement::kSum);
}

graph::Module module_with(const graph::Module& like, Function function) {
  graph::Module module = like.without_functions();
  module.functions.push_back(std::move(function));
  return module;
}

graph::Module separate(const graph::Module& module, const std::vector<ValueId>& observed, Which which) {
  const Function& from = module.entry();
  Function to(from.name);
  graph::Copier copier(from, to);
  for (const ValueId value : from.arguments()) copier.argument(value, to.body());
  std::vector<ValueId> argument_of(from.value_count());
  std::vector<bool> is_observed_value(from.value_count());
  for (const ValueId value : observed) {
    argument_of[index_of(value)] = to.add_argument(to.body(), from.type(value));
    is_observed_value[index_of(value)] = true;
  }
  to.argument_attributes.resize(to.arguments().size());
  std::vector<ValueId> returned;
  for (const OpId id : from.block(from.body()).ops) {
    const Op& op = from.op(id);
    if (op.kind == OpKind::return_) continue;
    const bool has_observed = std::any_of(op.results.begin(), op.results.end(),
                                          [&](ValueId v) { return is_observed_value[index_of(v)]; });
    const bool judged = has_observed && wanted(which, judgement_of(from, op));
    if (judged && which == Which::kMagnitudes)
      copy_on_magnitudes(copier, from, op, to);
    else if (!has_observed || judged)
      copier.copy(op, to.body());
    for (const ValueId value : op.results) {
      if (!is_observed_value[index_of(value)]) continue;
      if (judged) {
        returned.push_back(copier.at(value));
        to.result_types.push_back(from.type(value));
      }
      copier.set(value, argument_of[index_of(value)]);
    }
  }
  to.result_attributes.resize(returned.size());
  to.append(to.body(), OpKind::return_, std::move(returned), {});
  remove_dead_ops(to);
  return module_with(module, std::move(to));
}

}  // namespace

ObservedValues observe(const graph::Module& module) {
  const Function& from = module.entry();
  ObservedValues result;
  std::vector<ValueId> observed;
  for (const OpId id : from.block(from.body()).ops) {
    const Op& op = from.op(id);
    for (const ValueId value : op.results) {
      if (!is_observed(from, op, value)) continue;
      observed.push_back(value);
      result.values.push_back({std::string(graph::name(op.kind)), module.source(op.location),
                               from.type(value), judgement_of(from, op), terms(from, op)});
    }
  }
  Function whole = from;
  Op& last = whole.op(whole.block(whole.body()).ops.back());
  OPENTRN_CHECK(last.kind == OpKind::return_, "the entry ends with {}", graph::name(last.kind));
  result.result_count = last.operands.size();
  for (const ValueId value : observed) {
    last.operands.push_back(value);
    whole.result_types.push_back(whole.type(value));
  }
  whole.result_attributes.resize(last.operands.size());
  result.whole = module_with(module, std::move(whole));
  result.alone = separate(module, observed, Which::kAll);
  result.functions = separate(module, observed, Which::kFunctions);
  result.magnitudes = separate(module, observed, Which::kMagnitudes);
  return result;
}

}  // namespace opentrn::compiler
