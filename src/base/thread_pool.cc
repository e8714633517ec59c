#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace opentrn {

namespace {
constexpr int kSpinsBeforeSleep = 4000;

inline void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> generation{0};
  std::atomic<int> running{0};
  std::atomic<bool> stop{false};
  int sleepers = 0;

  size_t n = 0;
  int parts = 0;
  const std::function<void(size_t, size_t, int)>* body = nullptr;
  std::exception_ptr error;

  void run_part(int part) {
    const size_t begin = n * part / parts;
    const size_t end = n * (part + 1) / parts;
    try {
      if (begin < end) (*body)(begin, end, part);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }

  void work(int part) {
    uint64_t seen = 0;
    while (true) {
      for (int spin = 0; generation.load(std::memory_order_acquire) == seen && spin < kSpinsBeforeSleep; ++spin)
        relax_cpu();
      if (generation.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex);
        ++sleepers;
        wake.wait(lock, [&] { return generation.load(std::memory_order_acquire) != seen; });
        --sleepers;
      }
      seen = generation.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire)) return;
      if (part < parts) run_part(part);
      running.fetch_sub(1, std::memory_order_release);
    }
  }

  void publish() {
    bool anyone_asleep;
    {
      std::lock_guard lock(mutex);
      generation.fetch_add(1, std::memory_order_release);
      anyone_asleep = sleepers > 0;
    }
    if (anyone_asleep) wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  for (int part = 1; part < threads; ++part) state_->workers.emplace_back([this, part] { state_->work(part); });
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_release);
  state_->publish();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::size() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::parallel_for(size_t n, const std::function<void(size_t, size_t, int)>& body) {
  if (n == 0) return;
  if (state_->workers.empty() || n == 1) {
    body(0, n, 0);
    return;
  }
  State& s = *state_;
  s.n = n;
  s.parts = static_cast<int>(std::min<size_t>(n, size()));
  s.body = &body;
  s.error = nullptr;
  s.running.store(static_cast<int>(s.workers.size()), std::memory_order_release);
  s.publish();
  s.run_part(0);
  for (int spin = 0; s.running.load(std::memory_order_acquire) > 0; ++spin) {
    if (spin < kSpinsBeforeSleep) relax_cpu();
    else std::this_thread::yield();
  }
  if (s.error) std::rethrow_exception(s.error);
}

int default_thread_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace opentrn
