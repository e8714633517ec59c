// Ops that only move data and are no views: concatenate, pad, bitcast_convert. Each is DMA from view to view.
#include <algorithm>
#include <span>
#include <vector>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

namespace {

bool takes_data_movement(const Function& function, const Op& op) {
  for (const graph::ValueId id : op.operands)
    if (!function.type(id).is_tensor() || !device_dtype(function.type(id).element())) return false;
  switch (op.kind) {
    case OpKind::concatenate_:
    case OpKind::pad_: return true;
    case OpKind::bitcast_convert_: {
      const graph::ElementType from = function.type(op.operands[0]).element(),
                               as = function.type(op.results[0]).element();
      // The 32 bits that stand for 64 are others for integers than for floats.
      if ((is_narrowed(from) || is_narrowed(as)) && graph::is_float(from) != graph::is_float(as))
        return false;
      const auto to = device_dtype(as);
      return to && function.type(op.operands[0]).rank() == function.type(op.results[0]).rank() &&
             size_bytes(*to) == size_bytes(*device_dtype(function.type(op.operands[0]).element()));
    }
    default: return false;
  }
}

void copy_unless_empty(Emitter& emitter, const View& dst, const View& src) {
  if (src.element_count() > 0) emitter.copy(dst, src);
}

// Runs of the result that a descriptor of DMA each would move, and of how many elements that is worth tiles;
// bytes of a partition for a row of such a tile.
constexpr int64_t kShortRunBytes = 32, kLeastElements = 4096, kRowBytes = 8 * 1024;

// How many of the outer places, neighbours in the result, a row of the tile holds: whole dimensions.
int64_t places_in_row(std::span<const isa::Dim> outer, int64_t most) {
  int64_t places = 1;
  for (size_t d = outer.size(); d-- > 1 && places * outer[d].count <= most;) places *= outer[d].count;
  return places;
}

// Parts that lie one after another in short runs, as of pairs: put side by side in SBUF, so that DMA moves
// long runs only. False where runs are long anyway.
bool interleave(Lowering& lowering, const Op& op, const View& out, size_t axis) {
  const int64_t bytes = size_bytes(out.dtype), inner = out.dims[axis].step,
                width = out.dims[axis].count * inner, total = out.element_count();
  int64_t shortest = width;
  for (const graph::ValueId operand : op.operands)
    shortest = std::min(shortest, lowering.function().type(operand).dim(static_cast<int>(axis)) * inner);
  if (axis == 0 || shortest == 0 || shortest * bytes >= kShortRunBytes || total < kLeastElements)
    return false;
  const int64_t places = places_in_row(std::span(out.dims).first(axis), kRowBytes / (width * bytes));
  const int64_t rows = total / (width * places);
  if (places == 1) return false;
  std::vector<Matrix> parts;
  std::vector<int64_t> widths;
  for (const graph::ValueId operand : op.operands) {
    const int64_t part = lowering.function().type(operand).dim(static_cast<int>(axis)) * inner;
    const auto seen = Lowering::reshaped(lowering.view(operand), std::vector<int64_t>{rows, places, part});
    // What is apart in memory itself is better transposed on the way (transposed_copy.h).
    if (!seen || seen->dims[1].step != part || (part > 1 && seen->dims[2].step != 1)) return false;
    parts.emplace_back(*seen, 1);
    widths.push_back(part);
  }
  Emitter& emitter = lowering.emitter();
  const Matrix whole(*Lowering::reshaped(out, std::vector<int64_t>{rows, places * width}), 1);
  for (int64_t row = 0; row < rows; row += kPartitions) {
    const int64_t count = std::min(kPartitions, rows - row);
    const Tile tile = emitter.sbuf(count, places * width, out.dtype, "interleaved");
    int64_t at = 0;
    for (size_t i = 0; i < parts.size(); at += widths[i++]) {
      const Tile part = parts[i].fetch(emitter, row, count, 0, places * widths[i], "part");
      emitter.tensor_copy(tile.patch(at, places, width, widths[i], 1),
                          part.patch(0, places, widths[i], widths[i], 1));
    }
    whole.store(emitter, tile, row, 0);
  }
  return true;
}

void concatenate(Lowering& lowering, const Op& op) {
  const auto axis = static_cast<size_t>(op.integer(Attr::dimension));
  const View out = lowering.allocate(op.results[0]);
  if (out.element_count() > 0 && interleave(lowering, op, out, axis)) return;
  View place = out;
  for (const graph::ValueId operand : op.operands) {
    const View source = lowering.view(operand);
    place.dims[axis].count = source.dims[axis].count;
    copy_unless_empty(lowering.emitter(), place, source);
    place.offset += source.dims[axis].count * out.dims[axis].step;
  }
}

// Loads of a small pad that are worth one store.
constexpr int64_t kPadLoads = 4;

// A result of few rows around a known number is put together in SBUF and stored once: in HBM the second copy
// waits for the first. False where it is larger, or the source is cut or spread.
bool pad_in_sbuf(Lowering& lowering, const Op& op, const View& out) {
  const auto number = splat_of(lowering.function(), op.operands[1]);
  const auto low = op.integers(Attr::edge_padding_low), high = op.integers(Attr::edge_padding_high),
             interior = op.integers(Attr::interior_padding);
  if (!number || out.dims.empty() || std::ranges::any_of(interior, [](int64_t gap) { return gap != 0; }) ||
      std::ranges::min(low) < 0 || std::ranges::min(high) < 0)
    return false;
  const View source = lowering.view(op.operands[0]);
  const size_t last = out.dims.size() - 1;
  const int64_t columns = out.dims[last].count, rows = out.element_count() / columns;
  if (rows > kPartitions || columns * size_bytes(out.dtype) > kRowBytes || source.dims[last].step != 1)
    return false;
  // From the innermost dimension of rows that is padded on, rows of the source follow each other in the tile.
  size_t inner = 0;
  for (size_t d = 0; d < last; ++d)
    if (low[d] + high[d] > 0) inner = d;
  int64_t loads = 1, together = 1;
  for (size_t d = 0; d < last; ++d) (d < inner ? loads : together) *= source.dims[d].count;
  if (loads > kPadLoads) return false;
  Emitter& emitter = lowering.emitter();
  const Tile tile = emitter.sbuf(rows, columns, out.dtype, "padded");
  emitter.memset(tile, *number);
  for (int64_t load = 0; load < loads && source.element_count() > 0; ++load) {
    View part = source;
    part.dims.erase(part.dims.begin(), part.dims.begin() + static_cast<int64_t>(inner));
    int64_t row = 0, left = load, place = 1;
    for (size_t d = last; d-- > 0; place *= out.dims[d].count) {
      row += low[d] * place;
      if (d >= inner) continue;
      row += left % source.dims[d].count * place;
      part.offset += left % source.dims[d].count * source.dims[d].step;
      left /= source.dims[d].count;
    }
    emitter.load(tile.row_range(row, together).column_range(low[last], source.dims[last].count), part);
  }
  Matrix(out, static_cast<int>(last)).store(emitter, tile, 0, 0);
  return true;
}

// Rows that a pad makes, of one dimension: `count` of them, `step` apart, from `first`.
struct PaddedRows {
  int64_t first = 0, step = 1, count = 0;
};

// Those that are all padding: before, behind and between the rows of the source.
std::vector<PaddedRows> filler_rows(int64_t count, int64_t low, int64_t interior, int64_t high) {
  const int64_t step = interior + 1, end = low + std::max<int64_t>(0, (count - 1) * step + 1);
  std::vector<PaddedRows> all{{0, 1, low}, {end, 1, high}};
  for (int64_t place = 1; place < step; ++place) all.push_back({low + place, step, count - 1});
  std::erase_if(all, [](const PaddedRows& rows) { return rows.count <= 0; });
  return all;
}

// A known number between the elements: rows of the source are spread in SBUF and stored where they belong,
// rows of nothing else from a tile of their own, so that HBM is written once. False where more than one
// dimension of rows is padded, or rows are long.
bool pad_with_gaps(Lowering& lowering, const Op& op, const View& out) {
  const auto number = splat_of(lowering.function(), op.operands[1]);
  const auto low = op.integers(Attr::edge_padding_low), high = op.integers(Attr::edge_padding_high),
             interior = op.integers(Attr::interior_padding);
  if (!number || out.dims.size() < 2 || std::ranges::min(low) < 0 || std::ranges::min(high) < 0 ||
      std::ranges::max(interior) == 0)
    return false;
  const View source = lowering.view(op.operands[0]);
  const size_t last = out.dims.size() - 1;
  const int64_t columns = out.dims[last].count;
  if (source.element_count() == 0 || columns * size_bytes(out.dtype) > kRowBytes) return false;
  std::optional<size_t> padded;
  int64_t from_outside = 1;
  for (size_t d = 0; d < last; from_outside *= out.dims[d++].count) {
    if (low[d] + high[d] + interior[d] == 0) continue;
    // Below other dimensions of rows, those that follow each other in HBM are fewer than an image of all.
    if (padded || from_outside > 1) return false;
    padded = d;
  }
  Emitter& emitter = lowering.emitter();
  const auto rows_of = [&](const PaddedRows& rows) {
    View part = out;
    if (padded) {
      part.offset += rows.first * out.dims[*padded].step;
      part.dims[*padded] = {out.dims[*padded].step * rows.step, rows.count};
    }
    return Matrix(part, static_cast<int>(last));
  };
  const Matrix from(source, static_cast<int>(last)),
      to = rows_of(padded ? PaddedRows{low[*padded], interior[*padded] + 1, source.dims[*padded].count}
                          : PaddedRows{});
  for (int64_t row = 0; row < from.rows(); row += kPartitions) {
    const int64_t rows = std::min(kPartitions, from.rows() - row);
    const Tile given = from.fetch(emitter, row, rows, 0, source.dims[last].count, "rows");
    if (columns == source.dims[last].count) {
      to.store(emitter, given, row, 0);
      continue;
    }
    const Tile spread = emitter.sbuf(rows, columns, out.dtype, "spread");
    emitter.memset(spread, *number);
    Tile places = spread.column_range(low[last], 1);
    places.columns = source.dims[last].count;
    places.column_step = interior[last] + 1;
    emitter.tensor_copy(places, given);
    to.store(emitter, spread, row, 0);
  }
  if (!padded) return true;
  const Tile filler = emitter.sbuf(kPartitions, columns, out.dtype, "filler");
  emitter.memset(filler, *number);
  for (const PaddedRows& rows :
       filler_rows(source.dims[*padded].count, low[*padded], interior[*padded], high[*padded])) {
    const Matrix part = rows_of(rows);
    for (int64_t row = 0; row < part.rows(); row += kPartitions)
      part.store(emitter, filler.row_range(0, std::min(kPartitions, part.rows() - row)), row, 0);
  }
  return true;
}

// What would be turned row by row into the places that a pad gives its rows is turned as a whole first.
View turned_before(Lowering& lowering, const View& place, const View& source) {
  constexpr int64_t kBlocksFewer = 4;
  std::vector<int64_t> dims;
  for (const isa::Dim& dim : source.dims) dims.push_back(dim.count);
  View whole = source;
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i]) whole.dims[i] = {step, dims[i]};
  const int64_t by_rows = turned_at_once(place, source);
  return by_rows > 0 && turned_at_once(whole, source) >= kBlocksFewer * by_rows ? lowering.copied(source)
                                                                                : source;
}

// Source element i of a dimension goes to low + i * (interior + 1); those outside the result are left out.
void pad(Lowering& lowering, const Op& op) {
  View source = lowering.view(op.operands[0]);
  const View out = lowering.allocate(op.results[0]);
  if (out.element_count() == 0 || pad_in_sbuf(lowering, op, out) || pad_with_gaps(lowering, op, out)) return;
  View value = lowering.view(op.operands[1]);
  for (const isa::Dim& dim : out.dims) value.dims.push_back({0, dim.count});
  lowering.emitter().copy(out, value);
  const auto low = op.integers(Attr::edge_padding_low), interior = op.integers(Attr::interior_padding);
  View place = out;
  for (size_t i = 0; i < out.dims.size(); ++i) {
    const int64_t step = interior[i] + 1;
    const int64_t first = low[i] >= 0 ? 0 : (-low[i] + step - 1) / step;
    const int64_t room = out.dims[i].count - (low[i] + first * step);
    const int64_t count =
        std::clamp<int64_t>((room + step - 1) / step, 0, std::max<int64_t>(source.dims[i].count - first, 0));
    source.offset += first * source.dims[i].step;
    source.dims[i].count = count;
    place.offset += (low[i] + first * step) * out.dims[i].step;
    place.dims[i] = {out.dims[i].step * step, count};
  }
  if (source.element_count() > 0)
    lowering.emitter().copy(place, turned_before(lowering, place, source), true);
}

}  // namespace

bool has_data_movement(const Function& function, const Op& op) { return takes_data_movement(function, op); }

bool lower_data_movement(Lowering& lowering, const Op& op) {
  if (!takes_data_movement(lowering.function(), op)) return false;
  switch (op.kind) {
    case OpKind::bitcast_convert_: {
      View source = lowering.view(op.operands[0]);
      const View out = lowering.allocate(op.results[0]);
      source.dtype = out.dtype;
      copy_unless_empty(lowering.emitter(), out, source);
      break;
    }
    case OpKind::concatenate_: concatenate(lowering, op); break;
    default: pad(lowering, op); break;
  }
  return true;
}

}  // namespace opentrn::compiler
