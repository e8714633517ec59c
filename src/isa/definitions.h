// The instruction table: what each opcode is called, which engines and generations have it, what its operand
// and attribute slots mean, what it does beside computing values, how Python calls it and which rules hold
// for it. The printer, the parser, the checker and the NKI bindings are derived from this table. Its rows
// stand in isa/instructions/<family>.cc, definitions.cc collects them.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/generation.h"
#include "isa/memory.h"
#include "isa/opcode.h"
#include "isa/signature.h"
#include "isa/traits.h"

namespace opentrn::isa {

enum class Role : uint8_t { kIn, kOut, kInOut };

// What may stand in an operand slot, as a mask.
enum Accepts : uint8_t {
  kAcceptsAccess = 1,
  kAcceptsImmediate = 2,
  kAcceptsRegister = 4,
  kAcceptsNone = 8,       // optional
  kAcceptsIndirect = 16,  // v4 `.indirect()` gather/scatter
  kRepeats = 32,          // last slot only: any number of operands
};

using SpaceMask = uint8_t;
constexpr SpaceMask mask(MemorySpace space) { return static_cast<SpaceMask>(1u << static_cast<int>(space)); }
inline constexpr SpaceMask kInSbuf = mask(MemorySpace::kSbuf);
inline constexpr SpaceMask kInPsum = mask(MemorySpace::kPsum);
inline constexpr SpaceMask kInHbm =
    mask(MemorySpace::kHbm) | mask(MemorySpace::kPrivateHbm) | mask(MemorySpace::kSharedHbm);
inline constexpr SpaceMask kOnChip = kInSbuf | kInPsum;
inline constexpr SpaceMask kDmaSpaces = kInSbuf | kInHbm;

struct OperandSlot {
  std::string_view name;
  Role role;
  uint8_t accepts;
  SpaceMask spaces;
};

enum class AttributeKind : uint8_t {
  kInt,
  kBool,
  kReal,
  kAluOp,
  kOptionalAluOp,
  kActivation,
  kIntList,
  kReduceCmd,
  kDgeMode,
  kOobMode,
  kDmaEngine,
  kPerfMode,
  kMxScaleRule,
  kString,
};
// kOptionalAluOp holds -1 for None.

struct AttributeSlot {
  std::string_view name;
  AttributeKind kind;
};

struct Constraint {
  std::string_view label;   // "nc_matmul.C3"
  std::string_view rule;    // one sentence
  std::string_view source;  // where the rule is written
};

namespace constraint {
class Check;
}
struct ArraySlots;

struct InstructionDefinition {
  Opcode opcode;
  std::string_view name;        // that of nki.isa
  EngineMask engines;           // engines that can run it on some generation; 0 for control
  Generation first_generation;  // its constraints refine it per engine
  std::span<const OperandSlot> operands;
  std::span<const AttributeSlot> attributes = {};
  Traits traits = {};
  Signature signature = {};
  // What it computes, as help() says it; paragraphs are separated by an empty line.
  std::string_view summary = {};
  // Its own, numbered from 1 without gaps.
  std::span<const Constraint> constraints = {};
  // Of a product: where it meets the systolic array.
  const ArraySlots* array = nullptr;
  // Throws for the first of its constraints that is broken, as far as that can be decided without values.
  void (*check)(const constraint::Check& check) = nullptr;
};

const InstructionDefinition& definition(Opcode opcode);

// The rows, by opcode.
class Definitions {
 public:
  class Iterator {
   public:
    explicit Iterator(const InstructionDefinition* const* at) : at_(at) {}
    const InstructionDefinition& operator*() const { return **at_; }
    Iterator& operator++() { return ++at_, *this; }
    bool operator==(const Iterator&) const = default;

   private:
    const InstructionDefinition* const* at_;
  };

  explicit Definitions(std::span<const InstructionDefinition* const> rows) : rows_(rows) {}
  Iterator begin() const { return Iterator(rows_.data()); }
  Iterator end() const { return Iterator(rows_.data() + rows_.size()); }

 private:
  std::span<const InstructionDefinition* const> rows_;
};
Definitions definitions();

std::optional<Opcode> opcode_from_name(std::string_view name);
inline std::string_view name(Opcode opcode) { return definition(opcode).name; }
inline bool has(Opcode opcode, TraitFlag flag) { return definition(opcode).traits.has(flag); }

}  // namespace opentrn::isa
