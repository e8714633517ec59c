// A few ways to cut a program over axes of a mesh without being told: what a choice is made of.
//
//   whole                every device computes all; what the others have to beat
//   results by dim 0, 1  cuts of the results' batch, or of what follows it, propagated backwards
//   products by rows     of each product with a weight that no cut reaches, the rows that the weight is
//                        multiplied with: a part of the batch or of the sequence, also of training, whose
//                        results are gradients
//   products by columns  the same with the weight's columns; what follows keeps them until another product
//                        sums over them (Megatron's cuts of attention and MLP come out of this)
//   batch and columns    the first on the first axis, the columns on the others
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/module.h"
#include "spmd/annotations.h"
#include "spmd/cuts.h"

namespace opentrn::spmd {

struct CutWay {
  std::string name;
  Stated stated;
};

// `axes`: of the grid's mesh, by name; one at least. A way that cuts nothing is left out.
std::vector<CutWay> cut_ways(const graph::Function& function, const AxisGrid& grid,
                             std::span<const std::string> axes);

// Whether a value is a constant or an argument, or such a one laid out anew, gathered, a part of it (a
// loop's: its layer), or of another type: a weight.
bool is_given(const graph::Function& function, graph::ValueId value);
// The argument or constant that it is; nullopt of what is not given.
std::optional<graph::ValueId> given_origin(const graph::Function& function, graph::ValueId value);

}  // namespace opentrn::spmd
