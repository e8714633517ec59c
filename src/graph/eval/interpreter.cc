#include "graph/eval/interpreter.h"

#include <cmath>

#include "base/interrupt.h"
#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"
#include "graph/op_definitions.h"

namespace opentrn::graph::eval {

namespace {

Items one(Tensor tensor) { return {Item(std::move(tensor))}; }

Tensor constant(const Call& call) {
  const Literal& value = call.op().literal(Attr::value);
  // The op's type says how the stored integers are quantized.
  return from_literal(value).with_type(call.stated());
}

Tensor grid_position(const Call& call, int64_t position) {
  return Tensor(call.stated(), std::vector<Unsigned>{static_cast<Unsigned>(position)});
}

Items tuple(const Call& call) { return {Item(std::make_shared<const Items>(call.operands()))}; }

const Items& tuple_elements(const Call& call) {
  const auto* elements = std::get_if<ItemTuple>(&call.operands().front().value);
  if (!elements) call.fail("its operand is not a tuple");
  return **elements;
}

Items get_tuple_element(const Call& call) {
  const Items& elements = tuple_elements(call);
  const int64_t index = call.op().integer(Attr::index);
  if (index < 0 || static_cast<size_t>(index) >= elements.size())
    call.fail(fmt::format("element {} of a tuple of {}", index, elements.size()));
  return {elements[static_cast<size_t>(index)]};
}

// The region runs at once; its results wait in the future that async_done takes.
Items async_start(const Call& call) {
  return {Item(std::make_shared<const Items>(call.run_region(0, call.operands())))};
}

// The one list of ops and their bodies.
Items run_body(Call& call) {
  switch (call.kind()) {
    case OpKind::constant_:
    case OpKind::chlo_constant_: return one(constant(call));
    case OpKind::chlo_constant_like_: return one(constant_like(call));

    case OpKind::compare_: return one(compare_op(call));
    case OpKind::select_: return one(select(call));
    case OpKind::clamp_: return one(clamp(call));
    case OpKind::convert_: return one(convert(call));
    case OpKind::bitcast_convert_: return one(bitcast_convert(call));
    case OpKind::reduce_precision_: return one(reduce_precision(call));
    case OpKind::complex_: return one(complex(call));
    case OpKind::real_: return one(real(call));
    case OpKind::imag_: return one(imag(call));
    case OpKind::is_finite_:
    case OpKind::chlo_is_inf_:
    case OpKind::chlo_is_neg_inf_:
    case OpKind::chlo_is_pos_inf_: return one(classify(call));

    case OpKind::broadcast_: return one(broadcast(call));
    case OpKind::broadcast_in_dim_: return one(broadcast_in_dim(call));
    case OpKind::concatenate_: return one(concatenate_op(call));
    case OpKind::iota_: return one(iota(call));
    case OpKind::pad_: return one(pad(call));
    case OpKind::reshape_: return one(reshape(call));
    case OpKind::reverse_: return one(reverse(call));
    case OpKind::slice_: return one(slice(call));
    case OpKind::transpose_: return one(transpose_op(call));
    case OpKind::get_dimension_size_: return one(get_dimension_size(call));
    case OpKind::set_dimension_size_: return one(set_dimension_size(call));
    case OpKind::dynamic_broadcast_in_dim_: return one(dynamic_broadcast_in_dim(call));
    case OpKind::dynamic_iota_: return one(dynamic_iota(call));
    case OpKind::dynamic_pad_: return one(dynamic_pad(call));
    case OpKind::dynamic_reshape_: return one(dynamic_reshape(call));
    case OpKind::dynamic_slice_: return one(dynamic_slice(call));
    case OpKind::dynamic_update_slice_: return one(dynamic_update_slice(call));
    case OpKind::real_dynamic_slice_: return one(real_dynamic_slice(call));
    case OpKind::gather_:
    case OpKind::dynamic_gather_: return one(gather(call));
    case OpKind::torch_index_select_: return one(torch_index_select(call));
    case OpKind::scatter_: return scatter(call);

    case OpKind::dot_: return one(dot(call));
    case OpKind::dot_general_: return one(dot_general(call));
    case OpKind::einsum_: return one(einsum(call));
    case OpKind::unary_einsum_: return one(unary_einsum(call));
    case OpKind::chlo_ragged_dot_: return one(ragged_dot(call));
    case OpKind::convolution_:
    case OpKind::dynamic_conv_: return one(convolution(call));
    case OpKind::cholesky_: return one(cholesky(call));
    case OpKind::triangular_solve_: return one(triangular_solve(call));
    case OpKind::fft_: return one(fft(call));
    case OpKind::batch_norm_grad_: return batch_norm_grad(call);
    case OpKind::batch_norm_inference_: return one(batch_norm_inference(call));
    case OpKind::batch_norm_training_: return batch_norm_training(call);

    case OpKind::reduce_: return reduce(call);
    case OpKind::map_: return map(call);
    case OpKind::chlo_scan_: return scan(call);
    case OpKind::reduce_window_: return reduce_window(call);
    case OpKind::select_and_scatter_: return one(select_and_scatter(call));
    case OpKind::sort_: return sort(call);
    case OpKind::chlo_top_k_: return top_k(call);
    case OpKind::rng_bit_generator_: return rng_bit_generator(call);
    case OpKind::rng_: return one(rng(call));
    case OpKind::uniform_quantize_: return one(uniform_quantize(call));
    case OpKind::uniform_dequantize_: return one(uniform_dequantize(call));

    case OpKind::call_: return call_function(call);
    case OpKind::case_: return case_op(call);
    case OpKind::composite_: return composite(call);
    case OpKind::custom_call_: return custom_call(call);
    case OpKind::if_: return if_op(call);
    case OpKind::while_: return while_op(call);
    case OpKind::infeed_: return infeed(call);
    case OpKind::outfeed_: return outfeed(call);
    case OpKind::tuple_: return tuple(call);
    case OpKind::get_tuple_element_: return get_tuple_element(call);
    case OpKind::optimization_barrier_: return call.operands();
    case OpKind::after_all_:
    case OpKind::create_token_: return {Item()};
    case OpKind::async_start_: return async_start(call);
    case OpKind::async_done_: return tuple_elements(call);

    case OpKind::partition_id_: return one(grid_position(call, call.interpreter().process().partition()));
    case OpKind::replica_id_: return one(grid_position(call, call.interpreter().process().replica()));
    case OpKind::all_gather_: return all_gather(call);
    case OpKind::all_reduce_: return all_reduce(call);
    case OpKind::all_to_all_: return all_to_all(call);
    case OpKind::collective_broadcast_: return collective_broadcast(call);
    case OpKind::collective_permute_: return collective_permute(call);
    case OpKind::collective_reduce_: return collective_reduce(call);
    case OpKind::reduce_scatter_: return reduce_scatter(call);
    case OpKind::send_: return send(call);
    case OpKind::recv_: return recv(call);
    default: break;
  }
  switch (definition(call.kind()).op_class) {
    case OpClass::kUnaryElementwise: return one(unary(call));
    case OpClass::kBinaryElementwise: return one(binary(call));
    case OpClass::kBroadcasting: return one(broadcasting(call));
    default: call.not_modelled("the evaluator has no body for this op");
  }
}

}  // namespace

Frame::Frame(const Function& function) : function_(function), values_(function.value_count()) {
  const auto& ops = function.block(function.body()).ops;
  std::vector<size_t> last(function.value_count(), SIZE_MAX);
  const auto use = [&](OpId id, size_t position) {
    for (const ValueId operand : function.op(id).operands) last[index_of(operand)] = position;
  };
  for (size_t position = 0; position < ops.size(); ++position) {
    use(ops[position], position);
    for (const BlockId region : function.op(ops[position]).regions)
      walk(function, region, [&](OpId id) { use(id, position); });
  }
  last_used_.resize(ops.size());
  for (size_t value = 0; value < last.size(); ++value)
    if (last[value] != SIZE_MAX) last_used_[last[value]].push_back(ValueId{static_cast<uint32_t>(value)});
}

void Frame::release_after(size_t position) {
  for (const ValueId id : last_used_[position]) values_[index_of(id)] = Item();
}

Items Interpreter::call(const Function& function, Items arguments) {
  if (++depth_ > kCallDepthMax)
    throw Fault(FaultKind::kInput, "eval.depth",
                fmt::format("more than {} nested calls, the last of @{}; StableHLO has no recursion",
                            kCallDepthMax, function.name));
  Frame frame(function);
  const auto& block = function.block(function.body());
  OPENTRN_CHECK(arguments.size() == block.arguments.size(), "{} arguments for @{}", arguments.size(),
                function.name);
  for (size_t i = 0; i < arguments.size(); ++i) frame.set(block.arguments[i], std::move(arguments[i]));
  Items returned;
  for (size_t position = 0; position < block.ops.size(); ++position) {
    const Op& op = function.op(block.ops[position]);
    if (op.kind == OpKind::return_) {
      for (const ValueId operand : op.operands) returned.push_back(frame.at(operand));
      break;
    }
    Items results = run_op(frame, op);
    observe(frame, block.ops[position], results);
    for (size_t i = 0; i < results.size(); ++i) frame.set(op.results[i], std::move(results[i]));
    frame.release_after(position);
  }
  --depth_;
  return returned;
}

Items Interpreter::run_block(Frame& frame, BlockId id, Items arguments) {
  const Function& function = frame.function();
  const Block& block = function.block(id);
  OPENTRN_CHECK(arguments.size() == block.arguments.size(), "{} arguments for a region with {}",
                arguments.size(), block.arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) frame.set(block.arguments[i], std::move(arguments[i]));
  for (const OpId op_id : block.ops) {
    const Op& op = function.op(op_id);
    if (op.kind == OpKind::return_) {
      Items returned;
      for (const ValueId operand : op.operands) returned.push_back(frame.at(operand));
      return returned;
    }
    Items results = run_op(frame, op);
    observe(frame, op_id, results);
    for (size_t i = 0; i < results.size(); ++i) frame.set(op.results[i], std::move(results[i]));
  }
  throw Fault(FaultKind::kInput, "eval.region", "a region does not end in a return");
}

SourceLocation Interpreter::place_of(const Op& op) const {
  const Location& at = module_.location(op.location);
  return {at.file.empty() ? at.name : at.file, at.line, at.name};
}

Items Interpreter::run_op(Frame& frame, const Op& op) {
  try {
    interrupt::poll();
    Items operands;
    operands.reserve(op.operands.size());
    for (const ValueId operand : op.operands) operands.push_back(frame.at(operand));
    Call call(*this, frame, op, std::move(operands));
    Items results = is_quantized_arithmetic(call) ? dequantize_op_quantize(call, run_body) : run_body(call);
    check_results(frame, op, results);
    return results;
  } catch (Fault& fault) {
    fault.set_location(place_of(op));
    throw;
  } catch (Interrupted& stop) {
    stop.set_location(place_of(op));
    throw;
  }
}

void Interpreter::check_results(const Frame& frame, const Op& op, const Items& results) const {
  const auto wrong = [&](const std::string& what) {
    throw Fault(FaultKind::kInput, "eval.result", fmt::format("{} {}", name(op.kind), what));
  };
  if (results.size() != op.results.size())
    wrong(fmt::format("gives {} results, the program states {}", results.size(), op.results.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    const Type& stated = frame.function().type(op.results[i]);
    const auto* tensor = std::get_if<Tensor>(&results[i].value);
    if (!tensor || !stated.is_tensor()) continue;
    bool agrees = tensor->rank() == stated.rank() && tensor->element() == stated.element();
    for (int axis = 0; agrees && axis < stated.rank(); ++axis)
      agrees = stated.dim(axis) == kDynamic || stated.dim(axis) == tensor->type().dim(axis);
    if (!agrees)
      wrong(fmt::format("gives {}, the program states {}", tensor->type().to_string(), stated.to_string()));
  }
}

void Interpreter::observe(const Frame& frame, OpId op, const Items& results) const {
  if (!options_.observer) return;
  std::vector<RuntimeValue> values;
  for (const Item& result : results) values.push_back(to_runtime(result, options_.float64));
  options_.observer(frame.function(), op, values);
}

// ---- Call

const Module& Call::module() const { return interpreter_.module(); }
const Options& Call::options() const { return interpreter_.options(); }
const Function& Call::function() const { return frame_.function(); }

const Tensor& Call::tensor(size_t i) const {
  if (i >= operands_.size()) fail(fmt::format("it has no operand {}", i));
  const auto* found = std::get_if<Tensor>(&operands_[i].value);
  if (!found) fail(fmt::format("operand {} is not a tensor", i));
  return *found;
}

std::vector<Tensor> Call::tensors(size_t begin, size_t end) const {
  std::vector<Tensor> all;
  for (size_t i = begin; i < end; ++i) all.push_back(tensor(i));
  return all;
}

const Type& Call::stated(size_t i) const {
  if (!stated_.empty()) return stated_[i];
  if (i >= op_.results.size()) fail(fmt::format("it has no result {}", i));
  return function().type(op_.results[i]);
}

Type Call::result(std::span<const int64_t> dims, size_t i) const {
  Type type = stated(i).with_dims({dims.begin(), dims.end()});
  type.set_bounds({});
  return type;
}

Tensor Call::finish(Type type, Storage values) const {
  const ElementType element = type.element();
  const bool keep = options().float64 && (is_float(element) || is_complex(element));
  if (!keep) normalise(element, values);
  return Tensor(std::move(type), std::move(values));
}

Items Call::run_region(size_t region, Items arguments) const {
  if (region >= op_.regions.size()) fail(fmt::format("it has no region {}", region));
  return interpreter_.run_block(frame_, op_.regions[region], std::move(arguments));
}

const Block& Call::region_block(size_t region) const {
  if (region >= op_.regions.size()) fail(fmt::format("it has no region {}", region));
  return function().block(op_.regions[region]);
}

std::optional<OpKind> Call::simple_region(size_t region) const {
  const Block& block = region_block(region);
  if (block.arguments.size() != 2 || block.ops.size() != 2) return std::nullopt;
  const Op& only = function().op(block.ops[0]);
  const Op& last = function().op(block.ops[1]);
  if (only.operands != block.arguments || last.kind != OpKind::return_ || last.operands != only.results)
    return std::nullopt;
  if (function().type(only.results[0]).quantization() || options().observer) return std::nullopt;
  return only.kind;
}

std::optional<size_t> Call::forwarding_region(size_t region) const {
  const Block& block = region_block(region);
  if (block.ops.size() != 1) return std::nullopt;
  const Op& last = function().op(block.ops[0]);
  if (last.operands.size() != 1) return std::nullopt;
  for (size_t i = 0; i < block.arguments.size(); ++i)
    if (block.arguments[i] == last.operands[0]) return i;
  return std::nullopt;
}

const Type& Call::region_argument_type(size_t region, size_t argument) const {
  const Block& block = region_block(region);
  if (argument >= block.arguments.size()) fail(fmt::format("its region has no argument {}", argument));
  return function().type(block.arguments[argument]);
}

const Type& Call::region_result_type(size_t region, size_t result) const {
  const Block& block = region_block(region);
  const Op& last = function().op(block.ops.back());
  if (result >= last.operands.size()) fail(fmt::format("its region returns no value {}", result));
  return function().type(last.operands[result]);
}

void Call::fail(std::string message, std::string hint) const {
  throw Fault(FaultKind::kInput, std::string("eval.") + std::string(name(op_.kind)), std::move(message),
              std::move(hint));
}

void Call::not_modelled(std::string message, std::string hint) const {
  throw Fault(FaultKind::kNotModelled, std::string("eval.") + std::string(name(op_.kind)), std::move(message),
              std::move(hint));
}

Tensor element_at(const Tensor& tensor, int64_t index, Type scalar) {
  return visit_values(tensor, [&]<typename T>(const std::vector<T>& values) {
    return Tensor(std::move(scalar), std::vector<T>{values[static_cast<size_t>(index)]});
  });
}

template <typename T>
T Combiner<T>::operator()(T a, T b) const {
  if (forwarded_) return *forwarded_ == 0 ? a : b;
  if (function_) {
    const T combined = function_(a, b, element_);
    if constexpr (std::is_same_v<T, Bool>) return combined;
    if (call_.options().float64 && (std::is_same_v<T, Real> || std::is_same_v<T, Complex>)) return combined;
    return normalised(element_, combined);
  }
  Items results =
      call_.run_region(region_, {Tensor(call_.region_argument_type(region_, 0), std::vector<T>{a}),
                                 Tensor(call_.region_argument_type(region_, 1), std::vector<T>{b})});
  if (results.size() != 1 || !std::holds_alternative<Tensor>(results[0].value))
    call_.fail("its region does not return one tensor");
  return std::get<Tensor>(results[0].value).values<T>().at(0);
}

template class Combiner<Bool>;
template class Combiner<Signed>;
template class Combiner<Unsigned>;
template class Combiner<Real>;
template class Combiner<Complex>;

}  // namespace opentrn::graph::eval
