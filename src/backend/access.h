// What an instruction reads and writes: tensors, registers, per operand role.
#pragma once

#include <vector>

#include "backend/footprint.h"
#include "isa/kinds.h"
#include "isa/program.h"
#include "isa/roles.h"

namespace opentrn::backend {

struct Access {
  isa::TensorId tensor = 0;
  bool reads = false;
  bool writes = false;
  Footprint footprint;
  const isa::Indirect* indirect = nullptr;  // of the operand, where its address is known at run time
};

struct RegisterAccess {
  isa::RegisterId id = 0;
  bool writes = false;
};

using isa::role_of;

class AccessReader {
 public:
  // With `kinds` of the program, which outlive this, most of it is looked up once for each kind.
  explicit AccessReader(const isa::Program& program, const isa::Kinds* kinds = nullptr)
      : program_(program),
        kinds_(kinds),
        footprints_(program),
        of_kind_(kinds == nullptr ? 0 : kinds->count()) {}
  // Valid until the next call.
  void read(const isa::Instruction& instruction);
  // The same, but that of `i`'s kind `footprint` may be that of an operand without an offset: use place_of().
  void read_at(isa::InstructionIndex i) {
    OfKind& kind = of_kind_[kinds_->of(i)];
    if (!kind.is_plain) [[unlikely]]
      return read_first(kind, program_.instruction(i));
    registers_.clear();
    current_ = &kind.accesses;
    bases_ = kind.bases.data();
    operands_ = program_.operands(program_.instruction(i)).data();
  }
  struct Place {
    isa::TensorId tensor;
    int32_t row;    // further down than the footprint
    int64_t bytes;  // further on
  };
  // Of the access with this number among accesses().
  Place place_of(size_t access) const {
    if (bases_ == nullptr) return {(*current_)[access].tensor, 0, 0};
    const Base& base = bases_[access];
    const isa::Operand& operand = operands_[base.slot];
    if (operand.offset == 0) return {operand.tensor, 0, 0};
    const int64_t row = base.row_elements > 0 ? operand.offset / base.row_elements : 0;
    return {operand.tensor, static_cast<int32_t>(row),
            (operand.offset - row * base.row_elements) * base.element_bytes};
  }
  const std::vector<Access>& accesses() const { return *current_; }
  const std::vector<RegisterAccess>& registers() const { return registers_; }

 private:
  // How an operand's offset moves its footprint.
  struct Base {
    int slot;
    int64_t row_elements;  // of its dtype; 0: the tensor has no rows
    int64_t element_bytes;
  };
  struct OfKind {
    bool known = false;
    bool is_plain = false;  // neither registers nor addresses known at run time
    std::vector<Access> accesses;
    std::vector<Base> bases;  // of each
  };
  void add(const isa::Operand& operand, isa::Role role);
  void read_first(OfKind& kind, const isa::Instruction& instruction);

  const isa::Program& program_;
  const isa::Kinds* kinds_;
  FootprintReader footprints_;
  std::vector<Access> accesses_;
  const std::vector<Access>* current_ = &accesses_;
  const Base* bases_ = nullptr;  // of the instruction at hand, where its kind is plain
  const isa::Operand* operands_ = nullptr;
  std::vector<RegisterAccess> registers_;
  std::vector<OfKind> of_kind_;
};

}  // namespace opentrn::backend
