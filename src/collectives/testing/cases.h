// All that there is to prove on a number of ranks: every algorithm, operation, root and kind of layout.
#pragma once

#include <functional>
#include <string>

#include "collectives/algorithms.h"

namespace opentrn::collectives {

struct Case {
  std::string name;  // "ring all_reduce on 8 ranks, 2 on a chip, 1 server"
  Algorithm algorithm;
  Request request;
  Layout layout;
};

// Calls visit() for each case on `ranks` ranks; `every_root`: all roots, else the first and last.
void for_each_case(int ranks, bool every_root, const std::function<void(const Case&)>& visit);

}  // namespace opentrn::collectives
