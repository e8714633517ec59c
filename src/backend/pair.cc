#include "backend/pair.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/fault.h"
#include "isa/definitions.h"
#include "isa/roles.h"

namespace opentrn::backend {

using isa::Instruction;
using isa::InstructionIndex;
using isa::Opcode;
using isa::Program;
using isa::TensorId;

namespace {

constexpr InstructionIndex kNoPartner = kNotMerged;

bool of_pair(const Instruction& in) { return (in.flags & isa::kFlagsOfPair) != 0; }

struct Touch {
  TensorId tensor;
  bool writes;
};

// HBM tensors that the instruction touches.
std::vector<Touch> touches(const Program& program, const Instruction& in) {
  std::vector<Touch> list;
  const auto add = [&](const isa::Operand& operand, bool writes) {
    if (operand.is_access() && isa::is_hbm(program.tensor(operand.tensor).space))
      list.push_back({operand.tensor, writes});
  };
  int slot = 0;
  for (const isa::Operand& operand : program.operands(in)) {
    add(operand, isa::role_of(program, in, slot++) != isa::Role::kIn);
    if (operand.is_access() && operand.indirect != isa::kNoIndirect)
      add(program.indirect(operand).index, false);
  }
  return list;
}

// 1 + the instruction that touches a tensor last, and of the last that writes it; 0: none.
struct Uses {
  InstructionIndex last_touch = 0, last_write = 0;
};

class Splitter {
 public:
  explicit Splitter(const Program& from) : from_(from), uses_(from.tensor_count()) {
    for (Half& half : halves_) {
      half.to = from.without_instructions();
      half.place.assign(from.size(), kNoPartner);
      half.rendezvous_of.assign(from.tensor_count(), kNoPartner);
    }
    for (InstructionIndex i = 0; i < from.size(); ++i)
      for (const Touch& touch : touches(from, from.instruction(i))) {
        uses_[touch.tensor].last_touch = i + 1;
        if (touch.writes) uses_[touch.tensor].last_write = i + 1;
      }
    written_.assign(from.tensor_count(), 0);
    met_.assign(from.tensor_count(), 0);
  }

  std::vector<CorePart> run() {
    for (InstructionIndex i = 0; i < from_.size();) {
      const InstructionIndex end = launch_end(i);
      if (end == i) {
        plain(i++);
        continue;
      }
      launch(i, end);
      i = end;
    }
    std::vector<CorePart> parts;
    for (Half& half : halves_) {
      finish(half);
      parts.push_back({std::make_shared<const Program>(std::move(half.to)), std::move(half.merged)});
    }
    return parts;
  }

 private:
  // The program of one core while it is written.
  struct Half {
    Program to;
    std::vector<InstructionIndex> place;   // by instruction of the whole
    std::vector<InstructionIndex> merged;  // the other way
    // Who touched HBM since the last rendezvous about the tensor, by place; and that rendezvous, by tensor.
    std::vector<std::pair<TensorId, InstructionIndex>> since;
    std::vector<InstructionIndex> rendezvous_of;
    InstructionIndex last_synchronisation = kNoPartner;  // of whatever kind

    // Both cores meet in the order of the program: a scheduler that looks ahead may not change it.
    void follow(InstructionIndex rendezvous) {
      if (last_synchronisation != kNoPartner) to.add_edge({rendezvous, last_synchronisation});
      last_synchronisation = rendezvous;
    }
  };

  // One past the launch that begins here; `i` when none does.
  InstructionIndex launch_end(InstructionIndex i) const {
    InstructionIndex end = i;
    while (end < from_.size() && of_pair(from_.instruction(end)) &&
           (end == i || !(from_.instruction(end).flags & isa::kFlagLaunch)))
      ++end;
    return end;
  }

  void plain(InstructionIndex i) {
    const Opcode opcode = from_.instruction(i).opcode;
    depth_ += isa::opens_loop(opcode) ? 1 : isa::closes_loop(opcode) ? -1 : 0;
    keep(halves_[0], i);
    if (isa::is_loop_marker(opcode)) keep(halves_[1], i);
  }

  void launch(InstructionIndex begin, InstructionIndex end) {
    std::vector<TensorId> shared;  // HBM that the second core touches
    bool before = depth_ > 0, after = depth_ > 0;
    for (InstructionIndex i = begin; i < end; ++i) {
      if (!(from_.instruction(i).flags & isa::kFlagCore1)) continue;
      for (const Touch& touch : touches(from_, from_.instruction(i))) {
        shared.push_back(touch.tensor);
        before |= written_[touch.tensor] > met_[touch.tensor];
        after |= (touch.writes ? uses_[touch.tensor].last_touch : uses_[touch.tensor].last_write) > end;
      }
    }
    std::ranges::sort(shared);
    const auto rest = std::ranges::unique(shared);
    shared.erase(rest.begin(), rest.end());
    if (shared.empty()) before = after = false;
    if (before) meet(begin, shared);
    for (InstructionIndex i = begin; i < end; ++i)
      keep(halves_[from_.instruction(i).flags & isa::kFlagCore1 ? 1 : 0], i);
    if (after) meet(end, shared);
  }

  void keep(Half& half, InstructionIndex i) {
    const Instruction& in = from_.instruction(i);
    const InstructionIndex now = half.to.append_like(in, from_.operands(in));
    half.place[i] = now;
    half.merged.push_back(i);
    if (isa::closes_loop(in.opcode)) match(half, i, now);
    if (isa::has(in.opcode, isa::kSynchronisesCores)) half.follow(now);
    for (const Touch& touch : touches(from_, in)) {
      if (touch.writes) written_[touch.tensor] = i + 1;
      half.since.emplace_back(touch.tensor, now);
      if (const InstructionIndex rendezvous = half.rendezvous_of[touch.tensor]; rendezvous != kNoPartner)
        half.to.add_edge({now, rendezvous});
    }
  }

  void match(Half& half, InstructionIndex i, InstructionIndex now) const {
    const bool counted = from_.instruction(i).opcode == Opcode::kLoopEnd;
    const int slot = counted ? int{isa::slot::loop::kAMatch} : int{isa::slot::while_loop::kAMatch};
    const auto old = static_cast<InstructionIndex>(from_.attribute_int(from_.instruction(i), slot));
    OPENTRN_CHECK(old < i && half.place[old] != kNoPartner, "a loop of one core is ended by the other");
    half.to.set_attribute(half.place[old], slot, {.integer = now});
    half.to.set_attribute(now, slot, {.integer = half.place[old]});
  }

  // Both cores, before instruction `at` of the whole; about these tensors.
  void meet(InstructionIndex at, const std::vector<TensorId>& about) {
    for (const TensorId tensor : about) met_[tensor] = at;
    isa::Operand data;
    data.kind = isa::OperandKind::kAccess;
    data.tensor = about.front();
    data.dtype = from_.tensor(data.tensor).dtype;
    for (Half& half : halves_) {
      isa::Pattern pattern;
      pattern.rank = 1;
      pattern.dims[0] = {1, from_.tensor(data.tensor).row_elements};
      data.pattern = half.to.intern_pattern(pattern);
      const std::array cores = {int64_t{0}, int64_t{1}};
      std::vector<isa::AttributeWord> words(isa::definition(Opcode::kCoreBarrier).attributes.size());
      words[isa::slot::core_barrier::kACores].integer = half.to.intern_list(cores);
      const InstructionIndex now =
          half.to.append(Opcode::kCoreBarrier, isa::Engine::kGpSimd, std::array{data}, words, 0);
      half.merged.push_back(kNotMerged);
      half.follow(now);
      for (const auto& [tensor, place] : half.since)
        if (std::ranges::binary_search(about, tensor)) half.to.add_edge({now, place});
      std::erase_if(half.since,
                    [&](const auto& touch) { return std::ranges::binary_search(about, touch.first); });
      for (const TensorId tensor : about) half.rendezvous_of[tensor] = now;
    }
  }

  void finish(Half& half) const {
    for (const isa::DependencyEdge& edge : from_.edges())
      if (half.place[edge.consumer] != kNoPartner && half.place[edge.producer] != kNoPartner)
        half.to.add_edge({half.place[edge.consumer], half.place[edge.producer]});
    for (TensorId id = 0; id < half.to.tensor_count(); ++id)
      if (isa::Tensor& tensor = half.to.tensor(id); tensor.loop) {
        if (half.place[*tensor.loop] == kNoPartner)
          tensor.loop.reset();  // the other core's
        else
          tensor.loop = half.place[*tensor.loop];
      }
  }

  const Program& from_;
  std::vector<Uses> uses_;
  std::array<Half, 2> halves_;
  std::vector<InstructionIndex> written_;  // by tensor: 1 + who wrote it last
  std::vector<InstructionIndex> met_;      // by tensor: before this instruction of the whole both cores met
  int depth_ = 0;                          // of loops around launches
};

}  // namespace

std::vector<CorePart> core_parts(std::shared_ptr<const Program> program) {
  const bool pair = std::ranges::any_of(
      program->instructions(), [](const Instruction& in) { return (in.flags & isa::kFlagCore1) != 0; });
  if (!pair) return {{std::move(program), {}}};
  return Splitter(*program).run();
}

}  // namespace opentrn::backend
