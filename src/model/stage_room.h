// Stages that were compiled ahead for given numbers of rows, and which of them may run in the place of a
// smaller one.
//
// A last stage for 5 rows runs in the program for 8 when three rows of padding reach nothing but rows of the
// results that are cut off again. That is proved on the graph (compiler/analysis/padding.h), once for each
// larger stage.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/stage.h"

namespace opentrn::model {

// A result whose axis has as many elements as rows lie in the slot.
struct CountedAxis {
  size_t result = 0;
  int64_t axis = 0;
  Slot slot = 0;
};

// The larger stage that takes a smaller one's values, padded.
struct StageRoom {
  std::shared_ptr<Stage> larger;
  std::vector<CountedAxis> results;

  // The smaller one's arguments with rows of zeros at their end.
  std::vector<graph::Literal> padded(const Stage& smaller, std::vector<graph::Literal> arguments) const;
  // The larger one's results without the rows of padding.
  std::vector<graph::Literal> cut(const Stage& smaller, std::vector<graph::Literal> results) const;
};

class StageRooms {
 public:
  // `prepared`: a stage's graph as compiler::prepare() makes it.
  explicit StageRooms(std::function<graph::Module(const graph::Module&)> prepared)
      : prepared_(std::move(prepared)) {}

  // Numbers of rows, by name, for which stages are compiled.
  void set_sizes(std::map<std::string, std::vector<int64_t>> sizes);
  // The smallest stage that was compiled ahead for at least the stage's rows, where padding it is proved to
  // reach nothing else. Of last stages alone: what a padded one asks for would count the padding.
  std::optional<StageRoom> room_for(const Stage& stage);
  // Executes stages with `execute`, those that are not compiled in a larger one where there is room. `larger`
  // takes which, by the key of the stage in whose place it ran. The rooms outlive what is returned.
  ExecuteStage executing(ExecuteStage execute, std::function<bool(const std::shared_ptr<Stage>&)> is_compiled,
                         std::map<std::string, std::shared_ptr<Stage>>& larger);

 private:
  std::optional<std::vector<CountedAxis>> prove(Stage& before, const Stage& larger,
                                                const std::vector<int64_t>& sizes) const;

  std::function<graph::Module(const graph::Module&)> prepared_;
  std::map<std::string, std::vector<int64_t>> sizes_;
  std::mutex mutex_;
  std::map<std::string, std::optional<std::vector<CountedAxis>>> proofs_;  // by the larger stage's key
};

}  // namespace opentrn::model
