#include "import/onnx/importer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "graph/element_value.h"
#include "graph/verify.h"
#include "import/onnx/location.h"

namespace opentrn::import::onnx {

using graph::BlockId;

namespace {

// ONNX functions may call functions.
constexpr int kCallDepthMax = 32;
constexpr int64_t kOpsetMin = 7;
constexpr size_t kGraphOpsMax = 2'000'000;
constexpr size_t kFramesMax =
    100'000;  // calls of functions and graphs inside nodes, each with names of its own
// What is asked for becomes a constant: shapes and conditions are small.
constexpr int64_t kAskedMax = 1 << 20;

std::string described(const NodeProto& node) {
  const std::string domain = node.domain.empty() ? "" : node.domain + ".";
  return node.name.empty() ? fmt::format("{}{} node", domain, node.op_type)
                           : fmt::format("{}{} node '{}'", domain, node.op_type, node.name);
}

[[noreturn]] void unknown_name(std::string_view name, std::string_view what) {
  throw Fault(FaultKind::kInput, "onnx.name", fmt::format("{} '{}' is made by no node before", what, name));
}

void check_depth(int depth) {
  if (depth > kCallDepthMax)
    throw Fault(FaultKind::kInput, "onnx.depth",
                fmt::format("functions and graphs nest more than {} deep", kCallDepthMax));
}

// A loop's iteration, for as long as the ops of its body are made.
class InnermostIteration {
 public:
  InnermostIteration(std::vector<ValueId>& iterations, std::optional<ValueId> number)
      : iterations_(iterations), around_(iterations.size()) {
    if (number) iterations_.push_back(*number);
  }
  ~InnermostIteration() { iterations_.resize(around_); }
  InnermostIteration(const InnermostIteration&) = delete;
  InnermostIteration& operator=(const InnermostIteration&) = delete;

 private:
  std::vector<ValueId>& iterations_;
  size_t around_;
};

}  // namespace

bool is_custom(std::string_view domain) {
  return !domain.empty() && !domain.starts_with("ai.onnx") && domain != "com.microsoft" &&
         !domain.starts_with("com.microsoft.");
}

// The surroundings of one node: the importer with the node's frame.
class Importer::NodeSurroundings : public Surroundings {
 public:
  NodeSurroundings(Importer& importer, Item& item, Builder& builder)
      : importer_(importer), item_(item), builder_(builder) {}
  std::optional<Literal> fold(ValueId value) override { return importer_.folder_.fold(value); }
  std::vector<std::string> inputs_of(ValueId value) override {
    std::vector<std::string> names;
    for (const ValueId argument : importer_.folder_.arguments_of(value))
      names.push_back(importer_.argument_names_.at(static_cast<uint32_t>(argument)));
    return names;
  }
  Literal literal(const Tensor& tensor) override { return importer_.source_.tensors.literal(tensor); }
  Values subgraph(const Graph& graph, const Values& inputs, Builder& builder,
                  std::optional<ValueId> iteration) override {
    return importer_.import_subgraph(graph, inputs, item_.frame, builder, iteration);
  }
  ValueId random_state(std::optional<float> seed, Builder& builder) override {
    return importer_.random_state(seed, builder);
  }
  void ask(ValueId value) override { importer_.ask(value, item_); }
  Values cut(const std::function<CountedRows()>& make) override {
    return importer_.cut(item_, builder_, make);
  }

 private:
  Importer& importer_;
  Item& item_;
  Builder& builder_;
};

void Importer::start() {
  check_opsets();
  check_dimensions();
  Builder builder(module_, main_, main_.body());
  Frame& frame = progress_.frames.emplace_back();
  frame.opsets = &source_.model.opsets;
  add_initializers(source_.model.graph, frame, builder);
  add_inputs(frame, builder);
  add_random_key(frame);
  for (const NodeProto& node : source_.model.graph.nodes) progress_.left.push_back(node_item(node, 0));
}

void Importer::run() {
  std::deque<Item> work(progress_.left.begin(), progress_.left.end());
  progress_.left.clear();
  Builder builder(module_, main_, main_.body());
  run(std::move(work), builder, true);
}

void Importer::finish() {
  OPENTRN_CHECK(progress_.left.empty(), "{} nodes are left", progress_.left.size());
  Values results;
  for (const ValueInfo& output : source_.model.graph.outputs) {
    const auto* found = find(0, output.name);
    if (!found) check_is_tensor(output);
    if (!found) unknown_name(output.name, "graph output");
    results.push_back(found->value());
    main_.result_types.push_back(main_.type(results.back()));
    main_.result_attributes.push_back({{"onnx.name", Attribute(output.name)}});
  }
  Builder(module_, main_, main_.body()).return_values(std::move(results));
  drop_unused();
  drop_random_key();
  graph::verify(module_);
}

void Importer::check_opsets() const {
  const auto found = source_.model.opsets.find("");
  if (found != source_.model.opsets.end() && found->second < kOpsetMin)
    throw Fault(
        FaultKind::kNotModelled, "onnx.opset",
        fmt::format("the model is of opset {}; opset {} and later are read", found->second, kOpsetMin),
        "convert it with onnx.version_converter");
  if (source_.model.graph.has_sparse_initializers)
    throw Fault(FaultKind::kNotModelled, "onnx.sparse", "the model has sparse initializers");
}

const std::optional<ValueId>* Importer::find(int frame, std::string_view name) const {
  for (; frame >= 0; frame = progress_.frames[static_cast<size_t>(frame)].parent) {
    const auto& values = progress_.frames[static_cast<size_t>(frame)].values;
    if (const auto found = values.find(name); found != values.end()) return &found->second;
  }
  return nullptr;
}

int Importer::add_frame(int parent, int like) {
  Frame frame;
  const Frame& model = progress_.frames[static_cast<size_t>(like)];
  frame.parent = parent;
  frame.opsets = model.opsets;
  frame.bindings = model.bindings;
  frame.depth = model.depth + 1;
  check_depth(frame.depth);
  progress_.frames.push_back(std::move(frame));
  return static_cast<int>(progress_.frames.size()) - 1;
}

void Importer::captured(const Graph& graph, int frame, std::vector<Name>& names) const {
  const auto add = [&](const std::string& name) {
    if (!name.empty() && (find(frame, name) || find_sequence(frame, name))) add_uses({frame, name}, names);
  };
  for (const NodeProto& node : graph.nodes) {
    for (const std::string& input : node.inputs) add(input);
    for (const AttributeValue& attribute : node.attributes)
      if (attribute.g) captured(*attribute.g, frame, names);
  }
  for (const ValueInfo& output : graph.outputs) add(output.name);
}

// Of a sequence its elements; nothing of what is left out.
void Importer::add_uses(const Name& name, std::vector<Name>& names) const {
  if (name.name.empty()) return;
  if (progress_.frames[static_cast<size_t>(name.frame)].left_out.contains(name.name)) return;
  if (const auto* elements = find_sequence(name.frame, name.name))
    names.insert(names.end(), elements->begin(), elements->end());
  else
    names.push_back(name);
}

std::vector<Name> Importer::uses(const Item& item) const {
  std::vector<Name> names;
  if (item.kind == Item::Kind::kBind) {
    add_uses(item.from, names);
    return names;
  }
  if (item.kind == Item::Kind::kLoop) {
    if (item.loop->condition) names.push_back(*item.loop->condition);
    for (const Name& state : item.loop->states) add_uses(state, names);
    for (const auto& slices : item.loop->scanned) names.insert(names.end(), slices.begin(), slices.end());
  } else {
    for (const std::string& input : item.node->inputs) add_uses({item.frame, input}, names);
  }
  for (const AttributeValue& attribute : item.node->attributes)
    if (attribute.g) captured(*attribute.g, item.frame, names);
  for (const std::string& name : item.cut) names.push_back({item.frame, name});
  if (find(0, kRandomKey)) names.push_back({0, std::string(kRandomKey)});
  return names;
}

// Names that are nowhere are no reason to wait: the import says so.
bool Importer::is_ready(const Item& item) const {
  const auto known = [&](const Name& name) {
    const auto* found = find(name.frame, name.name);
    return !found || found->has_value();
  };
  // Of a branch that is taken each node waits for itself, and so does each of an iteration.
  if (item.kind == Item::Kind::kNode && item.node->op_type == "If" && item.node->domain.empty())
    return item.node->inputs.empty() || known({item.frame, item.node->inputs[0]});
  if (item.kind == Item::Kind::kNode && find_function(*item.node)) return true;
  if (item.kind == Item::Kind::kLoop) return !item.loop->condition || known(*item.loop->condition);
  const std::vector<Name> names = uses(item);
  return std::all_of(names.begin(), names.end(), known);
}

void Importer::defer(Item item) {
  const auto pend = [&](int frame, const std::string& name) {
    if (!name.empty()) progress_.frames[static_cast<size_t>(frame)].values[name] = std::nullopt;
  };
  if (item.kind == Item::Kind::kBind)
    pend(item.to.frame, item.to.name);
  else
    for (const std::string& output : item.node->outputs) pend(item.frame, output);
  progress_.left.push_back(std::move(item));
}

void Importer::run(std::deque<Item> work, Builder& builder, bool main) {
  while (!work.empty()) {
    interrupt::poll();
    Item item = std::move(work.front());
    work.pop_front();
    // Expansion of nested functions multiplies: bounded, so that a small file cannot fill memory.
    if (builder.function().op_count() > kGraphOpsMax)
      throw Fault(FaultKind::kCapacity, "onnx.size", fmt::format("the graph passes {} ops", kGraphOpsMax));
    if (progress_.frames.size() > kFramesMax)
      throw Fault(
          FaultKind::kCapacity, "onnx.size",
          fmt::format("functions and graphs inside nodes are written out more than {} times", kFramesMax),
          "call functions from a Loop in place of functions that call functions");
    if (main && !is_ready(item)) {
      defer(std::move(item));
      continue;
    }
    if (item.node) builder.set_location(module_.intern(location_of(*item.node)));
    try {
      step(item, builder, work, main);
    } catch (const Later&) {
      if (!main) throw;
      defer(std::move(item));
    } catch (const LaterInside&) {
      if (!main) throw;
      throw Fault(FaultKind::kNotModelled, "onnx.data_shape",
                  fmt::format("a shape inside {} depends on data", described(*item.node)));
    } catch (Fault& fault) {
      if (item.node)
        fault.add_note(fmt::format("in {} at offset {}", described(*item.node), item.node->offset));
      throw;
    }
  }
}

void Importer::step(Item& item, Builder& builder, std::deque<Item>& work, bool main) {
  switch (item.kind) {
    case Item::Kind::kNode: return import_node(item, builder, work, main);
    case Item::Kind::kLoop: return next_iteration(item, builder, work);
    case Item::Kind::kBind: break;
  }
  if (const auto* elements = find_sequence(item.from.frame, item.from.name))
    return set_sequence(item.to, std::vector<Name>(*elements));
  if (progress_.frames[static_cast<size_t>(item.from.frame)].left_out.contains(item.from.name)) {
    progress_.frames[static_cast<size_t>(item.to.frame)].left_out.insert(item.to.name);
    return;
  }
  const auto* found = find(item.from.frame, item.from.name);
  if (!found) unknown_name(item.from.name, "output");
  progress_.frames[static_cast<size_t>(item.to.frame)].values[item.to.name] = *found;
}

Values Importer::import_subgraph(const Graph& graph, const Values& inputs, int around, Builder& builder,
                                 std::optional<ValueId> iteration) {
  const InnermostIteration innermost(iterations_, iteration);
  if (graph.inputs.size() != inputs.size())
    throw Fault(FaultKind::kInput, "onnx.subgraph",
                fmt::format("graph '{}' has {} inputs and is given {}", graph.name, graph.inputs.size(),
                            inputs.size()));
  const int number = add_frame(around, around);
  Frame& frame = progress_.frames.back();
  for (size_t i = 0; i < inputs.size(); ++i) frame.values[graph.inputs[i].name] = inputs[i];
  add_initializers(graph, frame, builder);
  std::deque<Item> work;
  for (const NodeProto& node : graph.nodes) work.push_back(node_item(node, number));
  run(std::move(work), builder, false);
  Values outputs;
  for (const ValueInfo& output : graph.outputs) {
    const auto* found = find(number, output.name);
    if (!found && find_sequence(number, output.name)) throw LaterInside{};
    if (!found) unknown_name(output.name, "subgraph output");
    if (!*found) throw LaterInside{};
    outputs.push_back(**found);
  }
  return outputs;
}

const FunctionProto* Importer::find_function(const NodeProto& node) const {
  for (const FunctionProto& function : source_.model.functions)
    if (function.name == node.op_type && function.domain == node.domain && function.overload == node.overload)
      return &function;
  return nullptr;
}

std::vector<std::optional<ValueId>> Importer::operands(const Item& item) const {
  const auto& left_out = progress_.frames[static_cast<size_t>(item.frame)].left_out;
  std::vector<std::optional<ValueId>> values;
  for (const std::string& input : item.node->inputs) {
    if (input.empty() || left_out.contains(input) || find_sequence(item.frame, input)) {
      values.emplace_back();
      continue;
    }
    const auto* found = find(item.frame, input);
    if (!found) unknown_name(input, "input");
    if (!*found) throw LaterInside{};  // only in a region: others wait until all is there
    values.emplace_back(**found);
  }
  return values;
}

void Importer::import_node(Item& item, Builder& builder, std::deque<Item>& work, bool main) {
  const NodeProto& node = *item.node;
  if (const FunctionProto* function = find_function(node)) return call_function(*function, item, work);
  if (import_sequence(item, builder, work)) return;
  const OpsetVersions& opsets = *progress_.frames[static_cast<size_t>(item.frame)].opsets;
  const auto version = opsets.find(node.domain);
  if (version == opsets.end())
    throw Fault(FaultKind::kInput, "onnx.opset",
                fmt::format("the model imports no operators of domain '{}'", node.domain));
  const OpRow* row = find_op(node.domain, node.op_type, version->second);
  if (!row && is_custom(node.domain)) return import_custom(item, builder);
  if (!row)
    throw Fault(FaultKind::kNotModelled, "onnx.operator",
                fmt::format("operator {}{}{} of opset {} is not imported", node.domain,
                            node.domain.empty() ? "" : ".", node.op_type, version->second));
  if (!row->import)
    throw Fault(FaultKind::kNotModelled, "onnx.operator",
                fmt::format("operator {} is not imported: {}", node.op_type, row->refusal));
  const bool is_if = node.domain.empty() && node.op_type == "If";
  const bool is_loop = node.domain.empty() && node.op_type == "Loop";
  const bool is_scan = node.domain.empty() && node.op_type == "Scan" && version->second >= 9;
  const bool is_structure = is_if || is_loop || is_scan;
  if (!is_structure || !((main && in_stages_) || reads_sequence(item)))
    return import_by_row(*row, item, version->second, builder);
  if (is_if && expand_if(item, builder, work)) return;
  // As one op of the graph, if shapes and what the host must know allow it. What is wrong with a branch or
  // body shows again when it is written out, and there only if it is taken.
  std::exception_ptr why;
  try {
    return import_by_row(*row, item, version->second, builder);
  } catch (const LaterInside&) {
    why = std::make_exception_ptr(Fault(FaultKind::kNotModelled, "onnx.data_shape",
                                        fmt::format("a shape inside {} depends on data", described(node))));
  } catch (const Fault& fault) {
    if (fault.kind() == FaultKind::kInternal || fault.label() == "onnx.operator") throw;
    why = std::current_exception();
  }
  const auto inputs = operands(item);
  if (is_loop && inputs.size() >= 2) return unroll(item, builder, work);
  if (is_scan) return unroll_scan(item, builder, work);
  if (is_if && inputs.size() == 1 && inputs[0]) ask(*inputs[0], item);
  std::rethrow_exception(why);
}

// Loops that carry sequences and branches that return them are written out.
bool Importer::reads_sequence(const Item& item) const {
  const auto makes = [](const auto& self, const Graph& graph) -> bool {
    return std::ranges::any_of(graph.nodes, [&](const NodeProto& node) {
      return node.op_type.starts_with("Sequence") || node.op_type.starts_with("Optional") ||
             node.op_type == "SplitToSequence" ||
             std::ranges::any_of(node.attributes,
                                 [&](const AttributeValue& a) { return a.g && self(self, *a.g); });
    });
  };
  return std::ranges::any_of(item.node->inputs,
                             [&](const std::string& input) { return find_sequence(item.frame, input); }) ||
         std::ranges::any_of(item.node->attributes,
                             [&](const AttributeValue& a) { return a.g && makes(makes, *a.g); });
}

void Importer::import_by_row(const OpRow& row, Item& item, int64_t version, Builder& builder) {
  NodeSurroundings surroundings(*this, item, builder);
  Node context(*item.node, version, builder, surroundings, operands(item),
               [&](std::string_view name) { return find_attribute(*item.node, name, item.frame); });
  row.import(context);
  bind_outputs(item, context);
}

const AttributeValue* Importer::find_attribute(const NodeProto& node, std::string_view name,
                                               int frame) const {
  const auto& bindings = progress_.frames[static_cast<size_t>(frame)].bindings;
  for (const AttributeValue& attribute : node.attributes) {
    if (attribute.name != name) continue;
    if (attribute.reference.empty()) return &attribute;
    if (!bindings) return nullptr;
    const auto bound = bindings->find(attribute.reference);
    return bound == bindings->end() ? nullptr : &bound->second;
  }
  return nullptr;
}

void Importer::bind_outputs(const Item& item, const Node& context) {
  const NodeProto& node = *item.node;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (!context.outputs()[i]) context.refuse(fmt::format("output {} is not made", i));
    progress_.frames[static_cast<size_t>(item.frame)].values[node.outputs[i]] = *context.outputs()[i];
  }
}

void Importer::ask(ValueId value, const Item& item) {
  const graph::Value& v = main_.value(value);
  const BlockId block = v.op == graph::kNoOp ? v.block : main_.op(v.op).block;
  if (!in_stages_ || !v.type.is_tensor() || v.type.element_count() > kAskedMax) return;
  if (block != main_.body()) throw LaterInside{};
  const auto same = [&](const Question& question) { return question.value == value; };
  if (std::none_of(questions_.begin(), questions_.end(), same)) {
    std::string name;
    for (const Name& used : uses(item))
      if (const auto* found = find(used.frame, used.name); found && *found == value) name = used.name;
    questions_.push_back({value, false, 0, std::move(name), described(*item.node)});
  }
  throw Later{};
}

std::string Importer::size_name(const Item& item) const {
  const std::string& output = item.node->outputs.empty() ? item.node->op_type : item.node->outputs[0];
  for (const auto* list : {&source_.model.graph.value_infos, &source_.model.graph.outputs})
    for (const ValueInfo& info : *list) {
      if (info.name != output) continue;
      for (const Dimension& dimension : info.shape)
        if (!dimension.value && !dimension.parameter.empty()) return dimension.parameter;
    }
  return output;
}

Values Importer::cut(Item& item, Builder& builder, const std::function<CountedRows()>& make) {
  if (!item.cut.empty()) {
    Values rows;
    for (const std::string& name : item.cut) rows.push_back(find(item.frame, name)->value());
    return rows;
  }
  const CountedRows made = make();
  OPENTRN_CHECK(!made.rows.empty(), "nothing is counted");
  const Emit e(builder);
  const int64_t bound = e.dim(made.rows[0], 0);
  if (const auto count = folder_.fold(made.count)) {
    const int64_t known = graph::load_integer(count->type().element(), count->element(0));
    Values rows;
    for (const ValueId row : made.rows) rows.push_back(e.slice(row, 0, 0, known));
    rows.insert(rows.end(), made.whole.begin(), made.whole.end());
    return rows;
  }
  if (!in_stages_)
    throw Fault(FaultKind::kNotModelled, "onnx.data_shape",
                fmt::format("the shape of {}'s result depends on data", item.node->op_type),
                "opentrn compile and opentrn run take such models in stages");
  if (builder.block() != main_.body()) throw LaterInside{};
  questions_.push_back({made.count, true, bound, size_name(item), described(*item.node)});
  Frame& frame = progress_.frames[static_cast<size_t>(item.frame)];
  const auto keep = [&](ValueId value) {
    item.cut.push_back(fmt::format("{}#{}", item.node->op_type, progress_.cuts++));
    frame.values[item.cut.back()] = value;
  };
  for (const ValueId row : made.rows) {
    keep(row);
    counted_.push_back({item.cut.back(), item.frame, questions_.size() - 1});
  }
  for (const ValueId value : made.whole) keep(value);
  throw Later{};
}

}  // namespace opentrn::import::onnx
