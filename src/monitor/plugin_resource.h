// One resource of a node's device plug-in: aws.amazon.com/neuron (devices) or aws.amazon.com/neuroncore
// (logical cores). The kubelet knows both by numbers written as text.
//
// Input faults are "tools.kubernetes".
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "monitor/machine.h"
#include "monitor/node_sets.h"

namespace opentrn::monitor {

class PluginResource {
 public:
  PluginResource(Machine machine, bool of_cores);
  // Its rows refer to its machine.
  PluginResource(const PluginResource&) = delete;
  PluginResource& operator=(const PluginResource&) = delete;

  struct Row {
    std::string id;
    bool healthy = true;
    std::optional<int> numa_node;
  };
  // All of the node; unhealthy are those of lost devices.
  std::vector<Row> listing(const std::set<int>& lost) const;

  // A contiguous set; without one the lowest numbers, as the kubelet itself would choose. Input fault where
  // what must be in it is not available, or is more than `size`.
  std::vector<std::string> preferred(std::span<const std::string> available,
                                     std::span<const std::string> must, int size) const;

  struct Allocation {
    Numbers devices;
    std::map<std::string, std::string> variables;
  };
  // Input fault for IDs that are unknown or named twice, for none, and for a lost device.
  Allocation allocation(std::span<const std::string> ids, const std::set<int>& lost) const;

 private:
  Numbers numbers(std::span<const std::string> ids) const;  // ascending

  Machine machine_;
  bool of_cores_;
  std::map<int, const Device*> devices_;  // by the resource's numbers
};

}  // namespace opentrn::monitor
