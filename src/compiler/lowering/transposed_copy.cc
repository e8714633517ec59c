#include "compiler/lowering/transposed_copy.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include "compiler/lowering/boxes.h"
#include "compiler/lowering/partitions.h"

namespace opentrn::compiler {

namespace {

// Of one side, for which a block is worth the way over the chip: 64 bytes of fp32.
constexpr int64_t kSideMin = 16;
constexpr int64_t kElementsMin = 1024;
// Of a block: rows of 2 KiB of fp32 keep DMA at its full rate.
constexpr int64_t kBlock = 512;

bool turns(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

struct TransposedPair {
  int64_t count = 1, dst = 0, src = 0;  // steps
};

// Dimensions that both sides share, outermost first; nullopt where the counts have no common form.
std::optional<std::vector<TransposedPair>> common(const View& dst, const View& src) {
  std::vector<isa::Dim> a = dst.merged().dims, b = src.merged().dims;
  std::vector<TransposedPair> pairs;
  while (!a.empty() && !b.empty()) {
    const int64_t count = std::min(a.back().count, b.back().count);
    if (count == 0 || a.back().count % count != 0 || b.back().count % count != 0) return std::nullopt;
    pairs.push_back({count, a.back().step, b.back().step});
    for (auto* side : {&a, &b}) {
      isa::Dim& dim = side->back();
      dim.count /= count;
      dim.step *= count;
      if (dim.count == 1) side->pop_back();
    }
  }
  if (!a.empty() || !b.empty()) return std::nullopt;
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

// Calls `visit(dst offset, src offset)` for every place of the dimensions.
template <typename Visit>
void for_places(std::span<const TransposedPair> dims, int64_t dst, int64_t src, Visit&& visit) {
  if (dims.empty()) return visit(dst, src);
  for (int64_t i = 0; i < dims[0].count; ++i)
    for_places(dims.subspan(1), dst + i * dims[0].dst, src + i * dims[0].src, visit);
}

View part(const View& of, int64_t offset, int64_t rows, int64_t row_step, int64_t columns) {
  return {of.tensor, of.dtype, offset, {{row_step, rows}, {1, columns}}};
}

// Columns of `src` become rows of `dst`, 128 at most.
void turn(Emitter& emitter, const Tile& dst, const Tile& src) {
  const Tile transposed = emitter.psum_transposed(dst.rows, src.rows, src.dtype, "transposed");
  emitter.transpose(transposed, src);
  emitter.tensor_copy(dst, transposed);
}

// Source: rows `src_step` apart. Target: rows `dst_step` apart, one for each column of the source.
struct Matrices {
  const View &dst, &src;
  int64_t dst_step, src_step;
};

void turn_block(Emitter& emitter, const Matrices& of, int64_t dst_offset, int64_t src_offset, int64_t rows,
                int64_t columns) {
  std::vector<Tile> natural;
  for (int64_t row = 0; row < rows; row += kPartitions) {
    const int64_t count = std::min(kPartitions, rows - row);
    natural.push_back(emitter.sbuf(count, columns, of.src.dtype, "natural"));
    emitter.load(natural.back(), part(of.src, src_offset + row * of.src_step, count, of.src_step, columns));
  }
  for (int64_t column = 0; column < columns; column += kPartitions) {
    const int64_t count = std::min(kPartitions, columns - column);
    const Tile all = emitter.sbuf(count, rows, of.dst.dtype, "transposed");
    for (size_t i = 0; i < natural.size(); ++i)
      turn(emitter, all.column_range(static_cast<int64_t>(i) * kPartitions, natural[i].rows),
           natural[i].column_range(column, count));
    emitter.store(part(of.dst, dst_offset + column * of.dst_step, count, of.dst_step, rows), all);
  }
}

}  // namespace

namespace {

struct Turn {
  TransposedPair rows, columns;  // neighbours in the target, in the source
  std::vector<TransposedPair> others;
};

std::optional<Turn> turn_of(const View& dst, const View& src) {
  if (dst.dtype != src.dtype || !turns(src.dtype)) return std::nullopt;
  auto dims = common(dst, src);
  if (!dims) return std::nullopt;
  const auto to =
      std::find_if(dims->begin(), dims->end(), [](const TransposedPair& p) { return p.dst == 1; });
  const auto from =
      std::find_if(dims->begin(), dims->end(), [](const TransposedPair& p) { return p.src == 1; });
  if (to == dims->end() || from == dims->end() || to == from) return std::nullopt;
  Turn turn{*to, *from, {}};
  const auto& [rows, columns, others] = turn;
  if (rows.count < kSideMin || columns.count < kSideMin || rows.count * columns.count < kElementsMin)
    return std::nullopt;
  if (rows.src == 0 || columns.dst == 0) return std::nullopt;
  for (const TransposedPair& pair : *dims)
    if (pair.dst != 1 && pair.src != 1) turn.others.push_back(pair);
  return turn;
}

}  // namespace

bool is_transposed(const View& dst, const View& src) { return turn_of(dst, src).has_value(); }

int64_t turned_at_once(const View& dst, const View& src) {
  const auto turn = turn_of(dst, src);
  return turn ? std::min(kBlock, turn->rows.count) * std::min(kBlock, turn->columns.count) : 0;
}

bool copy_transposed(Emitter& emitter, const View& dst, const View& src) {
  const auto turn = turn_of(dst, src);
  if (!turn) return false;
  const TransposedPair &rows = turn->rows, &columns = turn->columns;
  const Matrices matrices{dst, src, columns.dst, rows.src};
  for_places(turn->others, dst.offset, src.offset, [&](int64_t dst_offset, int64_t src_offset) {
    for (int64_t row = 0; row < rows.count; row += kBlock)
      for (int64_t column = 0; column < columns.count; column += kBlock)
        turn_block(emitter, matrices, dst_offset + row + column * columns.dst,
                   src_offset + row * rows.src + column, std::min(kBlock, rows.count - row),
                   std::min(kBlock, columns.count - column));
  });
  return true;
}

bool copy_filling(Emitter& emitter, const View& dst, const View& src) {
  if (dst.dtype != src.dtype || dst.element_count() < kElementsMin) return false;
  auto dims = common(dst, src);
  if (!dims || dims->empty() || dims->back().dst != 1 || dims->back().src != 0) return false;
  int64_t columns = dims->back().count, rest = 0;
  if (columns < kSideMin) return false;
  dims->pop_back();
  if (dims->empty()) {  // one run: as rows, and what is left of them
    const int64_t whole = columns;
    columns = std::min(kBlock, columns);
    dims->push_back({whole / columns, columns, 0});
    rest = whole % columns;
  }
  const TransposedPair rows = dims->back();
  dims->pop_back();
  const int64_t height = std::min(kPartitions, rows.count), width = std::min(columns, 4 * kBlock);
  // Where all rows are alike, one tile serves all of them.
  const bool is_uniform = rows.src == 0 && std::all_of(dims->begin(), dims->end(),
                                                       [](const TransposedPair& p) { return p.src == 0; });
  const auto filled = [&](int64_t offset, int64_t count) {
    const Tile one = emitter.sbuf(count, 1, src.dtype, "fill"),
               all = emitter.sbuf(count, width, src.dtype, "fill");
    emitter.load(one, {src.tensor, src.dtype, offset, {{rows.src, count}, {0, 1}}});
    emitter.tensor_copy(all, one.repeated(width));
    return all;
  };
  std::optional<Tile> same;
  if (is_uniform) same = filled(src.offset, height);
  for_places(*dims, dst.offset, src.offset, [&](int64_t dst_offset, int64_t src_offset) {
    for (int64_t row = 0; row < rows.count; row += height) {
      const int64_t high = std::min(height, rows.count - row);
      const Tile all = same ? same->row_range(0, high) : filled(src_offset + row * rows.src, high);
      for (int64_t column = 0; column < columns; column += width) {
        const int64_t wide = std::min(width, columns - column);
        emitter.store(part(dst, dst_offset + row * rows.dst + column, high, rows.dst, wide),
                      all.column_range(0, wide));
      }
    }
  });
  if (rest > 0)
    emitter.store(part(dst, dst.offset + columns * rows.count, 1, rest, rest),
                  same->row_range(0, 1).column_range(0, rest));
  return true;
}

namespace {

// The dimension that fills most partitions, without which the others are left.
TransposedPair taken_rows(std::vector<TransposedPair>& dims) {
  const auto height = [](const TransposedPair& pair) { return std::min(kPartitions, pair.count); };
  auto best = dims.end() - 1;
  for (auto it = dims.begin(); it != dims.end(); ++it)
    if (height(*it) > height(*best)) best = it;
  const TransposedPair rows = *best;
  dims.erase(best);
  return rows;
}

// Further apart, what lies between costs more than descriptors of single elements.
constexpr int64_t kFarthest = 16;
// Of a tile that holds what lies between, too.
constexpr int64_t kSpan = 2048;

bool is_near(int64_t step) { return step == -1 || (step > 1 && step <= kFarthest); }

// `count` elements `step` apart, and what lies between: [rows, span].
struct Span {
  int64_t count, step;

  int64_t columns() const { return (count - 1) * std::abs(step) + 1; }
  int64_t lowest() const { return step < 0 ? (count - 1) * step : 0; }  // from the first element
  Tile elements(const Tile& all) const { return all.patch(step < 0 ? columns() - 1 : 0, 1, 0, count, step); }
};

struct Block {
  int64_t dst, src;  // offsets
  int64_t rows, columns;
};

// The source's elements are apart.
void pick_row(Emitter& emitter, const View& dst, const View& src, const Block& block,
              const TransposedPair& row, int64_t step) {
  const Span span{block.columns, step};
  const Tile all = emitter.sbuf(block.rows, span.columns(), src.dtype, "span"),
             picked = emitter.sbuf(block.rows, block.columns, dst.dtype, "picked");
  emitter.load(all, part(src, block.src + span.lowest(), block.rows, row.src, span.columns()));
  emitter.tensor_copy(picked, span.elements(all));
  emitter.store(part(dst, block.dst, block.rows, row.dst, block.columns), picked);
}

// The target's are.
void put_row(Emitter& emitter, const View& dst, const View& src, const Block& block,
             const TransposedPair& row, int64_t step) {
  const Span span{block.columns, step};
  const View place = part(dst, block.dst + span.lowest(), block.rows, row.dst, span.columns());
  const Tile all = emitter.sbuf(block.rows, span.columns(), dst.dtype, "span"),
             fresh = emitter.sbuf(block.rows, block.columns, src.dtype, "fresh");
  emitter.load(all, place);
  emitter.load(fresh, part(src, block.src, block.rows, row.src, block.columns));
  emitter.tensor_copy(span.elements(all), fresh);
  emitter.store(place, all);
}

}  // namespace

bool copy_strided(Emitter& emitter, const View& dst, const View& src, bool gaps_are_written) {
  if (dst.dtype != src.dtype || dst.element_count() < kElementsMin) return false;
  auto dims = common(dst, src);
  if (!dims || dims->empty()) return false;
  const TransposedPair last = dims->back();
  const bool picks = last.dst == 1 && is_near(last.src),
             puts = gaps_are_written && last.src == 1 && is_near(last.dst);
  if ((!picks && !puts) || last.count < kSideMin) return false;
  const int64_t step = picks ? last.src : last.dst, width = kSpan / std::abs(step);
  dims->pop_back();
  int64_t columns = last.count, rest = 0;
  if (dims->empty()) {  // one run: as rows, and what is left of them
    columns = std::min(columns, std::max(kSideMin, std::min(width, columns / kPartitions)));
    rest = last.count % columns;
    dims->push_back({last.count / columns, last.dst * columns, last.src * columns});
  }
  const TransposedPair rows = taken_rows(*dims);
  // Rows that share memory would write each other's gaps back.
  if (puts && rows.count > 1 && std::abs(rows.dst) < (columns - 1) * std::abs(step) + 1) return false;
  const auto move = picks ? pick_row : put_row;
  const auto cut = [&](int64_t dst_offset, int64_t src_offset, int64_t high, int64_t count) {
    for (int64_t column = 0; column < count; column += width)
      move(emitter, dst, src,
           {dst_offset + column * last.dst, src_offset + column * last.src, high,
            std::min(width, count - column)},
           rows, step);
  };
  for_places(*dims, dst.offset, src.offset, [&](int64_t dst_offset, int64_t src_offset) {
    for (int64_t row = 0; row < rows.count; row += kPartitions)
      cut(dst_offset + row * rows.dst, src_offset + row * rows.src, std::min(kPartitions, rows.count - row),
          columns);
  });
  if (rest > 0) cut(dst.offset + rows.count * rows.dst, src.offset + rows.count * rows.src, 1, rest);
  return true;
}

bool load_strided(Emitter& emitter, const Tile& dst, const View& src) {
  if (dst.space != isa::MemorySpace::kSbuf || dst.runs != 1 || dst.groups != 1 ||
      dst.rows * dst.columns < kElementsMin || !engines_reach(dst.offset / dst.row_elements, dst.rows))
    return false;
  std::vector<isa::Dim> dims = src.merged().dims;
  if (dims.size() == 1 && dims[0].count == dst.rows * dst.columns)  // a row goes on where the other ends
    dims = {{dims[0].step * dst.columns, dst.rows}, {dims[0].step, dst.columns}};
  if (dims.size() != 2 || dims[0].count != dst.rows || dims[1].count != dst.columns ||
      !is_near(dims[1].step) || dims[0].step == 0 || dst.columns < kSideMin)
    return false;
  const int64_t step = dims[1].step, width = kSpan / std::abs(step);
  for (int64_t column = 0; column < dst.columns; column += width) {
    const Span span{std::min(width, dst.columns - column), step};
    const Tile all = emitter.sbuf(dst.rows, span.columns(), src.dtype, "span");
    emitter.load(
        all, part(src, src.offset + column * step + span.lowest(), dst.rows, dims[0].step, span.columns()));
    emitter.tensor_copy(dst.column_range(column, span.count), span.elements(all));
  }
  return true;
}

namespace {

// A tile of rows and columns alone, large enough; `memory`: what lies there, its rows neighbours.
bool is_transposed_tile(const Tile& tile, const View& memory, std::vector<isa::Dim>& dims) {
  if (tile.space != isa::MemorySpace::kSbuf || tile.runs != 1 || tile.groups != 1 || tile.column_step != 1)
    return false;
  if (tile.rows < kSideMin || tile.columns < kSideMin || tile.rows * tile.columns < kElementsMin)
    return false;
  dims = memory.merged().dims;
  return dims.size() == 2 && dims[0].step == 1 && dims[1].step > 1 && dims[0].count == tile.rows &&
         dims[1].count == tile.columns;
}

}  // namespace

namespace {

// The tile, or a copy of it on partitions where an engine may begin.
Tile reached(Emitter& emitter, const Tile& tile) {
  if (engines_reach(tile.offset / tile.row_elements, tile.rows)) return tile;
  const Tile copy = emitter.sbuf(tile.rows, tile.columns, tile.dtype, "reached");
  emitter.move(copy, tile);
  return copy;
}

// Rows of a tile that are runs of memory, in one piece or in several (the channels of several images), and
// columns that are not: `columns` is what one row has of them.
struct TransposedRows {
  std::vector<isa::Dim> rows, columns;
};

std::optional<TransposedRows> transposed_rows_of(const Tile& tile, const View& memory) {
  const int64_t columns = tile.columns * tile.runs * tile.groups;
  if (!engines_reach(tile.offset / tile.row_elements, tile.rows)) return std::nullopt;
  if (tile.space != isa::MemorySpace::kSbuf || tile.rows < kSideMin || columns < kSideMin ||
      tile.rows > kPartitions || tile.rows * columns < kElementsMin)
    return std::nullopt;
  TransposedRows found{{}, memory.merged().dims};
  int64_t rows = 1;
  while (rows < tile.rows && !found.columns.empty()) {
    rows *= found.columns.front().count;
    found.rows.push_back(found.columns.front());
    found.columns.erase(found.columns.begin());
  }
  if (rows != tile.rows || found.rows.empty() || found.columns.empty()) return std::nullopt;
  if (found.rows.back().step != 1 || found.rows.back().count < kSideMin) return std::nullopt;
  const auto is_apart = [](const isa::Dim& dim) { return dim.step > 1; };
  return std::ranges::all_of(found.columns, is_apart) ? std::optional(found) : std::nullopt;
}

// `count` of a tile's columns: whole runs, or a part of one.
struct Piece {
  Tile tile;
  int64_t begin, count;  // of all columns in order
};

std::vector<Piece> pieces_of(const Tile& tile) {
  std::vector<Piece> pieces;
  const int64_t at_once = std::max<int64_t>(1, kPartitions / tile.columns);
  for (int64_t group = 0; group < tile.groups; ++group)
    for (int64_t run = 0; run < tile.runs; run += at_once) {
      const int64_t runs = std::min(at_once, tile.runs - run),
                    first = (group * tile.runs + run) * tile.columns;
      for (int64_t column = 0; column < tile.columns; column += kPartitions) {
        Tile part = tile;
        part.offset += group * tile.group_step + run * tile.run_step + column * tile.column_step;
        part.groups = 1;
        part.runs = runs;
        part.columns = std::min(kPartitions, tile.columns - column);
        pieces.push_back({part, first + column, runs * part.columns});
      }
    }
  return pieces;
}

int64_t places_of(std::span<const isa::Dim> dims) {
  int64_t count = 1;
  for (const isa::Dim& dim : dims) count *= dim.count;
  return count;
}

}  // namespace

bool load_transposed(Emitter& emitter, const Tile& dst, const View& src) {
  // Widening is exact wherever it happens.
  const bool is_exact = dst.dtype == src.dtype || dst.dtype == DType::kFloat32;
  if (!is_exact || !turns(src.dtype)) return false;
  const auto found = transposed_rows_of(dst, src);
  if (!found) return false;
  for (const Piece& piece : pieces_of(dst)) {
    const Tile natural = emitter.sbuf(piece.count, dst.rows, src.dtype, "natural");
    for (const Box& box : boxes_of(found->columns, piece.begin, piece.count)) {
      View part{src.tensor, src.dtype, src.offset + box.offset, box.dims};
      part.dims.insert(part.dims.end(), found->rows.begin(), found->rows.end());
      emitter.load(natural.row_range(box.position, places_of(box.dims)), part);
    }
    const Tile transposed = emitter.psum_transposed(dst.rows, piece.count, src.dtype, "transposed");
    emitter.transpose(transposed, natural);
    emitter.tensor_copy(piece.tile,
                        transposed.patch(0, piece.tile.runs, piece.tile.columns, piece.tile.columns, 1));
  }
  return true;
}

bool store_transposed(Emitter& emitter, const View& dst, const Tile& whole) {
  std::vector<isa::Dim> dims;
  if (dst.dtype != whole.dtype || !turns(whole.dtype) || !is_transposed_tile(whole, dst, dims)) return false;
  const Tile src = reached(emitter, whole);
  for (int64_t column = 0; column < src.columns; column += kPartitions) {
    const int64_t count = std::min(kPartitions, src.columns - column);
    const Tile transposed = emitter.sbuf(count, src.rows, src.dtype, "transposed");
    turn(emitter, transposed, src.column_range(column, count));
    emitter.store(part(dst, dst.offset + column * dims[1].step, count, dims[1].step, src.rows), transposed);
  }
  return true;
}

}  // namespace opentrn::compiler
