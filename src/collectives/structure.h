// Whether a plan means anything: what its steps refer to exists. What is checked here everything else relies
// on.
#pragma once

#include <span>
#include <vector>

#include "collectives/verify.h"

namespace opentrn::collectives {

// References of steps, channels and pools; ranges within buffers; elements of reductions.
std::vector<Finding> check_structure(const Plan& plan);
// The ranks of placed plans, and issue orders that list each plan of a rank once.
std::vector<Finding> check_issue_order(std::span<const Placed> plans,
                                       std::span<const std::vector<int>> issue_order);

// Bytes of a rank's buffer, as steps may use it.
int64_t buffer_bytes(const Plan& plan, int rank, Buffer buffer);

// The memory in which a slice lies: of an in-place plan input and output are one.
struct Memory {
  Buffer buffer = Buffer::kInput;
  int64_t offset = 0;
};
Memory memory_of(const Plan& plan, int rank, const Slice& slice);

}  // namespace opentrn::collectives
