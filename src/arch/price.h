// What a NeuronCore costs per hour.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "arch/tables.h"

namespace opentrn::arch {

// USD per hour of one logical core, by kind of rate ("on_demand", "reserved", "capacity_block"): the cheapest
// published one among the instances that have the target's chip, or, where `target` names an instance, its.
// nullopt where none is published.
std::map<std::string, std::optional<double>> usd_per_core_hour(const Tables& tables, std::string_view target,
                                                               int physical_cores_per_core);

}  // namespace opentrn::arch
