// Row-wise groups of many short rows: each partition takes a run of them.
//
// Rows of eight elements leave most of an instruction's time to what it takes whatever its length, and a
// transfer to descriptors of 32 bytes. Here a tile is [partitions, rows * columns]: what is element by
// element goes over all of it at once, a reduction gives a number for each of a partition's rows, and such a
// number is read once for each column.
#pragma once

#include <map>

#include "compiler/lowering/joint_transfers.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

// Whether so many rows of so many columns are short and many: several of them go into a partition.
bool are_short_rows(int64_t rows, int64_t columns);
// Whether the rows of the group are short and many, and what it does can be done to several at once.
bool has_short_rows(const graph::Function& function, const Group& group);
// Computes the group of such rows. False, and nothing is emitted, where operands or results do not lie in a
// way that a few dimensions describe, or stay in SBUF.
bool compute_short_rows(Lowering& lowering, int group, const std::map<JointTransfers::Key, Matrix>& operands,
                        const std::map<graph::ValueId, Matrix>& outputs);

}  // namespace opentrn::compiler
