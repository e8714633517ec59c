// The ranks of a launch that other processes hold, where mpirun has started several (src/mpi).
//
// Each process runs the kernels of its own ranks. At a collective the processes of a group send each other
// what their ranks bring, and each computes it for the whole group as one process would: the same plan over
// the same bytes, so the same bits. What a core's end means to others is sent too, so that nobody waits for
// what will not come; what neither comes nor ends is a Fault "mpi.absent" after the time of one wait.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mpi/division.h"
#include "mpi/letters.h"
#include "mpi/transport.h"
#include "nki/ranks.h"
#include "nki/ranks/collective.h"

namespace opentrn::nki {

// What a rank of another process brings: a Contribution with memory of its own.
struct Arrived {
  std::vector<std::vector<std::byte>> in, in1, out;
  Contribution contribution;
};

class Processes final : public OtherRanks {
 public:
  // All processes have to make one, for the same launch: `what` says which ("2 cores of 8 ranks of ...").
  // Faults as mpi::agree().
  Processes(std::shared_ptr<mpi::Transport> transport, int ranks, const std::string& what);

  bool is_here(int rank) const override { return division_.owner(rank) == transport_->process(); }
  std::vector<int> ranks_here() const { return division_.ranks_of(transport_->process()); }
  int count() const { return transport_->processes(); }
  int owner(int rank) const { return division_.owner(rank); }

  // Sends what the members here bring to the processes of the others, too.
  std::shared_ptr<void> exchange(const Ranks::Visit& visit,
                                 std::vector<Contribution*>& contributions) override;
  void core_ended(Ranks::Place place, bool failed) override;

  // The end of the launch here: `results` for all others, whose results it returns by process (nothing of the
  // own one). Fault "mpi.peer" when the launch has failed in another process.
  std::vector<std::vector<std::byte>> finish(const std::vector<std::byte>& results);
  // The launch has failed here. `because_of_others`: what it says is only that another one has failed, so who
  // that is, is waited for and thrown as finish() does it.
  void fail(const std::string& text, bool because_of_others);

 private:
  struct Ended {
    bool failed = false;
  };
  std::string key_of(const Ranks::Visit& visit);
  void read_notes();
  std::optional<Fault> who_ended(const Ranks::Visit& visit, int process);
  void read_letter(int process, const std::vector<std::byte>& letter, const Ranks::Visit& visit,
                   std::vector<Contribution*>& contributions, std::list<Arrived>& arrived);
  std::vector<std::vector<std::byte>> hear_all();

  std::shared_ptr<mpi::Transport> transport_;
  mpi::Division division_;
  std::optional<mpi::Letters> letters_;
  std::mutex mutex_;
  std::map<std::vector<std::pair<int, int>>, int64_t> met_;  // by members: how often
  std::map<std::pair<int, int>, Ended> ended_;               // by rank and core
  bool is_over_ = false;
};

// Whether mpirun started this process as one of several.
bool is_one_of_several();
// Those of mpirun where it did; null elsewhere. MPI is started by the first launch.
std::shared_ptr<Processes> processes_of_mpirun(int ranks, const std::string& what);
// Before the process ends: MPI ends with it.
void end_processes_of_mpirun();

}  // namespace opentrn::nki
