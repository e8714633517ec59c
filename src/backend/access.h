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
  void read_at(isa::InstructionIndex i) {
    OfKind& kind = of_kind_[kinds_->of(i)];
    if (kind.is_plain) [[likely]]
      move(kind, program_.instruction(i));
    else
      read_first(kind, program_.instruction(i));
  }
  const std::vector<Access>& accesses() const { return *current_; }
  const std::vector<RegisterAccess>& registers() const { return registers_; }

 private:
  // Where an operand without an offset lies.
  struct Base {
    int slot;
    int32_t row_begin, row_end;
    int64_t byte_begin, byte_end;
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
  // What an instruction of a plain kind accesses: the same at other offsets, of other tensors.
  void move(OfKind& kind, const isa::Instruction& instruction);

  const isa::Program& program_;
  const isa::Kinds* kinds_;
  FootprintReader footprints_;
  std::vector<Access> accesses_;
  const std::vector<Access>* current_ = &accesses_;
  std::vector<RegisterAccess> registers_;
  std::vector<OfKind> of_kind_;
};

}  // namespace opentrn::backend
