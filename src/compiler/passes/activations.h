// Activation functions that models write as several ops and the Scalar engine has as one.
#pragma once

#include <optional>

#include "graph/module.h"
#include "numerics/ops.h"

namespace opentrn::compiler {

// The function of a composite that recognise_activations() made.
std::optional<ActivationFunction> activation_of_composite(const graph::Op& op);

// x Phi(x) with erf or erfc, its tanh form, and x sigmoid(x), in any order of their products; gives how many.
int64_t recognise_activations(graph::Function& function);

}  // namespace opentrn::compiler
