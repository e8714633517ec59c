#include "pjrt/completion.h"

namespace opentrn::pjrt {

void Completion::set(Outcome outcome) {
  std::vector<std::function<void(const Outcome&)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    if (done_) return;
    outcome_ = std::move(outcome);
    done_ = true;
    callbacks.swap(callbacks_);
  }
  woken_.notify_all();
  for (const auto& callback : callbacks) callback(outcome_);
}

bool Completion::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

const Completion::Outcome& Completion::wait() const {
  std::unique_lock lock(mutex_);
  woken_.wait(lock, [&] { return done_; });
  return outcome_;
}

void Completion::then(std::function<void(const Outcome&)> callback) {
  {
    std::lock_guard lock(mutex_);
    if (!done_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(outcome_);
}

std::shared_ptr<Completion> Completion::already(Outcome outcome) {
  auto completion = std::make_shared<Completion>();
  completion->set(std::move(outcome));
  return completion;
}

}  // namespace opentrn::pjrt
