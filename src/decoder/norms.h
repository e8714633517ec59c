// Norms of a decoder over the last dimension of x.
#pragma once

#include "graph/builder.h"

namespace opentrn::decoder {

// (x - mean) divided by the root of its variance, times `scale`; x is [rows, columns].
graph::ValueId layer_normed(graph::Builder& builder, graph::ValueId x, graph::ValueId scale, double epsilon);

// x divided by the root of its mean square, times `scale`.
graph::ValueId rms_normed(graph::Builder& builder, graph::ValueId x, graph::ValueId scale, double epsilon);

}  // namespace opentrn::decoder
