// The memories in which a plan runs: inputs and outputs of the caller, scratch memory of its own.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "collectives/plan.h"
#include "collectives/values.h"

namespace opentrn::collectives {

class Memories {
 public:
  // Of `ranks`, which this process holds: `buffers` has one for each rank of the plan, of which only theirs
  // are looked at. Their sizes have been checked. Inputs that lie where any of these ranks' outputs do are
  // copied first.
  Memories(const Plan& plan, std::span<const RankBuffers> buffers, std::span<const int> ranks);

  // Of a rank that this process holds.
  std::byte* at(int rank, const Slice& slice) const;

  // Results of a plan in place were made in memory of its own: puts them where they belong.
  void finish() const;

 private:
  std::byte* own(size_t bytes);
  void prepare(int rank);
  void prepare_in_place(int rank, std::span<const std::byte> input, std::span<const std::byte> output);
  bool is_in_an_output(std::span<const std::byte> input) const;

  const Plan& plan_;
  std::span<const RankBuffers> buffers_;
  std::vector<int> ranks_;
  std::vector<std::array<std::byte*, 3>> bases_;  // [rank][buffer]
  std::vector<std::unique_ptr<std::byte[]>> owned_;
};

}  // namespace opentrn::collectives
