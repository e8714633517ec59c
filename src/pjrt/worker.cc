#include "pjrt/worker.h"

#include <utility>

namespace opentrn::pjrt {

Worker::Worker() : thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    woken_.notify_all();
    const interrupt::HostWork work;
    const interrupt::Scope scope(work_);
    interrupt::wait_for_end(woken_, lock, [&] { return ended_; });
    interrupt::host_error_taken();
  }
  thread_.join();
}

void Worker::add(std::function<void()> task) {
  {
    std::unique_lock lock(mutex_);
    if (is_running_here()) {
      lock.unlock();
      return task();
    }
    tasks_.push_back(std::move(task));
  }
  woken_.notify_one();
}

void Worker::run_or_add(std::function<void()> task) {
  {
    std::unique_lock lock(mutex_);
    if (running_ != std::thread::id{} || !tasks_.empty() || ending_) {
      lock.unlock();
      return add(std::move(task));
    }
    running_ = std::this_thread::get_id();
  }
  {
    const interrupt::HostWork heard;
    const interrupt::Scope scope(work_);
    task();
  }
  done();
}

void Worker::done() {
  const std::lock_guard lock(mutex_);
  running_ = {};
  if (!tasks_.empty() || ending_) woken_.notify_all();
}

void Worker::run() {
  const interrupt::Scope scope(work_);
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      woken_.wait(lock, [&] { return running_ == std::thread::id{} && (ending_ || !tasks_.empty()); });
      if (tasks_.empty()) {
        ended_ = true;
        woken_.notify_all();
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
      running_ = std::this_thread::get_id();
    }
    task();
    done();
  }
}

}  // namespace opentrn::pjrt
