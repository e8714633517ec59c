#include "backend/passes/renaming.h"

#include <vector>

#include "backend/access.h"
#include "backend/passes/rewrite.h"

namespace opentrn::backend {

namespace {

// The SBUF tensor that a load fills completely, whatever it held; kNone when there is none.
constexpr isa::TensorId kNoWriter = 0xFFFFFFFFu;
isa::TensorId filled_by(const isa::Program& program, const isa::Instruction& in, const AccessReader& reader) {
  if (in.opcode != isa::Opcode::kDmaCopy && in.opcode != isa::Opcode::kDmaTranspose) return kNoWriter;
  isa::TensorId filled = kNoWriter;
  for (const Access& access : reader.accesses()) {
    if (!access.writes) continue;
    const isa::Tensor& tensor = program.tensor(access.tensor);
    const Footprint& footprint = access.footprint;
    if (access.reads || tensor.space != isa::MemorySpace::kSbuf || tensor.address || tensor.is_input ||
        tensor.is_output || !footprint.dense || footprint.row_begin > 0 || footprint.byte_begin > 0 ||
        footprint.row_end < tensor.rows || footprint.byte_end < tensor.row_bytes())
      return kNoWriter;
    filled = access.tensor;
  }
  for (const Access& access : reader.accesses())
    if (access.tensor == filled && !access.writes) return kNoWriter;
  return filled;
}

}  // namespace

std::shared_ptr<const isa::Program> rename_reloaded_tiles(
    const std::shared_ptr<const isa::Program>& program) {
  if (has_control_flow(*program)) return program;
  AccessReader reader(*program);
  Rewrite rewrite(*program);
  std::vector<bool> touched(program->tensor_count());
  bool any = false;
  for (isa::InstructionIndex i = 0; i < program->size(); ++i) {
    const isa::Instruction& in = program->instruction(i);
    reader.read(in);
    const isa::TensorId filled = filled_by(*program, in, reader);
    if (filled != kNoWriter && touched[filled]) {
      rewrite.rename(filled, rewrite.clone(filled, isa::MemorySpace::kSbuf));
      any = true;
    }
    for (const Access& access : reader.accesses()) touched[access.tensor] = true;
    rewrite.keep(i);
  }
  return any ? std::make_shared<const isa::Program>(rewrite.take()) : program;
}

}  // namespace opentrn::backend
