// Collectives of weights that lie in parts (FSDP): in which stream they run, and at which layer they are
// triggered. AWS's compiler calls it Token Threading for FSDP.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/module.h"
#include "runtime/settings.h"
#include "spmd/run/parallel.h"
#include "spmd/schedule.h"

namespace opentrn::spmd {

// The shape of the weight, of an all_gather of an argument or of what only moves or rounds one, and of a
// reduce_scatter of which no product reads the result; empty of all other ops.
std::string weight_of(const graph::Function& function, const graph::Op& op);

// The stream that a program says (`stream_id` of its frontend attributes, from 0 to 3); nullopt where it says
// none. An input fault for any other text.
std::optional<int> stream_of(const graph::Op& op);

// The number of each weight's layer. Layers are told apart by exchanges of activations between the weights'
// readers; without such, by shapes of weights that repeat, as they are or mirrored (the backward pass);
// without those, each weight is one. `shapes`: of the weights in the order in which they are needed, `parts`:
// the step that first needs each.
std::vector<size_t> layers_of(std::span<const std::string> shapes, std::span<const size_t> parts,
                              bool activations_meet);

// `steps`: of these stages, with their times. Sets streams and triggers.
void arrange(std::span<const ParallelProgram::Stage> stages, std::vector<Step>& steps,
             const runtime::WeightCollectives& settings);

// Bytes of gathered weights where there are most at once: from the trigger of a gather to the last read of
// what it gives.
double gathered_bytes(std::span<const ParallelProgram::Stage> stages, std::span<const Step> steps,
                      const Schedule& schedule);

}  // namespace opentrn::spmd
