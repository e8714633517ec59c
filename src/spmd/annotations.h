// What a user says of how a model's tensors lie over devices, in words:
//
//   mesh        tp=4,dp=2              axes of devices; the last one's neighbours are nearest
//   sharding    layers.*.wq=-,tp       of a tensor's dimensions, in order: the axes that cut it, outermost
//   first and
//                                      joined by '+'; '-' for none. Dimensions that are not named are whole.
//
// A tensor is an input, a result or a weight (a constant of the model), by the model's own name; * and ? in
// it stand for any letters. Without a name of its own an argument is input0, input1, ..., a result output0,
// ...
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "spmd/cuts.h"
#include "spmd/propagate.h"

namespace opentrn::spmd {

// Input fault "spmd.mesh" for text that is none, an axis without devices, or one that stands twice.
Mesh parse_mesh(std::string_view text);

struct Annotation {
  std::string pattern;
  std::vector<std::vector<std::string>> dims;  // by dimension: axes
};
// Input fault "spmd.annotation".
Annotation parse_annotation(std::string_view text);

// The words of an annotation for a sharding: "-,dp+tp"; a part of an axis as Shardy writes it, "tp:(1)2".
std::string to_text(const Sharding& sharding, int rank);

// The names that annotations may use, of the arguments, results and constants of a function.
struct TensorNames {
  std::vector<std::string> arguments, results;
  std::vector<std::pair<std::string, graph::ValueId>> constants;
};
TensorNames names_of(const graph::Module& module, const graph::Function& function);

// Cuts of values and of results.
struct Stated {
  StatedCuts values;
  std::vector<std::optional<Cuts>> results;
};
// Input faults: "spmd.tensor" for a name that no tensor has, "spmd.axis" for an axis that the mesh has not,
// "spmd.rank" for more dimensions than a tensor has, "spmd.axis_twice". Of several annotations of one tensor
// the last counts.
Stated stated_by(std::span<const Annotation> annotations, const graph::Module& module,
                 const graph::Function& function, const AxisGrid& grid);

}  // namespace opentrn::spmd
