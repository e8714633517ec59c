// What a collective is asked to do, in ranks and bytes: the same for every front end.
//
// Ranks are numbered within the group. Each rank has one input and one output buffer; buffers are bytes, and
// elements matter to reductions only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "numerics/dtype.h"

namespace opentrn::collectives {

enum class Kind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kAllGatherV,
  kAllToAllV,
  kPermute,  // also: implicit permutes, and a send with its receive
  kBroadcast,
  kReduce,  // to the root
};
inline constexpr int kKindCount = static_cast<int>(Kind::kReduce) + 1;

enum class Reduction : uint8_t { kAdd, kMultiply, kMinimum, kMaximum, kAnd, kOr, kXor };
inline constexpr int kReductionCount = static_cast<int>(Reduction::kXor) + 1;

struct Request {
  Kind kind = Kind::kAllReduce;
  int ranks = 1;
  // Of a rank's input; all-gather's output is ranks times that, reduce-scatter's a ranks-th of it. Divides by
  // the size of an element, and by the ranks where it is scattered: an input fault otherwise. 0 for the two
  // kinds that have counts.
  int64_t bytes = 0;
  DType dtype = DType::kUint8;
  Reduction reduction = Reduction::kAdd;
  int root = 0;  // kBroadcast, kReduce
  // kPermute: source and target; each rank at most once on either side. The output of a rank that is no
  // target stays as it was.
  std::vector<std::pair<int, int>> pairs = {};
  // kAllGatherV: bytes that rank i brings, at [i]. kAllToAllV: bytes from rank i to rank j at [i * ranks +
  // j]. Parts lie one after the other in inputs, and in outputs by the rank of their source.
  std::vector<int64_t> counts = {};
};

// Of all-reduce, reduce-scatter and reduce; the others only move bytes.
bool reduces(Kind kind);
// Whether a number of bytes makes a request of it: a permute needs pairs, all-gather-v and all-to-all-v
// counts.
bool is_sized(Kind kind);
// 0 where a rank has none: the input of a broadcast anywhere but at its root, the output of a reduce
// likewise.
int64_t input_bytes(const Request& request, int rank);
int64_t output_bytes(const Request& request, int rank);
// An input fault that says what is wrong: counts, pairs, sizes that do not divide, a root that is no rank.
void check(const Request& request);

std::string_view name_of(Kind kind);       // "all_reduce": nccom-test's and StableHLO's word where they agree
std::string_view name_of(Reduction kind);  // "add"

// A part of an output: `bytes` at `offset` are made of the inputs of `sources` at `input_offset`, one source
// alone, or reduced over several.
struct Contribution {
  int64_t offset = 0, bytes = 0;
  bool all_ranks = false;  // reduced over all ranks; else `source` alone
  int source = 0;
  int64_t input_offset = 0;
};
// What the definition of the operation asks of the output of a rank, in order of offsets. Bytes that no entry
// names are not to be written.
std::vector<Contribution> expected_output(const Request& request, int rank);

}  // namespace opentrn::collectives
