// Resource slices of a simulated node for Kubernetes' dynamic resource allocation, as AWS's DRA driver
// publishes them, and what a claim gets of them.
//
// Attributes are those of AWS's page of the driver. What only AWS's services tell is left out (network nodes,
// capacity blocks), and so is devicegroup1_id, the address of a network adapter; `devicegroup` numbers are
// digests of the node and the group. Versions of drivers are the user's to state: a simulated node has none.
//
// Input faults are "tools.kubernetes".
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "monitor/machine.h"

namespace opentrn::monitor {

inline constexpr const char* kDraDriver = "neuron.aws.com";

// ResourceSlice objects of resource.k8s.io/v1. `ultraserver`: of which the node is one; it is then one
// device. Input fault for names and versions that Kubernetes would not take.
nlohmann::ordered_json resource_slices(const Machine& machine, const std::string& node,
                                       const std::string& driver = "", const std::string& ultraserver = "");
nlohmann::ordered_json dra_device_class();

// Whether a device meets a CEL expression of the forms that the published specs have: comparisons with ==,
// joined by &&. Input fault for any other.
bool matches_selector(const nlohmann::ordered_json& device, const std::string& expression);

// (pool, device) of other claims.
using TakenDevices = std::set<std::pair<std::string, std::string>>;

// The allocation of a claim's spec (`spec.devices`) on one node: {"results": [...], "config": [...]}. Input
// fault where no node has what is asked, and for what is no claim.
nlohmann::ordered_json allocate_claim(const nlohmann::ordered_json& claim,
                                      const nlohmann::ordered_json& published, const TakenDevices& taken);

// The variables that a container of the allocation is started with, and how many servers of an UltraServer
// the claim wants to use together, which the caller's collectives have to know. Input fault for unknown
// parameters.
std::pair<nlohmann::ordered_json, std::optional<int>> container_of_allocation(
    const nlohmann::ordered_json& allocation, const Machine& machine);

}  // namespace opentrn::monitor
