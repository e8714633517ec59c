#include "compiler/lowering/matrix.h"

#include <algorithm>

#include "compiler/lowering/boxes.h"

namespace opentrn::compiler {

namespace {

std::vector<isa::Dim> merged(std::vector<isa::Dim> dims) {
  View view;
  view.dims = std::move(dims);
  return view.merged().dims;
}

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

void Matrix::store(Emitter& emitter, const Tile& tile, int64_t row_begin, int64_t column_begin) const {
  for_parts(tile, row_begin, column_begin,
            [&](const View& part, const Tile& place) { emitter.store(part, place); });
}

}  // namespace opentrn::compiler
