// The JSON form of `describe`: the same content, keys as in the tables.
#include "cli/describe.h"

namespace opentrn::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  template <typename T>
  Json operator()(const T& value) const {
    return value;
  }
  // Whole numbers without ".0".
  Json operator()(double value) const {
    const auto whole = static_cast<int64_t>(value);
    return static_cast<double>(whole) == value ? Json(whole) : Json(value);
  }
};

void set_if(Json& json, const char* key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

Json fact_json(const arch::Fact& fact) {
  Json out;
  out["key"] = fact.key;
  out["value"] = json_of(fact.value);
  out["confidence"] = arch::to_string(fact.confidence);
  out["source"] = fact.source;
  out["information"] = fact.information;
  if (!fact.calibrated_on.empty()) out["calibrated_on"] = fact.calibrated_on;
  set_if(out, "date", fact.date);
  set_if(out, "when", fact.when);
  set_if(out, "note", fact.note);
  set_if(out, "reason", fact.reason);
  for (const arch::Alternative& other : fact.alternatives) {
    Json entry{{"value", json_of(other.value)}, {"source", other.source}};
    set_if(entry, "note", other.note);
    out["alternatives"].push_back(std::move(entry));
  }
  return out;
}

Json totals_json(const arch::Totals& sum) {
  Json out{{"chips", sum.chips},
           {"neuron_cores", sum.cores},
           {"memory_gib", sum.memory_gib},
           {"memory_bandwidth_gb_s", sum.memory_bandwidth_gb_s}};
  for (const auto& [dtype, tflops] : sum.peak_tflops) out["peak_tflops"][dtype] = tflops;
  return out;
}

Json topology_json(const arch::Topology& topology) {
  Json out{{"name", topology.name},
           {"rule", topology.rule.value()},
           {"dimensions", json_of(topology.dimensions.fact().value)}};
  out["connected_to"] = Json::array();
  for (int chip = 0; chip < topology.chips(); ++chip)
    out["connected_to"].push_back(topology.neighbours(chip));
  return out;
}

Json mode_json(const arch::CostMode& mode) {
  Json out{{"name", mode.name},
           {"formula", mode.formula()},
           {"when", mode.when},
           {"confidence", arch::to_string(mode.confidence)},
           {"source", mode.source}};
  set_if(out, "engine", mode.engine);
  return out;
}

Json instructions_json(const arch::TimingTable& timing) {
  Json out = Json::object();
  for (const auto& [name, cost] : timing.costs()) {
    Json entry{{"engines", cost.engines}, {"elements", cost.elements}, {"modes", Json::array()}};
    for (const arch::CostMode& mode : cost.modes) entry["modes"].push_back(mode_json(mode));
    out[name] = std::move(entry);
  }
  return out;
}

}  // namespace

nlohmann::ordered_json json_of(const arch::FactValue& value) { return std::visit(ToJson{}, value); }

nlohmann::ordered_json describe_json(const arch::Tables& tables, const Item& item) {
  Json out{{"name", item.name}, {"kind", item.kind}};
  if (item.totals) out["totals"] = totals_json(*item.totals);
  if (item.topology != nullptr) out["topology"] = topology_json(*item.topology);
  if (item.timing != nullptr) out["instructions"] = instructions_json(*item.timing);
  out["facts"] = Json::array();
  for (const std::string& prefix : item.prefixes)
    for (const arch::Fact* fact : facts_of(tables, prefix)) out["facts"].push_back(fact_json(*fact));
  return out;
}

}  // namespace opentrn::cli
