// Producer: computes elements of a tile when its reader wants them, instead of writing the tile to memory.
//
// In a chain (chain.h), a tile that one instruction computes element by element and one later instruction
// reads need not exist: the reader has the elements of its next block computed into scratch that stays in the
// first-level cache.
#pragma once

#include <cstdint>
#include <functional>

namespace opentrn::sim {

// Elements [first, first + n) of each of `rows` partitions from `row` on. Partitions are counted from the
// first of the instruction's tile.
struct Rect {
  int64_t row, rows;
  int64_t first, n;
};

// Writes the elements as fp32, rows `pitch` floats apart. The rows lie in one band of the chain.
using Producer = std::function<void(const Rect& rect, float* out, int64_t pitch)>;

}  // namespace opentrn::sim
