// What a rank's updates of its weights take: behind all passes, or beside the pieces with which its program
// has them.
#pragma once

#include "planner/compiled/block_pieces.h"
#include "planner/compiled/piece_times.h"
#include "planner/job.h"
#include "planner/layer_times.h"
#include "planner/machine.h"

namespace opentrn::planner::compiled {

// Adam's time by the number of parameters, and what each further tensor of a program takes beside it.
void set_optimizer(PieceTimes& times, const Machine& machine, bool wide, LayerTimes& out);

// A parameter's time, of all tensors or of those that the backward passes leave. The cores of a rank update a
// part of each. `is_one`: of a step's only micro-batch gradients are complete while its backward pass goes
// on, and a program updates weights in the parts that come then.
void set_optimizer_by_tensor(PieceTimes& times, const Model& model, Precision precision,
                             const Machine& machine, const Layout& layout, const BlockSizes& sizes,
                             bool is_one, LayerTimes& out);

}  // namespace opentrn::planner::compiled
