// What the tables describe, as structs: cores, chips, instances, UltraServers, comparison chips.
//
// Every member is a Spec<T>: it converts to T, and its fact() says where the number comes from. GB and
// TB are decimal, GiB and MiB binary. `peak_tflops` maps a format ("bf16", "fp8", "mxfp8", "sparse") to
// dense TFLOPS (TOPS for integers); "sparse" is with structured sparsity.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/fact.h"
#include "arch/topology.h"
#include "base/generation.h"

namespace opentrn::arch {

using PeakTflops = std::map<std::string, Spec<double>, std::less<>>;

struct NeuronCore {
  Generation generation = Generation::kV2;
  std::string name;  // "NeuronCore-v3"
  std::string key;   // "neuron_core.v3"

  // On-chip memories: partitions are rows, and hold the same number of bytes each.
  Spec<int> partitions;
  Spec<int64_t> sbuf_bytes_per_partition;
  Spec<int64_t> psum_bytes_per_partition;
  Spec<int> psum_banks;
  Spec<int64_t> psum_bank_bytes_per_partition;

  // Engines. Widths are elements per cycle over all lanes.
  Spec<std::vector<std::string>> engines;
  Spec<int> tensor_rows;
  Spec<int> tensor_columns;
  Spec<double> tensor_clock_ghz;
  Spec<double> vector_clock_ghz;
  Spec<double> scalar_clock_ghz;
  Spec<double> gpsimd_clock_ghz;
  Spec<int> gpsimd_processors;
  Spec<std::vector<std::string>> dtypes;
  PeakTflops peak_tflops;  // of the Tensor engine

  // Largest operand sizes of one matmul.
  Spec<int> matmul_contraction_max;
  Spec<int> matmul_stationary_columns_max;
  Spec<int> matmul_moving_columns_max;

  // Engine pairs that cannot use a memory at the same time.
  Spec<bool> vector_gpsimd_share_sbuf_port;
  Spec<bool> vector_scalar_share_psum_port;

  // Data movement.
  Spec<int> dma_engines;
  Spec<int> dma_queues_per_engine;
  Spec<double> dma_engine_gb_s;
  Spec<int> hwdge_units;
  Spec<double> hbm_bandwidth_gb_s;  // this core's share of its chip's HBM

  int64_t sbuf_bytes() const { return partitions * sbuf_bytes_per_partition; }
  int64_t psum_bytes() const { return partitions * psum_bytes_per_partition; }
  // "tensor", "vector", "scalar", "gpsimd", "sync"; kInput for another name.
  double clock_ghz(std::string_view engine) const;
};

struct Chip {
  std::string name;  // "Trainium2"
  std::string key;   // "chip.Trainium2"
  Generation generation = Generation::kV2;
  Spec<int> cores;
  Spec<double> memory_gib;
  Spec<double> memory_bandwidth_gb_s;
  Spec<int> hbm_stacks;
  Spec<double> dma_bandwidth_gb_s;
  Spec<int> dma_engines;
  Spec<int> cc_cores;
  Spec<std::string> neuronlink_version;
  Spec<double> neuronlink_gb_s;  // all links of one chip together
  Spec<int> neuronlink_links;
  PeakTflops peak_tflops;
};

// On-demand and other hourly rates in USD. An unknown price stays unknown.
struct Price {
  Spec<double> on_demand_usd_h;  // us-east-1
  Spec<double> reserved_usd_h;   // effective rate of a 3-year reservation
  Spec<double> capacity_block_usd_h;
};

struct Instance {
  std::string name;  // "trn2.48xlarge"
  std::string key;
  std::string chip;
  Spec<int> chips;
  Spec<int> vcpus;
  Spec<double> host_memory_gib;
  Spec<double> network_gbps;     // EFA where there is one
  Spec<double> neuronlink_gb_s;  // per chip inside the instance; not listed for one chip
  Spec<std::string> topology;    // name of a topology; unknown stays unknown
  Spec<std::string> fabric;      // name of the table of its links' rates (fabric.toml)
  Spec<int> efa_adapters;        // not listed where the network is not EFA
  Spec<double> efa_adapter_gbps;
  std::vector<std::string> aliases;  // other names of it
  Spec<int> lnc_default;             // physical cores per logical core; not listed before Trn2
  Price price;
};

struct UltraServer {
  std::string name;  // "Trn2 UltraServer"
  std::string key;
  std::string instance;  // the server it is made of; empty where AWS names none
  std::string chip;
  Spec<int> servers;
  Spec<int> chips_per_server;
  Spec<int> vcpus;
  Spec<double> host_memory_gib;
  Spec<double> network_gbps;
  Spec<std::string> topology;
  Spec<std::string> fabric;
  std::vector<std::string> aliases;
  Price price;
};

struct UltraCluster {
  std::string name;
  std::string key;
  std::string chip;
  Spec<double> chips_max;
  Spec<std::string> network;
};

// Chips of other makers, for price and speed comparisons.
struct ComparisonChip {
  std::string name;  // "H100 SXM"
  std::string key;
  Spec<double> memory_gb;
  Spec<double> memory_bandwidth_gb_s;
  Spec<double> scale_up_gb_s;  // one direction
  Spec<double> tdp_w;
  PeakTflops peak_tflops;
  std::map<std::string, Spec<double>, std::less<>> achieved_tflops;  // measured matmul maximum
};

struct ComparisonInstance {
  std::string name;  // "p5.48xlarge"
  std::string key;
  Spec<std::string> chip;
  Spec<int> chips;
  Spec<double> network_gbps;
  Price price;
};

}  // namespace opentrn::arch
