// What of an import is about the model, not its nodes' order: inputs, constants, custom operators.
#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/op_definitions.h"
#include "import/onnx/importer.h"

namespace opentrn::import::onnx {

using graph::BlockId;
using graph::Function;
using graph::Op;
using graph::OpId;

void Importer::add_initializers(const Graph& graph, Frame& frame, Builder& builder) {
  for (const Tensor& tensor : graph.initializers) {
    // Of a tensor that nobody names, no file is looked at: external_parts() leaves it out too.
    if (tensor.external && !source_.names.contains(tensor.name)) continue;
    // A constant that the caller gives takes the place of the model's.
    const auto given = source_.options.constants.find(tensor.name);
    const bool replaced = &graph == &source_.model.graph && given != source_.options.constants.end();
    builder.set_location(module_.intern({tensor.name, "", 0, 0}));
    try {
      frame.values[tensor.name] =
          builder.constant(replaced ? given->second : source_.tensors.literal(tensor));
    } catch (Fault& fault) {
      fault.add_note(fmt::format("in tensor '{}' at offset {}", tensor.name, tensor.offset));
      throw;
    }
  }
}

void Importer::add_inputs(Frame& frame, Builder& builder) {
  for (const ValueInfo& input : source_.model.graph.inputs) {
    if (frame.values.contains(input.name)) continue;  // an initializer that may be overridden
    const auto given = source_.options.constants.find(input.name);
    if (given != source_.options.constants.end()) {
      frame.values[input.name] = builder.constant(given->second);
      continue;
    }
    const ValueId argument = main_.add_argument(main_.body(), type_of_input(input));
    main_.argument_attributes.back().emplace("onnx.name", Attribute(input.name));
    name_argument(argument, input.name);
    frame.values[input.name] = argument;
  }
}

namespace {

bool draws_by_key(std::span<const NodeProto> nodes) {
  constexpr std::string_view kDrawing[] = {"Bernoulli",        "Dropout",          "Multinomial",
                                           "RandomNormal",     "RandomNormalLike", "RandomUniform",
                                           "RandomUniformLike"};
  return std::ranges::any_of(nodes, [&](const NodeProto& node) {
    const auto seeded = [](const AttributeValue& a) { return a.name == "seed" && a.reference.empty(); };
    const auto inside = [](const AttributeValue& a) { return a.g && draws_by_key(a.g->nodes); };
    return (node.domain.empty() && std::ranges::count(kDrawing, node.op_type) > 0 &&
            std::ranges::none_of(node.attributes, seeded)) ||
           std::ranges::any_of(node.attributes, inside);
  });
}

}  // namespace

void Importer::add_random_key(Frame& frame) {
  if (frame.values.contains(kRandomKey))
    throw Fault(FaultKind::kInput, "onnx.input",
                fmt::format("'{}' is a name of the importer's own", kRandomKey), "rename that input");
  const auto draws = [](const FunctionProto& function) { return draws_by_key(function.nodes); };
  if (!draws_by_key(source_.model.graph.nodes) && std::ranges::none_of(source_.model.functions, draws))
    return;
  const ValueId key = main_.add_argument(main_.body(), Type::tensor(ElementType::kUI32, {2}));
  main_.argument_attributes.back().emplace("onnx.name", Attribute(std::string(kRandomKey)));
  name_argument(key, std::string(kRandomKey));
  frame.values[std::string(kRandomKey)] = key;
}

bool Importer::drop_random_key() {
  const auto* key = find(0, kRandomKey);
  if (!key || !*key) return false;
  bool used = false;
  graph::walk(main_, main_.body(),
              [&](OpId id) { used = used || std::ranges::count(main_.op(id).operands, **key) > 0; });
  if (used) return false;
  main_.block(main_.body()).arguments.pop_back();
  main_.argument_attributes.pop_back();
  return true;
}

// Key, then a counter of 128 bits: elements count in the lower half; node and iteration are the upper one.
ValueId Importer::random_state(std::optional<float> seed, Builder& builder) {
  constexpr uint32_t kOfKey = 1u << 31;     // no node of a seed has the counter of one of the key
  constexpr uint32_t kSpread = 0x9E3779B1;  // tells iterations of nested loops apart
  const Emit e(builder);
  const auto words = [&](const std::vector<uint32_t>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return e.constant(Literal(Type::tensor(ElementType::kUI32, {static_cast<int64_t>(values.size())}),
                              {bytes.begin(), bytes.end()}));
  };
  const uint32_t node = seed ? 0 : kOfKey | progress_.draws++;
  const ValueId key = seed ? words({std::bit_cast<uint32_t>(*seed), 0}) : find(0, kRandomKey)->value();
  ValueId iteration = words({0});
  for (const ValueId index : iterations_) {
    const ValueId number = e.reshape(e.cast(index, ElementType::kUI32), {1});
    iteration = e.add(e.mul(iteration, words({kSpread})), number);
  }
  const ValueId state = e.reshape(e.concat({key, words({0, 0, node}), iteration}, 0), {3, 2});
  return builder.add(OpKind::bitcast_convert_, {state}, {}, {Type::tensor(ElementType::kUI64, {3})});
}

void Importer::check_is_tensor(const ValueInfo& output) const {
  if (find_sequence(0, output.name) || progress_.frames[0].left_out.contains(output.name))
    throw Fault(FaultKind::kNotModelled, "onnx.output",
                fmt::format("output '{}' is a sequence or an optional value; tensors only", output.name),
                "return its elements, or ConcatFromSequence of them");
}

Type Importer::type_of_input(const ValueInfo& input) const {
  try {
    const Type type = input_type(input);
    (void)type.byte_count();  // refuses what no memory holds, whose sizes would overflow below
    return type;
  } catch (Fault& fault) {
    fault.add_note(fmt::format("in input '{}' at offset {}", input.name, input.offset));
    throw;
  }
}

Type Importer::input_type(const ValueInfo& input) const {
  if (input.type != TypeCase::kTensor)
    throw Fault(
        FaultKind::kNotModelled, "onnx.input",
        fmt::format("input '{}' is a sequence, map, optional or sparse tensor; tensors only", input.name));
  if (!input.has_shape)
    throw Fault(FaultKind::kNotModelled, "onnx.input", fmt::format("input '{}' has no rank", input.name),
                "run onnx.shape_inference, or export with shapes");
  Dims dims;
  for (size_t i = 0; i < input.shape.size(); ++i) dims.push_back(size_of(input, i));
  const Type type = Type::tensor(element_type(input.element), std::move(dims));
  (void)type.byte_count();
  return type;
}

// A custom call of the operator's name. ONNX has no shape rule for it: the model states its results' types.
// Numbers among its attributes are further operands, in the order of their names.
void Importer::import_custom(const Item& item, Builder& builder) {
  const NodeProto& node = *item.node;
  Values inputs;
  for (const auto& operand : operands(item)) {
    if (!operand)
      throw Fault(FaultKind::kNotModelled, "onnx.custom_operator",
                  fmt::format("custom operator {} leaves out an input", node.op_type));
    inputs.push_back(*operand);
  }
  std::vector<const AttributeValue*> attributes;
  for (const AttributeValue& attribute : node.attributes) attributes.push_back(&attribute);
  std::sort(attributes.begin(), attributes.end(), [](auto* a, auto* b) { return a->name < b->name; });
  for (const AttributeValue* attribute : attributes)
    inputs.push_back(
        builder.constant(custom_operand(node, *find_attribute(node, attribute->name, item.frame))));
  std::vector<Type> results;
  for (const std::string& output : node.outputs) results.push_back(stated_type(node, output));
  const graph::OpId made = builder.add_op(
      OpKind::custom_call_, inputs, {{graph::Attr::call_target_name, Attribute(node.op_type)}}, results);
  for (size_t i = 0; i < node.outputs.size(); ++i)
    progress_.frames[static_cast<size_t>(item.frame)].values[node.outputs[i]] =
        builder.function().op(made).results[i];
}

Literal Importer::custom_operand(const NodeProto& node, const AttributeValue& attribute) {
  const auto of = [](ElementType element, Dims dims, auto values) {
    std::vector<std::byte> bytes(values.size() * sizeof(values[0]));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return Literal(Type::tensor(element, std::move(dims)), std::move(bytes));
  };
  const auto narrowed = [&](std::span<const int64_t> values) {
    std::vector<int32_t> narrow;
    for (const int64_t value : values) {
      if (value != static_cast<int32_t>(value))
        throw Fault(
            FaultKind::kNotModelled, "onnx.custom_operator",
            fmt::format("attribute '{}' of custom operator {} needs 64 bits", attribute.name, node.op_type));
      narrow.push_back(static_cast<int32_t>(value));
    }
    return narrow;
  };
  if (attribute.f) return of(ElementType::kF32, {}, std::vector<float>{*attribute.f});
  if (attribute.i) return of(ElementType::kI32, {}, narrowed(std::vector{*attribute.i}));
  if (!attribute.floats.empty())
    return of(ElementType::kF32, {static_cast<int64_t>(attribute.floats.size())}, attribute.floats);
  if (!attribute.ints.empty())
    return of(ElementType::kI32, {static_cast<int64_t>(attribute.ints.size())}, narrowed(attribute.ints));
  throw Fault(
      FaultKind::kNotModelled, "onnx.custom_operator",
      fmt::format("attribute '{}' of custom operator {} is not a number", attribute.name, node.op_type),
      "give what it says as a number, or as an input");
}

Type Importer::stated_type(const NodeProto& node, const std::string& output) const {
  for (const auto* list : {&source_.model.graph.value_infos, &source_.model.graph.outputs})
    for (const ValueInfo& info : *list)
      if (info.name == output) return input_type(info);
  throw Fault(FaultKind::kInput, "onnx.custom_operator",
              fmt::format("the type of '{}', which custom operator {}.{} makes, is not in the model", output,
                          node.domain, node.op_type),
              "add it to the graph's value_info");
}

namespace {

// Ops that nothing uses: constants that were folded away, above all.
void sweep(Function& function, BlockId block, std::vector<bool>& used) {
  auto& ops = function.block(block).ops;
  std::vector<OpId> kept;
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const Op& op = function.op(*it);
    const bool needed = op.kind == OpKind::return_ || graph::definition(op.kind).has_side_effect ||
                        std::any_of(op.results.begin(), op.results.end(),
                                    [&](ValueId result) { return used[graph::index_of(result)]; });
    if (!needed) continue;
    kept.push_back(*it);
    for (const ValueId operand : op.operands) used[graph::index_of(operand)] = true;
    for (const BlockId region : op.regions) sweep(function, region, used);
  }
  std::reverse(kept.begin(), kept.end());
  ops = std::move(kept);
}

}  // namespace

void Importer::drop_unused() {
  std::vector<bool> used(main_.value_count(), false);
  sweep(main_, main_.body(), used);
}

}  // namespace opentrn::import::onnx
