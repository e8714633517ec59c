// One execution of one op: what an op's body sees. The bodies are declared in bodies.h, the switch over
// them is in interpreter.cc.
#pragma once

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "graph/eval/evaluate.h"
#include "graph/eval/scalar_functions.h"
#include "graph/eval/tensor.h"
#include "graph/module.h"

namespace opentrn::graph::eval {

struct Item;
using ItemTuple = std::shared_ptr<const std::vector<Item>>;
// A value of a running function.
struct Item {
  std::variant<Token, Tensor, ItemTuple> value;

  Item() = default;
  Item(Tensor tensor) : value(std::move(tensor)) {}   // NOLINT: a tensor is an item
  Item(ItemTuple tuple) : value(std::move(tuple)) {}  // NOLINT
};
using Items = std::vector<Item>;

class Interpreter;
class Frame;

class Call {
 public:
  Call(Interpreter& interpreter, Frame& frame, const Op& op, Items operands)
      : interpreter_(interpreter), frame_(frame), op_(op), operands_(std::move(operands)), kind_(op.kind) {}

  const Op& op() const { return op_; }
  OpKind kind() const { return kind_; }
  Interpreter& interpreter() const { return interpreter_; }
  const Module& module() const;
  const Options& options() const;
  const Function& function() const;

  size_t operand_count() const { return operands_.size(); }
  const Items& operands() const { return operands_; }
  // Input fault when the operand is no tensor.
  const Tensor& tensor(size_t i) const;
  std::vector<Tensor> tensors(size_t begin, size_t end) const;
  // For wrappers: an op on quantized tensors runs on real ones (quantized.cc), a broadcasting op on
  // operands of one shape (broadcasting.cc).
  void set_operand(size_t i, Item item) { operands_[i] = std::move(item); }
  void set_stated(std::vector<Type> types) { stated_ = std::move(types); }
  void set_kind(OpKind kind) { kind_ = kind; }

  // Result types: as stated, or of known dimensions where the stated ones may be dynamic.
  const Type& stated(size_t i = 0) const;
  Type result(std::span<const int64_t> dims, size_t i = 0) const;

  // A result: rounds and wraps computed values to the element type (floats stay as they are under
  // Options::float64).
  Tensor finish(Type type, Storage values) const;
  template <typename T>
  Tensor finish(Type type, std::vector<T> values) const {
    return finish(std::move(type), Storage(std::move(values)));
  }

  // Runs a region and gives what it returns.
  Items run_region(size_t region, Items arguments) const;
  // The one op of a region that returns op(arg0, arg1), for which no interpretation per element is
  // needed.
  std::optional<OpKind> simple_region(size_t region) const;
  // The argument that a region returns as it came.
  std::optional<size_t> forwarding_region(size_t region) const;
  const Block& region_block(size_t region) const;
  // The type of a region's argument or returned value.
  const Type& region_argument_type(size_t region, size_t argument) const;
  const Type& region_result_type(size_t region, size_t result) const;

  // Input fault at this op: the program is wrong.
  [[noreturn]] void fail(std::string message, std::string hint = {}) const;
  [[noreturn]] void not_modelled(std::string message, std::string hint = {}) const;

 private:
  Interpreter& interpreter_;
  Frame& frame_;
  const Op& op_;
  Items operands_;
  OpKind kind_;
  std::vector<Type> stated_;  // replaces the stated types where not empty
};

// A scalar holding one element of a tensor.
Tensor element_at(const Tensor& tensor, int64_t index, Type scalar);

// Applies a region of two arguments per element, by its one op where it has only one.
template <typename T>
class Combiner {
 public:
  Combiner(const Call& call, size_t region) : call_(call), region_(region) {
    element_ = call.region_result_type(region, 0).element();
    if (const auto kind = call.simple_region(region)) function_ = binary_function<T>(*kind);
    forwarded_ = call.forwarding_region(region);
  }
  T operator()(T a, T b) const;

 private:
  const Call& call_;
  size_t region_;
  ElementType element_;
  BinaryFunction<T> function_ = nullptr;
  std::optional<size_t> forwarded_;
};

}  // namespace opentrn::graph::eval
