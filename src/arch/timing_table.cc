#include "arch/timing_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/closest.h"

namespace opentrn::arch {
namespace {

// The gather of GpSimd as the 2025 ISA page prints it: extra + indices * e / C, with
// C = ((setup + t*e) / (t*e)) / min(4/bytes, e). N here is the number of valid indices.
double local_gather_cycles(const CostMode& mode, const CostShape& shape) {
  const double e = shape.elements_per_index;
  const double te = mode.gather_cycles_per_element * e;
  const double c = ((mode.gather_setup_cycles + te) / te) / std::min(4.0 / shape.element_bytes, e);
  return mode.extra_cycles + shape.elements * e / c;
}

std::string text_or_empty(const FactTable& facts, const std::string& key) {
  const Fact* fact = facts.find(key);
  return fact == nullptr ? std::string() : fact->as<std::string>();
}

CostMode& mode_named(InstructionCost& cost, const std::string& name) {
  for (CostMode& mode : cost.modes)
    if (mode.name == name) return mode;
  cost.modes.emplace_back().name = name;
  return cost.modes.back();
}

// The least certain number of a mode is how certain the mode is.
void keep_weakest(CostMode& mode, const Fact& fact) {
  if (!mode.source.empty() && mode.confidence >= fact.confidence) return;
  mode.confidence = fact.confidence;
  mode.source = fact.source;
  mode.note = fact.note;
}

void set_mode_field(CostMode& mode, const Fact& fact) {
  const std::string_view field = fact.name();
  if (!fact.when.empty()) mode.when = fact.when;
  if (field == "engine") {
    mode.engine = fact.as<std::string>();
    return;
  }
  if (field == "borrows_gpsimd_bus") {
    mode.borrows_gpsimd_bus = fact.as<bool>();
    return;
  }
  static const std::map<std::string_view, double CostMode::*> kFields = {
      {"min_cycles", &CostMode::min_cycles},
      {"cycles_per_element", &CostMode::cycles_per_element},
      {"extra_cycles", &CostMode::extra_cycles},
      {"cycles_per_output", &CostMode::cycles_per_output},
      {"gather_setup_cycles", &CostMode::gather_setup_cycles},
      {"gather_cycles_per_element", &CostMode::gather_cycles_per_element},
  };
  const auto member = kFields.find(field);
  if (member == kFields.end())
    throw Fault(
        FaultKind::kInput, fact.key, fmt::format("'{}' is not a field of an instruction cost", field),
        "min_cycles, cycles_per_element, extra_cycles, cycles_per_output, engine, borrows_gpsimd_bus");
  mode.*member->second = fact.as<double>();
  if (field == "gather_cycles_per_element") mode.local_gather = true;
  keep_weakest(mode, fact);
}

InstructionCost read_instruction(const FactTable& facts, const std::string& prefix, const std::string& name) {
  InstructionCost cost;
  cost.name = name;
  cost.engines = facts.at(prefix + ".engines").as<std::vector<std::string>>();
  cost.elements = text_or_empty(facts, prefix + ".elements");
  std::vector<std::string> incomplete;
  for (const Fact* fact : facts.under(prefix)) {
    const std::string rest = fact->key.substr(prefix.size() + 1);
    const size_t dot = rest.find('.');
    if (dot == std::string::npos) continue;
    if (fact->known()) {
      set_mode_field(mode_named(cost, rest.substr(0, dot)), *fact);
    } else {
      cost.unstated.push_back(fact->key);
      incomplete.push_back(rest.substr(0, dot));
    }
  }
  std::erase_if(cost.modes, [&](const CostMode& mode) {
    return std::find(incomplete.begin(), incomplete.end(), mode.name) != incomplete.end();
  });
  return cost;
}

// The parts right below `prefix`: no instruction, mode or curve name holds a dot.
std::vector<std::string> children(const FactTable& facts, const std::string& prefix) {
  std::vector<std::string> out;
  for (const Fact* fact : facts.under(prefix)) {
    const std::string rest = fact->key.substr(prefix.size() + 1);
    const std::string child = rest.substr(0, rest.find('.'));
    if (std::find(out.begin(), out.end(), child) == out.end()) out.push_back(child);
  }
  return out;
}

template <typename Map>
std::vector<std::string> names_of(const Map& map) {
  std::vector<std::string> out;
  for (const auto& [name, value] : map) out.push_back(name);
  return out;
}

}  // namespace

double CostMode::cycles(const CostShape& shape) const {
  if (local_gather) return local_gather_cycles(*this, shape);
  return std::max(min_cycles, cycles_per_element * shape.elements) + extra_cycles +
         cycles_per_output * shape.outputs;
}

std::string CostMode::formula() const {
  if (local_gather) {
    return fmt::format("{} + indices*e/C, C = (({} + {}e)/({}e)) / min(4/bytes, e)", extra_cycles,
                       gather_setup_cycles, gather_cycles_per_element, gather_cycles_per_element);
  }
  std::string throughput = cycles_per_element == 1   ? "N"
                           : cycles_per_element == 0 ? ""
                           : cycles_per_element < 1  ? fmt::format("N/{:.4g}", 1 / cycles_per_element)
                                                     : fmt::format("{:.4g}*N", cycles_per_element);
  if (throughput.empty())
    throughput = fmt::format("{}", min_cycles);
  else if (min_cycles > 0)
    throughput = fmt::format("max({}, {})", min_cycles, throughput);
  if (cycles_per_output > 0) throughput += fmt::format(" + {:.4g}*K", cycles_per_output);
  if (extra_cycles > 0) throughput += fmt::format(" + {}", extra_cycles);
  return throughput;
}

std::string how_to_state(const std::vector<std::string>& keys) {
  constexpr const char* kElse = "run without timing, or add a sourced row to src/arch/tables/timing_v2.toml";
  if (keys.empty()) return kElse;
  return fmt::format("state it for a what-if run: --set {}=<number>; or {}",
                     fmt::join(keys, "=<number> --set "), kElse);
}

bool InstructionCost::has_mode(std::string_view mode_name) const {
  return std::any_of(modes.begin(), modes.end(),
                     [&](const CostMode& mode) { return mode.name == mode_name; });
}

const CostMode& InstructionCost::mode(std::string_view mode_name) const {
  for (const CostMode& mode : modes)
    if (mode.name == mode_name) return mode;
  if (modes.empty())
    throw Fault(FaultKind::kNotModelled, name, "no public source gives this instruction's cost",
                how_to_state(unstated));
  std::vector<std::string> names;
  for (const CostMode& mode : modes) names.push_back(mode.name);
  throw Fault(FaultKind::kInput, name, fmt::format("this instruction has no cost mode '{}'", mode_name),
              fmt::format("use one of: {}", fmt::join(names, ", ")));
}

double Curve::at(double x_value) const {
  double x0 = 0, y0 = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x_value <= x[i]) return y0 + (y[i] - y0) * (x_value - x0) / (x[i] - x0);
    x0 = x[i];
    y0 = y[i];
  }
  return y0;
}

TimingTable::TimingTable(const FactTable& facts, Generation generation)
    : facts_(&facts), generation_(generation), prefix_(fmt::format("timing.{}", table_key(generation))) {
  for (const std::string& name : children(facts, prefix_ + ".instruction"))
    costs_.emplace(name, read_instruction(facts, prefix_ + ".instruction." + name, name));
  for (const std::string& name : children(facts, prefix_ + ".curve")) {
    const std::string key = prefix_ + ".curve." + name;
    Curve curve{name, facts.at(key + ".x").as<std::vector<double>>(),
                facts.at(key + ".y").as<std::vector<double>>()};
    if (curve.x.size() != curve.y.size() || curve.x.empty() ||
        !std::is_sorted(curve.x.begin(), curve.x.end()))
      throw Fault(FaultKind::kInput, key, "a curve needs as many x as y, x ascending");
    curves_.emplace(name, std::move(curve));
  }
}

const InstructionCost& TimingTable::cost(std::string_view instruction) const {
  const auto found = costs_.find(std::string(instruction));
  if (found != costs_.end()) return found->second;
  throw Fault(FaultKind::kInput, "arch.name",
              fmt::format("the timing table of {} has no instruction '{}'", name(generation_), instruction),
              did_you_mean(instruction, names_of(costs_), "`opentrn describe timing` lists them"));
}

const Fact& TimingTable::constant_fact(std::string_view constant_name) const {
  if (const Fact* fact = facts_->find(fmt::format("{}.constant.{}", prefix_, constant_name))) return *fact;
  const std::string core_key = fmt::format("neuron_core.{}.{}", table_key(generation_), constant_name);
  if (const Fact* fact = facts_->find(core_key)) return *fact;
  throw Fault(FaultKind::kInput, "arch.name",
              fmt::format("the timing table of {} has no constant '{}'", name(generation_), constant_name),
              did_you_mean(constant_name, constant_names(), "see src/arch/tables/timing_v2.toml"));
}

double TimingTable::constant(std::string_view constant_name) const {
  return constant_fact(constant_name).as<double>();
}

const Curve& TimingTable::curve(std::string_view curve_name) const {
  const auto found = curves_.find(std::string(curve_name));
  if (found != curves_.end()) return found->second;
  throw Fault(FaultKind::kInput, "arch.name",
              fmt::format("the timing table of {} has no curve '{}'", name(generation_), curve_name),
              did_you_mean(curve_name, names_of(curves_), "see src/arch/tables/timing_v2.toml"));
}

double TimingTable::clock_ghz(std::string_view engine) const {
  if (engine == "sync") return constant("sync_clock_ghz");
  return constant(fmt::format("{}_clock_ghz", engine));
}

std::vector<std::string> TimingTable::constant_names() const {
  return children(*facts_, prefix_ + ".constant");
}

}  // namespace opentrn::arch
