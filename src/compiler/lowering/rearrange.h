// Copies from HBM to HBM between layouts.
#pragma once

#include "compiler/lowering/emitter.h"

namespace opentrn::compiler {

// As Emitter::copy; through SBUF where neither order of the elements gives DMA runs of more than a few bytes,
// as where pixels are shuffled or a matrix is interleaved: rows are loaded in the order of the source, an
// engine puts their elements in the order of `dst`, and rows are stored in that.
void rearrange(Emitter& emitter, const View& dst, const View& src);

}  // namespace opentrn::compiler
