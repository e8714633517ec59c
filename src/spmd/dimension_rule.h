// Which dimensions of an op's operands and results belong together: what propagation (propagate.h) and
// partition (partition.h) know of an op.
//
// An op runs over an index space of factors. A dimension of a tensor is one factor, or several of which the
// first is outermost (a reshape's), or none: then no device may hold a part of it. Devices that cut a factor
// cut every dimension that it is in.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/module.h"

namespace opentrn::spmd {

enum class FactorKind : uint8_t {
  kParallel,   // each device makes its part of the results by itself
  kReduction,  // in operands only: devices hold terms of the result, combined by DimensionRule::combiner
};

struct Factor {
  int64_t size = 1;
  FactorKind kind = FactorKind::kParallel;
};

using DimensionFactors = std::vector<std::vector<int>>;  // by dimension: places in DimensionRule::factors

struct DimensionRule {
  std::vector<Factor> factors;
  std::vector<DimensionFactors> operands, results;  // tokens and tuples have no dimensions
  graph::OpKind combiner = graph::OpKind::add_;     // of two terms of a reduction
};

// Nullopt for an op that every device runs on whole operands, as nothing better is known of it. Loops,
// branches and manual computations are none of this function's: their regions have values with rules of their
// own. A collective has a rule for cuts along which none of its groups has two devices: those of the cores of
// logical cores (core_pairs.h); no other cut ever comes to one.
std::optional<DimensionRule> dimension_rule(const graph::Function& function, const graph::Op& op);

}  // namespace opentrn::spmd
