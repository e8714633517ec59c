// Gathers of single elements at places of which most follow from where the element goes.
//
// Frameworks write takes along one dimension with a coordinate for every dimension of the table (PyTorch's
// gather, advanced indexing, x[arange(n)[:, None], i]), and single elements cost a descriptor each:
//  - a coordinate that counts along a dimension of the result, which no other coordinate looks at, is a
//    dimension taken whole; one that others look at too is a dimension of batches;
//  - coordinates that look at different dimensions of the result are taken one after another (nearest
//    neighbours of an image: its rows, then their columns);
//  - what depends on i - j alone (relative positions) is taken once for each difference, [i, difference];
//    each row of that, moved by its number, is what was asked for, and the move is another way to see memory.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/index_pattern.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/varying.h"
#include "compiler/lowering/takes.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

// Fewer elements are over before anything else is; longer runs of memory are descriptors that pay.
constexpr int64_t kGatheredMin = 1024, kGatherRunMax = 16;
constexpr int64_t kKnownPlacesMax = 1 << 24;

bool contains(const Dims& list, int64_t d) { return std::ranges::find(list, d) != list.end(); }
bool is_static(const Type& type) { return type.is_tensor() && type.is_static() && !type.quantization(); }

// Whether the ops that make the value say that an element [i, j] is that of [i + 1, j + 1].
bool is_by_difference(const Function& function, ValueId value, int64_t i, int64_t j) {
  const bool by_row = varies(function, value, i), by_column = varies(function, value, j);
  if (!by_row || !by_column) return by_row == by_column;
  if (const auto pattern = index_pattern(function, value))
    return pattern->steps[static_cast<size_t>(i)] == -pattern->steps[static_cast<size_t>(j)];
  const graph::OpId id = function.value(value).op;
  if (id == graph::kNoOp) return false;
  const Op& op = function.op(id);
  if (op.kind == OpKind::constant_) return !differs_along(op.literal(Attr::value), {i, j});
  if (const auto seen = seen_through(function, op, {i, j}))
    return is_by_difference(function, seen->value, seen->dims[0], seen->dims[1]);
  if (!computes_each(function, op)) return false;
  return std::ranges::all_of(op.operands, [&](ValueId operand) {
    return function.type(operand).rank() != function.type(value).rank() ||
           is_by_difference(function, operand, i, j);
  });
}

// One coordinate of all places, by the dimensions of the indices without that of the vector.
struct Coordinate {
  Dims steps;  // along each, where the coordinate counts; empty where it does not
  int64_t first = 0;
  Dims looks_at;                 // dimensions of the indices
  Dims values;                   // row-major, where they are known
  std::optional<ValueId> value;  // this coordinate alone, with a dimension for the vector
};

// A gather of single places of some dimensions, whole ones of the others.
class Places {
 public:
  static std::optional<Places> of(const Function& function, const Op& op) {
    for (const ValueId value : {op.operands[0], op.operands[1], op.results[0]})
      if (!is_static(function.type(value))) return std::nullopt;
    Places made(function, op);
    if (!made.is_plain()) return std::nullopt;
    for (size_t c = 0; c < made.map.size(); ++c) made.coordinates_.push_back(made.found(c));
    return made;
  }

  const Type& table() const { return function_.type(op_.operands[0]); }
  const Type& result() const { return function_.type(op_.results[0]); }
  // Dimensions of the table that are whole, in order: with the results' dimensions that they are.
  Dims whole() const {
    Dims dims;
    for (int64_t d = 0; d < table().rank(); ++d)
      if (!contains(map, d) && !contains(batching, d)) dims.push_back(d);
    return dims;
  }
  // Of the result, for each dimension of the indices.
  Dims batch() const {
    Dims dims;
    for (int64_t d = 0; d < result().rank(); ++d)
      if (!contains(offsets, d)) dims.push_back(d);
    return dims;
  }

  const std::vector<Coordinate>& coordinates() const { return coordinates_; }
  const Coordinate& coordinate(size_t c) const { return coordinates_[c]; }

  // These coordinates alone, without the dimensions `dropped`, on which they do not depend:
  // [kept dimensions, coordinates].
  ValueId without(Builder& builder, ValueId indices, const std::vector<size_t>& chosen,
                  const Dims& dropped) const {
    Dims shape;
    for (size_t k = 0; k < counts.size(); ++k)
      if (!contains(dropped, static_cast<int64_t>(k))) shape.push_back(counts[k]);
    shape.push_back(1);
    std::vector<ValueId> parts;
    for (const size_t c : chosen) {
      const Coordinate& known = coordinate(c);
      parts.push_back(known.values.empty() ? sliced(builder, indices, c, dropped, shape)
                                           : constant(builder, known.values, dropped, shape));
    }
    return parts.size() == 1 ? parts[0] : builder.concatenate(parts, static_cast<int64_t>(shape.size()) - 1);
  }

  int64_t dim_of_indices(int64_t k) const { return k < vector ? k : k + 1; }

  Dims map, sizes, offsets, batching, index_batching;
  int64_t vector = 0;
  Dims counts;  // of the indices, without their vector's dimension

 private:
  Places(const Function& function, const Op& op)
      : map(dims_of(op, Attr::start_index_map)),
        sizes(dims_of(op, Attr::slice_sizes)),
        offsets(dims_of(op, Attr::offset_dims)),
        batching(dims_of(op, Attr::operand_batching_dims)),
        index_batching(dims_of(op, Attr::start_indices_batching_dims)),
        vector(op.integer(Attr::index_vector_dim)),
        function_(function),
        op_(op) {
    const Type& indices = function.type(op.operands[1]);
    for (int64_t d = 0; d < indices.rank(); ++d)
      if (d != vector) counts.push_back(indices.dim(static_cast<int>(d)));
  }

  bool is_plain() const {
    Dims collapsed = dims_of(op_, Attr::collapsed_slice_dims), mapped = map;
    std::ranges::sort(collapsed);
    std::ranges::sort(mapped);
    if (collapsed != mapped || map.empty() || result().element_count() < kGatheredMin) return false;
    if (graph::is_float(function_.type(op_.operands[1]).element())) return false;
    for (int64_t d = 0; d < table().rank(); ++d)
      if (!contains(map, d) && !contains(batching, d) &&
          sizes[static_cast<size_t>(d)] != table().dim(static_cast<int>(d)))
        return false;
    return true;
  }

  Coordinate found(size_t c) const {
    const ValueId indices = op_.operands[1];
    Coordinate made;
    const graph::OpId id = function_.value(indices).op;
    const Op* maker = id == graph::kNoOp ? nullptr : &function_.op(id);
    if (maker != nullptr && maker->kind == OpKind::constant_ &&
        function_.type(indices).element_count() <= kKnownPlacesMax)
      return of_list(listed(*maker, c));
    ValueId value = indices;
    if (maker != nullptr && maker->kind == OpKind::concatenate_ &&
        maker->integer(Attr::dimension) == vector && maker->operands.size() == map.size())
      value = maker->operands[c];
    else if (map.size() > 1) {
      for (size_t k = 0; k < counts.size(); ++k) made.looks_at.push_back(static_cast<int64_t>(k));
      return made;
    }
    made.value = value;
    const auto pattern = index_pattern(function_, value);
    if (pattern) made.first = pattern->offset;
    for (size_t k = 0; k < counts.size(); ++k) {
      const int64_t d = dim_of_indices(static_cast<int64_t>(k));
      if (varies(function_, value, d)) made.looks_at.push_back(static_cast<int64_t>(k));
      if (pattern) made.steps.push_back(counts[k] == 1 ? 0 : pattern->steps[static_cast<size_t>(d)]);
    }
    return made;
  }

  std::vector<int64_t> listed(const Op& constant, size_t c) const {
    const graph::Literal& literal = constant.literal(Attr::value);
    const graph::ElementType element = literal.type().element();
    int64_t inner = 1;  // elements behind the vector's dimension
    for (size_t k = static_cast<size_t>(vector); k < counts.size(); ++k) inner *= counts[k];
    const auto width = static_cast<int64_t>(map.size()), count = literal.type().element_count();
    const int64_t last = table().dim(static_cast<int>(map[c])) - 1;
    std::vector<int64_t> values;
    values.reserve(static_cast<size_t>(count / width));
    for (int64_t begin = static_cast<int64_t>(c) * inner; begin < count; begin += width * inner)
      for (int64_t i = begin; i < begin + inner; ++i)
        values.push_back(std::clamp<int64_t>(
            static_cast<int64_t>(graph::load_integer(element, literal.element(i))), 0, last));
    return values;
  }

  Coordinate of_list(std::vector<int64_t> values) const {
    Coordinate made;
    made.first = values[0];
    const size_t rank = counts.size();
    Dims strides(rank, 1), place(rank, 0);
    for (size_t k = rank; k-- > 1;) strides[k - 1] = strides[k] * counts[k];
    for (size_t k = 0; k < rank; ++k)
      made.steps.push_back(counts[k] == 1 ? 0 : values[static_cast<size_t>(strides[k])] - values[0]);
    std::vector<bool> differs(rank, false);
    bool counts_up = true;
    int64_t expected = made.first;
    for (size_t i = 0; i < values.size(); ++i) {
      counts_up &= expected == values[i];
      for (size_t k = 0; k < rank; ++k)
        if (!differs[k] && place[k] > 0 && values[i] != values[i - static_cast<size_t>(strides[k])])
          differs[k] = true;
      for (size_t k = rank; k-- > 0;) {
        expected += made.steps[k];
        if (++place[k] < counts[k]) break;
        expected -= counts[k] * made.steps[k];
        place[k] = 0;
      }
    }
    if (!counts_up) made.steps.clear();
    for (size_t k = 0; k < rank; ++k)
      if (differs[k]) made.looks_at.push_back(static_cast<int64_t>(k));
    made.values = std::move(values);
    return made;
  }

  ValueId sliced(Builder& builder, ValueId indices, size_t c, const Dims& dropped, const Dims& shape) const {
    const auto all = builder.type(indices).dims();
    Dims starts(all.size(), 0), limits(all.begin(), all.end());
    if (vector < static_cast<int64_t>(all.size())) {
      starts[static_cast<size_t>(vector)] = static_cast<int64_t>(c);
      limits[static_cast<size_t>(vector)] = static_cast<int64_t>(c) + 1;
    }
    for (const int64_t k : dropped) limits[static_cast<size_t>(dim_of_indices(k))] = 1;
    return builder.reshape(builder.slice(indices, starts, limits), shape);
  }

  ValueId constant(Builder& builder, const Dims& values, const Dims& dropped, const Dims& shape) const {
    std::vector<int32_t> kept;
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i);
      bool is_first = true;
      for (size_t k = counts.size(); k-- > 0; rest /= counts[k])
        is_first &= rest % counts[k] == 0 || !contains(dropped, static_cast<int64_t>(k));
      if (is_first) kept.push_back(static_cast<int32_t>(values[i]));
    }
    std::vector<std::byte> bytes(kept.size() * sizeof(int32_t));
    std::memcpy(bytes.data(), kept.data(), bytes.size());
    return builder.constant(graph::Literal(Type::tensor(graph::ElementType::kI32, shape), std::move(bytes)));
  }

  const Function& function_;
  const Op& op_;
  std::vector<Coordinate> coordinates_;
};

ValueId gathered(Builder& builder, ValueId table, ValueId indices, const Dims& map, const Dims& shape,
                 const Dims& batching = {}, const Dims& index_batching = {}) {
  const Type type = builder.type(table);
  const int64_t index_rank = builder.type(indices).rank() - 1;
  Dims offsets, sizes = type.dims_vector(), collapsed = map;
  std::ranges::sort(collapsed);
  for (const Dims* dims : {&map, &batching})
    for (const int64_t d : *dims) sizes[static_cast<size_t>(d)] = 1;
  for (int64_t d = index_rank; d < static_cast<int64_t>(shape.size()); ++d) offsets.push_back(d);
  return builder.add(OpKind::gather_, {table, indices},
                     {{Attr::offset_dims, offsets},
                      {Attr::collapsed_slice_dims, collapsed},
                      {Attr::operand_batching_dims, batching},
                      {Attr::start_indices_batching_dims, index_batching},
                      {Attr::start_index_map, map},
                      {Attr::index_vector_dim, index_rank},
                      {Attr::indices_are_sorted, false},
                      {Attr::slice_sizes, sizes}},
                     {type.with_dims(shape)});
}

// ---- Coordinates that count

// What a coordinate is of its dimension of the table.
struct Role {
  enum Kind { kPlace, kOnce, kWhole, kBatch } kind = kPlace;
  int64_t first = 0, along = 0;  // along: of the indices
};

std::optional<std::vector<Role>> roles(const Places& places) {
  if (!places.batching.empty()) return std::nullopt;
  const std::vector<Coordinate>& all = places.coordinates();
  std::vector<Role> made(all.size());
  bool any_whole = false, any_place = false;
  for (size_t c = 0; c < all.size(); ++c) {
    if (all[c].steps.empty() && all[c].values.empty() && !all[c].looks_at.empty()) {
      any_place = true;
      continue;
    }
    const int64_t size = places.table().dim(static_cast<int>(places.map[c]));
    const Dims& looks_at = all[c].looks_at;
    const bool counts = looks_at.size() == 1 && !all[c].steps.empty() &&
                        all[c].steps[static_cast<size_t>(looks_at[0])] == 1 && all[c].first >= 0 &&
                        all[c].first + places.counts[static_cast<size_t>(looks_at[0])] <= size;
    if (looks_at.empty() && !all[c].steps.empty() && all[c].first >= 0 && all[c].first < size)
      made[c] = {Role::kOnce, all[c].first, 0};
    else if (counts)
      made[c] = {Role::kWhole, all[c].first, looks_at[0]};
    any_place |= made[c].kind == Role::kPlace;
  }
  for (size_t c = 0; c < all.size(); ++c) {
    if (made[c].kind != Role::kWhole) continue;
    for (size_t other = 0; other < all.size(); ++other)
      if (other != c && contains(all[other].looks_at, made[c].along))
        made[c].kind = made[other].kind == Role::kPlace ? Role::kBatch : Role::kPlace;
    any_whole |= made[c].kind == Role::kWhole;
  }
  return any_whole && any_place ? std::optional(made) : std::nullopt;
}

// Whether places along these dimensions of the indices follow from their difference.
bool is_by_difference(const Function& function, const Places& places, const Coordinate& coordinate, int64_t i,
                      int64_t j) {
  if (coordinate.value)
    return is_by_difference(function, *coordinate.value, places.dim_of_indices(i), places.dim_of_indices(j));
  Dims strides = graph::row_major_strides(places.counts);
  const auto a = static_cast<size_t>(i), b = static_cast<size_t>(j);
  for (size_t at = 0; at < coordinate.values.size(); ++at) {
    const auto place = static_cast<int64_t>(at);
    if (place / strides[a] % places.counts[a] == 0 || place / strides[b] % places.counts[b] == 0) continue;
    if (coordinate.values[at] != coordinate.values[at - static_cast<size_t>(strides[a] + strides[b])])
      return false;
  }
  return !coordinate.values.empty();
}

// Elements that follow each other in memory: of the table, what its last dimensions have.
int64_t run_of(const Places& places, const std::vector<Role>& made) {
  int64_t run = 1;
  for (int64_t d = places.table().rank(); d-- > 0;) {
    const auto at = std::ranges::find(places.map, d);
    if (at == places.map.end()) {
      run *= places.table().dim(static_cast<int>(d));
      continue;
    }
    const Role& role = made[static_cast<size_t>(at - places.map.begin())];
    if (role.kind != Role::kWhole) break;
    run *= places.counts[static_cast<size_t>(role.along)];
  }
  return run;
}

// Longer runs, gathers of columns, and what depends on a difference. Else each element is found by itself
// whatever else the op says.
bool counts_along(const Function& function, const Op& op) {
  const auto places = Places::of(function, op);
  const auto made = places ? roles(*places) : std::nullopt;
  if (!made) return false;
  const auto batch = std::ranges::find(*made, Role::kBatch, &Role::kind);
  if (batch == made->end() || run_of(*places, *made) > run_of(*places, std::vector<Role>(made->size())))
    return true;
  std::optional<size_t> place;
  for (size_t c = 0; c < made->size(); ++c) {
    if ((*made)[c].kind != Role::kPlace) continue;
    if (place) return false;
    place = c;
  }
  const Coordinate& coordinate = places->coordinate(*place);
  const Dims& looks_at = coordinate.looks_at;
  if (std::ranges::count(*made, Role::kBatch, &Role::kind) != 1 || looks_at.size() != 2) return false;
  return is_by_difference(function, *places, coordinate, looks_at[0], looks_at[1]);
}

std::vector<ValueId> by_windows(Builder& builder, const Function& function, const Op& op,
                                std::span<const ValueId> operands) {
  const Places places = *Places::of(function, op);
  const std::vector<Role> made = *roles(places);
  const Type table = builder.type(operands[0]);
  Dims starts(static_cast<size_t>(table.rank()), 0), limits = table.dims_vector(), dropped, map;
  std::vector<size_t> chosen;
  Dims along(static_cast<size_t>(table.rank()), -1);  // of the indices, where a dimension counts along one
  Dims once;
  std::vector<std::pair<int64_t, int64_t>> batches;  // of the table, of the indices
  for (size_t c = 0; c < made.size(); ++c) {
    const auto d = static_cast<size_t>(places.map[c]);
    const Role& role = made[c];
    if (role.kind == Role::kPlace) {
      chosen.push_back(c);
      map.push_back(places.map[c]);
      continue;
    }
    starts[d] = role.first;
    limits[d] = role.first + (role.kind == Role::kOnce ? 1 : places.counts[static_cast<size_t>(role.along)]);
    if (role.kind == Role::kOnce) once.push_back(places.map[c]);
    if (role.kind == Role::kBatch) batches.emplace_back(places.map[c], role.along);
    if (role.kind != Role::kWhole) continue;
    along[d] = role.along;
    dropped.push_back(role.along);
  }
  // Without the dimensions of which one element is taken, which have no coordinate any more.
  const ValueId cut = builder.slice(operands[0], starts, limits);
  Dims kept, place_of(static_cast<size_t>(table.rank()), -1);
  for (int64_t d = 0; d < table.rank(); ++d) {
    if (contains(once, d)) continue;
    place_of[static_cast<size_t>(d)] = static_cast<int64_t>(kept.size());
    kept.push_back(limits[static_cast<size_t>(d)] - starts[static_cast<size_t>(d)]);
  }
  Dims new_map, batching, index_batching, index_place(places.counts.size(), -1), shape;
  for (size_t k = 0; k < places.counts.size(); ++k) {
    if (contains(dropped, static_cast<int64_t>(k))) continue;
    index_place[k] = static_cast<int64_t>(shape.size());
    shape.push_back(places.counts[k]);
  }
  for (const int64_t d : map) new_map.push_back(place_of[static_cast<size_t>(d)]);
  std::ranges::sort(batches);
  for (const auto& [d, k] : batches) {
    batching.push_back(place_of[static_cast<size_t>(d)]);
    index_batching.push_back(index_place[static_cast<size_t>(k)]);
  }
  // Where each dimension of the result comes from.
  const Dims batch = places.batch(), whole = places.whole();
  Dims back(static_cast<size_t>(places.result().rank()), 0);
  for (size_t k = 0; k < batch.size(); ++k)
    if (index_place[k] >= 0) back[static_cast<size_t>(batch[k])] = index_place[k];
  for (int64_t d = 0; d < table.rank(); ++d) {
    const auto at = std::ranges::find(whole, d);
    const int64_t k = along[static_cast<size_t>(d)];
    if (at == whole.end() && k < 0) continue;
    const int64_t to =
        k >= 0 ? batch[static_cast<size_t>(k)] : places.offsets[static_cast<size_t>(at - whole.begin())];
    back[static_cast<size_t>(to)] = static_cast<int64_t>(shape.size());
    shape.push_back(limits[static_cast<size_t>(d)] - starts[static_cast<size_t>(d)]);
  }
  const ValueId indices = places.without(builder, operands[1], chosen, dropped);
  const ValueId rows =
      gathered(builder, builder.reshape(cut, kept), indices, new_map, shape, batching, index_batching);
  return {builder.transpose(rows, back)};
}

// ---- Coordinates that look at different dimensions

// The first coordinate and those that look at what it looks at; nothing where that is all of them.
std::optional<std::vector<size_t>> apart(const Places& places) {
  if (places.map.size() < 2 || !places.batching.empty()) return std::nullopt;
  int64_t run = 1;
  for (int64_t d = places.table().rank(); d-- > 0 && !contains(places.map, d);)
    run *= places.table().dim(static_cast<int>(d));
  if (run >= kGatherRunMax) return std::nullopt;
  std::vector<size_t> group{0};
  Dims seen = places.coordinate(0).looks_at;
  for (size_t grown = 0; grown != group.size();) {
    grown = group.size();
    for (size_t c = 1; c < places.map.size(); ++c) {
      const Dims& looks_at = places.coordinate(c).looks_at;
      if (std::ranges::find(group, c) != group.end() ||
          std::ranges::none_of(looks_at, [&](int64_t k) { return contains(seen, k); }))
        continue;
      group.push_back(c);
      seen.insert(seen.end(), looks_at.begin(), looks_at.end());
    }
  }
  return group.size() < places.map.size() && !seen.empty() ? std::optional(group) : std::nullopt;
}

bool lies_apart(const Function& function, const Op& op) {
  const auto places = Places::of(function, op);
  return places && apart(*places);
}

std::vector<ValueId> one_after_another(Builder& builder, const Function& function, const Op& op,
                                       std::span<const ValueId> operands) {
  const Places places = *Places::of(function, op);
  std::vector<size_t> first = *apart(places), second;
  std::ranges::sort(first);
  Dims looks_at, others;  // dimensions of the indices
  for (const size_t c : first)
    for (const int64_t k : places.coordinate(c).looks_at)
      if (!contains(looks_at, k)) looks_at.push_back(k);
  std::ranges::sort(looks_at);
  for (size_t k = 0; k < places.counts.size(); ++k)
    if (!contains(looks_at, static_cast<int64_t>(k))) others.push_back(static_cast<int64_t>(k));
  for (size_t c = 0; c < places.map.size(); ++c)
    if (std::ranges::find(first, c) == first.end()) second.push_back(c);
  const Type table = builder.type(operands[0]);
  Dims map, rest, shape;
  for (const size_t c : first) map.push_back(places.map[c]);
  for (const int64_t k : looks_at) shape.push_back(places.counts[static_cast<size_t>(k)]);
  const auto lead = static_cast<int64_t>(shape.size());
  for (int64_t d = 0; d < table.rank(); ++d)
    if (!contains(map, d)) rest.push_back(d);
  for (const int64_t d : rest) shape.push_back(table.dim(static_cast<int>(d)));
  const ValueId rows =
      gathered(builder, operands[0], places.without(builder, operands[1], first, others), map, shape);

  Dims next_map, next_shape, back(static_cast<size_t>(places.result().rank()), 0);
  for (const size_t c : second)
    next_map.push_back(lead + (std::ranges::find(rest, places.map[c]) - rest.begin()));
  const Dims batch = places.batch(), whole = places.whole();
  for (const int64_t k : others) {
    back[static_cast<size_t>(batch[static_cast<size_t>(k)])] = static_cast<int64_t>(next_shape.size());
    next_shape.push_back(places.counts[static_cast<size_t>(k)]);
  }
  for (const int64_t k : looks_at) {
    back[static_cast<size_t>(batch[static_cast<size_t>(k)])] = static_cast<int64_t>(next_shape.size());
    next_shape.push_back(places.counts[static_cast<size_t>(k)]);
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    back[static_cast<size_t>(places.offsets[i])] = static_cast<int64_t>(next_shape.size());
    next_shape.push_back(table.dim(static_cast<int>(whole[i])));
  }
  const ValueId indices = places.without(builder, operands[1], second, looks_at);
  return {builder.transpose(gathered(builder, rows, indices, next_map, next_shape), back)};
}

// ---- Places that depend on a difference

// Of [i, j] that depends on j - i alone, where the table has a row for every i.
struct Differences {
  size_t row = 0, column = 0;  // of the indices, without their vector's dimension
};

std::optional<Differences> differences(const Function& function, const Op& op, const Places& places) {
  if (places.map.size() != 1 || places.batching.size() != 1 || places.counts.size() != 2) return std::nullopt;
  Differences made;
  const int64_t along = places.index_batching[0];
  made.row = static_cast<size_t>(along < places.vector ? along : along - 1);
  made.column = 1 - made.row;
  if (places.counts[0] < 2 || places.counts[1] < 2) return std::nullopt;
  const int64_t i = places.dim_of_indices(static_cast<int64_t>(made.row)),
                j = places.dim_of_indices(static_cast<int64_t>(made.column));
  const bool both = varies(function, op.operands[1], i) && varies(function, op.operands[1], j);
  return both && is_by_difference(function, op.operands[1], i, j) ? std::optional(made) : std::nullopt;
}

// The places [differences, 1], of the lowest difference first: those of the first column upwards, then those
// of the first row.
ValueId places_of_differences(Builder& builder, const Places& places, const Differences& found,
                              ValueId indices) {
  const auto rank = static_cast<size_t>(builder.type(indices).rank());
  const int64_t rows = places.counts[found.row], columns = places.counts[found.column];
  const auto i = static_cast<size_t>(places.dim_of_indices(static_cast<int64_t>(found.row))),
             j = static_cast<size_t>(places.dim_of_indices(static_cast<int64_t>(found.column)));
  const auto part = [&](size_t one, size_t all, int64_t from, int64_t count) {
    Dims starts(rank, 0), limits = builder.type(indices).dims_vector();
    limits[one] = 1;
    starts[all] = from;
    return builder.reshape(builder.slice(indices, starts, limits), {count});
  };
  const ValueId column = part(j, i, 0, rows), row = part(i, j, 1, columns - 1);
  const ValueId upwards = builder.add(OpKind::reverse_, {column}, {{Attr::dimensions, Dims{0}}});
  return builder.reshape(builder.concatenate({upwards, row}, 0), {rows + columns - 1, 1});
}

bool depends_on_difference(const Function& function, const Op& op) {
  const auto places = Places::of(function, op);
  return places && differences(function, op, *places);
}

std::vector<ValueId> by_difference(Builder& builder, const Function& function, const Op& op,
                                   std::span<const ValueId> operands) {
  const Places places = *Places::of(function, op);
  const Differences found = *differences(function, op, places);
  const Type table = builder.type(operands[0]);
  const int64_t rows = places.counts[found.row], columns = places.counts[found.column],
                width = rows + columns - 1, lead = table.rank() - 2;
  // [width, other dimensions] of the table, then [whole dimensions, rows, width].
  const ValueId indices = places_of_differences(builder, places, found, operands[1]);
  Dims shape{width}, order, whole_sizes;
  int64_t row_place = 0;
  for (int64_t d = 0; d < table.rank(); ++d) {
    if (d == places.map[0]) continue;
    if (d == places.batching[0])
      row_place = static_cast<int64_t>(shape.size());
    else {
      order.push_back(static_cast<int64_t>(shape.size()));
      whole_sizes.push_back(table.dim(static_cast<int>(d)));
    }
    shape.push_back(table.dim(static_cast<int>(d)));
  }
  order.insert(order.end(), {row_place, 0});
  const ValueId each =
      builder.transpose(gathered(builder, operands[0], indices, {places.map[0]}, shape), order);
  // Row i from its element rows - 1 - i on: one step less than a row from one to the next.
  const auto with = [&](std::initializer_list<int64_t> last) {
    Dims dims = whole_sizes;
    dims.insert(dims.end(), last);
    return dims;
  };
  Dims starts(static_cast<size_t>(lead) + 1, 0);
  starts.back() = rows - 1;
  const ValueId flat = builder.slice(builder.reshape(each, with({rows * width})), starts,
                                     with({rows - 1 + rows * (width - 1)}));
  const ValueId moved = builder.slice(builder.reshape(flat, with({rows, width - 1})),
                                      Dims(static_cast<size_t>(lead) + 2, 0), with({rows, columns}));
  Dims back(static_cast<size_t>(lead) + 2, 0);
  const Dims batch = places.batch();
  back[static_cast<size_t>(batch[found.row])] = lead;
  back[static_cast<size_t>(batch[found.column])] = lead + 1;
  for (size_t i = 0; i < places.offsets.size(); ++i)
    back[static_cast<size_t>(places.offsets[i])] = static_cast<int64_t>(i);
  return {builder.transpose(moved, back)};
}

constexpr Expansion kGathers[] = {{OpKind::gather_, counts_along, by_windows},
                                  {OpKind::gather_, lies_apart, one_after_another},
                                  {OpKind::gather_, depends_on_difference, by_difference}};

}  // namespace

std::span<const Expansion> gather_window_expansions() { return kGathers; }

}  // namespace opentrn::compiler
