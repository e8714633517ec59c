#include "planner/machine.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/closest.h"
#include "arch/core_features.h"
#include "collectives/summary.h"
#include "fabric/platform.h"
#include "numerics/dtype.h"

namespace opentrn::planner {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kMicro = 1e-6, kGib = 1024.0 * 1024 * 1024;

// A value of planner.chip.<chip>, and the record that it was used.
class ChipFacts {
 public:
  ChipFacts(const arch::Tables& tables, const std::string& chip, Machine& machine)
      : facts_(tables.facts()), prefix_("planner.chip." + chip), machine_(machine) {
    if (facts_.find(prefix_ + ".memory_share") == nullptr) {
      throw Fault(
          FaultKind::kNotModelled, "plan.chip", fmt::format("the planner has no rates for a {}", chip),
          fmt::format("`opentrn plan --instances` lists what it has; or add {}.* with --tables", prefix_));
    }
  }
  double at(const char* member) const {
    const std::string key = prefix_ + "." + member;
    machine_.basis.push_back(key);
    const arch::Fact& fact = facts_.at(key);
    machine_.calibrated_on.insert(machine_.calibrated_on.end(), fact.calibrated_on.begin(),
                                  fact.calibrated_on.end());
    return fact.as<double>();
  }
  double at_or(const char* member, double otherwise) const {
    return facts_.find(prefix_ + "." + member) == nullptr ? otherwise : at(member);
  }

 private:
  const arch::FactTable& facts_;
  std::string prefix_;
  Machine& machine_;
};

// Rates of one rank, whose share of the chip is `part`.
void set_rates(Machine& machine, const ChipFacts& facts, const arch::PeakTflops& peaks,
               const arch::PeakTflops& achieved, double part, double part_of_chip = 1) {
  Rates& rates = machine.rates;
  const auto peak = [&](std::string_view name) {
    const auto found = peaks.find(name);
    return found == peaks.end() || !found->second.known() ? 0.0 : double(found->second) * kTera * part;
  };
  // Not int8's: the chips that have both say that theirs differ, and others have int8 alone.
  const double bf16 = peak("bf16"), fp8 = std::max(peak("fp8"), peak("mxfp8"));
  const double tf32 = peak("tf32"), fp32 = peak("fp32");
  // In float32, a GPU's products run as TF32 by default; a NeuronCore's take four passes.
  const double single = machine.kind == Kind::kNeuron ? fp32 : tf32;
  rates.peak[0] = bf16;
  machine.has_fp8 = fp8 > 0;
  rates.peak[1] = fp8 > 0 ? fp8 : bf16;
  rates.peak[2] = single > 0 ? single : bf16 / 2;
  rates.vector = fp32 > 0 ? fp32 : bf16 / 16;
  const auto reached = [&](std::string_view name, double of) {
    const auto found = achieved.find(name);
    return found == achieved.end() ? 0.0 : double(found->second) * kTera * part / of;
  };
  const double stated = facts.at_or("matmul_share", 0);
  double share = reached("bf16", bf16);
  if (share <= 0) share = stated > 0 ? stated : facts.at("matmul_share");
  const double fp8_share = reached("fp8", rates.peak[1]);
  rates.matmul[0] = rates.peak[0] * share;
  rates.matmul[1] = rates.peak[1] * (fp8_share > 0 ? fp8_share : fp8 > 0 ? share * 0.9 : share);
  rates.matmul[2] = rates.peak[2] * share;
  // Power and heat let a chip sustain less in hours of training than in a benchmark's seconds.
  const double sustained = facts.at_or("sustained_share", 1);
  for (double& rate : rates.matmul) rate *= sustained;
  rates.flash_forward = bf16 * facts.at("flash_forward_share") * sustained;
  rates.flash_backward = bf16 * facts.at("flash_backward_share") * sustained;
  rates.units = facts.at("units");
  machine.host_link_bytes_s = facts.at("host_link_gb_s") * kGiga * part_of_chip;
  machine.host_memory_bytes_s = facts.at("host_memory_gb_s") * kGiga * part_of_chip;
  rates.pad = facts.at_or("pad", 1);
}

void set_comparison_chip(const arch::Tables& tables, Machine& machine, const std::string& name) {
  const arch::ComparisonChip& chip = tables.comparison_chip(name);
  machine.chip = chip.name;
  machine.kind = chip.name.starts_with("TPU") ? Kind::kTpu : Kind::kGpu;
  const ChipFacts facts(tables, chip.name, machine);
  set_rates(machine, facts, chip.peak_tflops, chip.achieved_tflops, 1);
  machine.ranks_per_chip = 1;
  machine.memory_bytes = chip.memory_gb * kGiga;
  // 80 GB of a GPU's data sheet are 80 GiB less what the driver keeps.
  if (machine.kind == Kind::kGpu) machine.memory_bytes = chip.memory_gb * kGib * 0.985;
  machine.rates.memory_bytes_s = chip.memory_bandwidth_gb_s * kGiga * facts.at("memory_share");
  machine.inside = {chip.scale_up_gb_s * kGiga * facts.at("inside_share"),
                    facts.at("inside_latency_us") * kMicro};
  machine.across = {facts.at_or("across_gb_s", 0) * kGiga * facts.at("across_share"),
                    facts.at("across_latency_us") * kMicro};
  machine.basis.push_back(chip.key + ".peak_tflops.bf16");
}

// What collectives reach inside an instance: asked of the plans that run on its links.
Tier inside_of(const fabric::Platform& platform, const arch::Tables& tables, int cores_per_rank, int group) {
  const int ranks = platform.cores() / cores_per_rank;
  const collectives::RankCores cores =
      collectives::place_ranks(platform, ranks, cores_per_rank, platform.servers());
  const auto seconds = [&](int64_t bytes) {
    return collectives::summary_of(tables, platform, cores,
                                   {collectives::Kind::kAllGather, DType::kBFloat16, bytes, group, ""})
               .us *
           kMicro;
  };
  const int64_t small = 64 << 10, large = 16 << 20;
  const double first = seconds(small), second = seconds(large);
  const double moved = double(large - small) * (group - 1) / group;
  const double rate = moved / std::max(second - first, 1e-9);
  return {rate, std::max(0.0, first - double(small) * (group - 1) / group / rate) / std::max(1, group - 1)};
}

void set_neuron(const arch::Tables& tables, Machine& machine, const std::string& server,
                const arch::Chip& chip, int chips, int lnc, double network_gbps) {
  machine.kind = Kind::kNeuron;
  machine.generation = chip.generation;
  machine.cores_per_rank = lnc;
  machine.chip = chip.name;
  const ChipFacts facts(tables, chip.name, machine);
  const arch::NeuronCore& core = tables.neuron_core(chip.generation);
  machine.ranks_per_chip = double(int{chip.cores}) / lnc;
  machine.ranks_per_server = static_cast<int>(chips * machine.ranks_per_chip);
  machine.domain = machine.ranks_per_server;
  set_rates(machine, facts, core.peak_tflops, {}, lnc, 1 / machine.ranks_per_chip);
  // MFU is counted against the chip's data sheet.
  for (int i = 0; i < 3; ++i)
    if (const auto found = chip.peak_tflops.find(i == 1   ? "fp8"
                                                 : i == 2 ? "fp32"
                                                          : "bf16");
        found != chip.peak_tflops.end() && found->second.known())
      machine.rates.peak[i] = found->second * kTera / machine.ranks_per_chip;
  machine.memory_bytes = chip.memory_gib * kGib / machine.ranks_per_chip;
  machine.rates.memory_bytes_s =
      chip.memory_bandwidth_gb_s * kGiga / machine.ranks_per_chip * facts.at("memory_share");
  machine.across = {network_gbps / 8 * kGiga / machine.ranks_per_server * facts.at("across_share"),
                    facts.at("across_latency_us") * kMicro};
  machine.across_ring_share = facts.at_or("across_ring_share", 1);
  const fabric::Platform platform = fabric::Platform::make(tables, server, 1);
  for (int group = 1; group <= machine.ranks_per_server; group *= 2)
    machine.inside_by_group.push_back(group == 1 ? Tier{1, 0}
                                      : machine.ranks_per_server % group != 0
                                          ? machine.inside_by_group.back()
                                          : inside_of(platform, tables, lnc, group));
  machine.inside = machine.inside_by_group.back();
  if (lnc > 1) machine.inside_rank = inside_of(platform, tables, 1, lnc);
  machine.basis.push_back(chip.key + ".peak_tflops.bf16");
}

// One machine needs none; more of them need it known.
double network_of(const arch::Spec<double>& network_gbps, int64_t count) {
  return count > 1 || network_gbps.known() ? double(network_gbps) : 0;
}

int cores_per_rank_of(const arch::Chip& chip, int cores) {
  if (cores == 1 || (cores == 2 && arch::core_features(chip.generation).logical_cores)) return cores;
  throw Fault(FaultKind::kInput, "plan.instance", fmt::format("{} cores of a {} as one", cores, chip.name),
              "--lnc 1; or 2 on NeuronCore-v3 and later");
}

int lnc_of(const arch::Instance& instance) {
  return instance.lnc_default.known() ? int{instance.lnc_default} : 1;
}

}  // namespace

std::vector<std::string> plannable_instances(const arch::Tables& tables) {
  std::vector<std::string> names;
  const auto has_rates = [&](const std::string& chip) {
    return tables.facts().find("planner.chip." + chip + ".memory_share") != nullptr;
  };
  for (const arch::Instance& each : tables.instances())
    if (has_rates(each.chip)) names.push_back(each.name);
  for (const arch::UltraServer& each : tables.ultraservers())
    if (has_rates(each.chip)) names.push_back(each.name);
  for (const arch::ComparisonInstance& each : tables.comparison_instances())
    if (has_rates(each.chip)) names.push_back(each.name);
  return names;
}

Machine machine_of(const arch::Tables& tables, const std::string& instance, int64_t count,
                   std::optional<int> cores_per_rank) {
  if (count < 1)
    throw Fault(FaultKind::kInput, "plan.count", fmt::format("{} instances", count), "at least one");
  Machine machine;
  machine.instance = instance;
  if (const arch::Instance* found = tables.find_instance(instance)) {
    machine.instance = found->name;
    const arch::Chip& chip = tables.chip(found->chip);
    set_neuron(tables, machine, found->name, chip, found->chips,
               cores_per_rank_of(chip, cores_per_rank.value_or(lnc_of(*found))),
               network_of(found->network_gbps, count));
  } else if (const arch::UltraServer* server = tables.find_ultraserver(instance)) {
    machine.instance = server->name;
    const arch::Instance* part = tables.find_instance(server->instance);
    const int lnc = cores_per_rank.value_or(part != nullptr ? lnc_of(*part) : 2);
    const arch::Chip& chip = tables.chip(server->chip);
    set_neuron(tables, machine, server->name, chip, server->servers * server->chips_per_server,
               cores_per_rank_of(chip, lnc), network_of(server->network_gbps, count));
  } else {
    if (cores_per_rank)
      throw Fault(FaultKind::kInput, "plan.instance",
                  fmt::format("--lnc {} on '{}'", *cores_per_rank, instance),
                  "logical cores are those of NeuronCore-v3 and later");
    const auto& others = tables.comparison_instances();
    const auto other = std::ranges::find(others, instance, &arch::ComparisonInstance::name);
    if (other == others.end()) {
      const std::vector<std::string> names = plannable_instances(tables);
      throw Fault(FaultKind::kInput, "plan.instance", fmt::format("there is no instance '{}'", instance),
                  arch::did_you_mean(instance, names, fmt::format("one of: {}", fmt::join(names, ", "))));
    }
    set_comparison_chip(tables, machine, other->chip);
    machine.ranks_per_server = other->chips;
    machine.domain = machine.ranks_per_server;
    if (count > 1 || other->network_gbps.known()) {
      const ChipFacts facts(tables, machine.chip, machine);
      machine.across.bytes_s =
          double(other->network_gbps) / 8 * kGiga / machine.ranks_per_server * facts.at("across_share");
      machine.basis.push_back(other->key + ".network_gbps");
    }
  }
  machine.ranks = int64_t{machine.ranks_per_server} * count;
  return machine;
}

Machine cluster_of(const arch::Tables& tables, const std::string& chip, int64_t chips, double network_gb_s) {
  Machine machine;
  machine.instance = chip;
  set_comparison_chip(tables, machine, chip);
  machine.ranks_per_server = static_cast<int>(std::min<int64_t>(chips, chip.starts_with("GB") ? 4 : 8));
  machine.domain = machine.ranks_per_server;
  if (chip.starts_with("GB")) machine.domain = 72;
  if (machine.kind == Kind::kTpu) machine.domain = chip == "TPU v5p" ? 8960 : 256;
  if (network_gb_s > 0) {
    const ChipFacts facts(tables, chip, machine);
    machine.across.bytes_s = network_gb_s * kGiga * facts.at("across_share");
  }
  machine.ranks = chips;
  return machine;
}

}  // namespace opentrn::planner
