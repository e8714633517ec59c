// What the passes of the backend ask of every operand of a program, found in one walk: a program of a million
// instructions has a hundred megabytes of them.
#pragma once

#include <memory>
#include <vector>

#include "backend/lifetime.h"
#include "isa/kinds.h"
#include "isa/program.h"

namespace opentrn::backend {

struct Survey {
  explicit Survey(std::shared_ptr<const isa::Program> program);

  std::shared_ptr<const isa::Program> program;
  std::shared_ptr<const isa::Kinds> kinds;
  std::vector<Lifetime> lifetimes;  // as find_lifetimes()
  // Whether a product may ask for places of its operands. False: for ArrayPlaces they are all fixed.
  bool products_ask = false;
};

}  // namespace opentrn::backend
