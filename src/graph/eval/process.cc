#include "graph/eval/process.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/interrupt.h"

namespace opentrn::graph::eval {

std::vector<std::vector<Tensor>> ProcessGrid::meet(const ProcessGroup& group, int64_t channel,
                                                   int64_t process, Arrival arrival, std::string_view op) {
  std::unique_lock lock(mutex_);
  const int64_t before = attended_[{channel, group, process}]++;
  const RendezvousKey key{channel, group, before};
  rendezvous_[key].brought.emplace(process, std::move(arrival));
  changed_.notify_all();
  wait_until(
      lock, [&] { return rendezvous_[key].brought.size() == group.size(); },
      [&] {
        const auto& here = rendezvous_[key].brought;
        std::vector<int64_t> missing;
        std::ranges::copy_if(group, std::back_inserter(missing),
                             [&](int64_t id) { return !here.contains(id); });
        return fmt::format("process {} waits at {} for process{} {} of the group {}", process, op,
                           missing.size() == 1 ? "" : "es", fmt::join(missing, ", "), fmt::join(group, ", "));
      });
  Rendezvous& rendezvous = rendezvous_[key];
  if (!rendezvous.is_one_collective())
    throw Fault(FaultKind::kInput, "eval.mismatch",
                fmt::format("the processes {} meet at different collectives: {}", fmt::join(group, ", "),
                            rendezvous.who_is_where()),
                "give every process of a group the same sequence of collectives");
  std::vector<std::vector<Tensor>> all;
  for (const int64_t member : group) all.push_back(rendezvous.brought.at(member).tensors);
  if (++rendezvous.left == group.size()) rendezvous_.erase(key);
  return all;
}

bool ProcessGrid::Rendezvous::is_one_collective() const {
  const std::string& first = brought.begin()->second.collective;
  return std::ranges::all_of(brought, [&](const auto& one) { return one.second.collective == first; });
}

std::string ProcessGrid::Rendezvous::who_is_where() const {
  std::map<std::string, std::vector<int64_t>> at;
  for (const auto& [process, arrival] : brought)
    at[arrival.where.empty() ? arrival.collective : fmt::format("{} ({})", arrival.collective, arrival.where)]
        .push_back(process);
  std::vector<std::string> parts;
  for (const auto& [place, processes] : at)
    parts.push_back(fmt::format("{} at {}", fmt::join(processes, ", "), place));
  return fmt::format("{}", fmt::join(parts, "; "));
}

void ProcessGrid::send(int64_t channel, int64_t receiver, std::vector<Tensor> tensors) {
  const std::lock_guard lock(mutex_);
  queues_[{channel, receiver}].push_back(std::move(tensors));
  changed_.notify_all();
}

std::vector<Tensor> ProcessGrid::receive(int64_t channel, int64_t receiver) {
  std::unique_lock lock(mutex_);
  auto& queue = queues_[{channel, receiver}];
  wait_until(
      lock, [&] { return !queue.empty(); },
      [&] {
        return receiver < 0 ? std::string("a recv waits for the host to send")
                            : fmt::format("process {} waits at a recv for a send", receiver);
      });
  std::vector<Tensor> tensors = std::move(queue.front());
  queue.pop_front();
  return tensors;
}

void ProcessGrid::leave(bool failed) {
  const std::lock_guard lock(mutex_);
  --running_;
  if (failed) stopped_ = true;
  find_deadlock();
  changed_.notify_all();
}

void ProcessGrid::wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done,
                             const std::function<std::string()>& what) {
  waiting_.push_back(&done);
  find_deadlock();
  const auto forget = [&] { waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &done)); };
  try {
    interrupt::wait(changed_, lock, [&] { return done() || stopped_; });
  } catch (const Interrupted&) {
    forget();
    throw;
  }
  forget();
  if (!done())
    throw Fault(FaultKind::kInput, "eval.deadlock",
                fmt::format("{}, and no running process can bring what it waits for", what()),
                "give every process of a group the same sequence of collectives");
}

// Everybody who still runs waits, and nobody has what they wait for.
void ProcessGrid::find_deadlock() {
  if (static_cast<int64_t>(waiting_.size()) < running_ || waiting_.empty()) return;
  for (const auto* done : waiting_)
    if ((*done)()) return;
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace opentrn::graph::eval
