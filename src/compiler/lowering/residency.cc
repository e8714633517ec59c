#include "compiler/lowering/residency.h"

#include <algorithm>

#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

namespace {

// Engines begin at partition 0, 32, 64 or 96, and reach as far as isa.C7 says.
bool can_begin_at(int64_t partition, int64_t count) {
  if (partition == 0) return true;
  if (partition == 64) return count <= 64;
  return partition % 32 == 0 && count <= 32;
}

}  // namespace

int64_t Residency::Value::partition_bytes() const {
  return static_cast<int64_t>(blocks.size()) * columns * size_bytes(whole.dtype);
}

bool Residency::Value::complete() const {
  return std::all_of(blocks.begin(), blocks.end(), [](const auto& block) { return block.has_value(); });
}

void Residency::begin_kernel(size_t place, int64_t room) {
  place_ = place;
  room_ = room;
  while (partition_bytes_ > room_ && evict_one({})) {
  }
}

size_t Residency::next_read(isa::TensorId tensor) const {
  const auto found = reads_.find(tensor);
  if (found == reads_.end()) return place_;
  const auto next = std::lower_bound(found->second.begin(), found->second.end(), place_);
  return next == found->second.end() ? kNever : *next;
}

bool Residency::reserve(const View& whole, int64_t rows, int64_t columns) {
  Value value{whole, rows, columns, {}, false, false};
  value.blocks.resize(static_cast<size_t>((rows + kPartitions - 1) / kPartitions));
  const size_t next = next_read(whole.tensor);
  if (rows * columns == 0 || value.partition_bytes() > room_ || next == kNever) return false;
  while (partition_bytes_ + value.partition_bytes() > room_)
    if (!evict_one({}, next)) return false;
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
bool Residency::evict_one(const std::set<isa::TensorId>& but, size_t read_after) {
  std::optional<isa::TensorId> last;
  for (const isa::TensorId tensor : oldest_) {
    // What the running kernel still makes or reads must stay.
    const Value& value = values_.at(tensor);
    if (is_fixed(tensor) || but.contains(tensor) || value.unwritten || !value.complete()) continue;
    if (!last || next_read(tensor) > next_read(*last)) last = tensor;
  }
  if (!last || next_read(*last) < read_after) return false;
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
  const int64_t partition = row % kPartitions;
  if (partition + count > kPartitions || !can_begin_at(partition, count)) return std::nullopt;
  auto& block = value.blocks[static_cast<size_t>(row / kPartitions)];
  if (!block)
    block = emitter_.sbuf(std::min(kPartitions, value.rows - (row - partition)), value.columns,
                          value.whole.dtype, "kept");
  return block->row_range(partition, count);
}

bool Residency::adopt(isa::TensorId tensor, int64_t row, const Tile& tile) {
  const auto found = values_.find(tensor);
  if (found == values_.end()) return false;
  Value& value = found->second;
  const bool fits = row % kPartitions == 0 && tile.rows == std::min(kPartitions, value.rows - row) &&
                    tile.columns == value.columns && (tile.column_step == 1 || tile.columns == 1) &&
                    tile.runs == 1 && tile.dtype == value.whole.dtype &&
                    tile.space == isa::MemorySpace::kSbuf;
  if (fits) value.blocks[static_cast<size_t>(row / kPartitions)] = tile;
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

std::optional<Tile> Residency::find(isa::TensorId tensor, int64_t element, int64_t rows,
                                    int64_t columns) const {
  const auto found = values_.find(tensor);
  if (found == values_.end()) return std::nullopt;
  const Value& value = found->second;
  const int64_t row = element / value.columns, column = element % value.columns,
                partition = row % kPartitions;
  if (column + columns > value.columns || partition + rows > kPartitions || !can_begin_at(partition, rows))
    return std::nullopt;
  const auto& block = value.blocks[static_cast<size_t>(row / kPartitions)];
  if (!block) return std::nullopt;
  return block->row_range(partition, rows).column_range(column, columns);
}

void Residency::flush(isa::TensorId tensor, isa::Purpose purpose) {
  const auto found = values_.find(tensor);
  if (found == values_.end() || found->second.stored) return;
  Value& value = found->second;
  value.stored = true;
  const Emitter::Moving moving(emitter_, purpose);
  const Matrix all({tensor, value.whole.dtype, value.whole.offset, {}}, {{value.columns, value.rows}},
                   {{1, value.columns}});
  for (size_t i = 0; i < value.blocks.size(); ++i) {
    OPENTRN_CHECK(value.blocks[i].has_value(), "rows of a kept value were never made");
    all.store(emitter_, *value.blocks[i], static_cast<int64_t>(i) * kPartitions, 0);
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
