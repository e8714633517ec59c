// ONNX models whose shapes depend on data, as a chain of programs of static shapes.
//
// Where the shape of a value, or the number of a loop's iterations, depends on data (NonZero, Compress,
// Unique, NonMaxSuppression, a Reshape by a computed shape), the model is cut. What does not depend on it
// goes into the stage before the cut, whose results hold what the host must know: how many rows there are, or
// a value. With these answers the rest is imported as if they were constants, up to the next cut. Answers of
// another run may differ: a stage is asked for its successor with each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/literal.h"
#include "graph/module.h"
#include "import/onnx/onnx.h"

namespace opentrn::import::onnx {

// A value between stages, or an input of the model: numbered along the chain, inputs first.
using Slot = size_t;

// What the next stage's shapes depend on: a result of this stage that the host reads.
struct Ask {
  std::string name;     // of the dimension that it counts, as inputs' ("boxes", "y.0"); else of the value
  bool counts = false;  // a number of rows, from 0 to `bound`
  int64_t bound = 0;
  Slot slot = 0;      // which holds it
  std::string where;  // the node that asks
  graph::Type type;
  std::vector<Slot> behind = {};  // the slots of the stage's arguments on which it depends
};

struct StageOutput {
  Slot slot = 0;
  // The number of its leading rows that count is the answer to this one; the rest is padding.
  std::optional<size_t> ask;
};

// A result of the model as the file states it; a dimension without a value depends on data.
struct ResultInfo {
  std::string name;
  graph::ElementType element = graph::ElementType::kF32;
  std::vector<std::optional<int64_t>> shape;
  bool has_shape = false;
};

class Source;
struct Carried;
struct Progress;

class Stage {
 public:
  graph::Module module;
  std::vector<Slot> inputs;  // one per argument
  std::vector<StageOutput> outputs;
  std::vector<Ask> asks;  // none in the last stage
  // The model's results as far as they are known: which slot holds each.
  std::vector<std::optional<Slot>> results;
  size_t nodes_left = 0;  // nodes of the model that are not imported yet

  bool is_last() const { return asks.empty(); }
  // The stage behind this one. Input fault for an answer of another type, or a count that cannot be.
  std::shared_ptr<const Stage> next(const std::vector<graph::Literal>& answers) const;
  std::vector<ResultInfo> result_infos() const;
  Stage();
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  friend class StageMaker;
  std::shared_ptr<Source> source_;
  std::shared_ptr<const Progress> progress_;
  std::vector<Carried> carried_;
  Slot slots_ = 0;
};

// The first stage: with all inputs of the model as arguments; the only one when no shape depends on data.
// Faults as import_file().
std::shared_ptr<const Stage> first_stage(const std::filesystem::path& path, const Options& options = {});
std::shared_ptr<const Stage> first_stage(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                         const ExternalFolder& folder, const Options& options = {});

}  // namespace opentrn::import::onnx
