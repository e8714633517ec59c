// A program of the user's, as the planner sees it: one step of a training or a server, whose inputs, results
// and weights have dimensions that devices can cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/module.h"
#include "spmd/cuts.h"

namespace opentrn::planner::program {

struct Tensor {
  std::string name;  // as annotations have it (spmd/annotations.h)
  graph::ValueId value{};
  graph::Type type;
  bool is_state = false;  // a weight, or an input whose next value is a result
};

// Dimensions that lie on devices together: cutting one of them cuts the others.
struct Dimensions {
  struct Seed {
    size_t tensor = 0;  // of Program::tensors
    int dim = 0;
    int64_t size = 0;
  };
  std::vector<Seed> seeds;   // from which propagation reaches the others
  int64_t elements = 0;      // of the tensors that it cuts
  bool cuts_state = false;   // else a batch: devices hold all weights, and compute parts of the data
  std::string text() const;  // "input3[0]"
  std::string name;          // of the first seed, as text() has it
};

struct Program {
  explicit Program(graph::Module of);

  graph::Module module;
  graph::Function flat;         // its entry, calls inlined
  std::vector<Tensor> tensors;  // inputs, then weights with a name
  size_t inputs = 0;
  // By result: the tensor whose next value it is. Of results with an input's type, in order, where the
  // program does not say (tf.aliasing_output).
  std::vector<std::optional<size_t>> next_of;
  double flops = 0;             // of one run, loops with known ends as often as they run
  bool has_open_loops = false;  // others count once
  int64_t state_bytes = 0;
};

// Every set of dimensions that some devices may cut, those of equal layers as one; largest first.
std::vector<Dimensions> dimensions_of(const Program& program);

}  // namespace opentrn::planner::program
