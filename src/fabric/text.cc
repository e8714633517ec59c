#include "fabric/text.h"

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace opentrn::fabric {

namespace {

constexpr LinkClass kClasses[] = {LinkClass::kHbm,        LinkClass::kDmaRings, LinkClass::kOnChip,
                                  LinkClass::kNeuronLink, LinkClass::kSwitch,   LinkClass::kUltraServer,
                                  LinkClass::kPcie,       LinkClass::kEfa,      LinkClass::kSpine,
                                  LinkClass::kCore};

// Links of a class that are alike, and how many.
struct Row {
  LinkClass kind;
  int64_t bytes_per_s, latency_ps;
  int64_t count = 0;
};

std::vector<Row> rows_of(const Platform& platform) {
  std::vector<Row> out;
  for (LinkClass kind : kClasses) {
    std::map<std::pair<int64_t, int64_t>, int64_t> count;
    for (const Link& link : platform.network().links)
      if (link.kind == kind) ++count[{link.bytes_per_s, link.latency_ps}];
    for (const auto& [what, n] : count) out.push_back({kind, what.first, what.second, n});
  }
  return out;
}

std::string provenance(const arch::Fact& fact) {
  std::string out = fmt::format("{} = {}: {}, {}", fact.key, arch::to_string(fact.value),
                                arch::to_string(fact.confidence), fact.source);
  if (!fact.note.empty()) out += "; " + fact.note;
  return out;
}

std::string plural(int64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

}  // namespace

std::string_view name_of(LinkClass kind) {
  switch (kind) {
    case LinkClass::kOnChip: return "across a chip";
    case LinkClass::kNeuronLink: return "NeuronLink";
    case LinkClass::kUltraServer: return "between instances";
    case LinkClass::kPcie: return "PCIe to an adapter";
    case LinkClass::kSwitch: return "NeuronSwitch port";
    case LinkClass::kEfa: return "network adapter";
    case LinkClass::kSpine: return "above the adapters";
    case LinkClass::kCore: return "above the pods";
    case LinkClass::kDmaRings: return "DMA rings of a core";
    case LinkClass::kHbm: return "HBM stack";
  }
  return "";
}

std::string show(const Platform& platform) {
  std::string out =
      fmt::format("{}: {} of {}, {} each; {} in all\n\n", platform.name(),
                  plural(platform.servers(), "server"), plural(platform.chips_per_server(), "chip"),
                  plural(platform.cores_per_chip(), "physical core"), plural(platform.cores(), "core"));
  out += fmt::format("{:<22}{:>10}{:>12}{:>14}\n", "links, each direction", "number", "GB/s", "latency (ns)");
  for (const Row& row : rows_of(platform))
    out += fmt::format("{:<22}{:>10}{:>12.2f}{:>14.0f}\n", name_of(row.kind), row.count,
                       static_cast<double>(row.bytes_per_s) / kBytesPerGb,
                       static_cast<double>(row.latency_ps) / kPsPerNs);
  if (platform.chips_per_server() > 1) {
    out += "\nchip  linked to, or on the same switch\n";
    for (int chip = 0; chip < platform.chips_per_server(); ++chip)
      out += fmt::format("{:>4}  {}\n", chip, fmt::join(platform.neighbours(chip), ", "));
    for (const std::vector<int>& cycle : platform.hamiltonian_cycles())
      out += fmt::format("ring  {}\n", fmt::join(cycle, ", "));
  }
  out += "\nwhere the rates come from\n";
  for (LinkClass kind : kClasses)
    for (const arch::Fact* fact : platform.facts(kind))
      out += fmt::format("{}: {}\n", name_of(kind), provenance(*fact));
  return out;
}

nlohmann::ordered_json show_json(const Platform& platform) {
  nlohmann::ordered_json out;
  out["name"] = platform.name();
  out["generation"] = std::string(table_key(platform.generation()));
  out["servers"] = platform.servers();
  out["servers_per_unit"] = platform.servers_per_unit();
  out["chips_per_server"] = platform.chips_per_server();
  out["cores_per_chip"] = platform.cores_per_chip();
  out["cores"] = platform.cores();
  out["links"] = nlohmann::ordered_json::array();
  for (const Row& row : rows_of(platform)) {
    nlohmann::ordered_json entry;
    entry["class"] = std::string(name_of(row.kind));
    entry["number"] = row.count;
    entry["bytes_per_s"] = row.bytes_per_s;
    entry["latency_ps"] = row.latency_ps;
    out["links"].push_back(entry);
  }
  for (int chip = 0; chip < platform.chips_per_server(); ++chip)
    out["neighbours"].push_back(platform.neighbours(chip));
  out["rings"] = platform.hamiltonian_cycles();
  out["facts"] = nlohmann::ordered_json::array();
  for (LinkClass kind : kClasses)
    for (const arch::Fact* fact : platform.facts(kind)) {
      nlohmann::ordered_json entry;
      entry["class"] = std::string(name_of(kind));
      entry["key"] = fact->key;
      entry["value"] = arch::to_string(fact->value);
      entry["confidence"] = std::string(arch::to_string(fact->confidence));
      entry["source"] = fact->source;
      if (!fact->note.empty()) entry["note"] = fact->note;
      if (!fact->reason.empty()) entry["reason"] = fact->reason;
      for (const arch::Alternative& other : fact->alternatives)
        entry["alternatives"].push_back(
            {{"value", arch::to_string(other.value)}, {"source", other.source}, {"note", other.note}});
      out["facts"].push_back(entry);
    }
  return out;
}

}  // namespace opentrn::fabric
