// Moves elements between two walks of equal length, converting through fp32 where types differ.
#pragma once

#include "sim/functional/context.h"

namespace opentrn::sim {

// The i-th element of `src` becomes the i-th of `dst`; elements with a skipped index on either side stay.
// `total` elements each. The walks must not overlap other than element by element.
void transfer(const Context& cx, const FlatView& src, const FlatView& dst, DType src_dtype, DType dst_dtype,
              int64_t total);
// All elements of two views; deferred if the instruction is.
void transfer(const Context& cx, const View& src, const View& dst);

// The same by the calling thread alone.
void transfer_alone(const FlatView& src, const FlatView& dst, DType src_dtype, DType dst_dtype);

}  // namespace opentrn::sim
