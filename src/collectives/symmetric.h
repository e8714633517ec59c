// Hierarchical collectives of clusters whose units (instances, UltraServers) all do the same: the plan of one
// unit stands for those of all.
//
// Units are numbered by coordinates, one for each level of the hierarchy, and steps go to units at a
// displacement in them. So each displacement of all units maps the plan to itself by construction: its steps
// and waits are those of one unit, seen from there. expanded() writes it out for all units, for the verifier
// and as the reference of its time.
//
// A rank begins a stage when it has all of the stage before: what lies in a unit within one ring's share then
// does not depend on which unit it is.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/layout.h"
#include "collectives/plan.h"

namespace opentrn::collectives {

// Units that differ in one coordinate exchange by this.
struct Level {
  int size = 1;
  std::string algorithm;  // "ring" or "mesh"
  bool between_pods = false;
  // Not 0: the two units of the level are instances of one UltraServer, whose numbers in it differ by
  // exclusive or with this. Such levels come first.
  int instance = 0;
};

struct Hierarchy {
  std::string within = "";  // as HierarchicalOptions::within
  // Reducing goes from the first to the last, gathering back.
  std::vector<Level> levels;
  int pipeline = 3;  // all-reduce: in as many parts, whose stages overlap

  int units() const;
};

// Where the positions of a step's memory lie that are seen from its unit: those of `buffer` from `begin` to
// `end` are `levels[level].size` blocks, one for each unit of the level, counted from the own one. Positions
// repeat every `period` bytes.
struct SeenFrom {
  Buffer buffer = Buffer::kInput;
  int64_t begin = 0, end = 0, period = 0;
  int level = 0;
  bool is_absolute = false;  // not `begin` but the block of the unit, by all levels up to this one
  bool is_whole = false;     // a period has a block for each unit, counted from the own one by all levels
};

struct SymmetricPlan {
  Request request;  // of all ranks: rank i of unit u is rank i * units + u
  Hierarchy hierarchy;
  std::string within;  // the algorithm within a unit; "": it has one rank
  Plan unit;           // ranks are those of one unit
  // Of each step of a rank, and of each entry of its wait pool: the displacement of the unit that it writes
  // to, and of the unit whose step it waits for.
  std::vector<std::vector<int32_t>> toward, waits_toward;
  std::vector<std::vector<int16_t>> stage;  // of each step; -1: within the unit
  // How many steps of a rank that are alike each one stands for: towards all units of the pod, or of other
  // pods. Empty: one. expanded() needs every step.
  std::vector<std::vector<int32_t>> alike;
  std::vector<std::vector<SeenFrom>> seen;  // [stage]
  // Of an all-reduce in one part: how many steps each rank has taken when the stages within units, between
  // them, and within them again are written. Empty: no all-reduce, or several parts.
  std::vector<std::array<int32_t, 3>> phase_ends;
  // Not 0: `unit` is the plan of one rank, which stands for so many of a unit. A displacement is then that of
  // the unit times this, plus that of the rank, by exclusive or of their numbers. It cannot be expanded.
  int ranks_alike = 0;

  int units() const { return hierarchy.units(); }
  // Whether each displacement of units leads to another pod.
  std::vector<bool> leaving_pod() const;
  // What each displacement of units does to the number of an instance in its UltraServer, by exclusive or.
  std::vector<int> exchanging_instances() const;
  // The parts of a displacement: of units, and of ranks.
  int32_t unit_of(int32_t displacement) const {
    return ranks_alike > 0 ? displacement / ranks_alike : displacement;
  }
  int32_t rank_of(int32_t displacement) const { return ranks_alike > 0 ? displacement % ranks_alike : 0; }
};

// The least size not below this that makes equal parts for all.
int64_t symmetric_bytes(const Hierarchy& hierarchy, Kind kind, int64_t bytes, DType dtype,
                        int ranks_per_unit);

// How the parts of an all-reduce's pipeline are written: the first one, and the others as it on their own
// memory; or each by itself, the reference of that.
enum class Parts : uint8_t { kAsFirst, kEach };

// An input fault for a hierarchy that is none, a kind that is none of all-reduce, all-gather and
// reduce-scatter, and bytes that do not divide. `unit`: the places of the ranks of one unit.
SymmetricPlan symmetric_plan(const Request& request, const Hierarchy& hierarchy, const Layout& unit,
                             Parts parts = Parts::kAsFirst);

// Whether all ranks of a unit have the same steps, each seen from itself: large meshes of 2^n ranks.
bool has_alike_ranks(const Hierarchy& hierarchy, const Layout& unit);
// The same plan, written for one rank of each unit.
SymmetricPlan symmetric_plan_of_rank(const Request& request, const Hierarchy& hierarchy, const Layout& unit);

// The plan of all ranks of all units.
Plan expanded(const SymmetricPlan& plan);

}  // namespace opentrn::collectives
