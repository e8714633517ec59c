// Products of activations in MXFP8 by microscaled weights: written out in ops, and as a custom call by which
// a program multiplies by weights that are its arguments.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/rewrite/expression.h"

namespace opentrn::compiler {

// x of 16-bit floats, K elements of which are contracted; elements [K/32, 32, N] of an MX type; scales ui8
// [K/32, N]. Result: f32 of `dims`.
Expr mx_product_written_out(const Expr& x, const Expr& elements, const Expr& scales,
                            std::span<const int64_t> contracted, std::vector<int64_t> dims);

// The op that kernels take (packed_product.h).
graph::ValueId mx_product_op(graph::Builder& builder, std::span<const graph::ValueId> operands,
                             std::vector<int64_t> contracted, const graph::Type& stated);

// custom_call @opentrn.mx_product: x [M, K] times packed [K/4, N] with scales [K/32, N], as analysis/
// packed_product.h has them. Result: f32 [M, N].
graph::ValueId mx_product_call(graph::Builder& builder, graph::ValueId x, graph::ValueId packed,
                               graph::ValueId scales);

// Such calls become the op that kernels take, or what it stands for. Gives their number; an input fault
// compiler.mx_product for operands of other shapes or types.
int64_t expand_mx_products(graph::Function& function, bool as_kernels);

}  // namespace opentrn::compiler
