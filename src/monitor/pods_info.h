// Which pods hold Neuron devices: the object neuron_k8s_info of neuron-monitor's reports, in the form of
// AWS's guide.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "monitor/machine.h"

namespace opentrn::monitor {

// A device that the kubelet gave to a container.
struct HeldDevice {
  std::string resource;  // "aws.amazon.com/neuroncore", neurondevice or neuron; others are passed over
  std::string id;        // its number
  std::string pod, name_space, container;
};

// Cores of the first resource, devices of the others with all their cores. Numbers that the machine does not
// have are left out; names are cut to 253 bytes.
nlohmann::ordered_json pods_info(const Machine& machine, std::span<const HeldDevice> held, double period);

}  // namespace opentrn::monitor
