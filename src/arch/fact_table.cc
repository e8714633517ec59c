#include "arch/fact_table.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include "arch/closest.h"
#include "arch/packed_facts.h"
#include "base/text_file.h"

namespace opentrn::arch {
namespace {

// Keys of the format itself; every other key of a table is a fact or a deeper table.
constexpr std::array<std::string_view, 10> kReserved = {
    "value", "confidence", "source", "alternatives",  "reason",
    "note",  "when",       "date",   "calibrated_on", "information"};

bool is_reserved(std::string_view key) {
  return std::find(kReserved.begin(), kReserved.end(), key) != kReserved.end();
}

[[noreturn]] void throw_malformed(std::string_view origin, const toml::node& node, const std::string& message,
                                  const std::string& hint = {}) {
  Fault fault(FaultKind::kInput, "", message, hint);
  fault.set_location({std::string(origin), static_cast<int>(node.source().begin.line), ""});
  throw fault;
}

std::optional<Confidence> confidence_from(std::string_view text) {
  for (Confidence c : {Confidence::kDocumented, Confidence::kMeasured, Confidence::kFitted,
                       Confidence::kAssumed, Confidence::kUnknown})
    if (text == to_string(c)) return c;
  return std::nullopt;
}

template <typename T>
std::vector<T> list_of(const toml::array& array) {
  std::vector<T> out;
  for (const toml::node& element : array) out.push_back(*element.value<T>());
  return out;
}

std::optional<FactValue> value_of(const toml::node& node) {
  if (node.is_boolean()) return FactValue(*node.value<bool>());
  if (node.is_number()) return FactValue(*node.value<double>());
  if (node.is_string()) {
    std::string text = *node.value<std::string>();
    if (text == "unknown") return FactValue();
    return FactValue(std::move(text));
  }
  if (const toml::array* array = node.as_array()) {
    const auto all = [&](auto test) { return std::all_of(array->begin(), array->end(), test); };
    if (all([](const toml::node& n) { return n.is_number(); })) return FactValue(list_of<double>(*array));
    if (all([](const toml::node& n) { return n.is_string(); }))
      return FactValue(list_of<std::string>(*array));
  }
  return std::nullopt;
}

std::string text_of(const toml::table& table, std::string_view key) {
  return table[key].value_or(std::string());
}

// Table members in the order of the file: toml++ keeps them by name.
std::vector<std::pair<std::string, const toml::node*>> in_file_order(const toml::table& table) {
  std::vector<std::pair<std::string, const toml::node*>> out;
  for (const auto& [key, node] : table) out.emplace_back(std::string(key.str()), &node);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    const toml::source_position& pa = a.second->source().begin;
    const toml::source_position& pb = b.second->source().begin;
    return std::pair(pa.line, pa.column) < std::pair(pb.line, pb.column);
  });
  return out;
}

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ".")); }

// Tables nest as deep as a line has parts of a key, and what is as deep as a file is long has no end on the
// stack.
constexpr size_t kLineBytesMost = 4096;

void expect_short_lines(std::string_view text, std::string_view origin) {
  int line = 1;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kLineBytesMost) {
      Fault fault(FaultKind::kInput, "arch.file", fmt::format("a line of {} bytes", end - begin),
                  fmt::format("at most {}", kLineBytesMost));
      fault.set_location({std::string(origin), line, ""});
      throw fault;
    }
    begin = end + 1;
  }
}

toml::table parse(std::string_view text, std::string_view origin) {
  expect_short_lines(text, origin);
  try {
    return toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    Fault fault(FaultKind::kInput, "", fmt::format("not valid TOML: {}", error.description()));
    fault.set_location({std::string(origin), static_cast<int>(error.source().begin.line), ""});
    throw fault;
  }
}

}  // namespace

// Walks one parsed file and hands each fact to `emit`.
class TableReader {
 public:
  struct Defaults {
    std::string confidence;
    std::string source;
    bool information = false;
  };

  TableReader(FactTable& table, std::string_view origin) : table_(table), origin_(origin) {}

  static FactTable filled(std::deque<Fact> facts,
                          std::map<std::string, std::vector<std::string>> items_by_prefix) {
    FactTable table;
    table.facts_ = std::move(facts);
    table.items_by_prefix_ = std::move(items_by_prefix);
    for (size_t at = 0; at < table.facts_.size(); ++at) table.by_key_.emplace(table.facts_[at].key, at);
    return table;
  }

  void walk(const toml::table& node, std::vector<std::string>& parts, Defaults defaults) {
    if (node.contains("confidence")) defaults.confidence = text_of(node, "confidence");
    if (node.contains("source")) defaults.source = text_of(node, "source");
    defaults.information = node["information"].value_or(defaults.information);
    if (node.contains("inherits")) {
      FactTable::Inheritance rule{joined(parts), text_of(node, "inherits"), {}};
      if (const toml::array* drop = node["drop"].as_array()) rule.drop = list_of<std::string>(*drop);
      table_.inheritance_.push_back(std::move(rule));
    }
    for (const auto& [key, child] : in_file_order(node)) {
      if (is_reserved(key) || key == "inherits" || key == "drop") continue;
      parts.push_back(key);
      const toml::table* child_table = child->as_table();
      if (child_table == nullptr) {
        add_plain(*child, node, parts, defaults);
      } else if (child_table->contains("value")) {
        add_full(*child_table, parts, defaults);
      } else {
        walk(*child_table, parts, defaults);
      }
      parts.pop_back();
    }
  }

 private:
  // name = 2.8 : shares the provenance and the remarks of its table.
  void add_plain(const toml::node& value, const toml::table& owner, const std::vector<std::string>& parts,
                 const Defaults& defaults) {
    Fact fact = start(value, value, parts, defaults);
    fill_remarks(fact, owner);
    emit(std::move(fact), parts);
  }

  // name = {value = 2.8, confidence = .., source = ..}
  void add_full(const toml::table& node, const std::vector<std::string>& parts, Defaults defaults) {
    if (node.contains("confidence")) defaults.confidence = text_of(node, "confidence");
    if (node.contains("source")) defaults.source = text_of(node, "source");
    defaults.information = node["information"].value_or(defaults.information);
    for (const auto& [key, child] : node)
      if (!is_reserved(key.str()))
        throw_malformed(origin_, child, fmt::format("'{}' cannot stand beside `value`", key.str()),
                        fmt::format("use one of: {}", fmt::join(kReserved, ", ")));
    Fact fact = start(*node.get("value"), node, parts, defaults);
    fill_remarks(fact, node);
    fill_alternatives(fact, node);
    emit(std::move(fact), parts);
  }

  Fact start(const toml::node& value, const toml::node& place, const std::vector<std::string>& parts,
             const Defaults& defaults) {
    Fact fact;
    fact.key = joined(parts);
    const std::optional<FactValue> read = value_of(value);
    if (!read)
      throw_malformed(origin_, place,
                      fmt::format("{}: not a number, text, flag or list of one kind", fact.key));
    fact.value = *read;
    const std::optional<Confidence> confidence = confidence_from(defaults.confidence);
    if (!confidence)
      throw_malformed(origin_, place, fmt::format("{}: confidence is '{}'", fact.key, defaults.confidence),
                      "documented, measured, fitted, assumed, or unknown for an unknown value");
    if ((*confidence == Confidence::kUnknown) != !fact.known())
      throw_malformed(origin_, place,
                      fmt::format("{}: value \"unknown\" and confidence \"unknown\" go together", fact.key));
    fact.confidence = *confidence;
    fact.source = resolve_source(defaults.source, place, fact.key);
    fact.information = defaults.information;
    return fact;
  }

  std::string resolve_source(const std::string& id, const toml::node& place, const std::string& key) const {
    if (const auto found = table_.sources_.find(id); found != table_.sources_.end()) return found->second;
    std::vector<std::string> ids;
    for (const auto& [known, reference] : table_.sources_) ids.push_back(known);
    throw_malformed(origin_, place, fmt::format("{}: source '{}' is not in [source]", key, id),
                    did_you_mean(id, ids, "add it to tables/sources.toml"));
  }

  static void fill_remarks(Fact& fact, const toml::table& node) {
    fact.note = text_of(node, "note");
    fact.reason = text_of(node, "reason");
    fact.when = text_of(node, "when");
    fact.date = text_of(node, "date");
    if (const toml::array* rows = node["calibrated_on"].as_array())
      fact.calibrated_on = list_of<std::string>(*rows);
  }

  void fill_alternatives(Fact& fact, const toml::table& node) {
    const toml::array* list = node["alternatives"].as_array();
    if (list == nullptr) return;
    for (const toml::node& element : *list) {
      const toml::table* entry = element.as_table();
      const toml::node* value = entry == nullptr ? nullptr : entry->get("value");
      const std::optional<FactValue> read = value == nullptr ? std::nullopt : value_of(*value);
      if (!read) throw_malformed(origin_, element, fmt::format("{}: an alternative needs a value", fact.key));
      fact.alternatives.push_back(
          {*read, resolve_source(text_of(*entry, "source"), element, fact.key), text_of(*entry, "note")});
    }
    if (fact.reason.empty())
      throw_malformed(origin_, node, fmt::format("{}: alternatives need a `reason`", fact.key));
  }

  void emit(Fact fact, const std::vector<std::string>& parts) {
    if (fact.confidence == Confidence::kFitted && fact.calibrated_on.empty()) {
      Fault fault(FaultKind::kInput, fact.key, "a fitted value names the rows that it was fitted to",
                  "calibrated_on = [\"row-id\", ..]");
      fault.set_location({std::string(origin_), 0, ""});
      throw fault;
    }
    std::string prefix;
    for (const std::string& part : parts) {
      std::vector<std::string>& items = table_.items_by_prefix_[prefix];
      // Facts of an item mostly follow each other.
      if (items.empty() ||
          (items.back() != part && std::find(items.begin(), items.end(), part) == items.end()))
        items.push_back(part);
      prefix += (prefix.empty() ? "" : ".") + part;
    }
    table_.add(std::move(fact));
  }

  FactTable& table_;
  std::string_view origin_;
};

FactTable fact_table_of(std::deque<Fact> facts,
                        std::map<std::string, std::vector<std::string>> items_by_prefix) {
  return TableReader::filled(std::move(facts), std::move(items_by_prefix));
}

void FactTable::add(Fact fact) {
  if (!by_key_.emplace(fact.key, facts_.size()).second)
    throw Fault(FaultKind::kInput, fact.key, "this key stands in the tables twice");
  facts_.push_back(std::move(fact));
}

void FactTable::read(std::string_view text, std::string_view origin) {
  toml::table root = parse(text, origin);
  if (toml::table* sources = root["source"].as_table()) {
    for (const auto& [id, reference] : *sources) {
      const auto said = reference.value<std::string>();
      if (!said) throw_malformed(origin, reference, fmt::format("source '{}' is not text", id.str()));
      sources_.emplace(id.str(), *said);
    }
    root.erase("source");
  }
  const std::string prefix = text_of(root, "prefix");
  root.erase("prefix");
  std::vector<std::string> parts;
  std::stringstream stream(prefix);
  for (std::string part; std::getline(stream, part, '.');) parts.push_back(part);
  TableReader(*this, origin).walk(root, parts, {});
}

void FactTable::resolve_inheritance() {
  for (const Inheritance& rule : inheritance_) {
    const auto dropped = [&](std::string_view rest) {
      return std::any_of(rule.drop.begin(), rule.drop.end(), [&](const std::string& drop) {
        return rest == drop || rest.starts_with(drop + ".");
      });
    };
    for (const Fact* parent : under(rule.parent)) {
      const std::string rest = parent->key.substr(rule.parent.size() + 1);
      if (dropped(rest) || by_key_.contains(rule.child + "." + rest)) continue;
      Fact fact = *parent;
      fact.key = rule.child + "." + rest;
      if (fact.known()) fact.confidence = Confidence::kAssumed;
      fact.note =
          fmt::format("taken over from {}{}{}", rule.parent, fact.note.empty() ? "" : ": ", fact.note);
      add(std::move(fact));
    }
  }
}

const Fact* FactTable::find(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &facts_[found->second];
}

const Fact& FactTable::at(std::string_view key) const {
  if (const Fact* fact = find(key)) return *fact;
  throw Fault(FaultKind::kInput, "arch.name", fmt::format("there is no table value '{}'", key),
              did_you_mean(key, keys(), "`opentrn ls` and `opentrn describe <name>` list them"));
}

std::vector<const Fact*> FactTable::under(std::string_view prefix) const {
  const std::string start = std::string(prefix) + ".";
  std::vector<size_t> found;
  for (auto at = by_key_.lower_bound(start); at != by_key_.end() && at->first.starts_with(start); ++at)
    found.push_back(at->second);
  std::ranges::sort(found);  // in file order
  std::vector<const Fact*> out;
  for (const size_t at : found) out.push_back(&facts_[at]);
  return out;
}

std::vector<std::string> FactTable::items(std::string_view prefix) const {
  const auto found = items_by_prefix_.find(std::string(prefix));
  return found == items_by_prefix_.end() ? std::vector<std::string>() : found->second;
}

std::vector<std::string> FactTable::keys() const {
  std::vector<std::string> out;
  for (const auto& [key, fact] : by_key_) out.push_back(key);
  return out;
}

Fact& FactTable::override_target(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end())
    throw Fault(FaultKind::kInput, "arch.name", fmt::format("there is no table value '{}' to change", key),
                did_you_mean(key, keys(), "`opentrn describe <name>` prints the keys of an item"));
  Fact& fact = facts_[found->second];
  if (fact.information)
    throw Fault(FaultKind::kInput, key,
                "nothing computes with this value, so that changing it would change no result",
                "it is listed as information; `opentrn describe <name>` says which values are");
  if (key.find(".can.") != std::string::npos)
    throw Fault(FaultKind::kInput, key,
                "what instructions may do on a core decides what programs mean, and cannot be changed",
                "choose another target: its tables say what its core can do");
  return fact;
}

namespace {

std::optional<double> number_of(const FactValue& value) {
  if (const double* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

// What costs nothing is a sensible question; a rate or a count of nothing is none.
bool may_be_zero(const std::string& key) {
  constexpr std::string_view kCosts[] = {"_ns", "_us", "_cycles", "_usd_h"};
  return std::any_of(std::begin(kCosts), std::end(kCosts),
                     [&](std::string_view cost) { return key.ends_with(cost); });
}

// What-if values reach divisions and event loops: a clock of nothing never ends a run.
void check_range(const Fact& fact, double value) {
  constexpr double kFactor = 1e4;
  const std::optional<double> known = number_of(fact.value);
  const bool zero = value == 0 && (may_be_zero(fact.key) || (known && *known == 0));
  if (!std::isfinite(value) || value < 0 || (value == 0 && !zero))
    throw Fault(FaultKind::kInput, fact.key,
                fmt::format("{} is not a value for it; it is finite and {}", value,
                            may_be_zero(fact.key) ? "not negative" : "greater than 0"));
  if (zero || !known || *known == 0) return;
  if (value < *known / kFactor || value > *known * kFactor)
    throw Fault(FaultKind::kInput, fact.key,
                fmt::format("{} is over {} times {} than the table's {}", value, kFactor,
                            value < *known ? "smaller" : "larger", *known),
                "check the unit, which the key's name ends with");
}

void replace_value(Fact& fact, FactValue value, const std::string& origin) {
  if (std::holds_alternative<std::monostate>(value))
    throw Fault(FaultKind::kInput, fact.key, "an override needs a value",
                "leave the row out to keep the table's");
  if (fact.known() && fact.value.index() != value.index())
    throw Fault(FaultKind::kInput, fact.key,
                fmt::format("'{}' is of another kind than the table's '{}'", to_string(value),
                            to_string(fact.value)));
  if (const std::optional<double> number = number_of(value)) check_range(fact, *number);
  fact.note =
      fmt::format("what-if; the table says {} ({})", to_string(fact.value), to_string(fact.confidence));
  fact.value = std::move(value);
  fact.confidence = Confidence::kAssumed;
  fact.source = origin;
}

FactValue parse_setting_value(const std::string& text) {
  try {
    const toml::table parsed = toml::parse("v = " + text);
    if (const std::optional<FactValue> value = value_of(*parsed.get("v")); value && parsed.size() == 1)
      return *value;
  } catch (const toml::parse_error&) {
    // Not TOML: a bare word such as a topology's name.
  }
  return text;
}

}  // namespace

void FactTable::apply(const Overrides& overrides) {
  const std::map<std::string, FactValue> rates = rates_that_others_follow();
  for (const std::string& file : overrides.files) apply_file(file);
  for (const std::string& setting : overrides.settings) apply_setting(setting);
  follow(rates);
}

namespace {

// A core's HBM bandwidth is a data sheet's; what the timing model spends is the sustained rate. Whoever
// changes the first means the second too.
std::string sustained_of(const std::string& core) {
  return "timing." + core + ".constant.hbm_sustained_gb_s";
}
std::string peak_of(const std::string& core) { return "neuron_core." + core + ".hbm_bandwidth_gb_s"; }

}  // namespace

std::map<std::string, FactValue> FactTable::rates_that_others_follow() const {
  std::map<std::string, FactValue> rates;
  for (const std::string& core : items("neuron_core"))
    for (const std::string& key : {peak_of(core), sustained_of(core)})
      if (const Fact* fact = find(key)) rates[key] = fact->value;
  return rates;
}

void FactTable::follow(const std::map<std::string, FactValue>& before) {
  for (const std::string& core : items("neuron_core")) {
    const auto peak = by_key_.find(peak_of(core)), sustained = by_key_.find(sustained_of(core));
    if (peak == by_key_.end() || sustained == by_key_.end()) continue;
    const FactValue &old_peak = before.at(peak_of(core)), &old_sustained = before.at(sustained_of(core));
    Fact& follower = facts_[sustained->second];
    const Fact& followed = facts_[peak->second];
    const bool moved = followed.value != old_peak, own = follower.value != old_sustained;
    if (!moved || own || !std::holds_alternative<double>(old_peak) ||
        !std::holds_alternative<double>(old_sustained))
      continue;
    const double share = followed.as<double>() / std::get<double>(old_peak);
    replace_value(follower, std::get<double>(old_sustained) * share,
                  "follows " + peak_of(core) + ", which was overridden");
  }
}

void FactTable::apply_setting(const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == setting.size())
    throw Fault(FaultKind::kInput, "arch.setting", fmt::format("--set '{}' is not key=value", setting),
                "for example --set neuron_core.v3.hbm_bandwidth_gb_s=500");
  replace_value(override_target(setting.substr(0, equals)), parse_setting_value(setting.substr(equals + 1)),
                "--set on the command line");
}

void FactTable::apply_file(const std::string& path) {
  const std::string text = read_text_file(path, "arch.file", "the path of a TOML file");
  // A file of overrides needs no provenance: what it says is the user's assumption.
  const auto apply_table = [&](auto&& self, const toml::table& table, const std::string& prefix) -> void {
    for (const auto& [name, node] : in_file_order(table)) {
      if (is_reserved(name)) continue;
      const std::string key = prefix.empty() ? name : prefix + "." + name;
      const toml::table* child = node->as_table();
      if (child != nullptr && !child->contains("value")) {
        self(self, *child, key);
        continue;
      }
      const std::optional<FactValue> value = value_of(child != nullptr ? *child->get("value") : *node);
      if (!value)
        throw_malformed(path, *node, fmt::format("{}: not a number, text, flag or list of one kind", key));
      Fact& fact = override_target(key);
      replace_value(fact, *value, path);
      if (child != nullptr && child->contains("source"))
        fact.source = text_of(*child, "source") + " (" + path + ")";
    }
  };
  apply_table(apply_table, parse(text, path), "");
}

}  // namespace opentrn::arch
