// What a framework's programs take from their environment: Neuron's own variables, by their documented
// meaning.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arch/arch.h"
#include "arch/dma_packets.h"

namespace opentrn::runtime {

// Collectives of weights that lie in parts (FSDP): in AWS's words, Token Threading for FSDP.
struct WeightCollectives {
  bool is_ordered = false;  // NEURON_FSDP: gathers and scatters of weights have their place among the layers
  bool has_stream = false;  // NEURON_FSDP_CC_MULTISTREAM: they run in stream 1, all others in stream 0

  // Layers: gathers are triggered so many before the one that reads, scatters so many behind the one that
  // writes. 1 without a variable [assumed].
  int layers_early = 1, layers_late = 1;
};

struct Settings {
  Generation generation = Generation::kV3;
  std::string target = "trn2";
  // Physical ids of the devices, one logical NeuronCore each.
  std::vector<int> cores{0};
  int physical_cores_per_core = 1;  // LNC
  bool uses_both_cores = true;      // of a logical core of two, where a program can be cut
  // Programs with an op that has no device kernel are refused instead of run by the reference evaluator.
  bool strict = false;
  std::string compiler_flags;  // as they stand: a compilation reads them (compiler/flags.h)
  bool rounds_stochastically = false;
  uint64_t rounding_seed = 0;
  arch::DmaPackets dma_packets = arch::dma_packets(arch::default_tables());
  WeightCollectives weight_collectives;
  bool tells_narrowing = true;  // see OPENTRN_NARROWING
  bool check = false;           // the first run of a program is compared with float64, op by op
  std::string usage_file;       // see usage.h
  std::string dump_folder;      // for the programs that are compiled
};

// `variable` gives the value of an environment variable. Read are
//   NEURON_PLATFORM_TARGET_OVERRIDE   a chip ("trn2": one core) or an instance ("trn2.48xlarge": all of its)
//   NEURON_LOGICAL_NC_CONFIG          physical cores of a logical one, 1 or 2; otherwise the instance's own
//   OPENTRN_LOGICAL_CORE              both (physical cores compute, the default) or one
//   NEURON_RT_NUM_CORES               so many cores
//   NEURON_RT_VISIBLE_CORES           these: "0-3", "1,5"
//   NEURON_CC_FLAGS                   options of the compiler
//   NEURON_RT_STOCHASTIC_ROUNDING_EN  1: engines round to narrower floats stochastically
//   NEURON_RT_STOCHASTIC_ROUNDING_SEED  a number, 0 without it
//   NEURON_RT_DBG_DMA_PACKETIZATION_SIZE  bytes of a packet of compute's DMA rings, 4096 to 65536
//   NEURON_RT_DBG_CC_DMA_PACKET_SIZE  bytes of a packet of collectives' DMA rings, 64 to 65536, or one number
//                                     for each stream ("65536,4096")
//   NEURON_FSDP                       1: collectives of weights are ordered by layers
//   NEURON_FSDP_CC_MULTISTREAM        1, with NEURON_FSDP: they run in a stream of their own
//   NEURON_NXD_FSDP_CC_MULTISTREAM    1: both
//   NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT, NEURON_FSDP_NUM_LAYER_LATE_RS_SHIFT   0 to 1000 layers, with either
//   OPENTRN_STRICT                    1: no op runs on the host
//   OPENTRN_NARROWING                 off: nothing is said of 64-bit numbers that are computed in 32 bits
//   OPENTRN_CHECK                     1: programs are compared with float64 when they first run
//   OPENTRN_USAGE                     a file for what ran
//   OPENTRN_DUMP                      a folder for the programs as they come, which `opentrn compile` reads
// Input fault for a value that is none of theirs, with the variable's name. NEURON_CC_FLAGS is not looked
// into.
Settings read_settings(const std::function<std::optional<std::string>(const char*)>& variable);
Settings settings_of_environment();

// Bytes of HBM of a logical core, its share of its chip's: of so many physical cores; or of a target that a
// command names, where NEURON_LOGICAL_NC_CONFIG says how many, else the instance or UltraServer. Input fault
// for another target or value.
int64_t hbm_bytes_of_core(Generation generation, int physical_cores_per_core);
int64_t hbm_bytes_of_core(const std::string& target);

// The two variables of stochastic rounding alone: a kernel's other variables mean something else.
struct RoundingSettings {
  std::optional<bool> enabled;
  uint64_t seed = 0;
};
RoundingSettings read_rounding(const std::function<std::optional<std::string>(const char*)>& variable);
RoundingSettings rounding_of_environment();

// The two of packets: settings of kernels' launches, too.
arch::DmaPackets read_dma_packets(const std::function<std::optional<std::string>(const char*)>& variable);
arch::DmaPackets dma_packets_of_environment();

// OPENTRN_LOOP_LIMIT: how often a device loop may run whose end depends on values; nothing without it.
std::optional<int64_t> read_loop_limit(
    const std::function<std::optional<std::string>(const char*)>& variable);
std::optional<int64_t> loop_limit_of_environment();

// OPENTRN_CORE_RACES: "error", as without it, or "off". Whether two cores of a launch are checked for races.
bool read_core_races(const std::function<std::optional<std::string>(const char*)>& variable);
bool core_races_of_environment();

}  // namespace opentrn::runtime
