// Into which equal rows the elements of a row-wise group without a reduction are cut, and which rows come
// again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "compiler/lowering/joint_transfers.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

// How many rows, where they are others than the group's own; every operand is one run of memory, or one
// number, then. `operands` are the group's, of rows as the group has them, which writes so many results; a
// tile has at most `widest` columns.
std::optional<int64_t> equal_rows(Lowering& lowering, int group,
                                  const std::map<JointTransfers::Key, Matrix>& operands, int64_t results,
                                  int64_t widest);

// After how many rows, whole blocks of kPartitions, those of the operand come again, as a mask's do that all
// heads share; where they are so few that their tiles, of so many bytes in a partition, are loaded once.
std::optional<int64_t> period_of_rows(const Matrix& m, int64_t rows, int64_t row_bytes);

}  // namespace opentrn::compiler
