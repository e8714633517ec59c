// Values that a pass replaces by others, which may be replaced in their turn later.
#pragma once

#include <vector>

#include "graph/module.h"

namespace opentrn::compiler {

class Replacements {
 public:
  explicit Replacements(const graph::Function& function) : to_(function.value_count()) {
    for (size_t i = 0; i < to_.size(); ++i) to_[i] = graph::ValueId{static_cast<uint32_t>(i)};
  }

  graph::ValueId of(graph::ValueId value) const {
    while (graph::index_of(value) < to_.size() && to_[graph::index_of(value)] != value)
      value = to_[graph::index_of(value)];
    return value;
  }
  void replace(graph::ValueId value, graph::ValueId by) { to_[graph::index_of(value)] = of(by); }
  void apply(graph::Op& op) const {
    for (graph::ValueId& operand : op.operands) operand = of(operand);
  }

 private:
  std::vector<graph::ValueId> to_;
};

}  // namespace opentrn::compiler
