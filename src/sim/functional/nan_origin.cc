#include "sim/functional/nan_origin.h"

#include <cmath>

#include <fmt/format.h>

#include "sim/functional/rows.h"

namespace opentrn::sim {

namespace {

// Position of the first NaN among the initialised elements of a float operand; -1 without one.
int64_t find_nan(Context& cx, int slot) {
  const isa::Operand& op = cx.operand(slot);
  if (!op.is_access() || !is_float(op.dtype) || op.indirect != isa::kNoIndirect) return -1;
  const View view = cx.unchecked(slot);
  int64_t position = 0;
  int64_t found = -1;
  for_runs(view, [&](std::byte* at, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < n && found < 0; ++i) {
      float value;
      const std::byte* element = at + i * stride;
      if (!view.buffer->initialised().test_all(view.buffer->logical(element), view.element_bytes)) continue;
      numerics::load_f32(view.dtype, element, &value, 1);
      if (std::isnan(value)) found = position + i;
    }
    position += n;
  });
  return found;
}

isa::Role role(const Context& cx, int slot) {
  const auto slots = isa::definition(cx.in.opcode).operands;
  return slots[std::min<size_t>(slot, slots.size() - 1)].role;
}

}  // namespace

void execute_tracing_nan(Context& cx, void (*body)(Context&)) {
  bool nan_came_in = false;
  for (int slot = 0; slot < cx.operand_count(); ++slot)
    if (cx.has(slot) && role(cx, slot) != isa::Role::kOut && find_nan(cx, slot) >= 0) nan_came_in = true;
  body(cx);
  cx.finish();
  if (nan_came_in) return;
  for (int slot = 0; slot < cx.operand_count(); ++slot) {
    if (!cx.has(slot) || role(cx, slot) == isa::Role::kIn) continue;
    const int64_t at = find_nan(cx, slot);
    if (at >= 0)
      cx.fail(FaultKind::kProgram, "sim.nan_origin",
              fmt::format("element {} of {} is NaN, and no input held one", at, cx.operand_name(slot)));
  }
}

}  // namespace opentrn::sim
