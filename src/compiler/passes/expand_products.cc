// Products over long contractions, as sums of products over parts of them: the kernel keeps 128 rows of the
// left operand in SBUF with the whole contraction (lowering/dot_general.cc).
#include <algorithm>
#include <optional>

#include "compiler/lowering/device_type.h"
#include "compiler/passes/expand.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Builder;
using graph::ElementType;
using graph::Function;
using graph::Op;
using graph::OpKind;
using graph::ValueId;

namespace {

// Bytes of one row along the contraction, of which the kernel holds three blocks in a partition: as much as
// fits beside the right operand, and what parts have.
constexpr int64_t kRowBytesMax = 40 * 1024;
constexpr int64_t kPartBytes = 32 * 1024;

int64_t element_bytes(const Function& function, const Op& op) {
  int64_t bytes = 1;
  for (const ValueId operand : op.operands)
    if (const auto dtype = device_dtype(function.type(operand).element()))
      bytes = std::max<int64_t>(bytes, size_bytes(*dtype));
  return bytes;
}

int64_t contracted(const Function& function, const Op& op) {
  int64_t count = 1;
  for (const int64_t d : op.integers(Attr::lhs_contracting_dimensions))
    count *= function.type(op.operands[0]).dim(static_cast<int>(d));
  return count;
}

bool is_long(const Function& function, const Op& op) {
  const auto is_plain = [&](ValueId id) {
    const graph::Type& type = function.type(id);
    return type.is_tensor() && type.is_static() && !type.quantization() && graph::is_float(type.element());
  };
  return op.has(Attr::lhs_contracting_dimensions) && is_plain(op.operands[0]) && is_plain(op.operands[1]) &&
         function.type(op.operands[0]).element() == function.type(op.operands[1]).element() &&
         contracted(function, op) * element_bytes(function, op) > kRowBytesMax;
}

ValueId part_of(Builder& builder, ValueId value, int64_t dimension, int64_t begin, int64_t end) {
  std::vector<int64_t> limits = builder.type(value).dims_vector(), starts(limits.size(), 0);
  starts[static_cast<size_t>(dimension)] = begin;
  limits[static_cast<size_t>(dimension)] = end;
  return builder.slice(value, starts, limits);
}

std::vector<ValueId> sum_of_parts(Builder& builder, const Function& function, const Op& op,
                                  std::span<const ValueId> operands) {
  const graph::Type& left = function.type(op.operands[0]);
  const auto l = op.integers(Attr::lhs_contracting_dimensions),
             r = op.integers(Attr::rhs_contracting_dimensions);
  size_t longest = 0;
  for (size_t i = 1; i < l.size(); ++i)
    if (left.dim(static_cast<int>(l[i])) > left.dim(static_cast<int>(l[longest]))) longest = i;
  const int64_t count = left.dim(static_cast<int>(l[longest])),
                row_bytes = contracted(function, op) / count * element_bytes(function, op),
                parts = (count * row_bytes + kPartBytes - 1) / kPartBytes;
  const int64_t even = std::max<int64_t>(1, count / parts), step = even < 128 ? even : even / 128 * 128;
  const graph::Type type = function.type(op.results[0]);
  std::optional<Expr> sum;
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t end = std::min(count, begin + step);
    const ValueId part = builder.add(OpKind::dot_general_,
                                     {part_of(builder, operands[0], l[longest], begin, end),
                                      part_of(builder, operands[1], r[longest], begin, end)},
                                     op.attributes, {type.with_element(ElementType::kF32)});
    sum = sum ? *sum + Expr(builder, part) : Expr(builder, part);
  }
  return {sum->as(type.element()).id()};
}

constexpr Expansion kExpansions[] = {{OpKind::dot_general_, is_long, sum_of_parts}};

}  // namespace

std::span<const Expansion> product_expansions() { return kExpansions; }

}  // namespace opentrn::compiler
