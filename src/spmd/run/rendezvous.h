// Where the devices of a program that several processes run get the values of each other
// (src/pjrt/process_rendezvous.h).
#pragma once

#include <cstddef>
#include <vector>

#include "graph/eval/evaluate.h"
#include "graph/literal.h"

namespace opentrn::spmd {

// Of one call of a program.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  // Whether a device belongs to this process, and the first that does.
  virtual bool is_own(size_t device) const = 0;
  virtual size_t first_own() const = 0;
  // By device: those of other processes become what these have, of the types of the first own ones. All
  // processes call this in the same order.
  virtual void complete(std::vector<std::vector<graph::Literal>>& values) = 0;
  virtual void complete(std::vector<std::vector<graph::eval::RuntimeValue>>& values) = 0;
};

}  // namespace opentrn::spmd
