// Stretch: consecutive instructions without control flow, as a TaskGraph.
//
// Two instructions must keep their order when both touch some byte, or some part of EngineState, and one
// writes it. Everything else may run at the same time: the values are those of program order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/task_graph.h"
#include "sim/functional/access.h"

namespace opentrn::sim {

// When several threads pay: below these the hand-over and the reading of accesses cost more than a second
// thread saves. Element operations. [measured: benchmarks/functional_bench.cc]
struct SharingLimits {
  int64_t work = 200'000;               // of the whole stretch
  int64_t work_per_instruction = 4096;  // on average
  bool highest_first = false;           // for tests: the order furthest from program order
};

class Stretch {
 public:
  static constexpr TaskGraph::Task kLongest = 1024;

  // Reads instructions from `begin` on, up to `end`, the first that must run alone, or kLongest.
  void read(const isa::Program& program, isa::InstructionIndex begin, isa::InstructionIndex end);
  // Before read(): tensors whose memory may overlap count as one.
  void merge(std::vector<isa::TensorId> tensors) { merged_ = std::move(tensors); }

  isa::InstructionIndex begin() const { return begin_; }
  isa::InstructionIndex end() const { return begin_ + graph_.size(); }
  // Whether several threads would be faster than one.
  bool worth_sharing(const SharingLimits& limits) const {
    return graph_.size() > 1 && work_ >= limits.work && work_ >= limits.work_per_instruction * graph_.size();
  }
  TaskGraph& graph() { return graph_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Record {
    Access access;
    TaskGraph::Task task;
    uint32_t next;
  };
  struct Users {
    uint32_t stretch = 0;  // of the lists; older ones are empty
    uint32_t reads = kNone;
    uint32_t writes = kNone;
  };
  void add(const AccessList& list, TaskGraph::Task task);
  void add(Access access, TaskGraph::Task task);
  void order_after(uint32_t& list, const Access& access, TaskGraph::Task task);
  void remember(uint32_t& list, const Access& access, TaskGraph::Task task);

  isa::InstructionIndex begin_ = 0;
  int64_t work_ = 0;
  TaskGraph graph_;
  AccessList accesses_;
  std::vector<Record> records_;
  std::vector<Users> users_;  // by TensorId
  std::vector<isa::TensorId> merged_;
  uint32_t stretch_ = 0;
  std::array<uint32_t, kEngineStateParts> state_user_{};
};

}  // namespace opentrn::sim
