#include "collectives/request.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "collectives/rules.h"

namespace opentrn::collectives {

namespace {

constexpr int64_t kBytesMax = int64_t{1} << 56;  // sums of all buffers stay within 64 bits

void check_size(const Request& request) {
  const std::string_view kind = name_of(request.kind);
  if (request.bytes < 0 || request.bytes > kBytesMax / request.ranks)
    refuse(Rule::kBytes, "{} of {} B on {} ranks; sizes are 0 to 2^56 B in all", kind, request.bytes,
           request.ranks);
  const int element = size_bytes(request.dtype);
  if (request.bytes % element != 0)
    refuse(Rule::kElements, "{} of {} B is not a whole number of elements of {} ({} B each)", kind,
           request.bytes, name(request.dtype), element);
  if (request.kind != Kind::kReduceScatter && request.kind != Kind::kAllToAll) return;
  if (request.bytes % (int64_t{element} * request.ranks) != 0)
    refuse(Rule::kDivides, "{} of {} B of {} cannot be cut in {} equal parts", kind, request.bytes,
           name(request.dtype), request.ranks);
}

void check_counts(const Request& request) {
  const auto ranks = static_cast<size_t>(request.ranks);
  const size_t wanted = request.kind == Kind::kAllGatherV ? ranks : ranks * ranks;
  if (request.bytes != 0)
    refuse(Rule::kCounts, "{} takes its sizes from counts, and {} B beside them", name_of(request.kind),
           request.bytes);
  if (request.counts.size() != wanted)
    refuse(Rule::kCounts, "{} on {} ranks has {} counts; it needs {}", name_of(request.kind), ranks,
           request.counts.size(), wanted);
  const int element = size_bytes(request.dtype);
  int64_t sum = 0;
  for (size_t i = 0; i < wanted; ++i) {
    const int64_t count = request.counts[i];
    if (count < 0 || count > kBytesMax - sum)
      refuse(Rule::kCounts, "count {} of {} is {} B; the sum may be 0 to 2^56 B", i, name_of(request.kind),
             count);
    if (count % element != 0)
      refuse(Rule::kElements, "count {} of {}, {} B, is not a whole number of elements of {} ({} B each)", i,
             name_of(request.kind), count, name(request.dtype), element);
    sum += count;
  }
}

void check_pairs(const Request& request) {
  std::vector<int> source_of(static_cast<size_t>(request.ranks), -1), target_of(source_of);
  for (const auto& [source, target] : request.pairs) {
    for (const int rank : {source, target})
      if (rank < 0 || rank >= request.ranks)
        refuse(Rule::kPairs, "the pair ({}, {}) names rank {}; there are ranks 0 to {}", source, target, rank,
               request.ranks - 1);
    int& sent = target_of[static_cast<size_t>(source)];
    int& received = source_of[static_cast<size_t>(target)];
    if (sent >= 0)
      refuse(Rule::kPairs, "rank {} is the source of two pairs, with targets {} and {}", source, sent,
             target);
    if (received >= 0)
      refuse(Rule::kPairs, "rank {} is the target of two pairs, with sources {} and {}", target, received,
             source);
    sent = target;
    received = source;
  }
}

void check_reduction(const Request& request) {
  const DType dtype = request.dtype;
  const bool is_bitwise = request.reduction == Reduction::kAnd || request.reduction == Reduction::kOr ||
                          request.reduction == Reduction::kXor;
  const bool summable = is_float(dtype) || is_integer(dtype) || dtype == DType::kBool;
  if (!summable || (is_bitwise && is_float(dtype)))
    refuse(Rule::kReduction, "{} cannot reduce elements of {} with {}", name_of(request.kind), name(dtype),
           name_of(request.reduction));
}

int64_t sum_of(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

int64_t count_of(const Request& request, int source, int target) {
  return request
      .counts[static_cast<size_t>(source) * static_cast<size_t>(request.ranks) + static_cast<size_t>(target)];
}

int64_t received_bytes(const Request& request, int rank) {
  int64_t sum = 0;
  for (int source = 0; source < request.ranks; ++source) sum += count_of(request, source, rank);
  return sum;
}

std::span<const int64_t> counts_of(const Request& request, int rank) {
  const auto ranks = static_cast<size_t>(request.ranks);
  return std::span(request.counts).subspan(static_cast<size_t>(rank) * ranks, ranks);
}

std::vector<Contribution> expected_parts(const Request& request, int rank) {
  std::vector<Contribution> parts;
  int64_t offset = 0;
  for (int source = 0; source < request.ranks; ++source) {
    int64_t bytes = 0, input = 0;
    if (request.kind == Kind::kAllGather) {
      bytes = request.bytes;
    } else if (request.kind == Kind::kAllToAll) {
      bytes = request.bytes / request.ranks;
      input = bytes * rank;
    } else if (request.kind == Kind::kAllGatherV) {
      bytes = request.counts[static_cast<size_t>(source)];
    } else {
      bytes = count_of(request, source, rank);
      input = sum_of(counts_of(request, source).first(static_cast<size_t>(rank)));
    }
    if (bytes > 0) parts.push_back({offset, bytes, false, source, input});
    offset += bytes;
  }
  return parts;
}

}  // namespace

bool is_sized(Kind kind) {
  return kind != Kind::kPermute && kind != Kind::kAllGatherV && kind != Kind::kAllToAllV;
}

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduceScatter || kind == Kind::kReduce;
}

int64_t input_bytes(const Request& request, int rank) {
  switch (request.kind) {
    case Kind::kAllGatherV: return request.counts[static_cast<size_t>(rank)];
    case Kind::kAllToAllV: return sum_of(counts_of(request, rank));
    case Kind::kBroadcast: return rank == request.root ? request.bytes : 0;
    default: return request.bytes;
  }
}

int64_t output_bytes(const Request& request, int rank) {
  switch (request.kind) {
    case Kind::kAllGather: return request.bytes * request.ranks;
    case Kind::kReduceScatter: return request.bytes / request.ranks;
    case Kind::kAllGatherV: return sum_of(request.counts);
    case Kind::kAllToAllV: return received_bytes(request, rank);
    case Kind::kReduce: return rank == request.root ? request.bytes : 0;
    default: return request.bytes;
  }
}

void check(const Request& request) {
  constexpr int kRanksMax = 1 << 20;
  if (request.ranks < 1 || request.ranks > kRanksMax)
    refuse(Rule::kRanks, "{} on {} ranks; there may be 1 to {}", name_of(request.kind), request.ranks,
           kRanksMax);
  if (request.kind == Kind::kAllGatherV || request.kind == Kind::kAllToAllV)
    check_counts(request);
  else
    check_size(request);
  if (request.kind == Kind::kPermute) check_pairs(request);
  if (reduces(request.kind)) check_reduction(request);
  const bool has_root = request.kind == Kind::kBroadcast || request.kind == Kind::kReduce;
  if (has_root && (request.root < 0 || request.root >= request.ranks))
    refuse(Rule::kRoot, "the root of {} is rank {}; there are ranks 0 to {}", name_of(request.kind),
           request.root, request.ranks - 1);
}

std::vector<Contribution> expected_output(const Request& request, int rank) {
  switch (request.kind) {
    case Kind::kAllReduce: return {{0, request.bytes, true, 0, 0}};
    case Kind::kReduceScatter: {
      const int64_t bytes = request.bytes / request.ranks;
      return {{0, bytes, true, 0, bytes * rank}};
    }
    case Kind::kBroadcast: return {{0, request.bytes, false, request.root, 0}};
    case Kind::kReduce:
      if (rank != request.root) return {};
      return {{0, request.bytes, true, 0, 0}};
    case Kind::kPermute:
      for (const auto& [source, target] : request.pairs)
        if (target == rank) return {{0, request.bytes, false, source, 0}};
      return {};
    default: return expected_parts(request, rank);
  }
}

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[kKindCount] = {"all_reduce", "all_gather",   "reduce_scatter",
                                                   "all_to_all", "all_gather_v", "all_to_all_v",
                                                   "permute",    "broadcast",    "reduce"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view name_of(Reduction reduction) {
  constexpr std::string_view kNames[kReductionCount] = {"add", "multiply", "minimum", "maximum",
                                                        "and", "or",       "xor"};
  return kNames[static_cast<size_t>(reduction)];
}

}  // namespace opentrn::collectives
