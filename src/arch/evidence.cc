#include "arch/evidence.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

namespace opentrn::arch {
namespace {

// "Trainium and Inferentia2"
std::string devices(Generation generation) {
  std::vector<std::string> names;
  for (const Chip& chip : default_tables().chips())
    if (chip.generation == generation) names.push_back(chip.name);
  std::ranges::sort(names, std::greater{});  // Trainium before Inferentia
  return fmt::format("{}", fmt::join(names, " and "));
}

// A what-if answers another question than the published times do.
const Fact* overridden(const Tables& tables, const TimedKind& kind) {
  if (&tables == &default_tables()) return nullptr;
  const auto core = table_key(kind.generation);
  std::vector<std::string> prefixes = {fmt::format("timing.{}", core), fmt::format("neuron_core.{}", core)};
  if (kind.collective)
    prefixes.insert(prefixes.end(), {fmt::format("collective_time.{}", core), "fabric"});
  else
    prefixes.emplace_back("compiler_model");
  for (const std::string& prefix : prefixes)
    for (const Fact* fact : tables.facts().under(prefix))
      if (fact->value != default_tables().facts().at(fact->key).value) return fact;
  return nullptr;
}

std::string why_unknown(const Tables& tables, const TimedKind& kind) {
  if (const Fact* fact = overridden(tables, kind)) return fmt::format("{} was overridden", fact->key);
  const std::string measured = fmt::format("neuron_core.{}.measurements_public", table_key(kind.generation));
  if (const Fact* fact = default_tables().facts().find(measured); fact && !fact->as<bool>())
    return fmt::format("no measurement on {} is public", devices(kind.generation));
  return fmt::format("no independent published time of {} is known", kind.text());
}

}  // namespace

std::string TimedKind::key() const {
  const auto core = table_key(generation);
  if (collective) return fmt::format("collective.{}", core);
  return model ? fmt::format("{}model.{}", language ? "llm." : "", core)
               : fmt::format("kernel.{}.{}", core, neuronx_cc ? "neuronx_cc" : "nki");
}

std::string TimedKind::text() const {
  return fmt::format("{} on {}",
                     collective   ? "collectives"
                     : language   ? "language models"
                     : model      ? "compiled models"
                     : neuronx_cc ? "NKI 0.1 kernels"
                                  : "NKI kernels",
                     devices(generation));
}

Band band(const Tables& tables, const TimedKind& kind) {
  Band band;
  band.kind = kind.text();
  const std::string key = "evidence." + kind.key();
  if (overridden(tables, kind) != nullptr || tables.facts().find(key + ".runs") == nullptr) {
    band.unknown = why_unknown(tables, kind);
    return band;
  }
  const auto number = [&](std::string_view name) {
    return tables.facts().at(fmt::format("{}.{}", key, name)).as<double>();
  };
  band.share = number("share");
  band.low = number("measured_to_predicted_low");
  band.high = number("measured_to_predicted_high");
  band.runs = static_cast<int>(number("runs"));
  return band;
}

Basis basis(const Tables& tables, const TimedKind& kind, const std::set<std::string>& instructions) {
  Basis basis;
  basis.generation = kind.generation;
  const std::string prefix = fmt::format("timing.{}", table_key(kind.generation));
  const auto fitted = [&](const Fact& fact) {
    if (fact.confidence == Confidence::kFitted) basis.fitted.push_back(fact.key);
  };
  for (const Fact* fact : tables.facts().under(prefix + ".constant")) {
    if (fact->information) continue;
    ++basis.constants;
    if (fact->confidence == Confidence::kAssumed) basis.assumed_constants.push_back(fact->key);
    fitted(*fact);
  }
  for (const std::string& name : instructions) {
    const std::vector<const Fact*> facts =
        tables.facts().under(fmt::format("{}.instruction.{}", prefix, name));
    if (facts.empty()) continue;  // of the sequencer, or a transfer: constants say what it costs
    ++basis.rules;
    if (std::ranges::any_of(facts, [](const Fact* f) { return f->confidence == Confidence::kAssumed; }))
      basis.assumed_rules.push_back(fmt::format("{}.instruction.{}", prefix, name));
  }
  for (const Fact* fact : tables.facts().under("compiler_model"))
    if (!kind.model &&
        fact->key.starts_with(kind.neuronx_cc ? "compiler_model.neuronx_cc" : "compiler_model.nki"))
      fitted(*fact);
  const Band of_kind = band(tables, kind);
  basis.runs = of_kind.runs;
  basis.checked = of_kind.known()
                      ? fmt::format("checked against {} runs of {} that nothing was calibrated on",
                                    of_kind.runs, of_kind.kind)
                      : "none was checked against a measurement: " + of_kind.unknown;
  return basis;
}

std::vector<std::pair<std::string, std::vector<std::string>>> calibrations(const Tables& tables) {
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  for (const Fact& fact : tables.facts().all())
    if (!fact.calibrated_on.empty()) rows.emplace_back(fact.key, fact.calibrated_on);
  return rows;
}

std::string to_text(const Band& band, double predicted_ns) {
  if (!band.known()) return fmt::format("error band unknown: {}", band.unknown);
  const double us = predicted_ns / 1e3;
  return fmt::format("{:.0f} % band {:.4g}-{:.4g} us by {} evidence runs of {}", 100 * band.share,
                     band.low * us, band.high * us, band.runs, band.kind);
}

std::string to_text(const Band& band) {
  if (!band.known()) return fmt::format("error band unknown: {}", band.unknown);
  return fmt::format("{:.0f} % band {:.2f}-{:.2f} times the predicted time by {} evidence runs of {}",
                     100 * band.share, band.low, band.high, band.runs, band.kind);
}

std::string to_text(const Basis& basis) {
  const std::string checked = basis.runs > 0 ? fmt::format("the whole was checked by {} runs", basis.runs)
                                             : "none was checked against a measurement";
  return fmt::format("{} of {} timing constants, {} of {} cost rules assumed for {}; {}",
                     basis.assumed_constants.size(), basis.constants, basis.assumed_rules.size(), basis.rules,
                     name(basis.generation), checked);
}

}  // namespace opentrn::arch
