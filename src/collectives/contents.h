// What a range of memory holds, by whose inputs it is made of: the values of the proof.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/plan.h"

namespace opentrn::collectives {

// Byte x holds byte x + shift of the inputs of the ranks in `set`, reduced.
struct Content {
  int32_t set = -1;  // of ContentSets; -1: nothing was written
  int64_t shift = 0;
};

// The sets of ranks whose inputs have gone into some range, each kept once.
class ContentSets {
 public:
  ContentSets(const std::vector<int>& ranks_of_plans);

  int32_t of_rank(int plan, int rank) const { return first_[static_cast<size_t>(plan)] + rank; }
  // The set of all ranks of a plan.
  int32_t all_of(int plan);
  // Both reduced into one by `step`. What no output may hold, a rank twice or different bytes summed, is a
  // set that remembers why.
  Content join(const Content& a, const Content& b, int plan, StepRef step);

  // What byte `position` holds, in words.
  std::string describe(const Content& content, int64_t position) const;

 private:
  struct Set {
    int32_t plan = 0;
    std::vector<uint64_t> ranks;
    std::string flaw;  // why it is nothing that a request can ask for
  };
  int32_t keep(Set set);
  Content flawed(std::string why, int plan, int64_t shift);

  std::vector<int32_t> first_;
  std::vector<int> ranks_of_plans_;
  std::vector<Set> sets_;
  std::map<std::pair<int32_t, std::vector<uint64_t>>, int32_t> by_ranks_;
  std::unordered_map<uint64_t, int32_t> joined_;
};

}  // namespace opentrn::collectives
