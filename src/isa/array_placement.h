// Which partitions the operands of a matrix product can lie on.
//
// The systolic array has a row for every partition of SBUF and a column for every partition of PSUM. A
// product that names a tile of the array (tile_position, tile_size) uses these rows and columns and no
// others, so its operands lie on the partitions of the same numbers. Everything is counted in quadrants of 32
// partitions, the smallest tile and the unit on which an engine's access starts (isa.C7).
#pragma once

#include <cstdint>
#include <optional>

#include "isa/program.h"

namespace opentrn::isa {

// Where a product has its operands, its tile of the array, and the instruction's own numbers of the rules of
// where they lie. It stands in the product's row of the instruction table.
struct ArraySlots {
  static constexpr int kNone = -1;

  int dst, stationary, moving;                                     // operands
  int row = kNone, column = kNone, rows = kNone, columns = kNone;  // attributes; none: no tile can be named
  int rows_rule = kNone, columns_rule = kNone, alike_rule = kNone;
};

inline constexpr int64_t kQuadrant = 32;  // partitions
inline constexpr int kQuadrants = 4;

// A set of quadrants: bit q stands for partitions 32 q to 32 q + 31.
using QuadrantMask = uint8_t;
inline constexpr QuadrantMask kAllQuadrants = 0xF;

// The quadrants of `size` rows or columns of the array from `first` on; all of them where no tile is named.
QuadrantMask array_quadrants(int64_t first, int64_t size);

// The quadrants on which an access to `partitions` partitions can start without leaving `allowed`.
QuadrantMask starts_within(QuadrantMask allowed, int64_t partitions);

// The quadrants on which a tensor of `rows` rows can start where the compiler places it.
QuadrantMask tensor_starts(int64_t rows);

// Quadrants from the first partition of the access's tensor to the access's own. Nothing where that is no
// whole number of them, or known only at run time.
std::optional<int64_t> quadrant_offset(const Program& program, const Operand& operand);

// The quadrants on which this access can start: one for a tensor with an address, else as many as its tensor
// has places. All of them for an access that starts elsewhere than on a multiple of 32 or at run time, and
// for one of a tensor without an address when the compiler also moves rows (`moves_rows`, see check()).
QuadrantMask possible_starts(const Program& program, const Operand& operand, bool moves_rows);

// The quadrants on which the access's tensor can start when the access starts in one of `starts`.
QuadrantMask tensor_starts_for(const Program& program, const Operand& operand, QuadrantMask starts);

}  // namespace opentrn::isa
