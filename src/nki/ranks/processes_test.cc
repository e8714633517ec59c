#include "nki/ranks/processes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <thread>

#include "mpi/testing/threads.h"

namespace opentrn::nki {
namespace {

using std::chrono::milliseconds;

// Four ranks of one core each in two processes, which are threads; what each rank threw, "" when nothing.
struct OnTwoProcesses {
  std::vector<std::string> labels = std::vector<std::string>(4);
  std::vector<std::string> said = std::vector<std::string>(2);  // by the end of the launch, in each process

  OnTwoProcesses(milliseconds timeout, const std::function<void(Ranks&, int rank)>& body) {
    mpi::Mail mail;
    mpi::run_processes(2, [&](int process) {
      const auto transport = std::make_shared<mpi::ThreadTransport>(mail, process, 2, timeout);
      const auto processes = std::make_shared<Processes>(transport, 4, "a launch");
      Ranks ranks(4, 1, {}, processes);
      std::vector<std::thread> threads;
      for (const int rank : processes->ranks_here())
        threads.emplace_back([&, rank] {
          std::string& label = labels[static_cast<size_t>(rank)];
          try {
            body(ranks, rank);
          } catch (const Fault& fault) {
            label = fault.label();
          }
          ranks.core_ended({rank, 0}, !label.empty());
        });
      for (std::thread& thread : threads) thread.join();
      try {
        std::string own;
        for (const int rank : processes->ranks_here())
          if (own.empty() || own == "collectives.peer") own = labels[static_cast<size_t>(rank)];
        if (own.empty())
          processes->finish({});
        else
          processes->fail(own, own == "collectives.peer");
      } catch (const Fault& fault) {
        said[static_cast<size_t>(process)] = fault.what();
      }
    });
  }
};

struct Brought {
  Collective call;
  Contribution contribution;
  int64_t value = 0, sum = 0;

  explicit Brought(int64_t of) : value(of) {
    contribution.call = &call;
    contribution.in.emplace_back(std::as_bytes(std::span(&value, 1)));
    contribution.out.emplace_back(std::as_writable_bytes(std::span(&sum, 1)));
  }
  Ranks::Visit visit(const std::vector<int>& ranks, std::string what) {
    Ranks::Visit made;
    for (const int rank : ranks) made.members.push_back({rank, 0});
    made.what = std::move(what);
    made.contribution = &contribution;
    return made;
  }
};

void add_up(std::span<Contribution* const> members) {
  int64_t sum = 0;
  for (const Contribution* member : members) {
    int64_t value = 0;
    std::memcpy(&value, member->in[0].data(), sizeof value);
    sum = sum * 10 + value;  // tells the order
  }
  for (Contribution* member : members) std::memcpy(member->out[0].data(), &sum, sizeof sum);
}

TEST(Processes, GroupsAcrossProcessesGetWhatAllBringInTheirOrder) {
  const OnTwoProcesses run(milliseconds(20'000), [](Ranks& ranks, int rank) {
    for (int turn = 0; turn < 20; ++turn) {
      Brought all(rank + 1), pair(rank + 1);
      // The pairs meet across the processes, in any order of time.
      ranks.meet({rank, 0}, pair.visit({rank % 2, rank % 2 + 2}, "pair"), add_up);
      EXPECT_EQ(pair.sum, rank % 2 == 0 ? 13 : 24);
      ranks.meet({rank, 0}, all.visit({3, 0, 2, 1}, "all"), add_up);
      EXPECT_EQ(all.sum, 4132);
    }
  });
  EXPECT_EQ(run.labels, std::vector<std::string>(4));
  EXPECT_EQ(run.said, std::vector<std::string>(2));
}

TEST(Processes, DifferentCollectivesAreNamed) {
  const OnTwoProcesses run(milliseconds(20'000), [](Ranks& ranks, int rank) {
    Brought mine(rank);
    ranks.meet({rank, 0}, mine.visit({0, 1, 2, 3}, rank < 2 ? "a" : "b"), add_up);
  });
  for (const int first : {0, 2}) {
    std::vector<std::string> pair(run.labels.begin() + first, run.labels.begin() + first + 2);
    std::ranges::sort(pair);
    EXPECT_EQ(pair, (std::vector<std::string>{"collectives.mismatch", "collectives.peer"}));
  }
}

TEST(Processes, ARankThatReturnsWithoutComingIsNamed) {
  const OnTwoProcesses run(milliseconds(20'000), [](Ranks& ranks, int rank) {
    if (rank != 1) return;
    Brought mine(rank);
    ranks.meet({rank, 0}, mine.visit({1, 3}, "pair"), add_up);
  });
  EXPECT_EQ(run.labels[1], "collectives.absent");
  EXPECT_NE(run.said[1].find("mpi.peer"), std::string::npos) << run.said[1];
}

TEST(Processes, AFailureEndsTheLaunchEverywhere) {
  const OnTwoProcesses run(milliseconds(20'000), [](Ranks& ranks, int rank) {
    if (rank == 2) throw Fault(FaultKind::kProgram, "test.fault", "rank 2 fails");
    if (rank == 3) return;
    Brought mine(rank);
    ranks.meet({rank, 0}, mine.visit({0, 1, 2}, "a"), add_up);
  });
  EXPECT_EQ(run.labels[2], "test.fault");
  EXPECT_EQ(run.labels[0], "collectives.peer");
  EXPECT_EQ(run.labels[1], "collectives.peer");
  EXPECT_NE(run.said[0].find("process 1 (ranks 2 to 3): test.fault"), std::string::npos) << run.said[0];
}

TEST(Processes, ARankThatNeverComesIsNoHang) {
  const OnTwoProcesses run(milliseconds(200), [](Ranks& ranks, int rank) {
    Brought mine(rank);
    // 0 waits for 2 in a group that 2 never calls, and 2 for 1 so.
    if (rank == 0) ranks.meet({rank, 0}, mine.visit({0, 2}, "a"), add_up);
    if (rank == 2) ranks.meet({rank, 0}, mine.visit({1, 2, 3}, "b"), add_up);
    if (rank == 3) ranks.meet({rank, 0}, mine.visit({1, 2, 3}, "b"), add_up);
  });
  EXPECT_TRUE(run.labels[0] == "mpi.absent" || run.labels[0] == "collectives.peer") << run.labels[0];
  EXPECT_NE(run.labels[2], "");
}

}  // namespace
}  // namespace opentrn::nki
