#include "sim/functional/chain.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/fault.h"
#include "isa/definitions.h"

namespace opentrn::sim {

using isa::InstructionIndex;
using isa::Opcode;
using isa::OperandKind;
using isa::TensorId;

namespace {

constexpr int64_t kBandMax = 128;
// Of a chain without folded tiles: as many as several threads need to end at about the same time.
constexpr int64_t kBandsWanted = 8;

bool has_bit_vector_operator(const isa::Program& program, const isa::Instruction& in) {
  using namespace isa::slot::tensor_scalar;
  const auto keeps_bits = [&](int slot) {
    const int64_t op = program.attribute_int(in, slot);
    return op >= 0 && is_bitvec(static_cast<AluOp>(op));
  };
  return keeps_bits(kAOp0) || keeps_bits(kAOp1);
}

// Instructions whose bodies defer their work. They read data while they are set up in no other case.
bool goes_by_rows(const isa::Program& program, const isa::Instruction& in) {
  if (!isa::has(in.opcode, isa::kByRows)) return false;
  return in.opcode != Opcode::kTensorScalar || !has_bit_vector_operator(program, in);
}

// What a tile is computed from, its sources' sources included: each is kept until the reader has run.
constexpr uint32_t kInputsMax = 8;

bool same_elements(const isa::Operand& a, const isa::Operand& b) {
  return a.tensor == b.tensor && a.pattern == b.pattern && a.offset == b.offset && a.dtype == b.dtype;
}

}  // namespace

// -- finding

void ChainFinder::start(const isa::Program& program, InstructionIndex begin) {
  program_ = &program;
  chain_ = {};
  chain_.begin = chain_.end = begin;
  ++chain_number_;
  work_ = deferred_ = widest_ = 0;
  reuses_ = false;
  records_.clear();
  inputs_.clear();
  tensors_.clear();
  if (touched_.size() < program.tensor_count()) touched_.resize(program.tensor_count());
}

bool ChainFinder::add(const AccessList& list) {
  if (list.alone || deferred_ == limits_.deferred) return false;
  bool at_once = list.work <= limits_.immediate_work;
  for (const Access& access : list.accesses) at_once = at_once && !conflicts({access, false});
  if (!at_once) {
    if (list.engine_state != 0 || !read_operands(program_->instruction(chain_.end), list)) return false;
    for (const Operand& operand : operands_)
      if (conflicts(operand)) return false;
  }
  if (at_once) {
    for (const Access& access : list.accesses) touch(access.tensor, false);
  } else {
    for (const Operand& operand : operands_) remember(operand);
    note_write(program_->instruction(chain_.end));
    note_production(program_->instruction(chain_.end));
    chain_.row_end = std::max(chain_.row_end, row_end_);
    work_ += list.work;
    ++deferred_;
  }
  chain_.deferred.push_back(!at_once);
  ++chain_.end;
  return true;
}

bool ChainFinder::read_operands(const isa::Instruction& in, const AccessList& list) {
  if (!goes_by_rows(*program_, in)) return false;
  const std::span<const isa::Operand> all = program_->operands(in);
  operands_.clear();
  sources_.clear();
  for (const isa::Operand& op : all) {
    if (op.kind != OperandKind::kAccess) continue;
    if (op.indirect != isa::kNoIndirect || operands_.size() == list.accesses.size()) return false;
    const Access& access = list.accesses[operands_.size()];
    operands_.push_back({access, holds_rows(op, access)});
    sources_.push_back(&op);
  }
  if (operands_.size() != list.accesses.size() || operands_.empty() || !operands_[0].access.writes)
    return false;

  // The tile whose rows are counted: the destination, of a store the source.
  const size_t tile = operands_[0].by_row ? 0 : 1;
  if (tile >= operands_.size() || !operands_[tile].by_row) return false;
  const Access rows = operands_[tile].access;
  row_end_ = rows.row_end;
  if (in.opcode == Opcode::kDmaCopy && !same_rows(*sources_[0], *sources_[1])) return false;
  int64_t width = 0;
  for (size_t i = 0; i < operands_.size(); ++i) {
    Operand& operand = operands_[i];
    const Access& access = operand.access;
    operand.by_row = operand.by_row && access.row_begin == rows.row_begin && access.row_end == rows.row_end &&
                     !(i > 0 && in.opcode == Opcode::kNcStreamShuffle);
    if (operand.by_row) width += access.byte_end - access.byte_begin;
    const bool overlaps =
        i > 0 && access.tensor == operands_[0].access.tensor && access.overlaps(operands_[0].access);
    if (overlaps && !(operand.by_row && same_elements(*sources_[i], *sources_[0]))) return false;
  }
  widest_ = std::max(widest_, width);
  return true;
}

// Whether partition p of the operand is row `row_begin + p` of a tile, and nothing else.
bool ChainFinder::holds_rows(const isa::Operand& op, const Access& access) const {
  const isa::Tensor& tensor = program_->tensor(op.tensor);
  const isa::Pattern& pattern = program_->pattern(op);
  if (!isa::is_on_chip(tensor.space) || pattern.rank < 1) return false;
  const isa::Dim& rows = pattern.dims[0];
  return access.row_end - access.row_begin == rows.count &&
         (rows.count == 1 || rows.step * size_bytes(op.dtype) == tensor.row_bytes());
}

// Whether two accesses have as many partitions and elements in each.
bool ChainFinder::same_rows(const isa::Operand& a, const isa::Operand& b) const {
  const auto elements = [](const isa::Pattern& pattern) {
    int64_t count = 1;
    for (const isa::Dim& dim : pattern.view()) count *= dim.count;
    return count;
  };
  const isa::Pattern &first = program_->pattern(a), &second = program_->pattern(b);
  return first.rank > 0 && second.rank > 0 && first.dims[0].count == second.dims[0].count &&
         elements(first) == elements(second);
}

bool ChainFinder::conflicts(const Operand& operand) const {
  const Touched& tensor = touched_[operand.access.tensor];
  if (tensor.chain != chain_number_) return false;
  for (const bool by_row : {false, true}) {
    if (by_row && operand.by_row) continue;
    for (const bool writes : {false, true}) {
      if (!writes && !operand.access.writes) continue;
      for (uint32_t at = tensor.lists[by_row][writes]; at != kNone; at = records_[at].next)
        if (records_[at].access.overlaps(operand.access)) return true;
    }
  }
  return false;
}

ChainFinder::Touched& ChainFinder::touch(TensorId id, bool folds) {
  Touched& tensor = touched_[id];
  const uint32_t instruction = chain_.end - chain_.begin;
  if (tensor.chain != chain_number_) {
    tensor = {chain_number_, {{kNone, kNone}, {kNone, kNone}}, instruction, instruction, true};
    tensors_.push_back(id);
  }
  tensor.last = instruction;
  tensor.folds = tensor.folds && folds;
  return tensor;
}

void ChainFinder::remember(const Operand& operand) {
  Touched& tensor = touch(operand.access.tensor, operand.by_row);
  if (!operand.access.writes && tensor.lists[true][true] != kNone) reuses_ = true;
  uint32_t& list = tensor.lists[operand.by_row][operand.access.writes];
  records_.push_back({operand.access, list});
  list = static_cast<uint32_t>(records_.size() - 1);
}

const isa::Operand* ChainFinder::copied_by(const isa::Instruction& in) const {
  if (operands_.size() != 2 || sources_[0]->dtype != sources_[1]->dtype) return nullptr;
  const Access &to = operands_[0].access, &from = operands_[1].access;
  if (to.byte_begin != 0 || to.byte_end != program_->tensor(to.tensor).row_bytes()) return nullptr;
  if (isa::has(in.opcode, isa::kCopies)) return sources_[1];
  const bool broadcasts = in.opcode == Opcode::kNcStreamShuffle && from.row_end - from.row_begin == 1;
  return broadcasts ? sources_[1] : nullptr;
}

// Several writes are one copy when they are shuffles, a quadrant each, that broadcast the same row.
void ChainFinder::note_write(const isa::Instruction& in) {
  Touched& tensor = touched_[operands_[0].access.tensor];
  const isa::Operand* copied = copied_by(in);
  if (tensor.written) {
    const bool again = copied != nullptr && tensor.copied != nullptr &&
                       in.opcode == Opcode::kNcStreamShuffle && same_elements(*copied, *tensor.copied);
    if (!again) copied = nullptr;
  }
  tensor.written = true;
  tensor.copied = copied;
}

bool ChainFinder::is_copy(const Touched& tensor) const {
  if (tensor.copied == nullptr) return false;
  const Touched& original = touched_[tensor.copied->tensor];
  return !original.written;
}

void ChainFinder::note_production(const isa::Instruction& in) {
  const uint32_t now = chain_.end - chain_.begin;
  const bool elementwise = isa::definition(in.opcode).traits.elementwise();
  for (size_t i = 1; i < operands_.size(); ++i) {
    Touched& source = touched_[operands_[i].access.tensor];
    const bool may_compute = elementwise || in.opcode == Opcode::kTensorTensorScan;
    ++source.reads;
    source.reader = may_compute && may_be_computed_by_reader(source, *sources_[i]) ? now : kNoReader;
  }
  Touched& result = touched_[operands_[0].access.tensor];
  ++result.writes;
  result.written_at = now;
  if (elementwise && result.writes == 1 && sources_[0]->dtype == DType::kFloat32) note_inputs(result);
}

bool ChainFinder::may_be_computed_by_reader(const Touched& tensor, const isa::Operand& read) const {
  if (tensor.reads != 1 || tensor.writes != 1 || tensor.result == nullptr) return false;
  if (!same_elements(*tensor.result, read)) return false;
  const std::span<const Input> inputs = std::span(inputs_).subspan(tensor.inputs_begin, tensor.inputs);
  const isa::TensorId written_now = operands_[0].access.tensor;
  return std::all_of(inputs.begin(), inputs.end(), [&](const Input& input) {
    const Touched& source = touched_[input.tensor];
    return input.tensor != written_now && (source.writes == 0 || source.written_at < input.at);
  });
}

void ChainFinder::note_inputs(Touched& result) {
  const uint32_t now = chain_.end - chain_.begin;
  result.inputs_begin = static_cast<uint32_t>(inputs_.size());
  for (size_t i = 1; i < operands_.size(); ++i) {
    const isa::TensorId id = operands_[i].access.tensor;
    inputs_.push_back({id, now});
    const Touched& source = touched_[id];
    if (source.reader != now) continue;
    for (uint32_t k = 0; k < source.inputs; ++k) inputs_.push_back(Input(inputs_[source.inputs_begin + k]));
  }
  result.inputs = static_cast<uint32_t>(inputs_.size()) - result.inputs_begin;
  const bool itself = std::any_of(inputs_.begin() + result.inputs_begin, inputs_.end(),
                                  [&](const Input& in) { return in.tensor == operands_[0].access.tensor; });
  if (result.inputs <= kInputsMax && !itself) result.result = sources_[0];
}

bool ChainFinder::pays() const {
  return reuses_ && work_ >= limits_.work && work_ >= limits_.work_per_instruction * deferred_;
}

Chain ChainFinder::finish(const Foldable& foldable) {
  for (const TensorId id : tensors_) {
    const Touched& tensor = touched_[id];
    if (tensor.reader == kNoReader) continue;
    for (uint32_t k = 0; k < tensor.inputs; ++k) {
      uint32_t& last = touched_[inputs_[tensor.inputs_begin + k].tensor].last;
      last = std::max(last, tensor.reader);
    }
  }
  std::vector<int64_t> change(chain_.deferred.size() + 1);  // of the bytes of folded rows that live
  for (const TensorId id : tensors_) {
    const Touched& tensor = touched_[id];
    if (!tensor.folds || !foldable(id, chain_.end)) continue;
    const int64_t row_bytes = program_->tensor(id).row_bytes();
    chain_.folded.push_back({id, tensor.first, tensor.last, row_bytes, is_copy(tensor), tensor.reader});
    change[tensor.first] += row_bytes;
    change[tensor.last + 1] -= row_bytes;
  }
  int64_t live = 0, most = 0;
  for (const int64_t bytes : change) most = std::max(most, live += bytes);
  int64_t rows = limits_.band_bytes / std::max<int64_t>(1, most + widest_);
  if (chain_.folded.empty()) rows = std::min(rows, chain_.row_end / kBandsWanted);
  chain_.band =
      std::clamp(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, rows)))),
                 limits_.band_rows_min, kBandMax);
  return std::move(chain_);
}

}  // namespace opentrn::sim
