#include <fmt/format.h>

#include "isa/custom_ops.h"
#include "isa/memory.h"
#include "profile/model.h"

namespace opentrn::profile {

int64_t hbm_bytes(const isa::Program& program, const isa::Instruction& in) {
  int64_t bytes = 0;
  for (const isa::Operand& operand : program.operands(in))
    if (operand.is_access() && isa::is_hbm(program.tensor(operand.tensor).space))
      bytes += program.pattern(operand).element_count() * size_bytes(operand.dtype);
  return bytes;
}

HostWork host_work(const isa::Program& program, const isa::Origin& origin, const arch::Tables& tables) {
  HostWork work;
  const auto rate = tables.facts().optional_spec<double>("runtime.host_transfer_gb_s");
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    const isa::Instruction& in = program.instruction(i);
    if (in.opcode != isa::Opcode::kCustomOp) continue;
    const auto name = static_cast<uint32_t>(program.attribute_int(in, isa::slot::custom_op::kAOp));
    if (!program.string(name).starts_with(isa::kHostOpPrefix)) continue;
    HostCall call{origin.at(i).op, hbm_bytes(program, in)};
    if (rate.known()) call.transfer_ns = static_cast<double>(call.bytes) / rate.value();
    work.transfer_ns += call.transfer_ns;
    work.calls.push_back(call);
  }
  return work;
}

}  // namespace opentrn::profile
