#include "pjrt/extract.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/fault.h"
#include "graph/op_definitions.h"

namespace opentrn::pjrt {

using graph::BlockId;
using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

bool is_constant(const Function& function, ValueId value) {
  const OpId maker = function.value(value).op;
  return maker != graph::kNoOp && function.op(maker).kind == OpKind::constant_;
}

class Copier {
 public:
  Copier(const Function& from, Function& to) : from_(from), to_(to) {}

  void take(ValueId value) { map_[value] = to_.add_argument(to_.body(), from_.type(value)); }

  void copy(OpId id, BlockId into) {
    const Op& op = from_.op(id);
    std::vector<ValueId> operands;
    for (const ValueId value : op.operands) operands.push_back(inside(value));
    std::vector<graph::Type> types;
    for (const ValueId value : op.results) types.push_back(from_.type(value));
    const OpId made = to_.append(into, op.kind, std::move(operands), std::move(types), op.location);
    to_.op(made).attributes = op.attributes;
    to_.op(made).extra = op.extra;
    for (size_t i = 0; i < op.results.size(); ++i) map_[op.results[i]] = to_.op(made).results[i];
    for (const BlockId region : op.regions) {
      const BlockId inner = to_.add_block(made);
      for (const ValueId argument : from_.block(region).arguments)
        map_[argument] = to_.add_argument(inner, from_.type(argument));
      for (const OpId of_region : from_.block(region).ops) copy(of_region, inner);
    }
  }

  void give(std::span<const ValueId> outputs) {
    std::vector<ValueId> values;
    for (const ValueId value : outputs) {
      values.push_back(inside(value));
      to_.result_types.push_back(from_.type(value));
      to_.result_attributes.emplace_back();
    }
    to_.append(to_.body(), OpKind::return_, std::move(values), {});
  }

 private:
  ValueId inside(ValueId value) {
    if (const auto found = map_.find(value); found != map_.end()) return found->second;
    if (!is_constant(from_, value))
      throw Fault(FaultKind::kNotModelled, "pjrt.extract", "a region reads a value from outside");
    // At the front, so that it stands before every use in whatever block.
    const Op& op = from_.op(from_.value(value).op);
    const OpId made = to_.insert(to_.body(), 0, OpKind::constant_, {}, {from_.type(value)}, op.location);
    to_.op(made).attributes = op.attributes;
    return map_[value] = to_.op(made).results[0];
  }

  const Function& from_;
  Function& to_;
  std::map<ValueId, ValueId> map_;
};

}  // namespace

std::vector<ValueId> values_read(const Function& from, std::span<const OpId> ops) {
  std::set<ValueId> known;
  std::vector<ValueId> read;
  const auto visit = [&](const auto& self, OpId id) -> void {
    const Op& op = from.op(id);
    for (const ValueId value : op.operands)
      if (!is_constant(from, value) && known.insert(value).second) read.push_back(value);
    known.insert(op.results.begin(), op.results.end());
    for (const BlockId region : op.regions) {
      known.insert(from.block(region).arguments.begin(), from.block(region).arguments.end());
      for (const OpId inner : from.block(region).ops) self(self, inner);
    }
  };
  for (const OpId id : ops) visit(visit, id);
  return read;
}

Function extract(const Function& from, std::span<const OpId> ops, std::span<const ValueId> inputs,
                 std::span<const ValueId> outputs) {
  Function to("main");
  Copier copier(from, to);
  for (const ValueId value : inputs) copier.take(value);
  for (const OpId id : ops) copier.copy(id, to.body());
  copier.give(outputs);
  return to;
}

}  // namespace opentrn::pjrt
