// CoreGroup: the cores of one logical NeuronCore (LNC2: two) that share HBM and meet at sendrecv and
// core_barrier.
//
// Eager use, one front-end thread per core, calls serialised by the caller:
//   i = group.core(rank).run(program, i, end);   // stops at a rendezvous whose partner is not there yet
// When the second core arrives the exchange is done for both; the first one's next run() passes over it.
// When both cores wait for different things nobody can go on: the second arrival throws
// Fault{kProgram} "sim.deadlock" naming both source lines.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/functional/core.h"
#include "sim/functional/core_races.h"

namespace opentrn::sim {

class CoreGroup {
 public:
  CoreGroup(Generation generation, int cores, ThreadPool* pool = nullptr, CheckOptions checks = {});
  ~CoreGroup();

  int size() const { return static_cast<int>(cores_.size()); }
  Core& core(int rank) { return *cores_[rank]; }
  // Binds the same buffer in every core (shared HBM); the ids may differ when the programs do.
  void bind_shared(isa::TensorId id, const std::shared_ptr<Buffer>& buffer);

  // Runs one program per core to the end, in turns.
  void run(std::span<const isa::Program* const> programs);

  // The instruction a core waits at, if it waits.
  std::optional<isa::InstructionIndex> waiting_at(int rank) const;
  // To be called when a core's program has ended: if the others wait for it, that is a deadlock.
  void finished(int rank);
  // To be called when all have ended: what they wrote since they last met is compared ("sim.core_race").
  void check_races();

 private:
  friend class Core;
  struct Arrival;
  // Called by a core at a rendezvous. True when it is complete and the core goes on.
  bool arrive(int rank, const isa::Program& program, isa::InstructionIndex index);
  [[noreturn]] void fail_alone(int rank, int partner) const;
  // A buffer that is bound to a core may be bound to the other one, too.
  void watch(const std::shared_ptr<Buffer>& buffer);
  // After a rendezvous, once for both.
  void order_what_is_shared();

  std::vector<std::unique_ptr<Core>> cores_;
  std::vector<std::unique_ptr<Arrival>> arrivals_;  // null: not waiting
  std::vector<bool> ended_;
  std::unique_ptr<CoreRaces> races_;  // null: not checked
  bool met_ = false;                  // a rendezvous is done, and races_ does not know it yet
};

// Two sendrecv of cores that meet: both sides read before either writes. A broken rule on the peer's side
// names the peer's line.
void exchange(Context& cx, Context& peer);

}  // namespace opentrn::sim
