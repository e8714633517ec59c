// sdy.manual_computation: a region that every device of a mesh runs on its own part of the operands, with
// collectives between them (JAX's shard_map and pmap).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/literal.h"
#include "graph/module.h"
#include "runtime/model.h"
#include "spmd/run/device_program.h"
#include "spmd/sdy_ops.h"
#include "spmd/sharding.h"

namespace opentrn::spmd {

class ManualComputation {
 public:
  // `op` of `function`, for `devices` devices. A body without collectives is compiled for the device; any
  // other runs on the reference evaluator, whose processes meet in the collectives.
  ManualComputation(const graph::Module& module, const graph::Function& function, const graph::Op& op,
                    int64_t devices, const DeviceOptions& options);

  // Whole arrays in, whole arrays out.
  std::vector<graph::Literal> run(std::span<const graph::Literal> operands) const;
  const std::vector<Sharding>& results() const { return out_; }
  // Null where the evaluator runs the body.
  const DeviceProgram* program() const { return model_.get(); }
  // Why the evaluator runs the body; empty when the device does.
  const std::string& host_reason() const { return host_reason_; }

 private:
  std::vector<std::vector<graph::Literal>> evaluate(std::vector<std::vector<graph::Literal>> arguments) const;

  const graph::Module& module_;
  graph::Function body_;
  int64_t devices_;
  HostCalls host_;
  std::vector<Sharding> in_, out_;
  std::vector<graph::Type> result_types_;
  std::unique_ptr<DeviceProgram> model_;
  std::string host_reason_;
};

}  // namespace opentrn::spmd
