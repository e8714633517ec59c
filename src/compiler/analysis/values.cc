#include "compiler/analysis/values.h"

#include <cmath>
#include <set>

#include "compiler/analysis/graph_names.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

std::optional<double> splat_value(const graph::Literal& literal) {
  const graph::ElementType element = literal.type().element();
  if (!literal.is_splat() || graph::is_complex(element)) return std::nullopt;
  const std::byte* bytes = literal.bytes().data();
  if (graph::is_float(element)) return graph::load_real(element, bytes);
  if (element == graph::ElementType::kUI64)
    return static_cast<double>(static_cast<uint64_t>(graph::load_integer(element, bytes)));
  return static_cast<double>(graph::load_integer(element, bytes));
}

// `inside`: what the blocks around, up to the op's, have made.
void find_captured(const graph::Function& function, graph::BlockId block_id, std::set<ValueId>& inside,
                   std::set<ValueId>& known, std::vector<ValueId>& captured) {
  const graph::Block& block = function.block(block_id);
  inside.insert(block.arguments.begin(), block.arguments.end());
  for (const OpId id : block.ops) {
    const Op& op = function.op(id);
    for (const ValueId operand : op.operands)
      if (!inside.contains(operand) && known.insert(operand).second) captured.push_back(operand);
    for (const graph::BlockId region : op.regions) find_captured(function, region, inside, known, captured);
    inside.insert(op.results.begin(), op.results.end());
  }
}

}  // namespace

const Op* maker(const Function& function, ValueId value) {
  const OpId id = function.value(value).op;
  return id == graph::kNoOp ? nullptr : &function.op(id);
}

bool is_view_op(OpKind kind) {
  switch (kind) {
    case OpKind::broadcast_in_dim_:
    case OpKind::transpose_:
    case OpKind::reshape_:
    case OpKind::slice_:
    case OpKind::reverse_:
    case OpKind::real_:
    case OpKind::imag_:
    case OpKind::optimization_barrier_: return true;
    default: return false;
  }
}

std::optional<double> splat_of(const Function& function, ValueId value) {
  for (;;) {
    const OpId id = function.value(value).op;
    if (id == graph::kNoOp) return std::nullopt;
    const Op& op = function.op(id);
    if (op.kind == OpKind::constant_) return splat_value(op.literal(Attr::value));
    if (!is_view_op(op.kind)) return std::nullopt;
    value = op.operands[function.value(value).index];
  }
}

namespace {

// How many ops back is looked, and at how many elements of a constant.
constexpr int kWholeDepth = 8;
constexpr int64_t kWholeElements = int64_t{1} << 14;

bool is_whole_literal(const graph::Literal& literal) {
  const graph::ElementType element = literal.type().element();
  const int64_t count = literal.type().element_count();
  if (count > kWholeElements) return false;
  for (int64_t i = 0; i < count; ++i) {
    const double number = graph::load_real(element, literal.element(i));
    if (number != std::trunc(number)) return false;
  }
  return true;
}

bool whole(const Function& function, ValueId value, int depth) {
  const graph::Type& type = function.type(value);
  if (!type.is_tensor() || graph::is_complex(type.element())) return false;
  if (!graph::is_float(type.element())) return true;
  if (const auto number = splat_of(function, value)) return *number == std::trunc(*number);
  const Op* op = maker(function, value);
  if (op == nullptr || depth == 0) return false;
  if (op->kind == OpKind::constant_) return is_whole_literal(op->literal(Attr::value));
  const auto operand = [&](size_t i) { return whole(function, op->operands[i], depth - 1); };
  switch (op->kind) {
    case OpKind::iota_:
    case OpKind::floor_:
    case OpKind::ceil_:
    case OpKind::round_nearest_even_:
    case OpKind::round_nearest_afz_:
    case OpKind::sign_: return true;
    case OpKind::add_:
    case OpKind::subtract_:
    case OpKind::multiply_:
    case OpKind::maximum_:
    case OpKind::minimum_:
    case OpKind::remainder_:
    case OpKind::dot_general_: return operand(0) && operand(1);
    case OpKind::select_: return operand(1) && operand(2);
    case OpKind::convert_:
    case OpKind::negate_:
    case OpKind::abs_:
    case OpKind::broadcast_in_dim_:
    case OpKind::transpose_:
    case OpKind::reshape_:
    case OpKind::slice_:
    case OpKind::reverse_: return operand(0);
    case OpKind::reduce_:
      return op->results.size() == 1 && combiner_of(function, *op) && operand(0) && operand(1);
    default: return false;
  }
}

}  // namespace

bool is_whole(const Function& function, ValueId value) { return whole(function, value, kWholeDepth); }

std::optional<OpKind> combiner_of(const Function& function, const Op& reduce) {
  if (reduce.regions.size() != 1) return std::nullopt;
  const graph::Block& body = function.block(reduce.regions[0]);
  if (body.ops.size() != 2 || body.arguments.size() != 2) return std::nullopt;
  const Op& op = function.op(body.ops[0]);
  const Op& end = function.op(body.ops[1]);
  if (op.operands.size() != 2 || end.operands.size() != 1 || end.operands[0] != op.results[0])
    return std::nullopt;
  const bool straight = op.operands[0] == body.arguments[0] && op.operands[1] == body.arguments[1];
  const bool crossed = op.operands[1] == body.arguments[0] && op.operands[0] == body.arguments[1];
  if (!straight && !crossed) return std::nullopt;
  switch (op.kind) {
    case OpKind::add_:
    case OpKind::multiply_:
    case OpKind::maximum_:
    case OpKind::minimum_:
    case OpKind::and_:
    case OpKind::or_: return op.kind;
    default: return std::nullopt;
  }
}

std::vector<ValueId> captured_by(const graph::Function& function, const Op& op) {
  if (op.regions.empty()) return {};
  std::vector<ValueId> captured;
  std::set<ValueId> inside, known;
  for (const graph::BlockId region : op.regions) find_captured(function, region, inside, known, captured);
  return captured;
}

}  // namespace opentrn::compiler
