#include "compiler/lowering/matrix.h"

#include <algorithm>

#include "compiler/lowering/boxes.h"
#include "compiler/lowering/residency.h"

namespace opentrn::compiler {

namespace {

int64_t product(const std::vector<isa::Dim>& dims) {
  int64_t result = 1;
  for (const isa::Dim& dim : dims) result *= dim.count;
  return result;
}

}  // namespace

Matrix::Matrix(const View& view, int row_rank)
    : Matrix(view, {view.dims.begin(), view.dims.begin() + row_rank},
             {view.dims.begin() + row_rank, view.dims.end()}) {}

Matrix::Matrix(const View& base, std::vector<isa::Dim> row_dims, std::vector<isa::Dim> column_dims)
    : base_{base.tensor, base.dtype, base.offset, {}},
      row_dims_(merged(std::move(row_dims))),
      column_dims_(merged(std::move(column_dims))) {}

int64_t Matrix::rows() const { return product(row_dims_); }
int64_t Matrix::columns() const { return product(column_dims_); }

bool Matrix::all_still(const std::vector<isa::Dim>& dims) {
  return std::all_of(dims.begin(), dims.end(),
                     [](const isa::Dim& dim) { return dim.step == 0 || dim.count == 1; });
}

View Matrix::all() const {
  View view = base_;
  view.dims = row_dims_;
  view.dims.insert(view.dims.end(), column_dims_.begin(), column_dims_.end());
  return view;
}

Matrix Matrix::moved(int64_t elements) const {
  Matrix result = *this;
  result.base_.offset += elements;
  return result;
}

Matrix Matrix::beside(isa::Dim matrices) const {
  std::vector<isa::Dim> columns{matrices};
  columns.insert(columns.end(), column_dims_.begin(), column_dims_.end());
  return {base_, row_dims_, std::move(columns)};
}

namespace {

// Of dimensions that are walked row by row: the outer ones, and inner ones of `count` elements.
struct Cut {
  std::vector<isa::Dim> outer, inner;
};

std::optional<Cut> cut(std::vector<isa::Dim> dims, int64_t count) {
  Cut result{merged(std::move(dims)), {}};
  for (int64_t missing = count; missing > 1;) {
    if (result.outer.empty()) return std::nullopt;
    const isa::Dim last = result.outer.back();
    result.outer.pop_back();
    const int64_t taken = std::min(missing, last.count);
    if (missing % taken != 0 || last.count % taken != 0) return std::nullopt;
    result.inner.insert(result.inner.begin(), {last.step, taken});
    if (taken < last.count) result.outer.push_back({last.step * taken, last.count / taken});
    missing /= taken;
  }
  return result;
}

}  // namespace

std::optional<Matrix> Matrix::blocks_beside(int64_t row, int64_t rows, int64_t count) const {
  const auto boxes = boxes_of(row_dims_, row, rows * count);
  auto parts = boxes.size() == 1 ? cut(boxes[0].dims, rows) : std::nullopt;
  if (!parts) return std::nullopt;
  parts->outer.insert(parts->outer.end(), column_dims_.begin(), column_dims_.end());
  return Matrix{base_, std::move(parts->inner), std::move(parts->outer)}.moved(boxes[0].offset);
}

std::optional<Matrix> Matrix::runs_of_rows(int64_t row, int64_t runs, int64_t count) const {
  const auto boxes = boxes_of(row_dims_, row, runs * count);
  auto parts = boxes.size() == 1 ? cut(boxes[0].dims, count) : std::nullopt;
  if (!parts) return std::nullopt;
  parts->inner.insert(parts->inner.end(), column_dims_.begin(), column_dims_.end());
  return Matrix{base_, std::move(parts->outer), std::move(parts->inner)}.moved(boxes[0].offset);
}

template <typename Transfer>
void Matrix::for_parts(const Tile& tile, int64_t row_begin, int64_t column_begin, Transfer&& transfer) const {
  for (const Box& rows : boxes_of(row_dims_, row_begin, tile.rows))
    for (const Box& columns : boxes_of(column_dims_, column_begin, tile.columns)) {
      View part = base_;
      part.offset += rows.offset + columns.offset;
      part.dims = rows.dims;
      part.dims.insert(part.dims.end(), columns.dims.begin(), columns.dims.end());
      transfer(part, tile.row_range(rows.position, product(rows.dims))
                         .column_range(columns.position, product(columns.dims)));
    }
}

void Matrix::load(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin) const {
  for_parts(tile, row_begin, column_begin,
            [&](const View& part, const Tile& place) { emitter.load(place, part); });
}

bool Matrix::load_blocks(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin,
                         int64_t column_count) const {
  const int64_t blocks = tile.columns / column_count;
  const auto columns = boxes_of(column_dims_, column_begin, column_count);
  if (row_dims_.size() != 1 || columns.size() != 1 || columns[0].dims.size() > 2) return false;
  const int64_t step = row_dims_[0].step;
  View part = base_;
  part.offset += row_begin * step + columns[0].offset;
  part.dims = {{step, kPartitions}, {step * kPartitions, blocks}};
  part.dims.insert(part.dims.end(), columns[0].dims.begin(), columns[0].dims.end());
  emitter.load(tile, part);
  return true;
}

void Matrix::load_at(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin,
                     isa::RegisterId offset, int64_t bound) const {
  for_parts(tile, row_begin, column_begin,
            [&](const View& part, const Tile& place) { emitter.load_at(place, part, offset, bound); });
}

void Matrix::store_at(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin,
                      isa::RegisterId offset, int64_t bound) const {
  for_parts(tile, row_begin, column_begin,
            [&](const View& part, const Tile& place) { emitter.store_at(part, offset, bound, place); });
}

std::optional<Tile> Matrix::kept(Emitter& emitter, int64_t row_begin, int64_t row_count, int64_t column_begin,
                                 int64_t column_count, bool first_partition) const {
  const int64_t width = emitter.residency().columns(base_.tensor);
  if (width == 0) return std::nullopt;
  const auto rows = boxes_of(row_dims_, row_begin, row_count),
             columns = boxes_of(column_dims_, column_begin, column_count);
  if (rows.size() != 1 || columns.size() != 1) return std::nullopt;
  const auto row_dims = merged(rows[0].dims), column_dims = merged(columns[0].dims);
  const int64_t first = base_.offset + rows[0].offset + columns[0].offset;
  if (emitter.residency().is_by_columns(base_.tensor)) {
    const bool transposed_rows = row_dims.empty() || (row_dims.size() == 1 && row_dims[0].step == 1);
    const bool transposed_columns =
        column_dims.empty() || (column_dims.size() == 1 && column_dims[0].step == width);
    if (!transposed_rows || !transposed_columns) return std::nullopt;
    if (first_partition && first % width % kPartitions != 0) return std::nullopt;
    return emitter.residency().find_transposed(base_.tensor, first, row_count, column_count);
  }
  const bool rows_in_order = row_dims.empty() || (row_dims.size() == 1 && row_dims[0].step == width);
  const bool columns_in_order = column_dims.empty() || (column_dims.size() == 1 && column_dims[0].step == 1);
  if (!rows_in_order || !columns_in_order) return std::nullopt;
  const auto tile = emitter.residency().find(base_.tensor, first, row_count, column_count);
  if (tile && first_partition && tile->offset / tile->row_elements != 0) return std::nullopt;
  return tile;
}

Tile Matrix::fetch(Emitter& emitter, int64_t row_begin, int64_t row_count, int64_t column_begin,
                   int64_t column_count, const std::string& name) const {
  if (const auto tile = kept(emitter, row_begin, row_count, column_begin, column_count, false)) return *tile;
  const Tile tile = emitter.sbuf(row_count, column_count, dtype(), name);
  load(emitter, tile, row_begin, column_begin);
  return tile;
}

void Matrix::store(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin) const {
  for_parts(tile, row_begin, column_begin,
            [&](const View& part, const Tile& place) { emitter.store(part, place); });
}

Tile load_transposed(Emitter& emitter, const View& numbers, int64_t blocks) {
  const Matrix by_blocks(View{numbers.tensor, numbers.dtype, numbers.offset, {}}, {{kPartitions, blocks}},
                         {{1, kPartitions}});
  const Tile natural = emitter.sbuf(blocks, kPartitions, numbers.dtype, "load");
  by_blocks.load(emitter, natural, 0, 0);
  const Tile transposed = emitter.psum_transposed(kPartitions, blocks, numbers.dtype, "transposed"),
             all = emitter.sbuf(kPartitions, blocks, numbers.dtype, "load_T");
  emitter.transpose(transposed, natural);
  emitter.tensor_copy(all, transposed);
  return all;
}

}  // namespace opentrn::compiler
