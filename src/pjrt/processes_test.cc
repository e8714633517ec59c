// Processes as threads, with a store in memory.
#include "pjrt/processes.h"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"

namespace opentrn::pjrt {
namespace {

class Coordinator {
 public:
  Store store() {
    return {[this](const std::string& key, std::chrono::milliseconds timeout) {
              std::unique_lock lock(mutex_);
              if (!put_.wait_for(lock, timeout, [&] { return values_.contains(key); }))
                throw Fault(FaultKind::kInput, "pjrt.absent", "no " + key);
              return values_[key];
            },
            [this](const std::string& key, const std::string& value) {
              const std::lock_guard lock(mutex_);
              values_[key] = value;
              put_.notify_all();
            }};
  }

 private:
  std::mutex mutex_;
  std::condition_variable put_;
  std::map<std::string, std::string> values_;
};

// What each of `count` processes says at its end: "" or the label of its fault.
template <typename Work>
std::vector<std::string> run(int count, Work work) {
  std::vector<std::string> said(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int process = 0; process < count; ++process)
    threads.emplace_back([&, process] {
      try {
        work(process);
      } catch (const Fault& fault) {
        said[static_cast<size_t>(process)] = fault.label();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return said;
}

TEST(Processes, ExchangeBytesOfAnySizeInAnyGroups) {
  Coordinator coordinator;
  constexpr int kCount = 4;
  const auto text_of = [](int process, int round) {
    SplitMix64 random(static_cast<uint64_t>(process * 100 + round));
    std::string text(random.below(round == 7 ? 5'000'000 : 3000), static_cast<char>('a' + process));
    return text;
  };
  const auto said = run(kCount, [&](int process) {
    Processes processes(process, kCount, coordinator.store(), "the same", {process, 10 + process});
    EXPECT_THAT(processes.cores()[3], testing::ElementsAre(3, 13));
    for (int round = 0; round < 20; ++round) {
      std::vector<int> with = {0, 1, 2, 3};
      if (round % 3 == 1) with = process < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
      if (round % 3 == 2) with = process % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3};
      const auto all = processes.exchange(with, "round " + std::to_string(round), text_of(process, round));
      ASSERT_EQ(all.size(), with.size());
      for (size_t i = 0; i < with.size(); ++i) EXPECT_EQ(all[i], text_of(with[i], round));
    }
  });
  EXPECT_THAT(said, testing::Each(""));
}

TEST(Processes, WhatDoesNotFitIsNamedAndNothingHangs) {
  {
    Coordinator coordinator;
    const auto said = run(2, [&](int process) {
      Processes processes(process, 2, coordinator.store(), process == 0 ? "trn1" : "trn2", {0});
    });
    EXPECT_THAT(said, testing::Each("pjrt.mismatch"));
  }
  {
    Coordinator coordinator;
    const auto said = run(2, [&](int process) {
      Processes processes(process, 2, coordinator.store(), "", {0});
      processes.exchange({0, 1}, process == 0 ? "f, call 1" : "g, call 1", "x");
    });
    EXPECT_THAT(said, testing::Contains("pjrt.mismatch"));
    for (const std::string& label : said) EXPECT_THAT(label, testing::AnyOf("pjrt.mismatch", "pjrt.absent"));
  }
  {
    // One ends.
    Coordinator coordinator;
    std::string again;
    const auto said = run(3, [&](int process) {
      Processes processes(process, 3, coordinator.store(), "", {0});
      processes.exchange({0, 1, 2}, "first", "x");
      if (process == 2) return;
      try {
        processes.exchange({0, 1, 2}, "second", "x");
      } catch (const Fault& fault) {
        EXPECT_THAT(fault.message(), testing::HasSubstr("second"));
        if (process == 0) {
          try {
            processes.exchange({0, 1}, "third", "x");
          } catch (const Fault& later) {
            again = later.label();
          }
        }
        throw;
      }
    });
    EXPECT_THAT(said, testing::ElementsAre("pjrt.absent", "pjrt.absent", ""));
    EXPECT_EQ(again, "pjrt.absent");
  }
}

TEST(Processes, OneThatNeverComesOrSaysNothingIsAbsent) {
  setenv("OPENTRN_PEER_TIMEOUT_S", "0.3", 1);
  Coordinator coordinator;
  EXPECT_THAT(run(1, [&](int) { Processes processes(0, 2, coordinator.store(), "", {0}); }),
              testing::ElementsAre("pjrt.absent"));
  Coordinator other;
  std::mutex done;
  done.lock();
  const auto said = run(2, [&](int process) {
    Processes processes(process, 2, other.store(), "", {0});
    if (process == 1) {
      done.lock();  // until the other has given up
      return;
    }
    try {
      processes.exchange({0, 1}, "here", "x");
    } catch (...) {
      done.unlock();
      throw;
    }
  });
  EXPECT_THAT(said, testing::ElementsAre("pjrt.absent", ""));
  setenv("OPENTRN_PEER_TIMEOUT_S", "soon", 1);
  EXPECT_THAT(run(1, [&](int) { Processes processes(0, 1, coordinator.store(), "", {0}); }),
              testing::ElementsAre("pjrt.timeout"));
  unsetenv("OPENTRN_PEER_TIMEOUT_S");
}

}  // namespace
}  // namespace opentrn::pjrt
