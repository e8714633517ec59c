// What a user may choose about a compilation.
#pragma once

#include <cstdint>

#include "arch/arch.h"
#include "graph/element_type.h"

namespace opentrn::compiler {

// Which fp32 operations are computed in a narrower type: passes/auto_cast.cc.
enum class AutoCastMode : uint8_t { kNone, kMatmult, kAll };

// 1: ops as they stand; only calls are inlined and dead ops dropped, and each product is a kernel of its own.
// 2: simplification, folding and sharing of equal ops, and fused kernels.
enum class Level : uint8_t { k1 = 1, k2 = 2 };

struct Options {
  arch::Generation generation = arch::Generation::kV3;
  Level level = Level::k2;
  AutoCastMode auto_cast = AutoCastMode::kNone;
  graph::ElementType auto_cast_type = graph::ElementType::kBF16;
  // Activations and attention become one op each (Level::k2). Without it every op of the graph is computed as
  // it stands, which is what `diff` judges.
  bool recognise = true;
};

}  // namespace opentrn::compiler
