// What a NeuronCore costs per hour.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "arch/tables.h"

namespace opentrn::arch {

struct CoreRate {
  double usd_h = 0;      // of one logical core
  std::string instance;  // which is rented for it, whole
};

// The cheapest published rates of one logical core, by kind ("on_demand", "reserved", "capacity_block");
// nullopt where none is published. Of an instance or UltraServer that `target` names, its own; else among the
// instances of the family that it names (trn1: trn1.2xlarge, trn1n.32xlarge, ...), of the chip that it names,
// or of all chips with the core that it names.
std::map<std::string, std::optional<CoreRate>> rates_of_core(const Tables& tables, std::string_view target,
                                                             int physical_cores_per_core);

}  // namespace opentrn::arch
