// What a fork leaves behind: the child has the parent's memory and one thread. Whatever threads had been
// started are gone there, and whoever waits for them would wait for ever.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace opentrn {

// Differs between a process and those forked from it. Keep it beside a thread, and compare before waiting.
uint64_t fork_generation();

// A mutex of this process: the child of a fork begins with a fresh one, because the thread that held the
// parent's is not there to unlock it.
class ForkSafeMutex {
 public:
  ForkSafeMutex() : mine_(new Mine) {}
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

  void lock() { mine().lock(); }
  void unlock() { mine().unlock(); }
  bool try_lock() { return mine().try_lock(); }
  template <typename Duration>
  bool try_lock_for(const Duration& duration) {
    return mine().try_lock_for(duration);
  }

 private:
  struct Mine {
    std::timed_mutex mutex;
    const uint64_t born = fork_generation();
  };
  std::timed_mutex& mine();

  std::atomic<Mine*> mine_;  // never freed: objects with static storage are used until the process ends
};

}  // namespace opentrn
