#include "sim/functional/direct_operands.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "isa/definitions.h"
#include "sim/functional/merged_dims.h"

namespace opentrn::sim {

using isa::Dim;
using isa::Instruction;
using isa::InstructionIndex;
using isa::Opcode;
using isa::Operand;
using isa::Pattern;
using isa::Program;
using isa::Tensor;
using isa::TensorId;

namespace {

// Rows and columns of a tile.
struct TileBlock {
  int64_t row, rows;
  int64_t column, columns;

  bool overlaps(const TileBlock& other) const {
    return row < other.row + other.rows && other.row < row + rows && column < other.column + other.columns &&
           other.column < column + columns;
  }
  bool holds(const TileBlock& other) const {
    return row <= other.row && other.row + other.rows <= row + rows && column <= other.column &&
           other.column + other.columns <= column + columns;
  }
};

// The block that an access takes, if it is one, in the tensor's own type.
std::optional<TileBlock> block_of(const Program& program, const Operand& op) {
  const Tensor& tensor = program.tensor(op.tensor);
  const Pattern& pattern = program.pattern(op);
  const int64_t width = tensor.row_elements;
  if (op.indirect != isa::kNoIndirect || op.dtype != tensor.dtype || pattern.rank < 1 || width < 1)
    return std::nullopt;
  const Dim rows = pattern.dims[0];
  const std::vector<Dim> columns = merged_dims(pattern, 1);
  const bool contiguous = columns.empty() || (columns.size() == 1 && columns[0].step == 1);
  if (!contiguous || rows.count < 1 || (rows.count > 1 && rows.step != width) || op.offset < 0)
    return std::nullopt;
  const TileBlock block{op.offset / width, rows.count, op.offset % width,
                        columns.empty() ? 1 : columns[0].count};
  const bool inside = block.row + block.rows <= tensor.rows && block.column + block.columns <= width;
  return inside && block.columns > 0 ? std::optional(block) : std::nullopt;
}

// The elements of an access to HBM, in the order in which DMA moves them.
class Walk {
 public:
  Walk(const Program& program, const Operand& op)
      : dims_(merged_dims(program.pattern(op), 0)), offset_(op.offset) {}

  int64_t place(int64_t element) const {
    int64_t place = offset_;
    for (size_t d = dims_.size(); d-- > 0; element /= dims_[d].count)
      place += element % dims_[d].count * dims_[d].step;
    return place;
  }
  // Whether that many elements from here on lie side by side.
  bool is_run(int64_t element, int64_t count) const {
    if (count == 1) return true;
    return !dims_.empty() && dims_.back().step == 1 &&
           element % dims_.back().count + count <= dims_.back().count;
  }

 private:
  std::vector<Dim> dims_;
  int64_t offset_;
};

// A copy of a block of HBM to a tile, or a product that reads a tile.
struct Use {
  TensorId tile;
  InstructionIndex index;
  int slot;
  uint32_t block;  // of instructions between two of control
};

class Finder {
 public:
  explicit Finder(const Program& program) : program_(program), tensors_(program.tensor_count()) {}

  DirectOperands find() {
    if (!read_program()) return {};
    std::ranges::stable_sort(copies_, {}, &Use::tile);
    std::ranges::stable_sort(reads_, {}, &Use::tile);
    for (size_t begin = 0, end; begin < copies_.size(); begin = end) {
      end = begin;
      while (end < copies_.size() && copies_[end].tile == copies_[begin].tile) ++end;
      replace_tile(std::span(copies_).subspan(begin, end - begin));
    }
    return replaced_.empty() ? DirectOperands{} : rewritten();
  }

 private:
  struct Facts {
    bool written = false;  // but by the copies of copies_
    bool read = false;     // but by the products of reads_
    bool direct = false;
  };
  struct Replaced {
    InstructionIndex index;
    int slot;
    Operand operand;
  };

  // False for a program whose operands do not say what it touches.
  bool read_program() {
    uint32_t block = 0;
    for (InstructionIndex index = 0; index < program_.size(); ++index) {
      const Instruction& in = program_.instruction(index);
      if (static_cast<int>(in.opcode) >= isa::kOpcodeCount ||
          (in.flags & (isa::kFlagsOfPair | isa::kFlagLaunch)))
        return false;
      if (isa::is_control(in.opcode)) ++block;
      const isa::InstructionDefinition& definition = isa::definition(in.opcode);
      const auto slots = definition.operands;
      if ((slots.empty() && in.operand_count > 0) ||
          in.attributes + definition.attributes.size() > program_.attribute_word_count())
        return false;
      for (int slot = 0; slot < in.operand_count; ++slot) {
        const Operand& op = program_.operand(in, slot);
        const isa::Role role = slots[std::min<size_t>(static_cast<size_t>(slot), slots.size() - 1)].role;
        if (op.is_access() && !read_operand(in, {op.tensor, index, slot, block}, op, role)) return false;
      }
    }
    return true;
  }

  bool read_operand(const Instruction& in, const Use& use, const Operand& op, isa::Role role) {
    if (op.tensor >= program_.tensor_count() || op.pattern >= program_.pattern_count() ||
        op.indirect > program_.indirect_count() || program_.pattern(op).rank > isa::kMaxRank)
      return false;
    if (op.indirect != isa::kNoIndirect) {
      const Operand& index = program_.indirect(op).index;
      if (index.is_access() && index.tensor < program_.tensor_count()) tensors_[index.tensor].read = true;
    }
    Facts& facts = tensors_[op.tensor];
    if (role != isa::Role::kIn) {
      if (is_copy(in) && use.slot == isa::slot::dma_copy::kDst)
        copies_.push_back(use);
      else
        facts.written = true;
    }
    if (role == isa::Role::kOut) return true;
    if (is_product(in) &&
        (use.slot == isa::slot::nc_matmul::kStationary || use.slot == isa::slot::nc_matmul::kMoving))
      reads_.push_back(use);
    else
      facts.read = true;
    return true;
  }

  // Of bits, from HBM to a block of a tile.
  bool is_copy(const Instruction& in) const {
    if (in.opcode != Opcode::kDmaCopy || in.operand_count != 2) return false;
    const Operand& to = program_.operand(in, isa::slot::dma_copy::kDst);
    const Operand& from = program_.operand(in, isa::slot::dma_copy::kSrc);
    if (!to.is_access() || !from.is_access() || from.tensor >= program_.tensor_count() ||
        from.pattern >= program_.pattern_count() || program_.pattern(from).rank > isa::kMaxRank)
      return false;
    const Tensor& source = program_.tensor(from.tensor);
    const std::optional<TileBlock> block = block_of(program_, to);
    return program_.tensor(to.tensor).space == isa::MemorySpace::kSbuf && block &&
           isa::is_hbm(source.space) && from.dtype == to.dtype && from.dtype == source.dtype &&
           from.indirect == isa::kNoIndirect && is_inside(from, source) &&
           program_.pattern(from).element_count() == block->rows * block->columns;
  }
  bool is_inside(const Operand& from, const Tensor& source) const {
    const Pattern& pattern = program_.pattern(from);
    for (const Dim& dim : pattern.view())
      if (dim.count < 1) return false;
    return from.offset + pattern.min_offset() >= 0 &&
           from.offset + pattern.max_offset() < source.rows * source.row_elements;
  }

  // Whose operands are matrices of a dimension for the contraction and one more.
  bool is_product(const Instruction& in) const {
    using namespace isa::slot::nc_matmul;
    return in.opcode == Opcode::kNcMatmul && program_.attribute_int(in, kAIsTranspose) == 0 &&
           program_.attribute_int(in, kAPerfMode) != static_cast<int64_t>(isa::MatmulPerfMode::kDoubleRow);
  }

  bool is_never_written(TensorId id) const {
    const Tensor& tensor = program_.tensor(id);
    return !tensors_[id].written && !tensor.filled && !tensor.is_output;
  }

  void replace_tile(std::span<const Use> copies) {
    const TensorId tile = copies[0].tile;
    const Tensor& tensor = program_.tensor(tile);
    if (tensors_[tile].written || tensors_[tile].read || tensor.is_input || tensor.is_output) return;
    std::vector<TileBlock> blocks;
    for (const Use& copy : copies) {
      const Instruction& in = program_.instruction(copy.index);
      if (!is_never_written(program_.operand(in, isa::slot::dma_copy::kSrc).tensor)) return;
      blocks.push_back(*block_of(program_, program_.operand(in, isa::slot::dma_copy::kDst)));
      for (size_t before = 0; before + 1 < blocks.size(); ++before)
        if (blocks[before].overlaps(blocks.back())) return;
    }
    std::vector<Replaced> replaced;
    for (const Use& read : std::ranges::equal_range(reads_, tile, {}, &Use::tile)) {
      const std::optional<Operand> operand = direct(read, copies, blocks);
      if (!operand) return;
      replaced.push_back({read.index, read.slot, *operand});
    }
    if (replaced.empty()) return;
    for (const Use& copy : copies) {
      shrink(copy, replaced);
      tensors_[program_.operand(program_.instruction(copy.index), isa::slot::dma_copy::kSrc).tensor].direct =
          true;
    }
    replaced_.insert(replaced_.end(), replaced.begin(), replaced.end());
  }

  // What a product reads, as an access to what was copied there.
  std::optional<Operand> direct(const Use& read, std::span<const Use> copies,
                                std::span<const TileBlock> blocks) {
    const Operand& op = program_.operand(program_.instruction(read.index), read.slot);
    const std::optional<TileBlock> wanted = block_of(program_, op);
    if (!wanted) return std::nullopt;
    const auto found =
        std::ranges::find_if(blocks, [&](const TileBlock& block) { return block.holds(*wanted); });
    if (found == blocks.end()) return std::nullopt;
    const Use& copy = copies[static_cast<size_t>(found - blocks.begin())];
    if (copy.index > read.index || copy.block != read.block) return std::nullopt;
    const Operand& source = program_.operand(program_.instruction(copy.index), isa::slot::dma_copy::kSrc);
    const Walk walk(program_, source);
    const auto first_of = [&](int64_t row) {
      return (wanted->row - found->row + row) * found->columns + wanted->column - found->column;
    };
    const int64_t begin = walk.place(first_of(0));
    const int64_t step = wanted->rows > 1 ? walk.place(first_of(1)) - begin : wanted->columns;
    if (step <= 0) return std::nullopt;
    for (int64_t row = 0; row < wanted->rows; ++row)
      if (!walk.is_run(first_of(row), wanted->columns) || walk.place(first_of(row)) != begin + row * step)
        return std::nullopt;
    Operand operand = source;
    operand.offset = begin;
    Pattern pattern;
    pattern.rank = 2;
    pattern.dims[0] = {step, wanted->rows};
    pattern.dims[1] = {1, wanted->columns};
    operand.pattern = pattern_of(pattern);
    return operand;
  }

  void shrink(const Use& copy, std::vector<Replaced>& replaced) {
    for (const int slot : {isa::slot::dma_copy::kDst, isa::slot::dma_copy::kSrc}) {
      Operand operand = program_.operand(program_.instruction(copy.index), slot);
      operand.pattern = pattern_of(Pattern{});
      if (slot == isa::slot::dma_copy::kDst) operand.offset = 0;  // one range of what is written
      replaced.push_back({copy.index, slot, operand});
    }
  }

  isa::PatternId pattern_of(const Pattern& pattern) {
    if (!to_) to_ = std::make_shared<Program>(program_.without_instructions());
    return to_->intern_pattern(pattern);
  }

  DirectOperands rewritten() {
    std::ranges::sort(replaced_, {}, [](const Replaced& r) { return std::pair(r.index, r.slot); });
    size_t next = 0;
    std::vector<Operand> operands;
    for (InstructionIndex index = 0; index < program_.size(); ++index) {
      const Instruction& in = program_.instruction(index);
      const auto old = program_.operands(in);
      operands.assign(old.begin(), old.end());
      for (; next < replaced_.size() && replaced_[next].index == index; ++next)
        operands[static_cast<size_t>(replaced_[next].slot)] = replaced_[next].operand;
      to_->append_like(in, operands);
    }
    DirectOperands result{to_, {}};
    for (TensorId id = 0; id < tensors_.size(); ++id)
      if (tensors_[id].direct) result.sources.push_back(id);
    return result;
  }

  const Program& program_;
  std::shared_ptr<Program> to_;
  std::vector<Facts> tensors_;
  std::vector<Use> copies_, reads_;
  std::vector<Replaced> replaced_;
};

}  // namespace

DirectOperands direct_operands(const Program& program) { return Finder(program).find(); }

}  // namespace opentrn::sim
