// A copy of a function in which a pass replaces ops.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "graph/builder.h"

namespace opentrn::compiler {

// One value per result of the op, or nullopt for a copy of it. `operands` are values of the new function.
using Replace = std::function<std::optional<std::vector<graph::ValueId>>(
    graph::Builder& builder, const graph::Op& op, std::span<const graph::ValueId> operands)>;

// Regions are rewritten too; types and locations stay.
graph::Function rewritten(const graph::Function& function, const Replace& replace);

}  // namespace opentrn::compiler
