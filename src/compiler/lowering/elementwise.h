// Element-wise ops on tiles: one graph op to a few instructions.
//
// Floats: one rounding to the op's element type per op, as StableHLO has it; bodies of several
// instructions keep fp32 in between. Integers of 32 bits are exact (GpSimd); narrower ones are computed
// in 32 bits and wrapped.
#pragma once

#include <optional>
#include <span>

#include "compiler/lowering/emitter.h"
#include "graph/module.h"

namespace opentrn::compiler {

// An operand or result inside a kernel: a number, or a tile of [rows, columns] or, if `column`, [rows, 1]
// that stands for every column.
struct Term {
  graph::ElementType element = graph::ElementType::kF32;
  std::optional<double> splat = {};
  Tile tile = {};
  bool column = false;
  bool is_last_read = false;  // the tile is nobody else's, and the op may put its result there
};

// The function of the Scalar engine that the op is, as it stands.
std::optional<ActivationFunction> activation_function(const graph::Op& op);
// The first function of the Scalar engine that the op's instructions use, where they use one.
std::optional<ActivationFunction> first_function(const graph::Op& op);

// Of few ops: one load of a function's table counts.
bool is_short_program(const graph::Function& function);

// `columns`: of the result (1 when every operand is a column). Operands are tiles of `rows` rows or splats.
// `into`: where the result should go; the term says where it is.
Term emit_elementwise(Emitter& emitter, const graph::Function& function, const graph::Op& op,
                      std::span<const Term> operands, int64_t rows, int64_t columns,
                      const std::optional<Tile>& into = std::nullopt);

// The elements in a tile of their own, which is in SBUF.
Tile copied(Emitter& emitter, const Tile& tile, DType dtype);
// The tile, or where it is in PSUM, which DMA does not reach, a copy.
Tile in_sbuf(Emitter& emitter, const Tile& tile, DType dtype);

// A tile of 32-bit integers wrapped to the width of `element`, in its device type.
Tile narrow_integer(Emitter& emitter, const Tile& wide, graph::ElementType element);
// The 32-bit type that integers of `element` are computed in.
DType wide_integer(graph::ElementType element);

}  // namespace opentrn::compiler
