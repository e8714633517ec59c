// 64-bit integers, which JAX has under jax_enable_x64, are 32-bit ones on a device
// (compiler/analysis/device_type.h).
#pragma once

#include <span>

#include "graph/literal.h"
#include "graph/module.h"

namespace opentrn::spmd {

// NotModelled fault where the program computes with an i64 constant that 32 bits do not hold, in an op whose
// result would be another: all but bit operations and comparisons.
void expect_narrow_constants(const graph::Module& module);

// Input fault where an argument holds an integer that 32 bits do not hold.
void expect_narrow_arguments(std::span<const graph::Literal> arguments);

}  // namespace opentrn::spmd
