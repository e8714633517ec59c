#include "compiler/lowering/residency.h"

#include <algorithm>

#include "compiler/lowering/matrix.h"
#include "compiler/lowering/partitions.h"

namespace opentrn::compiler {

namespace {}  // namespace

int64_t Residency::Value::partition_bytes() const {
  const int64_t elements = arrangement.by_columns ? rows : columns;
  return static_cast<int64_t>(blocks.size()) * elements * size_bytes(whole.dtype);
}

bool Residency::Value::complete() const {
  return std::all_of(blocks.begin(), blocks.end(), [](const auto& block) { return block.has_value(); });
}

void Residency::begin_kernel(size_t place, int64_t room) {
  place_ = place;
  room_ = room;
  // What the kernel itself reads would be loaded again at once.
  while (partition_bytes_ > room_ && evict_one({}, place_)) {
  }
}

size_t Residency::next_read(isa::TensorId tensor) const {
  const auto found = reads_.find(tensor);
  if (found == reads_.end()) return place_;
  const auto next = std::lower_bound(found->second.begin(), found->second.end(), place_);
  return next == found->second.end() ? kNever : *next;
}

void Residency::expect_now(isa::TensorId tensor) {
  const auto found = reads_.find(tensor);
  if (found == reads_.end()) return;
  std::vector<size_t>& reads = found->second;
  reads.insert(std::lower_bound(reads.begin(), reads.end(), place_), place_);
}

bool Residency::reserve(const View& whole, int64_t rows, int64_t columns, Arrangement arrangement) {
  if (arrangement.group_rows > 0 && rows % arrangement.group_rows != 0) arrangement.group_rows = 0;
  Value value{whole, rows, columns, {}, false, false, arrangement};
  if (rows * columns == 0) return false;
  const int64_t blocks = arrangement.by_columns ? (columns + kPartitions - 1) / kPartitions
                                                : rows / value.run_rows() * value.run_blocks();
  value.blocks.resize(static_cast<size_t>(blocks));
  const size_t next = next_read(whole.tensor);
  if (next == kNever) return false;
  if (value.partition_bytes() > room_) {
    crowded_ = true;
    return false;
  }
  while (partition_bytes_ + value.partition_bytes() > room_)
    if (!evict_one({}, next)) {
      crowded_ = true;
      return false;
    }
  partition_bytes_ += value.partition_bytes();
  oldest_.push_back(whole.tensor);
  values_.emplace(whole.tensor, std::move(value));
  return true;
}

void Residency::make_tiles(isa::TensorId tensor) {
  Value& value = values_.at(tensor);
  value.unwritten = true;
  for (int64_t row = 0; row < value.rows; row += kPartitions)
    place(tensor, row, std::min(kPartitions, value.rows - row));
}

// The one that is read last, and later than `read_after`; the oldest of several.
bool Residency::evict_one(const std::set<isa::TensorId>& but, std::optional<size_t> read_after) {
  std::optional<isa::TensorId> last;
  for (const isa::TensorId tensor : oldest_) {
    // What the running kernel still makes or reads must stay.
    const Value& value = values_.at(tensor);
    if (is_fixed(tensor) || but.contains(tensor) || value.unwritten || !value.complete()) continue;
    if (!last || next_read(tensor) > next_read(*last)) last = tensor;
  }
  if (!last || (read_after && next_read(*last) <= *read_after)) return false;
  crowded_ = true;
  flush(*last, isa::Purpose::kSpill);
  drop(*last);
  return true;
}

void Residency::make_room() {
  while (evict_one({})) {
  }
}

void Residency::enter_region(const std::set<isa::TensorId>& wanted) {
  while (2 * partition_bytes_ > usual_room_ && evict_one(wanted)) {
  }
  auto& kept = regions_.emplace_back();
  for (const auto& [tensor, value] : values_) kept.emplace(tensor, value.stored);
}

void Residency::leave_region() {
  const auto kept = std::move(regions_.back());
  regions_.pop_back();
  std::vector<isa::TensorId> made;
  for (auto& [tensor, value] : values_) {
    const auto found = kept.find(tensor);
    if (found == kept.end())
      made.push_back(tensor);
    else
      value.stored = found->second;
  }
  for (const isa::TensorId tensor : made) drop(tensor);
}

std::optional<Tile> Residency::place(isa::TensorId tensor, int64_t row, int64_t count) {
  const auto found = values_.find(tensor);
  if (found == values_.end()) return std::nullopt;
  Value& value = found->second;
  const int64_t partition = value.partition_of(row);
  if (value.arrangement.by_columns || partition + count > value.block_rows(row) ||
      !engines_reach(partition, count))
    return std::nullopt;
  auto& block = value.blocks[value.block_of(row)];
  if (!block) block = emitter_.sbuf(value.block_rows(row), value.columns, value.whole.dtype, "kept");
  return block->row_range(partition, count);
}

bool Residency::adopt(isa::TensorId tensor, int64_t row, const Tile& tile) {
  const auto found = values_.find(tensor);
  if (found == values_.end()) return false;
  Value& value = found->second;
  const bool fits = !value.arrangement.by_columns && value.partition_of(row) == 0 &&
                    tile.rows == value.block_rows(row) && tile.columns == value.columns &&
                    (tile.column_step == 1 || tile.columns == 1) && tile.runs == 1 &&
                    tile.dtype == value.whole.dtype && tile.space == isa::MemorySpace::kSbuf;
  if (fits) value.blocks[value.block_of(row)] = tile;
  return fits;
}

int64_t Residency::columns(isa::TensorId tensor) const {
  const auto found = values_.find(tensor);
  return found == values_.end() ? 0 : found->second.columns;
}

int64_t Residency::rows(isa::TensorId tensor) const {
  const auto found = values_.find(tensor);
  return found == values_.end() ? 0 : found->second.rows;
}

void Residency::changed(isa::TensorId tensor) {
  const auto found = values_.find(tensor);
  if (found != values_.end()) found->second.stored = found->second.unwritten = false;
}

void Residency::loaded(isa::TensorId tensor) {
  changed(tensor);
  values_.at(tensor).stored = true;
}

std::optional<Tile> Residency::find(isa::TensorId tensor, int64_t element, int64_t rows,
                                    int64_t columns) const {
  const auto found = values_.find(tensor);
  if (found == values_.end()) return std::nullopt;
  const Value& value = found->second;
  if (value.arrangement.by_columns) return std::nullopt;
  const int64_t row = element / value.columns, column = element % value.columns,
                partition = value.partition_of(row);
  if (column + columns > value.columns || partition + rows > value.block_rows(row) ||
      !engines_reach(partition, rows))
    return std::nullopt;
  const auto& block = value.blocks[value.block_of(row)];
  if (!block) return std::nullopt;
  return block->row_range(partition, rows).column_range(column, columns);
}

std::vector<Tile> Residency::parts(const View& view) const {
  const auto found = values_.find(view.tensor);
  if (found == values_.end()) return {};
  const Value& value = found->second;
  if (value.arrangement.by_columns || view.dtype != value.whole.dtype) return {};
  const std::vector<isa::Dim> dims = view.merged().dims;
  const int64_t width = value.columns, first = view.offset / width, column = view.offset % width;
  int64_t rows = 1, columns = 1;
  if (dims.size() == 1 && dims[0].step == 1) {
    const bool whole_rows = column == 0 && dims[0].count % width == 0;
    rows = whole_rows ? dims[0].count / width : 1;
    columns = whole_rows ? width : dims[0].count;
  } else if (dims.size() == 1 && dims[0].step == width) {
    rows = dims[0].count;
  } else if (dims.size() == 2 && dims[0].step == width && dims[1].step == 1) {
    rows = dims[0].count, columns = dims[1].count;
  } else if (!dims.empty()) {
    return {};
  }
  if (column + columns > width) return {};
  std::vector<Tile> tiles;
  for (int64_t row = first; row < first + rows; row += tiles.back().rows) {
    const int64_t partition = value.partition_of(row);
    const auto& block = value.blocks[value.block_of(row)];
    if (!block) return {};
    const int64_t count = std::min(value.block_rows(row) - partition, first + rows - row);
    tiles.push_back(block->row_range(partition, count).column_range(column, columns));
  }
  return tiles;
}

void Residency::flush(isa::TensorId tensor, isa::Purpose purpose) {
  const auto found = values_.find(tensor);
  if (found == values_.end() || found->second.stored) return;
  Value& value = found->second;
  value.stored = true;
  const Emitter::Moving moving(emitter_, purpose);
  if (value.arrangement.by_columns) return flush_transposed(value);
  const Matrix all({tensor, value.whole.dtype, value.whole.offset, {}}, {{value.columns, value.rows}},
                   {{1, value.columns}});
  for (int64_t row = 0; row < value.rows; row += value.block_rows(row)) {
    const auto& block = value.blocks[value.block_of(row)];
    OPENTRN_CHECK(block.has_value(), "rows of a kept value were never made");
    all.store(emitter_, *block, row, 0);
  }
}

bool Residency::is_by_columns(isa::TensorId tensor) const {
  const auto found = values_.find(tensor);
  return found != values_.end() && found->second.arrangement.by_columns;
}

Tile Residency::place_transposed(isa::TensorId tensor, int64_t column, int64_t count, int64_t row,
                                 int64_t rows) {
  Value& value = values_.at(tensor);
  const auto number = static_cast<size_t>(column / kPartitions);
  auto& block = value.blocks[number];
  const DType dtype = value.whole.dtype;
  const size_t first = number / 2 * 2;
  // Blocks of fp8 are made in pairs, one beside the other: products take two at once.
  if (size_bytes(dtype) == 1 && !value.blocks[first] &&
      static_cast<int64_t>(first + 2) * kPartitions <= value.columns) {
    const Tile both = emitter_.sbuf(kPartitions, 2 * value.rows, dtype, "resident_T");
    for (const size_t i : {0, 1})
      value.blocks[first + i] = both.column_range(static_cast<int64_t>(i) * value.rows, value.rows);
  }
  if (!block)
    block = emitter_.sbuf(std::min(kPartitions, value.columns - column), value.rows, dtype, "resident_T");
  OPENTRN_CHECK(column % kPartitions == 0 && count == block->rows, "columns {} to {} of a kept value", column,
                column + count);
  return block->column_range(row, rows);
}

void Residency::turn_in(isa::TensorId tensor, int64_t row, int64_t column, const Tile& tile) {
  for (int64_t c = 0; c < tile.columns; c += kPartitions) {
    const int64_t count = std::min(kPartitions, tile.columns - c);
    const Tile transposed = emitter_.psum_transposed(count, tile.rows, tile.dtype, "transposed");
    emitter_.transpose(transposed, tile.column_range(c, count));
    emitter_.tensor_copy(place_transposed(tensor, column + c, count, row, tile.rows), transposed);
  }
}

std::optional<Tile> Residency::find_transposed(isa::TensorId tensor, int64_t element, int64_t columns,
                                               int64_t rows) const {
  const auto found = values_.find(tensor);
  if (found == values_.end() || !found->second.arrangement.by_columns) return std::nullopt;
  const Value& value = found->second;
  const int64_t row = element / value.columns, column = element % value.columns,
                partition = column % kPartitions;
  const auto& block = value.blocks[static_cast<size_t>(column / kPartitions)];
  if (!block || row + rows > value.rows || partition + columns > block->rows ||
      !engines_reach(partition, columns))
    return std::nullopt;
  return block->row_range(partition, columns).column_range(row, rows);
}

// Transposed back, 128 rows at a time.
void Residency::flush_transposed(const Value& value) {
  const Matrix all({value.whole.tensor, value.whole.dtype, value.whole.offset, {}},
                   {{value.columns, value.rows}}, {{1, value.columns}});
  for (int64_t row = 0; row < value.rows; row += kPartitions) {
    const int64_t rows = std::min(kPartitions, value.rows - row);
    const Tile natural = emitter_.sbuf(rows, value.columns, value.whole.dtype, "by_rows");
    for (size_t i = 0; i < value.blocks.size(); ++i) {
      OPENTRN_CHECK(value.blocks[i].has_value(), "columns of a kept value were never made");
      const Tile part = value.blocks[i]->column_range(row, rows);
      const Tile transposed = emitter_.psum_transposed(rows, part.rows, part.dtype, "transposed");
      emitter_.transpose(transposed, part);
      emitter_.tensor_copy(natural.column_range(static_cast<int64_t>(i) * kPartitions, part.rows),
                           transposed);
    }
    all.store(emitter_, natural, row, 0);
  }
}

void Residency::drop(isa::TensorId tensor) {
  const auto found = values_.find(tensor);
  if (found == values_.end()) return;
  partition_bytes_ -= found->second.partition_bytes();
  values_.erase(found);
  std::erase(oldest_, tensor);
}

}  // namespace opentrn::compiler
