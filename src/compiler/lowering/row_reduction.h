// Reductions along the rows of a tile.
#pragma once

#include <functional>

#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/emitter.h"
#include "graph/module.h"

namespace opentrn::compiler {

// All columns of a term, also where one number or one column stands for them.
Tile all_columns(Emitter& emitter, const Term& data, int64_t rows, int64_t columns);

// A reduction's result, [rows, 1], and the number that it begins with.
Tile with_initial(Emitter& emitter, const graph::Function& function, const graph::Op& op,
                  const Tile& reduced);

// The result, one number in each row, of a reduction of all columns of `data`.
Term reduce_rows(Emitter& emitter, const graph::Function& function, const graph::Op& op, const Tile& data);

// The same of floats, `widest` of so many columns at once: columns_from(begin) gives those from there on.
Tile reduce_parts(Emitter& emitter, const graph::Function& function, const graph::Op& op, int64_t columns,
                  int64_t widest, const std::function<Tile(int64_t begin)>& columns_from);

}  // namespace opentrn::compiler
