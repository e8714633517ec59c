#include "compiler/canonicalise/unfolded_ops.h"

#include <algorithm>
#include <numeric>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "graph/copy.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

using graph::Attribute;

namespace {

// Of a value of all iterations: a loop takes little memory, and may have been written for that.
constexpr int64_t kElementsMost = int64_t{1} << 22;
// A row of few columns in each partition would be many short instructions.
constexpr int64_t kFewTrips = 32, kManyElements = 1024;

bool is_elementwise(const Op& op) {
  const OpClass op_class = graph::definition(op.kind).op_class;
  return op_class == OpClass::kUnaryElementwise || op_class == OpClass::kBinaryElementwise ||
         op.kind == OpKind::select_ || op.kind == OpKind::convert_ || op.kind == OpKind::clamp_ ||
         op.kind == OpKind::compare_;
}

Dims behind_front(std::span<const int64_t> dims) {
  Dims result{0};
  for (const int64_t d : dims) result.push_back(d + 1);
  return result;
}

Dims one_more(std::span<const int64_t> dims) {
  Dims result;
  for (const int64_t d : dims) result.push_back(d + 1);
  return result;
}

Dims with_front(int64_t front, std::span<const int64_t> dims) {
  Dims result{front};
  result.insert(result.end(), dims.begin(), dims.end());
  return result;
}

Dims order_of(int64_t rank) {
  Dims order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

Builder::Attributes attributes_of(const Op& op) { return {op.attributes.begin(), op.attributes.end()}; }

void set(Builder::Attributes& attributes, Attr attr, Attribute value) {
  for (auto& [name, old] : attributes)
    if (name == attr) {
      old = std::move(value);
      return;
    }
  attributes.emplace_back(attr, std::move(value));
}

}  // namespace

UnfoldedOps::UnfoldedOps(graph::Function& function, OpId loop, int64_t trips, size_t counter)
    : function_(function),
      builder_(scratch_, function, function.op(loop).block),
      body_(function.op(loop).regions[1]),
      trips_(trips),
      counter_(function.block(body_).arguments[counter]) {
  builder_.set_location(function.op(loop).location);
  find_direction();
  const Type index = function.type(counter_).with_dims({trips});
  const ValueId up =
      builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{0})}}, {index});
  const auto end = static_cast<double>(trips - 1);
  set_all(counter_, is_down_ ? builder_.add(OpKind::subtract_, {builder_.splat(index, end), up}) : up);
}

// That of most slices and updates.
void UnfoldedOps::find_direction() {
  int down = 0;
  for (const OpId id : function_.block(body_).ops) {
    const Op& op = function_.op(id);
    if (op.kind != OpKind::dynamic_slice_ && op.kind != OpKind::dynamic_update_slice_) continue;
    const size_t from = op.kind == OpKind::dynamic_slice_ ? 1 : 2;
    for (size_t i = from; i < op.operands.size(); ++i)
      if (const auto line = line_of(op.operands[i])) down -= static_cast<int>(line->first);
  }
  is_down_ = down > 0;
}

bool UnfoldedOps::takes(const Function& function, const Op& op) {
  if (op.results.size() != 1) return false;
  const Type& type = function.type(op.results[0]);
  if (!type.is_tensor() || !type.is_static() || type.quantization() || graph::is_complex(type.element()))
    return false;
  if (is_elementwise(op)) return op.kind != OpKind::reduce_precision_;
  switch (op.kind) {
    case OpKind::constant_:
    case OpKind::iota_:
    case OpKind::broadcast_in_dim_:
    case OpKind::reshape_:
    case OpKind::transpose_:
    case OpKind::slice_:
    case OpKind::concatenate_:
    case OpKind::reverse_:
    case OpKind::dynamic_slice_:
    case OpKind::dynamic_update_slice_: return true;
    case OpKind::dot_general_: return graph::is_float(type.element());
    case OpKind::reduce_: return combiner_of(function, op) && splat_of(function, op.operands[1]);
    case OpKind::custom_call_: return RecurrenceCall::of(op).has_value();
    default: return false;
  }
}

Type UnfoldedOps::all_of(const Type& row) const { return row.with_dims(with_front(trips_, row.dims())); }

bool UnfoldedOps::is_inside(ValueId value) const {
  const graph::Value& made = function_.value(value);
  return made.op == graph::kNoOp ? made.block == body_ : function_.op(made.op).block == body_;
}

std::optional<ValueId> UnfoldedOps::all(ValueId value) {
  const Type row = function_.type(value);
  if (row.element_count() * trips_ > kElementsMost) return std::nullopt;
  const MaybePart found = part(value);
  return found ? std::optional(spread(*found, row)) : std::nullopt;
}

UnfoldedOps::MaybePart UnfoldedOps::part(ValueId value) {
  if (!is_inside(value)) return Part{value, false};
  if (const auto found = parts_.find(value); found != parts_.end()) return found->second;
  // What a carried value gives is known later, perhaps.
  const MaybePart result = made(value);
  if (result) parts_[value] = result;
  return result;
}

UnfoldedOps::MaybePart UnfoldedOps::made(ValueId value) {
  const OpId id = function_.value(value).op;
  if (id == graph::kNoOp) return std::nullopt;
  const Op op = function_.op(id);
  if (op.kind == OpKind::dynamic_update_slice_) return std::nullopt;
  if (op.kind == OpKind::dynamic_slice_) {
    const MaybeValue rows = sliced(op);
    return rows ? MaybePart(Part{*rows, true}) : std::nullopt;
  }
  std::vector<Part> operands;
  bool varies = false;
  for (const ValueId operand : op.operands) {
    const MaybePart found = part(operand);
    if (!found) return std::nullopt;
    operands.push_back(*found);
    varies = varies || found->varies;
  }
  if (!varies) {
    if (!op.regions.empty()) return std::nullopt;
    std::vector<ValueId> same;
    for (const Part& each : operands) same.push_back(each.id);
    const OpId copy = graph::copy_op(function_, op, std::move(same), function_, builder_.block());
    return Part{function_.op(copy).results[0], false};
  }
  if (function_.type(value).element_count() * trips_ > kElementsMost) return std::nullopt;
  const MaybeValue made = varying(op, operands);
  return made ? MaybePart(Part{*made, true}) : std::nullopt;
}

ValueId UnfoldedOps::spread(const Part& part, const Type& row) {
  if (part.varies) return part.id;
  return builder_.broadcast_in_dim(part.id, all_of(row).dims_vector(), one_more(order_of(row.rank())));
}

std::optional<ValueId> UnfoldedOps::varying(const Op& op, const std::vector<Part>& operands) {
  if (is_elementwise(op)) return by_elements(op, operands);
  const Type row = function_.type(op.results[0]);
  const Dims all = all_of(row).dims_vector();
  Builder::Attributes attributes = attributes_of(op);
  const auto rows = [&](size_t i) { return spread(operands[i], function_.type(op.operands[i])); };
  switch (op.kind) {
    case OpKind::broadcast_in_dim_:
      return builder_.broadcast_in_dim(rows(0), all, behind_front(dims_of(op, Attr::broadcast_dimensions)));
    case OpKind::reshape_: return builder_.reshape(rows(0), all);
    case OpKind::transpose_: return builder_.transpose(rows(0), behind_front(dims_of(op, Attr::permutation)));
    case OpKind::slice_:
      set(attributes, Attr::start_indices, Attribute(with_front(0, dims_of(op, Attr::start_indices))));
      set(attributes, Attr::limit_indices, Attribute(with_front(trips_, dims_of(op, Attr::limit_indices))));
      set(attributes, Attr::strides, Attribute(with_front(1, dims_of(op, Attr::strides))));
      return builder_.add(OpKind::slice_, {rows(0)}, std::move(attributes));
    case OpKind::reverse_:
      set(attributes, Attr::dimensions, Attribute(one_more(dims_of(op, Attr::dimensions))));
      return builder_.add(OpKind::reverse_, {rows(0)}, std::move(attributes));
    case OpKind::concatenate_: {
      std::vector<ValueId> parts;
      for (size_t i = 0; i < operands.size(); ++i) parts.push_back(rows(i));
      return builder_.concatenate(std::move(parts), op.integer(Attr::dimension) + 1);
    }
    case OpKind::custom_call_:
      return builder_.add(OpKind::custom_call_, {rows(0), rows(1), rows(2)}, std::move(attributes),
                          {all_of(row)});
    case OpKind::reduce_: return reduced(op, operands);
    case OpKind::dot_general_: return product(op, operands);
    default: return std::nullopt;
  }
}

// A number that stands for all elements does so in every iteration.
std::optional<ValueId> UnfoldedOps::by_elements(const Op& op, const std::vector<Part>& operands) {
  const Type row = function_.type(op.results[0]);
  std::vector<ValueId> all;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Type given = function_.type(op.operands[i]);
    const bool is_number = given.rank() == 0 && row.rank() > 0;
    if (is_number && operands[i].varies)
      all.push_back(builder_.broadcast_in_dim(operands[i].id, all_of(row).dims_vector(), {0}));
    else
      all.push_back(is_number ? operands[i].id : spread(operands[i], given));
  }
  return builder_.add(op.kind, std::move(all), attributes_of(op), {all_of(row)});
}

std::optional<ValueId> UnfoldedOps::reduced(const Op& op, const std::vector<Part>& operands) {
  const auto combiner = *combiner_of(function_, op);
  const double start = *splat_of(function_, op.operands[1]);
  const Type row = function_.type(op.results[0]), scalar = row.with_dims({});
  const graph::RegionBody body{{scalar, scalar}, [&](Builder& inner, std::span<const ValueId> a) {
                                 return std::vector{inner.add(combiner, {a[0], a[1]})};
                               }};
  const OpId made = builder_.add_with_regions(
      OpKind::reduce_, {operands[0].id, builder_.splat(scalar, start)},
      {{Attr::dimensions, Attribute(one_more(dims_of(op, Attr::dimensions)))}}, {all_of(row)}, {body});
  return function_.op(made).results[0];
}

// Iterations are rows of a left operand beside a right one that stays; else they are batches.
std::optional<ValueId> UnfoldedOps::product(const Op& op, const std::vector<Part>& operands) {
  const Type row = function_.type(op.results[0]);
  const Dims left_batches = dims_of(op, Attr::lhs_batching_dimensions),
             right_batches = dims_of(op, Attr::rhs_batching_dimensions),
             left = dims_of(op, Attr::lhs_contracting_dimensions),
             right = dims_of(op, Attr::rhs_contracting_dimensions);
  Builder::Attributes attributes = attributes_of(op);
  if (left_batches.empty() && !operands[1].varies) {
    set(attributes, Attr::lhs_contracting_dimensions, Attribute(one_more(left)));
    return builder_.add(OpKind::dot_general_, {operands[0].id, operands[1].id}, std::move(attributes),
                        {all_of(row)});
  }
  set(attributes, Attr::lhs_batching_dimensions, Attribute(with_front(0, one_more(left_batches))));
  set(attributes, Attr::rhs_batching_dimensions, Attribute(with_front(0, one_more(right_batches))));
  set(attributes, Attr::lhs_contracting_dimensions, Attribute(one_more(left)));
  set(attributes, Attr::rhs_contracting_dimensions, Attribute(one_more(right)));
  return builder_.add(OpKind::dot_general_,
                      {spread(operands[0], function_.type(op.operands[0])),
                       spread(operands[1], function_.type(op.operands[1]))},
                      std::move(attributes), {all_of(row)});
}

// By sums of the counter and numbers.
std::optional<UnfoldedOps::Line> UnfoldedOps::line_of(ValueId index, int depth) const {
  constexpr int kDeep = 8;
  if (index == counter_) return Line{1, 0};
  if (const auto number = splat_of(function_, index)) return Line{0, static_cast<int64_t>(*number)};
  const Op* op = maker(function_, index);
  if (!op || depth > kDeep) return std::nullopt;
  const graph::ElementType element = function_.type(index).element();
  if (op->kind == OpKind::convert_ && !graph::is_float(element) && graph::bit_width(element) >= 32)
    return line_of(op->operands[0], depth + 1);
  // An index that would count from the end where it is below zero, which it never is.
  if (op->kind == OpKind::select_) {
    const auto otherwise = line_of(op->operands[2], depth + 1);
    const Op* compare = maker(function_, op->operands[0]);
    const bool asks = compare && compare->kind == OpKind::compare_ &&
                      compare->operands[0] == op->operands[2] &&
                      splat_of(function_, compare->operands[1]) == 0.0 &&
                      compare->enumeration(Attr::comparison_direction, graph::ComparisonDirection::kEq) ==
                          graph::ComparisonDirection::kLt;
    const bool is_inside =
        otherwise && otherwise->second >= 0 && otherwise->second + otherwise->first * (trips_ - 1) >= 0;
    return asks && is_inside ? otherwise : std::nullopt;
  }
  if (op->kind != OpKind::add_ && op->kind != OpKind::subtract_) return std::nullopt;
  const auto a = line_of(op->operands[0], depth + 1), b = line_of(op->operands[1], depth + 1);
  if (!a || !b) return std::nullopt;
  const int64_t sign = op->kind == OpKind::add_ ? 1 : -1;
  return Line{a->first + sign * b->first, a->second + sign * b->second};
}

// By the number of the row.
std::optional<UnfoldedOps::Line> UnfoldedOps::row_line(ValueId index) const {
  const auto line = line_of(index);
  if (!line || !is_down_) return line;
  return Line{-line->first, line->first * (trips_ - 1) + line->second};
}

std::optional<int64_t> UnfoldedOps::walked(const Type& whole, const Type& row) const {
  std::optional<int64_t> found;
  for (int d = 0; d < whole.rank(); ++d) {
    if (whole.dim(d) == row.dim(d)) continue;
    if (found || row.dim(d) != 1) return std::nullopt;
    found = d;
  }
  return found;
}

ValueId UnfoldedOps::in_front(ValueId value, int64_t dimension) {
  Dims order = order_of(function_.type(value).rank());
  std::rotate(order.begin(), order.begin() + dimension, order.begin() + dimension + 1);
  return dimension == 0 ? value : builder_.transpose(value, order);
}

ValueId UnfoldedOps::reversed(ValueId value, int64_t dimension) {
  return builder_.add(OpKind::reverse_, {value}, {{Attr::dimensions, Attribute(Dims{dimension})}});
}

std::optional<ValueId> UnfoldedOps::sliced(const Op& op) {
  const MaybePart whole = part(op.operands[0]);
  if (!whole || whole->varies) return std::nullopt;
  const Type given = function_.type(op.operands[0]), row = function_.type(op.results[0]);
  const auto dimension = walked(given, row);
  if (!dimension || row.element_count() * trips_ > kElementsMost) return std::nullopt;
  const auto line = row_line(op.operands[1 + static_cast<size_t>(*dimension)]);
  if (!line || (line->first != 1 && line->first != -1)) return std::nullopt;
  const int64_t first = line->first == 1 ? line->second : line->second - trips_ + 1;
  if (first < 0 || first + trips_ > given.dim(static_cast<int>(*dimension))) return std::nullopt;
  Dims start(static_cast<size_t>(given.rank()), 0), limit = given.dims_vector();
  start[static_cast<size_t>(*dimension)] = first;
  limit[static_cast<size_t>(*dimension)] = first + trips_;
  ValueId rows =
      limit == given.dims_vector() && first == 0 ? whole->id : builder_.slice(whole->id, start, limit);
  if (line->first == -1) rows = reversed(rows, *dimension);
  return builder_.reshape(in_front(rows, *dimension), all_of(row).dims_vector());
}

std::optional<ValueId> UnfoldedOps::stack(const Op& update, ValueId stacked) {
  int64_t readers = 0;
  for (const OpId id : function_.block(body_).ops)
    readers += std::ranges::count(function_.op(id).operands, stacked);
  const Type whole = function_.type(stacked), row = function_.type(update.operands[1]);
  const auto dimension = walked(whole, row);
  if (update.operands[0] != stacked || readers != 1 || !dimension ||
      whole.dim(static_cast<int>(*dimension)) != trips_)
    return std::nullopt;
  const auto line = row_line(update.operands[2 + static_cast<size_t>(*dimension)]);
  if (!line || (*line != Line{1, 0} && *line != Line{-1, trips_ - 1})) return std::nullopt;
  auto rows = all(update.operands[1]);
  if (!rows) return std::nullopt;
  if (line->first == -1) rows = reversed(*rows, 0);
  // [iterations, ..., 1, ...], of which the single dimension is where the iterations go.
  Dims dims = whole.dims_vector();
  dims.erase(dims.begin() + *dimension);
  const ValueId flat = builder_.reshape(*rows, with_front(trips_, dims));
  Dims order = order_of(whole.rank());
  std::rotate(order.begin(), order.begin() + 1, order.begin() + 1 + *dimension);
  return *dimension == 0 ? flat : builder_.transpose(flat, order);
}

ValueId UnfoldedOps::recurrence(const RecurrenceCall& call, const Type& row,
                                const std::optional<ValueId>& factor, const std::optional<ValueId>& term,
                                ValueId start) {
  const int64_t elements = row.element_count();
  if (trips_ <= kFewTrips && elements >= kManyElements) return step_by_step(call, row, factor, term, start);
  const Type rows = row.with_dims({elements, trips_});
  const auto by_rows = [&](const std::optional<ValueId>& value, double otherwise) {
    if (!value) return builder_.splat(rows, otherwise);
    return builder_.transpose(builder_.reshape(*value, {trips_, elements}), {1, 0});
  };
  const ValueId made = builder_.add(
      OpKind::custom_call_,
      {by_rows(factor, call.neutral_factor()), by_rows(term, call.neutral_term()),
       builder_.reshape(start, {elements, 1})},
      {{Attr::call_target_name, Attribute(std::string(kRecurrenceTarget))},
       {Attr::backend_config, Attribute(RecurrenceCall{call.first, call.second, is_down_}.words())}},
      {rows});
  return builder_.reshape(builder_.transpose(made, {1, 0}), all_of(row).dims_vector());
}

// Few steps of many elements: each is an op or two over all partitions, and nothing is turned.
ValueId UnfoldedOps::step_by_step(const RecurrenceCall& call, const Type& row, const MaybeValue& factor,
                                  const MaybeValue& term, ValueId start) {
  const Dims none(static_cast<size_t>(row.rank()), 0);
  std::vector<ValueId> after(static_cast<size_t>(trips_));
  ValueId now = start;
  for (int64_t i = 0; i < trips_; ++i) {
    const int64_t at = is_down_ ? trips_ - 1 - i : i;
    const auto met = [&](OpKind kind, const MaybeValue& by) {
      if (!by) return now;
      const ValueId one = builder_.slice(*by, with_front(at, none), with_front(at + 1, row.dims()));
      return builder_.add(kind, {now, builder_.reshape(one, row.dims_vector())});
    };
    now = met(call.first, factor);
    now = met(call.second, term);
    after[static_cast<size_t>(at)] = builder_.reshape(now, with_front(1, row.dims()));
  }
  return builder_.concatenate(std::move(after), 0);
}

ValueId UnfoldedOps::last(ValueId after, const Type& row) {
  const Dims none(static_cast<size_t>(row.rank()), 0);
  const int64_t at = is_down_ ? 0 : trips_ - 1;
  const ValueId one = builder_.slice(after, with_front(at, none), with_front(at + 1, row.dims()));
  return builder_.reshape(one, row.dims_vector());
}

ValueId UnfoldedOps::moved_on(ValueId after, const Type& row, ValueId start) {
  const Dims none(static_cast<size_t>(row.rank()), 0);
  const int64_t from = is_down_ ? 1 : 0;
  const ValueId rest =
      builder_.slice(after, with_front(from, none), with_front(from + trips_ - 1, row.dims()));
  const ValueId first = builder_.reshape(start, with_front(1, row.dims()));
  return builder_.concatenate(is_down_ ? std::vector{rest, first} : std::vector{first, rest}, 0);
}

}  // namespace opentrn::compiler
