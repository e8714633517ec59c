#include "sim/functional/shared_history.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"

namespace opentrn::sim::shared_history_tests {
namespace {

constexpr int kUnwritten = -1;

// What one core does to one byte; value kUnwritten: it reads.
using Step = int;
constexpr Step kRead = kUnwritten;
using Steps = std::vector<Step>;

// Calls order(cores), for every order of the steps of two cores.
template <typename Each>
void for_orders(size_t a, size_t b, std::vector<int>& cores, Each&& each) {
  if (a == 0 && b == 0) return each(cores);
  for (int core = 0; core < 2; ++core) {
    if ((core == 0 ? a : b) == 0) continue;
    cores.push_back(core);
    for_orders(a - (core == 0), b - (core == 1), cores, each);
    cores.pop_back();
  }
}

// What every read gives, core by core, and what is left.
std::vector<int> results(const std::array<Steps, 2>& steps, int initial, const std::vector<int>& cores) {
  std::array<std::vector<int>, 2> reads;
  std::array<size_t, 2> next{};
  int value = initial;
  for (const int core : cores) {
    const Step step = steps[core][next[core]++];
    if (step == kRead)
      reads[core].push_back(value);
    else
      value = step;
  }
  std::vector<int> all = reads[0];
  all.insert(all.end(), reads[1].begin(), reads[1].end());
  all.push_back(value);
  return all;
}

// A core that reads the byte, then changes it, and another that writes it.
bool claims_in_vain(const std::array<Steps, 2>& steps, int initial) {
  for (int core = 0; core < 2; ++core) {
    int value = initial;
    bool read = false, changes = false, other_writes = false;
    for (const Step step : steps[core]) {
      if (step == kRead) {
        read = true;
        continue;
      }
      const int was = std::exchange(value, step);
      changes |= read && step != was;
    }
    for (const Step step : steps[1 - core]) other_writes |= step != kRead;
    if (changes && other_writes) return true;
  }
  return false;
}

bool reports(const std::array<Steps, 2>& steps, int initial, const std::vector<int>& cores) {
  SharedHistory history(1, 1, std::make_shared<Epoch>());
  std::array<size_t, 2> next{};
  int value = initial;
  for (const int core : cores) {
    const Step step = steps[core][next[core]++];
    if (step == kRead) {
      if (history.read(core, 0, 1) >= 0) return true;
      continue;
    }
    const auto now = static_cast<std::byte>(step), before = static_cast<std::byte>(value);
    if (history.write(core, 0, 1, &now, value == kUnwritten ? nullptr : &before) >= 0) return true;
    value = step;
  }
  return history.parted() >= 0;
}

std::vector<Steps> all_steps(int length_max) {
  std::vector<Steps> all = {{}};
  for (size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int>(all[i].size()) == length_max) continue;
    for (Step step = kRead; step <= 2; ++step) {
      Steps longer = all[i];
      longer.push_back(step);
      all.push_back(std::move(longer));
    }
  }
  return all;
}

// All programs of up to three steps each, in all orders: what is reported does not depend on the order, and
// it is what differs between orders, or a claim.
TEST(SharedHistory, ReportsWhatDependsOnTheOrderInEveryOrder) {
  const std::vector<Steps> all = all_steps(3);
  int64_t races = 0, stronger = 0, fine = 0;
  for (const int initial : {kUnwritten, 0})
    for (const Steps& first : all)
      for (const Steps& second : all) {
        const std::array<Steps, 2> steps = {first, second};
        std::set<std::vector<int>> outcomes;
        std::set<bool> reported;
        std::vector<int> order;
        for_orders(first.size(), second.size(), order, [&](const std::vector<int>& cores) {
          outcomes.insert(results(steps, initial, cores));
          reported.insert(reports(steps, initial, cores));
        });
        const bool differs = outcomes.size() > 1, claims = claims_in_vain(steps, initial);
        ASSERT_EQ(reported, (std::set<bool>{differs || claims}))
            << testing::PrintToString(steps) << " from " << initial;
        ++(differs ? races : claims ? stronger : fine);
      }
  EXPECT_GT(races, 10'000);
  EXPECT_GT(fine, 1'000);
  EXPECT_LT(stronger, fine / 20);  // only where a core puts back what it read
}

// Accesses of ranges, against the rule byte by byte.
struct Access {
  int core;
  bool writes;
  int64_t begin, bytes;
  std::vector<std::byte> values;
};

struct ByteEvents {
  std::array<std::set<int>, 2> expected, written;
  std::array<int, 2> last = {kUnwritten, kUnwritten};
  std::array<bool, 2> changed_after_read{};
};

bool races(const std::vector<Access>& accesses, const std::vector<int>& initial) {
  std::vector<ByteEvents> bytes(initial.size());
  for (const Access& access : accesses)
    for (int64_t i = 0; i < access.bytes; ++i) {
      ByteEvents& at = bytes[static_cast<size_t>(access.begin + i)];
      const int core = access.core;
      const int own =
          at.written[core].empty() ? initial[static_cast<size_t>(access.begin + i)] : at.last[core];
      if (!access.writes) {
        at.expected[core].insert(own);
        continue;
      }
      const int value = static_cast<int>(access.values[static_cast<size_t>(i)]);
      at.changed_after_read[core] |= !at.expected[core].empty() && value != own;
      at.written[core].insert(value);
      at.last[core] = value;
    }
  for (const ByteEvents& at : bytes) {
    if (!at.written[0].empty() && !at.written[1].empty() && at.last[0] != at.last[1]) return true;
    for (int core = 0; core < 2; ++core) {
      const std::set<int>& theirs = at.written[1 - core];
      if (at.changed_after_read[core] && !theirs.empty()) return true;
      for (const int value : at.expected[core])
        if (!theirs.empty() && theirs != std::set<int>{value}) return true;
    }
  }
  return false;
}

bool reports(const std::vector<Access>& accesses, const std::vector<int>& initial, int unit,
             const std::shared_ptr<Epoch>& epoch, SharedHistory& history) {
  std::vector<int> memory = initial;
  for (const Access& access : accesses) {
    if (!access.writes) {
      if (history.read(access.core, access.begin, access.bytes) >= 0) return true;
      continue;
    }
    // Runs of bytes of which all, or none, had been written.
    for (int64_t i = 0; i < access.bytes;) {
      const auto fresh = [&](int64_t at) {
        return memory[static_cast<size_t>(access.begin + at)] == kUnwritten;
      };
      int64_t n = 1;
      while (i + n < access.bytes && fresh(i + n) == fresh(i)) ++n;
      std::vector<std::byte> before;
      for (int64_t k = 0; k < n; ++k)
        before.push_back(static_cast<std::byte>(memory[static_cast<size_t>(access.begin + i + k)]));
      const bool needed = history.needs_values(access.core, access.begin + i, n);
      const std::byte* known = fresh(i) || !needed ? nullptr : before.data();
      if (history.write(access.core, access.begin + i, n, access.values.data() + i, known) >= 0) return true;
      for (int64_t k = 0; k < n; ++k)
        memory[static_cast<size_t>(access.begin + i + k)] =
            static_cast<int>(access.values[static_cast<size_t>(i + k)]);
      i += n;
    }
  }
  return history.parted() >= 0;
}

std::vector<Access> random_accesses(SplitMix64& random, int core, int64_t bytes, int64_t unit) {
  std::vector<Access> accesses(1 + random.below(4));
  for (Access& access : accesses) {
    const int64_t align = random.below(8) == 0 ? 1 : unit;
    const int64_t units = bytes / align;
    access.core = core;
    access.writes = random.below(3) != 0;
    access.begin = random.below(static_cast<uint32_t>(units));
    access.bytes = (1 + random.below(static_cast<uint32_t>(units - access.begin))) * align;
    access.begin *= align;
    const auto value = static_cast<std::byte>(random.below(3) / 2);
    access.values.assign(static_cast<size_t>(access.bytes), value);
    if (random.below(2) == 0)
      for (std::byte& each : access.values) each = static_cast<std::byte>(random.below(64) == 0);
  }
  return accesses;
}

TEST(SharedHistory, RangesFollowTheRuleOfTheirBytes) {
  SplitMix64 random(7);
  int64_t racing = 0, fine = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const int unit = 1 << random.below(4);
    const int64_t bytes = unit * (1 + random.below(trial % 2 == 0 ? 6 : 1300));
    std::vector<int> initial(static_cast<size_t>(bytes), trial % 3 == 0 ? kUnwritten : 0);
    const auto epoch = std::make_shared<Epoch>();
    SharedHistory history(bytes, unit, epoch);
    for (int rendezvous = 0; rendezvous < 2; ++rendezvous) {
      const std::array<std::vector<Access>, 2> cores = {random_accesses(random, 0, bytes, unit),
                                                        random_accesses(random, 1, bytes, unit)};
      std::vector<Access> merged;
      for (std::array<size_t, 2> next{}; next[0] < cores[0].size() || next[1] < cores[1].size();) {
        const auto core = random.below(2);
        if (next[core] < cores[core].size()) merged.push_back(cores[core][next[core]++]);
      }
      const bool expected = races(merged, initial);
      ASSERT_EQ(reports(merged, initial, unit, epoch, history), expected) << "trial " << trial;
      ++(expected ? racing : fine);
      if (expected) break;
      ASSERT_EQ(epoch->parted.load(), 0);
      ++epoch->number;
      for (const Access& access : merged)
        for (int64_t i = 0; i < access.bytes && access.writes; ++i)
          initial[static_cast<size_t>(access.begin + i)] =
              static_cast<int>(access.values[static_cast<size_t>(i)]);
    }
  }
  EXPECT_GT(racing, 1000);
  EXPECT_GT(fine, 1000);
}

TEST(SharedHistory, HalvesTakeLittleMemory) {
  constexpr int64_t kBytes = int64_t{1} << 24, kTile = int64_t{1} << 16;
  SharedHistory history(kBytes, 2, std::make_shared<Epoch>());
  const std::vector<std::byte> tile(kTile);
  for (int64_t at = 0; at < kBytes; at += kTile)
    ASSERT_EQ(history.write(at >= kBytes / 2, at, kTile, tile.data(), nullptr), SharedHistory::kNoRace);
  EXPECT_LT(history.memory_bytes(), kBytes / 16);
}

}  // namespace
}  // namespace opentrn::sim::shared_history_tests
