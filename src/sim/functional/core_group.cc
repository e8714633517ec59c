#include "sim/functional/core_group.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/functional/context.h"
#include "sim/functional/transfer.h"
#include "sim/functional/unwritten.h"

namespace opentrn::sim {

using isa::InstructionIndex;
using isa::Opcode;
using isa::Program;

// A core that waits at a rendezvous.
struct CoreGroup::Arrival {
  const Program* program;
  InstructionIndex index;
  bool complete = false;  // the partner came; the core passes at its next run()

  const isa::Instruction& instruction() const { return program->instruction(index); }
  std::string describe(int rank) const {
    const isa::Instruction& in = instruction();
    const SourceLocation at =
        in.location < program->location_count() ? program->location(in.location) : SourceLocation{};
    return fmt::format("core {} waits in {} (instruction {}{})", rank, isa::name(in.opcode), index,
                       at.known() ? fmt::format(", {}:{}", at.file, at.line) : "");
  }
};

CoreGroup::CoreGroup(Generation generation, int cores, ThreadPool* pool, CheckOptions checks) {
  OPENTRN_CHECK(cores >= 1, "{} cores", cores);
  for (int rank = 0; rank < cores; ++rank) {
    cores_.push_back(std::make_unique<Core>(generation, pool, checks));
    cores_.back()->group_ = this;
    cores_.back()->rank_ = rank;
  }
  arrivals_.resize(static_cast<size_t>(cores));
  ended_.resize(static_cast<size_t>(cores));
  if (checks.core_races && cores == 2) races_ = std::make_unique<CoreRaces>();
}

CoreGroup::~CoreGroup() = default;

void CoreGroup::bind_shared(isa::TensorId id, const std::shared_ptr<Buffer>& buffer) {
  for (const auto& core : cores_) core->bind(id, buffer);
}

std::optional<InstructionIndex> CoreGroup::waiting_at(int rank) const {
  const auto& arrival = arrivals_[static_cast<size_t>(rank)];
  if (arrival == nullptr || arrival->complete) return std::nullopt;
  return arrival->index;
}

namespace {

// The rank that an instruction of `rank` has to meet; itself when it meets nobody else.
int partner_of(const Context& cx, int rank, int cores) {
  if (cx.in.opcode == Opcode::kCoreBarrier) {
    const std::span<const int64_t> list = cx.list(isa::slot::core_barrier::kACores);
    if (std::find(list.begin(), list.end(), rank) == list.end() || list.size() > 2)
      cx.broken("cores", fmt::format("core {} of {} is not one of the barrier's cores", rank, cores),
                "only cores=(0, 1) is supported");
    for (int64_t other : list) {
      if (other < 0 || other >= cores) cx.broken("cores", fmt::format("there is no core {}", other));
      if (other != rank) return static_cast<int>(other);
    }
    return rank;
  }
  using namespace isa::slot::sendrecv;
  const int64_t to = cx.integer(kASendToRank);
  const int64_t from = cx.integer(kARecvFromRank);
  for (int64_t other : {to, from})
    if (other < 0 || other >= cores) cx.broken("rank", fmt::format("there is no core {}", other));
  if (to != from)
    cx.fail(FaultKind::kNotModelled, "sendrecv.rank",
            fmt::format("core {} sends to {} and receives from {}", rank, to, from),
            "send to and receive from the same core");
  return static_cast<int>(to);
}

// Whether two cores that wait for each other wait for the same thing.
bool synchronises(const Context& a, const Context& b) {
  if (a.in.opcode != b.in.opcode) return false;
  if (a.in.opcode == Opcode::kCoreBarrier) return true;
  return a.integer(isa::slot::sendrecv::kAPipeId) == b.integer(isa::slot::sendrecv::kAPipeId);
}

// What a sendrecv sends: its bytes, and which of them nothing has written.
struct Sent {
  explicit Sent(Context& cx)
      : unwritten(cx, isa::slot::sendrecv::kSrc), values(cx.snapshot(unwritten.source())) {}
  Unwritten unwritten;
  View values;
};

void receive(Context& cx, const Sent& sent) {
  using namespace isa::slot::sendrecv;
  const View& values = sent.values;
  const View dst = cx.destination(kDst);
  if (dst.dtype != values.dtype || dst.partitions != values.partitions || dst.elements != values.elements)
    cx.broken("shape", fmt::format("{} x {} {} arrive, dst is {} x {} {}", values.partitions, values.elements,
                                   name(values.dtype), dst.partitions, dst.elements, name(dst.dtype)));
  transfer(cx, flatten(values), flatten(dst), values.dtype, dst.dtype, dst.total());
  sent.unwritten.carry_to(cx, dst);
}

// `work` of another core: its faults name that core's instruction.
template <typename Work>
auto at_peer(Context& peer, Work&& work) {
  try {
    return work();
  } catch (Fault& fault) {
    peer.locate(fault);
    throw;
  }
}

}  // namespace

bool CoreGroup::arrive(int rank, const Program& program, InstructionIndex index) {
  std::unique_ptr<Arrival>& mine = arrivals_[static_cast<size_t>(rank)];
  if (mine != nullptr && mine->complete && mine->index == index && mine->program == &program) {
    mine.reset();
    return true;
  }
  ended_[static_cast<size_t>(rank)] = false;
  mine = std::make_unique<Arrival>(Arrival{&program, index});
  Context cx(*cores_[static_cast<size_t>(rank)], program, index);
  const int partner = partner_of(cx, rank, size());
  if (partner == rank) {
    if (cx.in.opcode == Opcode::kSendRecv) receive(cx, Sent(cx));
    mine.reset();
    return true;
  }
  const std::unique_ptr<Arrival>& other = arrivals_[static_cast<size_t>(partner)];
  if (other == nullptr || other->complete) {
    if (ended_[static_cast<size_t>(partner)]) fail_alone(rank, partner);
    return false;
  }
  Context peer(*cores_[static_cast<size_t>(partner)], *other->program, other->index);
  if (partner_of(peer, partner, size()) != rank || !synchronises(cx, peer)) {
    const std::string text = fmt::format("{}; {}", mine->describe(rank), other->describe(partner));
    cx.fail(FaultKind::kProgram, "sim.deadlock", text,
            "both cores must execute the same sequence of sendrecv and core_barrier");
  }
  if (cx.in.opcode == Opcode::kSendRecv) exchange(cx, peer);
  other->complete = true;
  met_ = true;
  mine.reset();
  return true;
}

void CoreGroup::watch(const std::shared_ptr<Buffer>& buffer) {
  if (races_) races_->watch(buffer);
}

void CoreGroup::order_what_is_shared() {
  if (std::exchange(met_, false) && races_) races_->meet();
}

void CoreGroup::check_races() {
  if (races_) races_->meet();
}

void exchange(Context& cx, Context& peer) {
  const Sent from_here(cx);
  const Sent from_peer = at_peer(peer, [&] { return Sent(peer); });
  at_peer(peer, [&] {
    receive(peer, from_here);
    peer.finish();
  });
  receive(cx, from_peer);
  cx.finish();
}

void CoreGroup::fail_alone(int rank, int partner) const {
  const Arrival& mine = *arrivals_[static_cast<size_t>(rank)];
  Fault fault(FaultKind::kProgram, "sim.deadlock",
              fmt::format("{}; core {} has ended without taking part", mine.describe(rank), partner),
              "both cores must execute the same sequence of sendrecv and core_barrier");
  const isa::Instruction& in = mine.instruction();
  if (in.location < mine.program->location_count()) fault.set_location(mine.program->location(in.location));
  throw fault;
}

void CoreGroup::finished(int rank) {
  ended_[static_cast<size_t>(rank)] = true;
  for (int other = 0; other < size(); ++other)
    if (other != rank && waiting_at(other)) fail_alone(other, rank);
}

void CoreGroup::run(std::span<const Program* const> programs) {
  OPENTRN_CHECK(programs.size() == cores_.size(), "{} programs for {} cores", programs.size(), cores_.size());
  for (auto& arrival : arrivals_) arrival.reset();
  std::fill(ended_.begin(), ended_.end(), false);
  // A core runs until it waits. When it waits, the other one has not come; when that one comes, it goes on.
  size_t left = cores_.size();
  std::vector<bool> done(cores_.size());
  while (left > 0) {
    for (size_t rank = 0; rank < cores_.size(); ++rank) {
      if (done[rank] || waiting_at(static_cast<int>(rank))) continue;
      const Program& program = *programs[rank];
      if (cores_[rank]->run(program) < program.size()) continue;
      done[rank] = true;
      --left;
      finished(static_cast<int>(rank));
    }
  }
  check_races();
}

}  // namespace opentrn::sim
