// Scatters by places of 8 and 16 bits, and of more windows than the kernel unrolls (lowering/scatter.cc), as
// a loop over parts of them: the gradient of an embedding over a long batch. Parts follow each other in the
// order of the windows.
#include <algorithm>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/scatter_rows.h"
#include "compiler/lowering/takes.h"
#include "graph/copy.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kPart = kScatterWindowsMax;

// The update takes the place of what is there, or one op combines them.
bool is_simple(const Function& function, const Op& op) {
  const graph::Block& body = function.block(op.regions[0]);
  if (body.ops.size() == 1) return function.op(body.ops[0]).operands[0] == body.arguments[1];
  if (body.ops.size() != 2) return false;
  const Op& combiner = function.op(body.ops[0]);
  return combiner.operands.size() == 2 && std::ranges::all_of(combiner.operands, [&](ValueId value) {
           return std::ranges::find(body.arguments, value) != body.arguments.end();
         });
}

bool is_long_scatter(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.operands.size() != 3 || !dims_of(op, Attr::input_batching_dims).empty() ||
      has_scatter_sums(function, op))
    return false;
  for (const ValueId id : op.operands) {
    const Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || graph::is_complex(type.element()) ||
        type.element_count() == 0)
      return false;
  }
  const Type& updates = function.type(op.operands[2]);
  return count_of(updates, scatter_dims(function, op)) > kPart &&
         count_of(updates, dims_of(op, Attr::update_window_dims)) <= kScatterWindowElementsMax &&
         is_simple(function, op);
}

ValueId scattered(Builder& builder, const Function& function, const Op& op, ValueId into,
                  const ScatterPart& part) {
  graph::Copier copier(function, builder.function());
  copier.set(op.operands[0], into);
  copier.set(op.operands[1], part.indices);
  copier.set(op.operands[2], part.updates);
  const OpId made = copier.copy(op, builder.block());
  Op& scatter = builder.function().op(made);
  // An operand may be given twice, and the copier knows a value by one name.
  scatter.operands = {into, part.indices, part.updates};
  for (auto& [attr, value] : row_scatter_attributes(op)) scatter.set(attr, std::move(value));
  return scatter.results[0];
}

std::vector<ValueId> scatter_by_parts(Builder& builder, const Function& function, const Op& op,
                                      std::span<const ValueId> operands) {
  const ScatterRows rows = scatter_rows(builder, function, op, operands[1], operands[2], kPart);
  return for_scatter_parts(builder, rows, {operands[0]},
                           [&](Builder& body, std::span<const ValueId> carried, const ScatterPart& part) {
                             return std::vector{scattered(body, function, op, carried[0], part)};
                           });
}

// Registers hold 32 bits, and the kernel loads places as they lie. JAX's gradient of x[i] scatters by i's own
// type.
bool has_short_places(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.operands.size() != 3) return false;
  const Type& type = function.type(op.operands[1]);
  return type.is_tensor() && type.is_static() && !type.quantization() && graph::is_integer(type.element()) &&
         graph::bit_width(type.element()) < 32;
}

std::vector<ValueId> by_long_places(Builder& builder, const Function& function, const Op& op,
                                    std::span<const ValueId> operands) {
  const ValueId places = builder.convert(operands[1], ElementType::kI32);
  graph::Copier copier(function, builder.function());
  for (size_t i = 0; i < operands.size(); ++i) copier.set(op.operands[i], operands[i]);
  Op& scatter = builder.function().op(copier.copy(op, builder.block()));
  scatter.operands = {operands[0], places, operands[2]};
  return scatter.results;
}

constexpr Expansion kLongScatterExpansions[] = {{OpKind::scatter_, has_short_places, by_long_places},
                                                {OpKind::scatter_, is_long_scatter, scatter_by_parts}};

}  // namespace

std::span<const Expansion> long_scatter_expansions() { return kLongScatterExpansions; }

}  // namespace opentrn::compiler
