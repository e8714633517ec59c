#include "compiler/rewrite/inline_region.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/analysis/graph_names.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

bool is_elementwise(const Op& op) {
  switch (op.kind) {
    case OpKind::select_:
    case OpKind::clamp_:
    case OpKind::compare_:
    case OpKind::convert_: return true;
    default: break;
  }
  const OpClass op_class = graph::definition(op.kind).op_class;
  return op_class == OpClass::kUnaryElementwise || op_class == OpClass::kBinaryElementwise;
}

const Op* constant_of(const Function& function, ValueId value) {
  const OpId id = function.value(value).op;
  if (id == graph::kNoOp || function.op(id).kind != OpKind::constant_) return nullptr;
  const Op& op = function.op(id);
  const graph::Literal& literal = op.literal(Attr::value);
  return literal.type().element_count() > 0 && literal.is_splat() ? &op : nullptr;
}

}  // namespace

bool can_inline_region(const Function& function, BlockId block_id) {
  const graph::Block& block = function.block(block_id);
  std::set<ValueId> known(block.arguments.begin(), block.arguments.end());
  for (const ValueId argument : block.arguments)
    if (!function.type(argument).is_tensor() || function.type(argument).quantization()) return false;
  for (const OpId id : block.ops) {
    const Op& op = function.op(id);
    if (op.kind == OpKind::constant_) continue;
    if (op.kind != OpKind::return_ && (!is_elementwise(op) || op.results.size() != 1)) return false;
    for (const ValueId operand : op.operands)
      if (!known.contains(operand) && !constant_of(function, operand)) return false;
    known.insert(op.results.begin(), op.results.end());
  }
  return true;
}

std::vector<ValueId> inline_region(graph::Builder& builder, const Function& function, BlockId block_id,
                                   std::span<const ValueId> arguments, const std::vector<int64_t>& dims) {
  const graph::Block& block = function.block(block_id);
  std::map<ValueId, ValueId> map;
  for (size_t i = 0; i < arguments.size(); ++i) map.emplace(block.arguments[i], arguments[i]);
  const auto value_of = [&](ValueId value) {
    if (const auto found = map.find(value); found != map.end()) return found->second;
    const graph::Literal& literal = constant_of(function, value)->literal(Attr::value);
    const auto size = static_cast<std::ptrdiff_t>(graph::storage_bytes(literal.type().element()));
    const ValueId made = builder.constant(
        graph::Literal(literal.type().with_dims(dims),
                       std::vector<std::byte>(literal.bytes().begin(), literal.bytes().begin() + size)));
    map.emplace(value, made);
    return made;
  };
  for (const OpId id : block.ops) {
    const Op& op = function.op(id);
    if (op.kind == OpKind::constant_) continue;
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) operands.push_back(value_of(operand));
    if (op.kind == OpKind::return_) return operands;
    const OpId made = builder.function().append(builder.block(), op.kind, std::move(operands),
                                                {function.type(op.results[0]).with_dims(dims)}, op.location);
    builder.function().op(made).attributes = op.attributes;
    map.emplace(op.results[0], builder.function().op(made).results[0]);
  }
  OPENTRN_CHECK(false, "a region ends without a return");
  return {};
}

}  // namespace opentrn::compiler
