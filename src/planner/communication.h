// Time of collectives on a machine: on its two tiers by latency and bandwidth, a microsecond's work for a
// search of thousands of layouts, or simulated on the links of its cluster where it has them (links.h).
//
// The one place that knows how groups of ranks lie on servers.
#pragma once

#include <cstdint>

#include <span>

#include "collectives/request.h"
#include "planner/machine.h"

namespace opentrn::planner {

// A group of `ranks` whose neighbours are `stride` ranks apart: TP 1, CP tp, DP tp * cp, PP tp * cp * dp.
struct Group {
  int64_t ranks = 1;
  int64_t stride = 1;
};

// A collective that a rank runs `count` times; `bytes` as below.
struct Call {
  collectives::Kind kind;
  Group group;
  double bytes = 0;
  int64_t count = 1;
};

// Seconds; `bytes` is what one rank holds after an all-gather or before a reduce-scatter and an all-reduce,
// and what one rank sends altogether in an all-to-all.
double all_gather_s(const Machine& machine, Group group, double bytes);
double all_reduce_s(const Machine& machine, Group group, double bytes);
double all_to_all_s(const Machine& machine, Group group, double bytes);
// ... of so many copies of each token, of which one goes to a domain and is forwarded inside it (DeepEP).
double forwarded_s(const Machine& machine, Group group, double bytes, double copies);
// What the physical cores of a rank exchange to add up `bytes` that each has terms of: a reduce-scatter among
// them, whose parts all of them read from their HBM (decision 0151). 0 for a rank of one core.
double inside_rank_s(const Machine& machine, double bytes);
// One message to the next rank of the group, which is `stride` away.
double send_s(const Machine& machine, Group group, double bytes);
// By which `compute_s` with the collectives `inside`, for which it waits, takes longer with `hidden` beside.
// Only links know that these share them: on tiers it is what of `hidden` is longer than the computation.
double beside_s(const Machine& machine, double compute_s, std::span<const Call> inside, const Call& hidden);

}  // namespace opentrn::planner
