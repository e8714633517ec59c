#include "backend/passes/residency.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <vector>

#include "backend/passes/rewrite.h"
#include "backend/passes/tensor_uses.h"
#include "backend/passes/written_parts.h"
#include "backend/space_map.h"
#include "base/interrupt.h"
#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

using isa::InstructionIndex;
using isa::MemorySpace;
using isa::Operand;
using isa::TensorId;

constexpr InstructionIndex kNever = std::numeric_limits<InstructionIndex>::max();
// A tensor and the write after which it is saved.
using SavePoint = std::pair<TensorId, InstructionIndex>;

// What is known of one tensor of the space that is being fitted.
struct Resident {
  bool managed = false;  // may be moved
  bool resident = false;
  bool changed = false;  // since it was last saved
  bool saved = false;
  TensorId home = 0;  // where it is saved
  size_t next = 0;    // next entry of its uses
  InstructionIndex last_write = 0;
  std::vector<InstructionIndex> loads;  // that can be repeated
  WrittenParts written;
};

class Fit {
 public:
  Fit(const isa::Program& program, const TensorUses& uses, MemorySpace space, int64_t budget_bytes,
      int64_t partitions, const Options& options, const std::set<SavePoint>& save_points)
      : program_(program),
        uses_(uses),
        space_(space),
        budget_(4 * budget_bytes),
        partitions_(partitions),
        alignment_(options.sbuf_alignment_bytes),
        reserve_parts_(compiler_number(options, "reload_reserve_parts")),
        fetch_window_(static_cast<size_t>(compiler_number(options, "reload_early_instructions"))),
        far_(static_cast<InstructionIndex>(compiler_number(options, "reload_keep_instructions"))),
        save_points_(save_points),
        rewrite_(program),
        state_(program.tensor_count()) {
    for (TensorId id = 0; id < program.tensor_count(); ++id) {
      const isa::Tensor& tensor = program.tensor(id);
      if (tensor.space != space || uses.of(id).empty()) continue;
      state_[id].managed = !tensor.address;
      if (space == MemorySpace::kSbuf) state_[id].loads = uses.loads_of(id);
    }
  }

  bool run() {
    for (InstructionIndex i = 0; i < program_.size(); ++i) {
      interrupt::poll();
      tensors_of(i);
      if (!make_room(i)) return false;
      for (TensorId id : needed_) bring_in(id, i);
      rewrite_.keep(i);
      for (TensorId id : needed_) after(id, i);
      fetch_ahead(i);
    }
    return true;
  }

  Spilled take() {
    result_.program = std::make_shared<const isa::Program>(rewrite_.take());
    return result_;
  }
  // What had to be saved when room was needed, and could have been saved before.
  const std::set<SavePoint>& wanted() const { return wanted_; }

 private:
  // Quarters of a partition set, as the allocator counts them: up to 32 rows take one quadrant.
  int64_t weight(TensorId id) const {
    const isa::Tensor& tensor = program_.tensor(id);
    const int64_t share = quadrants_taken(tensor.rows, partitions_);
    return share * placed_bytes(tensor.row_bytes(), alignment_);
  }
  InstructionIndex next_use(TensorId id) const {
    const auto uses = uses_.of(id);
    return state_[id].next < uses.size() ? uses[state_[id].next].instruction : kNever;
  }

  void tensors_of(InstructionIndex i) {
    needed_.clear();
    const auto add = [&](TensorId id) {
      if (program_.tensor(id).space == space_ && std::ranges::find(needed_, id) == needed_.end())
        needed_.push_back(id);
    };
    for (const Operand& operand : program_.operands(program_.instruction(i))) {
      if (!operand.is_access()) continue;
      add(operand.tensor);
      if (operand.indirect != isa::kNoIndirect && program_.indirect(operand).index.is_access())
        add(program_.indirect(operand).index.tensor);
    }
    // A tensor that went to live in SBUF for good needs no PSUM.
    std::erase_if(needed_, [&](TensorId id) { return moved(id); });
  }
  bool moved(TensorId id) const { return space_ == MemorySpace::kPsum && state_[id].saved; }

  bool make_room(InstructionIndex i) {
    int64_t missing = 0;
    for (TensorId id : needed_)
      if (!state_[id].resident) missing += weight(id);
    const int64_t limit = left_some_ && missing > 0 ? budget_ - budget_ / reserve_parts_ : budget_;
    while (used_ + missing > limit) {
      const auto victim = std::find_if(by_next_use_.rbegin(), by_next_use_.rend(), [&](const auto& entry) {
        return std::ranges::find(needed_, entry.second) == needed_.end() && may_leave(entry.second);
      });
      if (victim == by_next_use_.rend()) return used_ + missing <= budget_;
      if (used_ + missing <= budget_ && victim->first - i < far_) break;
      evict(victim->second, i);
      left_some_ = true;
    }
    return true;
  }

  // Starts reloads before their readers come up, as far as the reserve allows.
  void fetch_ahead(InstructionIndex i) {
    if (!left_some_ || space_ == MemorySpace::kPsum) return;
    const InstructionIndex end =
        static_cast<InstructionIndex>(std::min<size_t>(program_.size(), size_t{i} + 1 + fetch_window_));
    fetched_to_ = std::max(fetched_to_, i + 1);
    for (; fetched_to_ < end; ++fetched_to_) {
      for (const Operand& operand : program_.operands(program_.instruction(fetched_to_))) {
        if (!operand.is_access() || program_.tensor(operand.tensor).space != space_) continue;
        const Resident& state = state_[operand.tensor];
        if (state.resident || state.written.empty()) continue;
        if (used_ + weight(operand.tensor) > budget_) return;
        bring_in(operand.tensor, fetched_to_);
      }
    }
  }

  bool may_leave(TensorId id) const {
    if (!state_[id].managed) return false;
    if (space_ == MemorySpace::kSbuf) return true;
    // PSUM: only readers are left, and all of them can read SBUF.
    const auto uses = uses_.of(id);
    for (size_t k = state_[id].next; k < uses.size(); ++k)
      if (uses[k].writes || !reads_sbuf(uses[k].instruction, id)) return false;
    return true;
  }
  bool reads_sbuf(InstructionIndex i, TensorId id) const {
    const isa::Instruction& in = program_.instruction(i);
    const auto slots = isa::definition(in.opcode).operands;
    for (size_t slot = 0; slot < in.operand_count; ++slot)
      if (const Operand& operand = program_.operand(in, static_cast<int>(slot));
          operand.is_access() && operand.tensor == id &&
          !(slots[std::min(slot, slots.size() - 1)].spaces & isa::kInSbuf))
        return false;
    return true;
  }

  // What has been written of `id`, as accesses of `as`.
  std::vector<Operand> whole(TensorId id, TensorId as) {
    std::vector<Operand> result;
    for (const Part& part : state_[id].written.parts(program_.tensor(id))) {
      Operand operand;
      operand.kind = isa::OperandKind::kAccess;
      operand.tensor = as;
      operand.dtype = part.dtype;
      operand.pattern = rewrite_.to().intern_pattern(part.pattern);
      operand.offset = part.offset;
      result.push_back(operand);
    }
    return result;
  }

  void evict(TensorId id, InstructionIndex i) {
    Resident& state = state_[id];
    if (space_ == MemorySpace::kPsum || (state.loads.empty() && (state.changed || !state.saved))) {
      wanted_.insert({id, state.last_write});
      save(id, i);
    }
    leave(id);
  }

  void save(TensorId id, InstructionIndex i) {
    Resident& state = state_[id];
    const bool psum = space_ == MemorySpace::kPsum;
    if (!state.saved) state.home = rewrite_.clone(id, psum ? MemorySpace::kSbuf : MemorySpace::kPrivateHbm);
    const std::vector<Operand> parts = whole(id, rewrite_.name_of(id));
    for (const Operand& part : parts) {
      Operand to = part;
      to.tensor = state.home;
      rewrite_.copy(psum ? isa::Opcode::kTensorCopy : isa::Opcode::kDmaCopy, to, part, i, "spill");
      if (!psum) result_.saved_bytes += bytes_of(part);
    }
    if (psum) rewrite_.rename(id, state.home);
    state.saved = true;
    state.changed = false;
  }

  void leave(TensorId id) {
    by_next_use_.erase({next_use(id), id});
    state_[id].resident = false;
    used_ -= weight(id);
  }

  void bring_in(TensorId id, InstructionIndex i) {
    Resident& state = state_[id];
    if (state.resident) return;
    const bool holds_something = !state.written.empty();
    if (holds_something) {
      rewrite_.rename(id, rewrite_.clone(id, space_));
      if (state.loads.empty())
        reload(id, i);
      else
        load_again(id);
    }
    state.resident = true;
    used_ += weight(id);
    by_next_use_.insert({next_use(id), id});
  }

  void reload(TensorId id, InstructionIndex i) {
    for (const Operand& part : whole(id, rewrite_.name_of(id))) {
      Operand from = part;
      from.tensor = state_[id].home;
      rewrite_.copy(isa::Opcode::kDmaCopy, part, from, i, "reload");
      result_.reloaded_bytes += bytes_of(part);
    }
  }

  void load_again(TensorId id) {
    for (InstructionIndex load : state_[id].loads) {
      Operand dst = program_.operand(program_.instruction(load), isa::slot::dma_copy::kDst);
      dst.tensor = rewrite_.name_of(id);
      rewrite_.repeat(load, isa::slot::dma_copy::kDst, dst);
      result_.repeated_bytes += bytes_of(dst);
    }
  }

  int64_t bytes_of(const Operand& operand) {
    return rewrite_.to().pattern(operand.pattern).element_count() * size_bytes(operand.dtype);
  }

  void after(TensorId id, InstructionIndex i) {
    Resident& state = state_[id];
    by_next_use_.erase({next_use(id), id});
    const TensorUse& use = uses_.of(id)[state.next++];
    if (use.writes) note_writes(id, i);
    if (use.writes && save_points_.contains({id, i})) save(id, i);
    by_next_use_.insert({next_use(id), id});
    if (next_use(id) == kNever) leave(id);
  }

  void note_writes(TensorId id, InstructionIndex i) {
    Resident& state = state_[id];
    state.changed = true;
    state.last_write = i;
    const isa::Instruction& in = program_.instruction(i);
    for (int slot = 0; slot < in.operand_count; ++slot) {
      const Operand& operand = program_.operand(in, slot);
      if (!operand.is_access() || operand.tensor != id) continue;
      state.written.add(program_.tensor(id), {operand.offset, program_.pattern(operand), operand.dtype});
    }
  }

  const isa::Program& program_;
  const TensorUses& uses_;
  MemorySpace space_;
  int64_t budget_;
  int64_t partitions_;
  int64_t alignment_;
  // Once something had to go, one of so many parts of the budget is kept free for reloads that start up to
  // `fetch_window_` instructions before their readers, unless that would throw out what is used within
  // `far_`.
  int64_t reserve_parts_;
  size_t fetch_window_;
  InstructionIndex far_;
  const std::set<SavePoint>& save_points_;
  std::set<SavePoint> wanted_;
  Rewrite rewrite_;
  std::vector<Resident> state_;
  std::set<std::pair<InstructionIndex, TensorId>> by_next_use_;
  std::vector<TensorId> needed_;
  int64_t used_ = 0;
  InstructionIndex fetched_to_ = 0;
  bool left_some_ = false;  // something was moved: keep room to bring it back early
  Spilled result_;
};

}  // namespace

std::optional<Spilled> fit(const std::shared_ptr<const isa::Program>& program, MemorySpace space,
                           int64_t budget_bytes, int64_t partitions, const Options& options) {
  OPENTRN_CHECK(isa::is_on_chip(space), "only on-chip memory is fitted");
  if (has_control_flow(*program)) return std::nullopt;
  const TensorUses uses(*program);
  // The first walk finds out what will have to go; the second saves it as soon as it is there. PSUM is copied
  // only when it must be, since the copy takes room in SBUF.
  static const std::set<SavePoint> kNothing;
  Fit first(*program, uses, space, budget_bytes, partitions, options, kNothing);
  if (!first.run()) return std::nullopt;
  if (space == MemorySpace::kPsum || first.wanted().empty()) return first.take();
  Fit second(*program, uses, space, budget_bytes, partitions, options, first.wanted());
  OPENTRN_CHECK(second.run(), "saving early does not change what fits");
  return second.take();
}

}  // namespace opentrn::backend
