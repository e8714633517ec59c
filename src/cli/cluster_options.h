// The options by which commands about clusters say what a unit is, how many there are, and what is above
// them.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/machine_options.h"
#include "collectives/cluster.h"

namespace opentrn::cli {

// A unit of the cluster: an instance or an UltraServer.
struct ClusterUnit {
  std::string name;
  int chips = 0, cores_per_rank = 1;
};

struct ClusterOptions {
  MachineOptions machine;
  TableOptions tables;
  std::string datatype = "bf16";
  std::vector<std::string> taken;
  int ranks_per_chip = 0, pod = 0, rails = 1;
  double oversubscription = 1;
  bool all_units = false, all_steps = false, json = false;

  void add_to(CLI::App& command);
  ClusterUnit unit(const arch::Tables& tables) const;
  // Without pods each unit is one where what is above it is oversubscribed, in parts, or taken by others.
  fabric::Cluster cluster() const;
  collectives::Extent extent() const;
};

// "49 pods of 128, 1 rail with an oversubscription of 2 above them, other jobs take 0.3 of core; no public
// page ...".
std::string network_of(int units, const fabric::Cluster& cluster);
// What is not known of collectives on several instances of an UltraServer, as a clause.
inline constexpr const char* kInstancesAssumed =
    "no public page says which collective runs between the instances of an UltraServer: by halves here";

}  // namespace opentrn::cli
