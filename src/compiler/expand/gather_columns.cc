// Gathers along a dimension that is not the first, as gathers of rows: the table is transposed, and the
// result transposed back. Where the dimension lies the elements of a place are apart in memory, and each
// would be a descriptor. Places of several dimensions that follow each other (the positions of an image with
// channels first) are first made places of one.
#include <algorithm>
#include <optional>

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

// The same of several dimensions, one behind the other, in any order of components.
bool gathers_positions(const Function& function, const Op& op) {
  const Type &table = function.type(op.operands[0]), &indices = function.type(op.operands[1]),
             &result = function.type(op.results[0]);
  for (const Type* type : {&table, &indices, &result})
    if (!type->is_tensor() || !type->is_static() || type->quantization() || type->element_count() == 0)
      return false;
  if (!graph::is_float(table.element()) || graph::bit_width(table.element()) > 32) return false;
  Dims map = dims_of(op, Attr::start_index_map);
  std::ranges::sort(map);
  if (map.size() < 2 || map[0] == 0 || dims_of(op, Attr::collapsed_slice_dims) != map ||
      map.back() - map[0] + 1 != std::ssize(map) || !dims_of(op, Attr::operand_batching_dims).empty())
    return false;
  const Dims sizes = dims_of(op, Attr::slice_sizes);
  for (int d = 0; d < table.rank(); ++d)
    if (std::ranges::count(map, d) == 0 && sizes[static_cast<size_t>(d)] != table.dim(d)) return false;
  return op.integer(Attr::index_vector_dim) == indices.rank() - 1 && result.element_count() >= kElementsMin;
}

std::vector<ValueId> at_positions(Builder& builder, const Function& function, const Op& op,
                                  std::span<const ValueId> operands) {
  const Type &table = function.type(op.operands[0]), &result = function.type(op.results[0]);
  const Dims map = dims_of(op, Attr::start_index_map);
  const int64_t first = std::ranges::min(map), count = std::ssize(map), places = count_of(table, map);
  const int64_t vector = builder.type(operands[1]).rank() - 1;
  Dims shape = builder.type(operands[1]).dims_vector();
  shape.back() = 1;
  std::optional<Expr> place;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t d = map[static_cast<size_t>(i)];
    int64_t step = 1;
    for (int64_t behind = d + 1; behind < first + count; ++behind)
      step *= table.dim(static_cast<int>(behind));
    const Expr given = Expr(builder, part_of(builder, operands[1], vector, i, i + 1)).as(ElementType::kI32);
    const auto end = static_cast<double>(table.dim(static_cast<int>(d)) - 1);
    const Expr inside =
        given.binary(OpKind::maximum_, given.number(0)).binary(OpKind::minimum_, given.number(end));
    const Expr part = inside * static_cast<double>(step);
    place = place ? *place + part : part;
  }
  Dims flat = table.dims_vector(), sizes = dims_of(op, Attr::slice_sizes);
  for (Dims* dims : {&flat, &sizes}) dims->erase(dims->begin() + first + 1, dims->begin() + first + count);
  flat[static_cast<size_t>(first)] = places;
  return {builder.add(OpKind::gather_, {builder.reshape(operands[0], flat), place->id()},
                      {{Attr::offset_dims, dims_of(op, Attr::offset_dims)},
                       {Attr::collapsed_slice_dims, Dims{first}},
                       {Attr::start_index_map, Dims{first}},
                       {Attr::index_vector_dim, vector},
                       {Attr::indices_are_sorted, false},
                       {Attr::slice_sizes, sizes}},
                      {result})};
}

constexpr Expansion kColumnGathers[] = {{OpKind::gather_, gathers_columns, as_rows},
                                        {OpKind::gather_, gathers_positions, at_positions}};

}  // namespace

std::span<const Expansion> gather_column_expansions() { return kColumnGathers; }

}  // namespace opentrn::compiler
