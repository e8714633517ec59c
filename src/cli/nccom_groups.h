// The JSON files that `nccom-test` takes: replica groups, pairs of a permute, sizes of v-operations, streams.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/nccom_options.h"

namespace opentrn::cli::nccom {

using Groups = std::vector<std::vector<int>>;

// All of `workers`, or --data-parallel-dimension or --custom-replica-groups of them. Ranks of a group are in
// range and in one group only; groups are as large as each other: an input fault otherwise.
Groups groups_of(const Operation& operation, int workers);
// --custom-src-target-pairs; without it, each rank to the next, and the last to the first.
std::vector<std::pair<int, int>> pairs_of(const Operation& operation, int ranks);

// Elements that rank i sends to rank j at [i * ranks + j] (alltoallv), or brings at [i] (all_gatherv), and
// what they must add up to be scaled to a size. Without --variable-size-op-metadata all are equal.
std::vector<int64_t> counts_of(const Operation& operation, int ranks, int64_t elements);

// --streams-json: what each stream runs; what it does not say is as in `common`.
std::vector<Operation> streams_of(const std::string& path, const Operation& common);

}  // namespace opentrn::cli::nccom
