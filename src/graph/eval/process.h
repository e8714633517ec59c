// The processes of a parallel run and their rendezvous points.
//
// A collective is a rendezvous of the members of a process group on a channel: each brings its tensors and
// goes on when all have come. send and recv are first-in first-out queues per channel and receiver. A run
// in which every process that is left waits for something that nobody can bring any more is a fault, not
// a hang.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "graph/eval/tensor.h"

namespace opentrn::graph::eval {

using ProcessGroup = std::vector<int64_t>;  // process ids in the order of the group

// What a process brings to a rendezvous, and at which collective: what all members of a group have in common,
// and where it stands in the program.
struct Arrival {
  std::vector<Tensor> tensors;
  std::string collective;
  std::string where;  // empty: nobody knows
};

class ProcessGrid {
 public:
  ProcessGrid(int64_t num_replicas, int64_t num_partitions)
      : num_replicas_(num_replicas),
        num_partitions_(num_partitions),
        running_(num_replicas * num_partitions) {}

  int64_t num_replicas() const { return num_replicas_; }
  int64_t num_partitions() const { return num_partitions_; }

  // What each member of `group` brought, in the group's order. An input fault in each of them where they came
  // to different collectives. `op` is for the fault of who waits in vain.
  std::vector<std::vector<Tensor>> meet(const ProcessGroup& group, int64_t channel, int64_t process,
                                        Arrival arrival, std::string_view op);
  // `receiver` -1 is the host.
  void send(int64_t channel, int64_t receiver, std::vector<Tensor> tensors);
  std::vector<Tensor> receive(int64_t channel, int64_t receiver);

  // The process has returned (or thrown: `failed`) and comes to no rendezvous any more.
  void leave(bool failed);

 private:
  struct Rendezvous {
    std::map<int64_t, Arrival> brought;  // by process
    size_t left = 0;

    bool is_one_collective() const;
    std::string who_is_where() const;
  };
  using RendezvousKey = std::tuple<int64_t, ProcessGroup, int64_t>;  // channel, group, how many before

  // what() says who waits for whom, where nobody can bring it any more.
  void wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done,
                  const std::function<std::string()>& what);
  void find_deadlock();

  const int64_t num_replicas_;
  const int64_t num_partitions_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t running_;
  bool stopped_ = false;  // a process failed, or all wait in vain
  std::vector<const std::function<bool()>*> waiting_;
  std::map<RendezvousKey, Rendezvous> rendezvous_;
  std::map<std::tuple<int64_t, ProcessGroup, int64_t>, int64_t> attended_;  // channel, group, process
  std::map<std::pair<int64_t, int64_t>, std::deque<std::vector<Tensor>>> queues_;
};

class Process {
 public:
  Process(ProcessGrid& grid, int64_t id) : grid_(grid), id_(id) {}
  ProcessGrid& grid() { return grid_; }
  int64_t id() const { return id_; }
  int64_t replica() const { return id_ / grid_.num_partitions(); }
  int64_t partition() const { return id_ % grid_.num_partitions(); }

 private:
  ProcessGrid& grid_;
  int64_t id_;
};

}  // namespace opentrn::graph::eval
