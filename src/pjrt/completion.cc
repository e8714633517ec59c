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

// Null where somebody can still make it done.
const Completion::Outcome* Completion::forked() const {
  if (done_ || born_ == fork_generation()) return nullptr;
  static const Outcome& failed =
      *new Outcome(Status{abi::Code::kInvalidArgument, std::string(forked_fault().what())});
  return &failed;
}

const Completion::Outcome& Completion::wait() const {
  std::unique_lock lock(mutex_);
  if (const Outcome* failed = forked()) return *failed;
  woken_.wait(lock, [&] { return done_; });
  return outcome_;
}

void Completion::then(std::function<void(const Outcome&)> callback) {
  {
    std::lock_guard lock(mutex_);
    if (!done_ && !forked()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(wait());
}

std::shared_ptr<Completion> Completion::already(Outcome outcome) {
  auto completion = std::make_shared<Completion>();
  completion->set(std::move(outcome));
  return completion;
}

}  // namespace opentrn::pjrt
