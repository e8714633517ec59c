// Completion: something that happens once, well or badly, and whom that wakes.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fork.h"
#include "pjrt/status.h"

namespace opentrn::pjrt {

class Completion {
 public:
  using Outcome = std::optional<Status>;  // nullopt: well

  // Later calls are ignored. Callbacks run on this thread, without a lock held.
  void set(Outcome outcome);
  bool done() const;
  // Blocks until it is done. What a fork has copied before it was done fails in the child.
  const Outcome& wait() const;
  // At once when it is done already.
  void then(std::function<void(const Outcome&)> callback);

  static std::shared_ptr<Completion> already(Outcome outcome = std::nullopt);

 private:
  const Outcome* forked() const;

  const uint64_t born_ = fork_generation();
  mutable std::mutex mutex_;
  mutable std::condition_variable woken_;
  bool done_ = false;
  Outcome outcome_;
  std::vector<std::function<void(const Outcome&)>> callbacks_;
};

// PJRT_Event: a handle to a completion.
struct Event {
  std::shared_ptr<Completion> completion;
};

}  // namespace opentrn::pjrt
