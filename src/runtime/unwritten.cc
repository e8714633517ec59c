#include "runtime/unwritten.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "isa/definitions.h"

namespace opentrn::runtime {

namespace {

bool writes(const isa::Program& program, const isa::Instruction& in, isa::TensorId tensor) {
  const auto slots = isa::definition(in.opcode).operands;
  for (size_t i = 0; i < in.operand_count; ++i) {
    const isa::OperandSlot& slot = slots[std::min(i, slots.size() - 1)];
    const isa::Operand& operand = program.operand(in, static_cast<int>(i));
    if (slot.role != isa::Role::kIn && operand.is_access() && operand.tensor == tensor) return true;
  }
  return false;
}

// By the compiler's titles of ops. What the host does for it (`host.`) is a custom operator of ours.
bool is_users(const Model& model, isa::InstructionIndex index) {
  const uint32_t op = model.origin.at(index).op;
  if (op == isa::kNoModelOp) return true;  // a kernel by itself
  const std::string& title = model.origin.ops[op].kind;
  return title.starts_with("nki.kernel ") ||
         (model.program->instruction(index).opcode == isa::Opcode::kCustomOp && !title.starts_with("host."));
}

// The first instruction of a kernel or custom operator of the user's that writes the tensor.
const isa::Instruction* users_writer(const Model& model, isa::TensorId tensor) {
  const isa::Program& program = *model.program;
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    const isa::Instruction& in = program.instruction(i);
    if (!writes(program, in, tensor)) continue;
    if (is_users(model, i)) return &in;
  }
  return nullptr;
}

}  // namespace

std::vector<UnwrittenOutput> unwritten_outputs(const Model& model,
                                               std::span<const std::shared_ptr<sim::Buffer>> outputs) {
  std::vector<UnwrittenOutput> found;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const sim::ByteMask& written = outputs[i]->initialised();
    if (written.all()) continue;
    const isa::TensorId tensor = model.outputs[i].tensor;
    const isa::Instruction* writer = users_writer(model, tensor);
    if (writer == nullptr)
      throw Fault(FaultKind::kInternal, "model.outputs",
                  fmt::format("the program wrote {} of the {} bytes of output {} ({})", written.count(),
                              outputs[i]->bytes(), i, model.outputs[i].name),
                  "please report this model");
    UnwrittenOutput output{.number = i, .moved = outputs[i]->unwritten_origin()};
    if (writer->location < model.program->location_count())
      output.made = model.program->location(writer->location);
    const int64_t size = size_bytes(model.program->tensor(tensor).dtype);
    for (int64_t element = 0; element * size < outputs[i]->bytes(); ++element) {
      if (written.test_all(element * size, size)) continue;
      if (output.count++ == 0) output.first = element;
    }
    found.push_back(std::move(output));
  }
  return found;
}

std::string text_of(const Model& model, const UnwrittenOutput& output) {
  const Port& port = model.outputs[output.number];
  return fmt::format(
      "nothing wrote {} of the {} elements of output {} ({}), {} [{}]{}{}", output.count,
      model.device_bytes(port) / size_bytes(model.program->tensor(port.tensor).dtype), output.number,
      port.name, port.element, fmt::join(port.shape, ", "), output.moved.empty() ? "" : ": " + output.moved,
      output.made.known() ? fmt::format("\n    at {}:{}", output.made.file, output.made.line) : "");
}

}  // namespace opentrn::runtime
