#include "base/interrupt.h"

#include <pthread.h>

#include <new>
#include <thread>
#include <utility>

namespace opentrn {

void Interrupted::set_location(SourceLocation location) {
  if (!location_.known()) location_ = std::move(location);
}

void Interrupted::set_activity(std::string activity) {
  if (activity_.empty()) activity_ = std::move(activity);
}

namespace interrupt {

namespace {

// The bits of `attention`: the timer asks for the host's handlers, and from bit 1 on a count of the works
// that are stopped and of the host's errors that nobody has passed on.
constexpr uint32_t kTick = 1, kOne = 2;

thread_local const Scope* innermost = nullptr;
thread_local bool in_handlers = false;

std::atomic<HostHandlers> host_handlers{nullptr};
std::atomic<std::uintptr_t> host_thread{0};
std::atomic<bool> host_error{false};

// Asks for the host's handlers while native work is under way, and sleeps when there has been none for a
// while: a call that finds it awake, as in a row of calls, costs no system call.
class Timer {
 public:
  static constexpr std::chrono::milliseconds kTickPeriod{50};

  static Timer& instance() {
    static Timer& timer = []() -> Timer& {
      auto* made = new Timer;  // never destroyed: its thread runs until the process ends
      self_ = made;
      // The child of a fork has none of its parent's threads.
      pthread_atfork(nullptr, nullptr, [] {
        new (self_) Timer;
        detail::attention.fetch_and(~kTick);
      });
      return *made;
    }();
    return timer;
  }

  void begin() {
    working_.fetch_add(1);
    if (asleep_.load()) wake();
  }
  void end() { working_.fetch_sub(1); }

 private:
  static constexpr int kIdleTicks = 40;

  void wake() {
    const std::lock_guard guard(mutex_);
    asleep_.store(false);
    if (!std::exchange(started_, true))
      std::thread([this] { run(); }).detach();
    else
      woken_.notify_one();
  }

  void run() {
    for (int idle = 0;;) {
      std::this_thread::sleep_for(kTickPeriod);
      if (working_.load() > 0) {
        idle = 0;
        detail::attention.fetch_or(kTick, std::memory_order_relaxed);
      } else if (++idle > kIdleTicks) {
        idle = 0;
        std::unique_lock guard(mutex_);
        asleep_.store(true);
        if (working_.load() > 0) asleep_.store(false);  // it began before it could see that nobody is awake
        woken_.wait(guard, [this] { return !asleep_.load(); });
      }
    }
  }

  static inline Timer* self_ = nullptr;
  std::mutex mutex_;
  std::condition_variable woken_;
  std::atomic<int> working_{0};
  std::atomic<bool> asleep_{true};
  bool started_ = false;
};

}  // namespace

namespace detail {
std::atomic<uint32_t> attention{0};
}

Work::~Work() {
  if (is_stopped()) detail::attention.fetch_sub(kOne);
}

void Work::stop() {
  if (!stopped_.exchange(true)) detail::attention.fetch_add(kOne);
}

Scope::Scope(Work& work) : work_(&work), outer_(std::exchange(innermost, this)) {}
Scope::~Scope() { innermost = outer_; }

const Scope* current() { return innermost; }

Inherited::Inherited(const Scope* scope) : previous_(std::exchange(innermost, scope)) {}
Inherited::~Inherited() { innermost = previous_; }

bool is_on_host_thread() {
  return host_handlers.load(std::memory_order_acquire) != nullptr &&
         static_cast<std::uintptr_t>(pthread_self()) == host_thread.load(std::memory_order_relaxed);
}

void refuse_in_handler() {
  if (in_handlers)
    throw Fault(FaultKind::kProgram, "interrupt.handler",
                "a signal handler called OpenTrn while OpenTrn was at work on this thread",
                "let the handler set a flag or raise an exception, and do the work behind the call");
}

void set_host(HostHandlers handlers, std::uintptr_t thread) {
  host_thread.store(thread);
  host_handlers.store(handlers, std::memory_order_release);
}

void host_raised() {
  if (!host_error.exchange(true)) detail::attention.fetch_add(kOne);
}

void host_error_taken() {
  if (host_error.exchange(false)) detail::attention.fetch_sub(kOne);
}

bool is_stopped() {
  if (host_error.load(std::memory_order_relaxed) && !in_handlers && is_on_host_thread()) return true;
  for (const Scope* scope = innermost; scope != nullptr; scope = scope->outer_)
    if (scope->work_->is_stopped()) return true;
  return false;
}

bool run_host_handlers() {
  in_handlers = true;
  const bool raised = host_handlers.load()();
  in_handlers = false;
  if (raised) {
    host_raised();
    if (innermost != nullptr) innermost->work_->stop();
  }
  return raised;
}

namespace detail {

void serve_host() {
  if ((attention.load(std::memory_order_relaxed) & kTick) == 0 || in_handlers || !is_on_host_thread()) return;
  attention.fetch_and(~kTick, std::memory_order_relaxed);
  run_host_handlers();
}

void look_closer() {
  serve_host();
  if (is_stopped()) throw Interrupted();
}

}  // namespace detail

HostWork::HostWork() : counts_(is_on_host_thread()), scope_(work_) {
  if (counts_) Timer::instance().begin();
}

HostWork::~HostWork() {
  if (counts_) Timer::instance().end();
}

}  // namespace interrupt
}  // namespace opentrn
