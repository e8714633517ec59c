// The text form of `describe`: one line per value, sources numbered and listed at the end.
#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/describe.h"
#include "cli/text_table.h"

namespace opentrn::cli {
namespace {

constexpr size_t kNoteIndent = 6;
constexpr int kChipsListedMax = 16;

class SourceList {
 public:
  size_t number(const std::string& source) {
    const auto found = std::find(sources_.begin(), sources_.end(), source);
    if (found != sources_.end()) return static_cast<size_t>(found - sources_.begin()) + 1;
    sources_.push_back(source);
    return sources_.size();
  }
  std::string str() const {
    std::string out = "\nSources\n";
    for (size_t i = 0; i < sources_.size(); ++i) out += fmt::format("  [{}] {}\n", i + 1, sources_[i]);
    return out;
  }

 private:
  std::vector<std::string> sources_;
};

std::string value_text(const arch::FactValue& value) {
  if (const double* number = std::get_if<double>(&value)) return cell(*number);
  return arch::to_string(value);
}

std::string remarks(const arch::Fact& fact, SourceList& sources) {
  std::string out;
  if (!fact.when.empty()) out += wrapped("when " + fact.when, kNoteIndent);
  if (!fact.note.empty()) out += wrapped(fact.note, kNoteIndent);
  for (const arch::Alternative& other : fact.alternatives)
    out += wrapped(fmt::format("elsewhere {} [{}]{}{}", value_text(other.value), sources.number(other.source),
                               other.note.empty() ? "" : ": ", other.note),
                   kNoteIndent);
  if (!fact.reason.empty()) out += wrapped("chosen because: " + fact.reason, kNoteIndent);
  return out;
}

std::string fact_line(const arch::Fact& fact, const std::string& name, SourceList& sources) {
  const std::string value = value_text(fact.value);
  std::string where = fmt::format("{:<10} [{}]{}", arch::to_string(fact.confidence),
                                  sources.number(fact.source), fact.date.empty() ? "" : " of " + fact.date);
  if (fact.information) where += " (info)";
  constexpr size_t kValueWidth = 44;
  if (value.size() <= kValueWidth) return fmt::format("  {:<44} {:<44} {}\n", name, value, where);
  return fmt::format("  {:<44} {:<44} {}\n", name, "", where) + wrapped(value, kNoteIndent);
}

std::string facts_section(const arch::Tables& tables, const std::string& prefix, bool with_title,
                          SourceList& sources) {
  std::string out;
  for (const arch::Fact* fact : facts_of(tables, prefix)) {
    if (fact->name() == "name") continue;
    out += fact_line(*fact,
                     fact->key == prefix ? std::string(fact->name()) : fact->key.substr(prefix.size() + 1),
                     sources) +
           remarks(*fact, sources);
  }
  if (out.empty()) return out;
  return with_title ? fmt::format("\n{}\n{}", prefix, out) : "\n" + out;
}

std::string totals_section(const arch::Totals& sum) {
  std::string out = "\nTotals, added up from the chips (data-sheet rates)\n";
  const auto line = [&](std::string_view name, double value, std::string_view unit) {
    out += fmt::format("  {:<44} {} {}\n", name, cell(value), unit);
  };
  line("chips", sum.chips, "");
  line("NeuronCores", sum.cores, "");
  line("device memory", sum.memory_gib, "GiB");
  line("device memory bandwidth", sum.memory_bandwidth_gb_s, "GB/s");
  for (const auto& [dtype, tflops] : sum.peak_tflops)
    line(dtype + " peak", tflops, dtype.starts_with("int") ? "TOPS" : "TFLOPS");
  std::string trimmed;
  for (size_t at = 0; at < out.size();) {
    const size_t end = out.find('\n', at);
    std::string text = out.substr(at, end - at);
    text.erase(text.find_last_not_of(' ') + 1);
    trimmed += text + "\n";
    at = end + 1;
  }
  return trimmed;
}

// Behind switches a chip reaches many, which --json lists.
std::string neighbours_text(const std::vector<int>& chips) {
  constexpr size_t kListed = 16;
  if (chips.size() <= kListed) return fmt::format("{} ", fmt::join(chips, ", "));
  return fmt::format("{}, ... {} in all ", fmt::join(std::span(chips).first(kListed), ", "), chips.size());
}

std::string topology_section(const arch::Topology& topology) {
  std::string out = fmt::format("\nTopology {}: {} of {}\n", topology.name, topology.rule.value(),
                                fmt::join(topology.dimensions.value(), " x "));
  if (topology.rule.value() == "single") return out;
  const int listed = std::min(topology.chips(), kChipsListedMax);
  TextTable table({"chip", topology.switched() ? "linked to, or on the same switch" : "linked to"});
  for (int chip = 0; chip < listed; ++chip)
    table.add_row({std::to_string(chip), neighbours_text(topology.neighbours(chip))});
  out += table.str();
  if (listed < topology.chips())
    out += fmt::format("  ... {} chips in all; --json lists them\n", topology.chips());
  return out;
}

std::string timing_section(const arch::TimingTable& timing, SourceList& sources) {
  std::string out =
      "\nInstruction costs in engine cycles; N = elements per partition unless said otherwise\n";
  for (const auto& [name, cost] : timing.costs()) {
    out += fmt::format("  {} ({})\n", name, fmt::join(cost.engines, ", "));
    if (cost.modes.empty())
      out += "      not modelled: no public cost\n";
    else if (!cost.elements.empty())
      out += wrapped("N: " + cost.elements, kNoteIndent);
    for (const arch::CostMode& mode : cost.modes) {
      out += fmt::format("    {:<18} {:<44} {:<10} [{}]\n", mode.name, mode.formula(),
                         arch::to_string(mode.confidence), sources.number(mode.source));
      if (mode.when != "always") out += wrapped("when " + mode.when, kNoteIndent + 2);
    }
  }
  return out;
}

}  // namespace

std::string describe_text(const arch::Tables& tables, const Item& item) {
  SourceList sources;
  std::string out = fmt::format("{} ({})\n", item.name, item.kind);
  if (item.timing != nullptr) {
    for (const std::string part : {".constant", ".curve"})
      out += facts_section(tables, item.prefixes.front() + part, true, sources);
    out += timing_section(*item.timing, sources);
  } else {
    for (const std::string& prefix : item.prefixes)
      out += facts_section(tables, prefix, prefix != item.prefixes.front(), sources);
  }
  if (item.totals) out += totals_section(*item.totals);
  if (item.topology != nullptr) out += topology_section(*item.topology);
  return out + sources.str();
}

}  // namespace opentrn::cli
