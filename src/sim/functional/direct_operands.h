// Products that read HBM itself where the program would copy it to SBUF first.
//
// A model's weights are inputs that nothing writes. On the device each product's DMA brings its part of them
// to a tile; here the tile would be the same bytes once more, and copying them takes longer than multiplying
// them by one row. Where a tile holds nothing but copies of HBM that the program never writes, and only
// products read it, each inside one copy, the products get the place in HBM as their operand.
//
// Values are the same, and so are the numbers of instructions: each copy stays, of one element.
#pragma once

#include <memory>
#include <vector>

#include "isa/program.h"

namespace opentrn::sim {

struct DirectOperands {
  std::shared_ptr<const isa::Program> program;  // null: there is nothing to gain
  // Which tensors are read so, ascending. They have to be bound, wholly written, and share no memory with
  // what the program writes.
  std::vector<isa::TensorId> sources;
};

DirectOperands direct_operands(const isa::Program& program);

}  // namespace opentrn::sim
