// Ops that no kernel takes, written as ops that kernels take. Each family is a file of this folder; their
// tables are joined in expand.cc.
//
// An expansion computes in f32 whatever floats it is given (the device has no f64) and rounds once at the
// end; integers wrap.
#pragma once

#include <span>
#include <vector>

#include "compiler/rewrite/expression.h"
#include "graph/module.h"

namespace opentrn::compiler {

struct Expansion {
  graph::OpKind kind;
  // Null: every op of the kind with real tensors.
  bool (*takes)(const graph::Function& function, const graph::Op& op);
  // One value per result. `op` is of `function`; `operands` are the builder's.
  std::vector<graph::ValueId> (*make)(graph::Builder& builder, const graph::Function& function,
                                      const graph::Op& op, std::span<const graph::ValueId> operands);
};

// The families.
std::span<const Expansion> complex_expansions();
std::span<const Expansion> trigonometric_expansions();
std::span<const Expansion> special_function_expansions();
std::span<const Expansion> bit_expansions();
std::span<const Expansion> bound_expansions();
std::span<const Expansion> patch_expansions();            // before other convolutions
std::span<const Expansion> weight_gradient_expansions();  // before other convolutions
std::span<const Expansion> wide_kernel_expansions();      // before other convolutions
std::span<const Expansion> convolution_expansions();      // before integer products
std::span<const Expansion> image_group_expansions();      // behind other convolutions
std::span<const Expansion> sort_key_expansions();
std::span<const Expansion> one_window_expansions();       // before other scatters
std::span<const Expansion> short_dimension_expansions();  // before other reductions
std::span<const Expansion> counted_scatter_expansions();  // before other scatters
std::span<const Expansion> scatter_place_expansions();    // before those behind it
std::span<const Expansion> extreme_scatter_expansions();  // behind them
std::span<const Expansion> sum_scatter_expansions();      // before the next three
std::span<const Expansion> wide_scatter_expansions();
std::span<const Expansion> long_scatter_expansions();
std::span<const Expansion> region_scatter_expansions();
std::span<const Expansion> integer_product_expansions();
std::span<const Expansion> product_expansions();
std::span<const Expansion> wide_integer_expansions();
std::span<const Expansion> running_expansions();    // before other windows
std::span<const Expansion> reduction_expansions();  // before other reductions
std::span<const Expansion> window_expansions();
std::span<const Expansion> select_window_expansions();
std::span<const Expansion> linear_algebra_expansions();
std::span<const Expansion> random_expansions();
std::span<const Expansion> counting_expansions();
std::span<const Expansion> gather_window_expansions();  // before columns
std::span<const Expansion> gather_column_expansions();

// Complex values that loops carry, branches give and regions of sorts and reductions combine become two real
// ones (split_complex_carries.cc).
void split_complex_carries(graph::Function& function);

// The ends of the 64-bit range become those of the 32-bit one where they bound, fill or start something.
// Gives the number of constants changed (near_ends.cc).
int64_t bring_ends_near(graph::Function& function);

// All of them, in the order in which they are asked.
std::span<const std::span<const Expansion>> expansion_families();
// The first row that takes the op; null for none.
const Expansion* expansion_of(const graph::Function& function, const graph::Op& op);
// True when expand() replaces the op.
bool has_expansion(const graph::Function& function, const graph::Op& op);
// Replaces every such op, until there is none; regions included. True when there was one.
bool expand(graph::Function& function);

// `body` of each operand in f32; the result in the first operand's element type.
std::vector<graph::ValueId> computed_in_f32(graph::Builder& builder, std::span<const graph::ValueId> operands,
                                            Expr (*body)(std::span<const Expr> x));
// An expansion's `make` for a function of one or two f32 values.
template <Expr (*kBody)(const Expr&)>
std::vector<graph::ValueId> unary_in_f32(graph::Builder& builder, const graph::Function&, const graph::Op&,
                                         std::span<const graph::ValueId> operands) {
  return computed_in_f32(builder, operands, [](std::span<const Expr> x) { return kBody(x[0]); });
}
template <Expr (*kBody)(const Expr&, const Expr&)>
std::vector<graph::ValueId> binary_in_f32(graph::Builder& builder, const graph::Function&, const graph::Op&,
                                          std::span<const graph::ValueId> operands) {
  return computed_in_f32(builder, operands, [](std::span<const Expr> x) { return kBody(x[0], x[1]); });
}

}  // namespace opentrn::compiler
