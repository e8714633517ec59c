// SpinLock: for sections of a few dozen instructions, where a sleeping lock would cost more than it guards.
// It sleeps for a moment when the holder does not run.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace opentrn {

inline void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits a little, the longer the more often it is called in a row: it spins so many times, then sleeps. Why
// it does not yield: PatientWait.
class Backoff {
 public:
  explicit Backoff(int spins = 1000) : spins_(spins) {}

  void wait() {
    if (++rounds_ < spins_)
      relax_cpu();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

 private:
  int spins_, rounds_ = 0;
};

class SpinLock {
 public:
  void lock() {
    Backoff backoff;
    while (held_.exchange(true, std::memory_order_acquire))
      while (held_.load(std::memory_order_relaxed)) backoff.wait();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace opentrn
