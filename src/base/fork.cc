#include "base/fork.h"

#include <pthread.h>

namespace opentrn {

namespace {

std::atomic<uint64_t> generation{0};

// Only what POSIX allows in the child of a process with threads: a number is counted up.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

uint64_t fork_generation() { return generation.load(std::memory_order_relaxed); }

std::timed_mutex& ForkSafeMutex::mine() {
  Mine* current = mine_.load(std::memory_order_acquire);
  if (current->born == fork_generation()) return current->mutex;
  auto* fresh = new Mine;
  if (mine_.compare_exchange_strong(current, fresh, std::memory_order_acq_rel)) return fresh->mutex;
  delete fresh;
  return current->mutex;
}

}  // namespace opentrn
