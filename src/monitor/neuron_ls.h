// What neuron-ls prints: the box table, the topology and the JSON of AWS's user guide, byte for byte.
//
// The guide's samples show more columns in some of them than in others. Here, as there: without options and
// processes all columns; with --wide, --show-all-procs or --topology those of the guide's samples of these
// options; processes, where there are any, in all but --topology.
#pragma once

#include <span>
#include <string>

#include "device/registry.h"
#include "monitor/machine.h"

namespace opentrn::monitor {

struct LsOptions {
  bool wide = false;      // commands in full 80 characters, else 40
  bool all = false;       // tools too
  bool topology = false;  // no processes; the picture of the links
};

std::string ls_text(const Machine& machine, std::span<const device::Process> processes,
                    const LsOptions& options);
std::string ls_json(const Machine& machine, std::span<const device::Process> processes,
                    const LsOptions& options);
std::string topology_text(const Machine& machine);

}  // namespace opentrn::monitor
