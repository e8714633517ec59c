// The operation of a command of `opentrn fabric`: under nccom-test's name, or under that of its plan.
#pragma once

#include <string>

#include "collectives/request.h"

namespace opentrn::cli {

struct FabricOperation {
  std::string name;  // in long form
  collectives::Kind kind = collectives::Kind::kAllReduce;
};
// An input fault with the names for another one, and for those that have no size by themselves.
FabricOperation fabric_operation(const std::string& name);

// For the help of an option.
inline constexpr const char* kFabricOperations =
    "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or reduce";

}  // namespace opentrn::cli
