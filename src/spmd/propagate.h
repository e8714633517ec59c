// How every array of a program is cut, from what is stated of some.
//
// Cuts go along the dimensions that ops tie together (dimension_rule.h), forwards and backwards, until
// nothing changes. Where two say different things of one dimension the first wins: results before operands,
// operands in their order; what is stated is never changed. Nothing here is needed for right values:
// partition.h moves data where a value is wanted otherwise than it lies.
#pragma once

#include <map>
#include <vector>

#include "graph/module.h"
#include "spmd/cuts.h"
#include "spmd/dimension_rule.h"

namespace opentrn::spmd {

using StatedCuts = std::map<graph::ValueId, Cuts>;

// Of every value of the function, by its number; of tokens and tuples empty. The function has no calls.
std::vector<Cuts> propagate(const graph::Function& function, const AxisGrid& grid, const StatedCuts& stated);

// Values of which a loop or branch makes one: what it begins with, arguments of its regions, what regions
// return, its result.
std::vector<std::vector<graph::ValueId>> tied_values(const graph::Function& function, const graph::Op& op);

// What cuts each factor of an op whose operands and results are cut so. Each axis cuts one factor at most; a
// factor beside others in a dimension is cut evenly, and only where those outside of it are cut to single
// elements.
std::vector<Axes> factor_axes(const DimensionRule& rule, const AxisGrid& grid,
                              const std::vector<const Cuts*>& operands,
                              const std::vector<const Cuts*>& results);
// And the other way round, of one operand or result.
Cuts cuts_from(const DimensionFactors& dimensions, const std::vector<Axes>& of_factors);

}  // namespace opentrn::spmd
