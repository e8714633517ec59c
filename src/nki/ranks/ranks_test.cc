#include "nki/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "nki/ranks/collective.h"

namespace opentrn::nki {
namespace {

Ranks::Visit visit(const std::vector<int>& ranks, std::string what) {
  Ranks::Visit made;
  for (const int rank : ranks) made.members.push_back({rank, 0});
  made.what = std::move(what);
  return made;
}

// Runs `body` of every rank on a thread of its own; the labels of their Faults, "" where there was none.
std::vector<std::string> labels(Ranks& ranks, const std::function<void(int)>& body) {
  std::vector<std::string> found(static_cast<size_t>(ranks.count()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks.count(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const Fault& fault) {
        found[static_cast<size_t>(rank)] = fault.label();
      }
      ranks.core_ended({rank, 0}, !found[static_cast<size_t>(rank)].empty());
    });
  for (std::thread& thread : threads) thread.join();
  std::ranges::sort(found);
  return found;
}

constexpr auto kNothing = [](std::span<Contribution* const>) {};

TEST(Ranks, TheLastOfAGroupComputesOnceForAll) {
  Ranks ranks(4, 1, {});
  std::atomic<int> computed = 0;
  const auto found = labels(ranks, [&](int rank) {
    for (int turn = 0; turn < 50; ++turn)
      ranks.meet({rank, 0}, visit({rank % 2, rank % 2 + 2}, "a"), [&](auto members) {
        EXPECT_EQ(members.size(), 2U);
        ++computed;
      });
  });
  EXPECT_EQ(found, std::vector<std::string>(4));
  EXPECT_EQ(computed, 100);
}

TEST(Ranks, OneIsToldAndTheOthersEndAsPeers) {
  Ranks different(3, 1, {});
  EXPECT_EQ(labels(different,
                   [&](int rank) {
                     different.meet({rank, 0}, visit({0, 1, 2}, rank == 1 ? "a" : "b"), kNothing);
                   }),
            (std::vector<std::string>{"collectives.mismatch", "collectives.peer", "collectives.peer"}));

  Ranks returns(3, 1, {});
  EXPECT_EQ(labels(returns,
                   [&](int rank) {
                     if (rank > 0) returns.meet({rank, 0}, visit({0, 1, 2}, "a"), kNothing);
                   }),
            (std::vector<std::string>{"", "collectives.absent", "collectives.peer"}));

  Ranks circle(3, 1, {});
  EXPECT_EQ(labels(circle,
                   [&](int rank) {
                     circle.meet({rank, 0}, visit({rank, (rank + 1) % 3}, "a"), kNothing);
                   }),
            (std::vector<std::string>{"collectives.deadlock", "collectives.peer", "collectives.peer"}));
}

TEST(Ranks, WhoFailsByItselfIsNotToldOfAnother) {
  Ranks ranks(3, 1, {});
  EXPECT_EQ(labels(ranks,
                   [&](int rank) {
                     if (rank == 2) throw Fault(FaultKind::kProgram, "own", "of the kernel");
                     ranks.meet({rank, 0}, visit({0, 1, 2}, "a"), kNothing);
                   }),
            (std::vector<std::string>{"collectives.peer", "collectives.peer", "own"}));
}

TEST(Ranks, WhatTheComputationThrowsIsOfTheRankThatCalledIt) {
  Ranks ranks(3, 1, {});
  EXPECT_EQ(labels(ranks,
                   [&](int rank) {
                     ranks.meet({rank, 0}, visit({0, 1, 2}, "a"),
                                [](auto) { throw Fault(FaultKind::kProgram, "own", "of the values"); });
                   }),
            (std::vector<std::string>{"collectives.peer", "collectives.peer", "own"}));
}

TEST(Ranks, TheRingOfAChannelAndWhoseDataItBrings) {
  EXPECT_EQ(ring({4, 7, 5}, 0), (std::vector<int>{4, 7, 5}));
  EXPECT_EQ(ring({4, 7, 5}, 1), (std::vector<int>{5, 7, 4}));
  const std::vector<int> order = {4, 7, 5};
  EXPECT_EQ(processing_rank(order, 7, 0), 7);
  EXPECT_EQ(processing_rank(order, 7, 1), 4);
  EXPECT_EQ(processing_rank(order, 7, 2), 5);
  EXPECT_EQ(processing_rank(order, 7, 301), 4);
}

}  // namespace
}  // namespace opentrn::nki
