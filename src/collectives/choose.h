// Which algorithm a collective gets, by its size, where its ranks stand and the chip: AWS's thresholds, from
// the tables (fabric.toml, [collective.*]).
#pragma once

#include <optional>
#include <string>

#include "arch/tables.h"
#include "collectives/algorithms.h"

namespace opentrn::collectives {

struct Choice {
  Algorithm algorithm;
  std::string why;  // "all_reduce of 2097152 B: above 1048576 B (collective.trn2.mesh_bytes_max), ..."
  // What AWS takes in its place where that is faster: choose_on() of predict.h, which knows the links,
  // decides.
  std::optional<Algorithm> rival = {};
};

// The request and the layout have been checked. An input fault for a generation without collectives (v1).
Choice choose(const arch::Tables& tables, Generation generation, const Request& request,
              const Layout& layout);

}  // namespace opentrn::collectives
