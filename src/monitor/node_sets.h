// Which devices and cores of a node one container may have, by AWS's page of the Kubernetes scheduler
// extension, and which of them pods already hold.
//
// On rings (Inf1, Inf2) any number of neighbours in a row; on tori (Trn1, Trn2) 1, 4, 8 or all 16, and of 4
// and 8 those that the page draws: rows, and pairs of rows. One and all are always possible. For Trn2 the
// page of the DRA driver has the same groups. What the page does not say is ours: numbers of cores below a
// device's own are of one device, in a row; larger ones are whole devices.
//
// Input faults are "tools.kubernetes".
#pragma once

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "monitor/machine.h"

namespace opentrn::monitor {

using Numbers = std::vector<int>;

// The numbers of devices that a container may ask for, ascending.
Numbers device_counts(const Machine& machine);
// All sets of so many devices, or logical cores, best first. Input fault in the extension's words for a
// number that is never given.
std::vector<Numbers> device_sets(const Machine& machine, int count);
std::vector<Numbers> core_sets(const Machine& machine, int count);
// The first set that is free and holds `must`; empty where there is none.
Numbers choose_set(std::span<const Numbers> sets, const std::set<int>& free, const std::set<int>& must = {});

// {0, 1, 2, 5}: "0-2,5", as NEURON_RT_VISIBLE_CORES has it; and back. Input fault for other text, and for
// more than 4,096 numbers.
std::string ranges_text(Numbers numbers);
Numbers numbers_of_ranges(const std::string& text);

// A container's wish, and what it is given.
struct DeviceRequest {
  bool of_cores = false;  // else of devices
  int count = 0;
};
struct Placement {
  bool of_cores = false;
  Numbers numbers;
};

// Of the containers of a pod that ask for any. Input fault for what is no pod.
std::vector<DeviceRequest> device_requests(const nlohmann::json& pod);
// Cores that annotations of pods name, which have not ended. Input fault for an annotation that is no list.
std::set<int> cores_of_pods(const Machine& machine, const nlohmann::json& pods);
// In the order of the requests. Input fault where no contiguous set is free.
std::vector<Placement> place(const Machine& machine, const std::vector<DeviceRequest>& requests,
                             const std::set<int>& taken);
// The annotations NEURON_CORES and NEURON_DEVICES of a placed pod; an empty object for one that asks for
// none.
nlohmann::json annotations_of(const Machine& machine, const std::vector<Placement>& placed);

}  // namespace opentrn::monitor
