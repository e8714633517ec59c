// Bit-exact transposes of 2-D tiles.
#pragma once

#include <cstddef>

namespace opentrn::numerics {

// dst[c][r] = src[r][c] for elements of 1, 2, 4 or 8 bytes. Pitches count elements. No overlap.
void transpose(int element_bytes, const void* src, size_t src_pitch, size_t rows, size_t columns, void* dst,
               size_t dst_pitch);

}  // namespace opentrn::numerics
