// A model whose shapes depend on data, as it is run: the stages of a chain with the answers that led to each.
//
// The importer cuts the model (import/onnx/stages.h) and makes the stage behind a cut for given answers. Here
// each stage is made once for the same answers, knows which sizes it is for, and moves the values from one to
// the next.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "graph/literal.h"
#include "import/onnx/stages.h"

namespace opentrn::model {

using import::onnx::Ask;
using import::onnx::Slot;
using Slots = std::map<Slot, graph::Literal>;
// Answers that are one whole number, by name, in the order in which they were given.
using Answered = std::vector<std::pair<std::string, int64_t>>;

class Stage {
 public:
  // The first stage of a chain. All others live as long as any stage of the chain.
  static std::shared_ptr<Stage> first(std::shared_ptr<const import::onnx::Stage> imported);

  const import::onnx::Stage& imported() const { return *imported_; }
  const std::shared_ptr<const import::onnx::Stage>& shared_import() const { return imported_; }
  size_t number() const { return number_; }  // from 1 on
  const Answered& sizes() const { return sizes_; }
  std::string sizes_text() const;  // "boxes=5, keep=3"
  // "" of the first stage, else SHA-256 of the answers, by which it is known in files and in the cache.
  const std::string& key() const { return key_; }
  // The stage in front of it; nullptr of the first.
  std::shared_ptr<Stage> before() const;
  // Slots of the stage before whose leading rows were counted, with how many there are.
  const std::map<Slot, int64_t>& counted() const { return counted_; }

  // A literal for each of the asks; the same object for the same ones. Input fault for an answer of another
  // type, or a count that cannot be.
  std::shared_ptr<Stage> next(const std::vector<graph::Literal>& answers);
  // The same for asks that are numbers of rows, all of them.
  std::shared_ptr<Stage> next_of_counts(const std::vector<int64_t>& counts);
  bool asks_for_counts_alone() const;

  // What it takes from the slots, in the order of its arguments.
  std::vector<graph::Literal> arguments(const Slots& slots) const;
  // Puts a literal for each of its outputs into its slot; of rows that are counted as many as there are.
  void store(const std::vector<graph::Literal>& results, Slots& slots) const;
  std::vector<graph::Literal> answers(const Slots& slots) const;

 private:
  struct Chain;
  Stage(Chain& chain, std::shared_ptr<const import::onnx::Stage> imported)
      : chain_(chain), imported_(std::move(imported)) {}

  Chain& chain_;
  std::shared_ptr<const import::onnx::Stage> imported_;
  Answered sizes_;
  std::string key_;
  size_t number_ = 1;
  Stage* before_ = nullptr;
  std::map<Slot, int64_t> counted_;
};

// The answer to an ask that is a number of rows.
graph::Literal count_literal(const Ask& ask, int64_t count);

// Words for a person: `boxes (up to 100), by NonMaxSuppression node 'nms'`.
std::string ask_text(const Ask& ask);

// Runs a stage: a literal for each of its outputs from those for its arguments.
using ExecuteStage =
    std::function<std::vector<graph::Literal>(const std::shared_ptr<Stage>&, std::vector<graph::Literal>)>;

struct StagedResults {
  std::vector<graph::Literal> results;       // of the model
  std::vector<std::shared_ptr<Stage>> path;  // the stages that made them
};

// One inference: stage after stage, each for what the one before it answers. A stage without outputs is not
// executed.
StagedResults run_stages(const std::shared_ptr<Stage>& first, const std::vector<graph::Literal>& inputs,
                         const ExecuteStage& execute);

// The numbers of the stage's arguments that decide what is computed, and those on which a value depends that
// the host reads behind it. In order.
std::vector<size_t> control_inputs(const Stage& first);

// What dimensions of a chain can be compiled ahead for, and the stages of those sizes: the first, and for
// every combination of numbers of rows the ones behind it as far as `sizes` name all that is asked. `open`:
// names of the dimensions of inputs. Input fault "onnx.dimension" for a name that is none.
std::vector<std::shared_ptr<Stage>> stages_ahead(const std::shared_ptr<Stage>& first,
                                                 const std::map<std::string, std::vector<int64_t>>& sizes,
                                                 const std::vector<std::string>& open);

}  // namespace opentrn::model
