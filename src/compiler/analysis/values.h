// What a value is, told from the ops that make it.
#pragma once

#include <optional>
#include <vector>

#include "graph/module.h"

namespace opentrn::compiler {

// The op that makes the value; null for an argument.
const graph::Op* maker(const graph::Function& function, graph::ValueId value);
// broadcast_in_dim, transpose, reshape, slice, reverse, optimization_barrier: values that are read through.
bool is_view_op(graph::OpKind kind);
// The number that every element of the value has, where constants say so.
std::optional<double> splat_of(const graph::Function& function, graph::ValueId value);
// Every element is a whole number (or no finite one), as the ops that make it have it: integers and what is
// counted, rounded, added and multiplied of them.
bool is_whole(const graph::Function& function, graph::ValueId value);
// add_, multiply_, maximum_, minimum_, and_ or or_ when the region of a reduce is that op of its two
// arguments; nullopt otherwise.
std::optional<graph::OpKind> combiner_of(const graph::Function& function, const graph::Op& reduce);
// Values from outside that the op's regions read, each once.
std::vector<graph::ValueId> captured_by(const graph::Function& function, const graph::Op& op);

}  // namespace opentrn::compiler
