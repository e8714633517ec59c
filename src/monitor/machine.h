// One simulated server as its tools show it: devices, their cores, memory, neighbours and places in the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/tables.h"
#include "fabric/platform.h"

namespace opentrn::monitor {

struct Device {
  int index = 0;
  std::vector<int> cores;         // logical ones, by their number on the server
  std::vector<int> connected_to;  // in neuron-ls order
  // Where no public page tells: empty.
  std::string bdf, numa_node, cpu_affinity;
};

struct Machine {
  std::string instance_type, instance_id;  // id: OPENTRN_INSTANCE_ID, else empty
  std::string chip;                        // "Trainium2"
  int generation = 0;                      // of its NeuronCores
  int physical_cores_per_core = 1;         // LNC
  bool has_logical_cores = false;          // the chip has the choice
  int64_t memory_bytes = 0;                // of a device
  int rows = 0, columns = 0;               // of a torus of two axes; 1 and the number of devices elsewhere
  bool is_torus = false, is_ring = false;
  std::vector<Device> devices;

  const Device* device_of(uint64_t core) const;
};

// The first server of a platform. Input fault where the table of its devices does not fit it.
Machine machine_of(const arch::Tables& tables, const fabric::Platform& platform, int physical_cores_per_core);

}  // namespace opentrn::monitor
