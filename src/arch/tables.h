// The machine tables: loading, look-up, totals.
//
// The tables are TOML files compiled into the library (src/arch/tables) and parsed at first use.
// load_tables() reads them again with what-if changes; nothing else changes, and the default tables
// stay as they are.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arch/fact_table.h"
#include "arch/specs.h"
#include "arch/timing_table.h"
#include "arch/topology.h"
#include "base/generation.h"

namespace opentrn::arch {

class Tables {
 public:
  explicit Tables(const Overrides& overrides = {});
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  const FactTable& facts() const { return facts_; }

  // Look-up by exact name, letter case aside; kInput with the nearest names otherwise.
  const NeuronCore& neuron_core(Generation generation) const;
  const TimingTable& timing(Generation generation) const;
  const Chip& chip(std::string_view name) const;
  const Instance& instance(std::string_view name) const;
  const UltraServer& ultraserver(std::string_view name) const;
  const UltraCluster& ultracluster(std::string_view name) const;
  // nullptr where there is none of that name.
  const Instance* find_instance(std::string_view name) const;
  const UltraServer* find_ultraserver(std::string_view name) const;
  const ComparisonChip& comparison_chip(std::string_view name) const;
  const ComparisonInstance& comparison_instance(std::string_view name) const;
  const Topology& topology(std::string_view name) const;

  const std::vector<NeuronCore>& neuron_cores() const { return neuron_cores_; }
  const std::vector<Chip>& chips() const { return chips_; }
  const std::vector<Instance>& instances() const { return instances_; }
  const std::vector<UltraServer>& ultraservers() const { return ultraservers_; }
  const std::vector<UltraCluster>& ultraclusters() const { return ultraclusters_; }
  const std::vector<ComparisonChip>& comparison_chips() const { return comparison_chips_; }
  const std::vector<ComparisonInstance>& comparison_instances() const { return comparison_instances_; }
  const std::vector<Topology>& topologies() const { return topologies_; }

  // "trn2", "gen3", "v3", "NeuronCore-v3", "Trainium2", "trn2.48xlarge", "Trn2 UltraServer": -> kV3.
  Generation resolve_target(std::string_view target) const;

 private:
  FactTable facts_;
  std::vector<NeuronCore> neuron_cores_;
  std::vector<TimingTable> timing_;
  std::vector<Chip> chips_;
  std::vector<Instance> instances_;
  std::vector<UltraServer> ultraservers_;
  std::vector<UltraCluster> ultraclusters_;
  std::vector<ComparisonChip> comparison_chips_;
  std::vector<ComparisonInstance> comparison_instances_;
  std::vector<Topology> topologies_;
};

const Tables& default_tables();
std::shared_ptr<const Tables> load_tables(const Overrides& overrides);

// The default tables, for the many callers that need no what-if.
inline const NeuronCore& neuron_core(Generation g) { return default_tables().neuron_core(g); }
inline const TimingTable& timing(Generation g) { return default_tables().timing(g); }
inline const Chip& chip(std::string_view name) { return default_tables().chip(name); }
inline const Instance& instance(std::string_view name) { return default_tables().instance(name); }
inline const UltraServer& ultraserver(std::string_view name) { return default_tables().ultraserver(name); }
inline Generation resolve_target(std::string_view target) { return default_tables().resolve_target(target); }

}  // namespace opentrn::arch
