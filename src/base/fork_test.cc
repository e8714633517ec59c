// Tests of what still works in the child of a fork. A child that hangs is ended by its own alarm.
#include "base/fork.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "base/thread_pool.h"

namespace opentrn {
namespace {

// The exit status of `body` in a child; -1 when a signal ended it, as the alarm does.
int in_child(const std::function<bool()>& body) {
  constexpr unsigned kSeconds = 20;
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int64_t sum(ThreadPool& pool, int64_t n) {
  std::atomic<int64_t> total = 0;
  pool.parallel_for(static_cast<size_t>(n), [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) total += static_cast<int64_t>(i);
  });
  return total;
}

TEST(Fork, TheGenerationDiffersInTheChildOnly) {
  const uint64_t before = fork_generation();
  EXPECT_EQ(in_child([&] { return fork_generation() != before; }), 0);
  EXPECT_EQ(fork_generation(), before);
}

TEST(Fork, APoolHasThreadsOfItsOwnInTheChild) {
  ThreadPool pool(3);
  EXPECT_EQ(sum(pool, 1000), 499500);
  EXPECT_EQ(in_child([&] {
              std::atomic<int> parts = 0;
              // Each of three parts waits for the other two: one thread alone would wait for ever.
              pool.parallel_for(3, [&](size_t, size_t, int) {
                ++parts;
                while (parts < 3) std::this_thread::yield();
              });
              return pool.size() == 3 && sum(pool, 1000) == 499500;
            }),
            0);
  EXPECT_EQ(sum(pool, 1000), 499500);
}

TEST(Fork, APoolThatWasBusyIsIdleInTheChild) {
  ThreadPool pool(2);
  std::atomic<bool> forked = false;
  std::atomic<int> busy = 0;
  std::thread user([&] {
    pool.parallel_for(2, [&](size_t, size_t, int) {
      ++busy;
      while (!forked) std::this_thread::yield();
    });
  });
  while (busy == 0) std::this_thread::yield();
  EXPECT_EQ(in_child([&] { return sum(pool, 1000) == 499500; }), 0);
  forked = true;
  user.join();
}

TEST(Fork, ThePoolOfTheParentEndsInTheChild) {
  auto pool = std::make_unique<ThreadPool>(3);
  sum(*pool, 1000);
  EXPECT_EQ(in_child([&] {
              pool.reset();
              return true;
            }),
            0);
}

TEST(Fork, AMutexThatAnotherThreadHeldIsFreeInTheChild) {
  static ForkSafeMutex mutex;  // never freed, so that a local one leaks
  std::atomic<bool> held = false, over = false;
  std::thread holder([&] {
    std::lock_guard guard(mutex);
    held = true;
    while (!over) std::this_thread::yield();
  });
  while (!held) std::this_thread::yield();
  EXPECT_EQ(in_child([&] {
              std::lock_guard guard(mutex);
              return true;
            }),
            0);
  over = true;
  holder.join();
}

}  // namespace
}  // namespace opentrn
