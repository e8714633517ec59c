// The two exchanges that collectives are made of, among any members of a group: parts gathered at all of
// them, and parts reduced, each at the member that owns it. Algorithms are written for these once, and serve
// whole collectives, or one stage of a hierarchical one.
//
// Positions are bytes of a message that all members share, as the output of an all-gather or the input of a
// reduce-scatter. Where a position lies in the memory of a member, a View says.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace opentrn::collectives {

struct Range {
  int64_t offset = 0, bytes = 0;
  friend bool operator==(const Range&, const Range&) = default;
};
using Ranges = std::vector<Range>;

// Part `index` of `parts` nearly equal ones, cut between elements.
Range part_of(Range range, int parts, int index, int element_bytes);
Ranges part_of(const Ranges& ranges, int parts, int index, int element_bytes);
int64_t bytes_of(const Ranges& ranges);
// Sorted, neighbours joined.
Ranges joined_ranges(Ranges ranges);

// A slice of the memory of a member: of its rank, at a position.
using View = std::function<Slice(int member, int64_t position)>;
// Position p is byte p + shift of the buffer.
View view_of(Buffer buffer, int64_t shift = 0);
// Scratch memory from `offset` on, with the positions of `ranges` one after the other.
View packed_view(int64_t offset, const Ranges& ranges);

struct Exchange {
  std::vector<int> members;   // ranks
  std::vector<Ranges> parts;  // [member]: what it brings (gather) or owns in the end (reduce)
  View source, target;        // may be the same place
  int first_channel = 0;
  int turn = 0;  // which one it is, of those that the ranks of a chip take part in at the same time
};

// Steps of one rank are on channels first_channel to first_channel + channels() - 1.
struct ExchangeAlgorithm {
  std::string name;
  std::function<std::string(const Layout&, const std::vector<int>& members)> why_not;
  std::function<int(const Layout&, const std::vector<int>& members)> channels;
  std::function<void(Builder&, const Layout&, const Exchange&)> gather;
  std::function<void(Builder&, const Layout&, const Exchange&)> reduce;
};

// All-reduce, all-gather and reduce-scatter of a request by one exchange algorithm among all ranks.
std::string why_not_whole(const ExchangeAlgorithm& exchange, const Request& request, const Layout& layout);
Plan whole_plan(const ExchangeAlgorithm& exchange, const Request& request, const Layout& layout);
Algorithm whole_algorithm(const ExchangeAlgorithm& exchange);

// 0, 1, ...
std::vector<int> all_ranks(int ranks);

// Copies of ranges from one member to another, neighbours together.
void copy_ranges(Builder& builder, int channel, const Exchange& exchange, const View& from_view, int from,
                 int to, const Ranges& ranges);

// Copies what each member brings to its own target, where that is another place.
void keep_own_parts(Builder& builder, const Exchange& exchange, int channel);

#define OPENTRN_STAGE(stem) const ExchangeAlgorithm& stem##_exchange();
#define OPENTRN_EXCHANGE(stem) const ExchangeAlgorithm& stem##_exchange();
#define OPENTRN_ALGORITHM(stem)
#include "collectives/algorithms.def"
#undef OPENTRN_STAGE
#undef OPENTRN_EXCHANGE
#undef OPENTRN_ALGORITHM

// Those that are stages of other algorithms, and one of them by its name: null for none.
const std::vector<const ExchangeAlgorithm*>& stages();
const ExchangeAlgorithm* find_stage(const std::string& name);
// "mesh, ring"
std::string names_of_stages();

}  // namespace opentrn::collectives
