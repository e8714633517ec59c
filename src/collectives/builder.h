// Writes plans: an algorithm says its transfers in an order that is right one after the other, and the
// builder finds for each what it must wait for.
//
// A step waits for the last writers of what it reads, and for the last readers and writers of what it writes:
// so a staging slot that is used again waits for its former content to be read. What the order on a channel
// says already is left out. Every wait leads back in the order of calls, so waits have no circle as long as
// steps are issued in that order too, which they are.
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/interval_map.h"
#include "collectives/plan.h"

namespace opentrn::collectives {

// Where the unit of a rank stands against that of another: a number for each displacement, with 0 for the
// same unit. A group, whatever it is.
struct Displacements {
  virtual ~Displacements() = default;
  virtual int32_t add(int32_t a, int32_t b) const = 0;
  virtual int32_t negated(int32_t a) const = 0;
};

class Builder {
 public:
  Builder(const Request& request, std::string algorithm);

  // The same bytes at the same offset of every rank's scratch memory, nobody else's.
  int64_t scratch(int64_t bytes);

  // to = from. No step for 0 bytes, and none for a copy onto itself.
  void copy(int channel, At from, At to, int64_t bytes);
  // to = and also = from: one read, two writes.
  void copy_twice(int channel, At from, At to, At also, int64_t bytes);
  // to = sources[0] op sources[1] op ..., by the engines of the rank of sources[0]. More sources than a DMA
  // takes at once become several steps, each of which adds to `to`.
  void combine(int channel, std::span<const At> sources, At to, int64_t bytes);

  // Writes the plan of one unit that stands for all of them: its memory is addressed as seen from itself.
  // From here on, targets of steps are ranks of the unit at this displacement; 0 ends that. Steps that are
  // one call here are one for each unit, which must not depend on each other.
  void units(const Displacements& group) { group_ = &group; }
  void toward(int32_t displacement) { toward_ = displacement; }
  // Who reads a part of this range of a rank from here on waits for all that have written to it until now.
  void as_one(const At& place, int64_t bytes);
  // Appends steps `begin` to `end` of a rank once more, on other memory, behind other steps: `slice_of` and
  // `step_of` say what a slice and a step of theirs are now. Only for memory and steps that nothing else
  // touches: what comes later does not wait for these steps.
  template <typename SliceOf, typename StepOf>
  void repeat(int rank, size_t begin, size_t end, const SliceOf& slice_of, const StepOf& step_of);

  // Of each step of a rank, and of each of its waits.
  std::vector<std::vector<int32_t>> take_displacements() { return std::move(step_toward_); }
  std::vector<std::vector<int32_t>> take_wait_displacements() { return std::move(wait_toward_); }

  const Request& request() const { return plan_.request; }
  size_t step_count(int rank) const { return plan_.steps[static_cast<size_t>(rank)].size(); }
  int64_t scratch_bytes() const { return plan_.scratch_bytes; }
  int element_bytes() const { return size_bytes(plan_.request.dtype); }
  Plan take() &&;

 private:
  // Who touched a range last: a writer, and those that have read what it wrote.
  struct User {
    StepRef step{-1, -1};
    int32_t unit = 0;  // of its rank, against that of whoever owns the memory
    friend auto operator<=>(const User&, const User&) = default;
  };
  // Mostly one.
  class Readers {
   public:
    bool empty() const { return first_.step.rank < 0; }
    void add(const User& user) {
      if (empty())
        first_ = user;
      else
        more_.push_back(user);
    }
    template <typename See>
    void for_each(See see) const {
      if (empty()) return;
      see(first_);
      for (const User& user : more_) see(user);
    }

   private:
    User first_;
    std::vector<User> more_;
  };
  struct Uses {
    User writer;
    Readers readers;
  };
  // What a later step of the same channel need not wait for again: [channel key] -> newest step waited for.
  struct Channel {
    std::unordered_map<int64_t, int32_t> waited;
  };
  struct Whole {
    Buffer buffer = Buffer::kInput;
    int64_t begin = 0, end = 0;
    std::vector<User> writers;  // the newest of each channel
  };

  IntervalMap<Uses>& uses(const At& place);
  // `unit`: of the place, against the unit of the step's rank.
  void will_read(const At& place, int64_t bytes);
  void will_write(const At& place, int64_t bytes, int32_t unit);
  void did_read(const At& place, int64_t bytes, StepRef step);
  void did_write(const At& place, int64_t bytes, StepRef step, int32_t unit);
  void wait_for(const User& user, int32_t unit) {
    if (user.step.rank < 0) return;
    waits_.push_back({user.step, group_ ? group_->add(unit, user.unit) : 0});
  }
  void add(int channel, const At& from, std::span<const At> more, const At& to, const At* also, int64_t bytes,
           bool reduces);
  void put_waits(int rank, int channel);
  int channel_of(const StepRef& step) const {
    return plan_.steps[static_cast<size_t>(step.rank)][static_cast<size_t>(step.step)].channel;
  }

  Plan plan_;
  std::vector<std::vector<IntervalMap<Uses>>> uses_;  // [rank][buffer]
  std::vector<std::vector<Channel>> channels_;        // [rank][channel]
  std::vector<User> waits_;                           // of the step that is being written
  std::vector<std::vector<Whole>> wholes_;            // [rank]
  const Displacements* group_ = nullptr;
  int32_t toward_ = 0;
  std::vector<std::vector<int32_t>> step_toward_, wait_toward_;  // [rank]
};

template <typename SliceOf, typename StepOf>
void Builder::repeat(int rank, size_t begin, size_t end, const SliceOf& slice_of, const StepOf& step_of) {
  const auto r = static_cast<size_t>(rank);
  auto& steps = plan_.steps[r];
  auto& waits = plan_.wait_pool[r];
  auto& places = plan_.place_pool[r];
  for (size_t i = begin; i < end; ++i) {
    Step step = steps[i];
    const PoolRange waits_before = step.waits, places_before = step.places;
    step.from = slice_of(step.from);
    step.to = slice_of(step.to);
    step.waits.begin = static_cast<uint32_t>(waits.size());
    for (uint32_t w = waits_before.begin; w < waits_before.begin + waits_before.count; ++w) {
      waits.push_back(step_of(waits[w]));
      if (group_) wait_toward_[r].push_back(wait_toward_[r][w]);
    }
    step.places.begin = static_cast<uint32_t>(places.size());
    for (uint32_t p = places_before.begin; p < places_before.begin + places_before.count; ++p)
      places.push_back({places[p].rank, slice_of(places[p].slice)});
    steps.push_back(step);
    if (group_) step_toward_[r].push_back(step_toward_[r][i]);
  }
}

}  // namespace opentrn::collectives
