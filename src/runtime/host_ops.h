// Ops of a model that no device kernel takes (compiler/host_ops.h): the reference evaluator does them in the
// middle of the program.
#pragma once

#include <string>
#include <vector>

#include "runtime/model.h"

namespace opentrn::runtime {

// Programs of this process may have host ops from now on.
void prepare_host_ops();

// Which ops of a model the host does. Bytes go to the host and back in one inference, where the call stands
// in a loop in one iteration of it.
struct HostOp {
  std::string ops;  // "sort"
  std::string result;
  SourceLocation where;
  double flops = 0;
  int64_t bytes = 0;
};
struct HostOps {
  std::vector<HostOp> calls;
  double model_flops = 0;    // of the whole model
  int64_t memory_bytes = 0;  // that the whole program moves to and from HBM, loops once
};
HostOps host_ops(const Model& model);

}  // namespace opentrn::runtime
