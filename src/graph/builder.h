// Appends ops to a block and finds their result types by the shape rules. What importers of other
// formats (ONNX, HLO) and passes use.
#pragma once

#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "graph/module.h"

namespace opentrn::graph {

class Builder;

// A region of an op: the types of its arguments, and what makes its ops and names what it returns.
struct RegionBody {
  std::vector<Type> arguments;
  std::function<std::vector<ValueId>(Builder& body, std::span<const ValueId> arguments)> build;
};

class Builder {
 public:
  // The function must stay where it is: add the functions of a module before building their bodies.
  Builder(Module& module, Function& function, BlockId block)
      : module_(module), function_(function), block_(block) {}

  using Attributes = std::vector<std::pair<Attr, Attribute>>;

  Module& module() { return module_; }
  Function& function() { return function_; }
  BlockId block() const { return block_; }
  const Type& type(ValueId id) const { return function_.type(id); }
  void set_location(LocationId location) { location_ = location; }
  LocationId location() const { return location_; }

  // Result types by shape_rules.h; `stated` for ops whose result the program states. Faults as
  // infer_types.
  OpId add_op(OpKind kind, std::vector<ValueId> operands, Attributes attributes = {},
              std::vector<Type> stated = {});
  // The only result.
  ValueId add(OpKind kind, std::vector<ValueId> operands, Attributes attributes = {},
              std::vector<Type> stated = {});

  // An op with regions, whose result types `results` are then held to the shape rules.
  OpId add_with_regions(OpKind kind, std::vector<ValueId> operands, Attributes attributes,
                        std::vector<Type> results, std::span<const RegionBody> regions);
  OpId add_with_regions(OpKind kind, std::vector<ValueId> operands, Attributes attributes,
                        std::vector<Type> results, std::initializer_list<RegionBody> regions) {
    return add_with_regions(kind, std::move(operands), std::move(attributes), std::move(results),
                            std::span(regions.begin(), regions.size()));
  }

  ValueId constant(Literal value);
  // A splat of `type`; the value is rounded to the element type, complex numbers get it as real part.
  ValueId splat(Type type, double value);
  // An i64 tensor of one dimension.
  ValueId shape_constant(std::span<const int64_t> values);
  ValueId reshape(ValueId value, std::vector<int64_t> dims);
  ValueId convert(ValueId value, ElementType element);
  ValueId transpose(ValueId value, std::vector<int64_t> permutation);
  ValueId broadcast_in_dim(ValueId value, std::vector<int64_t> dims,
                           std::vector<int64_t> broadcast_dimensions);
  ValueId slice(ValueId value, std::vector<int64_t> start, std::vector<int64_t> limit);
  ValueId compare(ComparisonDirection direction, ValueId lhs, ValueId rhs);
  ValueId concatenate(std::vector<ValueId> values, int64_t dimension);
  // Reduction over `dimensions` with add_, multiply_, maximum_, minimum_, and_ or or_ and its neutral
  // element.
  ValueId reduce(OpKind combiner, ValueId value, std::vector<int64_t> dimensions);
  void return_values(std::vector<ValueId> values);

 private:
  Op& make(OpId id, Attributes attributes);

  Module& module_;
  Function& function_;
  BlockId block_;
  LocationId location_ = kNoLocation;
};

// One element of `type`'s kind that stands for all.
Literal splat_literal(Type type, double value);
// The value x with combine(x, y) == y for every y: of add_, multiply_, maximum_, minimum_, and_, or_. A
// kInput fault for the order of complex numbers.
Literal neutral_element(OpKind combiner, ElementType element);

}  // namespace opentrn::graph
