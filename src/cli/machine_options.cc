#include "cli/machine_options.h"
#include "cli/validators.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "base/fault.h"

namespace opentrn::cli {

namespace {

constexpr const char* kDefaultInstance = "trn2.48xlarge";
constexpr int kNodesMax = 100'000;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

void MachineOptions::add_to(CLI::App& command) {
  command
      .add_option("--instance", instance,
                  "The simulated machine: an instance, an UltraServer or a target (default: "
                  "$NEURON_PLATFORM_TARGET_OVERRIDE, else trn2.48xlarge)")
      ->type_name("NAME")
      ->check([](const std::string& name) { return std::string(name.empty() ? "an empty name" : ""); });
  command.add_option("-N,--nnodes,--nodes", nodes, "How many of them, joined by EFA (default: 1)")
      ->check(whole_within(1, kNodesMax));
  command
      .add_option("--lnc", lnc,
                  "Physical cores per rank (default: $NEURON_LOGICAL_NC_CONFIG, else as the chip has it)")
      ->check(CLI::IsMember({1, 2}));
}

fabric::Platform MachineOptions::platform(const arch::Tables& tables) const {
  std::string name = instance.empty() ? environment("NEURON_PLATFORM_TARGET_OVERRIDE") : instance;
  if (name.empty()) name = kDefaultInstance;
  return fabric::Platform::make(tables, name, nodes);
}

int MachineOptions::cores_per_rank(const arch::Tables& tables, const fabric::Platform& platform) const {
  const auto checked = [&](int cores) {
    if (cores > 1 && !arch::core_features(platform.generation()).logical_cores)
      throw Fault(FaultKind::kInput, "cli.lnc",
                  fmt::format("ranks of {} physical cores on {}, whose logical cores are single ones", cores,
                              platform.name()),
                  "--lnc 1");
    return cores;
  };
  if (lnc != 0) return checked(lnc);
  if (const std::string text = environment("NEURON_LOGICAL_NC_CONFIG"); !text.empty()) {
    if (text == "1") return 1;
    if (text == "2") return checked(2);
    throw Fault(FaultKind::kInput, "cli.environment",
                fmt::format("NEURON_LOGICAL_NC_CONFIG={} is neither 1 nor 2", text), "1 or 2");
  }
  std::string name = platform.name();
  for (const arch::UltraServer& server : tables.ultraservers())
    if (server.name == name) name = std::string(server.instance);
  for (const arch::Instance& candidate : tables.instances())
    if (candidate.name == name) return candidate.lnc_default.value_or(1);
  return 1;
}

}  // namespace opentrn::cli
