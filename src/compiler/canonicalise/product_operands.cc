// Products of operands of two types: float types, which XLA takes and the Tensor engine does not; and
// constants and arguments that are kept narrower than they are multiplied.
#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/analysis/attention_op.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/number_sets.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {

namespace {

// A type that holds every number of both.
ElementType wider(ElementType a, ElementType b) {
  const int wide = graph::bit_width(a), narrow = graph::bit_width(b);
  if (wide == narrow) return ElementType::kF32;
  return wide > narrow ? a : b;
}

}  // namespace

void widen_product_operands(Function& function) {
  for (size_t block = 0; block < function.block_count(); ++block) {
    const graph::BlockId id{static_cast<uint32_t>(block)};
    for (size_t at = 0; at < function.block(id).ops.size(); ++at) {
      const OpId product = function.block(id).ops[at];
      const OpKind kind = function.op(product).kind;
      if (kind != OpKind::dot_general_ && kind != OpKind::convolution_) continue;
      const graph::Type lhs = function.type(function.op(product).operands[0]);
      const graph::Type rhs = function.type(function.op(product).operands[1]);
      if (lhs.quantization() || rhs.quantization() || lhs.element() == rhs.element() ||
          !graph::is_float(lhs.element()) || !graph::is_float(rhs.element()))
        continue;
      const ElementType common = wider(lhs.element(), rhs.element());
      for (size_t i = 0; i < 2; ++i) {
        const ValueId operand = function.op(product).operands[i];
        if (function.type(operand).element() == common) continue;
        const OpId made =
            function.insert(id, at++, OpKind::convert_, {operand},
                            {function.type(operand).with_element(common)}, function.op(product).location);
        function.op(product).operands[i] = function.op(made).results[0];
      }
    }
  }
}

namespace {

bool is_fp8(const Function& function, ValueId value) {
  const ElementType element = function.type(value).element();
  return graph::bit_width(element) == 8 && graph::is_float(element);
}

// Ops between a value and the widening of fp8 that it is made of, the last one first, behind which they only
// say where elements lie; nothing where there is none.
std::optional<std::vector<OpId>> way_to_fp8(const Function& function, ValueId value, ElementType wide) {
  std::vector<OpId> way;
  while (true) {
    const OpId maker = function.value(value).op;
    if (maker == graph::kNoOp) return std::nullopt;
    const graph::Op& op = function.op(maker);
    way.push_back(maker);
    if (op.kind == OpKind::convert_) break;
    if (op.kind != OpKind::transpose_ && op.kind != OpKind::reshape_ && op.kind != OpKind::broadcast_in_dim_)
      return std::nullopt;
    value = op.operands[0];
  }
  const ValueId kept = function.op(way.back()).operands[0];
  if (!is_fp8(function, kept) || !is_narrow_operand_type(function.type(kept).element(), wide))
    return std::nullopt;
  return way;
}

// The same elements at the same places, in fp8, in front of `user`.
ValueId made_of_fp8(Function& function, OpId user, const std::vector<OpId>& way) {
  ValueId value = function.op(way.back()).operands[0];
  const ElementType element = function.type(value).element();
  for (auto maker = way.rbegin() + 1; maker != way.rend(); ++maker) {
    const graph::Op& op = function.op(*maker);
    const graph::BlockId block = function.op(user).block;
    const auto& ops = function.block(block).ops;
    const auto at = static_cast<size_t>(std::ranges::find(ops, user) - ops.begin());
    const OpId made = function.insert(block, at, op.kind, {value},
                                      {function.type(op.results[0]).with_element(element)}, op.location);
    function.op(made).attributes = function.op(*maker).attributes;
    value = function.op(made).results[0];
  }
  return value;
}

// Keys and values that decode attention reads in fp8, whoever made them: its kernel turns keys by a product,
// which widens them.
int64_t read_narrow_keys(Function& function, OpId id) {
  int64_t count = 0;
  const ElementType wide = function.type(function.op(id).operands[0]).element();
  if (graph::storage_bytes(wide) != 2) return count;  // fp32 is not multiplied by fp8
  for (const size_t i : {1, 2}) {
    const auto way = way_to_fp8(function, function.op(id).operands[i], wide);
    if (!way) continue;
    const ValueId value = made_of_fp8(function, id, *way);
    function.op(id).operands[i] = value;
    ++count;
  }
  return count;
}

}  // namespace

int64_t read_narrow_operands(Function& function) {
  int64_t count = 0;
  std::vector<OpId> attentions;
  graph::walk(function, function.body(), [&](OpId id) {
    if (takes_few_queries(function, function.op(id))) attentions.push_back(id);
    if (function.op(id).kind != OpKind::dot_general_) return;
    for (size_t i = 0; i < 2; ++i) {
      graph::Op& op = function.op(id);
      const OpId maker = function.value(op.operands[i]).op;
      if (maker == graph::kNoOp || function.op(maker).kind != OpKind::convert_) continue;
      const ValueId kept = function.op(maker).operands[0];
      const ElementType wide = function.type(op.operands[i]).element();
      if (function.type(op.operands[1 - i]).element() != wide || !is_narrow_operand(function, kept, wide))
        continue;
      op.operands[i] = kept;
      ++count;
    }
  });
  for (const OpId id : attentions) count += read_narrow_keys(function, id);
  return count;
}

}  // namespace opentrn::compiler
