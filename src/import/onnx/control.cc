// If, Loop and Scan.
#include <algorithm>

#include "import/onnx/fold.h"
#include "import/onnx/loop.h"
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

std::vector<Type> types_of(const Emit& e, const Values& values) {
  std::vector<Type> types;
  for (const ValueId value : values) types.push_back(e.type(value));
  return types;
}

void remove_op(graph::Function& f, graph::BlockId block, graph::OpId op) {
  auto& ops = f.block(block).ops;
  ops.erase(std::find(ops.begin(), ops.end(), op));
}

bool truth(const Node& n, const Literal& literal) {
  const auto number = integer_of(literal);
  n.check(number.has_value(), "the condition is {}, not one truth value", literal.type().to_string());
  return *number != 0;
}

}  // namespace

void import_if(Node& n) {
  const Emit& e = n.emit;
  const Graph& then_branch = n.graph("then_branch");
  const Graph& else_branch = n.graph("else_branch");
  // A condition on shapes is known here, and the branches may then differ in type.
  if (const auto condition = n.maybe_constant(0)) {
    const Values results =
        n.surroundings().subgraph(truth(n, *condition) ? then_branch : else_branch, {}, e.builder());
    for (size_t i = 0; i < results.size(); ++i) n.set(i, results[i]);
    return;
  }
  // Result types follow from the branches: their ops are made in the regions of a placeholder, which then
  // go to the op that has the types.
  const ValueId condition = e.reshape(n.in(0), {});
  graph::Function& f = e.builder().function();
  const graph::BlockId block = e.builder().block();
  const graph::OpId placeholder = f.append(block, OpKind::if_, {condition}, {});
  std::vector<Type> types;
  for (const Graph* branch : {&then_branch, &else_branch}) {
    Builder body(e.builder().module(), f, f.add_block(placeholder));
    body.set_location(e.builder().location());
    const Values results = n.surroundings().subgraph(*branch, {}, body);
    const auto branch_types = types_of(e, results);
    if (branch != &then_branch && branch_types != types)
      n.refuse("the branches return different shapes", "the condition must be known at compile time");
    types = branch_types;
    body.return_values(results);
  }
  const graph::OpId id = f.append(block, OpKind::if_, {condition}, types, e.builder().location());
  f.op(id).regions = f.op(placeholder).regions;
  for (const graph::BlockId region : f.op(id).regions) f.block(region).parent = id;
  remove_op(f, block, placeholder);
  const Values results = f.op(id).results;
  for (size_t i = 0; i < results.size(); ++i) n.set(i, results[i]);
}

namespace {

// Exporters write INT64_MAX for a loop that only its condition ends; the counter has 32 bits on the device.
constexpr int64_t kIterationsMax = INT32_MAX;

// Shapes of slices, found by building the body once where nothing uses it.
std::vector<Type> slice_types(const Emit& e, const Values& states, const IterationBody& body,
                              bool& conditional) {
  graph::Function& f = e.builder().function();
  const graph::OpId scratch = f.append(e.builder().block(), OpKind::optimization_barrier_, {}, {});
  const graph::BlockId block = f.add_block(scratch);
  Builder inner(e.builder().module(), f, block);
  const ValueId index = f.add_argument(block, Type::scalar(ElementType::kI64));
  Values arguments;
  for (const ValueId state : states) arguments.push_back(f.add_argument(block, e.type(state)));
  const Iteration once = body(inner, index, arguments);
  conditional = once.condition.has_value();
  std::vector<Type> types = types_of(e, once.slices);
  remove_op(f, e.builder().block(), scratch);
  return types;
}

}  // namespace

LoopResult loop(const Node& n, int64_t count, std::optional<ValueId> first_condition, const Values& states,
                const IterationBody& body, const std::vector<bool>& reversed) {
  const Emit& e = n.emit;
  bool conditional = false;
  const std::vector<Type> slices = slice_types(e, states, body, conditional);
  conditional = conditional || first_condition.has_value();
  if (conditional && !slices.empty())
    n.refuse("the number of iterations depends on data, and outputs are as long as it");
  Values carried{e.scalar(ElementType::kI64, 0)};
  carried.push_back(first_condition ? *first_condition : e.scalar(ElementType::kI1, 1));
  carried.insert(carried.end(), states.begin(), states.end());
  for (const Type& slice : slices) {
    Dims dims{count};
    dims.insert(dims.end(), slice.dims().begin(), slice.dims().end());
    carried.push_back(e.full(slice.element(), dims, 0));
  }
  const std::vector<Type> types = types_of(e, carried);
  const bool bounded = count <= kIterationsMax;
  n.check(bounded || conditional, "the loop never ends");
  const graph::RegionBody condition{types, [&](Builder& b, std::span<const ValueId> a) {
                                      if (!bounded) return Values{a[1]};
                                      const Emit inner(b);
                                      const ValueId more = inner.compare(ComparisonDirection::kLt, a[0],
                                                                         static_cast<double>(count));
                                      return Values{inner.binary(OpKind::and_, more, a[1])};
                                    }};
  const graph::RegionBody step{
      types, [&](Builder& b, std::span<const ValueId> a) {
        const Emit inner(b);
        const Values current(a.begin() + 2, a.begin() + 2 + static_cast<std::ptrdiff_t>(states.size()));
        const Iteration next = body(b, a[0], current);
        n.check(next.states.size() == states.size(), "the body returns {} states of {}", next.states.size(),
                states.size());
        Values results{inner.add(a[0], 1), next.condition ? *next.condition : a[1]};
        for (size_t i = 0; i < states.size(); ++i) {
          if (!(inner.type(next.states[i]) == inner.type(states[i])))
            n.refuse(fmt::format("state {} changes from {} to {}", i, inner.type(states[i]).to_string(),
                                 inner.type(next.states[i]).to_string()));
          results.push_back(next.states[i]);
        }
        for (size_t i = 0; i < slices.size(); ++i) {
          const ValueId buffer = a[2 + states.size() + i];
          const bool backward = i < reversed.size() && reversed[i];
          const ValueId place =
              backward ? inner.sub(inner.scalar(ElementType::kI64, static_cast<double>(count - 1)), a[0])
                       : a[0];
          Values start(static_cast<size_t>(inner.rank(buffer)), inner.scalar(ElementType::kI64, 0));
          start[0] = place;
          results.push_back(inner.dynamic_update(buffer, inner.unsqueeze(next.slices[i], 0), start));
        }
        return results;
      }};
  const graph::OpId id = e.builder().add_with_regions(OpKind::while_, carried, {}, types, {condition, step});
  const Values results = e.builder().function().op(id).results;
  const auto middle = results.begin() + 2 + static_cast<std::ptrdiff_t>(states.size());
  return {{results.begin() + 2, middle}, {middle, results.end()}};
}

void import_loop(Node& n) {
  const Emit& e = n.emit;
  const Graph& body = n.graph("body");
  const size_t state_count = n.input_count() < 2 ? 0 : n.input_count() - 2;
  n.check(body.inputs.size() == state_count + 2 && body.outputs.size() >= state_count + 1,
          "the body has {} inputs and {} outputs for {} states", body.inputs.size(), body.outputs.size(),
          state_count);
  Values states;
  for (size_t i = 0; i < state_count; ++i) states.push_back(n.in(i + 2));
  int64_t count = INT64_MAX;
  if (n.has(0)) {
    const Dims trips = n.places(0);
    n.check(trips.size() == 1, "the number of trips has {} entries", trips.size());
    count = std::max<int64_t>(trips[0], 0);
  }
  std::optional<ValueId> condition;
  if (n.has(1)) {
    const auto known = n.maybe_constant(1);
    if (known && !truth(n, *known)) count = 0;
    if (!known) condition = e.reshape(n.in(1), {});
  }
  const auto iterate = [&](Builder& b, ValueId index, const Values& current) {
    const Emit inner(b);
    Values inputs{index, inner.scalar(ElementType::kI1, 1)};
    inputs.insert(inputs.end(), current.begin(), current.end());
    const Values outputs = n.surroundings().subgraph(body, inputs, b, index);
    Iteration next;
    const auto known = n.surroundings().fold(outputs[0]);
    if (!known || !truth(n, *known)) next.condition = inner.reshape(outputs[0], {});
    const auto middle = outputs.begin() + 1 + static_cast<std::ptrdiff_t>(state_count);
    next.states.assign(outputs.begin() + 1, middle);
    next.slices.assign(middle, outputs.end());
    return next;
  };
  const LoopResult result = loop(n, count, condition, states, iterate);
  for (size_t i = 0; i < state_count; ++i) n.set(i, result.states[i]);
  for (size_t i = 0; i < result.scanned.size(); ++i) n.set(state_count + i, result.scanned[i]);
}

// Inputs: (sequence_lens in opset 8,) states, then scanned inputs.
void import_scan(Node& n) {
  const Emit& e = n.emit;
  const Graph& body = n.graph("body");
  const bool batched = n.opset() < 9;
  const size_t first = batched ? 1 : 0;
  if (batched && n.has(0)) n.refuse("sequence_lens");
  const auto scanned_count = static_cast<size_t>(n.integer("num_scan_inputs", 0));
  n.check(scanned_count >= 1 && n.input_count() >= first + scanned_count, "num_scan_inputs is {}",
          scanned_count);
  const size_t state_count = n.input_count() - first - scanned_count;
  n.check(body.outputs.size() >= state_count && body.inputs.size() == state_count + scanned_count,
          "the body has {} inputs and {} outputs", body.inputs.size(), body.outputs.size());
  const size_t output_count = body.outputs.size() - state_count;
  const Dims directions =
      n.integers(batched ? "directions" : "scan_input_directions", Dims(scanned_count, 0));
  const Dims out_directions = n.integers("scan_output_directions", Dims(output_count, 0));
  const Dims in_axes = n.integers("scan_input_axes", Dims(scanned_count, 0));
  const Dims out_axes = n.integers("scan_output_axes", Dims(output_count, 0));
  n.check(directions.size() == scanned_count && out_directions.size() == output_count &&
              in_axes.size() == scanned_count && out_axes.size() == output_count,
          "directions and axes do not fit {} scanned inputs and {} outputs", scanned_count, output_count);

  // One scan over states and inputs without a batch dimension.
  const auto scan = [&](const Values& states, Values scanned) {
    int64_t count = -1;
    for (size_t i = 0; i < scanned_count; ++i) {
      const int64_t rank = e.rank(scanned[i]);
      const int64_t axis = n.axis(in_axes[i], rank);
      Dims order{axis};
      for (int64_t d = 0; d < rank; ++d)
        if (d != axis) order.push_back(d);
      scanned[i] = e.transpose(scanned[i], order);
      if (directions[i]) scanned[i] = e.reverse(scanned[i], {0});
      n.check(count < 0 || count == e.dim(scanned[i], 0), "scanned inputs have different lengths");
      count = e.dim(scanned[i], 0);
    }
    const auto iterate = [&](Builder& b, ValueId index, const Values& current) {
      const Emit inner(b);
      Values inputs = current;
      for (const ValueId x : scanned) {
        Values start(static_cast<size_t>(inner.rank(x)), inner.scalar(ElementType::kI64, 0));
        start[0] = index;
        Dims sizes = inner.dims(x);
        sizes[0] = 1;
        inputs.push_back(inner.squeeze(inner.dynamic_slice(x, start, sizes), 0));
      }
      const Values outputs = n.surroundings().subgraph(body, inputs, b, index);
      const auto middle = outputs.begin() + static_cast<std::ptrdiff_t>(state_count);
      return Iteration{std::nullopt, {outputs.begin(), middle}, {middle, outputs.end()}};
    };
    const std::vector<bool> reversed(out_directions.begin(), out_directions.end());
    LoopResult result = loop(n, count, std::nullopt, states, iterate, reversed);
    for (size_t i = 0; i < output_count; ++i) {
      const int64_t rank = e.rank(result.scanned[i]);
      const int64_t axis = n.axis(out_axes[i], rank);
      Dims order;
      for (int64_t d = 1; d < rank; ++d) order.push_back(d);
      order.insert(order.begin() + axis, 0);
      result.scanned[i] = e.transpose(result.scanned[i], order);
    }
    return result;
  };
  Values inputs;
  for (size_t i = first; i < n.input_count(); ++i) inputs.push_back(n.in(i));
  if (!batched) {
    const auto middle = inputs.begin() + static_cast<std::ptrdiff_t>(state_count);
    const LoopResult result = scan({inputs.begin(), middle}, {middle, inputs.end()});
    for (size_t i = 0; i < state_count; ++i) n.set(i, result.states[i]);
    for (size_t i = 0; i < output_count; ++i) n.set(state_count + i, result.scanned[i]);
    return;
  }
  // Opset 8: the first dimension is the batch, each element its own scan.
  n.check(!inputs.empty() && e.rank(inputs[0]) > 0, "nothing to scan");
  const int64_t batch = e.dim(inputs[0], 0);
  n.check(0 < batch && batch < 1 << 10, "a batch of {}", batch);
  std::vector<Values> parts(state_count + output_count);
  for (int64_t b = 0; b < batch; ++b) {
    Values states, scanned;
    for (size_t i = 0; i < inputs.size(); ++i)
      (i < state_count ? states : scanned).push_back(e.take(inputs[i], 0, b));
    const LoopResult result = scan(states, scanned);
    for (size_t i = 0; i < parts.size(); ++i)
      parts[i].push_back(
          e.unsqueeze(i < state_count ? result.states[i] : result.scanned[i - state_count], 0));
  }
  for (size_t i = 0; i < parts.size(); ++i) n.set(i, e.concat(parts[i], 0));
}

}  // namespace opentrn::import::onnx
