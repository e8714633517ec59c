// Strict mode: what can be seen in the source of a kernel and of the functions that it reaches.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nki/strict/syntax_tree.h"

namespace opentrn::nki::strict {

// A rule that holds in the chosen release (python/opentrn/strict/rules.py).
struct Rule {
  std::string kind, where, name, argument;
};

struct Finding {
  NodeId node;
  size_t rule;  // its number among those that were given
  std::string detail;
};

// The first thing that a release since 0.3 refuses. `tree`: of one function.
std::optional<Finding> find_refused(const SyntaxTree& tree, std::span<const Rule> rules);
// The same of neuronxcc.nki. is_launched: the function is the kernel itself, and none that it calls.
std::optional<Finding> find_refused_legacy(const SyntaxTree& tree, std::span<const Rule> rules,
                                           bool is_launched);

// Whether a function returns something, stores, or assigns to an element.
bool writes(const SyntaxTree& tree);

}  // namespace opentrn::nki::strict
