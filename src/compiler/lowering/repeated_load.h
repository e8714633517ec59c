// Loads of views whose elements come several times in a row.
#pragma once

#include "compiler/lowering/emitter.h"

namespace opentrn::compiler {

// Loads each element once and repeats it on chip, where a transfer would move every copy by itself: images
// whose sides are doubled. False, and nothing is loaded, for views that repeat nothing in a row, and shapes
// that do not go together.
bool load_repeated(Emitter& emitter, const Tile& dst, const View& src);

}  // namespace opentrn::compiler
