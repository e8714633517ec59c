// Passes that keep what a function computes and write it in fewer forms, each one file, in the order in which
// compile() runs them. Those that improve say how much they changed.
#pragma once

#include <cstdint>

#include "compiler/canonicalise/auto_cast_mode.h"
#include "graph/module.h"

namespace opentrn::compiler {

// The entry with every call, and every composite that no kernel takes as one op, replaced by its body.
// After it the function has no call_, no composite_ and, unless they are kept, no notes on sharding. Input
// fault for recursion and unknown callees.
enum class ShardingNotes : bool { kDropped, kKept };
graph::Function inline_calls(const graph::Module& module, const graph::Function& entry,
                             ShardingNotes notes = ShardingNotes::kDropped);

// Values of no elements become constants, and results of reductions over no elements their initial values.
void replace_empty_values(graph::Function& function);

// Operands of products become of one float type, which holds every number of both.
void widen_product_operands(graph::Function& function);

// Products read constants, and arguments of 8 bits, in the type that they are kept in, where it only widens
// to the other operand's: dot_general(x: bf16, convert(constant: i8)) becomes dot_general(x: bf16, constant:
// i8). Kernels take that, the evaluator does not. Gives the number of operands.
int64_t read_narrow_operands(graph::Function& function);

// fp32 to a narrower type (auto_cast.cc says what exactly). Gives the number of casts added.
int64_t auto_cast(graph::Function& function, AutoCastMode mode, graph::ElementType type);

// Identities that keep every bit of every result: chains of converts, reshapes, transposes and broadcasts,
// operations with a neutral element, divisions by powers of two. Gives the number of ops replaced.
int64_t simplify(graph::Function& function);

// Values that are known without running. `fold_ops`: ops whose operands are constants, by the reference
// evaluator, up to kFoldedElements per result, and iotas of that size; gathers of short slices, reductions,
// and products and arithmetic that give no more than they read beyond that; what only widens, narrows or
// rearranges a constant whatever its size. Otherwise: iotas of every size. Gives the number of ops replaced.
inline constexpr int64_t kFoldedElements = int64_t{1} << 17;
inline constexpr int64_t kFoldedPlaces = int64_t{1} << 14;  // of a broadcast of integers
int64_t fold_constants(graph::Function& function, bool fold_ops);

// One op for all that compute the same of the same operands. Gives the number of ops replaced.
int64_t share_equal_ops(graph::Function& function);

// A reshape that only splits leading dimensions of a product, or of what is computed of one element by
// element, moves in front of it, so that one kernel makes what is read. Gives the number of reshapes.
int64_t split_products(graph::Function& function);

// Products of parts of one tensor by the same right operand become parts of one product. Gives the number of
// products joined.
int64_t join_products(graph::Function& function);

// One function of several parts of one small tensor becomes parts of the function of all. Gives the number of
// parts.
int64_t join_functions(graph::Function& function);

// Loops whose iterations hang together by recurrences of fp32 alone become ops on all iterations. Gives their
// number.
int64_t unfold_recurrences(graph::Function& function);

// Products in loops of slices of a whole tensor, by weights that stay, move in front of the loop. Gives their
// number.
int64_t hoist_products(graph::Function& function);

// Sums to which a loop adds a product in every iteration become one product behind it. Gives their number.
int64_t sum_behind_loops(graph::Function& function);

// Small loops that count alike and read nothing of each other become one. Gives the number of loops that are
// gone.
int64_t join_loops(graph::Function& function);

// A product of which one half of the features gates the other becomes two products, whose sums are then
// computed with where they are made. Gives the number of products.
int64_t halve_products(graph::Function& function);

// gather and dynamic_slice whose places are constants become slices, which are read through. Gives their
// number.
int64_t slice_at_known_places(graph::Function& function);

// Kernels of convolutions that are constants, transposed to the order that is read (fold_constants does it).
// Gives the number of transposes.
int64_t arrange_constants(graph::Function& function);

// Convolutions of images with channels last, and what is done to their results, with channels first. Gives
// the number of convolutions.
int64_t put_channels_first(graph::Function& function);

// Values that a while carries unchanged are read from outside; ops of its body that read nothing of it move
// in front of it. Gives how many.
int64_t simplify_loops(graph::Function& function);

// Loops of a few iterations, as many as is known now, are written out. Gives how many.
int64_t unroll_loops(graph::Function& function);

// Comparisons of fractions that are made of random bits become those of whole numbers. Gives their number.
int64_t compare_fractions(graph::Function& function);

// Long chains that make a mask of nothing but a few numbers move in front of the product that makes what the
// product beside the mask reads. Gives how many places got some.
int64_t make_masks_early(graph::Function& function);

// A reshape of what is computed element by element of whole rows moves in front of it, where no kernel holds
// such a row. Gives the number of reshapes.
int64_t lift_reshapes(graph::Function& function);

// Drops ops whose results nobody reads and that do nothing else. Ops stay in the tables, not in blocks.
void remove_dead_ops(graph::Function& function);

}  // namespace opentrn::compiler
