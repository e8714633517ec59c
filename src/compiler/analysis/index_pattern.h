// What a tensor of numbers or truth values says about its own indices: recognises masks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/module.h"

namespace opentrn::compiler {

// value = offset + sum over dimensions of step * index.
struct IndexPattern {
  std::vector<int64_t> steps;  // by dimension; 0 where the dimension is one
  int64_t offset = 0;
};
// Of an integer tensor made of iota, constants and arithmetic; nullopt for anything else.
std::optional<IndexPattern> index_pattern(const graph::Function& function, graph::ValueId value);

// `d` when the truth value at [..., i, j] is j <= i + d: the keys that causal attention keeps. Constants are
// read element by element.
std::optional<int64_t> kept_diagonal(const graph::Function& function, graph::ValueId value);

// Of a float tensor that is 0 where j <= i + diagonal and `fill` elsewhere.
struct CausalBias {
  int64_t diagonal;
  double fill;
};
std::optional<CausalBias> causal_bias(const graph::Function& function, graph::ValueId value);

}  // namespace opentrn::compiler
