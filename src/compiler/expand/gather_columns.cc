// Gathers along a dimension that is not the first, as gathers of rows: the table is transposed, and the
// result transposed back. Where the dimension lies the elements of a place are apart in memory, and each
// would be a descriptor.
#include <algorithm>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

namespace {

// Fewer elements are over before the turns are.
constexpr int64_t kElementsMin = 1024;

// Whole slices at one place of one dimension, which is not the first.
bool gathers_columns(const Function& function, const Op& op) {
  const Type &table = function.type(op.operands[0]), &indices = function.type(op.operands[1]),
             &result = function.type(op.results[0]);
  for (const Type* type : {&table, &indices, &result})
    if (!type->is_tensor() || !type->is_static() || type->quantization()) return false;
  if (!graph::is_float(table.element()) || graph::bit_width(table.element()) > 32) return false;
  const Dims map = dims_of(op, Attr::start_index_map);
  if (map.size() != 1 || map[0] == 0 || dims_of(op, Attr::collapsed_slice_dims) != map ||
      !dims_of(op, Attr::operand_batching_dims).empty())
    return false;
  const Dims sizes = dims_of(op, Attr::slice_sizes);
  for (int d = 0; d < table.rank(); ++d)
    if (d != map[0] && sizes[static_cast<size_t>(d)] != table.dim(d)) return false;
  const int64_t vector = op.integer(Attr::index_vector_dim);
  if (vector != indices.rank() && vector != indices.rank() - 1) return false;
  return result.element_count() >= kElementsMin && table.dim(static_cast<int>(map[0])) > 1;
}

std::vector<ValueId> as_rows(Builder& builder, const Function& function, const Op& op,
                             std::span<const ValueId> operands) {
  const Type &table = function.type(op.operands[0]), &result = function.type(op.results[0]);
  const int64_t d = dims_of(op, Attr::start_index_map)[0];
  const Dims offsets = dims_of(op, Attr::offset_dims);
  Dims order{d}, sizes{1};
  for (int64_t i = 0; i < table.rank(); ++i) {
    if (i == d) continue;
    order.push_back(i);
    sizes.push_back(table.dim(static_cast<int>(i)));
  }
  // Dimensions of the result: places first, then those of a row; and where each of them comes from.
  Dims shape, back(static_cast<size_t>(result.rank()), 0), last;
  for (int64_t i = 0; i < result.rank(); ++i)
    if (std::ranges::count(offsets, i) == 0) {
      back[static_cast<size_t>(i)] = static_cast<int64_t>(shape.size());
      shape.push_back(result.dim(static_cast<int>(i)));
    }
  for (const int64_t i : offsets) {
    back[static_cast<size_t>(i)] = static_cast<int64_t>(shape.size());
    last.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(result.dim(static_cast<int>(i)));
  }
  const int64_t vector = op.integer(Attr::index_vector_dim);
  const ValueId rows = builder.add(OpKind::gather_, {builder.transpose(operands[0], order), operands[1]},
                                   {{Attr::offset_dims, last},
                                    {Attr::collapsed_slice_dims, Dims{0}},
                                    {Attr::start_index_map, Dims{0}},
                                    {Attr::index_vector_dim, vector},
                                    {Attr::indices_are_sorted, false},
                                    {Attr::slice_sizes, sizes}},
                                   {result.with_dims(shape)});
  return {builder.transpose(rows, back)};
}

constexpr Expansion kColumnGathers[] = {{OpKind::gather_, gathers_columns, as_rows}};

}  // namespace

std::span<const Expansion> gather_column_expansions() { return kColumnGathers; }

}  // namespace opentrn::compiler
