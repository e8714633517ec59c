#include "sim/functional/basic_block.h"

#include <algorithm>

#include "sim/functional/context.h"

namespace opentrn::sim {

void BasicBlock::read(const isa::Program& program, isa::InstructionIndex begin, isa::InstructionIndex end,
                      const Foldable& foldable) {
  plan_.begin_ = plan_.end_ = begin;
  plan_.work_ = plan_.longest_ = 0;
  plan_.graph_.reset();
  plan_.tasks_.clear();
  plan_.chains_.clear();
  records_.clear();
  state_user_.fill(kNone);
  ++block_;
  if (users_.size() < program.tensor_count()) users_.resize(program.tensor_count());
  accesses_.resize(std::max(accesses_.size(), size_t{std::min(end - begin, kLongest)}));
  const bool chains = foldable != nullptr && merged_.empty();
  finder_.start(program, begin);
  for (; plan_.end_ < end && plan_.end_ - plan_.begin_ < kLongest; ++plan_.end_) {
    AccessList& list = accesses_[plan_.end_ - plan_.begin_];
    read_accesses(program, program.instruction(plan_.end_), list);
    if (list.alone) break;
    if (chains && finder_.add(list)) continue;
    close_chain(foldable);
    finder_.start(program, plan_.end_);
    if (chains && finder_.add(list)) continue;
    add(list, add_task({plan_.end_, plan_.end_ + 1, kNone}));
    finder_.start(program, plan_.end_ + 1);
  }
  close_chain(foldable);
}

void BasicBlock::close_chain(const Foldable& foldable) {
  const isa::InstructionIndex begin = finder_.begin(), end = finder_.end();
  if (begin == end) return;
  const bool pays = finder_.pays();
  TaskGraph::Task task = kNone;
  if (pays) {
    plan_.chains_.push_back(finder_.finish([&](isa::TensorId id, isa::InstructionIndex chain_end) {
      return users_[id].block != block_ && foldable(id, chain_end);
    }));
    task = add_task({begin, end, static_cast<uint32_t>(plan_.chains_.size() - 1)});
  }
  for (isa::InstructionIndex i = begin; i < end; ++i) {
    if (!pays) task = add_task({i, i + 1, kNone});
    add(accesses_[i - plan_.begin_], task);
  }
}

TaskGraph::Task BasicBlock::add_task(const Range& range) {
  plan_.tasks_.push_back(range);
  behind_.resize(plan_.tasks_.size());
  behind_.back() = 0;
  return plan_.graph_.add_task();
}

void BasicBlock::add(const AccessList& list, TaskGraph::Task task) {
  plan_.work_ += list.work;
  for (int part = 0; part < kEngineStateParts; ++part) {
    if ((list.engine_state >> part & 1) == 0) continue;
    uint32_t& user = state_user_[static_cast<size_t>(part)];
    if (user != kNone) add_edge(user, task);
    user = task;
  }
  for (const Access& access : list.accesses) add(access, task);
  behind_[task] += list.work < kParallelWorkMin ? list.work : list.work / 2;
  plan_.longest_ = std::max(plan_.longest_, behind_[task]);
}

void BasicBlock::add_edge(TaskGraph::Task before, TaskGraph::Task after) {
  plan_.graph_.add_edge(before, after);
  behind_[after] = std::max(behind_[after], behind_[before]);
}

void BasicBlock::add(Access access, TaskGraph::Task task) {
  if (!merged_.empty() && std::binary_search(merged_.begin(), merged_.end(), access.tensor)) {
    access.tensor = merged_.front();
    access.row_begin = access.byte_begin = 0;
    access.row_end = access.byte_end = INT64_MAX;
  }
  Users& users = users_[access.tensor];
  if (users.block != block_) users = {block_, kNone, kNone};
  order_after(users.writes, access, task);
  if (access.writes) order_after(users.reads, access, task);
  remember(access.writes ? users.writes : users.reads, access, task);
}

// Adds the edges, and forgets what a write covers: whoever conflicts with that conflicts with the write.
void BasicBlock::order_after(uint32_t& list, const Access& access, TaskGraph::Task task) {
  for (uint32_t* link = &list; *link != kNone;) {
    Record& record = records_[*link];
    if (record.task != task && record.access.overlaps(access)) add_edge(record.task, task);
    if (access.writes && access.covers(record.access))
      *link = record.next;
    else
      link = &record.next;
  }
}

void BasicBlock::remember(uint32_t& list, const Access& access, TaskGraph::Task task) {
  records_.push_back({access, task, list});
  list = static_cast<uint32_t>(records_.size() - 1);
}

}  // namespace opentrn::sim
