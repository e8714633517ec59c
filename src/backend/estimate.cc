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

double Estimator::busy_ns(const isa::Instruction& in, Engine engine) const {
  if (engine == Engine::kDma) return dma_bytes(in) / dma_bytes_per_ns();
  return costs_.usual.stream_ns(in.opcode, engine, elements(in));
}

double Estimator::dma_bytes(const isa::Instruction& in) const {
  const auto work = costs_.instructions.find_transfer(program_, in, {}, patterns_);
  if (!work) return 0;
  double busy_ns = cost::to_ns(work->first_busy);
  if (work->engines() > 1)
    busy_ns += cost::to_ns(work->last_busy) + cost::to_ns(work->middle_busy) * (work->engines() - 2);
  return busy_ns * dma_bytes_per_ns() / costs_.instructions.dma_engines();
}

}  // namespace opentrn::backend
