// Mesh: every rank to every other at once. A part is received by its owner from all, reduced there in the
// order of the ranks (large groups: see source_of()), and sent to all. One step each way; the bytes of a step
// share the links that they pass. Every rank sends for itself. [assumed: on Trn2, AWS's mesh gathers the
// parts of a chip first]
#include <algorithm>
#include <bit>

#include "collectives/exchange.h"
#include "collectives/mesh.h"

namespace opentrn::collectives {

namespace {

// To every other member a channel: the transfers do not wait for each other. The last one is for moves
// within the rank.
int channels_of_mesh(const Layout&, const std::vector<int>& members) {
  return static_cast<int>(members.size());
}

// The k-th source of the sum of an owner. A DMA sums 16 at most, so the sums of large groups are chains, and
// in the order of the ranks each rank would have another chain: what comes from its neighbours is first in
// one and last in another. Groups of 2^n ranks, larger than those in whose mesh anybody has published times,
// take the sources by their place relative to the owner, digit by digit: a displacement of the machine that
// maps ranks to ranks by their digits then maps chains to chains, and one step stands for all its images.
// [assumed, both]
constexpr int kInOrderOfRanksMax = 32;
int source_of(int owner, int k, int count) { return mesh_is_alike(count) ? owner ^ k : k; }

// Calls send(from, to, channel) for all pairs of members, such that at no time two send to the same one.
template <typename Send>
void for_all_pairs(const Exchange& exchange, Send send) {
  const int count = static_cast<int>(exchange.members.size());
  for (int distance = 1; distance < count; ++distance)
    for (int from = 0; from < count; ++from)
      send(from, (from + distance) % count, exchange.first_channel + distance - 1);
}

void gather_by_mesh(Builder& builder, const Layout&, const Exchange& exchange) {
  const int count = static_cast<int>(exchange.members.size());
  for_all_pairs(exchange, [&](int from, int to, int channel) {
    copy_ranges(builder, channel, exchange, exchange.source, from, to,
                exchange.parts[static_cast<size_t>(from)]);
  });
  keep_own_parts(builder, exchange, exchange.first_channel + count - 1);
}

void reduce_by_mesh(Builder& builder, const Layout&, const Exchange& exchange) {
  const int count = static_cast<int>(exchange.members.size());
  // A slot for what comes from each other member.
  std::vector<int64_t> slots;
  int64_t largest = 0;
  for (const Ranges& part : exchange.parts) largest = std::max(largest, bytes_of(part));
  for (int distance = 1; distance < count; ++distance) slots.push_back(builder.scratch(largest));
  const auto slot = [&](int from, int to) {
    return slots[static_cast<size_t>((from - to + count) % count - 1)];
  };

  for_all_pairs(exchange, [&](int from, int to, int channel) {
    int64_t packed = slot(from, to);
    for (const Range& range : exchange.parts[static_cast<size_t>(to)]) {
      builder.copy(channel,
                   {exchange.members[static_cast<size_t>(from)], exchange.source(from, range.offset)},
                   {exchange.members[static_cast<size_t>(to)], {Buffer::kScratch, packed}}, range.bytes);
      packed += range.bytes;
    }
  });
  for (int owner = 0; owner < count; ++owner) {
    const int rank = exchange.members[static_cast<size_t>(owner)];
    int64_t packed = 0;
    for (const Range& range : exchange.parts[static_cast<size_t>(owner)]) {
      std::vector<At> sources;
      for (int k = 0; k < count; ++k) {
        const int from = source_of(owner, k, count);
        sources.push_back({rank, from == owner ? exchange.source(owner, range.offset)
                                               : Slice{Buffer::kScratch, slot(from, owner) + packed}});
      }
      builder.combine(exchange.first_channel + count - 1, sources,
                      {rank, exchange.target(owner, range.offset)}, range.bytes);
      packed += range.bytes;
    }
  }
}

}  // namespace

bool mesh_is_alike(int members) {
  return members > kInOrderOfRanksMax && std::has_single_bit(static_cast<unsigned>(members));
}

void gather_by_mesh_of_one(Builder& builder, const MeshOfOne& mesh) {
  for (int other = 1; other < mesh.members; ++other) {
    builder.toward(other);
    builder.copy(other - 1, {0, mesh.part(0)}, {0, mesh.part(other)}, mesh.bytes);
    builder.toward(0);
  }
}

void reduce_by_mesh_of_one(Builder& builder, const MeshOfOne& mesh, Slice target) {
  std::vector<At> sources = {{0, mesh.part(0)}};
  for (int other = 1; other < mesh.members; ++other)
    sources.push_back({0, {Buffer::kScratch, builder.scratch(mesh.bytes)}});
  for (int other = 1; other < mesh.members; ++other) {
    builder.toward(other);
    builder.copy(other - 1, {0, mesh.part(other)}, sources[static_cast<size_t>(other)], mesh.bytes);
    builder.toward(0);
  }
  builder.combine(mesh.members - 1, sources, {0, target}, mesh.bytes);
}

const ExchangeAlgorithm& mesh_exchange() {
  static const ExchangeAlgorithm kMesh{"mesh",
                                       [](const Layout&, const std::vector<int>&) { return std::string(); },
                                       channels_of_mesh, gather_by_mesh, reduce_by_mesh};
  return kMesh;
}

}  // namespace opentrn::collectives
