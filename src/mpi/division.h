// Which process holds which ranks of a launch: runs of ranks, as equal as they can be, in the order of the
// processes. mpirun numbers the processes of a host one after the other, so the ranks of a simulated server
// stand together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "mpi/transport.h"

namespace opentrn::mpi {

class Division {
 public:
  // An input fault where a process would have no rank.
  Division(int ranks, int processes);
  // Of a group of these ranks, whose own numbers are their places in the list; a process may have none.
  Division of_group(std::span<const int> ranks) const;

  int ranks() const { return static_cast<int>(owners_.size()); }
  int processes() const { return processes_; }
  int owner(int rank) const { return owners_[static_cast<size_t>(rank)]; }
  std::vector<int> ranks_of(int process) const;
  // "process 2 (ranks 4 to 5)", by the numbers of the whole launch.
  std::string describe(int process) const;

 private:
  Division() = default;
  std::vector<int> owners_, numbers_;  // of each rank: its process, its number in the launch
  int processes_ = 1;
};

// Whether all processes are about to do the same: `what` says it for people ("all_reduce of 1024 B"), and
// holds all that matters. A Fault in each process otherwise: mpi.mismatch names the processes that differ and
// what they do, mpi.absent those that have not come in time.
void agree(Transport& transport, const Division& division, const std::string& what);

}  // namespace opentrn::mpi
