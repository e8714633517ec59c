#include "cli/cluster_options.h"
#include "cli/validators.h"

#include <charconv>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::cli {
namespace {

struct ClassName {
  const char* name;
  fabric::LinkClass kind;
};
constexpr ClassName kClasses[] = {{"neuronlink", fabric::LinkClass::kNeuronLink},
                                  {"ultraserver", fabric::LinkClass::kUltraServer},
                                  {"switch", fabric::LinkClass::kSwitch},
                                  {"pcie", fabric::LinkClass::kPcie},
                                  {"efa", fabric::LinkClass::kEfa},
                                  {"spine", fabric::LinkClass::kSpine},
                                  {"core", fabric::LinkClass::kCore}};

// "efa=0.25", "core@3=0.5".
fabric::Taken taken_of(const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    throw Fault(FaultKind::kInput, "cli.taken", fmt::format("--taken {}: {}", text, why),
                "such as core=0.3, or efa@17=0.5 for the links of unit 17; the classes are neuronlink, "
                "ultraserver, switch, pcie, efa, spine, core");
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos) refuse("no '='");
  const size_t at = std::min(text.find('@'), equals);
  fabric::Taken taken;
  const auto number = [&](size_t begin, size_t end, auto& value) {
    const auto read = std::from_chars(text.data() + begin, text.data() + end, value);
    if (read.ec != std::errc() || read.ptr != text.data() + end)
      refuse(fmt::format("'{}' is not a number", text.substr(begin, end - begin)));
  };
  if (at < equals) number(at + 1, equals, taken.unit);
  if (taken.unit < -1) refuse("units count from 0");
  number(equals + 1, text.size(), taken.share);
  for (const ClassName& one : kClasses)
    if (text.substr(0, at) == one.name) {
      taken.kind = one.kind;
      return taken;
    }
  refuse(fmt::format("there are no links '{}'", text.substr(0, at)));
  return taken;
}

}  // namespace

void ClusterOptions::add_to(CLI::App& command) {
  machine.add_to(command);
  tables.add_to(command);
  command.add_option("-d,--datatype", datatype, "Type of the elements (default: bf16)");
  command.add_option("--ranks-per-chip", ranks_per_chip, "Ranks on each chip (default: by --lnc)")
      ->check(whole_within(1, 8));
  command.add_option("--pod", pod, "Machines of a pod (default: no pods)")->check(whole_within(1, 1 << 20));
  command.add_option("--rails", rails, "Parts of the network above the pods (default: 1)")
      ->check(whole_within(1, 1024));
  command.add_option("--oversubscription", oversubscription,
                     "Rate of a pod's adapters over that of its links upwards (default: 1; without --pod a "
                     "machine is a pod)");
  command
      .add_option("--taken", taken,
                  "Part of links that other jobs take: core=0.3 efa=0.1, or efa@17=0.5 of machine 17")
      ->expected(1, 1000);
  auto* units =
      command.add_flag("--all-units", all_units,
                       "Write the plan out for all machines, and fold what is equal (machines that differ)");
  command
      .add_flag("--all-steps", all_steps,
                "Write the plan out and simulate each step: what the other two are checked against")
      ->excludes(units);
  command.add_flag("--json", json, "Print JSON");
}

ClusterUnit ClusterOptions::unit(const arch::Tables& loaded) const {
  MachineOptions one = machine;
  one.nodes = 1;
  const fabric::Platform platform = one.platform(loaded);
  ClusterUnit unit{platform.name(), platform.servers() * platform.chips_per_server(),
                   one.cores_per_rank(loaded, platform)};
  if (ranks_per_chip > 0) {
    if (platform.cores_per_chip() % ranks_per_chip != 0)
      throw Fault(
          FaultKind::kInput, "collectives.ranks",
          fmt::format("{} ranks on the {} cores of a chip", ranks_per_chip, platform.cores_per_chip()),
          "a divisor of the number of cores");
    unit.cores_per_rank = platform.cores_per_chip() / ranks_per_chip;
  }
  return unit;
}

fabric::Cluster ClusterOptions::cluster() const {
  fabric::Cluster out;
  out.pod_units = pod;
  out.rails = rails;
  out.oversubscription = oversubscription;
  for (const std::string& text : taken) out.taken.push_back(taken_of(text));
  bool has_core = oversubscription != 1 || rails != 1;
  for (const fabric::Taken& one : out.taken) has_core |= one.kind == fabric::LinkClass::kCore;
  if (out.pod_units == 0 && has_core) out.pod_units = 1;
  return out;
}

collectives::Extent ClusterOptions::extent() const {
  return all_steps   ? collectives::Extent::kAllSteps
         : all_units ? collectives::Extent::kAllUnits
                     : collectives::Extent::kOneUnit;
}

std::string network_of(int units, const fabric::Cluster& cluster) {
  std::string out = cluster.pod_units == 0
                        ? "a network above the adapters that does not block"
                        : fmt::format("{} pods of {}{}, {} rail{} with an oversubscription of {} above them",
                                      (units + cluster.pod_units - 1) / cluster.pod_units, cluster.pod_units,
                                      units % cluster.pod_units == 0 ? "" : " (the last one not full)",
                                      cluster.rails, cluster.rails == 1 ? "" : "s", cluster.oversubscription);
  for (const fabric::Taken& taken : cluster.taken)
    for (const ClassName& one : kClasses)
      if (one.kind == taken.kind)
        out += fmt::format(", other jobs take {:g} of {}{}", taken.share, one.name,
                           taken.unit < 0 ? "" : fmt::format(" of unit {}", taken.unit));
  return out + "; no public page says how the network above the adapters is built";
}

}  // namespace opentrn::cli
