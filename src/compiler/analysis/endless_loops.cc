#include "compiler/analysis/endless_loops.h"

#include <set>

#include "base/fault.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "graph/element_value.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

// Whether it may give another result for the same operands, or cannot be judged without looking inside.
bool may_change_by_itself(const Op& op) {
  const graph::OpDefinition& definition = graph::definition(op.kind);
  if (definition.has_side_effect || definition.op_class == graph::OpClass::kCollective) return true;
  switch (op.kind) {
    case OpKind::rng_:
    case OpKind::custom_call_:
    case OpKind::call_:
    case OpKind::composite_:
    case OpKind::while_:
    case OpKind::if_:
    case OpKind::case_: return true;
    default: return false;
  }
}

// Whether the condition of a loop may be another one in the next iteration.
bool may_end(const Function& function, const Op& loop) {
  const auto& condition = function.block(loop.regions[0]);
  const auto& body = function.block(loop.regions[1]);
  const auto& next = function.op(body.ops.back()).operands;
  std::set<ValueId> changing;
  for (size_t i = 0; i < condition.arguments.size() && i < next.size(); ++i)
    if (next[i] != body.arguments[i]) changing.insert(condition.arguments[i]);
  for (const OpId id : condition.ops) {
    const Op& op = function.op(id);
    if (op.kind == OpKind::return_) return changing.contains(op.operands[0]);
    bool changes = may_change_by_itself(op);
    for (const ValueId value : op.operands) changes |= changing.contains(value);
    for (const ValueId value : captured_by(function, op)) changes |= changing.contains(value);
    if (changes) changing.insert(op.results.begin(), op.results.end());
  }
  return true;
}

// The condition is the constant false.
bool is_never_entered(const Function& function, const Op& loop) {
  const Op& returned = function.op(function.block(loop.regions[0]).ops.back());
  const OpId made = function.value(returned.operands[0]).op;
  if (made == graph::kNoOp || function.op(made).kind != OpKind::constant_) return false;
  const graph::Literal& value = function.op(made).literal(graph::Attr::value);
  return graph::load_integer(value.type().element(), value.element(0)) == 0;
}

}  // namespace

void refuse_endless_loops(const graph::Module& module, const Function& function) {
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (op.kind != OpKind::while_ || may_end(function, op) || is_never_entered(function, op)) return;
    Fault fault(FaultKind::kProgram, "model.endless_loop",
                "this while never ends once it is entered: its condition reads nothing that the body changes",
                "let the condition read a value that the body returns changed, a counter for example");
    fault.set_location(module.source(op.location));
    throw fault;
  });
}

}  // namespace opentrn::compiler
