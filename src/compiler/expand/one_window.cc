// A scatter of one window whose elements lie apart, such as a column of a matrix that a loop replaces: as
// dynamic_update_slice, whose transfer takes all of the window where it is to go. The kernel of scatters
// (lowering/scatter.cc) moves the window through a place behind a copy of everything, element by element.
//
// An update outside changes nothing, where dynamic_update_slice goes to the nearest place inside: what is
// there is put back then.
#include <algorithm>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/scatter_rows.h"
#include "compiler/rewrite/expression.h"

namespace opentrn::compiler {

namespace {

// Elements of a window, and of it side by side, from which on and up to which the kernel takes long.
constexpr int64_t kApartMin = 16, kRunMax = 8;

// Of the window, by dimensions of the operand.
Dims window_of(const Function& function, const Op& op) {
  const Dims inserted = dims_of(op, Attr::inserted_window_dims),
             windows = dims_of(op, Attr::update_window_dims);
  const Type &operand = function.type(op.operands[0]), &update = function.type(op.operands[2]);
  Dims sizes;
  size_t next = 0;
  for (int64_t d = 0; d < operand.rank(); ++d)
    sizes.push_back(std::ranges::count(inserted, d) > 0 ? 1 : update.dim(static_cast<int>(windows[next++])));
  return sizes;
}

bool takes_one_window(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.operands.size() != 3 || !dims_of(op, Attr::input_batching_dims).empty() ||
      !replaces(function, op))
    return false;
  for (const ValueId id : op.operands) {
    const Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || type.element_count() == 0 ||
        graph::is_complex(type.element()))
      return false;
  }
  const Dims indexed = dims_of(op, Attr::scatter_dims_to_operand_dims);
  const Type &operand = function.type(op.operands[0]), &update = function.type(op.operands[2]);
  if (function.type(op.operands[1]).element_count() != std::ssize(indexed) || indexed.empty()) return false;
  const Dims window = window_of(function, op);
  int64_t run = 1;
  for (size_t d = window.size(); d-- > 0;) {
    run *= window[d];
    if (window[d] != operand.dim(static_cast<int>(d))) break;
  }
  return update.element_count() >= kApartMin && run <= kRunMax && run < update.element_count();
}

std::vector<ValueId> as_update(Builder& builder, const Function& function, const Op& op,
                               std::span<const ValueId> operands) {
  const Dims indexed = dims_of(op, Attr::scatter_dims_to_operand_dims), window = window_of(function, op);
  const Type operand = builder.type(operands[0]), indices = builder.type(operands[1]);
  const auto count = static_cast<int64_t>(indexed.size());
  const ValueId list = builder.reshape(operands[1], {count});
  const Type place = Type::scalar(indices.element());
  std::vector<ValueId> starts(window.size(), builder.splat(place, 0));
  std::optional<Expr> is_inside;
  for (int64_t i = 0; i < count; ++i) {
    const auto d = static_cast<size_t>(indexed[static_cast<size_t>(i)]);
    const Expr start(builder, builder.reshape(part_of(builder, list, 0, i, i + 1), {}));
    starts[d] = start.id();
    const auto last = static_cast<double>(operand.dim(static_cast<int>(d)) - window[d]);
    const Expr inside = (start >= 0) & (start <= last);
    is_inside = is_inside ? *is_inside & inside : inside;
  }
  std::vector<ValueId> at{operands[0]};
  at.insert(at.end(), starts.begin(), starts.end());
  const Expr there(builder,
                   builder.add(OpKind::dynamic_slice_, at, {{Attr::slice_sizes, Attribute(window)}}));
  const Expr update(builder, builder.reshape(operands[2], window));
  at.insert(at.begin() + 1, select(*is_inside, update, there).id());
  return {builder.add(OpKind::dynamic_update_slice_, std::move(at))};
}

constexpr Expansion kOneWindowExpansions[] = {{OpKind::scatter_, takes_one_window, as_update}};

}  // namespace

std::span<const Expansion> one_window_expansions() { return kOneWindowExpansions; }

}  // namespace opentrn::compiler
