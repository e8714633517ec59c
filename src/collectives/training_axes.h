// Where the axes of a job lie on its units, and the groups of ranks that differ in some of them only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/training.h"

namespace opentrn::collectives {

// Its ranks are `stride` apart. An even one is the same ranks of each unit that it meets, and as many of
// them: `inner` of a unit in each of `outer` units.
struct PlacedAxis {
  std::string name;
  int size = 1, stride = 1;
  bool is_even = true;
  int inner = 1, inner_stride = 1;  // ranks of a unit
  int outer = 1, outer_stride = 1;  // units
};

class PlacedAxes {
 public:
  // An input fault for axes that are not those of so many ranks.
  PlacedAxes(const std::vector<Axis>& axes, int ranks_of_unit, int units);

  // Those of a collective, by stride. Neighbours that do not lie evenly, but do together, are one; so are all
  // neighbours with `joins`.
  std::vector<PlacedAxis> over(const TrainingStep& step, bool joins) const;
  // The ranks of each group, the first axis fastest.
  std::vector<std::vector<int>> groups(const std::vector<PlacedAxis>& over) const;
  // Of even axes: the ranks of a unit that each group of the unit has.
  std::vector<std::vector<int>> groups_of_unit(const std::vector<PlacedAxis>& over) const;

 private:
  PlacedAxis placed(std::string name, int size, int stride) const;

  int ranks_of_unit_, units_;
  std::vector<PlacedAxis> axes_;
};

bool is_even(const std::vector<PlacedAxis>& over);
int ranks_of_group(const std::vector<PlacedAxis>& over);

}  // namespace opentrn::collectives
