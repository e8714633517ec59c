// Constant folding on demand: the value of a sub-graph whose leaves are constants, by the reference
// evaluator.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/module.h"

namespace opentrn::import::onnx {

// Of a constant that is one integer or truth value; nothing for others.
std::optional<int64_t> integer_of(const graph::Literal& literal);

class Folder {
 public:
  Folder(const graph::Module& module, const graph::Function& function)
      : module_(module), function_(function) {}

  // Nullopt when the value depends on an argument, or on more data than shapes ever have.
  std::optional<graph::Literal> fold(graph::ValueId value);
  // The arguments of the function that a value depends on.
  std::vector<graph::ValueId> arguments_of(graph::ValueId value) const;

 private:
  const graph::Module& module_;
  const graph::Function& function_;
  std::unordered_map<uint32_t, graph::Literal> known_;
};

}  // namespace opentrn::import::onnx
