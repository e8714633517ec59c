// Poison: what the outputs of a custom operator hold before it is called, so that what it does not write
// shows.
//
// Floats of 16 and 32 bits get signalling NaN with payloads, which no computation gives, so each such element
// is judged by itself. Elements of other types may hold any bits: they count as unwritten in runs of 8 or
// more unchanged bytes, which an operator writes by chance once in 2^64; shorter gaps, and the outer 4 bytes
// of gaps of elements of 1 and 2 bytes, are not seen.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/functional/view.h"

namespace opentrn::sim {

struct ElementRun {
  int64_t first;
  int64_t count;
};

// `dense` is View::dense().
void poison(const View& dense);
// The elements that still hold it, in order.
std::vector<ElementRun> still_poisoned(const View& dense);

}  // namespace opentrn::sim
