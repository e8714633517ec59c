// One ONNX node as its importer function sees it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "import/onnx/emit.h"
#include "import/onnx/proto.h"

namespace opentrn::import::onnx {

// Rows, padded to as many as there can be, and how many there are: a whole number without dimensions.
struct CountedRows {
  Values rows;  // each with the same first dimension
  ValueId count;
  Values whole = {};  // what else the rest of the operator needs, of a size that is known
};

// What a node can ask of the importer around it.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  // The value's constant, when it depends on constants alone.
  virtual std::optional<Literal> fold(ValueId value) = 0;
  // The graph inputs that a value depends on, for messages.
  virtual std::vector<std::string> inputs_of(ValueId value) = 0;
  virtual Literal literal(const Tensor& tensor) = 0;
  // The ops of a subgraph, whose inputs are given, appended by `builder`. Names of the graph around are seen.
  // `iteration`: of a loop's body, the number of the iteration.
  virtual Values subgraph(const Graph& graph, const Values& inputs, Builder& builder,
                          std::optional<ValueId> iteration = std::nullopt) = 0;
  // Key and counter of an rng_bit_generator for one node's numbers, ui64 [3]: another in every
  // node and iteration and, without a seed, in every run.
  virtual ValueId random_state(std::optional<float> seed, Builder& builder) = 0;
  // Leaves the node for the next stage (stages.h), where `value` is a constant. Returns when there is none.
  virtual void ask(ValueId value) = 0;
  // The rows that there are, then what is whole. Leaves the node for the next stage, which knows how many
  // there are, unless it is known.
  virtual Values cut(const std::function<CountedRows()>& make) = 0;
};

class Node {
 public:
  Node(const NodeProto& proto, int64_t opset, Builder& builder, Surroundings& surroundings,
       std::vector<std::optional<ValueId>> inputs,
       std::function<const AttributeValue*(std::string_view)> attribute)
      : emit(builder),
        proto_(proto),
        opset_(opset),
        surroundings_(surroundings),
        inputs_(std::move(inputs)),
        attribute_(std::move(attribute)),
        outputs_(proto.outputs.size()) {}

  const Emit emit;

  const std::string& op_type() const { return proto_.op_type; }
  int64_t opset() const { return opset_; }
  Surroundings& surroundings() const { return surroundings_; }

  size_t input_count() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].has_value(); }
  ValueId in(size_t i) const;  // input fault when left out
  ElementType element(size_t i) const { return emit.element(in(i)); }
  int64_t rank(size_t i) const { return emit.rank(in(i)); }
  Dims dims(size_t i) const { return emit.dims(in(i)); }

  // An input that must be known at compile time: a shape, axes, a size. Names what it depends on otherwise.
  Literal constant(size_t i) const;
  std::optional<Literal> maybe_constant(size_t i) const;
  // Sizes, axes, repeats: input fault when one is so large that arithmetic on it could overflow. places()
  // takes any number: Slice's ends and Loop's trips are INT64_MAX where there is no end.
  Dims integers(size_t i) const;
  int64_t integer(size_t i) const;
  Dims places(size_t i) const;
  std::vector<double> reals(size_t i) const;
  double real(size_t i) const;

  const AttributeValue* attribute(std::string_view name) const { return attribute_(name); }
  int64_t integer(std::string_view name, int64_t absent) const;
  double real(std::string_view name, double absent) const;
  std::string string(std::string_view name, std::string_view absent) const;
  bool flag(std::string_view name, bool absent) const { return integer(name, absent) != 0; }
  std::optional<Dims> integers(std::string_view name) const;
  Dims integers(std::string_view name, Dims absent) const;
  int64_t place(std::string_view name, int64_t absent) const;
  Dims places(std::string_view name) const;  // none when absent
  std::optional<std::vector<float>> reals(std::string_view name) const;
  const Graph& graph(std::string_view name) const;
  // The `to` and `dtype` attributes.
  std::optional<ElementType> data_type(std::string_view name) const;

  // Random words, ui32, of the node's own: see Surroundings::random_state().
  ValueId random_words(const Dims& dims) const;

  // As Surroundings::cut(); refused where a model is to be one program.
  Values cut(const std::function<CountedRows()>& make) const { return surroundings_.cut(make); }

  // An axis of `rank` dimensions, from the end when negative; input fault when out of range.
  int64_t axis(int64_t value, int64_t rank) const;
  Dims axes(Dims values, int64_t rank) const;

  size_t output_count() const { return outputs_.size(); }
  bool wants(size_t i) const { return i < outputs_.size() && !proto_.outputs[i].empty(); }
  // Ignored when the node does not name the output.
  void set(size_t i, ValueId value);
  const std::vector<std::optional<ValueId>>& outputs() const { return outputs_; }

  // kInput, label "onnx.<op_type>".
  template <typename... Args>
  void check(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (!holds) [[unlikely]]
      bad(fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void bad(std::string message) const;
  // kNotModelled: the model is right and cannot be imported.
  [[noreturn]] void refuse(std::string message, std::string hint = {}) const;

 private:
  const NodeProto& proto_;
  int64_t opset_;
  Surroundings& surroundings_;
  std::vector<std::optional<ValueId>> inputs_;
  std::function<const AttributeValue*(std::string_view)> attribute_;
  std::vector<std::optional<ValueId>> outputs_;
};

using ImportFunction = void (*)(Node&);

// The row of an operator for an opset version; null function when no row fits.
struct OpRow {
  std::string_view domain;
  std::string_view op_type;
  int64_t since;  // the first opset version that this function reads
  ImportFunction import;
  std::string_view refusal;  // why the operator is never imported; then import is null
};
const OpRow* find_op(std::string_view domain, std::string_view op_type, int64_t opset);
std::span<const OpRow> op_table();

}  // namespace opentrn::import::onnx
