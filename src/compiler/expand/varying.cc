#include "compiler/expand/varying.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/index_pattern.h"
#include "compiler/lowering/takes.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

int64_t elements_before(std::span<const int64_t> dims, size_t count) {
  return std::accumulate(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count), int64_t{1},
                         std::multiplies<>());
}

std::optional<Seen> through_reshape(const Function& function, const Op& op, Dims asked) {
  const auto from = function.type(op.operands[0]).dims(), to = function.type(op.results[0]).dims();
  for (int64_t& k : asked) {
    const auto at = static_cast<size_t>(k);
    const int64_t outer = elements_before(to, at), size = to[at];
    k = -1;
    for (size_t d = 0; d < from.size() && size > 1; ++d)
      if (elements_before(from, d) == outer && from[d] == size) k = static_cast<int64_t>(d);
    if (k < 0 && size > 1) return std::nullopt;
  }
  return Seen{op.operands[0], std::move(asked)};
}

// Slices that keep the dimensions asked for whole; of concatenations, the part that they lie in.
std::optional<Seen> through_slice(const Function& function, const Op& op, const Dims& asked) {
  ValueId value = op.operands[0];
  for (const int64_t k : asked)
    if (function.type(value).dim(static_cast<int>(k)) !=
        function.type(op.results[0]).dim(static_cast<int>(k)))
      return std::nullopt;
  const graph::OpId id = function.value(value).op;
  if (id != graph::kNoOp && function.op(id).kind == OpKind::concatenate_) {
    const Op& whole = function.op(id);
    const int64_t d = whole.integer(Attr::dimension);
    const auto first = op.integers(Attr::start_indices)[static_cast<size_t>(d)],
               limit = op.integers(Attr::limit_indices)[static_cast<size_t>(d)];
    int64_t begin = 0;
    for (const ValueId part : whole.operands) {
      const int64_t end = begin + function.type(part).dim(static_cast<int>(d));
      if (first >= begin && limit <= end && std::ranges::find(asked, d) == asked.end()) value = part;
      begin = end;
    }
  }
  return Seen{value, asked};
}

}  // namespace

std::optional<Seen> seen_through(const Function& function, const Op& op, Dims asked) {
  switch (op.kind) {
    case OpKind::broadcast_in_dim_: {
      const Dims to = dims_of(op, Attr::broadcast_dimensions);
      for (int64_t& k : asked) {
        const auto from = std::ranges::find(to, k);
        k = from == to.end() ? -1 : from - to.begin();
      }
      return Seen{op.operands[0], std::move(asked)};
    }
    case OpKind::transpose_: {
      const Dims order = dims_of(op, Attr::permutation);
      for (int64_t& k : asked) k = order[static_cast<size_t>(k)];
      return Seen{op.operands[0], std::move(asked)};
    }
    case OpKind::reshape_: return through_reshape(function, op, std::move(asked));
    case OpKind::slice_: return through_slice(function, op, asked);
    default: return std::nullopt;
  }
}

bool computes_each(const Function& function, const Op& op) {
  return op.regions.empty() && op.results.size() == 1 && op.kind != OpKind::iota_ &&
         has_elementwise(function, op);
}

bool differs_along(const graph::Literal& literal, std::initializer_list<int64_t> dims) {
  if (literal.is_splat()) return false;
  const auto counts = literal.type().dims();
  const auto strides = graph::row_major_strides(counts);
  const auto size = static_cast<size_t>(graph::storage_bytes(literal.type().element()));
  for (int64_t at = 0; at < literal.type().element_count(); ++at) {
    int64_t before = at;
    bool has_one = true;
    for (const int64_t d : dims) {
      const auto k = static_cast<size_t>(d);
      has_one &= at / strides[k] % counts[k] > 0;
      before -= strides[k];
    }
    if (has_one && std::memcmp(literal.element(at), literal.element(before), size) != 0) return true;
  }
  return false;
}

bool varies(const Function& function, ValueId value, int64_t k) {
  const Type& type = function.type(value);
  if (k < 0 || type.dim(static_cast<int>(k)) == 1) return false;
  if (const auto pattern = index_pattern(function, value)) return pattern->steps[static_cast<size_t>(k)] != 0;
  const graph::OpId id = function.value(value).op;
  if (id == graph::kNoOp) return true;
  const Op& op = function.op(id);
  if (op.kind == OpKind::constant_) return differs_along(op.literal(Attr::value), {k});
  if (const auto seen = seen_through(function, op, {k})) return varies(function, seen->value, seen->dims[0]);
  if (!computes_each(function, op)) return true;
  return std::ranges::any_of(op.operands, [&](ValueId operand) {
    return function.type(operand).rank() == type.rank() && varies(function, operand, k);
  });
}

}  // namespace opentrn::compiler
