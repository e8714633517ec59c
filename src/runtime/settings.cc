#include "runtime/settings.h"

#include <charconv>
#include <climits>
#include <cstdlib>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "arch/dma_packets.h"
#include "base/fault.h"

namespace opentrn::runtime {

namespace {

constexpr int kCoresMax = 4096;
constexpr auto kTarget = "NEURON_PLATFORM_TARGET_OVERRIDE";

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& takes) {
  throw Fault(FaultKind::kInput, "environment", fmt::format("{} is '{}'; it takes {}", name, value, takes),
              fmt::format("set {} to such a value, or unset it", name));
}

int number(const char* name, const std::string& value, const char* begin, const char* end, int least,
           int most, const std::string& takes) {
  int result = 0;
  const auto [stop, error] = std::from_chars(begin, end, result);
  if (error != std::errc{} || stop != end || result < least || result > most) refuse(name, value, takes);
  return result;
}

int number(const char* name, const std::string& value, int least, int most) {
  return number(name, value, value.data(), value.data() + value.size(), least, most,
                fmt::format("a number from {} to {}", least, most));
}

// "0-3", "1,5", "0-1,4"
std::vector<int> cores_of(const char* name, const std::string& value) {
  const std::string takes = "core numbers and ranges, such as 0-3 or 1,5";
  std::vector<int> cores;
  size_t begin = 0;
  while (begin <= value.size()) {
    const size_t end = std::min(value.find(',', begin), value.size());
    const size_t dash = value.find('-', begin);
    const char* text = value.data();
    const bool range = dash < end;
    const int first = number(name, value, text + begin, text + (range ? dash : end), 0, kCoresMax - 1, takes);
    const int last =
        range ? number(name, value, text + dash + 1, text + end, first, kCoresMax - 1, takes) : first;
    for (int core = first; core <= last; ++core) cores.push_back(core);
    begin = end + 1;
  }
  return cores;
}

Generation generation_of(const std::string& target) {
  try {
    return arch::resolve_target(target);
  } catch (const Fault& fault) {
    throw Fault(FaultKind::kInput, "environment", fmt::format("{}: {}", kTarget, fault.message()),
                fault.hint());
  }
}

// An instance or an UltraServer. A chip alone stands for as many as are asked for, and is none.
struct Machine {
  std::string name;
  int physical_cores = 0;
  std::optional<int> lnc;  // physical cores of a logical one, where AWS says so
};

std::optional<Machine> machine_named(const std::string& name) {
  const arch::Tables& tables = arch::default_tables();
  const auto lnc_of = [](const arch::Instance& instance) {
    return instance.lnc_default.known() ? std::optional<int>(instance.lnc_default) : std::nullopt;
  };
  if (const arch::Instance* instance = tables.find_instance(name))
    return Machine{instance->name, instance->chips * int{arch::chip(instance->chip).cores},
                   lnc_of(*instance)};
  const arch::UltraServer* server = tables.find_ultraserver(name);
  if (server == nullptr) return std::nullopt;
  Machine machine{
      server->name, server->servers * server->chips_per_server * int{arch::chip(server->chip).cores}, {}};
  if (const arch::Instance* instance = tables.find_instance(server->instance))
    machine.lnc = lnc_of(*instance);
  return machine;
}

std::vector<int> first_cores(int count) {
  std::vector<int> cores(static_cast<size_t>(count));
  std::iota(cores.begin(), cores.end(), 0);
  return cores;
}

// Each once, and none that the instance does not have; a chip alone stands for as many as are asked for.
void check_cores(const std::vector<int>& cores, const std::optional<Machine>& machine, size_t in_machine) {
  std::set<int> seen;
  for (const int core : cores) {
    if (!seen.insert(core).second)
      throw Fault(FaultKind::kInput, "environment", fmt::format("core {} is named twice", core),
                  "name every core of NEURON_RT_VISIBLE_CORES once");
    if (machine && static_cast<size_t>(core) >= in_machine)
      throw Fault(FaultKind::kInput, "environment",
                  fmt::format("{} has logical cores 0 to {}, not {}", machine->name, in_machine - 1, core),
                  "lower NEURON_RT_NUM_CORES or NEURON_RT_VISIBLE_CORES, or choose a larger machine with "
                  "NEURON_PLATFORM_TARGET_OVERRIDE");
  }
}

// The variables of AWS's "Compute-Communication Overlap in Neuron".
WeightCollectives read_weight_collectives(
    const std::function<std::optional<std::string>(const char*)>& variable) {
  constexpr int kLayersMost = 1000;
  const auto flag = [&](const char* name) {
    const auto value = variable(name);
    return value && number(name, *value, 0, 1) == 1;
  };
  const auto layers = [&](const char* name) {
    const auto value = variable(name);
    return value ? number(name, *value, 0, kLayersMost) : 1;
  };
  WeightCollectives read;
  const bool both = flag("NEURON_NXD_FSDP_CC_MULTISTREAM"), has_stream = flag("NEURON_FSDP_CC_MULTISTREAM");
  read.is_ordered = flag("NEURON_FSDP") || both;
  read.has_stream = read.is_ordered && (has_stream || both);
  read.layers_early = layers("NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT");
  read.layers_late = layers("NEURON_FSDP_NUM_LAYER_LATE_RS_SHIFT");
  return read;
}

}  // namespace

Settings read_settings(const std::function<std::optional<std::string>(const char*)>& variable) {
  Settings settings;
  if (const auto target = variable(kTarget)) settings.target = *target;
  settings.generation = generation_of(settings.target);
  const std::optional<Machine> machine = machine_named(settings.target);
  if (machine && machine->lnc) settings.physical_cores_per_core = *machine->lnc;
  if (const auto lnc = variable("NEURON_LOGICAL_NC_CONFIG"))
    settings.physical_cores_per_core = number("NEURON_LOGICAL_NC_CONFIG", *lnc, 1, 2);
  if (settings.physical_cores_per_core > 1 && !arch::core_features(settings.generation).logical_cores)
    refuse("NEURON_LOGICAL_NC_CONFIG", std::to_string(settings.physical_cores_per_core),
           fmt::format("1 on {}: logical cores of two begin with Trainium2", settings.target));
  if (const auto used = variable("OPENTRN_LOGICAL_CORE")) {
    if (*used != "both" && *used != "one") refuse("OPENTRN_LOGICAL_CORE", *used, "both or one");
    settings.uses_both_cores = *used == "both";
  }
  if (machine) settings.cores = first_cores(machine->physical_cores / settings.physical_cores_per_core);
  const size_t in_machine = settings.cores.size();
  if (const auto count = variable("NEURON_RT_NUM_CORES"))
    settings.cores = first_cores(number("NEURON_RT_NUM_CORES", *count, 1, kCoresMax));
  if (const auto cores = variable("NEURON_RT_VISIBLE_CORES"))
    settings.cores = cores_of("NEURON_RT_VISIBLE_CORES", *cores);
  check_cores(settings.cores, machine, in_machine);
  if (const auto strict = variable("OPENTRN_STRICT"))
    settings.strict = number("OPENTRN_STRICT", *strict, 0, 1) == 1;
  if (const auto narrowing = variable("OPENTRN_NARROWING")) {
    if (*narrowing != "tell" && *narrowing != "off") refuse("OPENTRN_NARROWING", *narrowing, "tell or off");
    settings.tells_narrowing = *narrowing == "tell";
  }
  settings.compiler_flags = variable("NEURON_CC_FLAGS").value_or("");
  const RoundingSettings rounding = read_rounding(variable);
  settings.rounds_stochastically = rounding.enabled.value_or(false);
  settings.rounding_seed = rounding.seed;
  settings.dma_packets = read_dma_packets(variable);
  settings.weight_collectives = read_weight_collectives(variable);
  if (const auto check = variable("OPENTRN_CHECK"))
    settings.check = number("OPENTRN_CHECK", *check, 0, 1) == 1;
  settings.usage_file = variable("OPENTRN_USAGE").value_or("");
  settings.dump_folder = variable("OPENTRN_DUMP").value_or("");
  return settings;
}

RoundingSettings read_rounding(const std::function<std::optional<std::string>(const char*)>& variable) {
  constexpr auto kEnabled = "NEURON_RT_STOCHASTIC_ROUNDING_EN", kSeed = "NEURON_RT_STOCHASTIC_ROUNDING_SEED";
  RoundingSettings settings;
  if (const auto seed = variable(kSeed))
    settings.seed = static_cast<uint64_t>(number(kSeed, *seed, 0, INT_MAX));
  if (const auto enabled = variable(kEnabled)) settings.enabled = number(kEnabled, *enabled, 0, 1) == 1;
  return settings;
}

arch::DmaPackets read_dma_packets(const std::function<std::optional<std::string>(const char*)>& variable) {
  constexpr auto kCompute = "NEURON_RT_DBG_DMA_PACKETIZATION_SIZE",
                 kCollectives = "NEURON_RT_DBG_CC_DMA_PACKET_SIZE";
  constexpr int kLeast = 64, kMost = 65536;  // kLeast is assumed: a descriptor's smallest efficient element
  arch::DmaPackets packets = arch::dma_packets(arch::default_tables());
  if (const auto bytes = variable(kCompute))
    packets.compute_bytes = number(kCompute, *bytes, static_cast<int>(packets.compute_bytes), kMost);
  if (const auto list = variable(kCollectives)) {
    const std::string takes = fmt::format("numbers from {} to {}, one for each stream", kLeast, kMost);
    for (size_t begin = 0, end = 0; begin <= list->size(); begin = end + 1) {
      end = std::min(list->find(',', begin), list->size());
      const int bytes =
          number(kCollectives, *list, list->data() + begin, list->data() + end, kLeast, kMost, takes);
      if (begin == 0) packets.collective_bytes = bytes;
      packets.of_stream.push_back(bytes);
    }
  }
  return packets;
}

std::optional<int64_t> read_loop_limit(
    const std::function<std::optional<std::string>(const char*)>& variable) {
  constexpr auto kName = "OPENTRN_LOOP_LIMIT";
  const auto limit = variable(kName);
  if (!limit) return std::nullopt;
  return number(kName, *limit, 1, INT_MAX);
}

bool read_core_races(const std::function<std::optional<std::string>(const char*)>& variable) {
  constexpr auto kName = "OPENTRN_CORE_RACES";
  const std::string value = variable(kName).value_or("error");
  if (value != "error" && value != "off") refuse(kName, value, "error or off");
  return value == "error";
}

namespace {

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

}  // namespace

Settings settings_of_environment() { return read_settings(environment_variable); }

int64_t hbm_bytes_of_core(Generation generation, int physical_cores_per_core) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  for (const arch::Chip& chip : arch::default_tables().chips())
    if (chip.generation == generation)
      return static_cast<int64_t>(chip.memory_gib * kGiB) / chip.cores * physical_cores_per_core;
  throw Fault(FaultKind::kInternal, "", "no chip of this generation");
}

int64_t hbm_bytes_of_core(const std::string& target) {
  const Generation generation = arch::resolve_target(target);
  if (!arch::core_features(generation).logical_cores) return hbm_bytes_of_core(generation, 1);
  const std::optional<Machine> machine = machine_named(target);
  const int usual = machine && machine->lnc ? *machine->lnc : 1;
  const auto stated = environment_variable("NEURON_LOGICAL_NC_CONFIG");
  return hbm_bytes_of_core(generation, stated ? number("NEURON_LOGICAL_NC_CONFIG", *stated, 1, 2) : usual);
}

RoundingSettings rounding_of_environment() { return read_rounding(environment_variable); }

arch::DmaPackets dma_packets_of_environment() { return read_dma_packets(environment_variable); }

std::optional<int64_t> loop_limit_of_environment() { return read_loop_limit(environment_variable); }

bool core_races_of_environment() { return read_core_races(environment_variable); }

}  // namespace opentrn::runtime
