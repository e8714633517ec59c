// Scatters whose windows are numbers or whole rows, in the forms that kernels take at once: a table of rows
// at places of one component.
//
// - few in each of many short lines (the gradient of take_along_axis): every place of a line is compared with
//   the line's indices, one after another
// - places of several components (`x.at[i, j].add(rows)`, several dimensions, batches) become places of the
//   table that lists them one after the other, whatever the updates do
// - numbers that replace others (`x.at[i].set(y)`) are rows of one element, which an indirect DMA puts in
//   place (lowering/scatter_rows.cc)
// - extremes of numbers in a short table: every place is compared with every index, where the kernel would
//   take one window after the other (lowering/scatter.cc)
#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/scatter_rows.h"
#include "compiler/rewrite/expression.h"
#include "compiler/rewrite/inline_region.h"

namespace opentrn::compiler {

namespace {

// fp32 keeps places apart up to here.
constexpr int64_t kMostPlaces = int64_t{1} << 24;
// Of a line: places, and indices that are compared with all of them.
constexpr int64_t kLinePlaces = 512, kLineIndices = 8;
// A comparison takes 0.03 ns; a window by itself 0.6 us in a partition, and 3 us through memory.
constexpr int64_t kComparedPlaces = 2048, kComparedWindowsMin = 64;

// What the updates do with what is there: nothing where they replace it.
struct Meeting {
  std::optional<OpKind> combiner;
};
bool has_real_tensors(const Function& function, const Op& op) {
  return op.results.size() == 1 && op.operands.size() == 3 &&
         std::ranges::all_of(op.operands, [&](ValueId id) {
           const Type& type = function.type(id);
           return type.is_tensor() && type.is_static() && !type.quantization() &&
                  !graph::is_complex(type.element()) && type.element_count() > 0;
         });
}
std::optional<Meeting> meeting_of(const Function& function, const Op& op) {
  if (!has_real_tensors(function, op)) return std::nullopt;
  if (replaces(function, op)) return Meeting{std::nullopt};
  const auto combiner = combiner_of(function, op);
  return combiner ? std::optional(Meeting{combiner}) : std::nullopt;
}

bool is_number(const Type& type) {
  return type.element() == ElementType::kF32 || type.element() == ElementType::kI32 ||
         type.element() == ElementType::kUI32;
}

// Dimensions of the operand that places name.
int64_t leading_dims(const Op& op) {
  return std::ssize(dims_of(op, Attr::inserted_window_dims)) +
         std::ssize(dims_of(op, Attr::input_batching_dims));
}

// -- few in each of many lines

bool has_few_in_lines(const Function& function, const Op& op) {
  const auto meeting = meeting_of(function, op);
  if (!meeting || !dims_of(op, Attr::update_window_dims).empty()) return false;
  const Type &table = function.type(op.operands[0]), &updates = function.type(op.operands[2]);
  const Dims line = dims_of(op, Attr::inserted_window_dims);
  if (line.size() != 1 || dims_of(op, Attr::scatter_dims_to_operand_dims) != line || !is_number(table) ||
      dims_of(op, Attr::input_batching_dims).empty())
    return false;
  const int64_t places = table.dim(static_cast<int>(line[0])), lines = table.element_count() / places;
  return places <= kLinePlaces && updates.element_count() <= lines * kLineIndices;
}

std::vector<ValueId> line_by_line(Builder& builder, const Function& function, const Op& op,
                                  std::span<const ValueId> operands) {
  const Type table = builder.type(operands[0]);
  const int64_t line = dims_of(op, Attr::inserted_window_dims)[0];
  const int64_t vector = op.integer(Attr::index_vector_dim);
  const Dims batches = dims_of(op, Attr::input_batching_dims),
             of_indices = dims_of(op, Attr::scatter_indices_batching_dims);
  const Dims shape = builder.type(operands[2]).dims_vector();
  // Dimensions of the updates: those that number what a line gets, then its batches in the table's order.
  Dims order, into, lines;
  int64_t each = 1;
  for (int64_t d = 0; d < table.rank(); ++d) {
    if (d == line) continue;
    const auto at = static_cast<size_t>(std::ranges::find(batches, d) - batches.begin());
    order.push_back(of_indices[at] < vector ? of_indices[at] : of_indices[at] - 1);
    into.push_back(d);
    lines.push_back(table.dim(static_cast<int>(d)));
  }
  Dims front;
  for (int64_t d = 0; d < std::ssize(shape); ++d)
    if (std::ranges::find(order, d) == order.end()) {
      front.push_back(d);
      each *= shape[static_cast<size_t>(d)];
    }
  order.insert(order.begin(), front.begin(), front.end());
  Dims listed = lines;
  listed.insert(listed.begin(), each);
  const auto list = [&](ValueId value) {
    return builder.reshape(builder.transpose(builder.reshape(value, shape), order), listed);
  };
  const ValueId indices = list(builder.convert(operands[1], ElementType::kI32)), updates = list(operands[2]);
  const Expr place(builder, builder.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(line)}},
                                        {table.with_element(ElementType::kI32)}));
  const auto spread = [&](ValueId of, int64_t number) {
    const ValueId one = builder.reshape(part_of(builder, of, 0, number, number + 1), lines);
    return Expr(builder, builder.broadcast_in_dim(one, table.dims_vector(), into));
  };
  const auto combiner = meeting_of(function, op)->combiner;
  Expr total(builder, operands[0]);
  for (int64_t i = 0; i < each; ++i) {
    const Expr update = spread(updates, i);
    total = select(place == spread(indices, i), combiner ? total.binary(*combiner, update) : update, total);
  }
  return {total.id()};
}

// -- places of several components

// A region of several ops, or one that does not read what is there: its windows are taken one by one
// (region_scatter.cc), which knows no batches.
bool has_batches_and_a_region(const Function& function, const Op& op) {
  return has_real_tensors(function, op) && !dims_of(op, Attr::input_batching_dims).empty() &&
         can_inline_region(function, op.regions[0]);
}

bool names_rows(const Function& function, const Op& op) {
  if (!meeting_of(function, op) && !has_batches_and_a_region(function, op)) return false;
  const Type &table = function.type(op.operands[0]), &updates = function.type(op.operands[2]);
  const Dims inserted = dims_of(op, Attr::inserted_window_dims),
             batches = dims_of(op, Attr::input_batching_dims), window = dims_of(op, Attr::update_window_dims);
  const int64_t leading = leading_dims(op);
  if (leading < 2 || leading + std::ssize(window) != table.rank() ||
      std::ssize(dims_of(op, Attr::scatter_dims_to_operand_dims)) + std::ssize(batches) != leading)
    return false;
  int64_t places = 1;
  for (int64_t d = 0; d < leading; ++d) {
    if (std::ranges::find(inserted, d) == inserted.end() && std::ranges::find(batches, d) == batches.end())
      return false;
    places *= table.dim(static_cast<int>(d));
  }
  for (size_t i = 0; i < window.size(); ++i)
    if (updates.dim(static_cast<int>(window[i])) !=
        table.dim(static_cast<int>(leading) + static_cast<int>(i)))
      return false;
  return places <= kMostPlaces;
}

// The place of each row in the flattened operand; -1 outside.
class FlatPlaces {
 public:
  FlatPlaces(Builder& builder, const Function& function, const Op& op, ValueId indices)
      : builder_(builder),
        op_(op),
        table_(function.type(op.operands[0])),
        indices_(indices),
        vector_(op.integer(Attr::index_vector_dim)),
        leading_(leading_dims(op)) {
    shape_ = builder.type(indices).dims_vector();
    if (vector_ < static_cast<int64_t>(shape_.size())) shape_.erase(shape_.begin() + vector_);
  }

  ValueId made() {
    Expr flat(builder_, builder_.splat(Type::tensor(ElementType::kI32, shape_), 0.0));
    Expr inside = flat == 0.0;
    const Dims placed = dims_of(op_, Attr::scatter_dims_to_operand_dims);
    for (size_t j = 0; j < placed.size(); ++j) {
      const Expr at = component(static_cast<int64_t>(j));
      const auto size = static_cast<double>(table_.dim(static_cast<int>(placed[j])));
      inside = inside & (at >= 0.0) & (at < size);
      flat = flat + at * step(placed[j]);
    }
    const Dims batches = dims_of(op_, Attr::input_batching_dims),
               of_indices = dims_of(op_, Attr::scatter_indices_batching_dims);
    for (size_t i = 0; i < batches.size(); ++i) {
      const int64_t d = of_indices[i] < vector_ ? of_indices[i] : of_indices[i] - 1;
      const Expr count(builder_, builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(d)}},
                                              {Type::tensor(ElementType::kI32, shape_)}));
      flat = flat + count * step(batches[i]);
    }
    return select(inside, flat, flat.number(-1)).id();
  }

 private:
  Expr component(int64_t number) {
    const bool has_vector = vector_ < builder_.type(indices_).rank();
    const ValueId one = has_vector ? part_of(builder_, indices_, vector_, number, number + 1) : indices_;
    return Expr(builder_, builder_.reshape(one, shape_)).as(ElementType::kI32);
  }
  double step(int64_t d) const {
    int64_t step = 1;
    for (int64_t i = d + 1; i < leading_; ++i) step *= table_.dim(static_cast<int>(i));
    return static_cast<double>(step);
  }

  Builder& builder_;
  const Op& op_;
  const Type& table_;
  ValueId indices_;
  int64_t vector_, leading_;
  Dims shape_;  // of the windows
};

// As a scatter into a table of two dimensions, whose updates are its rows.
std::vector<ValueId> by_rows(Builder& builder, const Function& function, const Op& op, ValueId into,
                             ValueId places, ValueId updates) {
  const Type table = builder.type(into);
  const int64_t count = builder.type(places).element_count(),
                width = builder.type(updates).element_count() / count;
  const Type scalar = table.with_dims({});
  const auto meeting = meeting_of(function, op);
  const graph::RegionBody body{
      {scalar, scalar}, [&](Builder& inside, std::span<const ValueId> a) {
        if (!meeting) return inline_region(inside, function, op.regions[0], a, {});
        return std::vector{meeting->combiner ? inside.add(*meeting->combiner, {a[0], a[1]}) : a[1]};
      }};
  Builder::Attributes attributes{{Attr::update_window_dims, Attribute(Dims{1})},
                                 {Attr::inserted_window_dims, Attribute(Dims{0})},
                                 {Attr::scatter_dims_to_operand_dims, Attribute(Dims{0})},
                                 {Attr::index_vector_dim, Attribute(int64_t{1})}};
  if (op.boolean_or(Attr::unique_indices, false))
    attributes.emplace_back(Attr::unique_indices, Attribute(true));
  const Dims rows{table.element_count() / width, width};
  const OpId made =
      builder.add_with_regions(OpKind::scatter_,
                               {builder.reshape(into, rows), builder.reshape(places, {count, 1}),
                                builder.reshape(updates, {count, width})},
                               std::move(attributes), {table.with_dims(rows)}, {body});
  return {builder.reshape(builder.function().op(made).results[0], table.dims_vector())};
}

std::vector<ValueId> at_flat_places(Builder& builder, const Function& function, const Op& op,
                                    std::span<const ValueId> operands) {
  // Dimensions that number the windows stand in front, in the order of the indices'.
  Dims order = scatter_dims(function, op);
  const Dims window = dims_of(op, Attr::update_window_dims);
  order.insert(order.end(), window.begin(), window.end());
  return by_rows(builder, function, op, operands[0], FlatPlaces(builder, function, op, operands[1]).made(),
                 builder.transpose(operands[2], order));
}

// -- numbers by themselves

// A list of numbers, and a place of each of the others.
bool is_list(const Function& function, const Op& op) {
  const Type& table = function.type(op.operands[0]);
  return table.rank() == 1 && dims_of(op, Attr::update_window_dims).empty() &&
         dims_of(op, Attr::input_batching_dims).empty() &&
         dims_of(op, Attr::scatter_dims_to_operand_dims) == Dims{0} && table.dim(0) <= kMostPlaces;
}

bool replaces_numbers(const Function& function, const Op& op) {
  const auto meeting = meeting_of(function, op);
  return meeting && !meeting->combiner && is_list(function, op) &&
         function.type(op.operands[2]).element_count() > 1;
}

std::vector<ValueId> as_rows_of_one(Builder& builder, const Function& function, const Op& op,
                                    std::span<const ValueId> operands) {
  return by_rows(builder, function, op, operands[0], builder.convert(operands[1], ElementType::kI32),
                 operands[2]);
}

bool takes_extremes(const Function& function, const Op& op) {
  const auto meeting = meeting_of(function, op);
  const Type& table = function.type(op.operands[0]);
  const bool is_one = table.rank() == 1 || (table.rank() == 2 && table.dim(1) == 1 && leading_dims(op) == 1);
  return meeting && (meeting->combiner == OpKind::maximum_ || meeting->combiner == OpKind::minimum_) &&
         is_number(table) && is_one && dims_of(op, Attr::scatter_dims_to_operand_dims) == Dims{0} &&
         table.element_count() <= kComparedPlaces &&
         function.type(op.operands[2]).element_count() >= kComparedWindowsMin;
}

// The number that no other one is behind.
double least_of(const Type& type, OpKind combiner) {
  const bool least = combiner == OpKind::maximum_;
  if (type.element() == ElementType::kF32)
    return least ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (type.element() == ElementType::kUI32) return least ? 0 : std::numeric_limits<uint32_t>::max();
  return least ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max();
}

std::vector<ValueId> by_comparison(Builder& builder, const Function& function, const Op& op,
                                   std::span<const ValueId> operands) {
  const Type table = builder.type(operands[0]);
  const OpKind combiner = *meeting_of(function, op)->combiner;
  const int64_t places = table.element_count(), count = builder.type(operands[2]).element_count();
  const Dims compared{places, count};
  const auto spread = [&](ValueId list) {
    return Expr(builder, builder.broadcast_in_dim(builder.reshape(list, {count}), compared, {1}));
  };
  const Expr update = spread(operands[2]);
  const Expr place(builder, builder.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{0})}},
                                        {Type::tensor(ElementType::kI32, compared)}));
  const double none = least_of(table, combiner);
  const Expr met =
      select(place == spread(builder.convert(operands[1], ElementType::kI32)), update, update.number(none));
  const Type scalar = table.with_dims({}), list = table.with_dims({places});
  const graph::RegionBody body{{scalar, scalar}, [&](Builder& inside, std::span<const ValueId> a) {
                                 return std::vector{inside.add(combiner, {a[0], a[1]})};
                               }};
  const OpId made = builder.add_with_regions(OpKind::reduce_, {met.id(), builder.splat(scalar, none)},
                                             {{Attr::dimensions, Attribute(Dims{1})}}, {list}, {body});
  const Expr extremes(builder, builder.reshape(builder.function().op(made).results[0], table.dims_vector()));
  return {Expr(builder, operands[0]).binary(combiner, extremes).id()};
}

constexpr Expansion kScatterPlaces[] = {{OpKind::scatter_, has_few_in_lines, line_by_line},
                                        {OpKind::scatter_, names_rows, at_flat_places},
                                        {OpKind::scatter_, replaces_numbers, as_rows_of_one},
                                        {OpKind::scatter_, takes_extremes, by_comparison}};

}  // namespace

std::span<const Expansion> scatter_place_expansions() { return kScatterPlaces; }

}  // namespace opentrn::compiler
