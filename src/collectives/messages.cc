#include "collectives/messages.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "collectives/step_graph.h"

namespace opentrn::collectives {

namespace {

class Translation {
 public:
  explicit Translation(const Plan& plan) : plan_(plan), operations_(plan.steps.size()) {}

  std::vector<std::vector<Operation>> run() {
    Placed placed{&plan_, std::vector<int>(plan_.steps.size())};
    std::iota(placed.ranks.begin(), placed.ranks.end(), 0);
    const std::vector<std::vector<int>> order(plan_.steps.size(), {0});
    const StepGraph graph({&placed, 1}, order);
    for (const auto node : graph.order()) {
      std::vector<StepRef> before;
      for (const auto other : graph.predecessors(node)) before.push_back(graph.place_of(other).step);
      write(graph.place_of(node).step, before);
    }
    return std::move(operations_);
  }

 private:
  using After = std::vector<int32_t>;

  int32_t add(int rank, Operation operation) {
    auto& list = operations_[static_cast<size_t>(rank)];
    std::ranges::sort(operation.after);
    const auto same = std::ranges::unique(operation.after);
    operation.after.erase(same.begin(), same.end());
    list.push_back(std::move(operation));
    return static_cast<int32_t>(list.size()) - 1;
  }

  struct Ends {
    int32_t sent = 0, received = 0;  // operations of either rank
  };
  Ends message(int from, int to, int64_t bytes, After after) {
    const int tag = tags_[{from, to}]++;
    const int32_t sent = add(from, {Operation::Kind::kSend, bytes, to, tag, std::move(after)});
    return {sent, add(to, {Operation::Kind::kReceive, bytes, from, tag, {}})};
  }

  // The operation of `rank` after which the step has ended, for that rank.
  int32_t end_at(StepRef step, int rank) {
    auto& ends = ends_[step];
    if (const auto found = ends.find(rank); found != ends.end()) return found->second;
    const int teller = plan_.steps[static_cast<size_t>(step.rank)][static_cast<size_t>(step.step)].peer;
    return ends[rank] = message(teller, rank, kSignalBytes, {ends.at(teller)}).received;
  }

  void write(StepRef ref, const std::vector<StepRef>& before) {
    const Step& step = plan_.steps[static_cast<size_t>(ref.rank)][static_cast<size_t>(ref.step)];
    After after;
    for (const StepRef& other : before) after.push_back(end_at(other, ref.rank));
    const auto more = plan_.more_sources(ref.rank, step);
    After ready = after;
    for (const At& source : more) {
      if (source.rank == ref.rank) continue;
      const int32_t asked = message(ref.rank, source.rank, kSignalBytes, after).received;
      ready.push_back(message(source.rank, ref.rank, step.bytes, {asked}).received);
    }
    const auto compute = [&](int rank, After when) {
      return add(rank, {Operation::Kind::kCompute, step.bytes, -1, 0, std::move(when)});
    };
    const bool here = step.peer == ref.rank;
    if (here || !more.empty()) ready = {compute(ref.rank, ready)};
    auto& ends = ends_[ref];
    if (here) ends[ref.rank] = ready[0];
    put(ref, step.peer, step.bytes, ready);
    if (step.reduces && !here) ends[step.peer] = compute(step.peer, {ends.at(step.peer)});
    if (const At* second = plan_.second_target(ref.rank, step)) {
      if (second->rank == ref.rank) ends[ref.rank] = compute(ref.rank, ready);
      put(ref, second->rank, step.bytes, ready);
    }
  }

  void put(StepRef ref, int to, int64_t bytes, const After& ready) {
    if (to == ref.rank) return;
    const Ends both = message(ref.rank, to, std::max(bytes, kSignalBytes), ready);
    ends_[ref][ref.rank] = both.sent;
    ends_[ref][to] = both.received;
  }

  static constexpr int64_t kSignalBytes = 1;

  const Plan& plan_;
  std::vector<std::vector<Operation>> operations_;
  std::map<std::pair<int, int>, int> tags_;
  std::map<StepRef, std::map<int, int32_t>> ends_;  // by rank
};

}  // namespace

std::vector<std::vector<Operation>> messages_of(const Plan& plan) { return Translation(plan).run(); }

}  // namespace opentrn::collectives
