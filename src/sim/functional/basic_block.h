// BasicBlock: consecutive instructions without control flow, as a TaskGraph. A task is one instruction, or a
// chain of them (chain.h).
//
// Two instructions must keep their order when both touch some byte, or some part of EngineState, and one
// writes it. Everything else may run at the same time: the values are those of program order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/task_graph.h"
#include "sim/functional/access.h"
#include "sim/functional/chain.h"

namespace opentrn::sim {

// When several threads pay: below these the hand-over and the reading of accesses cost more than a second
// thread saves. Element operations. [measured: benchmarks/functional_bench.cc]
struct SharingLimits {
  int64_t work = 200'000;               // of the whole block
  int64_t work_per_instruction = 4096;  // on average
  double side_by_side = 1.5;            // work over that of the longest chain of dependent instructions
  bool highest_first = false;           // for tests: the order furthest from program order
  ChainLimits chains;

  bool operator==(const SharingLimits&) const = default;
};

// What was read of a block; running it changes nothing here.
class BasicBlockPlan {
 public:
  isa::InstructionIndex begin() const { return begin_; }
  isa::InstructionIndex end() const { return end_; }
  // Whether several threads would be faster than one.
  bool worth_sharing(const SharingLimits& limits) const {
    return end_ - begin_ > 1 && work_ >= limits.work &&
           work_ >= limits.work_per_instruction * (end_ - begin_) &&
           static_cast<double>(work_) >= limits.side_by_side * static_cast<double>(longest_);
  }
  bool has_chains() const { return !chains_.empty(); }
  const std::vector<Chain>& chains() const { return chains_; }
  TaskGraph& graph() { return graph_; }
  const TaskGraph& graph() const { return graph_; }
  // What a task runs: a chain, or, if null, its only instruction.
  const Chain* chain(TaskGraph::Task task) const {
    return tasks_[task].chain == kNone ? nullptr : &chains_[tasks_[task].chain];
  }
  isa::InstructionIndex first_of(TaskGraph::Task task) const { return tasks_[task].begin; }
  isa::InstructionIndex last_of(TaskGraph::Task task) const { return tasks_[task].end - 1; }
  // Keeps what tells whether it is worth sharing.
  void forget_tasks() {
    graph_ = {};
    tasks_ = {};
  }

 private:
  friend class BasicBlock;
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Range {
    isa::InstructionIndex begin, end;
    uint32_t chain;
  };

  isa::InstructionIndex begin_ = 0, end_ = 0;
  int64_t work_ = 0;
  int64_t longest_ = 0;  // of it, one after another; of loops that threads share a part
  TaskGraph graph_;
  std::vector<Range> tasks_;
  std::vector<Chain> chains_;
};

// Reads blocks, one after the other.
class BasicBlock {
 public:
  static constexpr isa::InstructionIndex kLongest = 1024;

  // Whether a chain may give a tensor memory for a few rows only, as far as what comes before and after the
  // block is concerned: nothing wrote it before, and nothing can touch it from instruction `end` on.
  using Foldable = ChainFinder::Foldable;

  explicit BasicBlock(const ChainLimits& limits) : finder_(limits) {}

  // Reads instructions from `begin` on, up to `end`, the first that must run alone, or kLongest. Without
  // `foldable` there are no chains.
  void read(const isa::Program& program, isa::InstructionIndex begin, isa::InstructionIndex end,
            const Foldable& foldable);
  // Before read(): tensors whose memory may overlap count as one.
  void merge(std::vector<isa::TensorId> tensors) { merged_ = std::move(tensors); }
  const std::vector<isa::TensorId>& merged() const { return merged_; }

  // What read() found last.
  BasicBlockPlan& plan() { return plan_; }

 private:
  static constexpr uint32_t kNone = BasicBlockPlan::kNone;
  using Range = BasicBlockPlan::Range;
  struct Record {
    Access access;
    TaskGraph::Task task;
    uint32_t next;
  };
  struct Users {
    uint32_t block = 0;  // of the lists; older ones are empty
    uint32_t reads = kNone;
    uint32_t writes = kNone;
  };
  // The instructions that finder_ collected become one task, or one each.
  void close_chain(const Foldable& foldable);
  TaskGraph::Task add_task(const Range& range);
  void add(const AccessList& list, TaskGraph::Task task);
  void add(Access access, TaskGraph::Task task);
  void add_edge(TaskGraph::Task before, TaskGraph::Task after);
  void order_after(uint32_t& list, const Access& access, TaskGraph::Task task);
  void remember(uint32_t& list, const Access& access, TaskGraph::Task task);

  BasicBlockPlan plan_;
  ChainFinder finder_;
  std::vector<AccessList> accesses_;  // by instruction
  std::vector<int64_t> behind_;       // by task: the most work of a chain that ends before it, or with it
  std::vector<Record> records_;
  std::vector<Users> users_;  // by TensorId
  std::vector<isa::TensorId> merged_;
  uint32_t block_ = 0;
  std::array<uint32_t, kEngineStateParts> state_user_{};
};

}  // namespace opentrn::sim
