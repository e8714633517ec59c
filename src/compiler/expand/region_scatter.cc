// Scatters whose region is more than one op, and products and extremes of complex numbers, which the kernel
// does not take (lowering/scatter.cc): window after window is gathered, combined with its update by ops on
// whole windows, and put back. A window that lies outside is gathered from inside and not put back.
#include <algorithm>
#include <numeric>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/complex_parts.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/scatter_rows.h"
#include "compiler/lowering/takes.h"
#include "compiler/rewrite/inline_region.h"

namespace opentrn::compiler {

namespace {

// What the kernel takes, or takes of each part of complex numbers (expand/complex.cc).
bool is_one_op(const Function& function, const Op& op) {
  const graph::Block& body = function.block(op.regions[0]);
  if (body.ops.size() == 1) return function.op(body.ops[0]).operands[0] == body.arguments[1];
  const auto combiner = combiner_of(function, op);
  return combiner &&
         (*combiner == OpKind::add_ || !graph::is_complex(function.type(op.operands[0]).element()));
}

bool takes_region_scatter(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.operands.size() != 3 || !dims_of(op, Attr::input_batching_dims).empty())
    return false;
  for (const ValueId id : op.operands) {
    const Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || type.element_count() == 0)
      return false;
  }
  return count_of(function.type(op.operands[2]), dims_of(op, Attr::update_window_dims)) <=
             kScatterWindowElementsMax &&
         !is_one_op(function, op) && can_inline_region(function, op.regions[0]);
}

// The window at `indices`, [1, window...].
ValueId gathered(Builder& builder, const Op& op, ValueId from, ValueId indices, const Type& update) {
  const Dims inserted = dims_of(op, Attr::inserted_window_dims);
  Dims offsets(static_cast<size_t>(update.rank() - 1)), sizes;
  std::iota(offsets.begin(), offsets.end(), int64_t{1});
  for (int64_t d = 0, next = 1; d < builder.type(from).rank(); ++d)
    sizes.push_back(std::ranges::find(inserted, d) != inserted.end() ? 1
                                                                     : update.dim(static_cast<int>(next++)));
  return builder.add(OpKind::gather_, {from, indices},
                     {{Attr::offset_dims, Attribute(std::move(offsets))},
                      {Attr::collapsed_slice_dims, Attribute(inserted)},
                      {Attr::start_index_map, Attribute(dims_of(op, Attr::scatter_dims_to_operand_dims))},
                      {Attr::index_vector_dim, Attribute(int64_t{1})},
                      {Attr::slice_sizes, Attribute(std::move(sizes))}});
}

ValueId placed(Builder& builder, const Op& op, ValueId into, ValueId indices, ValueId window) {
  const Type type = builder.type(into), scalar = Type::scalar(type.element());
  const graph::RegionBody body{{scalar, scalar}, [](Builder&, std::span<const ValueId> arguments) {
                                 return std::vector{arguments[1]};
                               }};
  const OpId made = builder.add_with_regions(OpKind::scatter_, {into, indices, window},
                                             row_scatter_attributes(op), {type}, {body});
  return builder.function().op(made).results[0];
}

std::vector<ValueId> windows_one_by_one(Builder& builder, const Function& function, const Op& op,
                                        std::span<const ValueId> operands) {
  const ScatterRows rows = scatter_rows(builder, function, op, operands[1], operands[2], 1);
  const std::vector<ValueId> carried = real_values(builder, operands[0]);
  const auto step = [&](Builder& body, std::span<const ValueId> into, const ScatterPart& part) {
    const Type update = body.type(part.updates);
    std::vector<ValueId> there, results;
    for (const ValueId each : into) there.push_back(gathered(body, op, each, part.indices, update));
    const std::vector<ValueId> arguments{from_real_values(body, there), part.updates};
    const ValueId made =
        inline_region(body, function, op.regions[0], arguments, update.dims_vector()).front();
    const std::vector<ValueId> windows = real_values(body, made);
    for (size_t i = 0; i < into.size(); ++i)
      results.push_back(placed(body, op, into[i], part.indices, windows[i]));
    return results;
  };
  return {from_real_values(builder, for_scatter_parts(builder, rows, carried, step))};
}

constexpr Expansion kRegionScatterExpansions[] = {
    {OpKind::scatter_, takes_region_scatter, windows_one_by_one}};

}  // namespace

std::span<const Expansion> region_scatter_expansions() { return kRegionScatterExpansions; }

}  // namespace opentrn::compiler
