// From "these ranks on this machine do that" to a plan and its time: what front ends call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arch/tables.h"
#include "collectives/choose.h"
#include "collectives/layout.h"
#include "collectives/plan.h"
#include "collectives/timing.h"
#include "fabric/platform.h"

namespace opentrn::collectives {

// The physical cores of each rank of a launch.
using RankCores = std::vector<std::vector<int>>;

// Ranks fill the machine in order, the same number on each of its first `servers` servers: the logical cores
// of a chip, of `cores_per_rank` physical ones, then the next chip. `servers` 0: a server is filled before
// the next is begun. An input fault where they do not fit or divide.
RankCores place_ranks(const fabric::Platform& platform, int ranks, int cores_per_rank, int servers);

// The smallest machine of a generation that holds so many ranks: an instance, an UltraServer, or several of
// the largest instances. A fault of what is not modelled where none is known.
fabric::Platform platform_for(const arch::Tables& tables, Generation generation, int ranks,
                              int cores_per_rank);

// What a target names: an instance or an UltraServer; of a generation the smallest machine that holds so many
// ranks.
fabric::Platform machine_of(const arch::Tables& tables, const std::string& target, Generation generation,
                            int ranks, int cores_per_rank);

// Of the ranks of a group. A server of the layout is what NeuronLink joins: an instance, or a whole
// UltraServer.
Layout layout_of(const fabric::Platform& platform, const RankCores& cores);

// As choose(); where it leaves a choice to what is faster, what is over these links. `layout`: that of
// `cores`.
Choice choose_on(const arch::Tables& tables, const fabric::Platform& platform, const Request& request,
                 const RankCores& cores, const Layout& layout);

struct Job {
  Request request;
  RankCores cores;        // of the group's ranks, in the group's order
  std::string algorithm;  // empty: as AWS's runtime is documented to choose
  int priority = 0;
  int repeats = 1;  // one after the other
};

struct Planned {
  std::string algorithm, why;  // why this one, as a clause
  Plan plan;                   // all of its repeats
};
// An input fault for a request or a layout that is none, and for an algorithm that cannot serve it.
Planned plan_of(const arch::Tables& tables, const fabric::Platform& platform, const Job& job);

struct Prediction : Planned {
  RunTime time;  // of all repeats
};

// Jobs that run at once, from one moment on.
struct Predictions {
  std::vector<Prediction> jobs;
  std::vector<int64_t> carried;  // bytes over each link
  int64_t end_ps = 0;
};
Predictions predict(const arch::Tables& tables, const fabric::Platform& platform, std::span<const Job> jobs);
// How busy that kept each link of the platform, from 0 to 1.
std::vector<float> busy_links(const fabric::Platform& platform, const Predictions& predictions);

// The table keys that a prediction on this platform rests on, by their confidence: "assumed: ...", a line
// each.
std::vector<std::string> basis_of(const arch::Tables& tables, const fabric::Platform& platform);

}  // namespace opentrn::collectives
