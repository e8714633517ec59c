#include "sim/functional/stretch.h"

#include <algorithm>

namespace opentrn::sim {

void Stretch::read(const isa::Program& program, isa::InstructionIndex begin, isa::InstructionIndex end) {
  begin_ = begin;
  work_ = 0;
  graph_.reset();
  records_.clear();
  state_user_.fill(kNone);
  ++stretch_;
  if (users_.size() < program.tensor_count()) users_.resize(program.tensor_count());
  for (isa::InstructionIndex i = begin; i < end && graph_.size() < kLongest; ++i) {
    read_accesses(program, program.instruction(i), accesses_);
    if (accesses_.alone) return;
    add(accesses_, graph_.add_task());
  }
}

void Stretch::add(const AccessList& list, TaskGraph::Task task) {
  work_ += list.work;
  for (int part = 0; part < kEngineStateParts; ++part) {
    if ((list.engine_state >> part & 1) == 0) continue;
    uint32_t& user = state_user_[static_cast<size_t>(part)];
    if (user != kNone) graph_.add_edge(user, task);
    user = task;
  }
  for (const Access& access : list.accesses) add(access, task);
}

void Stretch::add(Access access, TaskGraph::Task task) {
  if (!merged_.empty() && std::binary_search(merged_.begin(), merged_.end(), access.tensor)) {
    access.tensor = merged_.front();
    access.row_begin = access.byte_begin = 0;
    access.row_end = access.byte_end = INT64_MAX;
  }
  Users& users = users_[access.tensor];
  if (users.stretch != stretch_) users = {stretch_, kNone, kNone};
  order_after(users.writes, access, task);
  if (access.writes) order_after(users.reads, access, task);
  remember(access.writes ? users.writes : users.reads, access, task);
}

// Adds the edges, and forgets what a write covers: whoever conflicts with that conflicts with the write.
void Stretch::order_after(uint32_t& list, const Access& access, TaskGraph::Task task) {
  for (uint32_t* link = &list; *link != kNone;) {
    Record& record = records_[*link];
    if (record.task != task && record.access.overlaps(access)) graph_.add_edge(record.task, task);
    if (access.writes && access.covers(record.access))
      *link = record.next;
    else
      link = &record.next;
  }
}

void Stretch::remember(uint32_t& list, const Access& access, TaskGraph::Task task) {
  records_.push_back({access, task, list});
  list = static_cast<uint32_t>(records_.size() - 1);
}

}  // namespace opentrn::sim
