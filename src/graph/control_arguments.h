// Which arguments of a function decide what is computed, rather than being computed with.
#pragma once

#include <vector>

#include "graph/module.h"

namespace opentrn::graph {

// The numbers of the arguments on which the branch of an if or case depends, or whether a loop is entered and
// how often it may run, and of those with one element that are compared with a constant (but to count a place
// from the end). In order.
std::vector<size_t> control_arguments(const Function& function);
// The numbers of the arguments on which a value depends. In order.
std::vector<size_t> arguments_behind(const Function& function, ValueId value);

}  // namespace opentrn::graph
