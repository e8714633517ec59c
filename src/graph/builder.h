// Appends ops to a block and finds their result types by the shape rules. What importers of other
// formats (ONNX, HLO) and passes use.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "graph/module.h"

namespace opentrn::graph {

class Builder {
 public:
  Builder(Module& module, Function& function, BlockId block)
      : module_(module), function_(function), block_(block) {}

  using Attributes = std::vector<std::pair<Attr, Attribute>>;

  Module& module() { return module_; }
  Function& function() { return function_; }
  BlockId block() const { return block_; }
  const Type& type(ValueId id) const { return function_.type(id); }
  void set_location(LocationId location) { location_ = location; }

  // Result types by shape_rules.h; `stated` for ops whose result the program states. Faults as
  // infer_types.
  OpId add_op(OpKind kind, std::vector<ValueId> operands, Attributes attributes = {},
              std::vector<Type> stated = {});
  // The only result.
  ValueId add(OpKind kind, std::vector<ValueId> operands, Attributes attributes = {},
              std::vector<Type> stated = {});

  ValueId constant(Literal value);
  // A splat of `type`; the value is rounded to the element type.
  ValueId splat(Type type, double value);
  // An i64 tensor of one dimension.
  ValueId shape_constant(std::span<const int64_t> values);
  ValueId reshape(ValueId value, std::vector<int64_t> dims);
  ValueId convert(ValueId value, ElementType element);
  ValueId transpose(ValueId value, std::vector<int64_t> permutation);
  ValueId broadcast_in_dim(ValueId value, std::vector<int64_t> dims,
                           std::vector<int64_t> broadcast_dimensions);
  // Reduction over `dimensions` with add_, multiply_, maximum_, minimum_, and_ or or_ and its neutral
  // element.
  ValueId reduce(OpKind combiner, ValueId value, std::vector<int64_t> dimensions);
  void return_values(std::vector<ValueId> values);

 private:
  Module& module_;
  Function& function_;
  BlockId block_;
  LocationId location_ = kNoLocation;
};

}  // namespace opentrn::graph
