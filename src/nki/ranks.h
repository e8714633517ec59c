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

namespace opentrn::fabric {
class Platform;
}

namespace opentrn::nki {

struct Contribution;  // what a core brings to a collective; see ranks/collective.h

// How ranks lie on hardware: they fill the chips of a server in order, and the servers in order.
struct RankLayout {
  int per_chip = 1;
  std::vector<int> per_server = {1};  // of every server there is with such chips, ascending
  bool switched = false;              // chips are joined by switches
  // The machine that they run on, and the physical cores of each rank; none for a rank that is alone.
  std::shared_ptr<const fabric::Platform> platform;
  std::vector<std::vector<int>> cores;
};

// One collective of one group; see ranks/collective.h.
struct CollectiveRecord;
class OtherRanks;

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

  // `others`: null where all ranks are of this process. Ranks of others meet those here, and nothing else of
  // them is here.
  Ranks(int ranks, int cores, RankLayout layout, std::shared_ptr<OtherRanks> others = nullptr);
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

  // Collectives in the order in which they were computed. Returns its number.
  size_t add_record(std::shared_ptr<const CollectiveRecord> record);
  std::vector<std::shared_ptr<const CollectiveRecord>> records() const;

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
  std::shared_ptr<OtherRanks> others_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Core> cores_of_all_;
  std::optional<Fault> failure_;
  bool told_ = false;  // somebody threw failure_, or another error says more
  std::atomic<bool> failed_{false};
  std::vector<std::shared_ptr<const CollectiveRecord>> records_;
};

// The ranks of the launch that other processes hold (ranks/processes.h).
class OtherRanks {
 public:
  OtherRanks() = default;
  OtherRanks(const OtherRanks&) = delete;
  OtherRanks& operator=(const OtherRanks&) = delete;
  virtual ~OtherRanks() = default;

  virtual bool is_here(int rank) const = 0;
  // All members of the visit that are here have come to it. Puts into `contributions`, which has the visit's
  // order, what the others bring; what it returns holds that.
  virtual std::shared_ptr<void> exchange(const Ranks::Visit& visit,
                                         std::vector<Contribution*>& contributions) = 0;
  // A core of a rank here has returned or failed.
  virtual void core_ended(Ranks::Place place, bool failed) = 0;
};

}  // namespace opentrn::nki
