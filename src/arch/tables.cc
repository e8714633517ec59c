#include "arch/tables.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "arch/closest.h"
#include "arch/packed_facts.h"

namespace opentrn::arch {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Reads the members of one item: required ones must have a row, if only to say "unknown".
class ItemReader {
 public:
  ItemReader(const FactTable& facts, std::string key) : facts_(facts), key_(std::move(key)) {}

  template <typename T>
  void required(Spec<T>& spec, std::string_view member) const {
    spec = facts_.spec<T>(fmt::format("{}.{}", key_, member));
  }
  template <typename T>
  void optional(Spec<T>& spec, std::string_view member) const {
    spec = facts_.optional_spec<T>(fmt::format("{}.{}", key_, member));
  }
  std::vector<std::string> list(std::string_view member) const {
    const Fact* fact = facts_.find(fmt::format("{}.{}", key_, member));
    return fact == nullptr ? std::vector<std::string>{} : fact->as<std::vector<std::string>>();
  }
  std::string text(std::string_view member) const {
    return facts_.at(fmt::format("{}.{}", key_, member)).as<std::string>();
  }
  PeakTflops numbers(std::string_view member) const {
    PeakTflops out;
    for (const Fact* fact : facts_.under(fmt::format("{}.{}", key_, member)))
      out.emplace(fact->name(), Spec<double>(fact));
    return out;
  }

 private:
  const FactTable& facts_;
  std::string key_;
};

NeuronCore read_core(const FactTable& facts, Generation generation) {
  NeuronCore core;
  core.generation = generation;
  core.key = fmt::format("neuron_core.{}", table_key(generation));
  const ItemReader item(facts, core.key);
  core.name = item.text("name");
  item.required(core.partitions, "partitions");
  item.required(core.sbuf_bytes_per_partition, "sbuf_bytes_per_partition");
  item.required(core.psum_bytes_per_partition, "psum_bytes_per_partition");
  item.required(core.psum_banks, "psum_banks");
  item.required(core.psum_bank_bytes_per_partition, "psum_bank_bytes_per_partition");
  item.required(core.engines, "engines");
  item.required(core.tensor_rows, "tensor_rows");
  item.required(core.tensor_columns, "tensor_columns");
  item.required(core.tensor_clock_ghz, "tensor_clock_ghz");
  item.required(core.vector_clock_ghz, "vector_clock_ghz");
  item.required(core.scalar_clock_ghz, "scalar_clock_ghz");
  item.required(core.gpsimd_clock_ghz, "gpsimd_clock_ghz");
  item.required(core.gpsimd_processors, "gpsimd_processors");
  item.required(core.dtypes, "dtypes");
  core.peak_tflops = item.numbers("peak_tflops");
  item.required(core.matmul_contraction_max, "matmul_contraction_max");
  item.required(core.matmul_stationary_columns_max, "matmul_stationary_columns_max");
  item.required(core.matmul_moving_columns_max, "matmul_moving_columns_max");
  item.required(core.vector_gpsimd_share_sbuf_port, "vector_gpsimd_share_sbuf_port");
  item.required(core.vector_scalar_share_psum_port, "vector_scalar_share_psum_port");
  item.required(core.dma_engines, "dma_engines");
  item.required(core.dma_queues_per_engine, "dma_queues_per_engine");
  item.required(core.dma_engine_gb_s, "dma_engine_gb_s");
  item.required(core.hwdge_units, "hwdge_units");
  item.required(core.hbm_bandwidth_gb_s, "hbm_bandwidth_gb_s");
  return core;
}

Generation generation_from_key(const Fact& fact) {
  const std::string text = fact.as<std::string>();
  for (Generation g : kGenerations)
    if (text == table_key(g)) return g;
  throw Fault(FaultKind::kInput, fact.key, fmt::format("'{}' is not a NeuronCore generation", text),
              "v1, v2, v3 or v4");
}

Chip read_chip(const FactTable& facts, const std::string& name) {
  Chip chip;
  chip.name = name;
  chip.key = "chip." + name;
  const ItemReader item(facts, chip.key);
  chip.generation = generation_from_key(facts.at(chip.key + ".neuron_core"));
  item.required(chip.cores, "cores");
  item.required(chip.memory_gib, "memory_gib");
  item.required(chip.memory_bandwidth_gb_s, "memory_bandwidth_gb_s");
  item.required(chip.hbm_stacks, "hbm_stacks");
  item.required(chip.dma_bandwidth_gb_s, "dma_bandwidth_gb_s");
  item.required(chip.dma_engines, "dma_engines");
  item.required(chip.cc_cores, "cc_cores");
  item.required(chip.neuronlink_version, "neuronlink_version");
  item.required(chip.neuronlink_gb_s, "neuronlink_gb_s");
  item.required(chip.neuronlink_links, "neuronlink_links");
  chip.peak_tflops = item.numbers("peak_tflops");
  return chip;
}

Price read_price(const FactTable& facts, const std::string& name) {
  Price price;
  const ItemReader item(facts, "price." + name);
  item.optional(price.on_demand_usd_h, "on_demand_usd_h");
  item.optional(price.reserved_usd_h, "reserved_usd_h");
  item.optional(price.capacity_block_usd_h, "capacity_block_usd_h");
  return price;
}

Instance read_instance(const FactTable& facts, const std::string& name) {
  Instance instance;
  instance.name = name;
  instance.key = "instance." + name;
  const ItemReader item(facts, instance.key);
  instance.chip = item.text("chip");
  item.required(instance.chips, "chips");
  item.required(instance.vcpus, "vcpus");
  item.required(instance.host_memory_gib, "host_memory_gib");
  item.required(instance.network_gbps, "network_gbps");
  item.required(instance.topology, "topology");
  item.required(instance.fabric, "fabric");
  item.optional(instance.efa_adapters, "efa_adapters");
  item.optional(instance.efa_adapter_gbps, "efa_adapter_gbps");
  instance.aliases = item.list("aliases");
  item.optional(instance.neuronlink_gb_s, "neuronlink_gb_s");
  item.optional(instance.lnc_default, "lnc_default");
  instance.price = read_price(facts, name);
  return instance;
}

UltraServer read_ultraserver(const FactTable& facts, const std::string& name) {
  UltraServer server;
  server.name = name;
  server.key = "ultraserver." + name;
  const ItemReader item(facts, server.key);
  server.chip = item.text("chip");
  if (const Fact* instance = facts.find(server.key + ".instance"); instance != nullptr && instance->known())
    server.instance = instance->as<std::string>();
  item.required(server.servers, "servers");
  item.required(server.chips_per_server, "chips_per_server");
  item.required(server.vcpus, "vcpus");
  item.required(server.host_memory_gib, "host_memory_gib");
  item.required(server.network_gbps, "network_gbps");
  item.required(server.topology, "topology");
  item.required(server.fabric, "fabric");
  server.aliases = item.list("aliases");
  server.price = read_price(facts, name);
  return server;
}

UltraCluster read_ultracluster(const FactTable& facts, const std::string& name) {
  UltraCluster cluster;
  cluster.name = name;
  cluster.key = "ultracluster." + name;
  const ItemReader item(facts, cluster.key);
  cluster.chip = item.text("chip");
  item.required(cluster.chips_max, "chips_max");
  item.required(cluster.network, "network");
  return cluster;
}

ComparisonChip read_comparison_chip(const FactTable& facts, const std::string& name) {
  ComparisonChip chip;
  chip.name = name;
  chip.key = "comparison_chip." + name;
  const ItemReader item(facts, chip.key);
  item.required(chip.memory_gb, "memory_gb");
  item.required(chip.memory_bandwidth_gb_s, "memory_bandwidth_gb_s");
  item.required(chip.scale_up_gb_s, "scale_up_gb_s");
  item.required(chip.tdp_w, "tdp_w");
  chip.peak_tflops = item.numbers("peak_tflops");
  chip.achieved_tflops = item.numbers("achieved_tflops");
  return chip;
}

ComparisonInstance read_comparison_instance(const FactTable& facts, const std::string& name) {
  ComparisonInstance instance;
  instance.name = name;
  instance.key = "comparison_instance." + name;
  const ItemReader item(facts, instance.key);
  item.required(instance.chip, "chip");
  item.required(instance.chips, "chips");
  item.required(instance.network_gbps, "network_gbps");
  instance.price = read_price(facts, name);
  return instance;
}

Topology read_topology(const FactTable& facts, const std::string& name) {
  Topology topology;
  topology.name = name;
  const ItemReader item(facts, "topology." + name);
  item.required(topology.rule, "rule");
  item.required(topology.dimensions, "dimensions");
  return topology;
}

template <typename Item>
std::vector<std::string> names_of(const std::vector<Item>& items) {
  std::vector<std::string> out;
  for (const Item& item : items) out.push_back(item.name);
  return out;
}

template <typename Item>
const Item* find_by_name(const std::vector<Item>& items, std::string_view name) {
  for (const Item& item : items) {
    if (same_name(item.name, name)) return &item;
    if constexpr (requires { item.aliases; })
      for (const std::string& alias : item.aliases)
        if (same_name(alias, name)) return &item;
  }
  return nullptr;
}

template <typename Item>
const Item& by_name(const std::vector<Item>& items, std::string_view name, std::string_view what) {
  if (const Item* item = find_by_name(items, name)) return *item;
  throw Fault(FaultKind::kInput, "arch.name", fmt::format("there is no {} '{}'", what, name),
              did_you_mean(name, names_of(items), "`opentrn ls` lists all names"));
}

}  // namespace

Tables::Tables(const Overrides& overrides) : facts_(unpack_facts(packed_tables())) {
  facts_.apply(overrides);
  for (Generation g : kGenerations) {
    neuron_cores_.push_back(read_core(facts_, g));
    timing_.emplace_back(facts_, g);
  }
  const auto read_all = [&](auto& list, std::string_view table, auto read) {
    for (const std::string& name : facts_.items(table)) list.push_back(read(facts_, name));
  };
  read_all(chips_, "chip", read_chip);
  read_all(instances_, "instance", read_instance);
  read_all(ultraservers_, "ultraserver", read_ultraserver);
  read_all(ultraclusters_, "ultracluster", read_ultracluster);
  read_all(comparison_chips_, "comparison_chip", read_comparison_chip);
  read_all(comparison_instances_, "comparison_instance", read_comparison_instance);
  read_all(topologies_, "topology", read_topology);
}

double NeuronCore::clock_ghz(std::string_view engine) const {
  if (engine == "tensor") return tensor_clock_ghz;
  if (engine == "vector") return vector_clock_ghz;
  if (engine == "scalar") return scalar_clock_ghz;
  if (engine == "gpsimd") return gpsimd_clock_ghz;
  throw Fault(FaultKind::kInput, "arch.name",
              fmt::format("'{}' is not an engine with a published clock", engine),
              "tensor, vector, scalar or gpsimd; the sync engine's clock is timing constant sync_clock_ghz");
}

const NeuronCore& Tables::neuron_core(Generation generation) const {
  return neuron_cores_.at(static_cast<size_t>(version(generation) - 1));
}
const TimingTable& Tables::timing(Generation generation) const {
  return timing_.at(static_cast<size_t>(version(generation) - 1));
}
const Chip& Tables::chip(std::string_view name) const { return by_name(chips_, name, "chip"); }
const Instance& Tables::instance(std::string_view name) const {
  return by_name(instances_, name, "instance");
}
const UltraServer& Tables::ultraserver(std::string_view name) const {
  return by_name(ultraservers_, name, "UltraServer");
}
const Instance* Tables::find_instance(std::string_view name) const { return find_by_name(instances_, name); }
const UltraServer* Tables::find_ultraserver(std::string_view name) const {
  return find_by_name(ultraservers_, name);
}
const UltraCluster& Tables::ultracluster(std::string_view name) const {
  return by_name(ultraclusters_, name, "UltraCluster");
}
const ComparisonChip& Tables::comparison_chip(std::string_view name) const {
  return by_name(comparison_chips_, name, "comparison chip");
}
const ComparisonInstance& Tables::comparison_instance(std::string_view name) const {
  return by_name(comparison_instances_, name, "comparison instance");
}
const Topology& Tables::topology(std::string_view name) const {
  return by_name(topologies_, name, "topology");
}

Generation Tables::resolve_target(std::string_view target) const {
  std::vector<std::string> names;
  for (const std::string& alias : facts_.items("target")) {
    if (same_name(alias, target)) return generation_from_key(facts_.at("target." + alias));
    names.push_back(alias);
  }
  if (const NeuronCore* core = find_by_name(neuron_cores_, target)) return core->generation;
  if (const Chip* found = find_by_name(chips_, target)) return found->generation;
  if (const Instance* found = find_by_name(instances_, target)) return chip(found->chip).generation;
  if (const UltraServer* found = find_by_name(ultraservers_, target)) return chip(found->chip).generation;
  for (const auto& more :
       {names_of(neuron_cores_), names_of(chips_), names_of(instances_), names_of(ultraservers_)})
    names.insert(names.end(), more.begin(), more.end());
  throw Fault(FaultKind::kInput, "arch.target", fmt::format("'{}' is not a target", target),
              did_you_mean(target, names, "trn1, inf2, trn2, trn3, gen2 .. gen4, or an instance name"));
}

const Tables& default_tables() {
  static const Tables& tables = *new Tables;  // for the process: its end need not take them apart
  return tables;
}

std::shared_ptr<const Tables> load_tables(const Overrides& overrides) {
  if (overrides.files.empty() && overrides.settings.empty())
    return {std::shared_ptr<const void>(), &default_tables()};  // reading them takes a command's start
  return std::make_shared<const Tables>(overrides);
}

}  // namespace opentrn::arch
