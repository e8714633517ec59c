#include "compiler/lowering/joint_transfers.h"

#include <algorithm>
#include <vector>

#include "compiler/lowering/tiling.h"

namespace opentrn::compiler {

int64_t parts_in_a_transfer(const TileSource& source, int64_t columns, bool whole_rows) {
  const auto parts = source.parts();
  const auto panels = source.panels();
  if (parts.empty() || panels.size() != 1 || columns == 0 || columns > kTransferColumns / 2) return 1;
  if (!whole_rows && source.tiles_of(panels[0]).size() != 1) return 1;
  const int64_t rows = parts[0][0].count;
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i].size() != 1 || parts[i][0].count != rows ||
        parts[i][0].begin != static_cast<int64_t>(i) * rows)
      return 1;
  const auto all = static_cast<int64_t>(parts.size());
  int64_t count = std::min(all, tiles(kTransferColumns, columns));
  while (all % count != 0) --count;
  return count;
}

void JointTransfers::begin_columns(const ColumnBlock& columns) {
  columns_ = columns;
  if (!joins_parts()) loads_.clear();
}

void JointTransfers::begin_parts(int64_t first_row, int64_t rows, int64_t count, int64_t columns) {
  parts_ = {first_row, rows, count, columns};
}

void JointTransfers::store(const std::map<graph::ValueId, Matrix>& outputs, int64_t row) {
  for (const auto& [value, tile] : stores_) {
    const Matrix& m = outputs.at(value);
    if (joins_parts())
      m.blocks_beside(parts_.first_row, parts_.rows, parts_.count)->store(emitter_, tile, 0, 0);
    else
      m.store(emitter_, tile, row, columns_.begin);
  }
  stores_.clear();
  if (joins_parts()) loads_.clear();
  parts_ = {};
}

bool JointTransfers::joins(const Matrix& m, const Rectangle& at) const {
  if (!joins_parts()) return columns_.count > at.columns;
  return !m.kept(emitter_, parts_.first_row, parts_.rows, 0, parts_.columns, /*first_partition=*/false) &&
         m.blocks_beside(parts_.first_row, parts_.rows, parts_.count).has_value();
}

bool JointTransfers::joins_store(graph::ValueId value, const Matrix& m, const Rectangle& at) const {
  if (joins_parts() && at.row_begin != parts_.first_row) return stores_.contains(value);
  return joins(m, at);
}

Tile JointTransfers::part(const Tile& all, const Rectangle& at) const {
  if (!joins_parts()) return all.column_range(at.column_begin - columns_.begin, at.columns);
  return all.column_range((at.row_begin - parts_.first_row) / parts_.rows * parts_.columns, parts_.columns);
}

Tile JointTransfers::loaded(const Key& key, const Matrix& m, const Rectangle& at) {
  auto found = loads_.find(key);
  if (found == loads_.end()) {
    const Tile all = joins_parts()
                         ? m.blocks_beside(parts_.first_row, parts_.rows, parts_.count)
                               ->fetch(emitter_, 0, at.rows, 0, columns(), "load")
                         : m.fetch(emitter_, at.row_begin, at.rows, columns_.begin, columns_.count, "load");
    found = loads_.emplace(key, all).first;
  }
  return part(found->second, at);
}

Tile JointTransfers::stored(graph::ValueId value, const Matrix& m, const Rectangle& at) {
  auto found = stores_.find(value);
  if (found == stores_.end())
    found = stores_.emplace(value, emitter_.sbuf(at.rows, columns(), m.dtype(), "out")).first;
  return part(found->second, at);
}

}  // namespace opentrn::compiler
