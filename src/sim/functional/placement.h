// Tiles that lie where they are copied to, or where they are copied from.
//
// A compiled program moves values between memories: a product goes from PSUM to a part of a wider tile, that
// to HBM, and other instructions load it from there again. On the device these are different memories; here
// each move is a copy of bytes that are as good where they are. A tile whose whole contents are copied once
// to a place that nothing else writes, and that nothing touches before, is given that place as its memory
// from the beginning; and a tile that one copy fills from a place that nothing writes afterwards, the place
// that it is filled from. The copies stay in the program, and find source and destination to be the same
// bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "isa/program.h"

namespace opentrn::sim {

// Where the rows of a tile lie in another tensor.
struct Placement {
  isa::TensorId tile = 0;
  isa::TensorId home = 0;
  int64_t row = 0;    // of a home on the chip, the first
  int64_t byte = 0;   // of that row; of a home in HBM, from its beginning
  int64_t pitch = 0;  // bytes from row to row of a home in HBM; on the chip rows lie as the home's
};

// By tile, ascending. `alone`: tensors that keep memory of their own and hold no tile, because what they
// share with others is not known from the program. Empty for a program with control flow, or whose operands
// do not say what it touches.
std::vector<Placement> find_placements(const isa::Program& program,
                                       const std::function<bool(isa::TensorId)>& alone);

}  // namespace opentrn::sim
