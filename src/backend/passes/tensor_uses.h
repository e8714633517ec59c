// Where each tensor is touched: instructions in program order, and what its writers are.
#pragma once

#include <span>
#include <vector>

#include "isa/program.h"

namespace opentrn::backend {

struct TensorUse {
  isa::InstructionIndex instruction = 0;
  bool reads = false;
  bool writes = false;
};

class TensorUses {
 public:
  explicit TensorUses(const isa::Program& program);

  // In program order, one entry per instruction.
  std::span<const TensorUse> of(isa::TensorId tensor) const {
    return {uses_.data() + begin_[tensor], begin_[tensor + 1] - begin_[tensor]};
  }
  // The instructions that fill `tensor`, when all of them are plain loads of HBM that the program never
  // writes, done before anything reads it; else empty.
  std::vector<isa::InstructionIndex> loads_of(isa::TensorId tensor) const;

 private:
  const isa::Program& program_;
  std::vector<size_t> begin_;
  std::vector<TensorUse> uses_;
  std::vector<bool> written_;  // by TensorId
};

}  // namespace opentrn::backend
