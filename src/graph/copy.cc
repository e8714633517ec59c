#include "graph/copy.h"

namespace opentrn::graph {

OpId copy_op(const Function& from, const Op& op, std::vector<ValueId> operands, Function& to, BlockId into) {
  std::vector<Type> types;
  types.reserve(op.results.size());
  for (const ValueId value : op.results) types.push_back(from.type(value));
  const OpId made = to.append(into, op.kind, std::move(operands), std::move(types), op.location);
  to.op(made).attributes = op.attributes;
  to.op(made).extra = op.extra;
  return made;
}

ValueId Copier::at(ValueId value) {
  if (const auto found = copies_.find(value); found != copies_.end()) return found->second;
  const ValueId made = missing(value);
  copies_[value] = made;
  return made;
}

ValueId Copier::argument(ValueId value, BlockId into) {
  return copies_[value] = to_.add_argument(into, from_.type(value));
}

OpId Copier::copy(const Op& op, BlockId into) {
  std::vector<ValueId> operands;
  operands.reserve(op.operands.size());
  for (const ValueId value : op.operands) operands.push_back(at(value));
  const OpId made = copy_op(from_, op, std::move(operands), to_, into);
  for (size_t i = 0; i < op.results.size(); ++i) copies_[op.results[i]] = to_.op(made).results[i];
  for (const BlockId region : op.regions) {
    const BlockId inner = to_.add_block(made);
    for (const ValueId value : from_.block(region).arguments) argument(value, inner);
    for (const OpId each : from_.block(region).ops) copy(from_.op(each), inner);
  }
  return made;
}

ValueId Copier::missing(ValueId value) {
  OPENTRN_CHECK(false, "value {} of @{} is read by a copied op and has no copy", index_of(value), from_.name);
  return {};
}

}  // namespace opentrn::graph
