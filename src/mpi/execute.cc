#include "mpi/execute.h"

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/fnv1a.h"
#include "base/interrupt.h"
#include "collectives/arithmetic.h"
#include "collectives/memories.h"
#include "collectives/step_graph.h"
#include "numerics/dtype.h"

namespace opentrn::mpi {

namespace {

using collectives::At;
using collectives::Memories;
using collectives::Plan;
using collectives::Step;
using collectives::StepRef;

// Plans that differ in one number have other digests: two processes with other tables do not go on.
uint64_t digest(const Plan& plan) {
  uint64_t hash = fnv1a(plan.algorithm);
  const auto add = [&](auto... numbers) {
    ((hash = (hash ^ static_cast<uint64_t>(numbers)) * 0x100000001B3u), ...);
  };
  const auto add_place = [&](const At& at) { add(at.rank, at.slice.buffer, at.slice.offset); };
  add(plan.scratch_bytes, plan.in_place, plan.request.root);
  for (size_t rank = 0; rank < plan.steps.size(); ++rank)
    for (const Step& step : plan.steps[rank]) {
      add(rank, step.peer, step.bytes, step.channel, step.reduces);
      add_place({static_cast<int>(rank), step.from});
      add_place({step.peer, step.to});
      for (const At& source : plan.more_sources(static_cast<int>(rank), step)) add_place(source);
      if (const At* second = plan.second_target(static_cast<int>(rank), step)) add_place(*second);
    }
  return hash;
}

class Run {
 public:
  Run(const Plan& plan, std::span<const collectives::RankBuffers> buffers, const Division& division,
      Transport& transport)
      : plan_(plan),
        division_(division),
        transport_(transport),
        me_(transport.process()),
        memories_(plan, buffers, division.ranks_of(me_)) {}

  void run() {
    collectives::Placed placed{&plan_, std::vector<int>(plan_.steps.size())};
    std::iota(placed.ranks.begin(), placed.ranks.end(), 0);
    const std::vector<std::vector<int>> order(plan_.steps.size(), {0});
    const collectives::StepGraph graph({&placed, 1}, order);
    for (const auto node : graph.order()) {
      interrupt::poll();
      take_part(graph.place_of(node).step);
    }
    transport_.flush(
        [&] { return fmt::format("{} has done its part of {}", division_.describe(me_), describe(plan_)); });
    memories_.finish();
  }

 private:
  bool is_mine(int rank) const { return division_.owner(rank) == me_; }

  void take_part(StepRef ref) {
    const Step& step = plan_.steps[static_cast<size_t>(ref.rank)][static_cast<size_t>(ref.step)];
    if (step.bytes == 0) return;
    now_ = ref;
    const int worker = division_.owner(step.reduces ? step.peer : ref.rank);
    const At from{ref.rank, step.from};
    const auto more = plan_.more_sources(ref.rank, step);
    if (worker != me_) {
      send_source(from, step, worker);
      for (const At& source : more) send_source(source, step, worker);
      receive_target({step.peer, step.to}, step, worker);
      if (const At* second = plan_.second_target(ref.rank, step)) receive_target(*second, step, worker);
      return;
    }
    sources_.clear();
    if (step.reduces) sources_.push_back(memories_.at(step.peer, step.to));
    fetched_.resize(more.size() + 1);
    sources_.push_back(source(from, step, 0));
    for (size_t i = 0; i < more.size(); ++i) sources_.push_back(source(more[i], step, i + 1));
    const std::byte* made = make(step);
    put({step.peer, step.to}, step, made);
    if (const At* second = plan_.second_target(ref.rank, step)) put(*second, step, made);
  }

  // The bytes of a source, fetched where another process holds them.
  const std::byte* source(const At& at, const Step& step, size_t index) {
    if (is_mine(at.rank)) return memories_.at(at.rank, at.slice);
    std::vector<std::byte>& fetched = fetched_[index];
    fetched.resize(static_cast<size_t>(step.bytes));
    receive(division_.owner(at.rank), fetched);
    return fetched.data();
  }

  void send_source(const At& at, const Step& step, int worker) {
    if (!is_mine(at.rank)) return;
    const std::byte* begin = memories_.at(at.rank, at.slice);
    transport_.send(worker, {begin, begin + step.bytes});
  }

  void receive_target(const At& at, const Step& step, int worker) {
    if (is_mine(at.rank)) receive(worker, {memories_.at(at.rank, at.slice), static_cast<size_t>(step.bytes)});
  }

  // What the step writes: its one source, or what its sources reduce to.
  const std::byte* make(const Step& step) {
    if (sources_.size() == 1) return sources_[0];
    made_.resize(static_cast<size_t>(step.bytes));
    collectives::reduce_elements(plan_.request.reduction, plan_.request.dtype, sources_, made_.data(),
                                 made_.size());
    return made_.data();
  }

  void put(const At& at, const Step& step, const std::byte* made) {
    if (is_mine(at.rank))
      std::memmove(memories_.at(at.rank, at.slice), made, static_cast<size_t>(step.bytes));
    else
      transport_.send(division_.owner(at.rank), {made, made + step.bytes});
  }

  void receive(int from, std::span<std::byte> message) {
    const Doing doing = [&] {
      return fmt::format("{} waits for {} in {}: {}", division_.describe(me_), division_.describe(from),
                         describe(plan_), collectives::describe(plan_, now_));
    };
    const Deadline deadline = std::chrono::steady_clock::now() + transport_.timeout();
    if (transport_.receive(from, message, deadline, doing)) return;
    throw Fault(FaultKind::kInput, "mpi.absent",
                fmt::format("{:g} s without a message: {}",
                            std::chrono::duration<double>(transport_.timeout()).count(), doing()),
                "see what that process does; OPENTRN_MPI_TIMEOUT_S=300 waits longer");
  }

  const Plan& plan_;
  const Division& division_;
  Transport& transport_;
  int me_;
  Memories memories_;
  StepRef now_;
  std::vector<const std::byte*> sources_;
  std::vector<std::vector<std::byte>> fetched_;
  std::vector<std::byte> made_;
};

}  // namespace

std::string describe(const Plan& plan) {
  const collectives::Request& request = plan.request;
  std::string out = fmt::format("{} of {} B", name_of(request.kind), input_bytes(request, request.root));
  if (reduces(request.kind))
    out += fmt::format(", {} of {}", name_of(request.reduction), name(request.dtype));
  return out + fmt::format(", {} ranks, by {} (plan {:016x})", request.ranks, plan.algorithm, digest(plan));
}

void execute(const Plan& plan, std::span<const collectives::RankBuffers> buffers, const Division& division,
             Transport& transport) {
  OPENTRN_CHECK(division.ranks() == plan.request.ranks && division.processes() == transport.processes(),
                "a division of {} ranks over {} processes for a plan of {} on {}", division.ranks(),
                division.processes(), plan.request.ranks, transport.processes());
  collectives::prove(plan);
  const std::vector<int> own = division.ranks_of(transport.process());
  collectives::check_buffers(plan.request, buffers, own);
  agree(transport, division, describe(plan));
  Run(plan, buffers, division, transport).run();
}

}  // namespace opentrn::mpi
