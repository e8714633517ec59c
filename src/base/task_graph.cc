#include "base/task_graph.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fault.h"
#include "base/interrupt.h"
#include "base/sleepers.h"
#include "base/spin_lock.h"

namespace opentrn {

namespace {

// Tasks that may be started ahead of the oldest incomplete one: bounds the memory that they hold.
constexpr uint32_t kWindow = 64;
// Parts of a shared loop per thread: helpers arrive late and leave early.
constexpr uint32_t kPartsPerThread = 4;

// A loop of a task that idle threads may take parts of. Lives on the stack of the task's thread.
struct SharedLoop {
  const std::function<void(size_t, size_t, int)>& body;
  size_t n;
  uint32_t parts;
  std::atomic<uint32_t> next{0};
  std::atomic<uint32_t> helpers{0};
  SpinLock lock = {};
  std::exception_ptr error = nullptr;

  bool all_taken() const { return next.load(std::memory_order_relaxed) >= parts; }

  void take_parts() {
    for (uint32_t part; (part = next.fetch_add(1, std::memory_order_relaxed)) < parts;) {
      const size_t begin = n * part / parts, end = n * (part + 1) / parts;
      try {
        interrupt::poll();
        if (begin < end) body(begin, end, static_cast<int>(part));
      } catch (...) {
        std::lock_guard guard(lock);
        if (!error) error = std::current_exception();
      }
    }
  }
};

}  // namespace

void TaskGraph::reset(Task count) {
  tasks_.assign(count, {});
  edges_.clear();
}

void TaskGraph::add_edge(Task before, Task after) {
  OPENTRN_CHECK(before < after && after < size(), "edge {} -> {} of {} tasks", before, after, size());
  Node& to = tasks_[after];
  if (to.newest_before == before) return;
  to.newest_before = before;
  ++to.waits_for;
  edges_.push_back({after, tasks_[before].first_edge});
  tasks_[before].first_edge = static_cast<uint32_t>(edges_.size() - 1);
}

class TaskGraphRun : public LoopSharer {
 public:
  TaskGraphRun(const TaskGraph& graph, const std::function<void(TaskGraph::Task)>& execute,
               const std::function<void(TaskGraph::Task)>& retired, int threads)
      : graph_(graph),
        execute_(execute),
        retired_(retired),
        threads_(static_cast<uint32_t>(threads)),
        limit_(graph.size()),
        ready_((graph.size() + 63) / 64),
        complete_((graph.size() + 63) / 64),
        waits_for_(graph.size()) {
    for (uint32_t t = 0; t < graph.size(); ++t) {
      waits_for_[t] = graph.tasks_[t].waits_for;
      if (waits_for_[t] == 0) set(ready_, t);
    }
    choose_next();
  }

  // What each thread does until the graph is done.
  void work() {
    LoopSharer::Scope scope(this);
    uint32_t task = take();
    while (true) {
      if (task != TaskGraph::kNone) {
        task = run(task);
      } else if (finished_.load(std::memory_order_acquire)) {
        return;
      } else {
        task = idle();
      }
    }
  }

  // LoopSharer: a loop inside a task.
  void parallel_for(size_t n, const std::function<void(size_t, size_t, int)>& body, Split split) override {
    SharedLoop loop{body, n, static_cast<uint32_t>(std::min<size_t>(n, threads_ * kPartsPerThread))};
    if (!offer(&loop, split)) return body(0, n, 0);
    loop.take_parts();
    withdraw(&loop);
    const auto is_over = [&] { return loop.helpers.load(std::memory_order_seq_cst) == 0; };
    for (PatientWait patient(sleepers_); !is_over();) {
      interrupt::service();
      patient.wait(is_over);
    }
    if (loop.error) std::rethrow_exception(loop.error);
  }

  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  using Bits = std::vector<uint64_t>;
  static void set(Bits& bits, uint32_t i) { bits[i / 64] |= uint64_t{1} << i % 64; }
  static void clear(Bits& bits, uint32_t i) { bits[i / 64] &= ~(uint64_t{1} << i % 64); }
  static bool test(const Bits& bits, uint32_t i) { return (bits[i / 64] >> i % 64 & 1) != 0; }

  bool offer(SharedLoop* loop, Split split) {
    if (split == Split::kIfHelped && idle_.load(std::memory_order_relaxed) == 0) return false;
    {
      std::lock_guard guard(lock_);
      open_loops_.push_back(loop);
      open_loop_count_.store(open_loops_.size(), std::memory_order_release);
    }
    sleepers_.notify(static_cast<int>(threads_));
    return true;
  }

  void withdraw(SharedLoop* loop) {
    std::lock_guard guard(lock_);
    std::erase(open_loops_, loop);
    open_loop_count_.store(open_loops_.size(), std::memory_order_release);
  }

  // Runs a task; returns the next one for this thread, or kNone.
  uint32_t run(uint32_t task) {
    std::exception_ptr error;
    try {
      execute_(task);
    } catch (...) {
      error = std::current_exception();
    }
    const uint32_t next = completed(task, error);
    wake();
    return next;
  }

  uint32_t completed(uint32_t task, const std::exception_ptr& error) {
    std::lock_guard guard(lock_);
    --running_;
    if (error && task < limit_) {
      limit_ = task;
      error_ = error;
    }
    uint32_t follower = TaskGraph::kNone;  // the lowest task that this one made ready
    if (!error) {
      set(complete_, task);
      for (uint32_t e = graph_.tasks_[task].first_edge; e != TaskGraph::kNone; e = graph_.edges_[e].next) {
        const uint32_t to = graph_.edges_[e].to;
        if (--waits_for_[to] > 0) continue;
        set(ready_, to);
        follower = std::min(follower, to);
      }
      while (retired_count_ < limit_ && test(complete_, retired_count_)) retired_(retired_count_++);
    }
    const bool follows = follower < end_of_window() && !graph_.highest_first_;
    if (follows) start(follower);
    choose_next();
    return follows ? follower : take_locked();
  }

  uint32_t take() {
    uint32_t task;
    {
      std::lock_guard guard(lock_);
      task = take_locked();
    }
    wake();
    return task;
  }
  // Whoever sleeps, where there is something for him: the next task for one, the end for all.
  void wake() {
    if (finished_.load(std::memory_order_relaxed))
      sleepers_.notify(static_cast<int>(threads_));
    else if (next_.load(std::memory_order_relaxed) != TaskGraph::kNone)
      sleepers_.notify();
  }
  uint32_t take_locked() {
    const uint32_t task = next_.load(std::memory_order_relaxed);
    if (task == TaskGraph::kNone) return task;
    start(task);
    choose_next();
    return task;
  }

  void start(uint32_t task) {
    clear(ready_, task);
    ++running_;
  }
  uint32_t end_of_window() const { return std::min(limit_, retired_count_ + kWindow); }

  // Finds the lowest ready task inside the window; notices the end.
  void choose_next() {
    const uint32_t end = end_of_window();
    const uint32_t found = graph_.highest_first_ ? highest_ready(end) : lowest_ready(end);
    next_.store(found, std::memory_order_release);
    if (found == TaskGraph::kNone && running_ == 0) finished_.store(true, std::memory_order_release);
  }

  uint32_t lowest_ready(uint32_t end) const {
    for (uint32_t word = retired_count_ / 64; word * 64 < end; ++word) {
      if (ready_[word] == 0) continue;
      const uint32_t found = word * 64 + static_cast<uint32_t>(std::countr_zero(ready_[word]));
      return found < end ? found : TaskGraph::kNone;
    }
    return TaskGraph::kNone;
  }
  uint32_t highest_ready(uint32_t end) const {
    for (uint32_t task = end; task-- > retired_count_;)
      if (test(ready_, task)) return task;
    return TaskGraph::kNone;
  }

  // Waits for a task, a loop to help with, or the end.
  uint32_t idle() {
    idle_.fetch_add(1, std::memory_order_relaxed);
    const auto is_over = [&] {
      return next_.load(std::memory_order_seq_cst) != TaskGraph::kNone ||
             finished_.load(std::memory_order_seq_cst);
    };
    const auto has_something = [&] {
      return is_over() || open_loop_count_.load(std::memory_order_seq_cst) > 0;
    };
    for (std::optional<PatientWait> patient(sleepers_); !is_over();) {
      interrupt::service();
      if (open_loop_count_.load(std::memory_order_relaxed) > 0 && help())
        patient.emplace(sleepers_);
      else
        patient->wait(has_something);
    }
    idle_.fetch_sub(1, std::memory_order_relaxed);
    return take();
  }

  // Takes parts of the loop that has been open for longest and has some left; false if there is none.
  bool help() {
    SharedLoop* loop;
    {
      std::lock_guard guard(lock_);
      std::erase_if(open_loops_, [](const SharedLoop* open) { return open->all_taken(); });
      open_loop_count_.store(open_loops_.size(), std::memory_order_release);
      if (open_loops_.empty()) return false;
      loop = open_loops_.front();
      loop->helpers.fetch_add(1, std::memory_order_relaxed);
    }
    loop->take_parts();
    if (loop->helpers.fetch_sub(1, std::memory_order_seq_cst) == 1)  // the loop may be gone from here on
      sleepers_.notify(static_cast<int>(threads_));
    return true;
  }

  const TaskGraph& graph_;
  const std::function<void(TaskGraph::Task)>& execute_;
  const std::function<void(TaskGraph::Task)>& retired_;
  const uint32_t threads_;

  SpinLock lock_;   // guards what follows; atomics are also read without it
  uint32_t limit_;  // tasks from here on are not started
  uint32_t retired_count_ = 0;
  uint32_t running_ = 0;
  Bits ready_, complete_;
  std::vector<uint32_t> waits_for_;  // incomplete tasks, by task
  std::exception_ptr error_;
  std::atomic<uint32_t> next_{TaskGraph::kNone};  // what take() gives out
  std::atomic<bool> finished_{false};
  std::atomic<uint32_t> idle_{0};
  std::vector<SharedLoop*> open_loops_;  // of each thread's task at most one, or one inside another
  std::atomic<size_t> open_loop_count_{0};
  Sleepers sleepers_;
};

void TaskGraph::run(ThreadPool& pool, const std::function<void(Task)>& execute,
                    const std::function<void(Task)>& retired) const {
  if (tasks_.empty()) return;
  TaskGraphRun run(*this, execute, retired, pool.size());
  pool.parallel_for(static_cast<size_t>(pool.size()), [&](size_t, size_t, int) { run.work(); });
  run.rethrow();
}

}  // namespace opentrn
