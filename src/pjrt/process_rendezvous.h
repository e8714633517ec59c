// The rendezvous of devices (src/spmd/run/rendezvous.h) over the processes of jax.distributed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/eval/evaluate.h"
#include "graph/literal.h"
#include "pjrt/processes.h"
#include "spmd/run/rendezvous.h"

namespace opentrn::pjrt {

// Of one call of a program.
class ProcessRendezvous : public spmd::Rendezvous {
 public:
  // `process_of`: of each device of the program. `call`: the same text in all processes.
  ProcessRendezvous(Processes& processes, std::vector<int> process_of, std::string call);

  bool is_own(size_t device) const override { return process_of_[device] == processes_.own(); }
  size_t first_own() const override { return first_own_; }
  void complete(std::vector<std::vector<graph::Literal>>& values) override;
  void complete(std::vector<std::vector<graph::eval::RuntimeValue>>& values) override;

 private:
  Processes& processes_;
  std::vector<int> process_of_, with_;
  size_t first_own_ = 0;
  std::string call_;
  int64_t exchanges_ = 0;
};

}  // namespace opentrn::pjrt
