#include "spmd/reshard.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace opentrn::spmd {

using graph::Attr;
using graph::Attribute;
using graph::BlockId;
using graph::Builder;
using graph::ElementType;
using graph::Literal;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

Type with_dim(const Type& type, int64_t dim, int64_t size) {
  std::vector<int64_t> dims = type.dims_vector();
  dims[static_cast<size_t>(dim)] = size;
  return type.with_dims(std::move(dims));
}

Literal integers(const std::vector<int64_t>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(int32_t));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<int32_t>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
  }
  return {Type::tensor(ElementType::kI32, {static_cast<int64_t>(values.size())}), std::move(bytes)};
}

// A dimension whose last axes become the last axes of another one, and nothing else: source, target, axes.
struct Exchange {
  int64_t from = 0, to = 0;
  Axes axes;
};

std::optional<Exchange> exchange_of(const Cuts& from, const Cuts& to) {
  std::vector<int64_t> shorter, longer;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == to[d]) continue;
    const Axes both = common_prefix(from[d], to[d]);
    if (both == to[d])
      shorter.push_back(static_cast<int64_t>(d));
    else if (both == from[d])
      longer.push_back(static_cast<int64_t>(d));
    else
      return std::nullopt;
  }
  if (shorter.size() != 1 || longer.size() != 1) return std::nullopt;
  const auto source = static_cast<size_t>(shorter[0]), target = static_cast<size_t>(longer[0]);
  Exchange made{shorter[0], longer[0],
                Axes(from[source].begin() + static_cast<ptrdiff_t>(to[source].size()), from[source].end())};
  const Axes taken(to[target].begin() + static_cast<ptrdiff_t>(from[target].size()), to[target].end());
  return taken == made.axes ? std::optional(made) : std::nullopt;
}

}  // namespace

Builder::Attributes Resharder::groups(const Axes& axes) {
  const auto all = grid_.groups(axes);
  graph::IntMatrix matrix{static_cast<int64_t>(all.size()), static_cast<int64_t>(all[0].size()), {}};
  for (const auto& group : all) matrix.values.insert(matrix.values.end(), group.begin(), group.end());
  return {{Attr::replica_groups, Attribute(std::move(matrix))}, {Attr::channel_id, Attribute(++channels_)}};
}

graph::RegionBody Resharder::combining(OpKind combiner, ElementType element) const {
  return {{Type::scalar(element), Type::scalar(element)},
          [combiner](Builder& body, std::span<const ValueId> arguments) {
            return std::vector{body.add(combiner, {arguments[0], arguments[1]})};
          }};
}

ValueId Resharder::index(const Axes& axes) {
  if (const auto found = indices_.find(axes); found != indices_.end()) return found->second;
  std::vector<int64_t> places;
  for (int64_t device = 0; device < grid_.devices(); ++device) places.push_back(grid_.index(axes, device));
  const Literal table = integers(places);
  const BlockId body = function_.body();
  size_t at = 0;
  const auto add = [&](OpKind kind, std::vector<ValueId> operands, Type type) {
    const OpId made = function_.insert(body, at++, kind, std::move(operands), {std::move(type)});
    return made;
  };
  const OpId device = add(OpKind::partition_id_, {}, Type::scalar(ElementType::kUI32));
  const OpId constant = add(OpKind::constant_, {}, table.type());
  function_.op(constant).set(Attr::value, Attribute(table));
  const OpId found =
      add(OpKind::dynamic_slice_, {function_.op(constant).results[0], function_.op(device).results[0]},
          Type::tensor(ElementType::kI32, {1}));
  function_.op(found).set(Attr::slice_sizes, Attribute(std::vector<int64_t>{1}));
  const OpId scalar =
      add(OpKind::reshape_, {function_.op(found).results[0]}, Type::scalar(ElementType::kI32));
  return indices_[axes] = function_.op(scalar).results[0];
}

ValueId Resharder::gathered(ValueId value, const Axes& axes, int64_t dim, BlockId block) {
  const Type& type = function_.type(value);
  Builder::Attributes attributes = groups(axes);
  attributes.emplace_back(Attr::all_gather_dim, Attribute(dim));
  attributes.emplace_back(Attr::use_global_device_ids, Attribute(true));
  return builder(block).add(OpKind::all_gather_, {value}, std::move(attributes),
                            {with_dim(type, dim, type.dim(static_cast<int>(dim)) * grid_.count(axes))});
}

ValueId Resharder::padded(ValueId value, int64_t dim, int64_t size, BlockId block) {
  const Type type = function_.type(value);
  Builder made = builder(block);
  std::vector<int64_t> none(static_cast<size_t>(type.rank())), high = none;
  high[static_cast<size_t>(dim)] = size - type.dim(static_cast<int>(dim));
  return made.add(OpKind::pad_, {value, made.splat(Type::scalar(type.element()), 0)},
                  {{Attr::edge_padding_low, Attribute(none)},
                   {Attr::edge_padding_high, Attribute(high)},
                   {Attr::interior_padding, Attribute(none)}});
}

ValueId Resharder::shared_out(ValueId value, const Axes& axes, int64_t dim, BlockId block) {
  const int64_t whole = function_.type(value).dim(static_cast<int>(dim));
  const int64_t size = grid_.local_size(whole, axes);
  if (!grid_.divides(axes, whole)) value = padded(value, dim, size * grid_.count(axes), block);
  const Type type = function_.type(value);
  const ValueId place = index(axes);
  Builder made = builder(block);
  const ValueId zero = made.splat(Type::scalar(ElementType::kI32), 0);
  const ValueId step = made.splat(Type::scalar(ElementType::kI32), static_cast<double>(size));
  std::vector<ValueId> operands{value};
  operands.resize(1 + static_cast<size_t>(type.rank()), zero);
  operands[1 + static_cast<size_t>(dim)] = made.add(OpKind::multiply_, {place, step});
  return made.add(OpKind::dynamic_slice_, std::move(operands),
                  {{Attr::slice_sizes, Attribute(with_dim(type, dim, size).dims_vector())}});
}

ValueId Resharder::reshard(ValueId value, const Type& whole, const Cuts& from, const Cuts& to,
                           BlockId block) {
  if (from == to) return value;
  const auto is_even = [&](size_t d) {
    const int64_t size = whole.dim(static_cast<int>(d));
    return grid_.divides(from[d], size) && grid_.divides(to[d], size);
  };
  if (const auto exchange = exchange_of(from, to); exchange && is_even(static_cast<size_t>(exchange->from)) &&
                                                   is_even(static_cast<size_t>(exchange->to))) {
    Builder::Attributes attributes = groups(exchange->axes);
    const int64_t count = grid_.count(exchange->axes);
    attributes.emplace_back(Attr::split_dimension, Attribute(exchange->to));
    attributes.emplace_back(Attr::concat_dimension, Attribute(exchange->from));
    attributes.emplace_back(Attr::split_count, Attribute(count));
    return builder(block).add(OpKind::all_to_all_, {value}, std::move(attributes));
  }
  // Parts of other sizes do not begin at the same elements: such a dimension is gathered wholly.
  Cuts kept(from.size());
  for (size_t d = 0; d < from.size(); ++d)
    if (from[d] == to[d] || is_even(d)) kept[d] = common_prefix(from[d], to[d]);
  const auto rest = [&](const Cuts& cuts, size_t d) {
    return Axes(cuts[d].begin() + static_cast<ptrdiff_t>(kept[d].size()), cuts[d].end());
  };
  for (size_t d = 0; d < from.size(); ++d) {
    const Axes axes = rest(from, d);
    if (axes.empty()) continue;
    const auto dim = static_cast<int64_t>(d);
    value = gathered(value, axes, dim, block);
    const int64_t wanted = grid_.local_size(whole.dim(static_cast<int>(d)), kept[d]);
    const Type type = function_.type(value);
    if (type.dim(static_cast<int>(d)) == wanted) continue;
    std::vector<int64_t> limits = with_dim(type, dim, wanted).dims_vector();
    value = builder(block).slice(value, std::vector<int64_t>(limits.size()), limits);
  }
  for (size_t d = 0; d < from.size(); ++d)
    if (const Axes axes = rest(to, d); !axes.empty())
      value = shared_out(value, axes, static_cast<int64_t>(d), block);
  return value;
}

ValueId Resharder::all_reduce(ValueId value, const Axes& axes, OpKind combiner, BlockId block) {
  const Type type = function_.type(value);
  Builder::Attributes attributes = groups(axes);
  attributes.emplace_back(Attr::use_global_device_ids, Attribute(true));
  Builder made = builder(block);
  const OpId reduced = made.add_with_regions(OpKind::all_reduce_, {value}, std::move(attributes), {type},
                                             {combining(combiner, type.element())});
  return function_.op(reduced).results[0];
}

ValueId Resharder::first_term(ValueId value, const Axes& axes, BlockId block) {
  const Type type = function_.type(value);
  const ValueId place = index(axes);
  Builder made = builder(block);
  const ValueId is_first =
      made.compare(graph::ComparisonDirection::kEq, place, made.splat(Type::scalar(ElementType::kI32), 0));
  return made.add(OpKind::select_, {is_first, value, made.splat(type, 0)});
}

ValueId Resharder::in_place(ValueId value, const Axes& axes, int64_t dim, BlockId block) {
  const Type type = function_.type(value);
  const int64_t size = type.dim(static_cast<int>(dim));
  const ValueId place = index(axes);
  Builder made = builder(block);
  const ValueId zero = made.splat(Type::scalar(ElementType::kI32), 0);
  const ValueId step = made.splat(Type::scalar(ElementType::kI32), static_cast<double>(size));
  std::vector<ValueId> operands{made.splat(with_dim(type, dim, size * grid_.count(axes)), 0), value};
  operands.resize(2 + static_cast<size_t>(type.rank()), zero);
  operands[2 + static_cast<size_t>(dim)] = made.add(OpKind::multiply_, {place, step});
  return made.add(OpKind::dynamic_update_slice_, std::move(operands));
}

ValueId Resharder::reduce_scatter(ValueId value, const Axes& axes, OpKind combiner, int64_t dim,
                                  BlockId block) {
  const Type type = function_.type(value);
  Builder::Attributes attributes = groups(axes);
  attributes.emplace_back(Attr::use_global_device_ids, Attribute(true));
  attributes.emplace_back(Attr::scatter_dimension, Attribute(dim));
  Builder made = builder(block);
  const OpId reduced =
      made.add_with_regions(OpKind::reduce_scatter_, {value}, std::move(attributes),
                            {with_dim(type, dim, type.dim(static_cast<int>(dim)) / grid_.count(axes))},
                            {combining(combiner, type.element())});
  return function_.op(reduced).results[0];
}

ValueId Resharder::without_padding(ValueId value, const Type& whole, const Cuts& cuts, OpKind combiner,
                                   BlockId block) {
  for (size_t d = 0; d < cuts.size(); ++d) {
    const int64_t size = whole.dim(static_cast<int>(d));
    if (grid_.divides(cuts[d], size)) continue;
    const Type type = function_.type(value);
    const Type places = type.with_element(ElementType::kI32);
    const ValueId part = index(cuts[d]);
    Builder made = builder(block);
    const ValueId begin =
        made.add(OpKind::multiply_, {part, made.splat(Type::scalar(ElementType::kI32),
                                                      static_cast<double>(type.dim(static_cast<int>(d))))});
    const ValueId place = made.add(
        OpKind::add_,
        {made.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(static_cast<int64_t>(d))}}, {places}),
         made.broadcast_in_dim(begin, type.dims_vector(), {})});
    const ValueId is_inside =
        made.compare(graph::ComparisonDirection::kLt, place, made.splat(places, static_cast<double>(size)));
    const Literal neutral = graph::neutral_element(combiner, type.element());
    const ValueId outside = made.broadcast_in_dim(made.constant(neutral), type.dims_vector(), {});
    value = made.add(OpKind::select_, {is_inside, value, outside});
  }
  return value;
}

}  // namespace opentrn::spmd
