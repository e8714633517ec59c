// The files that Neuron's driver shows under /sys/devices/virtual/neuron_device, in a folder of the user's.
//
// AWS's "Neuron Sysfs User Guide" has the names. A simulated device has no driver: the tree is written from
// the records of processes (device/registry.h). Counters are sums over the live processes, so that they fall
// when one ends; the guide's "write to clear" does nothing. Files whose values nobody knows are not there
// (serial_number, host memory, power). ROOT/dev/neuronN are empty plain files, for programs that only look
// for names.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "device/registry.h"
#include "monitor/machine.h"

namespace opentrn::monitor {

// Text by path below the root.
std::map<std::string, std::string> device_files(const Machine& machine,
                                                std::span<const device::Process> processes);

// Writes the files; a reader sees the old text of one or the new one. Input fault "tools.device_tree" for a
// folder that holds something else, for a link in the place of a file, and for what cannot be written.
void write_device_tree(const std::filesystem::path& root, const std::map<std::string, std::string>& files);

// Removes a tree; what others put into its folder stays. Input fault "tools.device_tree" for a folder that
// write_device_tree() did not make.
void remove_device_tree(const std::filesystem::path& root);

}  // namespace opentrn::monitor
