// Operands of row-wise groups of which the columns come again: a table beside every head, a number for each
// row of an image. What they have of their own is loaded, and read in the order of the columns.
#pragma once

#include <map>
#include <optional>

#include "compiler/lowering/joint_transfers.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/prologue.h"

namespace opentrn::compiler {

// At most so many columns that are whole repetitions of every operand, or of those of which that can be said.
int64_t whole_repetitions(const std::map<JointTransfers::Key, Matrix>& operands, int64_t most);
// The columns of `part` where they come again and it begins and ends with a repetition. `as_it_is`: the tile
// may have runs of columns; else it has a copy of each.
std::optional<Tile> load_repeated(Lowering& lowering, const Matrix& m, const Rectangle& part, bool as_it_is);

}  // namespace opentrn::compiler
