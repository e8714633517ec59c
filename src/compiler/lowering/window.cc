#include "compiler/lowering/window.h"

namespace opentrn::compiler {

namespace {

// The elements of one dimension that lie in [begin, begin + extent) of its padded, dilated form: the first
// of them, how many, and where the first lands.
struct Inside {
  int64_t first, count, place;
};

Inside inside(const Window& window, int64_t begin, int64_t extent) {
  const int64_t from = begin - window.low;  // in dilated coordinates
  const int64_t first = std::max<int64_t>(0, (from + window.base_dilation - 1) / window.base_dilation);
  const int64_t skipped = from <= 0 ? 0 : first;
  const int64_t end = from + extent;  // exclusive
  const int64_t last = std::min(window.input, end <= 0 ? 0 : (end - 1) / window.base_dilation + 1);
  return {skipped, std::max<int64_t>(0, last - skipped), skipped * window.base_dilation - from};
}

}  // namespace

int64_t band_rows(const Window& vertical, const Window& horizontal, int64_t element_bytes, int64_t bytes) {
  const int64_t row_bytes = horizontal.extent(horizontal.output) * element_bytes;
  int64_t rows = vertical.output;
  while (rows > 1 && vertical.extent(rows) * row_bytes > bytes) rows = (rows + 1) / 2;
  return rows;
}

Band load_band(Emitter& emitter, const View& image, int64_t channel, int64_t channels, const Window& vertical,
               const Window& horizontal, int64_t out_row, int64_t out_rows, double fill, DType dtype) {
  const int64_t height = vertical.extent(out_rows), width = horizontal.extent(horizontal.output);
  const Inside rows = inside(vertical, out_row * vertical.stride, height);
  const Inside columns = inside(horizontal, 0, width);
  const Band band{emitter.sbuf(channels, height * width, dtype, "band"), width};
  const bool whole = rows.count == height && columns.count == width;
  if (!whole) emitter.memset(band.tile, fill);
  if (rows.count == 0 || columns.count == 0) return band;
  View part = image;
  part.offset +=
      channel * image.dims[0].step + rows.first * image.dims[1].step + columns.first * image.dims[2].step;
  part.dims = {
      {image.dims[0].step, channels}, {image.dims[1].step, rows.count}, {image.dims[2].step, columns.count}};
  emitter.load(band.tile.patch(rows.place * width + columns.place, rows.count, vertical.base_dilation * width,
                               columns.count, horizontal.base_dilation),
               part);
  return band;
}

Tile tap(const Band& band, const Window& vertical, const Window& horizontal, int64_t y, int64_t x,
         int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const int64_t top = row * vertical.stride + y * vertical.window_dilation;
  const int64_t left = column * horizontal.stride + x * horizontal.window_dilation;
  return band.tile.patch(top * band.width + left, rows, vertical.stride * band.width, columns,
                         horizontal.stride);
}

}  // namespace opentrn::compiler
