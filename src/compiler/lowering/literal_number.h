// Elements of literals as numbers.
#pragma once

#include <cstddef>
#include <optional>

#include "graph/literal.h"

namespace opentrn::compiler {

// The value of one stored element; nullopt for complex ones and for formats without a decoder here.
std::optional<double> number_of(graph::ElementType element, const std::byte* bytes);
// The number that all elements share; nullopt when the literal is no splat.
std::optional<double> splat_value(const graph::Literal& literal);

}  // namespace opentrn::compiler
