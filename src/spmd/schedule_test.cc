#include "spmd/schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "base/random.h"

namespace opentrn::spmd {
namespace {

// Gradients are reduced while the backward pass goes on: only the last one is seen.
TEST(Schedule, ReductionsRunBesideThePartThatWritesTheirOperands) {
  const std::vector<Step> steps = {
      Part{.ns = 100, .writes = {{0, 40}, {1, 100}}},
      Collective{.ns = 30, .reads = {0}, .writes = {2}},
      Collective{.ns = 20, .reads = {1}, .writes = {3}},
      Part{.ns = 10, .reads = {{2, 0}, {3, 5}}},
  };
  const Schedule result = schedule(steps);
  EXPECT_EQ(result.steps[1].start_ns, 40);
  EXPECT_EQ(result.steps[2].start_ns, 100);
  EXPECT_EQ(result.end_ns, 125);  // 100, 5 beside the reduction, 15 of waiting, 5
  EXPECT_EQ(result.exposed_ns, 15);
  EXPECT_EQ(result.collectives_ns, 50);
  EXPECT_EQ(result.parts_ns, 110);
}

// Gathered weights are fetched in the order in which they are needed, whatever the order of the program.
TEST(Schedule, GathersComeInTheOrderOfTheirReaders) {
  const std::vector<Step> steps = {
      Collective{.ns = 10, .writes = {0}},
      Collective{.ns = 10, .writes = {1}},
      Part{.ns = 40, .reads = {{1, 0}, {0, 20}}},
  };
  const Schedule result = schedule(steps);
  EXPECT_EQ(result.steps[1].start_ns, 0);
  EXPECT_EQ(result.steps[0].start_ns, 10);
  EXPECT_EQ(result.end_ns, 50);
  EXPECT_EQ(result.exposed_ns, 10);
}

TEST(Schedule, StreamsRunAtOnce) {
  std::vector<Step> steps = {
      Collective{.ns = 10, .writes = {0}},
      Collective{.ns = 10, .stream = 1, .writes = {1}},
      Part{.ns = 5, .reads = {{0, 0}, {1, 0}}},
  };
  EXPECT_EQ(schedule(steps).end_ns, 15);
  std::get<Collective>(steps[1]).stream = 0;
  EXPECT_EQ(schedule(steps).end_ns, 25);
}

// The part wants 8 and the collective 6 of 10 bytes a nanosecond: the part has 4 while both run.
TEST(Schedule, APartIsSlowerBesideACollectiveThatTakesItsMemory) {
  const std::vector<Step> steps = {
      Collective{.ns = 10, .hbm_bytes = 60, .writes = {0}},
      Part{.ns = 20, .hbm_bytes = 160, .writes = {{1, 10}}},
  };
  const Schedule result = schedule(steps, {.hbm_bytes_per_ns = 10});
  EXPECT_DOUBLE_EQ(result.end_ns, 25);
  EXPECT_DOUBLE_EQ(result.slowed_ns, 5);
  EXPECT_DOUBLE_EQ(time_of(result.steps[1], 5), 10);
  EXPECT_DOUBLE_EQ(time_of(result.steps[1], 10), 15);
  EXPECT_EQ(schedule(steps).end_ns, 20);
}

// All bytes go over the one memory: 28 ns for 280 bytes. The collective has 16/17 of it as long as the part
// wants more than the rest.
TEST(Schedule, ACollectiveThatWantsAllMemoryAndAPartSlowEachOther) {
  const std::vector<Step> steps = {
      Collective{.ns = 16, .hbm_bytes = 160, .writes = {0}},
      Part{.ns = 12, .hbm_bytes = 120},
      Part{.ns = 1, .reads = {{0, 0}}},
  };
  const Schedule result = schedule(steps, {.hbm_bytes_per_ns = 10, .of_collectives = 16.0 / 17});
  EXPECT_DOUBLE_EQ(result.steps[0].end_ns, 17);
  EXPECT_DOUBLE_EQ(result.held_up_ns, 1);
  EXPECT_DOUBLE_EQ(result.steps[1].end_ns, 28);
  EXPECT_DOUBLE_EQ(result.slowed_ns, 16);
  EXPECT_DOUBLE_EQ(result.end_ns, 29);
  EXPECT_EQ(result.exposed_ns, 0);
}

// The same with the packets turned round: the part has 16/17 until it ends at 12.75, having left 7.5 bytes.
TEST(Schedule, LargerPacketsOfThePartLeaveLittleToCollectives) {
  const std::vector<Step> steps = {
      Collective{.ns = 16, .hbm_bytes = 160, .writes = {0}},
      Part{.ns = 12, .hbm_bytes = 120},
      Part{.ns = 1, .reads = {{0, 0}}},
  };
  const Schedule result = schedule(steps, {.hbm_bytes_per_ns = 10, .of_collectives = 1.0 / 17});
  EXPECT_DOUBLE_EQ(result.steps[1].end_ns, 12.75);
  EXPECT_DOUBLE_EQ(result.steps[0].end_ns, 28);
  EXPECT_DOUBLE_EQ(result.slowed_ns, 0.75);
  EXPECT_DOUBLE_EQ(result.held_up_ns, 12);
}

TEST(Schedule, APartThatWantsLittleHoldsACollectiveUpByThat) {
  const std::vector<Step> steps = {
      Collective{.ns = 20, .hbm_bytes = 2000, .writes = {0}},  // no more than there is counts
      Part{.ns = 100, .hbm_bytes = 40},
  };
  const Schedule result = schedule(steps, {.hbm_bytes_per_ns = 10, .of_collectives = 16.0 / 17});
  EXPECT_DOUBLE_EQ(result.steps[0].end_ns, 20 / 0.96);
  EXPECT_DOUBLE_EQ(result.slowed_ns, 0);
  EXPECT_DOUBLE_EQ(result.end_ns, 100);
}

// Three values at the beginning of three parts: without triggers all are gathered at once.
TEST(Schedule, ACollectiveWaitsForItsTrigger) {
  std::vector<Step> steps;
  for (ValueNumber i = 0; i < 3; ++i) steps.push_back(Collective{.ns = 10, .writes = {i}});
  for (ValueNumber i = 0; i < 3; ++i) steps.push_back(Part{.ns = 20, .reads = {{i, 0}}});
  const auto starts = [&] {
    const Schedule result = schedule(steps);
    EXPECT_EQ(result.end_ns, 70);
    return std::vector<double>{result.steps[0].start_ns, result.steps[1].start_ns, result.steps[2].start_ns};
  };
  EXPECT_EQ(starts(), (std::vector<double>{0, 10, 20}));
  std::get<Collective>(steps[1]).not_before = Moment{3, 0};  // as the first part waits for its own
  std::get<Collective>(steps[2]).not_before = Moment{4, 0};
  EXPECT_EQ(starts(), (std::vector<double>{0, 10, 30}));
  std::get<Collective>(steps[2]).not_before = Moment{4, 7};
  EXPECT_EQ(starts(), (std::vector<double>{0, 10, 37}));
  std::get<Collective>(steps[2]).not_before = Moment{5, 3};  // later than it is needed: never mind
  EXPECT_EQ(starts(), (std::vector<double>{0, 10, 20}));
}

// Two streams on one link: by their packets, and no stream has more than it can use.
TEST(Schedule, StreamsShareLinksByTheirPackets) {
  const auto busy = [](float share) { return std::make_shared<const std::vector<float>>(1, share); };
  std::vector<Step> steps = {Collective{.ns = 12, .stream = 0, .writes = {0}, .links = busy(1)},
                             Collective{.ns = 12, .stream = 1, .writes = {1}, .links = busy(1)}};
  const auto ends = [&](std::vector<double> of_stream) {
    const Schedule result = schedule(steps, {.of_stream = std::move(of_stream)});
    return std::pair(result.steps[0].end_ns, result.steps[1].end_ns);
  };
  EXPECT_EQ(ends({0.5, 0.5}), std::pair(24.0, 24.0));
  EXPECT_EQ(ends({0.75, 0.5}), std::pair(16.0, 24.0));  // 3 to 1: 9 of 12 until 16
  std::get<Collective>(steps[1]).links = busy(0.25);
  EXPECT_EQ(ends({0.5, 0.5}), std::pair(15.0, 12.0));  // the second has its quarter, the first the rest
  std::get<Collective>(steps[1]).links = nullptr;
  EXPECT_EQ(ends({0.5, 0.5}), std::pair(12.0, 12.0));
}

// Beside a part: compute's turn is 1, those of streams 3 and 1.
TEST(Schedule, StreamsShareMemoryByTheirPackets) {
  const std::vector<Step> steps = {Collective{.ns = 9, .hbm_bytes = 90, .stream = 0, .writes = {0}},
                                   Collective{.ns = 9, .hbm_bytes = 90, .stream = 1, .writes = {1}},
                                   Part{.ns = 9, .hbm_bytes = 90}};
  const Schedule result = schedule(steps, {.hbm_bytes_per_ns = 10, .of_stream = {0.75, 0.5}});
  EXPECT_DOUBLE_EQ(result.steps[0].end_ns, 15);  // 90 bytes at 6 of 10
  EXPECT_DOUBLE_EQ(result.steps[1].end_ns, 27);  // then half each of what is left
  EXPECT_DOUBLE_EQ(result.steps[2].end_ns, 27);
}

TEST(Schedule, NothingAndStepsWithoutTime) {
  EXPECT_EQ(schedule({}).end_ns, 0);
  const std::vector<Step> steps = {Part{.writes = {{0, 0}}}, Collective{.reads = {0}, .writes = {1}},
                                   Part{.reads = {{1, 0}}}};
  EXPECT_EQ(schedule(steps).end_ns, 0);
}

// The definition, nanosecond by nanosecond, for times in whole nanoseconds and memory that is not shared.
class Stepwise {
 public:
  explicit Stepwise(const std::vector<Step>& steps) : steps_(steps) {
    for (const Step& step : steps) {
      if (const auto* part = std::get_if<Part>(&step))
        for (const Touch& touch : part->writes) missing_.insert(touch.value);
      else
        for (const ValueNumber value : std::get<Collective>(step).writes) missing_.insert(value);
    }
    left_.resize(steps.size());
    for (size_t i = 0; i < steps.size(); ++i)
      left_[i] = std::holds_alternative<Part>(steps[i]) ? std::get<Part>(steps[i]).ns
                                                        : std::get<Collective>(steps[i]).ns;
  }

  double end() {
    for (int64_t now = 0; now < 1'000'000; ++now) {
      settle();
      if (all_done()) return static_cast<double>(now);
      if (const auto part = first_part(); part && !waits(*part)) left_[*part] -= 1;
      for (const auto& [stream, step] : busy_) left_[step] -= 1;
    }
    return -1;
  }

 private:
  double done_ns(size_t part) const { return std::get<Part>(steps_[part]).ns - left_[part]; }
  std::optional<size_t> first_part() const {
    for (size_t i = 0; i < steps_.size(); ++i)
      if (std::holds_alternative<Part>(steps_[i]) && !ended_.contains(i)) return i;
    return std::nullopt;
  }
  bool waits(size_t part) const {
    for (const Touch& touch : std::get<Part>(steps_[part]).reads)
      if (touch.at_ns <= done_ns(part) && missing_.contains(touch.value)) return true;
    return false;
  }
  // The first part from `step` on that reads a value, or what a collective makes of it.
  std::pair<size_t, double> need(size_t step) const {
    std::pair<size_t, double> first{steps_.size(), 0};
    for (const ValueNumber value : std::get<Collective>(steps_[step]).writes)
      for (size_t i = step + 1; i < steps_.size(); ++i) {
        if (const auto* part = std::get_if<Part>(&steps_[i])) {
          for (const Touch& touch : part->reads)
            if (touch.value == value) first = std::min(first, {i, touch.at_ns});
        } else if (const auto& reads = std::get<Collective>(steps_[i]).reads;
                   std::find(reads.begin(), reads.end(), value) != reads.end()) {
          first = std::min(first, need(i));
        }
      }
    return first;
  }
  bool is_triggered(size_t collective) const {
    const auto& moment = std::get<Collective>(steps_[collective]).not_before;
    if (!moment || moment->step >= steps_.size() || !std::holds_alternative<Part>(steps_[moment->step]))
      return true;
    const auto [part, at_ns] = need(collective);
    if (std::pair(moment->step, moment->at_ns) > std::pair(part, at_ns) || ended_.contains(moment->step))
      return true;
    const double at = std::min(moment->at_ns, std::get<Part>(steps_[moment->step]).ns);
    return first_part() == moment->step && done_ns(moment->step) >= at;
  }
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto it = busy_.begin(); it != busy_.end();) {
        if (left_[it->second] > 0) {
          ++it;
          continue;
        }
        for (const ValueNumber value : std::get<Collective>(steps_[it->second]).writes) missing_.erase(value);
        ended_.insert(it->second);
        it = busy_.erase(it);
        moved = true;
      }
      if (const auto part = first_part()) {
        // Writes of a moment before the reads of the same; none beyond a read that waits.
        double until = done_ns(*part);
        for (const Touch& touch : std::get<Part>(steps_[*part]).reads)
          if (missing_.contains(touch.value)) until = std::min(until, touch.at_ns);
        for (const Touch& touch : std::get<Part>(steps_[*part]).writes)
          if (touch.at_ns <= until && missing_.erase(touch.value) > 0) moved = true;
        if (left_[*part] <= 0 && !waits(*part)) {
          ended_.insert(*part);
          moved = true;
        }
      }
    }
    std::map<int, std::tuple<size_t, double, size_t>> best;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const auto* collective = std::get_if<Collective>(&steps_[i]);
      if (!collective || ended_.contains(i) || busy_.contains(collective->stream)) continue;
      bool ready = is_triggered(i);
      for (const ValueNumber value : collective->reads) ready = ready && !missing_.contains(value);
      if (!ready) continue;
      const auto [part, at_ns] = need(i);
      const std::tuple<size_t, double, size_t> key{part, at_ns, i};
      const auto [found, fresh] = best.try_emplace(collective->stream, key);
      if (!fresh) found->second = std::min(found->second, key);
    }
    for (const auto& [stream, key] : best) busy_[stream] = std::get<2>(key);
  }
  bool all_done() const { return ended_.size() == steps_.size(); }

  const std::vector<Step>& steps_;
  std::vector<double> left_;
  std::set<ValueNumber> missing_;
  std::set<size_t> ended_;
  std::map<int, size_t> busy_;
};

std::vector<Step> random_steps(SplitMix64& random) {
  std::vector<Step> steps;
  ValueNumber values = 3;  // arguments of the program
  const auto some = [&] { return static_cast<ValueNumber>(random.below(values)); };
  for (uint32_t i = 0, count = 1 + random.below(9); i < count; ++i) {
    if (random.below(2) == 0) {
      Part part{.ns = static_cast<double>(1 + random.below(30))};
      const auto moment = [&] {
        return static_cast<double>(random.below(static_cast<uint32_t>(part.ns) + 1));
      };
      for (uint32_t n = random.below(4); n > 0; --n) part.reads.push_back({some(), moment()});
      const ValueNumber before = values;
      for (uint32_t n = random.below(4); n > 0; --n) part.writes.push_back({values++, moment()});
      std::erase_if(part.reads, [&](const Touch& touch) { return touch.value >= before; });
      steps.emplace_back(std::move(part));
    } else {
      Collective collective{.ns = static_cast<double>(1 + random.below(20)),
                            .stream = static_cast<int>(random.below(2))};
      for (uint32_t n = random.below(3); n > 0; --n) collective.reads.push_back(some());
      for (uint32_t n = 1 + random.below(2); n > 0; --n) collective.writes.push_back(values++);
      if (random.below(3) == 0)
        collective.not_before = Moment{random.below(count), static_cast<double>(random.below(30))};
      steps.emplace_back(std::move(collective));
    }
  }
  return steps;
}

TEST(Schedule, IsWhatTheDefinitionSays) {
  SplitMix64 random(5);
  for (int i = 0; i < 3000; ++i) {
    const std::vector<Step> steps = random_steps(random);
    const Schedule result = schedule(steps);
    ASSERT_EQ(result.end_ns, Stepwise(steps).end()) << "case " << i;
    double serial = 0;
    for (const Step& step : steps) std::visit([&](const auto& one) { serial += one.ns; }, step);
    EXPECT_LE(result.end_ns, serial);  // a trigger is never behind the need for it
    EXPECT_GE(result.end_ns, result.parts_ns);
    EXPECT_LE(result.exposed_ns, result.collectives_ns);
    EXPECT_EQ(result.slowed_ns, 0);
    // Where a part does not go on, a collective runs.
    bool ends_with_part = true;
    for (size_t s = 0; s < steps.size(); ++s)
      if (std::holds_alternative<Collective>(steps[s]) && result.steps[s].end_ns == result.end_ns)
        ends_with_part = false;
    if (ends_with_part) {
      EXPECT_NEAR(result.end_ns, result.parts_ns + result.exposed_ns, 1e-9);
    }
  }
}

}  // namespace
}  // namespace opentrn::spmd
