// Scatters of more windows than the kernel unrolls (lowering/scatter.cc), as a loop over parts of them: the
// gradient of an embedding over a long batch. Parts follow each other in the order of the windows.
#include <algorithm>
#include <numeric>

#include "compiler/lowering/scatter.h"
#include "compiler/passes/dims.h"
#include "compiler/passes/expand.h"
#include "graph/copy.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Builder;
using graph::ElementType;
using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

constexpr int64_t kPart = kScatterWindowsMax;

// Dimensions of the updates that number the windows.
Dims scatter_dims(const Function& function, const Op& op) {
  const Dims window = dims_of(op, Attr::update_window_dims);
  Dims result;
  for (int64_t d = 0; d < function.type(op.operands[2]).rank(); ++d)
    if (std::ranges::find(window, d) == window.end()) result.push_back(d);
  return result;
}

// The update takes the place of what is there, or one op combines them.
bool is_simple(const Function& function, const Op& op) {
  const graph::Block& body = function.block(op.regions[0]);
  if (body.ops.size() == 1) return function.op(body.ops[0]).operands[0] == body.arguments[1];
  if (body.ops.size() != 2) return false;
  const Op& combiner = function.op(body.ops[0]);
  return combiner.operands.size() == 2 && std::ranges::all_of(combiner.operands, [&](ValueId value) {
           return std::ranges::find(body.arguments, value) != body.arguments.end();
         });
}

bool is_long(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.operands.size() != 3 || !dims_of(op, Attr::input_batching_dims).empty())
    return false;
  for (const ValueId id : op.operands) {
    const Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || graph::is_complex(type.element()) ||
        type.element_count() == 0)
      return false;
  }
  const Type& updates = function.type(op.operands[2]);
  return count_of(updates, scatter_dims(function, op)) > kPart &&
         count_of(updates, dims_of(op, Attr::update_window_dims)) <= kScatterWindowElementsMax &&
         is_simple(function, op);
}

// Rows in front: [windows, ...], filled up to whole parts.
ValueId filled(Builder& builder, ValueId rows, double fill) {
  const Type type = builder.type(rows);
  const int64_t count = type.dim(0), whole = (count + kPart - 1) / kPart * kPart;
  if (whole == count) return rows;
  Dims none(static_cast<size_t>(type.rank()), 0), high = none;
  high[0] = whole - count;
  const ValueId value = builder.splat(Type::scalar(type.element()), fill);
  return padded(builder, rows, value, none, high, none);
}

// [windows, components of an index]. A window at -1 lies outside and is left out.
ValueId index_rows(Builder& builder, const Op& op, ValueId indices) {
  const Dims dims = builder.type(indices).dims_vector();
  const int64_t vector = op.integer(Attr::index_vector_dim);
  Dims order;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d)
    if (d != vector) order.push_back(d);
  const bool has_vector = vector < static_cast<int64_t>(dims.size());
  if (has_vector) order.push_back(vector);
  const int64_t components = has_vector ? dims[static_cast<size_t>(vector)] : 1;
  const int64_t windows = builder.type(indices).element_count() / components;
  return filled(builder, builder.reshape(builder.transpose(indices, order), {windows, components}), -1);
}

// [windows, window...].
ValueId update_rows(Builder& builder, const Function& function, const Op& op, ValueId updates) {
  Dims order = scatter_dims(function, op);
  const Dims window = dims_of(op, Attr::update_window_dims);
  order.insert(order.end(), window.begin(), window.end());
  const Type type = builder.type(updates);
  Dims dims{type.element_count() / count_of(type, window)};
  for (const int64_t d : window) dims.push_back(type.dim(static_cast<int>(d)));
  return filled(builder, builder.reshape(builder.transpose(updates, order), std::move(dims)), 0);
}

ValueId part_of(Builder& builder, ValueId rows, ValueId start) {
  Dims sizes = builder.type(rows).dims_vector();
  sizes[0] = kPart;
  std::vector<ValueId> operands{rows, start};
  operands.resize(sizes.size() + 1, builder.splat(Type::scalar(ElementType::kI32), 0));
  return builder.add(OpKind::dynamic_slice_, std::move(operands),
                     {{Attr::slice_sizes, graph::Attribute(std::move(sizes))}});
}

ValueId scattered(Builder& builder, const Function& function, const Op& op, ValueId into, ValueId indices,
                  ValueId updates) {
  graph::Copier copier(function, builder.function());
  copier.set(op.operands[0], into);
  copier.set(op.operands[1], indices);
  copier.set(op.operands[2], updates);
  const OpId made = copier.copy(op, builder.block());
  Op& scatter = builder.function().op(made);
  // An operand may be given twice, and the copier knows a value by one name.
  scatter.operands = {into, indices, updates};
  Dims window(dims_of(op, Attr::update_window_dims).size());
  std::iota(window.begin(), window.end(), int64_t{1});
  scatter.set(Attr::update_window_dims, graph::Attribute(std::move(window)));
  scatter.set(Attr::index_vector_dim, graph::Attribute(int64_t{1}));
  return scatter.results[0];
}

std::vector<ValueId> by_parts(Builder& builder, const Function& function, const Op& op,
                              std::span<const ValueId> operands) {
  const ValueId indices = index_rows(builder, op, operands[1]),
                updates = update_rows(builder, function, op, operands[2]);
  const int64_t parts = builder.type(indices).dim(0) / kPart;
  const Type counter = Type::scalar(ElementType::kI32);
  const std::vector<Type> types{counter, builder.type(operands[0])};
  const graph::RegionBody condition{
      types, [&](Builder& body, std::span<const ValueId> a) {
        return std::vector{(Expr(body, a[0]) < static_cast<double>(parts)).id()};
      }};
  const graph::RegionBody step{types, [&](Builder& body, std::span<const ValueId> a) {
                                 const Expr number(body, a[0]);
                                 const ValueId start = (number * static_cast<double>(kPart)).id();
                                 const ValueId made =
                                     scattered(body, function, op, a[1], part_of(body, indices, start),
                                               part_of(body, updates, start));
                                 return std::vector{(number + 1.0).id(), made};
                               }};
  const OpId loop = builder.add_with_regions(OpKind::while_, {builder.splat(counter, 0), operands[0]}, {},
                                             types, {condition, step});
  return {builder.function().op(loop).results[1]};
}

constexpr Expansion kExpansions[] = {{OpKind::scatter_, is_long, by_parts}};

}  // namespace

std::span<const Expansion> long_scatter_expansions() { return kExpansions; }

}  // namespace opentrn::compiler
