// The text form of a module: StableHLO as MLIR writes it.
//
// The parser reads pretty and generic assembly of the stablehlo, chlo and func dialects, any attribute
// (unknown ones are kept as text), locations, and several modules per file split by `// -----`. Ops of
// the dialects that test material uses, check.* and interpreter.*, become custom_call with that name as
// call_target_name and their attributes in Op::extra. The printer writes what the parser and
// stablehlo-opt read back: print(parse(print(m))) == print(m).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"

namespace opentrn::graph {

// Throws Fault{kInput, "stablehlo.text"} with file and line.
Module parse_module(std::string_view text, std::string_view filename);
// The parts of a file split by `// -----`, each a module. A part that is broken throws when asked for.
std::vector<std::string_view> split_input_file(std::string_view text);

struct PrintOptions {
  bool generic = false;       // "stablehlo.add"(%0, %1) : (...) -> ...
  bool locations = false;     // loc("...")
  int64_t elide_larger = -1;  // literals of more elements as dense_resource-like "..."; -1: never
};
std::string print_module(const Module& module, const PrintOptions& options = {});

}  // namespace opentrn::graph
