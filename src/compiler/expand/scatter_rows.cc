#include "compiler/expand/scatter_rows.h"

#include <algorithm>
#include <numeric>

#include "compiler/analysis/graph_names.h"
#include "compiler/rewrite/expression.h"

namespace opentrn::compiler {

namespace {

// Rows in front: [windows, ...], filled up to whole parts.
ValueId filled(Builder& builder, ValueId rows, double fill, int64_t part) {
  const Type type = builder.type(rows);
  const int64_t count = type.dim(0), whole = (count + part - 1) / part * part;
  if (whole == count) return rows;
  Dims none(static_cast<size_t>(type.rank()), 0), high = none;
  high[0] = whole - count;
  const ValueId value = builder.splat(Type::scalar(type.element()), fill);
  return padded(builder, rows, value, none, high, none);
}

// A window at -1 lies outside.
ValueId index_rows(Builder& builder, const Op& op, ValueId indices, int64_t part) {
  const Dims dims = builder.type(indices).dims_vector();
  const int64_t vector = op.integer(Attr::index_vector_dim);
  Dims order;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d)
    if (d != vector) order.push_back(d);
  const bool has_vector = vector < static_cast<int64_t>(dims.size());
  if (has_vector) order.push_back(vector);
  const int64_t components = has_vector ? dims[static_cast<size_t>(vector)] : 1;
  const int64_t windows = builder.type(indices).element_count() / components;
  return filled(builder, builder.reshape(builder.transpose(indices, order), {windows, components}), -1, part);
}

ValueId update_rows(Builder& builder, const Function& function, const Op& op, ValueId updates, int64_t part) {
  Dims order = scatter_dims(function, op);
  const Dims window = dims_of(op, Attr::update_window_dims);
  order.insert(order.end(), window.begin(), window.end());
  const Type type = builder.type(updates);
  Dims dims{type.element_count() / count_of(type, window)};
  for (const int64_t d : window) dims.push_back(type.dim(static_cast<int>(d)));
  return filled(builder, builder.reshape(builder.transpose(updates, order), std::move(dims)), 0, part);
}

ValueId rows_from(Builder& builder, ValueId rows, ValueId start, int64_t part) {
  Dims sizes = builder.type(rows).dims_vector();
  sizes[0] = part;
  std::vector<ValueId> operands{rows, start};
  operands.resize(sizes.size() + 1, builder.splat(Type::scalar(ElementType::kI32), 0));
  return builder.add(OpKind::dynamic_slice_, std::move(operands),
                     {{Attr::slice_sizes, Attribute(std::move(sizes))}});
}

}  // namespace

bool replaces(const Function& function, const Op& op) {
  const graph::Block& body = function.block(op.regions[0]);
  return body.ops.size() == 1 && body.arguments.size() == 2 &&
         function.op(body.ops[0]).operands == std::vector{body.arguments[1]};
}

Dims scatter_dims(const Function& function, const Op& op) {
  const Dims window = dims_of(op, Attr::update_window_dims);
  Dims result;
  for (int64_t d = 0; d < function.type(op.operands[2]).rank(); ++d)
    if (std::ranges::find(window, d) == window.end()) result.push_back(d);
  return result;
}

ScatterRows scatter_rows(Builder& builder, const Function& function, const Op& op, ValueId indices,
                         ValueId updates, int64_t part) {
  return {index_rows(builder, op, indices, part), update_rows(builder, function, op, updates, part), part};
}

std::vector<ValueId> for_scatter_parts(Builder& builder, const ScatterRows& rows,
                                       const std::vector<ValueId>& carried, const ScatterStep& step) {
  const int64_t parts = builder.type(rows.indices).dim(0) / rows.part;
  const Type counter = Type::scalar(ElementType::kI32);
  std::vector<Type> types{counter};
  std::vector<ValueId> start{builder.splat(counter, 0)};
  for (const ValueId value : carried) {
    types.push_back(builder.type(value));
    start.push_back(value);
  }
  const graph::RegionBody condition{
      types, [&](Builder& body, std::span<const ValueId> a) {
        return std::vector{(Expr(body, a[0]) < static_cast<double>(parts)).id()};
      }};
  const graph::RegionBody loop{types, [&](Builder& body, std::span<const ValueId> a) {
                                 const Expr number(body, a[0]);
                                 const ValueId from = (number * static_cast<double>(rows.part)).id();
                                 const ScatterPart part{rows_from(body, rows.indices, from, rows.part),
                                                        rows_from(body, rows.updates, from, rows.part)};
                                 std::vector<ValueId> next{(number + 1.0).id()};
                                 for (const ValueId value : step(body, a.subspan(1), part))
                                   next.push_back(value);
                                 return next;
                               }};
  const OpId made = builder.add_with_regions(OpKind::while_, std::move(start), {}, types, {condition, loop});
  const std::vector<ValueId>& results = builder.function().op(made).results;
  return {results.begin() + 1, results.end()};
}

Builder::Attributes row_scatter_attributes(const Op& op) {
  Dims window(dims_of(op, Attr::update_window_dims).size());
  std::iota(window.begin(), window.end(), int64_t{1});
  Builder::Attributes attributes;
  for (const auto& [attr, value] : op.attributes)
    if (attr != Attr::update_window_dims && attr != Attr::index_vector_dim)
      attributes.emplace_back(attr, value);
  attributes.emplace_back(Attr::update_window_dims, Attribute(std::move(window)));
  attributes.emplace_back(Attr::index_vector_dim, Attribute(int64_t{1}));
  return attributes;
}

}  // namespace opentrn::compiler
