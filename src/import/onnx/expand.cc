// Functions, branches and loops that become items of their own: written out where they are called.
#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"
#include "import/onnx/importer.h"

namespace opentrn::import::onnx {

namespace {

// A loop that is written out is one program, or several, with all its iterations.
constexpr int64_t kUnrolledMax = 4096;

void check_unrolled(int64_t iterations) {
  if (iterations > kUnrolledMax)
    throw Fault(FaultKind::kNotModelled, "onnx.Loop",
                fmt::format("a loop whose shapes depend on data passes {} iterations", kUnrolledMax));
}

[[noreturn]] void bad_loop(std::string message) {
  throw Fault(FaultKind::kInput, "onnx.Loop", std::move(message));
}

// Of an import that is to be one program, or of what is too large to be asked for.
[[noreturn]] void needs_stages(std::string_view what) {
  throw Fault(FaultKind::kNotModelled, "onnx.data_shape", fmt::format("{} depends on data", what),
              "opentrn compile and opentrn run take such models in stages");
}

[[noreturn]] void bad_scan(std::string message) {
  throw Fault(FaultKind::kInput, "onnx.Scan", std::move(message));
}

}  // namespace

// The body of a model's function in place of the call.
void Importer::call_function(const FunctionProto& function, const Item& item, std::deque<Item>& work) {
  const NodeProto& node = *item.node;
  auto bindings = std::make_shared<Bindings>();
  for (const AttributeValue& attribute : function.default_attributes) (*bindings)[attribute.name] = attribute;
  for (const AttributeValue& attribute : node.attributes)
    if (const AttributeValue* found = find_attribute(node, attribute.name, item.frame))
      (*bindings)[attribute.name] = *found;
  if (node.inputs.size() > function.inputs.size())
    throw Fault(FaultKind::kInput, "onnx.function",
                fmt::format("function {} takes {} inputs and is given {}", function.name,
                            function.inputs.size(), node.inputs.size()));
  const int number = add_frame(-1, item.frame);
  Frame& frame = progress_.frames.back();
  frame.opsets = &function.opsets;
  frame.bindings = std::move(bindings);
  std::vector<Item> items;
  const auto& left_out = progress_.frames[static_cast<size_t>(item.frame)].left_out;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const bool given =
        i < node.inputs.size() && !node.inputs[i].empty() && !left_out.contains(node.inputs[i]);
    if (!given) {
      frame.left_out.insert(function.inputs[i]);
      continue;
    }
    if (!find(item.frame, node.inputs[i]) && !find_sequence(item.frame, node.inputs[i]))
      throw Fault(FaultKind::kInput, "onnx.name",
                  fmt::format("input '{}' is made by no node before", node.inputs[i]));
    items.push_back(bind_item({item.frame, node.inputs[i]}, {number, function.inputs[i]}));
  }
  for (const NodeProto& inner : function.nodes) items.push_back(node_item(inner, number));
  for (size_t i = 0; i < node.outputs.size() && i < function.outputs.size(); ++i)
    if (!node.outputs[i].empty())
      items.push_back(bind_item({number, function.outputs[i]}, {item.frame, node.outputs[i]}));
  work.insert(work.begin(), items.begin(), items.end());
}

// A graph's nodes in `frame`, then its outputs under other names.
void Importer::expand_graph(const Graph& graph, int frame, const std::vector<Name>& outputs,
                            std::deque<Item>& work) const {
  std::vector<Item> items;
  for (const NodeProto& node : graph.nodes) items.push_back(node_item(node, frame));
  for (size_t i = 0; i < outputs.size() && i < graph.outputs.size(); ++i)
    if (!outputs[i].name.empty()) items.push_back(bind_item({frame, graph.outputs[i].name}, outputs[i]));
  work.insert(work.begin(), items.begin(), items.end());
}

// True: the condition is known, and the branch stands in the If's place.
bool Importer::expand_if(Item& item, Builder& builder, std::deque<Item>& work) {
  const auto condition = operands(item);
  if (condition.empty() || !condition[0]) return false;  // import_if says what is wrong
  const auto known = folder_.fold(*condition[0]);
  if (const auto number = known ? integer_of(*known) : std::nullopt) {
    const AttributeValue* branch =
        find_attribute(*item.node, *number != 0 ? "then_branch" : "else_branch", item.frame);
    if (!branch || !branch->g) return false;
    const int frame = add_frame(item.frame, item.frame);
    add_initializers(*branch->g, progress_.frames.back(), builder);
    std::vector<Name> outputs;
    for (const std::string& output : item.node->outputs) outputs.push_back({item.frame, output});
    expand_graph(*branch->g, frame, outputs, work);
    return true;
  }
  // As an op it reads all that its branches read.
  for (const Name& name : uses(item))
    if (const auto* found = find(name.frame, name.name); found && !*found) throw Later{};
  return false;
}

// The iterations of a Loop one after the other, when one op of the graph cannot hold them: what they carry
// changes its shape, or their number or a shape in them is to be asked for.
void Importer::unroll(Item& item, Builder& builder, std::deque<Item>& work) {
  const NodeProto& node = *item.node;
  const auto inputs = operands(item);
  Unrolled loop;
  loop.count = INT64_MAX;
  if (!inputs.empty() && inputs[0]) {
    const auto count = folder_.fold(*inputs[0]);
    if (!count) ask(*inputs[0], item);
    if (!count) needs_stages("the number of iterations");
    const auto number = integer_of(*count);
    if (!number) bad_loop("the number of trips is not a number");
    loop.count = *number;
  }
  if (inputs.size() > 1 && inputs[1]) loop.condition = Name{item.frame, node.inputs[1]};
  for (size_t i = 2; i < inputs.size(); ++i) {
    if (!inputs[i] && !find_sequence(item.frame, node.inputs[i]))
      bad_loop(fmt::format("state {} is left out", i - 2));
    loop.states.push_back({item.frame, node.inputs[i]});
  }
  const AttributeValue* body = find_attribute(node, "body", item.frame);
  if (!body || !body->g || body->g->inputs.size() != loop.states.size() + 2 ||
      body->g->outputs.size() < loop.states.size() + 1)
    bad_loop("the body does not fit the states");
  loop.scanned.resize(body->g->outputs.size() - loop.states.size() - 1);
  Item first = loop_item(node, item.frame, std::move(loop));
  next_iteration(first, builder, work);
}

// As unroll(), of a Scan: how many iterations there are is known, so all are written at once.
void Importer::unroll_scan(Item& item, Builder& builder, std::deque<Item>& work) {
  const NodeProto& node = *item.node;
  const auto inputs = operands(item);
  const auto integers = [&](std::string_view name, size_t count) {
    const AttributeValue* found = find_attribute(node, name, item.frame);
    return found && found->ints.size() == count ? found->ints : std::vector<int64_t>(count, 0);
  };
  const AttributeValue* body_attribute = find_attribute(node, "body", item.frame);
  const AttributeValue* scanned_attribute = find_attribute(node, "num_scan_inputs", item.frame);
  if (!body_attribute || !body_attribute->g || !scanned_attribute || !scanned_attribute->i)
    bad_scan("it has no body or num_scan_inputs");
  const Graph& body = *body_attribute->g;
  const int64_t scanned = *scanned_attribute->i;
  const auto input_count = static_cast<int64_t>(inputs.size());
  if (scanned < 1 || scanned > input_count || body.inputs.size() != inputs.size() ||
      static_cast<int64_t>(body.outputs.size()) < input_count - scanned)
    bad_scan("the body does not fit the inputs");
  const auto states = static_cast<size_t>(input_count - scanned);
  for (const auto& input : inputs)
    if (!input) bad_scan("an input is left out");
  const auto axes = integers("scan_input_axes", static_cast<size_t>(scanned));
  const auto directions = integers("scan_input_directions", static_cast<size_t>(scanned));
  const Emit e(builder);
  const auto axis_of = [&](size_t k) {
    const int64_t rank = e.rank(*inputs[states + k]);
    const int64_t axis = axes[k] < 0 ? axes[k] + rank : axes[k];
    if (axis < 0 || axis >= rank) bad_scan(fmt::format("axis {} of an input of rank {}", axes[k], rank));
    return axis;
  };
  const int64_t count = e.dim(*inputs[states], axis_of(0));
  for (size_t k = 1; k < static_cast<size_t>(scanned); ++k)
    if (e.dim(*inputs[states + k], axis_of(k)) != count) bad_scan("scanned inputs have different lengths");
  check_unrolled(count);

  const size_t outputs = body.outputs.size() - states;
  const auto backward = integers("scan_output_directions", outputs);
  Unrolled end;
  end.iteration = end.count = count;
  end.axes = integers("scan_output_axes", outputs);
  end.scanned.resize(outputs);
  for (size_t i = 0; i < states; ++i) end.states.push_back({item.frame, node.inputs[i]});
  std::vector<Item> items;
  for (int64_t iteration = 0; iteration < count; ++iteration) {
    const int number = add_frame(item.frame, item.frame);
    Frame& frame = progress_.frames.back();
    for (size_t k = 0; k < static_cast<size_t>(scanned); ++k) {
      const int64_t at = directions[k] ? count - 1 - iteration : iteration;
      frame.values[body.inputs[states + k].name] = e.take(*inputs[states + k], axis_of(k), at);
    }
    add_initializers(body, frame, builder);
    for (size_t i = 0; i < states; ++i) {
      items.push_back(bind_item(end.states[i], {number, body.inputs[i].name}));
      end.states[i] = {number, body.outputs[i].name};
    }
    for (const NodeProto& inner : body.nodes) items.push_back(node_item(inner, number));
    for (size_t i = 0; i < outputs; ++i) {
      auto& slices = end.scanned[i];
      slices.insert(backward[i] ? slices.begin() : slices.end(), {number, body.outputs[states + i].name});
    }
  }
  items.push_back(loop_item(node, item.frame, std::move(end)));
  work.insert(work.begin(), items.begin(), items.end());
}

void Importer::next_iteration(Item& item, Builder& builder, std::deque<Item>& work) {
  // What a later stage goes on with is the iteration, whichever item it came from.
  const auto wait = [&] {
    if (builder.block() != main_.body()) throw LaterInside{};
    defer(item);
  };
  const Unrolled& loop = *item.loop;
  bool more = loop.iteration < loop.count;
  if (more && loop.condition) {
    const auto* found = find(loop.condition->frame, loop.condition->name);
    if (!found) bad_loop(fmt::format("condition '{}' is made by no node before", loop.condition->name));
    if (!*found) return wait();
    const auto known = folder_.fold(**found);
    if (!known) {
      try {
        ask(**found, item);
      } catch (const Later&) {
        return wait();
      }
      needs_stages("whether there is another iteration");
    }
    const auto number = integer_of(*known);
    if (!number) bad_loop("the condition is not a truth value");
    more = *number != 0;
  }
  if (!more) {
    for (const auto& slices : loop.scanned)
      for (const Name& slice : slices)
        if (const auto* found = find(slice.frame, slice.name); found && !*found) return wait();
    for (const Name& state : loop.states)
      if (const auto* found = find(state.frame, state.name); found && !*found) return wait();
    return end_loop(item, builder);
  }
  check_unrolled(loop.iteration + 1);
  const Graph& body = *find_attribute(*item.node, "body", item.frame)->g;
  const int number = add_frame(item.frame, item.frame);
  Frame& frame = progress_.frames.back();
  const Emit e(builder);
  frame.values[body.inputs[0].name] = e.reshape(e.integers({loop.iteration}), {});
  frame.values[body.inputs[1].name] = e.scalar(ElementType::kI1, 1);
  add_initializers(body, frame, builder);
  std::vector<Item> items;
  Unrolled next = loop;
  ++next.iteration;
  next.condition = Name{number, body.outputs[0].name};
  for (size_t i = 0; i < loop.states.size(); ++i) {
    items.push_back(bind_item(loop.states[i], {number, body.inputs[i + 2].name}));
    next.states[i] = {number, body.outputs[i + 1].name};
  }
  for (const NodeProto& node : body.nodes) items.push_back(node_item(node, number));
  for (size_t i = 0; i < loop.scanned.size(); ++i)
    next.scanned[i].push_back({number, body.outputs[loop.states.size() + 1 + i].name});
  items.push_back(loop_item(*item.node, item.frame, std::move(next)));
  work.insert(work.begin(), items.begin(), items.end());
}

void Importer::end_loop(const Item& item, Builder& builder) {
  const Unrolled& loop = *item.loop;
  const NodeProto& node = *item.node;
  const Graph& body = *find_attribute(node, "body", item.frame)->g;
  const Emit e(builder);
  auto& values = progress_.frames[static_cast<size_t>(item.frame)].values;
  const auto value = [&](const Name& name) {
    const auto* found = find(name.frame, name.name);
    if (!found) bad_loop(fmt::format("'{}' is made by no node of the body", name.name));
    return found->value();
  };
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i < loop.states.size()) {
      const Name& state = loop.states[i];
      if (const auto* elements = find_sequence(state.frame, state.name))
        set_sequence({item.frame, node.outputs[i]}, std::vector<Name>(*elements));
      else
        values[node.outputs[i]] = value(state);
      continue;
    }
    const size_t number = i - loop.states.size();
    if (number >= loop.scanned.size()) bad_loop(fmt::format("output {} is not made", i));
    Values slices;
    int64_t axis = 0;
    for (const Name& slice : loop.scanned[number]) {
      const int64_t rank = e.rank(value(slice)) + 1;
      if (number < loop.axes.size()) axis = loop.axes[number] + (loop.axes[number] < 0 ? rank : 0);
      if (axis < 0 || axis >= rank) bad_scan(fmt::format("output {} is stacked on axis {}", number, axis));
      slices.push_back(e.unsqueeze(value(slice), axis));
    }
    if (slices.empty()) {  // of no iteration the body alone says the shape
      if (!loop.axes.empty())
        throw Fault(FaultKind::kNotModelled, "onnx.Scan",
                    "a shape in its body depends on data, and it scans nothing");
      const ValueInfo& info = body.outputs[body.outputs.size() - loop.scanned.size() + number];
      Dims dims{0};
      for (const Dimension& dimension : info.shape) {
        if (!dimension.value)
          throw Fault(FaultKind::kNotModelled, "onnx.Loop",
                      fmt::format("output {} is of no iteration, and its shape is not stated", i));
        dims.push_back(*dimension.value);
      }
      values[node.outputs[i]] = e.full(element_type(info.element), dims, 0);
      continue;
    }
    values[node.outputs[i]] = slices.size() == 1 ? slices[0] : e.concat(slices, axis);
  }
}

}  // namespace opentrn::import::onnx
