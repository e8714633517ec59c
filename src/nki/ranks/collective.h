// A collective of nki.collectives in a kernel: what it is asked, its rules, and how a machine issues it.
//
// The collective is no instruction of the program. A machine copies the sources to staging memory in its
// HBM, executes what was recorded so far, meets the other ranks of the group, and copies what it got to the
// destinations. Both copies are dma_copy instructions of the program and what arrived is an input of it, so
// the recorded program of a rank computes its values without the other ranks. Machine::collectives()
// says where in the program each lies; for time these copies are one trigger, see sim/ranks/launch.h.
//
// On two cores (LNC2) operands in HBM belong to both: the collective counts once, both programs take part,
// and everything before it on either core comes before it. Operands in SBUF belong to a core: core i of each
// rank meets core i of the others [assumed].
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/request.h"
#include "nki/machine.h"
#include "nki/ranks.h"
#include "numerics/ops.h"

namespace opentrn::nki {

// One collective of one group, in the order in which they were computed.
struct CollectiveRecord {
  std::string function;  // of nki.collectives
  std::string what;      // operation, operands and groups
  std::vector<int> group;
  int core = 0;          // of operands in SBUF: which core of each rank
  int64_t bytes = 0;     // of one rank's sources
  bool on_chip = false;  // operands are in SBUF
  int priority = -1;     // none
  // What the plans that compute and time it do, all at once; ranks are numbered as in `group`.
  std::vector<collectives::Request> requests;
  bool lengths_assumed = false;  // of a v-form without values: whole sources, in equal parts
  std::string computed_by;       // the algorithm that computed the values; empty where none were computed
  SourceLocation where;          // of the first rank of the group
};

// Of a launch, in the order in which they were computed.
std::vector<CollectiveRecord> records_of(const Ranks& ranks);

// Which ranks a permute is between: the pairs that its call states, or (an implicit one) the neighbours of a
// ring, where it moves what they have or adds it to what the next one has.
enum class Permute : uint8_t { kPairs, kRing, kReducingRing };

struct Collective {
  collectives::Kind kind = collectives::Kind::kAllReduce;  // no broadcast and no reduce, which NKI has not
  Permute permute = Permute::kPairs;                       // of kPermute
  // By tensor; of implicit permutes by channel. `srcs1`: of kReducingRing.
  std::vector<TensorView> srcs, srcs1, dsts;
  std::vector<std::vector<int64_t>> groups;
  std::vector<std::pair<int64_t, int64_t>> pairs;  // kPairs: source and target
  AluOp op = AluOp::kAdd;
  int64_t dim = 0;
  std::vector<int64_t> channels = {0};
  std::optional<TensorView> metadata;
  bool recv_counts_known = false, has_rdispls = false;
  int64_t priority = -1;  // none
  std::string name;       // of the instruction
};

// A call without operands of a function of nki.collectives. An internal fault for any other name.
Collective collective_named(std::string_view function);
std::string_view name_of(const Collective& call);

bool reduces(const Collective& call);
bool is_v(const Collective& call);         // lengths that metadata tensors say
bool is_implicit(const Collective& call);  // a permute along a ring
bool is_by_pairs(const Collective& call);  // a permute that states its pairs

// Refuses what the documentation refuses: Fault{kProgram} "collectives.*".
void check(const Collective& call, const Machine& machine);
// Refuses a channel that the first of the groups does not have.
void check_channel(const Collective& call, const Machine& machine, int64_t channel);
// The group of `rank`: for kPermute all ranks of its pairs, or nothing.
std::vector<int> group_of(const Collective& call, int rank);
// What has to be equal on all ranks, in words: "all_reduce(add) of float32[128, 512] in HBM over [[0, 1]]".
std::string describe(const Collective& call);

// The ranks of the ring of a channel, each sending to the next. In the order of the group for even channels
// and against it for odd ones [assumed: AWS leaves the order to the runtime].
std::vector<int> ring(std::vector<int> group, int64_t channel);
// The rank whose data `rank` holds in an iteration of the ring: its own in iteration 0.
int64_t processing_rank(const std::vector<int>& ring, int rank, int64_t iteration);

// What a rank brings: the bytes of its operands, dense, and room for what it gets.
struct Contribution {
  const Collective* call = nullptr;
  std::vector<std::span<const std::byte>> in, in1;
  std::vector<std::span<std::byte>> out;
  std::vector<uint32_t> metadata;  // row-major
  // One byte for each of `in`, not 0 where nothing has written it, and so of `out`; empty where all is.
  std::vector<std::vector<std::byte>> unwritten_in, unwritten_out;
  // Filled in: of v-forms the elements from each rank of the group, of permutes whether anything arrives.
  std::vector<int64_t> received;
  std::vector<bool> receives;
  size_t record = 0;  // in Ranks::records()
};

// Computes what the group's members get, and what they receive; in the order of the group. Returns the name
// of the algorithm. Fault "sim.uninitialised_read" for a sum of what nothing has written.
std::string compute(const std::vector<int>& group, std::span<Contribution* const> members,
                    const RankLayout& layout);
// What is asked of plans: of implicit permutes one request for each channel. `members` in the order of the
// group; where they bring no metadata, the lengths of a v-form are those of whole sources in equal parts.
std::vector<collectives::Request> requests_of(const std::vector<int>& group,
                                              std::span<Contribution* const> members);

// Records and executes; see the head. Blocks until the group has met.
void issue(Machine& machine, const Collective& call, isa::LocationId location);

}  // namespace opentrn::nki
