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
  if (std::this_thread::get_id() == thread_.get_id()) return task();
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  woken_.notify_one();
}

void Worker::run() {
  const interrupt::Scope scope(work_);
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      woken_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) {
        ended_ = true;
        woken_.notify_all();
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace opentrn::pjrt
