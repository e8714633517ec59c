#include "spmd/run/wide_numbers.h"

#include <fmt/format.h>

#include "base/fault.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/compile.h"
#include "graph/op_definitions.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

constexpr const char* kHint = "use 32-bit integers, or compute with such numbers on JAX's CPU";

bool is_wide_constant(const Op& op) {
  return op.kind == OpKind::constant_ &&
         op.literal(Attr::value).type().element() == graph::ElementType::kI64 &&
         compiler::beyond_device(op.literal(Attr::value)).has_value();
}

// The constant that a value is or repeats; null where it is none.
const Op* constant_of(const Function& function, ValueId value) {
  for (;;) {
    const OpId made = function.value(value).op;
    if (made == graph::kNoOp) return nullptr;
    const Op& op = function.op(made);
    if (op.kind == OpKind::constant_) return &op;
    const bool same = op.kind == OpKind::convert_ &&
                      function.type(op.operands[0]).element() == function.type(op.results[0]).element();
    if (!same && op.kind != OpKind::broadcast_in_dim_ && op.kind != OpKind::reshape_) return nullptr;
    value = op.operands[0];
  }
}

// Ops that need the low bits only, that passes know the order of (compiler/expand/bounds.cc), that
// only repeat a constant, or start with a number that changes nothing.
bool takes_wide(OpKind kind) {
  switch (kind) {
    case OpKind::and_:
    case OpKind::or_:
    case OpKind::xor_:
    case OpKind::not_:
    case OpKind::shift_left_:
    case OpKind::shift_right_arithmetic_:
    case OpKind::shift_right_logical_:
    case OpKind::popcnt_:
    case OpKind::count_leading_zeros_:
    case OpKind::bitcast_convert_:
    case OpKind::convert_:
    case OpKind::compare_:
    case OpKind::minimum_:
    case OpKind::maximum_:
    case OpKind::clamp_:
    case OpKind::broadcast_in_dim_:
    case OpKind::reshape_:
    case OpKind::reduce_: return true;
    default: return false;
  }
}

}  // namespace

void expect_narrow_constants(const graph::Module& module) {
  bool any = false;
  for (const Function& function : module.functions)
    graph::walk(function, function.body(), [&](OpId id) { any |= is_wide_constant(function.op(id)); });
  if (!any) return;
  const Function function = compiler::inline_calls(module, module.entry());
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (takes_wide(op.kind)) return;
    for (const ValueId operand : op.operands) {
      const Op* constant = constant_of(function, operand);
      if (!constant || !is_wide_constant(*constant)) continue;
      Fault fault(FaultKind::kNotModelled, "spmd.64_bits",
                  fmt::format("{} of {}: integers of a device have 32 bits", graph::name(op.kind),
                              *compiler::beyond_device(constant->literal(Attr::value))),
                  kHint);
      fault.set_location(module.source(op.location));
      throw fault;
    }
  });
}

void expect_narrow_arguments(std::span<const graph::Literal> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (const auto found = compiler::beyond_device(arguments[i]))
      throw Fault(FaultKind::kInput, "spmd.64_bits",
                  fmt::format("argument {}, {}, holds {}: integers of a device have 32 bits", i,
                              arguments[i].type().to_string(), *found),
                  kHint);
}

}  // namespace opentrn::spmd
