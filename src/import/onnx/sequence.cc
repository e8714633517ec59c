// Sequences and optional values: lists of tensors that are known while importing, and vanish. A sequence is
// the names of its elements; an optional value is the name of what it holds, or a name that is left out.
#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/element_value.h"
#include "import/onnx/importer.h"
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

constexpr size_t kSequenceMax = 1 << 16;

[[noreturn]] void bad(const NodeProto& node, std::string message) {
  throw Fault(FaultKind::kInput, fmt::format("onnx.{}", node.op_type), std::move(message));
}

bool has_input(const NodeProto& node, size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); }

}  // namespace

void import_list(Node& n) { n.bad("it has no outputs"); }

const std::vector<Name>* Importer::find_sequence(int frame, std::string_view name) const {
  for (; frame >= 0; frame = progress_.frames[static_cast<size_t>(frame)].parent) {
    const Frame& around = progress_.frames[static_cast<size_t>(frame)];
    if (const auto found = around.sequences.find(name); found != around.sequences.end())
      return &found->second;
    if (around.values.contains(name)) return nullptr;
  }
  return nullptr;
}

void Importer::set_sequence(const Name& name, std::vector<Name> elements) {
  Frame& frame = progress_.frames[static_cast<size_t>(name.frame)];
  frame.values.erase(name.name);  // that it was waited for
  frame.sequences[name.name] = std::move(elements);
}

std::vector<Name> Importer::sequence_of(const Item& item, size_t i) const {
  const NodeProto& node = *item.node;
  const auto* found = has_input(node, i) ? find_sequence(item.frame, node.inputs[i]) : nullptr;
  if (!found) bad(node, fmt::format("input {} is not a sequence", i));
  return *found;
}

std::optional<int64_t> Importer::known_integer(const Item& item, size_t i) {
  if (!has_input(*item.node, i)) return std::nullopt;
  const auto given = operands(item)[i];
  if (!given) return std::nullopt;
  const auto known = folder_.fold(*given);
  if (!known) ask(*given, item);
  if (!known)
    throw Fault(FaultKind::kNotModelled, "onnx.constant",
                fmt::format("input {} of {} must be known at compile time", i, item.node->op_type));
  const auto number = integer_of(*known);
  if (!number) bad(*item.node, fmt::format("input {} is not a number", i));
  return number;
}

// Where an element stands, or is to stand: from the end when negative.
size_t Importer::sequence_place(const Item& item, size_t i, size_t size, int64_t absent) {
  const int64_t given = known_integer(item, i).value_or(absent);
  const int64_t place = given < 0 ? given + static_cast<int64_t>(size) : given;
  if (place < 0 || place > static_cast<int64_t>(size))
    bad(*item.node, fmt::format("position {} in a sequence of {}", given, size));
  return static_cast<size_t>(place);
}

bool Importer::import_sequence(Item& item, Builder& builder, std::deque<Item>& work) {
  const NodeProto& node = *item.node;
  if (!node.domain.empty() || node.outputs.empty()) return false;
  const std::string& op = node.op_type;
  const Name output{item.frame, node.outputs[0]};
  const auto set_value = [&](ValueId value) {
    progress_.frames[static_cast<size_t>(item.frame)].values[output.name] = value;
  };
  if (op == "SequenceEmpty") {
    set_sequence(output, {});
  } else if (op == "SequenceConstruct") {
    std::vector<Name> elements;
    for (const std::string& input : node.inputs) elements.push_back(owner_of({item.frame, input}));
    set_sequence(output, std::move(elements));
  } else if (op == "SequenceInsert") {
    std::vector<Name> elements = sequence_of(item, 0);
    if (!has_input(node, 1)) bad(node, "the element is left out");
    if (elements.size() >= kSequenceMax) bad(node, fmt::format("more than {} elements", kSequenceMax));
    const size_t place = sequence_place(item, 2, elements.size(), static_cast<int64_t>(elements.size()));
    elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(place),
                    owner_of({item.frame, node.inputs[1]}));
    set_sequence(output, std::move(elements));
  } else if (op == "SequenceErase") {
    std::vector<Name> elements = sequence_of(item, 0);
    const size_t place = sequence_place(item, 1, elements.size(), -1);
    if (place >= elements.size()) bad(node, fmt::format("no element {} of {}", place, elements.size()));
    elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(place));
    set_sequence(output, std::move(elements));
  } else if (op == "SequenceAt") {
    const std::vector<Name> elements = sequence_of(item, 0);
    if (!has_input(node, 1)) bad(node, "the position is left out");
    const size_t place = sequence_place(item, 1, elements.size(), 0);
    if (place >= elements.size()) bad(node, fmt::format("no element {} of {}", place, elements.size()));
    work.push_front(bind_item(elements[place], output));
  } else if (op == "SequenceLength") {
    const auto length = static_cast<int64_t>(sequence_of(item, 0).size());
    const Emit e(builder);
    set_value(e.reshape(e.integers({length}), {}));
  } else if (op == "SplitToSequence") {
    split_to_sequence(item, builder);
  } else if (op == "ConcatFromSequence") {
    set_value(concat_from_sequence(item, builder));
  } else if (op == "SequenceMap") {
    sequence_map(item, builder, work);
  } else {
    return import_optional(item, builder, work);
  }
  return true;
}

bool Importer::import_optional(Item& item, Builder& builder, std::deque<Item>& work) {
  const NodeProto& node = *item.node;
  const std::string& op = node.op_type;
  const auto& left_out = progress_.frames[static_cast<size_t>(item.frame)].left_out;
  const bool held = has_input(node, 0) && !left_out.contains(node.inputs[0]);
  const Name output{item.frame, node.outputs[0]};
  if (op == "OptionalHasElement") {
    const Emit e(builder);
    progress_.frames[static_cast<size_t>(item.frame)].values[output.name] =
        e.scalar(ElementType::kI1, held ? 1 : 0);
  } else if (op == "Optional" && !held) {
    progress_.frames[static_cast<size_t>(item.frame)].left_out.insert(output.name);
  } else if (op == "Optional" || op == "OptionalGetElement") {
    if (!held) bad(node, "there is no element");
    work.push_front(bind_item({item.frame, node.inputs[0]}, output));
  } else if (op == "Identity" && held && find_sequence(item.frame, node.inputs[0])) {
    work.push_front(bind_item({item.frame, node.inputs[0]}, output));
  } else {
    return false;
  }
  return true;
}

// The frame that holds a name: elements are seen from wherever the sequence goes.
Name Importer::owner_of(Name name) const {
  int frame = name.frame;
  while (frame >= 0 && !progress_.frames[static_cast<size_t>(frame)].values.contains(name.name))
    frame = progress_.frames[static_cast<size_t>(frame)].parent;
  if (frame < 0)
    throw Fault(FaultKind::kInput, "onnx.name",
                fmt::format("element '{}' is made by no node before", name.name));
  return {frame, std::move(name.name)};
}

Name Importer::hidden(int frame, ValueId value, std::string_view what) {
  Name name{frame, fmt::format("{}#{}", what, progress_.cuts++)};
  progress_.frames[static_cast<size_t>(frame)].values[name.name] = value;
  return name;
}

// Parts of equal size, or of the sizes given; of size one without the dimension where keepdims is 0.
void Importer::split_to_sequence(Item& item, Builder& builder) {
  const NodeProto& node = *item.node;
  const Emit e(builder);
  const auto given = operands(item);
  if (given.empty() || !given[0]) bad(node, "nothing to split");
  const auto attribute = [&](std::string_view name, int64_t absent) {
    const AttributeValue* found = find_attribute(node, name, item.frame);
    return found && found->i ? *found->i : absent;
  };
  const int64_t rank = e.rank(*given[0]);
  int64_t axis = attribute("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) bad(node, fmt::format("axis {} of rank {}", axis, rank));
  const int64_t size = e.dim(*given[0], axis);
  const bool whole = given.size() > 1 && given[1];
  const bool drops = !whole && attribute("keepdims", 1) == 0;
  Dims parts;
  if (!whole || e.rank(*given[1]) == 0) {
    const int64_t part = whole ? known_integer(item, 1).value() : 1;
    if (part < 1) bad(node, fmt::format("parts of {}", part));
    if (size / part >= static_cast<int64_t>(kSequenceMax))
      bad(node, fmt::format("more than {} elements", kSequenceMax));
    for (int64_t at = 0; at < size; at += part) parts.push_back(std::min(part, size - at));
  } else {
    const auto known = folder_.fold(*given[1]);
    if (!known) ask(*given[1], item);
    if (!known)
      throw Fault(FaultKind::kNotModelled, "onnx.constant",
                  "the sizes that SplitToSequence splits into must be known at compile time");
    for (int64_t k = 0; k < known->type().element_count(); ++k)
      parts.push_back(graph::load_integer(known->type().element(), known->element(k)));
  }
  std::vector<Name> elements;
  int64_t at = 0;
  for (const int64_t part : parts) {
    if (part < 0 || part > size - at) bad(node, fmt::format("parts do not add up to {}", size));
    ValueId slice = e.slice(*given[0], axis, at, at + part);
    if (drops) slice = e.squeeze(slice, axis);
    elements.push_back(hidden(item.frame, slice, node.outputs[0]));
    at += part;
  }
  if (at != size) bad(node, fmt::format("parts add up to {}, not {}", at, size));
  set_sequence({item.frame, node.outputs[0]}, std::move(elements));
}

ValueId Importer::concat_from_sequence(const Item& item, Builder& builder) {
  const NodeProto& node = *item.node;
  const Emit e(builder);
  const auto attribute = [&](std::string_view name) {
    const AttributeValue* found = find_attribute(node, name, item.frame);
    return found && found->i ? found->i : std::nullopt;
  };
  Values values;
  for (const Name& element : sequence_of(item, 0)) {
    const auto* found = find(element.frame, element.name);
    if (!found || !*found) throw LaterInside{};
    values.push_back(**found);
  }
  if (values.empty()) bad(node, "a sequence without elements");
  const bool stacks = attribute("new_axis").value_or(0) != 0;
  const int64_t rank = e.rank(values[0]) + (stacks ? 1 : 0);
  if (!attribute("axis")) bad(node, "it has no axis");
  int64_t axis = *attribute("axis");
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) bad(node, fmt::format("axis {} of rank {}", axis, rank));
  for (ValueId& value : values)
    if (stacks) value = e.unsqueeze(value, axis);
  return values.size() == 1 ? values[0] : e.concat(values, axis);
}

// The body once for each element, with the tensors among the further inputs as they are.
void Importer::sequence_map(Item& item, Builder& builder, std::deque<Item>& work) {
  const NodeProto& node = *item.node;
  const AttributeValue* attribute = find_attribute(node, "body", item.frame);
  if (!attribute || !attribute->g || attribute->g->inputs.size() != node.inputs.size() ||
      attribute->g->outputs.size() < node.outputs.size())
    bad(node, "the body does not fit the inputs");
  const Graph& body = *attribute->g;
  const size_t count = sequence_of(item, 0).size();
  std::vector<Item> items;
  std::vector<std::vector<Name>> made(node.outputs.size());
  for (size_t element = 0; element < count; ++element) {
    const int number = add_frame(item.frame, item.frame);
    add_initializers(body, progress_.frames.back(), builder);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto* sequence = find_sequence(item.frame, node.inputs[i]);
      if (sequence && sequence->size() != count) bad(node, "sequences of different lengths");
      const Name from = sequence ? (*sequence)[element] : Name{item.frame, node.inputs[i]};
      items.push_back(bind_item(from, {number, body.inputs[i].name}));
    }
    for (const NodeProto& inner : body.nodes) items.push_back(node_item(inner, number));
    for (size_t i = 0; i < made.size(); ++i) {
      const Name result{item.frame, fmt::format("{}#{}", node.outputs[i], progress_.cuts++)};
      items.push_back(bind_item({number, body.outputs[i].name}, result));
      made[i].push_back(result);
    }
  }
  for (size_t i = 0; i < made.size(); ++i)
    if (!node.outputs[i].empty()) set_sequence({item.frame, node.outputs[i]}, std::move(made[i]));
  work.insert(work.begin(), items.begin(), items.end());
}

}  // namespace opentrn::import::onnx
