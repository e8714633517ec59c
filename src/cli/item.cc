#include "cli/item.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "arch/closest.h"

namespace opentrn::cli {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

const arch::Topology* topology_of(const arch::Tables& tables, const arch::Spec<std::string>& name) {
  return name.known() ? &tables.topology(name.value()) : nullptr;
}

// Every named thing of the tables, in the order of `opentrn ls`.
std::vector<Item> all_items(const arch::Tables& tables) {
  std::vector<Item> items;
  const auto add = [&](std::string kind, const std::string& name,
                       std::vector<std::string> prefixes) -> Item& {
    items.push_back({std::move(kind), name, std::move(prefixes), {}, nullptr, nullptr});
    return items.back();
  };
  for (const auto& core : tables.neuron_cores()) add("NeuronCore", core.name, {core.key});
  for (const auto& chip : tables.chips()) add("chip", chip.name, {chip.key});
  for (const auto& instance : tables.instances()) {
    Item& item = add("instance", instance.name, {instance.key, "price." + instance.name});
    item.totals = arch::totals(tables, instance);
    item.topology = topology_of(tables, instance.topology);
  }
  for (const auto& server : tables.ultraservers()) {
    Item& item = add("UltraServer", server.name, {server.key, "price." + server.name});
    item.totals = arch::totals(tables, server);
    item.topology = topology_of(tables, server.topology);
  }
  for (const auto& cluster : tables.ultraclusters()) add("UltraCluster", cluster.name, {cluster.key});
  for (const auto& topology : tables.topologies())
    add("topology", topology.name, {"topology." + topology.name}).topology = &topology;
  for (const auto& chip : tables.comparison_chips()) add("comparison chip", chip.name, {chip.key});
  for (const auto& instance : tables.comparison_instances())
    add("comparison instance", instance.name, {instance.key, "price." + instance.name});
  for (Generation generation : kGenerations) {
    const std::string key = fmt::format("timing.{}", table_key(generation));
    add("timing table", key, {key}).timing = &tables.timing(generation);
  }
  return items;
}

// What `--target trn2` means: one core of the generation, and the chips that have it.
Item target_item(const arch::Tables& tables, const std::string& target) {
  const Generation generation = tables.resolve_target(target);
  Item item{"target", target, {"target." + target, tables.neuron_core(generation).key}, {}, nullptr, nullptr};
  for (const auto& chip : tables.chips())
    if (chip.generation == generation) item.prefixes.push_back(chip.key);
  return item;
}

}  // namespace

std::vector<const arch::Fact*> facts_of(const arch::Tables& tables, const std::string& prefix) {
  if (const arch::Fact* fact = tables.facts().find(prefix)) return {fact};
  return tables.facts().under(prefix);
}

Item find_item(const arch::Tables& tables, std::string_view name) {
  std::vector<std::string> names;
  for (Item& item : all_items(tables)) {
    if (same_name(item.name, name)) return std::move(item);
    names.push_back(item.name);
  }
  for (const std::string& target : tables.facts().items("target")) {
    if (same_name(target, name)) return target_item(tables, target);
    names.push_back(target);
  }
  const std::string key(name);
  if (!facts_of(tables, key).empty())
    return {tables.facts().find(key) != nullptr ? "value" : "table", key, {key}, {}, nullptr, nullptr};
  if (key.find('.') != std::string::npos)
    for (std::string& fact_key : tables.facts().keys()) names.push_back(std::move(fact_key));
  for (const std::string& table : tables.facts().items("")) names.push_back(table);
  throw Fault(FaultKind::kInput, "arch.name",
              fmt::format("nothing in the machine tables is called '{}'", name),
              arch::did_you_mean(name, names, "`opentrn ls` lists all names"));
}

}  // namespace opentrn::cli
