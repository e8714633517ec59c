// A value of no elements is a constant, a reduction of no elements its initial value, and products of no
// factors are zeros: no kernel has to know.
#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

bool is_nothing(const graph::Type& type) {
  return type.is_tensor() && type.is_static() && !type.quantization() && type.element_count() == 0;
}

bool reduces_nothing(const Function& function, const graph::Op& op) {
  if (op.kind != OpKind::reduce_) return false;
  const graph::Type& operand = function.type(op.operands[0]);
  return operand.is_static() && operand.element_count() == 0;
}

bool gives_nothing(const Function& function, const graph::Op& op) {
  const graph::OpDefinition& definition = graph::definition(op.kind);
  const bool stays = op.kind == OpKind::constant_ || op.kind == OpKind::while_ || op.kind == OpKind::if_ ||
                     op.kind == OpKind::case_ || op.kind == OpKind::custom_call_ ||
                     definition.has_side_effect || definition.op_class == graph::OpClass::kCollective ||
                     op.results.empty();
  return !stays && std::all_of(op.results.begin(), op.results.end(),
                               [&](ValueId result) { return is_nothing(function.type(result)); });
}

void replace_by_constants(Function& function, graph::BlockId block, size_t at) {
  const OpId empty = function.block(block).ops[at];
  for (size_t i = 0; i < function.op(empty).results.size(); ++i) {
    const ValueId result = function.op(empty).results[i];
    const graph::Type type = function.type(result);
    const OpId made =
        function.insert(block, at++, OpKind::constant_, {}, {type}, function.op(empty).location);
    function.op(made).set(Attr::value, graph::Literal(type, std::vector<std::byte>{}));
    function.replace_uses(result, function.op(made).results[0]);
  }
}

// What a block is given: an argument of a program, what a loop carries.
void replace_arguments(Function& function, graph::BlockId block) {
  for (const ValueId argument : std::vector(function.block(block).arguments)) {
    const graph::Type type = function.type(argument);
    if (!is_nothing(type)) continue;
    const OpId made = function.insert(block, 0, OpKind::constant_, {}, {type}, {});
    function.op(made).set(Attr::value, graph::Literal(type, std::vector<std::byte>{}));
    function.replace_uses(argument, function.op(made).results[0]);
  }
}

void replace_by_initial_values(Function& function, graph::BlockId block, size_t at) {
  const OpId reduction = function.block(block).ops[at];
  const size_t count = function.op(reduction).results.size();
  for (size_t i = 0; i < count; ++i) {
    const ValueId result = function.op(reduction).results[i];
    const ValueId initial = function.op(reduction).operands[count + i];
    const OpId made = function.insert(block, at++, OpKind::broadcast_in_dim_, {initial},
                                      {function.type(result)}, function.op(reduction).location);
    function.op(made).set(Attr::broadcast_dimensions, std::vector<int64_t>{});
    function.replace_uses(result, function.op(made).results[0]);
  }
}

// Sums of products where one side has no elements: a convolution over nothing but padding.
bool sums_nothing(const Function& function, const graph::Op& op) {
  if (op.kind != OpKind::convolution_ && op.kind != OpKind::dot_general_) return false;
  const graph::Type& result = function.type(op.results[0]);
  return !result.quantization() &&
         (is_nothing(function.type(op.operands[0])) || is_nothing(function.type(op.operands[1])));
}

void replace_by_zeros(Function& function, graph::BlockId block, size_t at) {
  const OpId sum = function.block(block).ops[at];
  const ValueId result = function.op(sum).results[0];
  const graph::Type type = function.type(result), number = graph::Type::scalar(type.element());
  const OpId zero = function.insert(block, at, OpKind::constant_, {}, {number}, function.op(sum).location);
  const auto bytes = static_cast<size_t>(number.byte_count());
  function.op(zero).set(Attr::value, graph::Literal(number, std::vector<std::byte>(bytes)));
  const OpId made = function.insert(block, at + 1, OpKind::broadcast_in_dim_, {function.op(zero).results[0]},
                                    {type}, function.op(sum).location);
  function.op(made).set(Attr::broadcast_dimensions, std::vector<int64_t>{});
  function.replace_uses(result, function.op(made).results[0]);
}

}  // namespace

void replace_empty_values(Function& function) {
  for (size_t index = 0; index < function.block_count(); ++index) {
    const graph::BlockId block{static_cast<uint32_t>(index)};
    replace_arguments(function, block);
    for (size_t at = 0; at < function.block(block).ops.size(); ++at) {
      const graph::Op& op = function.op(function.block(block).ops[at]);
      const size_t count = op.results.size();
      if (gives_nothing(function, op)) {
        replace_by_constants(function, block, at);
      } else if (reduces_nothing(function, op)) {
        replace_by_initial_values(function, block, at);
      } else if (sums_nothing(function, op)) {
        replace_by_zeros(function, block, at++);
      } else {
        continue;
      }
      at += count;  // the op itself, which nobody reads any more
    }
  }
}

}  // namespace opentrn::compiler
