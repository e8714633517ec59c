#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/floating_point.h"
#include "base/fork.h"
#include "base/interrupt.h"
#include "base/sleepers.h"
#include "base/spin_lock.h"

namespace opentrn {

namespace {
constexpr int kSpinsBeforeSleep = 1000;  // some 26 us
constexpr int kThreadsMax = 1024;

thread_local LoopSharer* loop_sharer = nullptr;
}  // namespace

LoopSharer::Scope::Scope(LoopSharer* sharer) : previous_(std::exchange(loop_sharer, sharer)) {}
LoopSharer::Scope::~Scope() { loop_sharer = previous_; }

// The open job is one word: generation, number of parts, next part to take. A worker takes a part by
// moving the word on; that it succeeds proves the job is not finished, so `n` and `body` are still its.
// The caller takes parts too, so a worker that the system does not schedule delays nobody.
struct Ticket {
  uint32_t generation;
  uint16_t parts;
  uint16_t next;

  static Ticket unpack(uint64_t word) {
    return {static_cast<uint32_t>(word >> 32), static_cast<uint16_t>(word >> 16),
            static_cast<uint16_t>(word)};
  }
  uint64_t pack() const { return uint64_t{generation} << 32 | uint32_t{parts} << 16 | next; }
  bool open() const { return next < parts; }
};

struct ThreadPool::State {
  explicit State(int threads) {
    for (int i = 1; i < threads; ++i) workers.emplace_back([this] { work(); });
  }

  const uint64_t born = fork_generation();
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> ticket{0};
  std::atomic<int> done{0};
  std::atomic<bool> stop{false};
  int sleepers = 0;
  Sleepers caller;  // who waits for the parts of the others

  size_t n = 0;
  const std::function<void(size_t, size_t, int)>* body = nullptr;
  const interrupt::Scope* scope = nullptr;  // of the caller: its parts stop with it
  std::exception_ptr error;

  Ticket load() const { return Ticket::unpack(ticket.load(std::memory_order_acquire)); }

  // Takes and runs one part; false when none is left.
  bool run_one() {
    uint64_t word = ticket.load(std::memory_order_acquire);
    while (Ticket::unpack(word).open()) {
      if (!ticket.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel)) continue;
      const Ticket mine = Ticket::unpack(word);
      run_part(mine.next, mine.parts);
      done.fetch_add(1, std::memory_order_seq_cst);
      caller.notify();
      return true;
    }
    return false;
  }

  void run_part(int part, int parts) {
    const size_t begin = n * part / parts;
    const size_t end = n * (part + 1) / parts;
    const interrupt::Inherited inherited(scope);
    try {
      interrupt::poll();
      if (begin < end) (*body)(begin, end, part);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }

  void work() {
    const StandardFloatingPoint standard;
    while (!stop.load(std::memory_order_acquire)) {
      if (run_one()) continue;
      const uint32_t seen = load().generation;
      for (int spin = 0; !load().open() && !stop.load(std::memory_order_acquire) && spin < kSpinsBeforeSleep;
           ++spin)
        relax_cpu();
      if (load().open()) continue;
      std::unique_lock lock(mutex);
      ++sleepers;
      wake.wait(lock, [&] { return load().generation != seen || stop.load(std::memory_order_acquire); });
      --sleepers;
    }
  }

  // Opens a job of `parts`, and wakes whoever sleeps.
  void publish(int parts) {
    bool anyone_asleep;
    {
      std::lock_guard lock(mutex);
      ticket.store(Ticket{load().generation + 1, static_cast<uint16_t>(parts), 0}.pack(),
                   std::memory_order_release);
      anyone_asleep = sleepers > 0;
    }
    if (anyone_asleep) wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>(threads)) {}

ThreadPool::~ThreadPool() {
  if (state_->born != fork_generation()) {
    // Nobody is left to be joined, and a condition variable does not end while it has a waiter.
    static_cast<void>(state_.release());
    return;
  }
  state_->stop.store(true, std::memory_order_release);
  state_->publish(0);
  for (std::thread& worker : state_->workers) worker.join();
}

ThreadPool::State& ThreadPool::state() {
  if (state_->born != fork_generation()) {
    const int threads = size();
    static_cast<void>(state_.release());
    state_ = std::make_unique<State>(threads);
  }
  return *state_;
}

int ThreadPool::size() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::parallel_for(size_t n, const std::function<void(size_t, size_t, int)>& body, Split split) {
  if (n == 0) return;
  if (state_->workers.empty() || n == 1) {
    body(0, n, 0);
    return;
  }
  if (loop_sharer != nullptr) return loop_sharer->parallel_for(n, body, split);
  State& s = state();
  const int parts = static_cast<int>(std::min<size_t>({n, static_cast<size_t>(size()), 0xFFFF}));
  s.n = n;
  s.body = &body;
  s.scope = interrupt::current();
  s.error = nullptr;
  s.done.store(0, std::memory_order_relaxed);
  s.publish(parts);
  while (s.run_one()) {
  }
  const auto is_over = [&] { return s.done.load(std::memory_order_seq_cst) >= parts; };
  for (PatientWait patient(s.caller); !is_over();) {
    interrupt::service();
    patient.wait(is_over);
  }
  if (s.error) std::rethrow_exception(s.error);
}

int default_thread_count() {
  constexpr auto kName = "OPENTRN_NUM_THREADS";
  if (const char* const given = std::getenv(kName); given != nullptr && *given != '\0') {
    const std::string_view text = given;
    int count = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc{} || stop != text.data() + text.size() || count < 1 || count > kThreadsMax)
      throw Fault(FaultKind::kInput, "environment",
                  fmt::format("{} is '{}'; it takes a number from 1 to {}", kName, text, kThreadsMax),
                  fmt::format("set {} to such a value, or unset it", kName));
    return count;
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace opentrn
