// Along which dimensions the elements of a value differ, as far as the ops that make it say.
#pragma once

#include <initializer_list>
#include <optional>

#include "compiler/analysis/dims.h"
#include "graph/module.h"

namespace opentrn::compiler {

// A value that another one is a view of, and where the dimensions asked for lie in it; -1: nowhere.
struct Seen {
  graph::ValueId value;
  Dims dims;
};
std::optional<Seen> seen_through(const graph::Function& function, const graph::Op& op, Dims asked);

// Of elements alone, none of which looks at its place.
bool computes_each(const graph::Function& function, const graph::Op& op);
// Whether an element differs from the one a step before it along all of `dims`.
bool differs_along(const graph::Literal& literal, std::initializer_list<int64_t> dims);
// Whether the value's elements differ along dimension k.
bool varies(const graph::Function& function, graph::ValueId value, int64_t k);

}  // namespace opentrn::compiler
