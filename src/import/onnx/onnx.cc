#include "import/onnx/onnx.h"
#include "import/onnx/location.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/op_definitions.h"
#include "graph/verify.h"
#include "import/onnx/fold.h"
#include "import/onnx/node.h"
#include "import/onnx/proto.h"
#include "import/onnx/tensor.h"

namespace opentrn::import::onnx {

using graph::BlockId;
using graph::Function;
using graph::Module;
using graph::Op;
using graph::OpId;

namespace {

// ONNX functions may call functions.
constexpr int kCallDepthMax = 32;
constexpr int64_t kOpsetMin = 7;

// Names of one graph; a subgraph sees those of the graph around it, a function does not.
struct Scope {
  const Scope* parent = nullptr;
  std::map<std::string, ValueId, std::less<>> values;

  const ValueId* find(std::string_view name) const {
    for (const Scope* scope = this; scope; scope = scope->parent)
      if (const auto found = scope->values.find(name); found != scope->values.end()) return &found->second;
    return nullptr;
  }
};

// What the nodes of a graph or function body need around them.
struct Frame {
  Scope scope;
  const OpsetVersions* opsets = nullptr;
  // Inside a function: inputs that the call leaves out.
  std::set<std::string, std::less<>> left_out;
  // Inside a function: the attributes of the call, then the function's defaults.
  const std::map<std::string, AttributeValue, std::less<>>* bindings = nullptr;
  int depth = 0;
};

std::string described(const NodeProto& node) {
  const std::string domain = node.domain.empty() ? "" : node.domain + ".";
  return node.name.empty() ? fmt::format("{}{} node", domain, node.op_type)
                           : fmt::format("{}{} node '{}'", domain, node.op_type, node.name);
}

class Importer {
 public:
  Importer(const Model& model, TensorReader& tensors, const Options& options)
      : model_(model), tensors_(tensors), options_(options) {}

  Module run() {
    check_opsets();
    Function& main = module_.add_function("main");
    folder_.emplace(module_, main);
    Builder builder(module_, main, main.body());
    Frame frame;
    frame.opsets = &model_.opsets;
    add_initializers(model_.graph, frame.scope, builder);
    add_inputs(main, frame.scope, builder);
    import_nodes(model_.graph.nodes, frame, builder);
    Values results;
    for (const ValueInfo& output : model_.graph.outputs) {
      const ValueId* found = frame.scope.find(output.name);
      if (!found) unknown_name(output.name, "graph output");
      results.push_back(*found);
      main.result_types.push_back(builder.type(*found));
      main.result_attributes.push_back({{"onnx.name", Attribute(output.name)}});
    }
    builder.return_values(std::move(results));
    drop_unused(main, main.body());
    graph::verify(module_);
    return std::move(module_);
  }

 private:
  // The surroundings of one node: the importer with the node's frame.
  class NodeSurroundings : public Surroundings {
   public:
    NodeSurroundings(Importer& importer, const Frame& frame) : importer_(importer), frame_(frame) {}
    std::optional<Literal> fold(ValueId value) override { return importer_.folder_->fold(value); }
    std::vector<std::string> inputs_of(ValueId value) override {
      std::vector<std::string> names;
      for (const ValueId argument : importer_.folder_->arguments_of(value))
        names.push_back(importer_.argument_names_.at(static_cast<uint32_t>(argument)));
      return names;
    }
    Literal literal(const Tensor& tensor) override { return importer_.tensors_.literal(tensor); }
    Values subgraph(const Graph& graph, const Values& inputs, Builder& builder) override {
      return importer_.import_subgraph(graph, inputs, frame_, builder);
    }

   private:
    Importer& importer_;
    const Frame& frame_;
  };

  [[noreturn]] static void unknown_name(std::string_view name, std::string_view what) {
    throw Fault(FaultKind::kInput, "onnx.name", fmt::format("{} '{}' is made by no node before", what, name));
  }

  void check_opsets() const {
    const auto found = model_.opsets.find("");
    if (found != model_.opsets.end() && found->second < kOpsetMin)
      throw Fault(
          FaultKind::kNotModelled, "onnx.opset",
          fmt::format("the model is of opset {}; opset {} and later are read", found->second, kOpsetMin),
          "convert it with onnx.version_converter");
    if (model_.graph.has_sparse_initializers)
      throw Fault(FaultKind::kNotModelled, "onnx.sparse", "the model has sparse initializers");
  }

  void add_initializers(const Graph& graph, Scope& scope, Builder& builder) {
    for (const Tensor& tensor : graph.initializers) {
      // A constant that the caller gives takes the place of the model's.
      const auto given = options_.constants.find(tensor.name);
      const bool replaced = scope.parent == nullptr && given != options_.constants.end();
      builder.set_location(module_.intern({tensor.name, "", 0, 0}));
      try {
        scope.values[tensor.name] = builder.constant(replaced ? given->second : tensors_.literal(tensor));
      } catch (Fault& fault) {
        fault.add_note(fmt::format("in tensor '{}' at offset {}", tensor.name, tensor.offset));
        throw;
      }
    }
  }

  void add_inputs(Function& main, Scope& scope, Builder& builder) {
    for (const ValueInfo& input : model_.graph.inputs) {
      if (scope.values.contains(input.name)) continue;  // an initializer that may be overridden
      const auto given = options_.constants.find(input.name);
      if (given != options_.constants.end()) {
        scope.values[input.name] = builder.constant(given->second);
        continue;
      }
      const ValueId argument = main.add_argument(main.body(), type_of_input(input));
      main.argument_attributes.back().emplace("onnx.name", Attribute(input.name));
      argument_names_[static_cast<uint32_t>(argument)] = input.name;
      scope.values[input.name] = argument;
    }
  }

  Type type_of_input(const ValueInfo& input) const {
    try {
      return input_type(input);
    } catch (Fault& fault) {
      fault.add_note(fmt::format("in input '{}' at offset {}", input.name, input.offset));
      throw;
    }
  }

  Type input_type(const ValueInfo& input) const {
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

  int64_t size_of(const ValueInfo& input, size_t i) const {
    const Dimension& dimension = input.shape[i];
    if (dimension.value) {
      if (*dimension.value < 0)
        throw Fault(FaultKind::kInput, "onnx.input",
                    fmt::format("dimension {} of input '{}' is {}", i, input.name, *dimension.value));
      return *dimension.value;
    }
    const std::string name =
        dimension.parameter.empty() ? fmt::format("{}.{}", input.name, i) : dimension.parameter;
    const auto given = options_.dimensions.find(name);
    if (given == options_.dimensions.end())
      throw Fault(FaultKind::kInput, "onnx.dimension",
                  fmt::format("dimension {} of input '{}' has no size", i, input.name),
                  fmt::format("give '{}' a size", name));
    return given->second;
  }

  Values import_subgraph(const Graph& graph, const Values& inputs, const Frame& around, Builder& builder) {
    if (graph.inputs.size() != inputs.size())
      throw Fault(FaultKind::kInput, "onnx.subgraph",
                  fmt::format("graph '{}' has {} inputs and is given {}", graph.name, graph.inputs.size(),
                              inputs.size()));
    Frame frame;
    frame.scope.parent = &around.scope;
    frame.opsets = around.opsets;
    frame.bindings = around.bindings;
    frame.depth = around.depth + 1;
    check_depth(frame.depth);
    for (size_t i = 0; i < inputs.size(); ++i) frame.scope.values[graph.inputs[i].name] = inputs[i];
    add_initializers(graph, frame.scope, builder);
    import_nodes(graph.nodes, frame, builder);
    Values outputs;
    for (const ValueInfo& output : graph.outputs) {
      const ValueId* found = frame.scope.find(output.name);
      if (!found) unknown_name(output.name, "subgraph output");
      outputs.push_back(*found);
    }
    return outputs;
  }

  static void check_depth(int depth) {
    if (depth > kCallDepthMax)
      throw Fault(FaultKind::kInput, "onnx.depth",
                  fmt::format("functions and graphs nest more than {} deep", kCallDepthMax));
  }

  void import_nodes(std::span<const NodeProto> nodes, Frame& frame, Builder& builder) {
    for (const NodeProto& node : nodes) {
      // Expansion of nested functions multiplies: bounded, so that a small file cannot fill memory.
      if (builder.function().op_count() > kOpsMax)
        throw Fault(FaultKind::kCapacity, "onnx.size", fmt::format("the graph passes {} ops", kOpsMax));
      builder.set_location(module_.intern(location_of(node)));
      try {
        import_node(node, frame, builder);
      } catch (Fault& fault) {
        fault.add_note(fmt::format("in {} at offset {}", described(node), node.offset));
        throw;
      }
    }
  }

  static const FunctionProto* find_function(const Model& model, const NodeProto& node) {
    for (const FunctionProto& function : model.functions)
      if (function.name == node.op_type && function.domain == node.domain &&
          function.overload == node.overload)
        return &function;
    return nullptr;
  }

  std::vector<std::optional<ValueId>> operands(const NodeProto& node, const Frame& frame) const {
    std::vector<std::optional<ValueId>> values;
    for (const std::string& input : node.inputs) {
      if (input.empty() || frame.left_out.contains(input)) {
        values.emplace_back();
        continue;
      }
      const ValueId* found = frame.scope.find(input);
      if (!found) unknown_name(input, "input");
      values.emplace_back(*found);
    }
    return values;
  }

  void import_node(const NodeProto& node, Frame& frame, Builder& builder) {
    if (const FunctionProto* function = find_function(model_, node)) {
      call_function(*function, node, frame, builder);
      return;
    }
    const auto version = frame.opsets->find(node.domain);
    if (version == frame.opsets->end())
      throw Fault(FaultKind::kInput, "onnx.opset",
                  fmt::format("the model imports no operators of domain '{}'", node.domain));
    const OpRow* row = find_op(node.domain, node.op_type, version->second);
    if (!row && is_custom(node.domain)) return import_custom(node, frame, builder);
    if (!row)
      throw Fault(FaultKind::kNotModelled, "onnx.operator",
                  fmt::format("operator {}{}{} of opset {} is not imported", node.domain,
                              node.domain.empty() ? "" : ".", node.op_type, version->second));
    if (!row->import)
      throw Fault(FaultKind::kNotModelled, "onnx.operator",
                  fmt::format("operator {} is not imported: {}", node.op_type, row->refusal));
    NodeSurroundings surroundings(*this, frame);
    Node context(node, version->second, builder, surroundings, operands(node, frame),
                 [&](std::string_view name) { return find_attribute(node, name, frame); });
    row->import(context);
    bind_outputs(node, context, frame);
  }

  // A domain that is nobody's but the model's.
  static bool is_custom(std::string_view domain) {
    return !domain.empty() && !domain.starts_with("ai.onnx") && domain != "com.microsoft" &&
           !domain.starts_with("com.microsoft.");
  }

  // A custom call of the operator's name. ONNX has no shape rule for it: the model states its results' types.
  // Numbers among its attributes are further operands, in the order of their names.
  void import_custom(const NodeProto& node, Frame& frame, Builder& builder) {
    Values inputs;
    for (const auto& operand : operands(node, frame)) {
      if (!operand)
        throw Fault(FaultKind::kNotModelled, "onnx.custom_operator",
                    fmt::format("custom operator {} leaves out an input", node.op_type));
      inputs.push_back(*operand);
    }
    std::vector<const AttributeValue*> attributes;
    for (const AttributeValue& attribute : node.attributes) attributes.push_back(&attribute);
    std::sort(attributes.begin(), attributes.end(), [](auto* a, auto* b) { return a->name < b->name; });
    for (const AttributeValue* attribute : attributes)
      inputs.push_back(builder.constant(custom_operand(node, *find_attribute(node, attribute->name, frame))));
    std::vector<Type> results;
    for (const std::string& output : node.outputs) results.push_back(stated_type(node, output));
    const graph::OpId made = builder.add_op(
        OpKind::custom_call_, inputs, {{graph::Attr::call_target_name, Attribute(node.op_type)}}, results);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      frame.scope.values[node.outputs[i]] = builder.function().op(made).results[i];
  }

  static Literal custom_operand(const NodeProto& node, const AttributeValue& attribute) {
    const auto of = [](ElementType element, Dims dims, auto values) {
      std::vector<std::byte> bytes(values.size() * sizeof(values[0]));
      std::memcpy(bytes.data(), values.data(), bytes.size());
      return Literal(Type::tensor(element, std::move(dims)), std::move(bytes));
    };
    const auto narrowed = [&](std::span<const int64_t> values) {
      std::vector<int32_t> narrow;
      for (const int64_t value : values) {
        if (value != static_cast<int32_t>(value))
          throw Fault(FaultKind::kNotModelled, "onnx.custom_operator",
                      fmt::format("attribute '{}' of custom operator {} needs 64 bits", attribute.name,
                                  node.op_type));
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
        fmt::format("attribute '{}' of custom operator {} is no number", attribute.name, node.op_type),
        "give what it says as a number, or as an input");
  }

  Type stated_type(const NodeProto& node, const std::string& output) const {
    for (const auto* list : {&model_.graph.value_infos, &model_.graph.outputs})
      for (const ValueInfo& info : *list)
        if (info.name == output) return input_type(info);
    throw Fault(FaultKind::kInput, "onnx.custom_operator",
                fmt::format("the type of '{}', which custom operator {}.{} makes, is not in the model",
                            output, node.domain, node.op_type),
                "add it to the graph's value_info");
  }

  static const AttributeValue* find_attribute(const NodeProto& node, std::string_view name,
                                              const Frame& frame) {
    for (const AttributeValue& attribute : node.attributes) {
      if (attribute.name != name) continue;
      if (attribute.reference.empty()) return &attribute;
      if (!frame.bindings) return nullptr;
      const auto bound = frame.bindings->find(attribute.reference);
      return bound == frame.bindings->end() ? nullptr : &bound->second;
    }
    return nullptr;
  }

  static void bind_outputs(const NodeProto& node, const Node& context, Frame& frame) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (!context.outputs()[i]) context.refuse(fmt::format("output {} is not made", i));
      frame.scope.values[node.outputs[i]] = *context.outputs()[i];
    }
  }

  // The body of a model's function in place of the call.
  void call_function(const FunctionProto& function, const NodeProto& node, Frame& caller, Builder& builder) {
    std::map<std::string, AttributeValue, std::less<>> bindings;
    for (const AttributeValue& attribute : function.default_attributes) bindings[attribute.name] = attribute;
    for (const AttributeValue& attribute : node.attributes)
      if (const AttributeValue* found = find_attribute(node, attribute.name, caller))
        bindings[attribute.name] = *found;
    Frame frame;
    frame.opsets = &function.opsets;
    frame.bindings = &bindings;
    frame.depth = caller.depth + 1;
    check_depth(frame.depth);
    const auto inputs = operands(node, caller);
    if (inputs.size() > function.inputs.size())
      throw Fault(FaultKind::kInput, "onnx.function",
                  fmt::format("function {} takes {} inputs and is given {}", function.name,
                              function.inputs.size(), inputs.size()));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i]) frame.scope.values[function.inputs[i]] = *inputs[i];
    for (const std::string& input : function.inputs)
      if (!frame.scope.values.contains(input)) frame.left_out.insert(input);
    import_nodes(function.nodes, frame, builder);
    for (size_t i = 0; i < node.outputs.size() && i < function.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      const ValueId* found = frame.scope.find(function.outputs[i]);
      if (!found) unknown_name(function.outputs[i], "function output");
      caller.scope.values[node.outputs[i]] = *found;
    }
  }

  // Ops that nothing uses: constants that were folded away, above all.
  static void drop_unused(Function& function, BlockId body) {
    std::vector<bool> used(function.value_count(), false);
    sweep(function, body, used);
  }

  static void sweep(Function& function, BlockId block, std::vector<bool>& used) {
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

  static constexpr size_t kOpsMax = 2'000'000;

  const Model& model_;
  TensorReader& tensors_;
  const Options& options_;
  Module module_;
  std::optional<Folder> folder_;
  std::map<uint32_t, std::string> argument_names_;
};

}  // namespace

Module import_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                    const std::filesystem::path& folder, const Options& options) {
  const Model model = read_model(bytes);
  TensorReader tensors(folder, std::move(owner));
  return Importer(model, tensors, options).run();
}

namespace {

void collect_files(const Tensor& tensor, const std::filesystem::path& folder,
                   std::set<std::filesystem::path>& files) {
  if (!tensor.external) return;
  const auto found = tensor.external_data.find("location");
  if (found != tensor.external_data.end()) files.insert(folder / found->second);
}

void collect_files(const Graph& graph, const std::filesystem::path& folder,
                   std::set<std::filesystem::path>& files);

void collect_files(std::span<const NodeProto> nodes, const std::filesystem::path& folder,
                   std::set<std::filesystem::path>& files) {
  for (const NodeProto& node : nodes) {
    for (const AttributeValue& attribute : node.attributes) {
      if (attribute.t) collect_files(*attribute.t, folder, files);
      if (attribute.g) collect_files(*attribute.g, folder, files);
    }
  }
}

void collect_files(const Graph& graph, const std::filesystem::path& folder,
                   std::set<std::filesystem::path>& files) {
  for (const Tensor& tensor : graph.initializers) collect_files(tensor, folder, files);
  collect_files(graph.nodes, folder, files);
}

}  // namespace

std::vector<std::filesystem::path> external_files(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const Model model = read_model(file->bytes());
  std::set<std::filesystem::path> files;
  collect_files(model.graph, path.parent_path(), files);
  for (const FunctionProto& function : model.functions)
    collect_files(function.nodes, path.parent_path(), files);
  return {files.begin(), files.end()};
}

std::vector<OperatorRow> operators() {
  std::vector<OperatorRow> rows;
  for (const OpRow& row : op_table())
    rows.push_back({std::string(row.domain), std::string(row.op_type), row.since, std::string(row.refusal)});
  return rows;
}

Module import_file(const std::filesystem::path& path, const Options& options) {
  const auto file = MappedFile::open(path);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  return import_bytes(file->bytes(), file, folder, options);
}

}  // namespace opentrn::import::onnx
