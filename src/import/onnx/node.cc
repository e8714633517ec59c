#include "import/onnx/node.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/fault.h"
#include "graph/element_value.h"
#include "import/onnx/tensor.h"

namespace opentrn::import::onnx {

namespace {

// Tensors of that many elements exist, and products of two attributes fit 64 bits.
constexpr int64_t kInputMax = int64_t{1} << 40;
constexpr int64_t kAttributeMax = INT32_MAX;

}  // namespace

ValueId Node::in(size_t i) const {
  if (!has(i)) bad(fmt::format("input {} is missing", i));
  return *inputs_[i];
}

std::optional<Literal> Node::maybe_constant(size_t i) const { return surroundings_.fold(in(i)); }

Literal Node::constant(size_t i) const {
  if (auto folded = maybe_constant(i)) return *folded;
  surroundings_.ask(in(i));
  const auto names = surroundings_.inputs_of(in(i));
  if (names.empty())
    refuse(fmt::format("input {} must be known at compile time; it changes from iteration to iteration", i));
  throw Fault(FaultKind::kNotModelled, "onnx.constant",
              fmt::format("input {} of {} must be known at compile time; it depends on input '{}'", i,
                          proto_.op_type, fmt::join(names, "', '")),
              "give that input's value when importing");
}

ValueId Node::random_words(const Dims& dims) const {
  if (product(dims) == 0) return emit.full(ElementType::kUI32, dims, 0);
  std::optional<float> seed;
  if (attribute("seed")) seed = static_cast<float>(real("seed", 0));
  const ValueId state = surroundings_.random_state(seed, emit.builder());
  const graph::OpId made = emit.builder().add_op(
      OpKind::rng_bit_generator_, {state},
      {{Attr::rng_algorithm, Attribute(static_cast<int64_t>(graph::RngAlgorithm::kPhilox))}},
      {emit.type(state), Type::tensor(ElementType::kUI32, dims)});
  return emit.builder().function().op(made).results[1];
}

Dims Node::integers(size_t i) const {
  Dims values = places(i);
  for (const int64_t value : values)
    check(-kInputMax <= value && value <= kInputMax, "input {} has {}; at most {} is taken", i, value,
          kInputMax);
  return values;
}

Dims Node::places(size_t i) const {
  const Literal literal = constant(i);
  const ElementType element = literal.type().element();
  check(graph::is_integer(element) || graph::is_bool(element), "input {} is {}; integers are wanted", i,
        literal.type().to_string());
  check(literal.type().element_count() <= 1 << 20, "input {} has {} entries", i,
        literal.type().element_count());
  Dims values;
  for (int64_t k = 0; k < literal.type().element_count(); ++k)
    values.push_back(graph::load_integer(element, literal.element(k)));
  return values;
}

int64_t Node::integer(size_t i) const {
  const Dims values = integers(i);
  check(values.size() == 1, "input {} has {} entries; one is wanted", i, values.size());
  return values[0];
}

double Node::real(size_t i) const {
  const std::vector<double> values = reals(i);
  check(values.size() == 1, "input {} has {} entries; one is wanted", i, values.size());
  return values[0];
}

std::vector<double> Node::reals(size_t i) const {
  const Literal literal = constant(i);
  const ElementType element = literal.type().element();
  check(literal.type().element_count() <= 1 << 20, "input {} has {} entries", i,
        literal.type().element_count());
  check(!graph::is_complex(element), "input {} is complex", i);
  std::vector<double> values;
  for (int64_t k = 0; k < literal.type().element_count(); ++k)
    values.push_back(graph::is_float(element)
                         ? graph::load_real(element, literal.element(k))
                         : static_cast<double>(graph::load_integer(element, literal.element(k))));
  return values;
}

int64_t Node::integer(std::string_view name, int64_t absent) const {
  const int64_t value = place(name, absent);
  check(value == absent || (-kAttributeMax <= value && value <= kAttributeMax),
        "attribute {} is {}; at most {} is taken", name, value, kAttributeMax);
  return value;
}

int64_t Node::place(std::string_view name, int64_t absent) const {
  const AttributeValue* found = attribute(name);
  if (!found) return absent;
  check(found->i.has_value(), "attribute {} is not an integer", name);
  return *found->i;
}

double Node::real(std::string_view name, double absent) const {
  const AttributeValue* found = attribute(name);
  if (!found) return absent;
  check(found->f.has_value(), "attribute {} is not a float", name);
  return *found->f;
}

std::string Node::string(std::string_view name, std::string_view absent) const {
  const AttributeValue* found = attribute(name);
  if (!found) return std::string(absent);
  check(found->s.has_value(), "attribute {} is not a string", name);
  return *found->s;
}

std::optional<Dims> Node::integers(std::string_view name) const {
  if (!attribute(name)) return std::nullopt;
  Dims values = places(name);
  for (const int64_t value : values)
    check(-kAttributeMax <= value && value <= kAttributeMax, "attribute {} has {}; at most {} is taken", name,
          value, kAttributeMax);
  return values;
}

Dims Node::places(std::string_view name) const {
  const AttributeValue* found = attribute(name);
  return found ? found->ints : Dims{};
}

Dims Node::integers(std::string_view name, Dims absent) const {
  return integers(name).value_or(std::move(absent));
}

std::optional<std::vector<float>> Node::reals(std::string_view name) const {
  const AttributeValue* found = attribute(name);
  if (!found) return std::nullopt;
  return found->floats;
}

const Graph& Node::graph(std::string_view name) const {
  const AttributeValue* found = attribute(name);
  check(found && found->g, "attribute {} is not a graph", name);
  return *found->g;
}

std::optional<ElementType> Node::data_type(std::string_view name) const {
  const AttributeValue* found = attribute(name);
  if (!found) return std::nullopt;
  check(found->i.has_value(), "attribute {} is not a type", name);
  return element_type(static_cast<DataType>(*found->i));
}

int64_t Node::axis(int64_t value, int64_t rank) const {
  check(-rank <= value && value < rank, "axis {} of rank {}", value, rank);
  return value < 0 ? value + rank : value;
}

Dims Node::axes(Dims values, int64_t rank) const {
  for (int64_t& value : values) value = axis(value, rank);
  Dims sorted = values;
  std::sort(sorted.begin(), sorted.end());
  check(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "axes [{}] repeat one",
        fmt::join(values, ", "));
  return values;
}

void Node::set(size_t i, ValueId value) {
  if (i < outputs_.size()) outputs_[i] = value;
}

void Node::bad(std::string message) const {
  throw Fault(FaultKind::kInput, "onnx." + proto_.op_type, std::move(message));
}

void Node::refuse(std::string message, std::string hint) const {
  throw Fault(FaultKind::kNotModelled, "onnx." + proto_.op_type, std::move(message), std::move(hint));
}

}  // namespace opentrn::import::onnx
