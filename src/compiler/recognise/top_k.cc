// Sorts of which only the first few elements are read: chlo.top_k, which has a kernel of its own. Frameworks
// write it so where the format of their programs has no such op.
#include <algorithm>
#include <optional>
#include <vector>

#include "base/activity.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/index_pattern.h"
#include "compiler/lowering/takes.h"
#include "compiler/recognise/recognise.h"

namespace opentrn::compiler {

namespace {

// The region is "the first operand's left element is larger", of floats in their total order.
bool sorts_largest_first(const Function& function, const Op& sort) {
  const graph::Block& body = function.block(sort.regions[0]);
  if (body.ops.size() != 2) return false;
  const Op& compare = function.op(body.ops[0]);
  return compare.kind == OpKind::compare_ && compare.operands[0] == body.arguments[0] &&
         compare.operands[1] == body.arguments[1] &&
         compare.enumeration(Attr::comparison_direction, graph::ComparisonDirection::kEq) ==
             graph::ComparisonDirection::kGt &&
         compare.enumeration(Attr::compare_type, graph::ComparisonType::kNone) ==
             graph::ComparisonType::kTotalOrder &&
         function.op(body.ops[1]).operands == std::vector{compare.results[0]};
}

// The second operand is the place along the last dimension.
bool counts_along_rows(const Function& function, ValueId value) {
  const graph::Type& type = function.type(value);
  const auto pattern = index_pattern(function, value);
  if (!pattern || pattern->offset != 0 || type.element() != graph::ElementType::kI32) return false;
  for (int d = 0; d < type.rank(); ++d)
    if (pattern->steps[static_cast<size_t>(d)] != (d + 1 == type.rank() ? 1 : 0) && type.dim(d) != 1)
      return false;
  return true;
}

bool is_candidate(const Function& function, const Op& op) {
  if (op.kind != OpKind::sort_ || op.operands.size() != 2) return false;
  const graph::Type& type = function.type(op.operands[0]);
  if (!type.is_tensor() || !type.is_static() || type.quantization() || type.rank() == 0 ||
      !graph::is_float(type.element()) || graph::bit_width(type.element()) > 32)
    return false;
  const int64_t last = type.rank() - 1, d = op.integer_or(Attr::dimension, -1);
  return (d == last || d == -1) && sorts_largest_first(function, op) &&
         counts_along_rows(function, op.operands[1]);
}

// How many elements of each row a slice that begins with all rows' first ones takes; nullopt for another op.
std::optional<int64_t> taken_by(const Function& function, const Op& op) {
  if (op.kind != OpKind::slice_) return std::nullopt;
  const graph::Type &from = function.type(op.operands[0]), &to = function.type(op.results[0]);
  const auto starts = op.integers(Attr::start_indices), strides = op.integers(Attr::strides);
  for (int d = 0; d < from.rank(); ++d) {
    const auto i = static_cast<size_t>(d);
    if (starts[i] != 0 || strides[i] != 1 || (d + 1 < from.rank() && from.dim(d) != to.dim(d)))
      return std::nullopt;
  }
  return to.dim(to.rank() - 1);
}

struct Found {
  OpId sort;
  std::vector<OpId> slices;
  int64_t k = 0;
};

std::vector<Found> find(const Function& function) {
  std::vector<Found> all;
  graph::walk(function, function.body(), [&](OpId id) {
    if (is_candidate(function, function.op(id))) all.push_back({id, {}, 0});
  });
  for (Found& found : all) {
    const auto& results = function.op(found.sort).results;
    bool fits = true;
    graph::walk(function, function.body(), [&](OpId id) {
      const Op& op = function.op(id);
      if (std::ranges::none_of(op.operands, [&](ValueId v) { return v == results[0] || v == results[1]; }))
        return;
      const auto taken = taken_by(function, op);
      fits = fits && taken.has_value();
      if (!taken) return;
      found.k = std::max(found.k, *taken);
      found.slices.push_back(id);
    });
    if (!fits) found.slices.clear();
  }
  return all;
}

}  // namespace

int64_t recognise_top_k(Function& function) {
  const Activity activity("recognising top_k");
  int64_t made = 0;
  for (const Found& found : find(function)) {
    const Op sort = function.op(found.sort);
    const graph::Type type = function.type(sort.operands[0]);
    const int64_t length = type.dim(type.rank() - 1);
    if (found.slices.empty() || found.k < 1 || found.k > kTopKMost || found.k >= length) continue;
    std::vector<int64_t> dims = type.dims_vector();
    dims.back() = found.k;
    const auto& ops = function.block(sort.block).ops;
    const auto at = static_cast<size_t>(std::ranges::find(ops, found.sort) - ops.begin());
    const OpId top = function.insert(sort.block, at, OpKind::chlo_top_k_, {sort.operands[0]},
                                     {type.with_dims(dims), function.type(sort.operands[1]).with_dims(dims)},
                                     sort.location);
    function.op(top).set(Attr::k, found.k);
    const std::vector<ValueId> results = function.op(top).results;
    for (const OpId id : found.slices) {
      Op& slice = function.op(id);
      slice.operands[0] = results[slice.operands[0] == sort.results[0] ? 0 : 1];
    }
    ++made;
  }
  return made;
}

}  // namespace opentrn::compiler
