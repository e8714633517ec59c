// What native work is doing, for whoever waits for it: a pass of the compiler, a kernel of a model, a place
// in a program that is computed.
//
//   const Activity activity("folding constants");
//   Activity activity("making kernels", count);  ... activity.at(i);
//
// It is told for the whole process, as one display shows it: of several pieces of work under way the one that
// began last. Nothing but a display may depend on it.
#pragma once

#include <atomic>
#include <cstdint>

namespace opentrn {

class Activity {
 public:
  // What is told. `what` is null where nothing is under way; of `total` steps `done` are behind, of 0 nobody
  // knows.
  struct Shown {
    const char* what = nullptr;
    int64_t done = 0;
    int64_t total = 0;
  };

  // `what` is a literal. The activity around it is told again when this one ends.
  explicit Activity(const char* what, int64_t total = 0) : outer_(shown()) { show({what, 0, total}); }
  ~Activity() { show(outer_); }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // How far the innermost activity is.
  static void at(int64_t done) { done_.store(done, std::memory_order_relaxed); }

  static Shown shown() {
    const char* what = what_.load(std::memory_order_relaxed);
    if (what == nullptr) return {};  // a step may have been told of work that nobody announced
    return {what, done_.load(std::memory_order_relaxed), total_.load(std::memory_order_relaxed)};
  }

 private:
  static void show(const Shown& shown) {
    done_.store(shown.done, std::memory_order_relaxed);
    total_.store(shown.total, std::memory_order_relaxed);
    what_.store(shown.what, std::memory_order_relaxed);
  }

  inline static std::atomic<const char*> what_{nullptr};
  inline static std::atomic<int64_t> done_{0}, total_{0};
  Shown outer_;
};

}  // namespace opentrn
