// Which instructions of a program are alike but for the tensors and the offsets of their operands.
//
// Programs of a million instructions have some dozens of kinds. What follows from a kind (which engines can
// run it, what it costs, which rectangle an operand touches from its offset on) is looked up once for each.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/interrupt.h"
#include "base/large_pages.h"
#include "isa/program.h"

namespace opentrn::isa {

// Instructions of one kind have the same opcode, asked engine and attributes; and operands of the same kinds,
// dtypes, patterns, immediates and indirections, whose tensors are in the same memory, of the same dtype and,
// on chip, as many elements in each row.
class Kinds {
 public:
  explicit Kinds(const Program& program)
      : Kinds(program, [](InstructionIndex, const Instruction&, uint32_t, bool) {}) {}
  // Calls visit(index, instruction, kind, fresh) for each instruction in turn, while its operands are at
  // hand; `fresh`: it is the first of its kind.
  template <typename Visit>
  Kinds(const Program& program, Visit&& visit);

  uint32_t of(InstructionIndex index) const { return of_[index]; }
  size_t count() const { return first_.size(); }
  size_t instruction_count() const { return of_.size(); }
  // The first instruction of a kind.
  InstructionIndex first(uint32_t kind) const { return first_[kind]; }

 private:
  LargeVector<uint32_t> of_;
  std::vector<InstructionIndex> first_;
};

// Numbers for keys of several words, in the order in which they are first asked for. Open addressing: one
// look at a slot and one at the key's words, for keys that come again and again.
class KeyTable {
 public:
  KeyTable() : slots_(256) {}
  void begin() { length_ = 0, hash_ = 0; }
  void add(uint64_t word) {
    key_[length_++] = word;
    hash_ = std::rotl(hash_, 29) + word * 0x9E3779B97F4A7C15u;  // products do not wait for each other
  }
  // Of the words added since begin(); `*fresh` where there was none.
  uint32_t number(bool* fresh);

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t begin = 0, length = 0;  // in words_; no length: free
    uint32_t number = 0;
  };
  bool is_at(const Slot& slot) const {
    const uint64_t* words = words_.data() + slot.begin;
    for (uint32_t i = 0; i < length_; ++i)
      if (words[i] != key_[i]) return false;
    return true;
  }
  void grow();

  static constexpr size_t kWordsMax = 8 + 4 * 256;  // an instruction has at most 255 operands, of three words
  std::array<uint64_t, kWordsMax> key_;
  uint32_t length_ = 0;
  uint64_t hash_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint64_t> words_;
  uint32_t count_ = 0;
};

inline uint32_t KeyTable::number(bool* fresh) {
  const uint64_t hash = (hash_ ^ hash_ >> 32) * 0x9E3779B97F4A7C15u >> 16;
  for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    Slot& slot = slots_[at];
    if (slot.length == 0) {
      slot = {hash, static_cast<uint32_t>(words_.size()), length_, count_};
      words_.insert(words_.end(), key_.begin(), key_.begin() + length_);
      *fresh = true;
      if (2 * ++count_ > slots_.size()) grow();
      return count_ - 1;
    }
    if (slot.hash == hash && slot.length == length_ && is_at(slot)) {
      *fresh = false;
      return slot.number;
    }
  }
}

// Numbers the kinds of one instruction after the other. Most come behind the kind that they came behind
// before, and are compared with the first of that kind; others are looked up by all that makes a kind.
class KindFinder {
 public:
  explicit KindFinder(const Program& program) : program_(program), classes_(classes_of_tensors(program)) {}

  uint32_t find(InstructionIndex index, bool* fresh) {
    const Instruction& in = program_.instruction(index);
    *fresh = false;
    if (!kinds_.empty()) [[likely]] {
      const OfKind& expected = kinds_[kinds_[last_].next];
      if (is_alike(in, *expected.first)) [[likely]] {
        kinds_[last_].in_doubt = false;
        return last_ = kinds_[last_].next;
      }
    }
    return last_ = look_up(in, fresh);
  }

 private:
  struct OfKind {
    const Instruction* first;
    uint32_t next = 0;     // the kind that came behind it
    bool in_doubt = true;  // another one came behind it last
  };

  // What instructions of a kind know of an operand's tensor, as a number that tensors which are alike share.
  static std::vector<uint32_t> classes_of_tensors(const Program& program);
  bool is_alike(const Instruction& a, const Instruction& b) const {
    if (a.opcode != b.opcode || a.engine != b.engine || a.operand_count != b.operand_count ||
        a.attributes != b.attributes)
      return false;
    const Operand *x = program_.operands(a).data(), *y = program_.operands(b).data();
    for (const Operand* end = x + a.operand_count; x != end; ++x, ++y) {
      if (x->kind != y->kind || x->dtype != y->dtype) return false;
      if (x->is_access()) {
        if (x->pattern != y->pattern || x->indirect != y->indirect) return false;
        if (classes_[x->tensor] != classes_[y->tensor]) return false;
      } else if (x->kind == OperandKind::kImmediate) {
        if (std::bit_cast<uint64_t>(x->immediate) != std::bit_cast<uint64_t>(y->immediate)) return false;
      }
    }
    return true;
  }
  uint32_t look_up(const Instruction& in, bool* fresh);

  const Program& program_;
  std::vector<uint32_t> classes_;  // by TensorId
  KeyTable table_;
  std::vector<OfKind> kinds_;
  uint32_t last_ = 0;
};

template <typename Visit>
Kinds::Kinds(const Program& program, Visit&& visit) {
  KindFinder finder(program);
  of_.reserve(program.size());
  for (InstructionIndex i = 0; i < program.size(); ++i) {
    interrupt::poll();
    bool fresh = false;
    const uint32_t kind = finder.find(i, &fresh);
    of_.push_back(kind);
    if (fresh) first_.push_back(i);
    visit(i, program.instruction(i), kind, fresh);
  }
}

}  // namespace opentrn::isa
