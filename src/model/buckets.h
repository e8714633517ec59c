// Models with open dimensions: one program for each combination of sizes, of which an inference takes the
// smallest that holds it. Inputs are padded at their end to the program's sizes, results cut to the
// inference's.
//
// Padding is right only where it reaches nothing else. That is proved on the graph when the model is compiled
// (compiler/analysis/padding.h); where it is not, an inference that would be padded is refused unless the
// caller says that the model masks what is padded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/analysis/padding.h"

namespace opentrn::model {

using Sizes = std::map<std::string, int64_t>;
using Shape = std::vector<int64_t>;

// An open dimension: the axes of inputs and results that have its size.
struct OpenDimension {
  std::string name;
  std::vector<compiler::PortAxis> inputs, results;
  std::string mixing;  // why padding it may change results; empty when it cannot
};

// One program: the sizes of all dimensions that were given, and the shapes of its inputs and results.
struct Bucket {
  Sizes sizes;
  std::vector<Shape> inputs, outputs;
};

// An axis whose elements from `size` on are added to an input (up to `size`), or left out of a result.
struct Resized {
  size_t port = 0;
  int64_t axis = 0, size = 0;
};

// What an inference does: the program that it runs, the axes that are padded before and cut after.
struct Fit {
  size_t program = 0;
  std::vector<Resized> padded, cut;
};

class Buckets {
 public:
  // At least one program. Input fault "model_file" where the dimensions are none of the programs'.
  Buckets(std::vector<Bucket> programs, std::vector<OpenDimension> dimensions,
          std::vector<std::string> input_names);

  const std::vector<Bucket>& programs() const { return programs_; }
  const std::vector<OpenDimension>& dimensions() const { return dimensions_; }

  // The program with the fewest elements of inputs among those that hold these sizes; the first of equal
  // ones. Input fault "model.size" for none.
  size_t pick(const Sizes& sizes) const;
  // The sizes that inputs of these shapes have of the open dimensions. Input fault "model.inputs",
  // "model.shape" or "model.size" where they are not the model's inputs or disagree.
  Sizes sizes_of(const std::vector<Shape>& inputs) const;
  // `masked`: dimensions whose padding the model masks itself. Beside the faults above, "model.padding" where
  // padding may change results.
  Fit fit(const std::vector<Shape>& inputs, const std::set<std::string>& masked) const;

 private:
  void require_fitting() const;

  std::vector<Bucket> programs_;
  std::vector<OpenDimension> dimensions_;
  std::vector<std::string> input_names_;
};

// Every combination of the sizes, those of the last name the fastest.
std::vector<Sizes> combinations(const std::map<std::string, std::vector<int64_t>>& sizes);

// The dimensions of several sizes, found in the programs of combinations(sizes), in that order. `prepared`:
// the graph for some sizes, as compiler::prepare() makes it, by which padding is proved. Input fault
// "onnx.dimension" for a name that is no dimension of the inputs, or part of one.
std::vector<OpenDimension> open_dimensions(const std::map<std::string, std::vector<int64_t>>& sizes,
                                           const std::vector<Bucket>& programs,
                                           const std::function<graph::Module(const Sizes&)>& prepared);

// The dimensions as text in a model's file, and back: an array of {name, inputs, results, mixing}. Input
// fault "model_file" for a text that is none.
std::string text_of(const std::vector<OpenDimension>& dimensions);
std::vector<OpenDimension> dimensions_from_text(std::string_view text);

}  // namespace opentrn::model
