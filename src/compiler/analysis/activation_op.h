// Activation functions that models write as several ops and the Scalar engine has as one: composites of one
// operand, which recognise/activations.cc makes.
#pragma once

#include <optional>
#include <string_view>

#include "graph/module.h"
#include "numerics/ops.h"

namespace opentrn::compiler {

inline constexpr std::string_view kGelu = "opentrn.gelu", kGeluTanh = "opentrn.gelu_tanh",
                                  kSilu = "opentrn.silu";

// The function of such a composite; nullopt for any other op.
std::optional<ActivationFunction> activation_of_composite(const graph::Op& op);

}  // namespace opentrn::compiler
