// Worker: one thread that runs tasks in the order they come. Executions and copies to the host go through
// it, so what a task reads was made by an earlier one. A task that is shorter than waking that thread may run
// on the caller's instead, between the others.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/interrupt.h"

namespace opentrn::pjrt {

class Worker {
 public:
  Worker();
  // Runs what is left, then ends. Stops it where a signal handler raises meanwhile.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Tasks must not throw. One that a task adds, as the user's Python does that a program calls, runs at once.
  void add(std::function<void()> task);
  // Runs it here, before it returns, where nothing runs and nothing waits; otherwise as add(). Signal
  // handlers of the host's main thread run meanwhile.
  void run_or_add(std::function<void()> task);
  // What runs and what is left fails with CANCELLED at its next poll: nobody will read it.
  void abandon() { work_.stop(); }

 private:
  void run();
  // With the lock held.
  bool is_running_here() const { return running_ == std::this_thread::get_id(); }
  void done();

  std::mutex mutex_;
  std::condition_variable woken_;
  std::deque<std::function<void()>> tasks_;
  std::thread::id running_;  // the thread of the task under way; none's otherwise
  bool ending_ = false, ended_ = false;
  interrupt::Work work_;
  std::thread thread_;
};

}  // namespace opentrn::pjrt
