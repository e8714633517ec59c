// TaskGraph: runs numbered tasks on the threads of a ThreadPool, each after those it depends on.
//
// Every edge leads from a lower number to a higher one, so that running the tasks one by one in number order
// is always right; run() does what that would do. A thread goes on with a task that the one it completed made
// ready, whose operands are in its cache; else the lowest ready task goes first. As only a few tasks beyond
// the oldest incomplete one may start, memory lives about as long as in number order.
//
// A ThreadPool::parallel_for inside a task shares its loop with those threads that have no task to run.
//
// Use:  graph.reset(3); graph.add_edge(0, 2); graph.run(pool, execute, retired);
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/thread_pool.h"

namespace opentrn {

class TaskGraph {
 public:
  using Task = uint32_t;

  // Forgets everything; tasks are 0 .. count - 1.
  void reset(Task count = 0);
  Task add_task() {
    tasks_.emplace_back();
    return size() - 1;
  }
  Task size() const { return static_cast<Task>(tasks_.size()); }
  // `after` starts when `before` < `after` is complete. Repeated edges cost a little.
  void add_edge(Task before, Task after);

  // For tests: of the ready tasks the highest first, the order furthest from number order.
  void set_highest_first(bool on) { highest_first_ = on; }

  // Runs every task once; the graph stays as it is, for another run. `retired(t)` is called in number order,
  // by one thread at a time, once all of 0 .. t are complete. When tasks throw, every task below the lowest
  // such task still runs, none that had not started above it does, and its exception is rethrown: the one
  // that number order would have met.
  void run(ThreadPool& pool, const std::function<void(Task)>& execute,
           const std::function<void(Task)>& retired) const;

 private:
  friend class TaskGraphRun;
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    uint32_t waits_for = 0;
    uint32_t first_edge = kNone;
    uint32_t newest_before = kNone;  // of the last edge added to this task
  };
  struct Edge {
    Task to;
    uint32_t next;
  };
  bool highest_first_ = false;
  std::vector<Node> tasks_;
  std::vector<Edge> edges_;
};

}  // namespace opentrn
