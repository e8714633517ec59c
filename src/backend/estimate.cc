#include "backend/estimate.h"

#include <algorithm>

namespace opentrn::backend {

using isa::Engine;

int64_t Estimator::elements(const isa::Instruction& in) const {
  int64_t longest = 1;
  for (const isa::Operand& operand : program_.operands(in))
    if (operand.is_access()) longest = std::max(longest, patterns_[operand.pattern].per_partition);
  return longest;
}

// Which DMA engines work depends on the rows; tiles are not placed yet.
bool Estimator::begins_at_first_rows(const isa::Instruction& in) const {
  for (const isa::Operand& operand : program_.operands(in))
    if (operand.is_access() && operand.offset != 0 && isa::is_on_chip(program_.tensor(operand.tensor).space))
      return false;
  return true;
}

double Estimator::dma_bytes(isa::InstructionIndex i) const {
  const isa::Instruction& in = program_.instruction(i);
  if (!begins_at_first_rows(in)) return find_dma_bytes(in);
  double& bytes = of_kind_[kinds_.of(i)].dma_bytes;
  if (bytes < 0) bytes = find_dma_bytes(in);
  return bytes;
}

double Estimator::find_dma_bytes(const isa::Instruction& in) const {
  const auto work = costs_.instructions.find_transfer(program_, in, {}, patterns_);
  if (!work) return 0;
  double busy_ns = cost::to_ns(work->first_busy);
  if (work->engines() > 1)
    busy_ns += cost::to_ns(work->last_busy) + cost::to_ns(work->middle_busy) * (work->engines() - 2);
  return busy_ns * dma_bytes_per_ns() / costs_.instructions.dma_engines();
}

}  // namespace opentrn::backend
