// Sliding windows over one or two spatial dimensions: convolution and reduce_window.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compiler/lowering/emitter.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

// One spatial dimension.
struct Window {
  int64_t input = 1;   // elements of the operand
  int64_t output = 1;  // elements of the result
  int64_t size = 1;    // taps
  int64_t stride = 1;
  int64_t low = 0;  // padding in front; what the last window needs behind follows
  int64_t base_dilation = 1;
  int64_t window_dilation = 1;

  // Padded and dilated elements that `count` outputs need.
  int64_t extent(int64_t count) const { return (count - 1) * stride + (size - 1) * window_dilation + 1; }
};

// Rows [first, first + rows) of padded, dilated input rows of some images, all columns that any window
// touches.
struct Band {
  Tile tile;  // rows of the matrix (channels) x (images * height * width)
  int64_t width = 0, height = 0;
};

// Loads the part of some images that output rows [out_row, out_row + out_rows) need. `images`: channels by
// images by height by width, as strides; counts of the first two are what is loaded. What is padding is
// `fill`.
Band load_band(Emitter& emitter, const View& images, const Window& vertical, const Window& horizontal,
               int64_t out_row, int64_t out_rows, double fill, DType dtype);
// Only the rows that vertical tap y of each window needs, into channels [first, ...) of a band that has one
// row per output row and zeros where there is padding.
void load_tap_rows(Emitter& emitter, const Band& band, int64_t first, const View& images,
                   const Window& vertical, const Window& horizontal, int64_t y, int64_t out_row,
                   int64_t out_rows);

// Output rows whose band stays below `bytes` of a partition; at least one.
int64_t band_rows(const Window& vertical, const Window& horizontal, int64_t element_bytes, int64_t bytes);

// The elements of tap (y, x) for output rows [row, row + rows) of the band and columns [column, column +
// columns), of images [image, image + images).
Tile tap(const Band& band, const Window& vertical, const Window& horizontal, int64_t y, int64_t x,
         int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t image = 0, int64_t images = 1);

}  // namespace opentrn::compiler
