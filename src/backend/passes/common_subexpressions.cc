#include "backend/passes/common_subexpressions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "backend/access.h"
#include "backend/passes/content.h"
#include "backend/passes/rewrite.h"
#include "backend/passes/tensor_uses.h"
#include "backend/space_map.h"
#include "base/interrupt.h"
#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

using isa::InstructionIndex;
using isa::MemorySpace;
using isa::Opcode;
using isa::TensorId;

// Equal tensors of one statement of the kernel: `copies` holds lists of them, each in program order.
struct Candidate {
  std::vector<std::vector<TensorId>> copies;
  bool loads = false;
  int64_t bytes = 0;  // per partition, of all the first ones
};

class CommonSubexpressions {
 public:
  CommonSubexpressions(const isa::Program& program, int64_t sbuf_bytes, int64_t partitions,
                       const Options& options)
      : program_(program),
        uses_(program),
        sbuf_bytes_(sbuf_bytes),
        partitions_(partitions),
        alignment_(options.sbuf_alignment_bytes),
        memory_parts_(compiler_number(options, "shared_memory_parts")),
        stands_for_(program.tensor_count()) {
    std::iota(stands_for_.begin(), stands_for_.end(), 0u);
  }

  bool run() {
    bool any = false;
    std::vector<Candidate> candidates = find();
    // The smallest first: they cost least to keep.
    std::ranges::stable_sort(candidates, {}, [](const Candidate& c) { return c.bytes; });
    for (const bool loads : {false, true})  // a load that only feeds a shared result goes with it
      for (const Candidate& candidate : candidates)
        if (candidate.loads == loads) any |= consider(candidate);
    return any;
  }

  bool has_dead() const {
    const std::vector<bool> live = find_live();
    return std::ranges::find(live, false) != live.end();
  }

  std::shared_ptr<const isa::Program> rewritten() {
    const std::vector<bool> live = find_live();
    Rewrite rewrite(program_);
    for (TensorId id = 0; id < stands_for_.size(); ++id) rewrite.rename(id, stands_for_[id]);
    for (InstructionIndex i = 0; i < program_.size(); ++i)
      if (live[i]) rewrite.keep(i);
    return std::make_shared<const isa::Program>(rewrite.take());
  }

 private:
  struct Span {
    InstructionIndex first = 0, last_write = 0, last = 0;
    bool used = false;
  };

  // First touch, last write and last touch; nothing when a tensor cannot stand for another.
  Span span_of(TensorId id) const {
    const isa::Tensor& tensor = program_.tensor(id);
    if (tensor.space != MemorySpace::kSbuf || tensor.address || tensor.is_input || tensor.is_output)
      return {};
    const auto uses = uses_.of(id);
    if (uses.empty() || !uses.front().writes) return {};
    Span span{uses.front().instruction, 0, uses.back().instruction, true};
    for (const TensorUse& use : uses)
      if (use.writes) span.last_write = use.instruction;
    for (const TensorUse& use : uses) {
      const isa::Instruction& in = program_.instruction(use.instruction);
      if (use.instruction <= span.last_write && !use.writes) return {};  // read half done
      if (use.writes && (!is_pure(program_, in) || outputs(in) != 1)) return {};
    }
    return span;
  }
  int outputs(const isa::Instruction& in) const {
    int count = 0;
    for (int slot = 0; slot < in.operand_count; ++slot)
      count += program_.operand(in, slot).is_access() && role_of(program_, in, slot) != isa::Role::kIn;
    return count;
  }

  std::vector<Candidate> find() {
    const std::vector<ContentId> contents = final_contents(program_);
    std::map<isa::LocationId, std::map<ContentId, std::vector<TensorId>>> statements;
    spans_.resize(program_.tensor_count());
    for (TensorId id = 0; id < program_.tensor_count(); ++id) {
      spans_[id] = span_of(id);
      if (spans_[id].used)
        statements[program_.instruction(spans_[id].last_write).location][contents[id]].push_back(id);
    }
    std::vector<Candidate> result;
    for (auto& [statement, classes] : statements) {
      Candidate candidate;
      for (auto& [content, tensors] : classes) {
        if (tensors.size() < 2) continue;
        std::ranges::sort(tensors, {}, [&](TensorId id) { return spans_[id].last_write; });
        candidate.bytes += weight(tensors.front()) / 4;
        candidate.copies.push_back(std::move(tensors));
      }
      if (candidate.copies.empty()) continue;
      const TensorId first = candidate.copies.front().front();
      if (is_inner_transpose(first)) continue;
      candidate.loads = !uses_.loads_of(first).empty();
      result.push_back(std::move(candidate));
    }
    return result;
  }

  // A copy out of PSUM of what a transpose put there, for a matmul of the same statement.
  bool is_inner_transpose(TensorId id) const {
    const isa::LocationId here = program_.instruction(spans_[id].last_write).location;
    for (const TensorUse& use : uses_.of(id)) {
      const isa::Instruction& in = program_.instruction(use.instruction);
      if (use.reads && in.opcode == Opcode::kNcMatmul && in.location == here) return true;
    }
    return false;
  }

  int64_t weight(TensorId id) const {
    const isa::Tensor& tensor = program_.tensor(id);
    const int64_t share = quadrants_taken(tensor.rows, partitions_);
    return share * placed_bytes(tensor.row_bytes(), alignment_);
  }

  // Shares over as long a distance as memory allows: all, or copies within a half, a quarter, ... of it.
  bool consider(const Candidate& candidate) {
    InstructionIndex longest = 0;
    for (const auto& tensors : candidate.copies)
      for (size_t k = 1; k < tensors.size(); ++k)
        longest = std::max(
            longest, spans_[tensors[k]].first - std::min(spans_[tensors[k]].first, end_of(tensors[k - 1])));
    constexpr int kHalvingsMax = 12;
    for (int halving = 0; halving <= kHalvingsMax; ++halving) {
      const std::vector<TensorId> before = stands_for_;
      if (!share_within(candidate, longest >> halving)) return false;
      if (acceptable(candidate)) return true;
      stands_for_ = before;
      if (longest >> halving == 0) break;
    }
    return false;
  }

  InstructionIndex end_of(TensorId id) const { return spans_[id].last; }

  // True when anything was shared.
  bool share_within(const Candidate& candidate, InstructionIndex distance) {
    bool any = false;
    for (const auto& tensors : candidate.copies) {
      TensorId first = tensors.front();
      for (size_t k = 1; k < tensors.size(); ++k) {
        const InstructionIndex end = end_of(tensors[k - 1]);
        const InstructionIndex gap = spans_[tensors[k]].first > end ? spans_[tensors[k]].first - end : 0;
        if (gap > distance || spans_[first].last_write >= spans_[tensors[k]].last_write) {
          first = tensors[k];
          continue;
        }
        stands_for_[tensors[k]] = first;
        any = true;
      }
    }
    return any;
  }

  bool acceptable(const Candidate& candidate) const {
    if (!candidate.loads && memory_parts_ * own_peak_bytes(candidate) <= sbuf_bytes_) return true;
    constexpr double kShare = 0.9;  // the allocator wants some room
    return static_cast<double>(peak_bytes()) <= kShare * static_cast<double>(sbuf_bytes_);
  }

  // Live ranges of shared tensors, and the most bytes of a partition they take together.
  class Ranges {
   public:
    explicit Ranges(size_t tensors) : spans_(tensors) {}
    void touch(TensorId id, InstructionIndex i) {
      Span& span = spans_[id];
      if (!span.used) span = {i, 0, i, true};
      span.first = std::min(span.first, i);
      span.last = std::max(span.last, i);
    }
    int64_t peak_bytes(const CommonSubexpressions& common) const {
      std::vector<std::pair<InstructionIndex, int64_t>> changes;
      for (TensorId id = 0; id < spans_.size(); ++id) {
        if (!spans_[id].used) continue;
        changes.emplace_back(spans_[id].first, common.weight(id));
        changes.emplace_back(spans_[id].last + 1, -common.weight(id));
      }
      std::ranges::sort(changes);
      int64_t now = 0, peak = 0;
      for (const auto& [at, change] : changes) peak = std::max(peak, now += change);
      return peak / 4;
    }

   private:
    std::vector<Span> spans_;
  };

  int64_t own_peak_bytes(const Candidate& candidate) const {
    Ranges ranges(program_.tensor_count());
    for (const auto& tensors : candidate.copies)
      for (TensorId id : tensors) {
        if (stands_for_[id] == id) ranges.touch(id, spans_[id].first);
        ranges.touch(stands_for_[id], spans_[id].last);
      }
    return ranges.peak_bytes(*this);
  }

  // Of everything in SBUF, with what is shared so far.
  int64_t peak_bytes() const {
    interrupt::poll();
    const std::vector<bool> live = find_live();
    Ranges ranges(program_.tensor_count());
    for (TensorId id = 0; id < program_.tensor_count(); ++id)
      if (program_.tensor(id).space == MemorySpace::kSbuf)
        for (const TensorUse& use : uses_.of(id))
          if (live[use.instruction]) ranges.touch(stands_for_[id], use.instruction);
    return ranges.peak_bytes(*this);
  }

  // Instructions whose result someone sees, with what is shared so far.
  std::vector<bool> find_live() const {
    std::vector<bool> live(program_.size()), wanted(program_.tensor_count());
    for (InstructionIndex i = static_cast<InstructionIndex>(program_.size()); i-- > 0;) {
      const isa::Instruction& in = program_.instruction(i);
      bool seen = !is_pure(program_, in);
      for (int slot = 0; slot < in.operand_count && !seen; ++slot) {
        const isa::Operand& operand = program_.operand(in, slot);
        if (!operand.is_access() || role_of(program_, in, slot) == isa::Role::kIn) continue;
        const isa::Tensor& tensor = program_.tensor(operand.tensor);
        seen = isa::is_hbm(tensor.space) || tensor.address ||
               (stands_for_[operand.tensor] == operand.tensor && wanted[operand.tensor]);
      }
      if (!seen) continue;
      live[i] = true;
      for (const isa::Operand& operand : program_.operands(in)) {
        if (!operand.is_access()) continue;
        wanted[stands_for_[operand.tensor]] = true;
        if (operand.indirect != isa::kNoIndirect && program_.indirect(operand).index.is_access())
          wanted[stands_for_[program_.indirect(operand).index.tensor]] = true;
      }
    }
    return live;
  }

  const isa::Program& program_;
  TensorUses uses_;
  int64_t sbuf_bytes_;
  int64_t partitions_;
  int64_t alignment_;
  int64_t memory_parts_;
  std::vector<TensorId> stands_for_;  // by TensorId
  std::vector<Span> spans_;
};

}  // namespace

std::shared_ptr<const isa::Program> eliminate_common_subexpressions(
    const std::shared_ptr<const isa::Program>& program, int64_t sbuf_bytes_per_partition, int64_t partitions,
    const Options& options) {
  if (has_control_flow(*program)) return program;
  CommonSubexpressions common(*program, sbuf_bytes_per_partition, partitions, options);
  const bool found = common.run();
  return found || common.has_dead() ? common.rewritten() : program;
}

}  // namespace opentrn::backend
