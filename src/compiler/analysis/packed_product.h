// Products with weights in a packed form as one op each, which lowering/packed_product.cc takes whole.
//
// The op is a composite. Operands: x of 16-bit floats, what is contracted named by
// lhs_contracting_dimensions, K elements in all; then two constants or arguments of N columns, by the name:
//   kMxProductName      weights [K/4, N], four elements packed in one: ui32 of float8_e4m3fn, ui16 of
//                       float4_e2m1fn; scales ui8 [K/32, N], e8m0. x is quantised to MXFP8 (e4m3fn) on its
//                       way.
//   kSparseProductName  weights [K/r, N] in x's type, those of every 4 r that stay (r = 2, 3 or 4); their
//   tags, ui16
//                       [K/r, N/4] (numerics/sparsity.h).
// Result: f32 [free dimensions of x, channels].
#pragma once

#include <string_view>

#include "graph/module.h"
#include "numerics/quantise.h"

namespace opentrn::compiler {

inline constexpr std::string_view kMxProductName = "opentrn.mx_product";
inline constexpr std::string_view kSparseProductName = "opentrn.sparse_product";
// What K is a multiple of: partitions in quadrants of 32, four elements each.
inline constexpr int64_t kMxContractedMultiple = 128;
inline constexpr int64_t kMxBlock = numerics::kMxBlock;

inline bool is_mx_product(const graph::Op& op) {
  return op.kind == graph::OpKind::composite_ && op.string(graph::Attr::name) == kMxProductName;
}
inline bool is_sparse_product(const graph::Op& op) {
  return op.kind == graph::OpKind::composite_ && op.string(graph::Attr::name) == kSparseProductName;
}
inline bool is_packed_product(const graph::Op& op) { return is_mx_product(op) || is_sparse_product(op); }

}  // namespace opentrn::compiler
