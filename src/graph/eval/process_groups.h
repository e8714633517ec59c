// Which processes meet at a collective op.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/eval/process.h"
#include "graph/module.h"

namespace opentrn::graph::eval {

// Of an op with replica_groups: its groups; with source_target_pairs: its pairs. Processes are numbered
// replica * partitions + partition. Ids out of range go to `fail`, which ends the run.
std::vector<ProcessGroup> process_groups(const Op& op, int64_t replicas, int64_t partitions,
                                         const std::function<void(const std::string&)>& fail);

}  // namespace opentrn::graph::eval
