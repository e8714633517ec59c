// Ranges of a flattened index space as boxes of its dimensions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isa/program.h"

namespace opentrn::compiler {

// A box of a strided space: where it begins, and its dimensions.
struct Box {
  int64_t offset = 0;          // elements of memory
  int64_t position = 0;        // of its first element within the range
  std::vector<isa::Dim> dims;  // outermost first; their product is the box's size
};

// The elements [begin, begin + count) of the row-major walk over `dims`, as boxes in that order.
std::vector<Box> boxes_of(std::span<const isa::Dim> dims, int64_t begin, int64_t count);

}  // namespace opentrn::compiler
