// What a scatter that adds is, where sums of equal indices can be products (scatter_sums.cc).
#pragma once

#include <cstdint>
#include <optional>

#include "graph/module.h"

namespace opentrn::compiler {

// The operand as a table of rows, each of which a window replaces whole.
struct RowSums {
  int64_t table_rows = 0, width = 0;  // elements of a row
  int64_t count = 0;                  // of windows
};

// Nothing where the kernel does not take the scatter.
std::optional<RowSums> row_sums_of(const graph::Function& function, const graph::Op& op);
// The same of a scatter that takes the largest or smallest, or multiplies (scatter.cc).
std::optional<RowSums> row_extremes_of(const graph::Function& function, const graph::Op& op);

}  // namespace opentrn::compiler
