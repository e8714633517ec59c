// Complex values as two real ones (docs/decisions/0018): what passes compute with before kernels are made.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/rewrite/expression.h"

namespace opentrn::compiler {

struct Parts {
  Expr re, im;
};

// Of a complex value; of a real one, with an imaginary part of zero. Looks through complex_ and constants.
Parts parts_of(graph::Builder& builder, graph::ValueId value);
graph::ValueId complex_value(const Parts& parts);
// A real value alone, or a complex one's two parts: what loops carry. And back.
std::vector<graph::ValueId> real_values(graph::Builder& builder, graph::ValueId value);
graph::ValueId from_real_values(graph::Builder& builder, std::span<const graph::ValueId> values);

// Functions of complex numbers by real ones, in f32; nullopt for a kind that has none here.
std::optional<Parts> complex_function(graph::OpKind kind, const Parts& x);
std::optional<Parts> complex_function(graph::OpKind kind, const Parts& x, const Parts& y);
// |z| without leaving the range of numbers before |z| does.
Expr magnitude(const Parts& z);

// Discrete Fourier transforms of the last `lengths.size()` dimensions.
std::optional<graph::ValueId> fourier_transform(graph::Builder& builder, const graph::Op& op,
                                                graph::ValueId operand);
// False for a length with a prime factor too large for a matrix.
bool has_fourier_transform(const graph::Op& op);

}  // namespace opentrn::compiler
