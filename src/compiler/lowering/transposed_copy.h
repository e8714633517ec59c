// Copies that DMA alone would make element by element, over tiles on the chip instead.
//
// A descriptor of DMA moves a run of neighbours. Where the source's neighbours are not those of the target (a
// transpose), each element is a run; so is each where one element fills a range. Both go through SBUF: long
// runs in, the Tensor engine's transpose or a broadcast, long runs out. The bits are those of the copy.
#pragma once

#include "compiler/lowering/emitter.h"

namespace opentrn::compiler {

// Whether it has done the copy: false where DMA by itself is as good, or the form is another.
bool copy_transposed(Emitter& emitter, const View& dst, const View& src);
bool is_transposed(const View& dst, const View& src);  // whether copy_transposed() would do it
// Elements of a block that it turns at once, at most; 0 where it does not.
int64_t turned_at_once(const View& dst, const View& src);
// From one element for each row, or for all.
bool copy_filling(Emitter& emitter, const View& dst, const View& src);
// From elements a few places apart to neighbours: slices with a step, reversals. With `gaps_are_written` the
// other way round too, as what is put between the elements of another: what lies between those of `dst` is
// read and written back, which is a fault where nothing has written it.
bool copy_strided(Emitter& emitter, const View& dst, const View& src, bool gaps_are_written);
// From elements a few places apart to the columns of a tile.
bool load_strided(Emitter& emitter, const Tile& dst, const View& src);
// Of a tile whose rows are runs of neighbours in memory: all of them, or a few runs, as the channels of
// images.
bool load_transposed(Emitter& emitter, const Tile& dst, const View& src);
bool store_transposed(Emitter& emitter, const View& dst, const Tile& src);

}  // namespace opentrn::compiler
