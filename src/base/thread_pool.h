// A pool for data-parallel loops inside one instruction.
//
// parallel_for splits [0, n) into at most size() contiguous parts whose boundaries depend only on
// n and size(); each index is handled by exactly one part, so bodies that write disjoint outputs
// give the same bits for every pool size. Workers spin for a short while before they sleep:
// instructions arrive microseconds apart, and a futex wake costs more than most of them.
// In the child of a fork a pool starts threads of its own when it is first used.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace opentrn {

// Whether a loop is cut in many parts though no thread is free to help when it begins.
enum class Split {
  kIfHelped,  // a part costs something of its own, as packing the operands of a product does
  kAlways,    // parts cost nothing: a thread that becomes free meanwhile finds some to take
};

// Who runs the loops of a thread instead of a pool: see TaskGraph.
class LoopSharer {
 public:
  // Makes `sharer` take the parallel_for of this thread, whatever the pool, while the scope lives.
  class Scope {
   public:
    explicit Scope(LoopSharer* sharer);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    LoopSharer* previous_;
  };
  virtual void parallel_for(size_t n, const std::function<void(size_t, size_t, int)>& body, Split split) = 0;

 protected:
  ~LoopSharer() = default;
};

class ThreadPool {
 public:
  // `threads` counts the caller: 1 means everything runs inline.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  // Calls body(begin, end, part) over a partition of [0, n); returns when all parts are done. The
  // first exception thrown by any part is rethrown here. Parts belong to the caller's work (interrupt.h). One
  // caller at a time, and not from inside a part, unless that is a task of a TaskGraph.
  void parallel_for(size_t n, const std::function<void(size_t begin, size_t end, int part)>& body,
                    Split split = Split::kIfHelped);

 private:
  struct State;
  State& state();

  std::unique_ptr<State> state_;
};

// Threads to use by default: the CPUs this process may run on, or as many as OPENTRN_NUM_THREADS says.
// Input fault "environment" where that is no number of threads.
int default_thread_count();

}  // namespace opentrn
