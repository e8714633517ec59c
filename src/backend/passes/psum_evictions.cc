#include "backend/passes/psum_evictions.h"

#include <algorithm>
#include <vector>

#include "backend/access.h"
#include "backend/passes/rewrite.h"
#include "base/interrupt.h"
#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

using isa::InstructionIndex;

class EvictionHoisting {
 public:
  explicit EvictionHoisting(const isa::Program& program)
      : program_(program),
        reader_(program),
        uses_left_(program.tensor_count()),
        written_(program.tensor_count()),
        touched_(program.tensor_count()),
        behind_(program.size()),
        held_(program.size()),
        moved_(program.size()) {
    for (const isa::DependencyEdge& edge : program.edges())
      held_[edge.consumer] = held_[edge.producer] = true;
    for (InstructionIndex i = 0; i < program.size(); ++i) {
      reader_.read(program.instruction(i));
      for (const Access& access : reader_.accesses()) ++uses_left_[access.tensor];
    }
  }

  // The instructions that go right behind each one, in order; empty when nothing moves.
  std::vector<std::vector<InstructionIndex>> run() {
    bool any = false;
    for (InstructionIndex i = 0; i < program_.size(); ++i) {
      interrupt::poll();
      reader_.read(program_.instruction(i));
      for (const Access& access : reader_.accesses()) --uses_left_[access.tensor];
      InstructionIndex place = i;
      if (!held_[i] && evicts(program_.instruction(i))) place = earliest(i);
      if (place < i) {
        behind_[place].push_back(i);
        moved_[i] = true;
        any |= place + 1 < i;
      }
      for (const Access& access : reader_.accesses()) {
        touched_[access.tensor] = std::max(touched_[access.tensor], place);
        if (access.writes) written_[access.tensor] = std::max(written_[access.tensor], place);
      }
    }
    return any ? std::move(behind_) : std::vector<std::vector<InstructionIndex>>{};
  }

  bool moved(InstructionIndex i) const { return moved_[i]; }

 private:
  // Whether it reads a PSUM tensor for the last time, and nothing but its tensors orders it.
  bool evicts(const isa::Instruction& in) const {
    if (isa::is_dma(in.opcode) || isa::is_matmul(in.opcode) || isa::engine_state_used(program_, in) != 0)
      return false;
    if (!reader_.registers().empty()) return false;
    bool last = false;
    for (const Access& access : reader_.accesses()) {
      const isa::Tensor& tensor = program_.tensor(access.tensor);
      if (isa::is_hbm(tensor.space) || tensor.address) return false;
      if (tensor.space != isa::MemorySpace::kPsum) continue;
      if (access.writes) return false;
      last |= uses_left_[access.tensor] == 0;
    }
    return last;
  }

  // Behind which instruction that stays where it is: the last that must come before, or one that went there.
  InstructionIndex earliest(InstructionIndex i) const {
    InstructionIndex place = 0;
    for (const Access& access : reader_.accesses())
      place = std::max(place, access.writes ? touched_[access.tensor] : written_[access.tensor]);
    return std::min(place, i);
  }

  const isa::Program& program_;
  AccessReader reader_;
  std::vector<int64_t> uses_left_;                     // by TensorId
  std::vector<InstructionIndex> written_, touched_;    // by TensorId: the place of the last in the new order
  std::vector<std::vector<InstructionIndex>> behind_;  // by place
  std::vector<bool> held_, moved_;                     // by instruction
};

}  // namespace

std::shared_ptr<const isa::Program> hoist_psum_evictions(const std::shared_ptr<const isa::Program>& program) {
  if (has_control_flow(*program)) return program;
  EvictionHoisting hoisting(*program);
  const auto behind = hoisting.run();
  if (behind.empty()) return program;
  Rewrite rewrite(*program);
  for (InstructionIndex i = 0; i < program->size(); ++i) {
    if (hoisting.moved(i)) continue;
    rewrite.keep(i);
    for (const InstructionIndex follower : behind[i]) rewrite.keep(follower);
  }
  return std::make_shared<const isa::Program>(rewrite.take());
}

}  // namespace opentrn::backend
