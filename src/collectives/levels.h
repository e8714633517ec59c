// How the units of a cluster are cut into levels that exchange one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/tables.h"
#include "collectives/symmetric.h"

namespace opentrn::collectives {

// Where the tables say which algorithm the machines of a generation take: "collective.trn2.". An input fault
// where no table of algorithms is for it.
std::string collective_facts(const arch::Tables& tables, Generation generation);

// Up to which message a mesh is taken, as choose() does.
bool is_for_mesh(const arch::Tables& tables, Generation generation, int64_t message);

// Of so many units: rdh where they are 2^n, else a ring, and a mesh for small messages; more than 16 that are
// not 2^n become several levels [assumed]. Appended, the first ones first.
void add_levels_by_default(std::vector<Level>& levels, int units, bool mesh, bool between_pods);
// Of ranks that lie unevenly on units: first a ring of neighbours, of which few leave a unit, then as above.
void add_levels_of_ranks(std::vector<Level>& levels, int ranks, bool mesh);
// Of the units of a pod, then of the pods. `pod_units` 0: there are no pods.
std::vector<Level> levels_by_default(int units, int pod_units, bool mesh);

// Of "rdh:32,ring:49". An input fault where it is none for so many units and pods.
std::vector<Level> levels_of(const std::string& text, int units, int pod_units);

}  // namespace opentrn::collectives
