// scatter that adds rows to a table (the gradient of an embedding, segment sums, counts): rows of one index
// are summed by the Tensor engine, so that no window waits for the one before it.
//
// Which rows meet is a matrix of zeros and ones, made by comparing indices:
//   a short table        compared with the table's rows; products of all windows meet in PSUM, and the table
//   is
//                        read and written once
//   numbers, not rows    the index as two digits: one factor has a window's high digit, the other its number
//   at
//                        the low digit; their product is the table, so that few comparisons are made
//   a long table         128 windows compared with each other; each then holds the sum of all with its index.
//                        An indirect DMA gathers the table's rows, another puts the sums back; windows of one
//                        index write the same bits.
//
// Zero times an infinity or NaN is NaN, which would reach rows that it does not belong to. So such updates
// are zeros in the product, and two further products count them: where a count is not zero, the infinity is
// added at the end, or both, which is NaN. Numbers that were integers, and constants, need neither.
//
// An index outside of the table matches no row of it, and the DMA skips it. Sums are of fp32, in the order of
// the Tensor engine.
#include "compiler/lowering/scatter_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

// Table rows up to which comparing with all of them beats a gather and a scatter for every 128 windows.
constexpr int64_t kShortTable = 4096;
// fp32 keeps indices apart up to here.
constexpr int64_t kLongestTable = int64_t{1} << 24;
// Instructions go with windows; the loop of expand/long_scatter.cc takes more.
constexpr int64_t kMostWindows = int64_t{1} << 18;
constexpr int64_t kWidestRow = 8192;
// Of a table of numbers: digits of at most 7 bits each, times as many passes.
constexpr int64_t kDigit = 128, kMostPasses = 8;
// Windows of numbers beside each other in a partition: at most, and by what their factors take.
constexpr int64_t kChunk = 64, kFactorColumns = 8192;
constexpr int kPartsMax = 3;  // the finite update, whether it is infinite or NaN, minus infinite or NaN

bool is_list(const Op& op, Attr attr, std::initializer_list<int64_t> wanted) {
  const std::vector<int64_t> list = op.integers_or(attr, 0, 0);
  return list.size() == wanted.size() && std::equal(list.begin(), list.end(), wanted.begin());
}

bool has_float_table(const Function& function, const Op& op) {
  const graph::Type &table = function.type(op.operands[0]), &updates = function.type(op.operands[2]);
  return !table.quantization() && device_dtype(table.element()) == DType::kFloat32 &&
         graph::is_float(table.element()) && updates.element() == table.element() && table.is_static();
}

// The operand as a table of rows, whatever is summed; nothing where windows are not rows.
std::optional<RowSums> table_of(const Function& function, const Op& op) {
  const graph::Type &table = function.type(op.operands[0]), &indices = function.type(op.operands[1]),
                    &updates = function.type(op.operands[2]);
  if (device_dtype(indices.element()) != DType::kInt32 || table.rank() == 0) return std::nullopt;
  if (!is_list(op, Attr::inserted_window_dims, {0}) ||
      !is_list(op, Attr::scatter_dims_to_operand_dims, {0}) || !is_list(op, Attr::input_batching_dims, {}))
    return std::nullopt;
  const int64_t vector_dim = op.integer(Attr::index_vector_dim);
  if (vector_dim != indices.rank() &&
      (vector_dim != indices.rank() - 1 || indices.dim(indices.rank() - 1) != 1))
    return std::nullopt;
  // Windows are whole rows, behind the dimensions that number them.
  const std::vector<int64_t> window = op.integers_or(Attr::update_window_dims, 0, 0);
  const int leading = updates.rank() - static_cast<int>(window.size());
  if (static_cast<int>(window.size()) != table.rank() - 1) return std::nullopt;
  for (int d = 0; d + 1 < table.rank(); ++d)
    if (window[static_cast<size_t>(d)] != leading + d || updates.dim(leading + d) != table.dim(d + 1))
      return std::nullopt;
  RowSums sums{.table_rows = table.dim(0), .width = 1, .count = indices.element_count()};
  if (table.element_count() == 0 || sums.count == 0) return std::nullopt;
  sums.width = table.element_count() / sums.table_rows;
  const bool fits =
      sums.table_rows <= kLongestTable && sums.width <= kWidestRow && sums.count <= kMostWindows;
  return fits ? std::optional(sums) : std::nullopt;
}

bool adds(const Function& function, const Op& op) {
  return op.kind == OpKind::scatter_ && op.results.size() == 1 && op.operands.size() == 3 &&
         combiner_of(function, op) == OpKind::add_;
}

}  // namespace

std::optional<RowSums> row_sums_of(const Function& function, const Op& op) {
  return adds(function, op) && has_float_table(function, op) ? table_of(function, op) : std::nullopt;
}

std::optional<RowSums> row_extremes_of(const Function& function, const Op& op) {
  const auto combiner = combiner_of(function, op);
  const bool is_extreme =
      combiner == OpKind::maximum_ || combiner == OpKind::minimum_ || combiner == OpKind::multiply_;
  return is_extreme && has_float_table(function, op) ? table_of(function, op) : std::nullopt;
}

bool has_whole_row_sums(const Function& function, const Op& op) {
  return adds(function, op) && table_of(function, op).has_value();
}

namespace {

bool is_finite(const Function& function, graph::ValueId value) {
  if (const auto number = splat_of(function, value)) return std::isfinite(*number);
  const Op* op = maker(function, value);
  if (op == nullptr || op->operands.empty()) return false;
  if (is_view_op(op->kind)) return is_finite(function, op->operands[0]);
  const graph::ElementType from = function.type(op->operands[0]).element();
  return op->kind == OpKind::convert_ && (graph::is_integer(from) || graph::is_bool(from));
}

class ScatterSums {
 public:
  ScatterSums(Lowering& lowering, const Op& op, const RowSums& sums)
      : lowering_(lowering),
        emitter_(lowering.emitter()),
        op_(op),
        sums_(sums),
        every_update_(splat_of(lowering.function(), op.operands[2])),
        parts_(is_finite(lowering.function(), op.operands[2]) ? 1 : kPartsMax) {}

  void run() {
    const std::vector<int64_t> list{sums_.count}, rows{sums_.count, sums_.width};
    indices_ = lowering_.reshaped_or_copied(lowering_.view(op_.operands[1]), list);
    updates_ = lowering_.reshaped_or_copied(lowering_.view(op_.operands[2]), rows);
    if (sums_.width == 1 && sums_.table_rows <= kDigit * kDigit * kMostPasses) return by_digits();
    if (sums_.table_rows <= kShortTable) return by_rows();
    by_windows();
  }

 private:
  Tile floats(int64_t rows, int64_t columns, const char* name) {
    return emitter_.sbuf(rows, columns, DType::kFloat32, name);
  }

  Tile filled(int64_t rows, int64_t columns, double value) {
    const Tile tile = floats(rows, columns, "fill");
    emitter_.memset(tile, value);
    return tile;
  }

  // Numbers from a list in memory: [rows, columns], `from` the first; a partition holds neighbours.
  Tile loaded(const View& list, int64_t from, int64_t rows, int64_t columns, const char* name) {
    const int64_t step = list.dims.empty() ? 0 : list.dims[0].step;
    const Tile tile = emitter_.sbuf(rows, columns, list.dtype, name);
    emitter_.load(
        tile,
        {list.tensor, list.dtype, list.offset + from * step, {{columns * step, rows}, {step, columns}}});
    return tile;
  }

  Tile as_float(const Tile& integers) {
    const Tile tile = floats(integers.rows, integers.columns, "index");
    emitter_.tensor_copy(tile, integers);
    return tile;
  }

  // The parts of updates beside each other, `count` columns each, of which `data` holds the first.
  void split(const Tile& parts, int64_t count) {
    if (parts_ == 1) return;
    constexpr double kLargest = std::numeric_limits<float>::max();
    const Tile data = parts.column_range(0, count), plus = parts.column_range(count, count),
               minus = parts.column_range(2 * count, count);
    emitter_.tensor_scalar(AluOp::kLessEqual, kLargest, AluOp::kEqual, 0.0, plus, data);
    emitter_.tensor_scalar(AluOp::kGreaterEqual, -kLargest, AluOp::kEqual, 0.0, minus, data);
    const Tile either = floats(data.rows, count, "not_finite");
    emitter_.tensor_tensor(AluOp::kMaximum, either, plus, minus);
    emitter_.copy_where(data, zeros(data.rows, count), either.as(DType::kUint32));
  }

  Tile zeros(int64_t rows, int64_t columns) {
    if (!zeros_ || zeros_->columns < columns || zeros_->rows < rows)
      zeros_ = filled(std::max(rows, zeros_ ? zeros_->rows : 0),
                      std::max(columns, zeros_ ? zeros_->columns : 0), 0.0);
    return zeros_->row_range(0, rows).column_range(0, columns);
  }

  // dst = data + sums, and the infinities that were counted.
  void finish(const Tile& dst, const Tile& data, const std::array<Tile, kPartsMax>& sums) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    emitter_.tensor_tensor(AluOp::kAdd, dst, data, sums[0]);
    for (int part = 1; part < parts_; ++part) {
      const Tile found = emitter_.sbuf(dst.rows, dst.columns, DType::kUint8, "found");
      emitter_.tensor_scalar(AluOp::kGreater, found, sums[static_cast<size_t>(part)], 0.0);
      const Tile extra = filled(dst.rows, dst.columns, 0.0);
      emitter_.copy_where(extra, filled(dst.rows, dst.columns, part == 1 ? kInfinity : -kInfinity), found);
      emitter_.tensor_tensor(AluOp::kAdd, dst, dst, extra);
    }
  }

  // Rows of the operand, or a number in all of them.
  Tile operand_rows(const Matrix& rows, int64_t row, int64_t count, int64_t column, int64_t columns) {
    const Tile tile = floats(count, columns, "table");
    if (rows.same_in_every_row() && rows.same_in_every_column()) {
      const Tile one = floats(count, 1, "table");
      rows.load(emitter_, one, row, column);
      emitter_.tensor_copy(tile, one.repeated(columns));
    } else {
      rows.load(emitter_, tile, row, column);
    }
    return tile;
  }

  // -- a short table

  void by_rows() {
    const std::vector<int64_t> shape{sums_.table_rows, sums_.width};
    const Matrix before(lowering_.reshaped_or_copied(lowering_.view(op_.operands[0]), shape), 1);
    const Matrix after(*Lowering::reshaped(lowering_.allocate(op_.results[0]), shape), 1);
    const Matrix updates(updates_, 1);
    const View counted = lowering_.counted(sums_.table_rows);
    const Tile numbers = floats(kPartitions, sums_.table_rows, "rows");
    emitter_.load(numbers,
                  {counted.tensor, counted.dtype, counted.offset, {{0, kPartitions}, {1, sums_.table_rows}}});
    // Sums stay in PSUM: a bank holds those of 128 rows, with their three parts, or of several such.
    constexpr int64_t kBanks = 6;
    const int64_t width = std::min(sums_.width, kPsumBankColumns / parts_);
    const int64_t pass = kBanks * (kPsumBankColumns / (parts_ * width)) * kPartitions;
    for (int64_t column = 0; column < sums_.width; column += width)
      for (int64_t row = 0; row < sums_.table_rows; row += pass)
        add_rows(numbers.column_range(row, std::min(pass, sums_.table_rows - row)), row, column,
                 std::min(width, sums_.width - column), {before, after, updates});
  }

  struct Tables {
    const Matrix &before, &after, &updates;
  };

  void add_rows(const Tile& numbers, int64_t first, int64_t column, int64_t width, const Tables& tables) {
    const int64_t per_bank = kPsumBankColumns / (parts_ * width);
    std::vector<Tile> sums;
    for (int64_t row = 0; row < numbers.columns; row += kPartitions) {
      const int64_t number = row / kPartitions;
      sums.push_back(emitter_.psum_at(number / per_bank, number % per_bank * parts_ * width * 4,
                                      std::min(kPartitions, numbers.columns - row), parts_ * width,
                                      DType::kFloat32, "sums"));
    }
    for (int64_t at = 0; at < sums_.count; at += kPartitions) {
      const int64_t count = std::min(kPartitions, sums_.count - at);
      const Tile parts = floats(count, parts_ * width, "updates"),
                 matches = floats(count, numbers.columns, "matches");
      tables.updates.load(emitter_, parts.column_range(0, width), at, column);
      split(parts, width);
      const Tile index = as_float(loaded(indices_, at, count, 1, "index"));
      emitter_.tensor_scalar(AluOp::kEqual, matches, numbers.row_range(0, count), index);
      for (size_t i = 0; i < sums.size(); ++i)
        emitter_.matmul(sums[i], matches.column_range(static_cast<int64_t>(i) * kPartitions, sums[i].rows),
                        parts, at > 0);
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const int64_t row = first + static_cast<int64_t>(i) * kPartitions;
      const Tile total = floats(sums[i].rows, width, "total");
      finish(total, operand_rows(tables.before, row, total.rows, column, width), parts_of(sums[i], width));
      tables.after.store(emitter_, total, row, column);
    }
  }

  std::array<Tile, kPartsMax> parts_of(const Tile& sums, int64_t width) const {
    std::array<Tile, kPartsMax> parts;
    for (int64_t part = 0; part < parts_; ++part)
      parts[static_cast<size_t>(part)] = sums.column_range(part * width, width);
    return parts;
  }

  // -- numbers

  void by_digits() {
    // A window is compared with all high digits and all low ones, and each of its parts put at a low one:
    // fewer low than high digits, and all rows in one pass where two digits reach.
    const int64_t per_low = every_update_ == 1.0 ? 1 : 1 + parts_;
    int64_t low = 8;
    while (low < kDigit && (per_low * low * low < sums_.table_rows || low * kDigit < sums_.table_rows))
      low *= 2;
    const std::vector<int64_t> shape{sums_.table_rows};
    const View before = lowering_.reshaped_or_copied(lowering_.view(op_.operands[0]), shape);
    const View after = *Lowering::reshaped(lowering_.allocate(op_.results[0]), shape);
    // Whole vectors of hosts' processors, where that is little more.
    constexpr int64_t kUnit = 8;
    int64_t high = std::min(kDigit, (sums_.table_rows + low - 1) / low);
    if (high > 4 * kUnit) high = (high + kUnit - 1) / kUnit * kUnit;
    const View counted = lowering_.counted(kDigit);
    const Tile digits = floats(kPartitions, kDigit, "digits");
    emitter_.load(digits, {counted.tensor, counted.dtype, counted.offset, {{0, kPartitions}, {1, kDigit}}});
    for (int64_t first = 0; first < sums_.table_rows; first += high * low)
      add_numbers(digits, first, high, low, before, after);
  }

  void add_numbers(const Tile& digits, int64_t first, int64_t high, int64_t low, const View& before,
                   const View& after) {
    const Tile sums = emitter_.psum(high, parts_ * low, DType::kFloat32, "sums");
    bool begun = false;
    const int64_t whole = sums_.count / kPartitions;  // columns of full partitions
    const auto add = [&](int64_t from, int64_t rows, int64_t row_step, int64_t columns) {
      const auto [highs, lows] = add_chunk(digits, first, high, low, {from, rows, row_step, columns});
      for (int64_t i = 0; i < columns; ++i) {
        emitter_.matmul(sums, highs.column_range(i * high, high),
                        lows.column_range(i * parts_ * low, parts_ * low), begun);
        begun = true;
      }
    };
    const int64_t chunk = std::min(kChunk, kFactorColumns / (high + parts_ * low));
    for (int64_t column = 0; column < whole; column += chunk)
      add(column, kPartitions, whole, std::min(chunk, whole - column));
    if (const int64_t rest = sums_.count % kPartitions) add(whole * kPartitions, rest, 1, 1);
    store_numbers(sums, first, high, low, before, after);
  }

  // Windows from + row * row_step + column.
  struct Chunk {
    int64_t from, rows, row_step, columns;
  };

  Tile chunk_of(const View& list, const Chunk& chunk, const char* name) {
    const int64_t step = list.dims.empty() ? 0 : list.dims[0].step;
    const Tile tile = emitter_.sbuf(chunk.rows, chunk.columns, list.dtype, name);
    View part{list.tensor,
              list.dtype,
              list.offset + chunk.from * step,
              {{chunk.row_step * step, chunk.rows}, {step, chunk.columns}}};
    if (step != 0) {
      emitter_.load(tile, part);
      return tile;
    }
    part.dims[1].count = 1;
    const Tile one = emitter_.sbuf(chunk.rows, 1, list.dtype, name);
    emitter_.load(one, part);
    emitter_.tensor_copy(tile, one.repeated(chunk.columns));
    return tile;
  }

  Tile parts_of_chunk(const Chunk& chunk) {
    const Tile parts = floats(chunk.rows, parts_ * chunk.columns, "updates");
    emitter_.tensor_copy(parts.column_range(0, chunk.columns), chunk_of(updates_, chunk, "update"));
    split(parts, chunk.columns);
    return parts;
  }

  struct Factors {
    Tile highs, lows;
  };
  // Per window: where its high digit is (`high` columns); and its parts, each at its low digit. Tiles of
  // their own, as the first is written by one instruction.
  Factors add_chunk(const Tile& digits, int64_t first, int64_t high, int64_t low, const Chunk& chunk) {
    const int64_t rows = chunk.rows, columns = chunk.columns;
    const Tile raw = chunk_of(indices_, chunk, "index"),
               index = emitter_.sbuf(rows, columns, DType::kInt32, "index"),
               high_digit = emitter_.sbuf(rows, columns, DType::kInt32, "digit"),
               low_digit = emitter_.sbuf(rows, columns, DType::kInt32, "digit");
    int64_t bits = 0;
    while ((int64_t{1} << bits) < low) ++bits;
    const Tile start = emitter_.sbuf(rows, 1, DType::kInt32, "first");
    emitter_.memset(start, static_cast<double>(first));
    emitter_.tensor_tensor(AluOp::kSubtract, index, raw, start.repeated(columns));
    emitter_.tensor_scalar(AluOp::kArithmeticRightShift, high_digit, index, static_cast<double>(bits));
    emitter_.tensor_scalar(AluOp::kBitwiseAnd, low_digit, index, static_cast<double>(low - 1));
    const Tile h = as_float(high_digit), l = as_float(low_digit);
    const bool counts = every_update_ == 1.0;
    const Tile parts = counts ? Tile{} : parts_of_chunk(chunk);
    const Tile highs = floats(rows, columns * high, "factors"),
               lows = floats(rows, columns * parts_ * low, "factors");
    // [columns][digit]: one of the two stands still.
    const auto each = [&](const Tile& of, int64_t count) { return of.patch(0, columns, 1, count, 0); };
    const auto digit = [&](int64_t count) {
      return digits.row_range(0, rows).patch(0, columns, 0, count, 1);
    };
    emitter_.tensor_tensor(AluOp::kEqual, highs.patch(0, columns, high, high, 1), each(h, high), digit(high));
    if (counts) {
      emitter_.tensor_tensor(AluOp::kEqual, lows.patch(0, columns, low, low, 1), each(l, low), digit(low));
      return {highs, lows};
    }
    const Tile here = floats(rows, columns * low, "digit");
    const Tile here_by_digit = here.patch(0, columns, low, low, 1);
    emitter_.tensor_tensor(AluOp::kEqual, here_by_digit, each(l, low), digit(low));
    for (int part = 0; part < parts_; ++part)
      emitter_.tensor_tensor(AluOp::kMultiply, lows.patch(part * low, columns, parts_ * low, low, 1),
                             here_by_digit, each(parts.column_range(part * columns, columns), low));
    return {highs, lows};
  }

  void store_numbers(const Tile& sums, int64_t first, int64_t high, int64_t low, const View& before,
                     const View& after) {
    const int64_t count = std::min(high * low, sums_.table_rows - first), full = count / low,
                  rest = count % low;
    const int64_t step = before.dims.empty() ? 0 : before.dims[0].step;
    const Tile table = filled(high, low, 0.0), total = floats(high, low, "total");
    const auto place = [&](const View& of, int64_t of_step, int64_t row, int64_t rows, int64_t columns) {
      return View{of.tensor,
                  of.dtype,
                  of.offset + (first + row * low) * of_step,
                  {{low * of_step, rows}, {of_step, columns}}};
    };
    if (step == 0) {
      const Tile one = floats(high, 1, "table");
      emitter_.load(one, place(before, 0, 0, high, 1));
      emitter_.tensor_copy(table, one.repeated(low));
    } else {
      if (full > 0) emitter_.load(table.row_range(0, full), place(before, step, 0, full, low));
      if (rest > 0)
        emitter_.load(table.row_range(full, 1).column_range(0, rest), place(before, step, full, 1, rest));
    }
    finish(total, table, parts_of(sums, low));
    if (full > 0) emitter_.store(place(after, 1, 0, full, low), total.row_range(0, full));
    if (rest > 0)
      emitter_.store(place(after, 1, full, 1, rest), total.row_range(full, 1).column_range(0, rest));
  }

  // -- a long table

  void by_windows() {
    const std::vector<int64_t> shape{sums_.table_rows, sums_.width};
    const View after = lowering_.allocate(op_.results[0]);
    emitter_.copy(after, lowering_.view(op_.operands[0]));
    const View table = *Lowering::reshaped(after, shape);
    const Matrix updates(updates_, 1);
    for (int64_t at = 0; at < sums_.count; at += kPartitions) add_windows(table, updates, at);
  }

  void add_windows(const View& table, const Matrix& updates, int64_t at) {
    const int64_t count = std::min(kPartitions, sums_.count - at),
                  step = indices_.dims.empty() ? 0 : indices_.dims[0].step;
    const Tile asked = loaded(indices_, at, count, 1, "index"), index = as_float(asked);
    const Tile all = emitter_.sbuf(count, count, DType::kInt32, "indices"),
               matches = floats(count, count, "matches");
    emitter_.load(
        all, {indices_.tensor, indices_.dtype, indices_.offset + at * step, {{0, count}, {step, count}}});
    emitter_.tensor_scalar(AluOp::kEqual, matches, as_float(all), index);
    const Tile inside = clamped(asked);
    for (int64_t column = 0; column < sums_.width; column += kPsumBankColumns) {
      const int64_t width = std::min(kPsumBankColumns, sums_.width - column);
      const Tile parts = floats(count, parts_ * width, "updates"), there = floats(count, width, "there"),
                 total = floats(count, width, "total");
      updates.load(emitter_, parts.column_range(0, width), at, column);
      split(parts, width);
      std::array<Tile, kPartsMax> sums;
      for (int part = 0; part < parts_; ++part) {
        sums[static_cast<size_t>(part)] = emitter_.psum(count, width, DType::kFloat32, "sums");
        emitter_.matmul(sums[static_cast<size_t>(part)], matches, parts.column_range(part * width, width),
                        false);
      }
      View block = table;
      block.offset += column * table.dims[1].step;
      block.dims[1].count = width;
      emitter_.gather_rows(there, block, inside);
      finish(total, there, sums);
      emitter_.scatter_rows(block, asked, total);
    }
  }

  // Into the table: what is outside is gathered from somewhere, and not put back.
  Tile clamped(const Tile& index) {
    const auto limit = [&](double value) {
      const Tile tile = emitter_.sbuf(index.rows, 1, DType::kInt32, "limit");
      emitter_.memset(tile, value);
      return tile;
    };
    const Tile above = emitter_.sbuf(index.rows, 1, DType::kInt32, "index"),
               inside = emitter_.sbuf(index.rows, 1, DType::kInt32, "index");
    emitter_.tensor_tensor(AluOp::kMaximum, above, index, limit(0));
    emitter_.tensor_tensor(AluOp::kMinimum, inside, above, limit(static_cast<double>(sums_.table_rows - 1)));
    return inside;
  }

  Lowering& lowering_;
  Emitter& emitter_;
  const Op& op_;
  RowSums sums_;
  std::optional<double> every_update_;
  int parts_;
  View indices_, updates_;
  std::optional<Tile> zeros_;
};

}  // namespace

bool has_scatter_sums(const Function& function, const Op& op) {
  return row_sums_of(function, op).has_value();
}

bool lower_scatter_sums(Lowering& lowering, const Op& op) {
  const auto sums = row_sums_of(lowering.function(), op);
  if (!sums) return false;
  ScatterSums(lowering, op, *sums).run();
  return true;
}

}  // namespace opentrn::compiler
