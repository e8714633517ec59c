#include "base/sleepers.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace opentrn {
namespace {

// A sleep ends by itself after milliseconds, so a lost call would show as time: these tests count turns
// instead.

TEST(Sleepers, AChangeBeforeTheSleepEndsIt) {
  Sleepers sleepers;
  for (int i = 0; i < 1000; ++i) {
    Sleepers::Ticket ticket(sleepers);
    sleepers.notify();
    ticket.sleep();  // its word has moved on: a thousand naps would be seconds
  }
}

TEST(Sleepers, TwoThreadsPassTurns) {
  constexpr int kTurns = 2000;
  Sleepers sleepers;
  std::atomic<int> turn{0};
  const auto play = [&](int me) {
    for (int i = me; i < kTurns; i += 2) {
      const auto is_mine = [&] { return turn.load(std::memory_order_seq_cst) == i; };
      for (PatientWait patient(sleepers); !is_mine();) patient.wait(is_mine);
      turn.store(i + 1, std::memory_order_seq_cst);
      sleepers.notify(2);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turn, kTurns);
}

TEST(Sleepers, AllOfManyAreWoken) {
  Sleepers sleepers;
  std::atomic<int> round{0}, seen{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 1; i <= 50; ++i) {
        const auto has_come = [&] { return round.load(std::memory_order_seq_cst) >= i; };
        while (!has_come()) {
          Sleepers::Ticket ticket(sleepers);
          if (!has_come()) ticket.sleep();
        }
        ++seen;
      }
    });
  for (int i = 1; i <= 50; ++i) {
    round = i;
    sleepers.notify(4);
    while (seen < 4 * i) std::this_thread::yield();
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(seen, 200);
}

}  // namespace
}  // namespace opentrn
