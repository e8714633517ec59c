#include "sim/functional/nan_origin.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "isa/roles.h"
#include "sim/functional/rows.h"

namespace opentrn::sim {

namespace {

// Of the elements of a float operand: the first that is NaN and written, how many nothing has written, and
// the first of those; -1 where there is none.
struct Found {
  int64_t nan = -1;
  int64_t unwritten = 0, first_unwritten = -1, elements = 0;
};

Found look_at(Context& cx, int slot) {
  Found found;
  const isa::Operand& op = cx.operand(slot);
  if (!op.is_access() || !is_float(op.dtype) || op.indirect != isa::kNoIndirect) return found;
  const View view = cx.unchecked(slot);
  for_runs(view, [&](std::byte* at, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t position = found.elements + i;
      const std::byte* element = at + i * stride;
      if (!view.buffer->initialised().test_all(view.buffer->logical(element), view.element_bytes)) {
        if (found.unwritten++ == 0) found.first_unwritten = position;
        continue;
      }
      float value;
      numerics::load_f32(view.dtype, element, &value, 1);
      if (found.nan < 0 && std::isnan(value)) found.nan = position;
    }
    found.elements += n;
  });
  return found;
}

// The last instruction before this one that wrote the operand's tensor, in words; empty without one.
std::string last_writer(const Context& cx, int slot) {
  const isa::TensorId tensor = cx.operand(slot).tensor;
  for (isa::InstructionIndex i = cx.index; i-- > 0;) {
    const isa::Instruction& in = cx.program.instruction(i);
    int written = 0;
    for (const isa::Operand& operand : cx.program.operands(in)) {
      if (operand.is_access() && operand.tensor == tensor &&
          isa::role_of(cx.program, in, written) != isa::Role::kIn) {
        const SourceLocation where = cx.program.location(in.location);
        return fmt::format("{}{}", isa::definition(in.opcode).name,
                           where.known() ? fmt::format(" at {}:{}", where.file, where.line) : "");
      }
      ++written;
    }
  }
  return "";
}

isa::Role role(const Context& cx, int slot) {
  const auto slots = isa::definition(cx.in.opcode).operands;
  return slots[std::min<size_t>(slot, slots.size() - 1)].role;
}

}  // namespace

void execute_tracing_nan(Context& cx, void (*body)(Context&)) {
  bool nan_came_in = false;
  int holed = -1;  // an operand with elements that nothing wrote
  Found hole;
  for (int slot = 0; slot < cx.operand_count(); ++slot) {
    if (!cx.has(slot) || role(cx, slot) == isa::Role::kOut) continue;
    const Found found = look_at(cx, slot);
    if (found.nan >= 0) nan_came_in = true;
    if (found.unwritten > 0 && holed < 0) holed = slot, hole = found;
  }
  body(cx);
  cx.finish();
  if (nan_came_in) return;
  for (int slot = 0; slot < cx.operand_count(); ++slot) {
    if (!cx.has(slot) || role(cx, slot) == isa::Role::kIn) continue;
    const int64_t at = look_at(cx, slot).nan;
    if (at < 0) continue;
    const std::string what = fmt::format("element {} of {} is NaN", at, cx.operand_name(slot));
    if (holed < 0)
      cx.fail(FaultKind::kProgram, "sim.nan_origin", fmt::format("{}, and no input held one", what));
    const std::string writer = last_writer(cx, holed);
    cx.fail(FaultKind::kProgram, "sim.nan_origin",
            fmt::format(
                "{}: {} of the {} elements of {} were never written and read as NaN, element {} the first{}",
                what, hole.unwritten, hole.elements, cx.operand_name(holed), hole.first_unwritten,
                writer.empty() ? "" : "; what wrote that tensor last is " + writer),
            "a mask or a slice left them out there: give this instruction the same, or fill the tile first");
  }
}

}  // namespace opentrn::sim
