#include "compiler/lowering/window.h"

#include "compiler/lowering/residency.h"

namespace opentrn::compiler {

namespace {

// Shorter runs than this leave DMA engines below half of their rate
// (curve.dma_efficiency_by_bytes_per_partition and dma_descriptor_extra_ns of the tables): rows of an image
// are then loaded without gaps, and an engine moves them to where the padding leaves room.
constexpr int64_t kRunBytes = 512;

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

namespace {

// Rows of images as they lie, in a tile of their own: where they are kept in SBUF, or where they follow each
// other in memory and are short or `spread` over a band with gaps between elements, which DMA would fill one
// by one.
std::optional<Tile> without_gaps(Emitter& emitter, const View& rows, DType dtype, bool spread) {
  const Matrix matrix(rows, 1);
  if (rows.dtype != dtype) return std::nullopt;
  if (const auto kept = matrix.kept(emitter, 0, matrix.rows(), 0, matrix.columns(), /*first_partition=*/true))
    return kept;
  const int64_t width = rows.dims[3].count;
  if (rows.dims[3].step != 1 || rows.dims[2].step != width) return std::nullopt;
  if (!spread && (rows.dims[2].count == 1 || width * size_bytes(dtype) >= kRunBytes)) return std::nullopt;
  const Tile tile = emitter.sbuf(matrix.rows(), matrix.columns(), dtype, "rows");
  matrix.load(emitter, tile, 0, 0);
  return tile;
}

}  // namespace

Band load_band(Emitter& emitter, const View& images, const Window& vertical, const Window& horizontal,
               int64_t out_row, int64_t out_rows, double fill, DType dtype) {
  const int64_t height = vertical.extent(out_rows), width = horizontal.extent(horizontal.output);
  const int64_t count = images.dims[1].count;
  const Inside rows = inside(vertical, out_row * vertical.stride, height);
  const Inside columns = inside(horizontal, 0, width);
  const Band band{emitter.sbuf(images.dims[0].count, count * height * width, dtype, "band"), width, height};
  const bool whole = rows.count == height && columns.count == width;
  if (!whole) emitter.memset(band.tile, fill);
  if (rows.count == 0 || columns.count == 0) return band;
  const Tile place =
      band.tile.patches(rows.place * width + columns.place, count, height * width, rows.count,
                        vertical.base_dilation * width, columns.count, horizontal.base_dilation);
  View part = images;
  part.offset += rows.first * images.dims[2].step;
  part.dims[2].count = rows.count;
  if (const auto loaded = without_gaps(emitter, part, dtype, horizontal.base_dilation > 1)) {
    const int64_t row = part.dims[3].count;
    emitter.tensor_copy(
        place, loaded->patches(columns.first, count, rows.count * row, rows.count, row, columns.count, 1));
    return band;
  }
  part.offset += columns.first * images.dims[3].step;
  part.dims[3].count = columns.count;
  emitter.load(place, part);
  return band;
}

void load_tap_rows(Emitter& emitter, const Band& band, int64_t first, const View& images,
                   const Window& vertical, const Window& horizontal, int64_t y, int64_t out_row,
                   int64_t out_rows) {
  const Inside columns = inside(horizontal, 0, band.width);
  // Output rows whose tap lies in the image; base dilation is 1 here.
  const int64_t shift = y * vertical.window_dilation - vertical.low;
  int64_t from = out_row, to = out_row + out_rows;
  while (from < to && from * vertical.stride + shift < 0) ++from;
  while (from < to && (to - 1) * vertical.stride + shift >= vertical.input) --to;
  if (from >= to || columns.count == 0) return;
  View part = images;
  part.offset += (from * vertical.stride + shift) * images.dims[2].step + columns.first * images.dims[3].step;
  part.dims[2] = {images.dims[2].step * vertical.stride, to - from};
  part.dims[3].count = columns.count;
  const Tile place =
      band.tile.row_range(first, images.dims[0].count)
          .patches((from - out_row) * band.width + columns.place, images.dims[1].count,
                   band.height * band.width, to - from, band.width, columns.count, horizontal.base_dilation);
  emitter.load(place, part);
}

Tile tap(const Band& band, const Window& vertical, const Window& horizontal, int64_t y, int64_t x,
         int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t image, int64_t images) {
  const int64_t top = row * vertical.stride + y * vertical.window_dilation;
  const int64_t left = column * horizontal.stride + x * horizontal.window_dilation;
  const int64_t step = band.height * band.width;
  return band.tile.patches(image * step + top * band.width + left, images, step, rows,
                           vertical.stride * band.width, columns, horizontal.stride);
}

}  // namespace opentrn::compiler
