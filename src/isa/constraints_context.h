// What the rules of instructions are written with: the operands of one instruction, resolved once,
// and helpers that fail with a label. Nothing here builds a string unless a rule is broken.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "base/generation.h"
#include "isa/definitions.h"
#include "isa/program.h"

namespace opentrn::isa::constraint {

// Sizes of one generation's memories and of its systolic array, from the tables of src/arch.
struct Limits {
  int64_t partitions;
  int64_t sbuf_bytes_per_partition;
  int64_t psum_bytes_per_partition;
  int64_t psum_bank_bytes_per_partition;
  int64_t contraction_max;
  int64_t stationary_columns_max;
};
const Limits& limits(Generation generation);

// A set of element types.
class DTypes {
 public:
  constexpr DTypes(std::initializer_list<DType> members) : bits_(0) {
    for (DType d : members) bits_ |= 1u << static_cast<int>(d);
  }
  constexpr bool has(DType d) const { return (bits_ >> static_cast<int>(d)) & 1; }
  constexpr DTypes operator|(DTypes other) const { return DTypes(bits_ | other.bits_); }
  std::string text() const;

 private:
  constexpr explicit DTypes(uint32_t bits) : bits_(bits) {}
  uint32_t bits_;
};
static_assert(kDTypeCount <= 32);

// bool is stored as one byte of 0 or 1 and counts as a bit pattern.
inline constexpr DTypes kBitPatterns = {DType::kBool,  DType::kInt8,   DType::kInt16, DType::kInt32,
                                        DType::kUint8, DType::kUint16, DType::kUint32};
inline constexpr DTypes kFloats = {DType::kFloat16,      DType::kBFloat16,   DType::kTFloat32,
                                   DType::kFloat32,      DType::kFloat8E3M4, DType::kFloat8E4M3,
                                   DType::kFloat8E4M3Fn, DType::kFloat8E5M2};
inline constexpr DTypes kFp32Class = {DType::kTFloat32, DType::kFloat32};
inline constexpr DTypes kHostOnly = {DType::kInt64, DType::kUint64, DType::kFloat64};

// An access operand. HBM has no partitions: one row, every element in `free`.
struct Tile {
  const Operand* operand;
  const Tensor* tensor;
  const Pattern* pattern;
  int64_t partitions;
  int64_t free;  // elements per partition

  DType dtype() const { return operand->dtype; }
  MemorySpace space() const { return tensor->space; }
  bool in_psum() const { return tensor->space == MemorySpace::kPsum; }
  int64_t total() const { return partitions * free; }
};

inline constexpr int kTiles = 8;  // more operands than any instruction but dma_compute and custom_op names

class Check {
 public:
  Check(const Program& program, const Instruction& in, Generation generation, bool moves_rows)
      : program(program),
        in(in),
        definition(isa::definition(in.opcode)),
        generation(generation),
        can(arch::core_features(generation)),
        moves_rows(moves_rows) {}

  const Program& program;
  const Instruction& in;
  const InstructionDefinition& definition;
  const Generation generation;
  const arch::CoreFeatures& can;
  const bool moves_rows;           // see check()
  std::array<Tile, kTiles> tiles;  // filled for access operands by resolve()

  Tile resolve(const Operand& operand) const;
  const Operand& operand(int slot) const { return program.operand(in, slot); }
  bool has_tile(int slot) const { return operand(slot).is_access(); }
  bool has_immediate(int slot) const { return operand(slot).kind == OperandKind::kImmediate; }
  double immediate(int slot) const { return operand(slot).immediate; }
  const Tile& tile(int slot) const { return tiles[static_cast<size_t>(slot)]; }
  bool indirect(int slot, IndirectKind kind) const {
    const Operand& op = operand(slot);
    return op.is_access() && op.indirect != kNoIndirect && program.indirect(op).kind == kind;
  }
  int64_t integer(int slot) const { return program.attribute_int(in, slot); }
  bool boolean(int slot) const { return program.attribute_bool(in, slot); }
  AluOp alu(int slot) const { return program.attribute_alu(in, slot); }
  std::string_view slot_name(int slot) const;

  // Ends the check: rule `number` of this instruction is broken.
  [[noreturn]] void fail(int number, std::string message, std::string hint = {}) const;
  // Rule `number` of those that all instructions share.
  [[noreturn]] void fail_shared(int number, FaultKind kind, std::string message, std::string hint = {}) const;

  // -- rules that many instructions have; `number` is the instruction's own number for it
  // Same partitions and same elements per partition.
  void same_shape(int number, int a, int b) const {
    if (tile(a).partitions != tile(b).partitions || tile(a).free != tile(b).free) [[unlikely]]
      shapes_differ(number, a, b);
  }
  void same_partitions(int number, int a, int b) const {
    if (tile(a).partitions != tile(b).partitions) [[unlikely]]
      shapes_differ(number, a, b);
  }
  void same_dtype(int number, int a, int b) const {
    if (tile(a).dtype() != tile(b).dtype()) [[unlikely]]
      dtypes_differ(number, a, b);
  }
  void elements(int number, int slot, int64_t expected) const {
    if (tile(slot).free != expected) [[unlikely]]
      wrong_elements(number, slot, expected);
  }
  // A [P, 1] vector over the partitions of `data`, if the operand is a tile.
  void vector_of(int number, int slot, int data) const {
    if (!has_tile(slot)) return;
    if (tile(slot).partitions != tile(data).partitions || tile(slot).free != 1) [[unlikely]]
      not_a_vector(number, slot, data);
  }
  void dtype_in(int number, int slot, DTypes allowed) const {
    if (has_tile(slot) && !allowed.has(tile(slot).dtype())) [[unlikely]]
      wrong_dtype(number, slot, allowed);
  }
  void not_both_in_psum(int number, int a, int b) const {
    if (has_tile(a) && has_tile(b) && tile(a).in_psum() && tile(b).in_psum()) [[unlikely]]
      both_in_psum(number, a, b);
  }
  void arithmetic(int number, AluOp op) const {
    if (is_bitvec(op)) [[unlikely]]
      is_a_bitvec(number, op);
  }

 private:
  [[noreturn]] void raise(FaultKind kind, std::string label, std::string message, std::string hint) const;
  [[noreturn]] void shapes_differ(int number, int a, int b) const;
  [[noreturn]] void dtypes_differ(int number, int a, int b) const;
  [[noreturn]] void wrong_elements(int number, int slot, int64_t expected) const;
  [[noreturn]] void not_a_vector(int number, int slot, int data) const;
  [[noreturn]] void wrong_dtype(int number, int slot, DTypes allowed) const;
  [[noreturn]] void both_in_psum(int number, int a, int b) const;
  [[noreturn]] void is_a_bitvec(int number, AluOp op) const;
};

}  // namespace opentrn::isa::constraint
