// What an instruction reads and writes: tensors, registers, per operand role.
#pragma once

#include <vector>

#include "backend/footprint.h"
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
  explicit AccessReader(const isa::Program& program) : program_(program), footprints_(program) {}
  // Valid until the next call.
  void read(const isa::Instruction& instruction);
  const std::vector<Access>& accesses() const { return accesses_; }
  const std::vector<RegisterAccess>& registers() const { return registers_; }
  // Of the accesses: who compares them with others has both from here.
  FootprintReader& footprints() { return footprints_; }

 private:
  void add(const isa::Operand& operand, isa::Role role);

  const isa::Program& program_;
  FootprintReader footprints_;
  std::vector<Access> accesses_;
  std::vector<RegisterAccess> registers_;
};

}  // namespace opentrn::backend
