#include "backend/passes/vectorise_loops.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backend/access.h"
#include "backend/passes/content.h"
#include "backend/passes/rewrite.h"
#include "backend/passes/tensor_uses.h"
#include "base/interrupt.h"

namespace opentrn::backend {

namespace {

using isa::InstructionIndex;
using isa::Opcode;
using isa::Operand;
using isa::TensorId;

constexpr int kFreeDimsMax = 4;  // of an engine's access pattern, beside the partitions

// All iterations of one execution of an innermost loop: `body` instructions each, one iteration after the
// other.
struct Run {
  InstructionIndex begin = 0;
  uint32_t iterations = 0;
  uint32_t body = 0;
  InstructionIndex at(uint32_t statement, uint32_t iteration) const {
    return begin + iteration * body + statement;
  }
};

// Operands that are one value for each partition, not a tile: an immediate may stand in their place.
bool is_per_partition(Opcode opcode, int slot) {
  const auto slots = isa::definition(opcode).operands;
  return static_cast<size_t>(slot) < slots.size() &&
         (slots[static_cast<size_t>(slot)].accepts & isa::kAcceptsImmediate) != 0;
}

// Tiles of which every iteration makes its own, by iteration.
struct Family {
  std::vector<TensorId> members;
  bool wanted = false;  // by a statement that can be merged
};

// How an operand moves from one iteration to the next.
struct Motion {
  enum Kind { kOther, kSame, kAdvances, kFamily } kind = kOther;
  int64_t step = 0;  // kAdvances: elements; 0 is the same place
  size_t family = 0;
};

class MergedLoop {
 public:
  MergedLoop(const isa::Program& program, const TensorUses& uses, AccessReader& reader, int64_t bank_bytes,
             int64_t columns_max, const Run& run)
      : program_(program),
        uses_(uses),
        reader_(reader),
        bank_bytes_(bank_bytes),
        columns_max_(columns_max),
        run_(run) {}

  // How many iterations each new instruction stands for; 0 when the loop stays as it is.
  uint32_t plan() {
    if (!is_uniform() || keeps_order()) return 0;
    factor_ = static_cast<uint32_t>(std::min<int64_t>(run_.iterations, columns_max_ / widest()));
    if (factor_ < 2 || run_.iterations % factor_ != 0) return 0;
    for (uint32_t s = 0; s < run_.body; ++s) find_motions(s);
    bool any = false;
    for (uint32_t s = 0; s < run_.body; ++s) any |= mergeable_[s] = can_merge(s);
    if (!any) return 0;
    for (uint32_t first = 0; first < run_.iterations; first += factor_)
      if (!can_take_apart(first)) return 0;
    return factor_;
  }

  void write(Rewrite& rewrite) {
    for (uint32_t first = 0; first < run_.iterations; first += factor_) {
      std::vector<TensorId> wide(families_.size());
      for (size_t f = 0; f < families_.size(); ++f)
        if (families_[f].wanted) wide[f] = widened(rewrite, families_[f].members[first]);
      for (uint32_t s = 0; s < run_.body; ++s)
        for (uint32_t i = first; i < first + factor_; i += mergeable_[s] ? factor_ : 1)
          write(rewrite, s, i, i - first, wide);
    }
  }

 private:
  const isa::Instruction& instruction(uint32_t statement, uint32_t iteration) const {
    return program_.instruction(run_.at(statement, iteration));
  }
  const Operand& operand(uint32_t statement, uint32_t iteration, int slot) const {
    return program_.operand(instruction(statement, iteration), slot);
  }

  bool is_uniform() const {
    for (uint32_t s = 0; s < run_.body; ++s) {
      const isa::Instruction& first = instruction(s, 0);
      if (!is_pure(program_, first) || first.flags != 0) return false;
      for (const Operand& operand : program_.operands(first))
        if (operand.indirect != isa::kNoIndirect && operand.is_access()) return false;
      for (uint32_t i = 1; i < run_.iterations; ++i) {
        const isa::Instruction& other = instruction(s, i);
        if (other.opcode != first.opcode || other.engine != first.engine || other.flags != first.flags ||
            other.operand_count != first.operand_count || other.attributes != first.attributes ||
            other.location != first.location || other.name != first.name)
          return false;
      }
    }
    return true;
  }

  // Columns of the widest tile that an iteration touches.
  int64_t widest() const {
    int64_t columns = 1;
    for (uint32_t s = 0; s < run_.body; ++s)
      for (const Operand& operand : program_.operands(instruction(s, 0)))
        if (operand.is_access() && isa::is_on_chip(program_.tensor(operand.tensor).space))
          columns = std::max(columns, program_.pattern(operand).elements_per_partition());
    return columns;
  }

  void find_motions(uint32_t statement) {
    const int slots = instruction(statement, 0).operand_count;
    std::vector<Motion>& motions = motions_.emplace_back();
    for (int slot = 0; slot < slots; ++slot) motions.push_back(motion_of(statement, slot));
    mergeable_.push_back(false);
  }

  Motion motion_of(uint32_t statement, int slot) {
    const Operand& first = operand(statement, 0, slot);
    if (!first.is_access()) return {same_constant(statement, slot) ? Motion::kSame : Motion::kOther, 0, 0};
    bool one_tensor = true;
    const int64_t step = operand(statement, 1, slot).offset - first.offset;
    bool even = true, still = true;
    for (uint32_t i = 1; i < run_.iterations; ++i) {
      const Operand& other = operand(statement, i, slot);
      if (!other.is_access() || other.dtype != first.dtype || other.pattern != first.pattern) return {};
      one_tensor &= other.tensor == first.tensor;
      even &= other.offset == first.offset + step * i;
      still &= other.offset == first.offset;
    }
    if (one_tensor) return even ? Motion{Motion::kAdvances, step, 0} : Motion{};
    if (!still) return {};
    const std::optional<size_t> family = family_of(statement, slot);
    return family ? Motion{Motion::kFamily, 0, *family} : Motion{};
  }

  bool same_constant(uint32_t statement, int slot) const {
    const Operand& first = operand(statement, 0, slot);
    if (first.kind == isa::OperandKind::kRegister) return false;
    for (uint32_t i = 1; i < run_.iterations; ++i) {
      const Operand& other = operand(statement, i, slot);
      if (other.kind != first.kind ||
          (first.kind == isa::OperandKind::kImmediate &&
           std::bit_cast<uint64_t>(other.immediate) != std::bit_cast<uint64_t>(first.immediate)))
        return false;
    }
    return true;
  }

  std::optional<size_t> family_of(uint32_t statement, int slot) {
    Family family;
    for (uint32_t i = 0; i < run_.iterations; ++i)
      family.members.push_back(operand(statement, i, slot).tensor);
    const auto known = family_by_member_.find(family.members[0]);
    if (known != family_by_member_.end()) {
      if (families_[known->second].members != family.members) return std::nullopt;
      return known->second;
    }
    for (uint32_t i = 0; i < run_.iterations; ++i)
      if (!is_own(family.members[i], i, program_.tensor(family.members[0])) ||
          family_by_member_.contains(family.members[i]))
        return std::nullopt;
    for (TensorId member : family.members) family_by_member_[member] = families_.size();
    families_.push_back(std::move(family));
    return families_.size() - 1;
  }

  // Whether nothing outside iteration `i` touches the tensor, which is like `first`.
  bool is_own(TensorId id, uint32_t i, const isa::Tensor& first) const {
    const isa::Tensor& tensor = program_.tensor(id);
    if (!isa::is_on_chip(tensor.space) || tensor.address || tensor.is_input || tensor.is_output) return false;
    if (tensor.space != first.space || tensor.dtype != first.dtype || tensor.rows != first.rows ||
        tensor.row_elements != first.row_elements)
      return false;
    if (tensor.space == isa::MemorySpace::kPsum && tensor.row_bytes() * factor_ > bank_bytes_) return false;
    const auto uses = uses_.of(id);
    if (uses.front().instruction < run_.at(0, i) || uses.back().instruction >= run_.at(0, i + 1))
      return false;
    // Elements of another size have other positions.
    for (const TensorUse& use : uses)
      for (const Operand& operand : program_.operands(program_.instruction(use.instruction)))
        if (operand.is_access() && operand.tensor == id &&
            size_bytes(operand.dtype) != size_bytes(tensor.dtype))
          return false;
    return true;
  }

  bool can_merge(uint32_t statement) {
    const isa::Instruction& in = instruction(statement, 0);
    if (!isa::has(in.opcode, isa::kMergeable)) return false;
    for (int slot = 0; slot < in.operand_count; ++slot) {
      const Motion& motion = motions_[statement][static_cast<size_t>(slot)];
      const Operand& first = operand(statement, 0, slot);
      if (motion.kind == Motion::kOther) return false;
      if (!first.is_access()) continue;
      if (is_per_partition(in.opcode, slot)) {
        if (motion.kind != Motion::kAdvances || motion.step != 0) return false;
        continue;
      }
      if (!isa::is_on_chip(program_.tensor(first.tensor).space) || !has_room(program_.pattern(first)))
        return false;
    }
    for (uint32_t first = 0; first < run_.iterations; first += factor_)
      if (!can_be_one(statement, first)) return false;
    for (const Motion& motion : motions_[statement])
      if (motion.kind == Motion::kFamily) families_[motion.family].wanted = true;
    return true;
  }

  static bool has_room(const isa::Pattern& pattern) {
    if (pattern.rank == 0 || pattern.rank >= isa::kMaxRank) return false;
    const auto free = pattern.view().subspan(1);
    return std::ranges::count_if(free, [](const isa::Dim& dim) { return dim.count > 1; }) < kFreeDimsMax;
  }

  static bool conflict(std::span<const Access> a, std::span<const Access> b) {
    for (const Access& x : a)
      for (const Access& y : b)
        if ((x.writes || y.writes) && x.tensor == y.tensor && may_overlap(x.footprint, y.footprint))
          return true;
    return false;
  }
  std::vector<Access> accesses(uint32_t statement, uint32_t iteration) {
    reader_.read(instruction(statement, iteration));
    return reader_.accesses();
  }

  // One instruction may read everything before it writes anything, so no iteration may feed or undo another.
  bool can_be_one(uint32_t statement, uint32_t first) {
    std::vector<std::vector<Access>> all;
    for (uint32_t i = first; i < first + factor_; ++i) all.push_back(accesses(statement, i));
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t k = i + 1; k < all.size(); ++k)
        if (conflict(all[i], all[k])) return false;
    return true;
  }

  // Whether every statement may come after all iterations of the statements before it.
  bool can_take_apart(uint32_t first) {
    std::vector<std::vector<std::vector<Access>>> all(run_.body);
    for (uint32_t s = 0; s < run_.body; ++s)
      for (uint32_t i = first; i < first + factor_; ++i) all[s].push_back(accesses(s, i));
    for (uint32_t late = 1; late < run_.body; ++late)
      for (uint32_t early = 0; early < late; ++early)
        for (uint32_t i = 0; i < factor_; ++i)
          for (uint32_t next = i + 1; next < factor_; ++next)
            if (conflict(all[late][i], all[early][next])) return false;
    return true;
  }

  // Whether the kernel asks for the order as it is written (no_reorder) of some of the body.
  bool keeps_order() const {
    for (uint32_t s = 0; s < run_.body; ++s)
      if (instruction(s, 0).flags & isa::kFlagNoReorder) return true;
    return false;
  }

  // -- writing
  TensorId widened(Rewrite& rewrite, TensorId member) const {
    isa::Tensor tensor = program_.tensor(member);
    tensor.row_elements *= factor_;
    tensor.shape = {tensor.rows, tensor.row_elements};
    return rewrite.to().add_tensor(std::move(tensor));
  }

  // Statement of iteration `i`, the `place`-th of its group, or of the whole group that begins with it.
  void write(Rewrite& rewrite, uint32_t statement, uint32_t i, uint32_t place,
             std::span<const TensorId> wide) {
    const bool merged = mergeable_[statement];
    const isa::Instruction& in = instruction(statement, i);
    operands_.clear();
    for (int slot = 0; slot < in.operand_count; ++slot) {
      Operand result = operand(statement, i, slot);
      const Motion& motion = motions_[statement][static_cast<size_t>(slot)];
      int64_t step = motion.step;
      const auto family =
          result.is_access() ? family_by_member_.find(result.tensor) : family_by_member_.end();
      if (family != family_by_member_.end() && families_[family->second].wanted) {
        step = program_.tensor(result.tensor).row_elements;
        move_to(rewrite, wide[family->second], place, result);
      }
      if (merged && result.is_access() && !is_per_partition(in.opcode, slot)) repeat(rewrite, step, result);
      operands_.push_back(result);
    }
    indices_.clear();
    for (uint32_t k = i; k < (merged ? i + factor_ : i + 1); ++k) indices_.push_back(run_.at(statement, k));
    rewrite.keep_as(indices_, operands_);
  }

  // The same place of a tile that is the `place`-th in the rows of `wide`.
  void move_to(Rewrite& rewrite, TensorId wide, uint32_t place, Operand& operand) const {
    const int64_t row = program_.tensor(operand.tensor).row_elements;
    operand.offset = operand.offset / row * row * factor_ + operand.offset % row + place * row;
    isa::Pattern pattern = program_.pattern(operand);
    if (pattern.rank > 0) pattern.dims[0].step = pattern.dims[0].step / row * row * factor_;
    operand.pattern = rewrite.to().intern_pattern(pattern);
    operand.tensor = wide;
  }

  // With a dimension for the iterations, outside the others but the partitions.
  void repeat(Rewrite& rewrite, int64_t step, Operand& operand) const {
    isa::Pattern pattern = rewrite.to().pattern(operand);
    std::copy_backward(pattern.dims.begin() + 1, pattern.dims.begin() + pattern.rank,
                       pattern.dims.begin() + pattern.rank + 1);
    pattern.dims[1] = {step, factor_};
    ++pattern.rank;
    operand.pattern = rewrite.to().intern_pattern(pattern);
  }

  const isa::Program& program_;
  const TensorUses& uses_;
  AccessReader& reader_;
  int64_t bank_bytes_;
  int64_t columns_max_;
  Run run_;
  uint32_t factor_ = 0;
  std::vector<std::vector<Motion>> motions_;  // by statement and slot
  std::vector<bool> mergeable_;               // by statement
  std::vector<Family> families_;
  std::map<TensorId, size_t> family_by_member_;
  std::vector<Operand> operands_;
  std::vector<InstructionIndex> indices_;
};

// Independent innermost loops whose iterations all issue equally many instructions, in program order.
std::vector<Run> find_runs(const isa::Program& program) {
  std::vector<uint32_t> sizes(program.written_loop_count());
  std::vector<bool> has_inner(program.written_loop_count());
  for (const isa::Instruction& in : program.instructions())
    if (in.iteration != isa::kNoIteration) ++sizes[program.loop_of(in.iteration)];
  for (isa::WrittenLoopId loop = 0; loop < program.written_loop_count(); ++loop)
    if (const isa::IterationId outer = program.written_loop(loop).outer; outer != isa::kNoIteration)
      has_inner[program.loop_of(outer)] = true;
  std::vector<Run> runs;
  for (InstructionIndex begin = 0; begin < program.size();) {
    const isa::IterationId iteration = program.instruction(begin).iteration;
    if (iteration == isa::kNoIteration) {
      ++begin;
      continue;
    }
    const isa::WrittenLoopId loop = program.loop_of(iteration);
    Run run{begin, 0, 0};
    InstructionIndex end = begin;
    isa::IterationId last = isa::kNoIteration;
    bool even = true;
    for (InstructionIndex iteration_begin = begin; end < program.size(); ++end) {
      const isa::IterationId now = program.instruction(end).iteration;
      if (now == isa::kNoIteration || program.loop_of(now) != loop) break;
      if (now == last) continue;
      if (run.iterations == 1) run.body = end - begin;
      even &= now > last && (run.iterations == 0 || end - iteration_begin == run.body);
      iteration_begin = end;
      last = now;
      ++run.iterations;
    }
    even &= run.body > 0 && end - begin == run.body * run.iterations && end - begin == sizes[loop];
    if (even && program.written_loop(loop).independent && !has_inner[loop]) runs.push_back(run);
    begin = end;
  }
  return runs;
}

}  // namespace

std::shared_ptr<const isa::Program> vectorise_iterations(const std::shared_ptr<const isa::Program>& program,
                                                         int64_t psum_bank_bytes_per_partition,
                                                         const Options& options) {
  if (program->written_loop_count() == 0 || has_control_flow(*program) || !program->edges().empty())
    return program;
  const TensorUses uses(*program);
  AccessReader reader(*program);
  Rewrite rewrite(*program);
  InstructionIndex next = 0;
  const int columns_max = compiler_number(options, "merged_columns_max");
  bool any = false;
  const auto keep_until = [&](InstructionIndex end) {
    interrupt::poll();
    while (next < end) rewrite.keep(next++);
  };
  for (const Run& run : find_runs(*program)) {
    MergedLoop loop(*program, uses, reader, psum_bank_bytes_per_partition, columns_max, run);
    if (loop.plan() == 0) continue;
    keep_until(run.begin);
    loop.write(rewrite);
    next = run.at(0, run.iterations);
    any = true;
  }
  if (!any) return program;
  keep_until(static_cast<InstructionIndex>(program->size()));
  return std::make_shared<const isa::Program>(rewrite.take());
}

}  // namespace opentrn::backend
