// What a collective is asked, and the rules of nki/api/nki/collectives (SDK 2.32).
#include "nki/ranks/collective.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/core_features.h"

namespace opentrn::nki {

namespace {

using collectives::Kind;

struct Function {
  std::string_view name;
  Kind kind;
  Permute permute = Permute::kPairs;
};
constexpr Function kFunctions[] = {
    {"all_reduce", Kind::kAllReduce},
    {"all_gather", Kind::kAllGather},
    {"reduce_scatter", Kind::kReduceScatter},
    {"all_to_all", Kind::kAllToAll},
    {"all_gather_v", Kind::kAllGatherV},
    {"all_to_all_v", Kind::kAllToAllV},
    {"collective_permute", Kind::kPermute},
    {"collective_permute_implicit", Kind::kPermute, Permute::kRing},
    {"collective_permute_implicit_reduce", Kind::kPermute, Permute::kReducingRing},
};
constexpr int kPriorities = 4;            // classes of service [doc: priority, 0-3]
constexpr int64_t kChannelsOfServer = 4;  // of groups of all devices of a server
constexpr int64_t kChannels = 2;
constexpr size_t kGatherVRanks = 4;  // "Each rank-list must have exactly 4 ranks"
constexpr int kLogicalCoreOfV = 2;   // "Only LNC=2 is supported."

class Rules {
 public:
  Rules(const Collective& call, const Machine& machine)
      : call_(call), machine_(machine), name_(name_of(call)) {}

  void check() {
    operands();
    memory();
    priority();
    groups();
    if (call_.kind == Kind::kPermute) permute();
    if (is_v(call_))
      v_form();
    else
      shapes();
  }

 private:
  [[noreturn]] void fail(std::string_view rule, std::string message, std::string hint = {}) const {
    throw Fault(FaultKind::kProgram, fmt::format("collectives.{}", rule),
                fmt::format("{}: {}", name_, message), std::move(hint));
  }

  void operands() {
    const size_t count = call_.dsts.size();
    if (count == 0) fail("operands", "dsts is empty", "pass lists of tensors, srcs=[src], dsts=[dst]");
    if (call_.srcs.size() != count)
      fail("operands", fmt::format("{} sources and {} destinations", call_.srcs.size(), count));
    const bool two = call_.permute == Permute::kReducingRing;
    if (two && call_.srcs1.size() != count)
      fail("operands", fmt::format("{} tensors in srcs1_by_channel and {} in dsts_by_channel",
                                   call_.srcs1.size(), count));
    for (size_t i = 0; i < count; ++i) {
      same_type(call_.srcs[i], call_.dsts[i]);
      if (two) same_type(call_.srcs1[i], call_.dsts[i]);
    }
    if (!reduces(call_)) return;
    if (call_.op != AluOp::kAdd && call_.op != AluOp::kMinimum && call_.op != AluOp::kMaximum)
      fail("op", "op is not one of nl.add, nl.minimum and nl.maximum");
    for (const TensorView& src : call_.srcs) {
      if (!is_float(src.dtype) && !is_integer(src.dtype))
        fail("dtype", fmt::format("{} has no sums or order", src.describe()), "reduce floats or integers");
      if (src.dtype != call_.srcs[0].dtype)
        fail("dtype",
             fmt::format("one call reduces {} and {}", opentrn::name(call_.srcs[0].dtype),
                         opentrn::name(src.dtype)),
             "coalesce tensors of one type only");
    }
  }

  void same_type(const TensorView& src, const TensorView& dst) const {
    if (src.dtype != dst.dtype)
      fail("dtype",
           fmt::format("from {} to {}: a collective converts nothing", src.describe(), dst.describe()),
           "give both the same dtype, and cast before or after");
  }

  void memory() {
    std::vector<const TensorView*> all;
    for (const auto* list : {&call_.srcs, &call_.srcs1, &call_.dsts})
      for (const TensorView& view : *list) all.push_back(&view);
    on_chip_ = all[0]->on_chip();
    for (const TensorView* view : all) {
      if (view->storage->space == isa::MemorySpace::kPsum)
        fail("memory", fmt::format("{}: operands are in HBM or SBUF", view->describe()),
             "copy it to SBUF first");
      if (view->on_chip() != on_chip_)
        fail("memory", fmt::format("{} and {}: all operands are in HBM, or all in SBUF", all[0]->describe(),
                                   view->describe()));
      one_memory(*view);
    }
    if (!on_chip_) return;
    if (call_.kind == Kind::kAllToAll || is_by_pairs(call_) || is_v(call_))
      fail("memory", fmt::format("{}: operands are in HBM", all[0]->describe()),
           "copy to a tensor in nl.shared_hbm");
    if (call_.dsts.size() > 1 && !is_implicit(call_))
      fail("coalesced", fmt::format("{} tensors in SBUF; several in one call are in HBM", call_.dsts.size()),
           "call it for each tensor");
  }

  void one_memory(const TensorView& view) const {
    if (on_chip_) return;
    if (machine_.core_count() > 1 && view.storage->space != isa::MemorySpace::kSharedHbm)
      fail("memory",
           fmt::format("{}: in a launch on two cores a collective counts once for both, so operands are "
                       "tensors that both have",
                       view.describe()),
           "make it with buffer=nl.shared_hbm");
    // [test/integration/nkilib/experimental/collectives/test_collectives.py of nki-library: "Collective
    // instruction cannot read/write IO tensors"]
    if (view.storage->host_bytes && widest() > 1)
      fail("argument", fmt::format("{} is an argument of the kernel", view.describe()),
           "copy it to a tensor of the kernel's own in nl.shared_hbm with nisa.dma_copy");
  }

  size_t widest() const {
    size_t ranks = is_by_pairs(call_) ? 2 : 0;
    for (const auto& group : call_.groups) ranks = std::max(ranks, group.size());
    return ranks;
  }

  void priority() const {
    if (call_.priority < 0) return;
    if (call_.priority >= kPriorities)
      fail("priority", fmt::format("priority {}; it is 0 to {}", call_.priority, kPriorities - 1));
    if (!arch::core_features(machine_.generation()).dma_classes)
      fail(
          "priority",
          fmt::format("priority is for NeuronCore-v4 and later; this is v{}", version(machine_.generation())),
          "leave priority out");
  }

  void known_rank(int64_t rank) const {
    const int ranks = machine_.rank_count();
    if (rank < 0) fail("groups", fmt::format("there is no rank {}", rank));
    if (rank >= ranks)
      fail(
          "ranks",
          fmt::format("rank {} takes part, and the launch has {} rank{}", rank, ranks, ranks == 1 ? "" : "s"),
          fmt::format("launch {} ranks: opentrn.run(kernel, ..., ranks={}) or "
                      "nki.simulate(kernel, ranks={})",
                      rank + 1, rank + 1, rank + 1));
  }

  void groups() const {
    if (is_by_pairs(call_)) return pairs();
    std::set<int64_t> seen;
    for (const auto& group : call_.groups) {
      if (group.empty() || group.size() != call_.groups[0].size())
        fail("groups", fmt::format("groups of {} and {} ranks", call_.groups[0].size(), group.size()),
             "give all groups the same number of ranks");
      for (const int64_t rank : group) {
        known_rank(rank);
        if (!seen.insert(rank).second)
          fail("groups", fmt::format("rank {} is in the groups {} twice", rank, call_.groups));
      }
    }
    if (!seen.contains(machine_.rank()))
      fail("groups",
           fmt::format("rank {} calls it and is in none of the groups {}", machine_.rank(), call_.groups),
           "put every rank of the launch into one group");
  }

  void pairs() const {
    std::set<int64_t> sources, targets;
    if (call_.pairs.empty()) fail("pairs", "source_target_pairs is empty");
    for (const auto& [source, target] : call_.pairs) {
      known_rank(source);
      known_rank(target);
      if (!sources.insert(source).second || !targets.insert(target).second)
        fail("pairs",
             fmt::format("({}, {}) is not the only pair of its {}", source, target,
                         targets.contains(target) ? "source or target" : "source"),
             "a rank is the source of one pair at most, and the target of one");
    }
  }

  void permute() const {
    if (is_by_pairs(call_)) {
      if (call_.dsts.size() != 1)
        fail("coalesced", fmt::format("{} tensors; it takes one", call_.dsts.size()),
             "call it for each tensor");
      return;
    }
    for (size_t i = 0; i < call_.channels.size(); ++i)
      if (call_.channels[i] != static_cast<int64_t>(i))
        fail("channels", fmt::format("channel_ids are {}; they are 0, 1, ... in order", call_.channels));
    if (call_.channels.size() != call_.dsts.size())
      fail("channels",
           fmt::format("{} channels and {} destinations", call_.channels.size(), call_.dsts.size()));
    check_channel(call_, machine_, static_cast<int64_t>(call_.channels.size()) - 1);
  }

  void shapes() const {
    if (call_.dim < 0 || call_.dim > 1 || (call_.dim == 1 && !may_be_columns()))
      fail("dim", fmt::format("collective_dim is {}; {}", call_.dim,
                              call_.kind == Kind::kAllGather
                                  ? "it is 0 for tensors in HBM, 0 or 1 for tensors in SBUF"
                                  : "it is 0"));
    const int64_t ranks = static_cast<int64_t>(widest());
    for (size_t i = 0; i < call_.dsts.size(); ++i) {
      if (on_chip_ && call_.kind != Kind::kPermute && call_.srcs[i].rank() != 2)
        fail("shape", fmt::format("{} has {} dimensions; in SBUF it has two", call_.srcs[i].describe(),
                                  call_.srcs[i].rank()));
      shape(call_.srcs[i], call_.dsts[i], ranks);
      if (call_.permute == Permute::kReducingRing) shape(call_.srcs1[i], call_.dsts[i], ranks);
    }
  }

  bool may_be_columns() const { return call_.kind == Kind::kAllGather && on_chip_; }

  void shape(const TensorView& src, const TensorView& dst, int64_t ranks) const {
    std::vector<int64_t> expected;
    for (int i = 0; i < src.rank(); ++i) expected.push_back(src.size(i));
    const int64_t whole = expected[static_cast<size_t>(call_.dim)];
    if (call_.kind == Kind::kAllGather) expected[static_cast<size_t>(call_.dim)] = whole * ranks;
    if (call_.kind == Kind::kReduceScatter || call_.kind == Kind::kAllToAll) {
      if (whole % ranks != 0)
        fail("shape", fmt::format("dimension 0 of {} does not divide by {} ranks", src.describe(), ranks));
      if (call_.kind == Kind::kReduceScatter) expected[0] = whole / ranks;
    }
    std::vector<int64_t> got;
    for (int i = 0; i < dst.rank(); ++i) got.push_back(dst.size(i));
    if (got != expected)
      fail("shape", fmt::format("from {} over {} ranks to {}; the destination has the shape {}",
                                src.describe(), ranks, dst.describe(), expected));
  }

  void v_form() const {
    const auto count = static_cast<int64_t>(widest());
    if (call_.dsts.size() != 1)
      fail("coalesced", fmt::format("{} tensors; it takes one", call_.dsts.size()),
           "call it for each tensor");
    if (machine_.core_count() != kLogicalCoreOfV &&
        (call_.kind == Kind::kAllGatherV || machine_.rank_layout().switched))
      fail("lnc", "it runs on logical cores of two physical ones", "launch kernel[2], or lnc=2");
    if (call_.kind == Kind::kAllGatherV)
      gather_v(count);
    else
      to_all_v();
    metadata(count);
    const TensorView& dst = call_.dsts[0];
    if (dst.element_count() % count != 0)
      fail("shape", fmt::format("{} is not {} slots of equal length", dst.describe(), count));
    for (const TensorView* view : {&call_.srcs[0], &dst})
      if (!view->is_contiguous() || view->indirection)
        fail("shape", fmt::format("{} is not a contiguous run of elements", view->describe()));
  }

  void gather_v(int64_t count) const {
    if (call_.has_rdispls) fail("has_rdispls", "has_rdispls=True is not supported", "leave it out");
    if (count != static_cast<int64_t>(kGatherVRanks))
      fail("groups", fmt::format("groups of {} ranks; they have {}", count, kGatherVRanks));
  }

  void to_all_v() const {
    const RankLayout& layout = machine_.rank_layout();
    const int server = layout.per_server.back();
    if (call_.has_rdispls && !layout.switched)
      fail("has_rdispls", "has_rdispls=True needs chips on a NeuronSwitch, as Trn3 has", "leave it out");
    for (const auto& group : call_.groups) {
      if (layout.switched) {
        const bool sequence =
            std::ranges::adjacent_find(group, [](int64_t a, int64_t b) { return b != a + 1; }) == group.end();
        if (!sequence || group[0] % layout.per_chip != 0 ||
            group.size() % static_cast<size_t>(layout.per_chip) != 0 ||
            group.size() <= static_cast<size_t>(layout.per_chip))
          fail("groups",
               fmt::format(
                   "{} is not a sequence of all ranks of two or more devices, which have {} ranks each",
                   group, layout.per_chip));
        continue;
      }
      std::set<int64_t> servers;
      for (const int64_t rank : group)
        if (rank % server != group[0] % server || !servers.insert(rank / server).second)
          fail("groups",
               fmt::format("{} are not the same rank of different servers, which have {} ranks each", group,
                           server),
               "on chips without a NeuronSwitch it works between servers only; all_to_all works within one");
    }
  }

  void metadata(int64_t count) const {
    if (!call_.metadata) fail("metadata", "there is no metadata_tensor");
    const TensorView& view = *call_.metadata;
    const int64_t rows = call_.has_rdispls ? 4 : 3;
    std::vector<int64_t> got;
    for (int i = 0; i < view.rank(); ++i) got.push_back(view.size(i));
    std::vector<int64_t> expected = {rows, count};
    if (view.on_chip()) expected.insert(expected.begin(), 1);
    if (view.dtype != DType::kUint32 || got != expected || view.storage->space == isa::MemorySpace::kPsum)
      fail("metadata", fmt::format("{}; it is uint32{} in {}", view.describe(), expected,
                                   view.on_chip() ? "sbuf" : "HBM"));
    if (!view.on_chip()) one_memory(view);
  }

  const Collective& call_;
  const Machine& machine_;
  std::string name_;
  bool on_chip_ = false;
};

}  // namespace

Collective collective_named(std::string_view function) {
  const auto* row = std::ranges::find(kFunctions, function, &Function::name);
  OPENTRN_CHECK(row != std::end(kFunctions), "no collective is called {}", function);
  Collective call;
  call.kind = row->kind;
  call.permute = row->permute;
  return call;
}

std::string_view name_of(const Collective& call) {
  return std::ranges::find_if(
             kFunctions,
             [&](const Function& row) { return row.kind == call.kind && row.permute == call.permute; })
      ->name;
}

bool reduces(const Collective& call) {
  return collectives::reduces(call.kind) || call.permute == Permute::kReducingRing;
}

bool is_v(const Collective& call) { return call.kind == Kind::kAllGatherV || call.kind == Kind::kAllToAllV; }

bool is_implicit(const Collective& call) {
  return call.kind == Kind::kPermute && call.permute != Permute::kPairs;
}

bool is_by_pairs(const Collective& call) {
  return call.kind == Kind::kPermute && call.permute == Permute::kPairs;
}

void check(const Collective& call, const Machine& machine) { Rules(call, machine).check(); }

void check_channel(const Collective& call, const Machine& machine, int64_t channel) {
  const RankLayout& layout = machine.rank_layout();
  const int64_t ranks = call.groups.empty() ? 0 : static_cast<int64_t>(call.groups[0].size());
  const bool whole_servers = std::ranges::find(layout.per_server, ranks) != layout.per_server.end() ||
                             (ranks > 0 && ranks % layout.per_server.back() == 0);
  const int64_t limit = whole_servers ? kChannelsOfServer : kChannels;
  if (channel < 0 || channel >= limit)
    throw Fault(
        FaultKind::kProgram, "collectives.channels",
        fmt::format("{}: channel {}; groups of {} ranks have {} channels, and those of all devices of "
                    "a server {}",
                    name_of(call), channel, ranks, kChannels, kChannelsOfServer));
}

std::vector<int> group_of(const Collective& call, int rank) {
  if (is_by_pairs(call)) {
    std::set<int> ranks;
    for (const auto& [source, target] : call.pairs) {
      ranks.insert(static_cast<int>(source));
      ranks.insert(static_cast<int>(target));
    }
    if (!ranks.contains(rank)) return {};
    return {ranks.begin(), ranks.end()};
  }
  for (const auto& group : call.groups)
    if (std::ranges::find(group, rank) != group.end()) return {group.begin(), group.end()};
  return {};
}

std::string describe(const Collective& call) {
  std::string text(name_of(call));
  if (reduces(call))
    text += fmt::format("({})", call.op == AluOp::kAdd       ? "add"
                                : call.op == AluOp::kMinimum ? "minimum"
                                                             : "maximum");
  std::string separator = " of ";
  for (const TensorView& src : call.srcs) {
    std::vector<int64_t> shape;
    for (int i = 0; i < src.rank(); ++i) shape.push_back(src.size(i));
    text += separator + std::string(opentrn::name(src.dtype));
    if (!is_v(call)) text += fmt::format("{}", shape);
    separator = ", ";
  }
  text += call.srcs[0].on_chip() ? " in SBUF" : " in HBM";
  if (call.dim != 0) text += fmt::format(", dimension {}", call.dim);
  if (is_by_pairs(call)) return text + fmt::format(" by the pairs {}", call.pairs);
  return text + fmt::format(" over {}", call.groups);
}

std::vector<int> ring(std::vector<int> group, int64_t channel) {
  if (channel % 2 != 0) std::ranges::reverse(group);
  return group;
}

int64_t processing_rank(const std::vector<int>& ring, int rank, int64_t iteration) {
  const auto count = static_cast<int64_t>(ring.size());
  const int64_t position = std::ranges::find(ring, rank) - ring.begin();
  return ring[static_cast<size_t>(((position - iteration) % count + count) % count)];
}

std::vector<CollectiveRecord> records_of(const Ranks& ranks) {
  std::vector<CollectiveRecord> all;
  for (const auto& record : ranks.records()) all.push_back(*record);
  return all;
}

}  // namespace opentrn::nki
