// The options by which commands about several chips name the machine: which instance, how many, which logical
// cores.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "arch/tables.h"
#include "fabric/platform.h"

namespace opentrn::cli {

struct MachineOptions {
  std::string instance;  // empty: $NEURON_PLATFORM_TARGET_OVERRIDE, else a Trn2 instance
  int nodes = 1;
  int lnc = 0;  // physical cores per logical one; 0: $NEURON_LOGICAL_NC_CONFIG, else the chip's default

  void add_to(CLI::App& command);
  fabric::Platform platform(const arch::Tables& tables) const;
  int cores_per_rank(const arch::Tables& tables, const fabric::Platform& platform) const;
};

}  // namespace opentrn::cli
