#include "spmd/extract.h"

#include <algorithm>
#include <set>

#include "base/fault.h"
#include "graph/copy.h"
#include "graph/op_definitions.h"

namespace opentrn::spmd {

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

class Extraction : public graph::Copier {
 public:
  using Copier::Copier;

  void give(std::span<const ValueId> outputs) {
    std::vector<ValueId> values;
    for (const ValueId value : outputs) {
      values.push_back(at(value));
      to().result_types.push_back(from().type(value));
      to().result_attributes.emplace_back();
    }
    to().append(to().body(), OpKind::return_, std::move(values), {});
  }

 protected:
  ValueId missing(ValueId value) override {
    if (!is_constant(from(), value))
      throw Fault(FaultKind::kNotModelled, "spmd.extract", "a region reads a value from outside");
    // At the front, so that it stands before every use in whatever block.
    const Op& op = from().op(from().value(value).op);
    const OpId made = to().insert(to().body(), 0, OpKind::constant_, {}, {from().type(value)}, op.location);
    to().op(made).attributes = op.attributes;
    return to().op(made).results[0];
  }
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
  Extraction copier(from, to);
  for (const ValueId value : inputs) copier.argument(value, to.body());
  for (const OpId id : ops) copier.copy(from.op(id), to.body());
  copier.give(outputs);
  return to;
}

}  // namespace opentrn::spmd
