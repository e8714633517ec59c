// Ranks: the logical cores of one launch, each with memory of its own, and where they meet: at collectives.
//
// The kernel of every rank runs on threads of its own, one per core. A thread that comes to a collective
// waits until all members of its group have come to the same one; the last of them computes for all. Nobody
// waits for ever: when a member ends, when two members wait for each other at different collectives, or when
// no core of the launch can go on, one thread gets a Fault that names ranks, operations and lines, and all
// others end with "collectives.peer".
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fault.h"
#include "collectives/request.h"
#include "fabric/platform.h"

namespace opentrn::nki {

struct Contribution;  // what a core brings to a collective; see collective.h
class Processes;      // those that hold other ranks; see processes.h

// How ranks lie on hardware: they fill the chips of a server in order, and the servers in order.
struct RankLayout {
  int per_chip = 1;
  std::vector<int> per_server = {1};  // of every server there is with such chips, ascending
  bool switched = false;              // chips are joined by switches
  // The machine that they run on, and the physical cores of each rank; none for a rank that is alone.
  std::shared_ptr<const fabric::Platform> platform;
  std::vector<std::vector<int>> cores;
};

// One collective of one group, in the order in which they were computed.
struct CollectiveRecord {
  std::string function;  // of nki.collectives
  std::string what;      // operation, operands and groups
  std::vector<int> group;
  int core = 0;          // of operands in SBUF: which core of each rank
  int64_t bytes = 0;     // of one rank's sources
  bool on_chip = false;  // operands are in SBUF
  int priority = -1;     // none
  // What the plans that compute and time it do, all at once; ranks are numbered as in `group`.
  std::vector<collectives::Request> requests;
  bool lengths_assumed = false;  // of a v-form without values: whole sources, in equal parts
  std::string computed_by;       // the algorithm that computed the values; empty where none were computed
  SourceLocation where;          // of the first rank of the group
};

class Ranks {
 public:
  struct Place {
    int rank = 0, core = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  // A core at a place where it has to meet others.
  struct Visit {
    std::vector<Place> members;  // who meets, this core among them, in one order for all
    std::string what;            // has to be equal for all members
    SourceLocation where;
    Contribution* contribution = nullptr;
  };

  // `processes`: null where all ranks are of this one. Ranks of others meet those here, and nothing else of
  // them is here.
  Ranks(int ranks, int cores, RankLayout layout, std::shared_ptr<Processes> processes = nullptr);
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int count() const { return count_; }
  int cores() const { return cores_; }
  const RankLayout& layout() const { return layout_; }

  // Returns once all members are here and the last of them has called `complete`, with what the members
  // bring in their order. Throws what `complete` threw in the thread that called it. May be interrupted.
  void meet(Place place, Visit visit, const std::function<void(std::span<Contribution* const>)>& complete);

  // A core waits for, and goes on with, the other core of its rank; `text` says at what.
  void waits_for_core(Place place, std::string text);
  void goes_on(Place place);
  // The kernel of a core has returned, or failed.
  void core_ended(Place place, bool failed);

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // The Fault that ended the launch, once; "collectives.peer" for everybody else.
  [[noreturn]] void throw_failure(const SourceLocation& where);

  // Its number.
  size_t add_record(CollectiveRecord record);
  std::vector<CollectiveRecord> records() const;

 private:
  enum class State : uint8_t { kRuns, kWaits, kWaitsForCore, kReturned, kFailed };
  struct Core {
    State state = State::kRuns;
    const Visit* visit = nullptr;  // of kWaits
    bool computing = false;        // some member calls `complete`, and reads what this core brings
    std::string text;              // of kWaitsForCore
  };

  Core& at(Place place) { return cores_of_all_[static_cast<size_t>(place.rank * cores_ + place.core)]; }
  Place place_of(size_t index) const {
    return {static_cast<int>(index) / cores_, static_cast<int>(index) % cores_};
  }
  std::string name_of(Place place) const;
  std::string describe(Place place);
  std::string describe_all();
  bool is_here(int rank) const;
  bool all_here(const Visit& visit);
  // Looks for a wait that can never end. Called with the lock, after every change.
  void check();
  void check_member(Place place, const Visit& visit, Place member);
  void fail(std::string label, std::string message, std::string hint, bool told);
  void wait_until_met(std::unique_lock<std::mutex>& lock, Core& self);

  int count_, cores_;
  RankLayout layout_;
  std::shared_ptr<Processes> processes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Core> cores_of_all_;
  std::optional<Fault> failure_;
  bool told_ = false;  // somebody threw failure_, or another error says more
  std::atomic<bool> failed_{false};
  std::vector<CollectiveRecord> records_;
};

}  // namespace opentrn::nki
