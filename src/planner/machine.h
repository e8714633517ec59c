// A cluster as the planner sees it: ranks that compute, and the two tiers of links between them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/tables.h"
#include "planner/job.h"

namespace opentrn::planner {

class Links;

enum class Kind : uint8_t { kGpu, kNeuron, kTpu };

// One tier of links: what one rank can send, and the time before the first byte arrives.
struct Tier {
  double bytes_s = 0;  // one direction, as collectives reach it
  double latency_s = 0;
};

// The time of one rank's work, of a chip's: see planner.toml.
struct Rates {
  double matmul[3] = {};                         // FLOP/s that large products reach, by Precision
  double peak[3] = {};                           // FLOP/s of the data sheet
  double vector = 0;                             // FLOP/s of the units beside those for products
  double flash_forward = 0, flash_backward = 0;  // FLOP/s of fused attention, causal work counted once
  double memory_bytes_s = 0;                     // that element-wise kernels reach
  double units = 1;                              // multiprocessors that tiles are dealt to
  double pad = 1;                                // products are padded to multiples of this
};

struct Machine {
  std::string instance;  // "trn1.32xlarge", or a name of the caller's
  std::string chip;
  Kind kind = Kind::kGpu;
  int ranks_per_server = 0;
  double ranks_per_chip = 1;
  std::optional<Generation> generation;  // of a Neuron chip
  int cores_per_rank = 1;                // physical cores of a Neuron rank: LNC
  int64_t ranks = 0;                     // of all servers
  double memory_bytes = 0;               // of a rank
  bool has_fp8 = false;                  // products of float8
  Rates rates;
  Tier inside, across;  // inside: between ranks that share a server; across: between servers
  // Of groups of 1, 2, 4, ... neighbours, where the links are modelled; empty: `inside` for all.
  std::vector<Tier> inside_by_group;
  Tier inside_rank;              // between the physical cores of a rank that has several; 0 B/s: not known
  double across_ring_share = 1;  // of `across`, by rings through many servers
  // Set: collectives are simulated there, and no tier is used; their times are multiplied by the factor.
  std::shared_ptr<Links> links;
  double links_factor = 1;
  int domain = 0;  // ranks that `inside` joins (an UltraServer's, an NVL72's); at least a server's
  // Of a rank: its share of the server's PCIe, and of what the host's memory moves.
  double host_link_bytes_s = 0, host_memory_bytes_s = 0;
  std::vector<std::string> basis;          // keys of the tables it rests on
  std::vector<std::string> calibrated_on;  // published rows that values of its chip were chosen by

  int64_t servers() const { return ranks / ranks_per_server; }
};

// `count` instances of that name (also of another maker's), or UltraServers. Faults: an unknown name; an
// instance whose chip the planner has no rates for; a figure that no source gives, by its key.
// `cores_per_rank`: LNC, where it is not the instance's own; an input fault where the chip does not have it.
Machine machine_of(const arch::Tables& tables, const std::string& instance, int64_t count,
                   std::optional<int> cores_per_rank = std::nullopt);

// The same chip in a cluster that is no instance: a published row's. `network_gb_s` is one rank's share of
// its server's network, in GB/s; 0: what the table says of the chip.
Machine cluster_of(const arch::Tables& tables, const std::string& chip, int64_t chips, double network_gb_s);

// The names that machine_of() takes.
std::vector<std::string> plannable_instances(const arch::Tables& tables);

}  // namespace opentrn::planner
