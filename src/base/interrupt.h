// Stopping long native work from outside: Ctrl-C, SIGTERM, alarms, deadlines.
//
// Loops that may take long call interrupt::poll(), which costs one relaxed load of an atomic that stays in
// the cache. When the work of the calling thread is to end, poll() throws Interrupted. It is no Fault:
// nothing that tries another way after a Fault may take an interrupt for one.
//
// Who decides: a host with signal handlers of its own (Python) registers how they are run. While native work
// is under way on the host's main thread, a timer thread asks for that every 50 ms, and the next poll() of
// the main thread does it. When a handler raised, that work stops, on every thread that takes part in it: a
// Scope says to which Work what a thread does belongs, and thread pools hand the Scope of their caller to
// their threads.
//
// A wait is a loop of short waits with service() or poll() in between; see wait().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>

#include "base/fault.h"

namespace opentrn {

// Native work ends before it is done, because someone outside wants it to. The host knows why.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
  // Where the work stood; set once each, by the first layer that knows.
  void set_location(SourceLocation location);
  void set_activity(std::string activity);  // "compiling: fold_constants"
  const SourceLocation& location() const { return location_; }
  const std::string& activity() const { return activity_; }

 private:
  SourceLocation location_;
  std::string activity_;
};

namespace interrupt {

// Something that can be stopped, from any thread. Once stopped it stays so.
class Work {
 public:
  Work() = default;
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  void stop();
  bool is_stopped() const { return stopped_.load(std::memory_order_acquire); }
  void poll() const;  // throws Interrupted when it is stopped, whatever the scope of this thread

 private:
  std::atomic<bool> stopped_{false};
};

// While it lives, what this thread does belongs to `work`, and to the works of the scopes around it.
class Scope {
 public:
  explicit Scope(Work& work);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  friend bool is_stopped();
  friend bool run_host_handlers();
  Work* work_;
  const Scope* outer_;
};

// The innermost scope of this thread, or null; and a thread that works for another one, whose scope is
// `scope`.
const Scope* current();
class Inherited {
 public:
  explicit Inherited(const Scope* scope);
  ~Inherited();
  Inherited(const Inherited&) = delete;
  Inherited& operator=(const Inherited&) = delete;

 private:
  const Scope* previous_;
};

// Runs the host's pending signal handlers, on its main thread; true when one raised. The host keeps what was
// raised, and calls host_error_taken() when it has passed it on.
using HostHandlers = bool (*)();
// `thread`: the host's main thread, as pthread_self() names it. Once, before any native work.
void set_host(HostHandlers handlers, std::uintptr_t thread);
void host_error_taken();
// A host callback raised what must end the work: as if a handler had.
void host_raised();

bool is_on_host_thread();
// Fault{kProgram} "interrupt.handler" in a handler that runs inside native work: if it began some itself, the
// locks that the interrupted work holds would never come free.
void refuse_in_handler();

// Native work that the host calls. On the host's main thread its handlers run meanwhile; elsewhere this does
// nothing.
class HostWork {
 public:
  HostWork();
  ~HostWork();
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;

 private:
  bool counts_;
  Work work_;
  Scope scope_;
};

namespace detail {
// Not 0: a thread that polls has to look closer.
extern std::atomic<uint32_t> attention;
void look_closer();
void serve_host();
}  // namespace detail

// Throws Interrupted when the work of this thread is to end.
inline void poll() {
  if (detail::attention.load(std::memory_order_relaxed) != 0) [[unlikely]]
    detail::look_closer();
}
// As poll(), where nothing may be thrown: the work is stopped, and a later poll() throws.
inline void service() {
  if (detail::attention.load(std::memory_order_relaxed) != 0) [[unlikely]]
    detail::serve_host();
}
inline void Work::poll() const {
  if (detail::attention.load(std::memory_order_relaxed) != 0 && is_stopped()) [[unlikely]]
    throw Interrupted();
}
bool is_stopped();

// How long one wait lasts that can be interrupted.
constexpr std::chrono::milliseconds kPeriod{20};

// Handlers run with the lock of a wait given back.
class Released {
 public:
  explicit Released(std::unique_lock<std::mutex>& lock) : lock_(lock) { lock_.unlock(); }
  ~Released() { lock_.lock(); }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
};

// Waits for `ready`; throws Interrupted, with the lock held.
template <typename Ready>
void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Ready&& ready) {
  while (!changed.wait_for(lock, kPeriod, ready)) {
    const Released released(lock);
    poll();
  }
}
// Waits for `ready` in any case: for those who stop when this thread's work is stopped.
template <typename Ready>
void wait_for_end(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Ready&& ready) {
  while (!changed.wait_for(lock, kPeriod, ready)) {
    const Released released(lock);
    service();
  }
}
// Takes the mutex, which can be waited for a while; throws Interrupted.
template <typename Mutex>
std::unique_lock<Mutex> lock(Mutex& mutex) {
  std::unique_lock<Mutex> held(mutex, std::try_to_lock);
  while (!held.owns_lock() && !held.try_lock_for(kPeriod)) poll();
  return held;
}

// Says what the work was about where it is interrupted.
template <typename Body>
auto during(std::string_view activity, Body&& body) {
  try {
    return body();
  } catch (Interrupted& stop) {
    stop.set_activity(std::string(activity));
    throw;
  }
}

}  // namespace interrupt
}  // namespace opentrn
