// What a collective computes, by its definition: each output byte range from the inputs that it is made of.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/arithmetic.h"
#include "collectives/values.h"

namespace opentrn::collectives {

void reference(const Request& request, std::span<const RankBuffers> buffers) {
  std::vector<int> ranks(static_cast<size_t>(request.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  reference(request, buffers, ranks);
}

void reference(const Request& request, std::span<const RankBuffers> buffers, std::span<const int> ranks) {
  check(request);
  check_buffers(request, buffers, ranks);
  // Outputs may lie where inputs do.
  std::vector<std::vector<std::byte>> inputs;
  for (const RankBuffers& one : buffers) inputs.emplace_back(one.input.begin(), one.input.end());
  // What all ranks together give is the same at every rank that has it: computed once. By place and size.
  std::map<std::pair<int64_t, int64_t>, const std::byte*> reduced;
  for (const int rank : ranks)
    for (const Contribution& part : expected_output(request, rank)) {
      std::byte* to = buffers[static_cast<size_t>(rank)].output.data() + part.offset;
      if (part.all_ranks) {
        const auto [found, is_new] = reduced.try_emplace({part.input_offset, part.bytes}, to);
        if (!is_new) {
          std::copy_n(found->second, part.bytes, to);
          continue;
        }
      }
      std::vector<const std::byte*> sources;
      for (int source = 0; source < request.ranks; ++source)
        if (part.all_ranks || source == part.source)
          sources.push_back(inputs[static_cast<size_t>(source)].data() + part.input_offset);
      if (sources.size() == 1)
        std::copy_n(sources[0], part.bytes, to);
      else
        reduce_elements(request.reduction, request.dtype, sources, to, static_cast<size_t>(part.bytes));
    }
}

}  // namespace opentrn::collectives
