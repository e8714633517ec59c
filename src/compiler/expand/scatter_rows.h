// A scatter's windows as rows, for loops over parts of them.
#pragma once

#include <functional>
#include <vector>

#include "compiler/analysis/dims.h"
#include "graph/builder.h"

namespace opentrn::compiler {

// The region returns the update.
bool replaces(const graph::Function& function, const graph::Op& op);
// Dimensions of the updates that number the windows.
Dims scatter_dims(const graph::Function& function, const graph::Op& op);

// Indices [windows, components] and updates [windows, window...], filled up to whole parts of `part` windows.
// A window that was filled in lies outside, so that it is left out.
struct ScatterRows {
  graph::ValueId indices, updates;
  int64_t part;
};
ScatterRows scatter_rows(graph::Builder& builder, const graph::Function& function, const graph::Op& op,
                         graph::ValueId indices, graph::ValueId updates, int64_t part);

// One part's indices and updates.
struct ScatterPart {
  graph::ValueId indices, updates;
};

// What `step` makes of the carried values, part after part in the order of the windows.
using ScatterStep = std::function<std::vector<graph::ValueId>(
    graph::Builder& body, std::span<const graph::ValueId> carried, const ScatterPart& part)>;
std::vector<graph::ValueId> for_scatter_parts(graph::Builder& builder, const ScatterRows& rows,
                                              const std::vector<graph::ValueId>& carried,
                                              const ScatterStep& step);

// The attributes of a scatter of rows. update_window_dims follow the first.
graph::Builder::Attributes row_scatter_attributes(const graph::Op& op);

}  // namespace opentrn::compiler
