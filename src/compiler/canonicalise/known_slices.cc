// gather, dynamic_slice and set_dimension_size at places that are known: a slice, which costs nothing.
//
// Frameworks write x[:, 1], x[..., 0], arange-indexed masks and strided takes as gathers of constant indices.
// A gather is a slice when each operand dimension's start moves with at most one dimension of the indices, in
// equal steps, and no dimension of the indices moves two operand dimensions (a diagonal is no box). Frames of
// a signal, element j of frame i at i * step + j, are no box either, but a few boxes side by side; so is what
// torch.roll takes, the end of a dimension and then its beginning. Places relative to each other (tables of
// attention's biases) are windows of a table of two dimensions, read backwards.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/nested_windows.h"
#include "compiler/canonicalise/passes.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

// Larger lists are data, not places that somebody wrote down.
constexpr int64_t kIndicesMax = 1 << 20;

// The value's elements, row-major, when constants under reshapes and broadcasts say them.
std::optional<std::vector<int64_t>> known_integers(const Function& function, ValueId value) {
  const graph::Type& type = function.type(value);
  const OpId id = function.value(value).op;
  if (id == graph::kNoOp || !type.is_tensor() || !type.is_static() || !graph::is_integer(type.element()) ||
      type.element_count() > kIndicesMax)
    return std::nullopt;
  const Op& op = function.op(id);
  switch (op.kind) {
    case OpKind::constant_: {
      const auto bytes = op.literal(Attr::value).dense();
      const auto size = static_cast<size_t>(graph::storage_bytes(type.element()));
      std::vector<int64_t> result;
      for (size_t at = 0; at < bytes.size(); at += size)
        result.push_back(static_cast<int64_t>(graph::load_integer(type.element(), bytes.data() + at)));
      return result;
    }
    case OpKind::reshape_: return known_integers(function, op.operands[0]);
    case OpKind::broadcast_in_dim_: {
      const auto source = known_integers(function, op.operands[0]);
      if (!source) return std::nullopt;
      const graph::Type& from = function.type(op.operands[0]);
      const auto places = op.integers(Attr::broadcast_dimensions);
      std::vector<int64_t> steps(static_cast<size_t>(type.rank()));
      for (int64_t step = 1, d = from.rank(); d-- > 0;) {
        if (from.dim(static_cast<int>(d)) > 1)
          steps[static_cast<size_t>(places[static_cast<size_t>(d)])] = step;
        step *= from.dim(static_cast<int>(d));
      }
      std::vector<int64_t> result;
      for (int64_t i = 0; i < type.element_count(); ++i) {
        int64_t rest = i, at = 0;
        for (int d = type.rank(); d-- > 0; rest /= type.dim(d))
          at += rest % type.dim(d) * steps[static_cast<size_t>(d)];
        result.push_back((*source)[static_cast<size_t>(at)]);
      }
      return result;
    }
    default: return std::nullopt;
  }
}

// One operand dimension of the box: starts first + i * step for i below count, `size` elements at each. At
// most one of count and size is not 1.
struct Span {
  int64_t first = 0, step = 1, count = 1, size = 1;
  std::optional<size_t> index_dim =
      std::nullopt;  // of the indices without their vector dimension: what moves the start
};

// values[i] = first + step * (coordinate along one of `dims`): which one, and the numbers.
std::optional<Span> in_equal_steps(std::span<const int64_t> values, std::span<const int64_t> dims) {
  Span span{.first = values[0]};
  int64_t inner = static_cast<int64_t>(values.size());
  std::vector<int64_t> steps;
  for (size_t d = 0; d < dims.size(); ++d) {
    inner /= dims[d];
    steps.push_back(dims[d] > 1 ? values[static_cast<size_t>(inner)] - values[0] : 0);
    if (steps[d] == 0) continue;
    if (span.index_dim) return std::nullopt;
    span.index_dim = d;
    span.step = steps[d];
    span.count = dims[d];
  }
  if (span.step < 0) return std::nullopt;
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), at = 0;
    for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) at += rest % dims[d] * steps[d];
    if (values[i] != span.first + at) return std::nullopt;
  }
  return span;
}

std::vector<int64_t> list(const Op& op, Attr attr) {
  if (!op.has(attr)) return {};
  const auto values = op.integers(attr);
  return {values.begin(), values.end()};
}

bool contains(std::span<const int64_t> values, int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// How often each element of the list, `components` numbers long, follows itself along a dimension of `count`
// with `inner` numbers behind each: the largest divisor of `count` that holds for all.
int64_t repeats_of(std::span<const int64_t> values, int64_t count, int64_t inner) {
  int64_t run = count;
  for (int64_t i = 0; i + inner < static_cast<int64_t>(values.size()); ++i) {
    const int64_t place = i / inner % count;
    if (place + 1 < count && values[static_cast<size_t>(i)] != values[static_cast<size_t>(i + inner)])
      run = std::gcd(run, place + 1);
  }
  return run;
}

// What a gather reads: a box of the operand, by operand dimension. `dims`: of the indices without their
// vector dimension, each as a number of places and how often each is repeated.
struct Reading {
  std::vector<Span> box;
  std::vector<int64_t> dims;
};

std::optional<Reading> reading_of(const Function& function, const Op& op) {
  const graph::Type& operand = function.type(op.operands[0]);
  const graph::Type& indices = function.type(op.operands[1]);
  const auto known = known_integers(function, op.operands[1]);
  if (!known || known->empty() || !operand.is_static() || operand.element_count() == 0) return std::nullopt;
  const auto map = list(op, Attr::start_index_map), sizes = list(op, Attr::slice_sizes),
             batching = list(op, Attr::operand_batching_dims),
             index_batching = list(op, Attr::start_indices_batching_dims);
  const int64_t vector_dim = op.integer(Attr::index_vector_dim);
  Reading reading;
  std::vector<int64_t>& dims = reading.dims;
  int64_t inner = 1, behind = static_cast<int64_t>(known->size());
  for (int d = 0; d < indices.rank(); ++d) {
    behind /= indices.dim(d);
    if (d > vector_dim) inner *= indices.dim(d);
    if (d == vector_dim) continue;
    const bool batch = contains(index_batching, d);
    const int64_t repeats = batch ? 1 : repeats_of(*known, indices.dim(d), behind);
    dims.push_back(indices.dim(d) / repeats);
    dims.push_back(repeats);
  }
  const auto components = static_cast<int64_t>(map.size());
  std::vector<Span>& spans = reading.box;
  spans.resize(static_cast<size_t>(operand.rank()));
  for (size_t d = 0; d < spans.size(); ++d) spans[d].size = sizes[d];
  for (int64_t c = 0; c < components; ++c) {
    const int64_t d = map[static_cast<size_t>(c)], size = sizes[static_cast<size_t>(d)];
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < static_cast<int64_t>(known->size()); ++i)
      if (i / inner % components == c)
        starts.push_back(std::clamp<int64_t>((*known)[static_cast<size_t>(i)], 0,
                                             operand.dim(static_cast<int>(d)) - size));
    const auto span = in_equal_steps(starts, dims);
    if (!span || (span->index_dim && size != 1)) return std::nullopt;
    spans[static_cast<size_t>(d)] = *span;
    spans[static_cast<size_t>(d)].size = size;
  }
  for (size_t i = 0; i < batching.size(); ++i) {
    const int64_t dim = 2 * (index_batching[i] - (index_batching[i] > vector_dim ? 1 : 0));
    spans[static_cast<size_t>(batching[i])] = {
        .count = dims[static_cast<size_t>(dim)], .size = 1, .index_dim = static_cast<size_t>(dim)};
  }
  for (size_t a = 0; a < spans.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (spans[a].index_dim && spans[a].index_dim == spans[b].index_dim) return std::nullopt;
  return reading;
}

// Windows of one operand dimension: element j of window i at first + i * step + j * inner.
struct Windows {
  int64_t first, count, step, length, inner;
};

// Larger numbers of slices are left to the kernel that gathers.
constexpr int64_t kWindowSlicesMax = 64;

std::optional<Windows> windows_of(std::span<const int64_t> places) {
  const auto total = static_cast<int64_t>(places.size());
  if (total < 4) return std::nullopt;
  Windows w{.first = places[0], .count = 1, .step = 0, .length = 2, .inner = places[1] - places[0]};
  const auto at = [&](int64_t i) { return places[static_cast<size_t>(i)]; };
  while (w.length < total && at(w.length) - at(w.length - 1) == w.inner) ++w.length;
  if (w.inner <= 0 || w.length == total || total % w.length != 0) return std::nullopt;
  w.count = total / w.length;
  w.step = at(w.length) - at(0);
  if (w.step <= 0) return std::nullopt;
  for (int64_t i = 0; i < total; ++i)
    if (at(i) != w.first + i / w.length * w.step + i % w.length * w.inner) return std::nullopt;
  return w;
}

// Places in equal steps: first + i * step for i below count.
struct Run {
  int64_t first, step, count;
};

// Slices of fewer elements, or more slices, take no less time than the kernel that gathers.
constexpr int64_t kRunsMax = 16, kRunElementsMin = 3;

// The places as a few runs, each as long as it can be made from where the last one ended.
std::optional<std::vector<Run>> runs_of(std::span<const int64_t> places) {
  std::vector<Run> runs;
  const auto total = static_cast<int64_t>(places.size());
  const auto at = [&](int64_t i) { return places[static_cast<size_t>(i)]; };
  for (int64_t begin = 0; begin < total; begin += runs.back().count) {
    Run run{.first = at(begin), .step = 1, .count = 1};
    if (begin + 1 < total && at(begin + 1) > at(begin)) run.step = at(begin + 1) - at(begin);
    while (begin + run.count < total && at(begin + run.count) == run.first + run.count * run.step)
      ++run.count;
    runs.push_back(run);
    if (static_cast<int64_t>(runs.size()) > kRunsMax) return std::nullopt;
  }
  const auto count = static_cast<int64_t>(runs.size());
  // A short dimension that is shifted round has two.
  const bool pays = count == 2 ? total >= 4 : total >= kRunElementsMin * count;
  if (!pays) return std::nullopt;
  return runs;
}

// Places of one operand dimension, which `dim` becomes, of which a gather reads all elements.
std::optional<std::vector<int64_t>> places_read(const Function& function, const Op& op, int64_t* dim) {
  const graph::Type &operand = function.type(op.operands[0]), &result = function.type(op.results[0]);
  const auto map = list(op, Attr::start_index_map), sizes = list(op, Attr::slice_sizes);
  if (map.size() != 1 || !list(op, Attr::operand_batching_dims).empty() || !operand.is_static() ||
      !result.is_static() || result.element_count() == 0)
    return std::nullopt;
  for (int64_t d = 0; d < operand.rank(); ++d)
    if (d != map[0] && sizes[static_cast<size_t>(d)] != operand.dim(static_cast<int>(d))) return std::nullopt;
  if (sizes[static_cast<size_t>(map[0])] != 1) return std::nullopt;
  auto known = known_integers(function, op.operands[1]);
  if (!known) return std::nullopt;
  for (int64_t& place : *known)
    place = std::clamp<int64_t>(place, 0, operand.dim(static_cast<int>(map[0])) - 1);
  *dim = map[0];
  return known;
}

class Slicer {
 public:
  explicit Slicer(Function& function) : function_(function) {}

  int64_t run() {
    for (size_t block = 0; block < function_.block_count(); ++block) {
      block_ = BlockId{static_cast<uint32_t>(block)};
      for (at_ = 0; at_ < function_.block(block_).ops.size(); ++at_) {
        const OpId id = function_.block(block_).ops[at_];
        if (function_.op(id).kind == OpKind::gather_) gather(id);
        if (function_.op(id).kind == OpKind::dynamic_slice_) dynamic_slice(id);
        if (function_.op(id).kind == OpKind::set_dimension_size_) set_size(id);
      }
    }
    return changed_;
  }

 private:
  void gather(OpId id) {
    const auto reading = reading_of(function_, function_.op(id));
    if (!reading) return side_by_side(id);
    const Op op = function_.op(id);
    const graph::Type& result = function_.type(op.results[0]);
    const auto offsets = list(op, Attr::offset_dims), collapsed = list(op, Attr::collapsed_slice_dims),
               batching = list(op, Attr::operand_batching_dims);
    // The result with every dimension of the indices as two, places and repeats.
    std::vector<int64_t> wide, offset_places, index_places;
    for (int64_t d = 0; d < result.rank(); ++d) {
      if (contains(offsets, d)) {
        offset_places.push_back(static_cast<int64_t>(wide.size()));
        wide.push_back(result.dim(static_cast<int>(d)));
        continue;
      }
      for (int part = 0; part < 2; ++part) {
        wide.push_back(reading->dims[index_places.size()]);
        index_places.push_back(static_cast<int64_t>(wide.size()) - 1);
      }
    }
    std::vector<int64_t> kept, places;
    size_t offset = 0;
    for (size_t d = 0; d < reading->box.size(); ++d) {
      const Span& span = reading->box[d];
      const bool stays =
          !contains(collapsed, static_cast<int64_t>(d)) && !contains(batching, static_cast<int64_t>(d));
      const size_t place = offset;
      offset += stays;
      if (span.index_dim) {
        kept.push_back(span.count);
        places.push_back(index_places[*span.index_dim]);
      } else if (stays) {
        kept.push_back(span.size);
        places.push_back(offset_places[place]);
      }
    }
    const ValueId sliced = slice(op, reading->box);
    const ValueId reshaped = insert(OpKind::reshape_, {sliced}, result.with_dims(kept), op.location);
    const ValueId spread = insert(OpKind::broadcast_in_dim_, {reshaped}, result.with_dims(wide), op.location);
    function_.op(function_.value(spread).op).set(Attr::broadcast_dimensions, places);
    become(id, OpKind::reshape_, {spread});
  }

  void side_by_side(OpId id) {
    const Op op = function_.op(id);
    int64_t dim = 0;
    const auto places_known = places_read(function_, op, &dim);
    if (!places_known) return;
    ValueId framed{};
    if (const auto w = windows_of(*places_known); w && slices(*w) <= kWindowSlicesMax)
      framed = pieces_of(*w) <= w->count && w->inner == 1 ? by_steps(op, dim, *w) : by_windows(op, dim, *w);
    else if (const auto runs = runs_of(*places_known))
      framed = by_runs(op, dim, *runs);
    else if (const auto nested = nested_of(op, dim, *places_known))
      framed = by_axes(op, dim, *nested);
    else
      return;
    // The dimension's place has the indices' dimensions now, and all the others are offsets.
    const graph::Type result = function_.type(op.results[0]);
    const auto offsets = list(op, Attr::offset_dims);
    const bool collapsed = contains(list(op, Attr::collapsed_slice_dims), dim);
    std::vector<int64_t> dims, places;  // of the framed value as the result has them, and where
    const auto take = [&](int64_t place) {
      dims.push_back(result.dim(static_cast<int>(place)));
      places.push_back(place);
    };
    size_t offset = 0;
    for (int64_t d = 0; d < function_.type(op.operands[0]).rank(); ++d) {
      if (d != dim) {
        take(offsets[offset++]);
        continue;
      }
      for (int64_t place = 0; place < result.rank(); ++place)
        if (!contains(offsets, place)) take(place);
      if (!collapsed) take(offsets[offset++]);
    }
    std::vector<int64_t> permutation(places.size());
    for (size_t i = 0; i < places.size(); ++i)
      permutation[static_cast<size_t>(places[i])] = static_cast<int64_t>(i);
    const ValueId reshaped = insert(OpKind::reshape_, {framed}, result.with_dims(dims), op.location);
    become(id, OpKind::transpose_, {reshaped});
    function_.op(id).set(Attr::permutation, permutation);
  }

  // Rows of the table that are longer are descriptors that pay, one for each place.
  static constexpr int64_t kRowElementsMax = 64;

  std::optional<NestedWindows> nested_of(const Op& op, int64_t dim, std::span<const int64_t> places) const {
    const graph::Type& table = function_.type(op.operands[0]);
    const int64_t size = table.dim(static_cast<int>(dim));
    if (table.element_count() / size > kRowElementsMax) return std::nullopt;
    auto found = nested_windows(places, size);
    if (!found) return std::nullopt;
    for (const Axis& axis : found->axes)
      if (axis.outer && found->digits[*axis.outer] > kWindowSlicesMax) return std::nullopt;
    return found;
  }

  // The table with `dim` as the axes; then axis by axis its windows, which lie where their digit will be: the
  // innermost digit's places, and what lies behind them, stay neighbours. Where readers turn the result so
  // that what lies behind comes first, the smaller table is turned.
  ValueId by_axes(const Op& op, int64_t dim, const NestedWindows& nested) {
    const graph::Type table = function_.type(op.operands[0]);
    const auto first = static_cast<size_t>(is_turned(op.results[0]) ? table.rank() - 1 : dim);
    std::vector<int64_t> order, back, sizes, flipped;
    for (int64_t d = 0; d < table.rank(); ++d) order.push_back(d);
    order.erase(order.begin() + dim);
    order.insert(order.begin() + static_cast<int64_t>(first), dim);
    for (int64_t d = 0; d < table.rank(); ++d) back.push_back(std::ranges::find(order, d) - order.begin());
    ValueId value = transposed(op, op.operands[0], order);
    std::vector<Span> box = whole(function_.type(value));
    box[first].size = 1;
    std::vector<size_t> digits;  // of the dimensions from the first on
    for (const Axis& axis : nested.axes) {
      if (axis.is_flipped) flipped.push_back(static_cast<int64_t>(first + digits.size()));
      box[first].size *= axis.size;
      sizes.push_back(axis.size);
      digits.push_back(axis.inner);
    }
    value = reshaped(op, slice_of(op, value, box), first, sizes);
    if (!flipped.empty()) {
      value = insert(OpKind::reverse_, {value}, function_.type(value), op.location);
      function_.op(function_.value(value).op).set(Attr::dimensions, flipped);
    }
    for (const Axis& axis : nested.axes) value = along(op, value, nested, axis, first, &digits);
    std::vector<int64_t> sorted;
    for (int64_t d = 0; d < function_.type(value).rank(); ++d) sorted.push_back(d);
    for (size_t d = 0; d < digits.size(); ++d) sorted[first + digits[d]] = static_cast<int64_t>(first + d);
    value = joined_dims(op, transposed(op, value, sorted), first, digits.size());
    return transposed(op, value, back);
  }

  // Whether a reader wants what is innermost elsewhere.
  bool is_turned(ValueId value) const {
    const auto& ops = function_.block(block_).ops;
    return std::ranges::any_of(ops, [&](OpId id) {
      const Op& op = function_.op(id);
      if (op.operands.empty() || op.operands[0] != value) return false;
      if (op.kind == OpKind::reshape_) return is_turned(op.results[0]);
      return op.kind == OpKind::transpose_ && op.integers(Attr::permutation).back() + 1 !=
                                                  static_cast<int64_t>(op.integers(Attr::permutation).size());
    });
  }

  ValueId along(const Op& op, ValueId value, const NestedWindows& nested, const Axis& axis, size_t first,
                std::vector<size_t>* digits) {
    const size_t at = first + static_cast<size_t>(std::ranges::find(*digits, axis.inner) - digits->begin());
    std::vector<Span> box = whole(function_.type(value));
    box[at].size = nested.digits[axis.inner];
    if (!axis.outer) {
      box[at].first = axis.first;
      return slice_of(op, value, box);
    }
    const auto before = std::ranges::count_if(*digits, [&](size_t d) { return d < *axis.outer; });
    const size_t place = first + static_cast<size_t>(before);
    std::vector<ValueId> pieces;
    for (int64_t i = 0; i < nested.digits[*axis.outer]; ++i) {
      box[at].first = axis.first + i * axis.step;
      const ValueId piece = slice_of(op, value, box);
      std::vector<int64_t> dims = function_.type(piece).dims_vector();
      dims.insert(dims.begin() + static_cast<int64_t>(place), 1);
      pieces.push_back(insert(OpKind::reshape_, {piece}, function_.type(piece).with_dims(dims), op.location));
    }
    digits->insert(digits->begin() + before, *axis.outer);
    return joined(op, pieces, static_cast<int64_t>(place));
  }

  ValueId transposed(const Op& op, ValueId value, const std::vector<int64_t>& order) {
    const graph::Type type = function_.type(value);
    std::vector<int64_t> dims;
    for (const int64_t d : order) dims.push_back(type.dim(static_cast<int>(d)));
    const ValueId made = insert(OpKind::transpose_, {value}, type.with_dims(dims), op.location);
    function_.op(function_.value(made).op).set(Attr::permutation, order);
    return made;
  }

  // `count` dimensions from `begin` as one.
  ValueId joined_dims(const Op& op, ValueId value, size_t begin, size_t count) {
    const graph::Type type = function_.type(value);
    std::vector<int64_t> dims = type.dims_vector();
    for (; count > 1; --count) {
      dims[begin] *= dims[begin + 1];
      dims.erase(dims.begin() + static_cast<int64_t>(begin) + 1);
    }
    return insert(OpKind::reshape_, {value}, type.with_dims(dims), op.location);
  }

  static int64_t pieces_of(const Windows& w) {
    return w.inner == 1 ? (w.length + w.step - 1) / w.step : w.length;
  }
  static int64_t slices(const Windows& w) { return std::min(pieces_of(w), w.count); }

  ValueId by_runs(const Op& op, int64_t dim, const std::vector<Run>& runs) {
    std::vector<ValueId> pieces;
    for (const Run& run : runs) {
      std::vector<Span> box = whole(function_.type(op.operands[0]));
      box[static_cast<size_t>(dim)] = {.first = run.first, .step = run.step, .count = run.count};
      pieces.push_back(slice_of(op, op.operands[0], box));
    }
    return joined(op, pieces, dim);
  }

  // `dim` of the operand as [windows, length]: steps side by side, each a slice whose parts follow each
  // other.
  ValueId by_steps(const Op& op, int64_t dim, const Windows& w) {
    const auto at = static_cast<size_t>(dim);
    std::vector<int64_t> dims = function_.type(op.operands[0]).dims_vector();
    const int64_t last = (w.length - 1) / w.step * w.step;  // where the last piece begins
    const int64_t lacks = std::max<int64_t>(w.first + last + w.count * w.step - dims[at], 0);
    ValueId operand = op.operands[0];
    if (lacks > 0) operand = padded(op, operand, at, lacks);
    std::vector<ValueId> pieces;
    for (int64_t begin = 0; begin < w.length; begin += w.step) {
      std::vector<Span> box = whole(function_.type(operand));
      box[at] = {.first = w.first + begin, .size = w.count * w.step};
      const ValueId steps = reshaped(op, slice_of(op, operand, box), at, {w.count, w.step});
      std::vector<Span> part = whole(function_.type(steps));
      part[at + 1].size = std::min(w.step, w.length - begin);
      pieces.push_back(part[at + 1].size == w.step ? steps : slice_of(op, steps, part));
    }
    return joined(op, pieces, dim + 1);
  }

  // The same, window by window or element by element, whichever are fewer.
  ValueId by_windows(const Op& op, int64_t dim, const Windows& w) {
    const auto at = static_cast<size_t>(dim);
    const bool by_window = w.count <= w.length;
    std::vector<ValueId> pieces;
    for (int64_t i = 0; i < std::min(w.count, w.length); ++i) {
      std::vector<Span> box = whole(function_.type(op.operands[0]));
      box[at] = by_window ? Span{.first = w.first + i * w.step, .step = w.inner, .count = w.length}
                          : Span{.first = w.first + i * w.inner, .step = w.step, .count = w.count};
      const std::vector<int64_t> split =
          by_window ? std::vector<int64_t>{1, w.length} : std::vector<int64_t>{w.count, 1};
      pieces.push_back(reshaped(op, slice_of(op, op.operands[0], box), at, split));
    }
    return joined(op, pieces, by_window ? dim : dim + 1);
  }

  static std::vector<Span> whole(const graph::Type& type) {
    std::vector<Span> box(static_cast<size_t>(type.rank()));
    for (size_t d = 0; d < box.size(); ++d) box[d].size = type.dim(static_cast<int>(d));
    return box;
  }

  // Dimension `at` as those of `split`.
  ValueId reshaped(const Op& op, ValueId value, size_t at, const std::vector<int64_t>& split) {
    const graph::Type type = function_.type(value);
    std::vector<int64_t> dims = type.dims_vector();
    dims.erase(dims.begin() + static_cast<int64_t>(at));
    dims.insert(dims.begin() + static_cast<int64_t>(at), split.begin(), split.end());
    return insert(OpKind::reshape_, {value}, type.with_dims(dims), op.location);
  }

  ValueId joined(const Op& op, const std::vector<ValueId>& pieces, int64_t dim) {
    if (pieces.size() == 1) return pieces[0];
    const graph::Type type = function_.type(pieces[0]);
    std::vector<int64_t> dims = type.dims_vector();
    int64_t& size = dims[static_cast<size_t>(dim)];
    size = 0;
    for (const ValueId piece : pieces) size += function_.type(piece).dim(static_cast<int>(dim));
    const ValueId made = insert(OpKind::concatenate_, pieces, type.with_dims(dims), op.location);
    function_.op(function_.value(made).op).set(Attr::dimension, dim);
    return made;
  }

  // `lacks` more elements along a dimension, which nobody asks for.
  ValueId padded(const Op& op, ValueId value, size_t at, int64_t lacks) {
    const graph::Type type = function_.type(value);
    std::vector<int64_t> dims = type.dims_vector(), low(dims.size(), 0), high(dims.size(), 0);
    dims[at] += lacks;
    high[at] = lacks;
    const graph::Type scalar = type.with_dims(std::vector<int64_t>{});
    const ValueId zero = insert(OpKind::constant_, {}, scalar, op.location);
    const auto bytes = static_cast<size_t>(graph::storage_bytes(type.element()));
    function_.op(function_.value(zero).op)
        .set(Attr::value, graph::Literal(scalar, std::vector<std::byte>(bytes)));
    const ValueId made = insert(OpKind::pad_, {value, zero}, type.with_dims(dims), op.location);
    Op& pad = function_.op(function_.value(made).op);
    pad.set(Attr::edge_padding_low, low);
    pad.set(Attr::edge_padding_high, high);
    pad.set(Attr::interior_padding, std::vector<int64_t>(low.size(), 0));
    return made;
  }

  void dynamic_slice(OpId id) {
    const Op op = function_.op(id);
    const graph::Type& operand = function_.type(op.operands[0]);
    const auto sizes = list(op, Attr::slice_sizes);
    std::vector<int64_t> starts, limits;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const auto start = known_integers(function_, op.operands[d + 1]);
      if (!start || !operand.is_static()) return;
      starts.push_back(std::clamp<int64_t>((*start)[0], 0, operand.dim(static_cast<int>(d)) - sizes[d]));
      limits.push_back(starts.back() + sizes[d]);
    }
    become(id, OpKind::slice_, {op.operands[0]});
    set_bounds(id, starts, limits, std::vector<int64_t>(sizes.size(), 1));
  }

  // A dimension "set" to a size that is known: the leading part.
  void set_size(OpId id) {
    const Op op = function_.op(id);
    const graph::Type operand = function_.type(op.operands[0]), result = function_.type(op.results[0]);
    const auto size = known_integers(function_, op.operands[1]);
    if (!size || !operand.is_static() || !result.is_static()) return;
    std::vector<int64_t> limits = operand.dims_vector();
    limits[static_cast<size_t>(op.integer(Attr::dimension))] = (*size)[0];
    if (limits != result.dims_vector()) return;
    become(id, OpKind::slice_, {op.operands[0]});
    set_bounds(id, std::vector<int64_t>(limits.size(), 0), limits, std::vector<int64_t>(limits.size(), 1));
  }

  ValueId slice(const Op& op, const std::vector<Span>& box) { return slice_of(op, op.operands[0], box); }

  ValueId slice_of(const Op& op, ValueId operand, const std::vector<Span>& box) {
    std::vector<int64_t> starts, limits, strides, dims;
    for (const Span& span : box) {
      starts.push_back(span.first);
      limits.push_back(span.first + (span.count - 1) * span.step + span.size);
      strides.push_back(span.count > 1 ? span.step : 1);
      dims.push_back(span.count * span.size);
    }
    const ValueId made =
        insert(OpKind::slice_, {operand}, function_.type(operand).with_dims(dims), op.location);
    set_bounds(function_.value(made).op, starts, limits, strides);
    return made;
  }

  void set_bounds(OpId id, const std::vector<int64_t>& starts, const std::vector<int64_t>& limits,
                  const std::vector<int64_t>& strides) {
    Op& op = function_.op(id);
    op.set(Attr::start_indices, starts);
    op.set(Attr::limit_indices, limits);
    op.set(Attr::strides, strides);
  }

  ValueId insert(OpKind kind, std::vector<ValueId> operands, graph::Type type, graph::LocationId location) {
    const OpId id = function_.insert(block_, at_++, kind, std::move(operands), {std::move(type)}, location);
    return function_.op(id).results[0];
  }

  void become(OpId id, OpKind kind, std::vector<ValueId> operands) {
    ++changed_;
    Op& op = function_.op(id);
    op.kind = kind;
    op.operands = std::move(operands);
    op.attributes.clear();
  }

  Function& function_;
  BlockId block_{0};
  size_t at_ = 0;
  int64_t changed_ = 0;
};

}  // namespace

int64_t slice_at_known_places(Function& function) { return Slicer(function).run(); }

}  // namespace opentrn::compiler
