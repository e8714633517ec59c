// What a program states in 64 bits and the device computes in 32 (analysis/device_type.h): which ops may give
// other numbers for that.
//
// Integers are followed by the range that they may have: positions, counts and lengths stay far below 32 bits
// in most programs that state them as i64, and are not named. Every op of f64 is rounded to f32. ui64 is
// computed in two words (expand/wide.cc) but for sums.
#pragma once

#include <cstdint>
#include <string>

#include "graph/module.h"

namespace opentrn::compiler {

struct Narrowed {
  int64_t ops = 0;
  std::string first;  // "reduce to tensor<i64>"
  SourceLocation where;
};

struct Narrowing {
  Narrowed integers;  // results may not fit 32 bits: sums wrap, floats are clamped
  Narrowed floats;    // f64 is f32
};

// Of the module's entry and what it calls.
Narrowing narrowing(const graph::Module& module);
// A sentence for users without the program's name; empty where nothing is narrowed.
std::string to_text(const Narrowing& narrowing);

}  // namespace opentrn::compiler
