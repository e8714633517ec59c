// The simulated machine below nrt.h: its devices, their wires and the UltraServer it is a part of.
#pragma once

#include <memory>
#include <string>

#include "monitor/machine.h"
#include "nrt/state.h"

namespace opentrn::nrt {

struct Hardware {
  Machine machine;
  monitor::Machine server;  // the devices that neuron-ls lists
  int pod_servers = 0;      // of the UltraServer that the machine is named by; 0 of none
  bool pod_has_switches = false;

  int devices() const { return static_cast<int>(server.devices.size()); }
  int cores() const { return devices() * machine.cores_per_device; }  // physical
};

// Of the environment. Input fault where it names no machine.
std::shared_ptr<const Hardware> hardware();

// Where a device stands on the PCI buses of its host.
struct PciPlace {
  uint32_t domain = 0, bus = 0;
  uint8_t slot = 0, function = 0;
};
// Refused NRT_INVALID for no device; NRT_FAILURE where no page of AWS's tells it.
PciPlace pci_place(const Hardware& hardware, int device);

// The routing number of each device, into room for `count`, which becomes how many were written. A device's
// is its place on the torus by rows, which is how devices are numbered. Refused NRT_INVALID for null
// pointers.
void give_routing_numbers(uint32_t* count, uint32_t* map);

// A message of a program's to this process's standard error. `size` counts the 0 at its end. 0, or EFAULT,
// EBADMSG, EINVAL.
int print_message(const char* text, uint32_t size, uint32_t action);

}  // namespace opentrn::nrt
