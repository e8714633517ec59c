#include "model/comparison.h"

#include <algorithm>
#include <sstream>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/number_text.h"
#include "base/utf8.h"

namespace opentrn::model {

using Profile = nlohmann::json;
using nlohmann::ordered_json;

namespace {

// Bytes of memory for each of a chip's cores; nothing where unknown.
std::optional<double> memory_share(const arch::Tables& tables, const std::string& chip) {
  const arch::Chip& found = tables.chip(chip);
  if (!found.memory_gib.known() || !found.cores.known()) return std::nullopt;
  return found.memory_gib * (1024.0 * 1024 * 1024) / found.cores;
}

// An instance's row of several programs that run one after the other: times and prices add up.
InstanceRow served(const std::vector<const Profile*>& rows, int64_t held, const arch::Tables& tables) {
  const Profile& first = *rows.front();
  InstanceRow row{
      .instance = first.at("instance"), .chip = first.at("chip"), .chips = first.at("chips"), .prices = {}};
  row.is_known = true;
  row.cores = first.at("cores");
  row.fits = first.at("fits");
  double seconds = 0;
  for (const Profile* each : rows) {
    row.latency_us += each->at("latency_us").get<double>();
    seconds += 1 / each->at("inferences_per_s").get<double>();
  }
  // Of one program what the profile says: 1 / (1 / x) is not x.
  row.inferences_per_s = rows.size() == 1 ? first.at("inferences_per_s").get<double>() : 1 / seconds;
  if (rows.size() > 1) {
    const auto share = memory_share(tables, row.chip);
    row.fits = !share || static_cast<double>(held) <= *share;
  }
  for (size_t kind = 0; kind < kComparedRates.size(); ++kind) {
    std::optional<double> sum = 0.0;
    for (const Profile* each : rows) {
      const Profile& rate = each->at(std::string(kComparedRates[kind].key));
      if (rate.is_null())
        sum.reset();
      else if (sum)
        *sum += rate.at("usd_per_million").get<double>();
    }
    row.prices[kind] = sum;
  }
  return row;
}

// Words in lines of at most `width` characters, as Python's textwrap.fill() breaks them at blanks.
std::string filled(const std::string& text, size_t width, const std::string& first, const std::string& next) {
  std::istringstream words(text);
  std::string out, line = first;
  bool is_empty = true;
  for (std::string word; words >> word;) {
    if (!is_empty && character_count(line) + 1 + character_count(word) > width) {
      out += line + "\n";
      line = next;
      is_empty = true;
    }
    line += (is_empty ? "" : " ") + word;
    is_empty = false;
  }
  return out + line + "\n";
}

using Rows = std::vector<std::vector<std::string>>;

constexpr std::string_view kUnknown = "unknown";

// How many of the first columns fit beside each other, `gap` blanks before each but the first; all where not
// even two do.
size_t columns_in(const std::vector<size_t>& widths, size_t gap, size_t width) {
  size_t count = 0;
  for (size_t used = 2; count < widths.size() && used + widths[count] <= width; ++count)
    used += widths[count] + gap;
  return count < 2 ? widths.size() : count;
}

// Cells of the columns `left` stand at the left; the last of them is not padded. Columns that do not fit
// stand below their row, each with its heading, but for those that are not known.
std::string aligned(const Rows& rows, const std::vector<size_t>& left, size_t width) {
  const size_t columns = rows.front().size();
  std::vector<size_t> widths(columns, 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < columns; ++i) widths[i] = std::max(widths[i], character_count(row[i]));
  const size_t gap = columns_in(widths, 2, width) == columns ? 2 : 1;
  const size_t beside = columns_in(widths, gap, width);
  std::string out;
  for (const auto& row : rows) {
    std::string line = "  ";
    for (size_t i = 0; i < beside; ++i) {
      const std::string blanks(widths[i] - character_count(row[i]), ' ');
      const bool is_left = std::ranges::find(left, i) != left.end();
      line += (i > 0 ? std::string(gap, ' ') : "") + (is_left ? row[i] + blanks : blanks + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    std::vector<std::string> below;
    for (size_t i = beside; i < columns && &row != &rows.front(); ++i)
      if (row[i] != kUnknown) below.push_back(fmt::format("{} {}", rows.front()[i], row[i]));
    if (!below.empty()) out += filled(fmt::format("{}", fmt::join(below, "; ")), width, "    ", "    ");
  }
  return out;
}

std::string money(const std::optional<double>& usd) {
  return usd ? fmt::format("${:.3g}", *usd) : std::string(kUnknown);
}

std::string core_table(const std::vector<ChipRow>& chips, size_t width) {
  Rows rows{{"NeuronCore", "chips", "latency", "MFU", "MBU", "SBUF", "HBM", "bound by"}};
  for (const ChipRow& row : chips) {
    if (!row.why.empty()) continue;  // unknown_text() has it
    std::string_view core = row.neuron_core;
    core.remove_prefix(std::string_view("NeuronCore-").size());
    rows.push_back({std::string(core), fmt::format("{}", fmt::join(row.chips, ", ")),
                    time_text(row.latency_us), fmt::format("{:.1f} %", row.mfu_percent),
                    fmt::format("{:.1f} %", row.mbu_percent), size_text(static_cast<double>(row.sbuf_bytes)),
                    size_text(static_cast<double>(row.hbm_bytes)), row.bound_by.value_or("nothing")});
  }
  return aligned(rows, {0, 1, 7}, width);
}

std::string instance_table(const std::vector<InstanceRow>& instances, size_t width) {
  Rows rows{{"instance", "chips", "cores", "latency", "per second"}};
  for (const RateKind& kind : kComparedRates) rows[0].emplace_back(kind.title);
  for (const InstanceRow& row : instances) {
    if (!row.is_known) continue;
    rows.push_back({row.instance, std::to_string(row.chips), std::to_string(row.cores),
                    time_text(row.latency_us),
                    row.fits ? grouped(std::llrint(row.inferences_per_s)) : "does not fit"});
    for (const auto& price : row.prices) rows.back().push_back(money(price));
  }
  return aligned(rows, {0}, width);
}

// One paragraph for a NeuronCore without a time: which instances have it, and why it is not known.
std::string unknown_text(const ChipRow& row, const std::vector<InstanceRow>& instances, size_t width) {
  std::vector<std::string> sizes;
  for (const InstanceRow& each : instances)
    if (std::ranges::find(row.chips, each.chip) != row.chips.end()) sizes.push_back(each.instance);
  return filled(
      fmt::format("{} ({}): time unknown, {}", fmt::join(row.chips, ", "), fmt::join(sizes, ", "), row.why),
      width, "  ", "    ");
}

std::string trust_paragraph(const ChipRow& row, size_t width) {
  std::vector<std::string> lines;
  std::istringstream text(row.trust);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return filled(fmt::format("{}: {}", row.chips.front(), fmt::join(lines, "; ")), width, "  ", "    ");
}

ordered_json json_of(const ChipRow& row) {
  ordered_json out{{"neuron_core", row.neuron_core}, {"chips", row.chips}, {"why", row.why}};
  const bool is_known = row.why.empty();
  const auto known = [&](const char* name, auto value) {
    out[name] = is_known ? ordered_json(value) : ordered_json();
  };
  known("compile_s", row.compile_s);
  known("latency_us", row.latency_us);
  known("launch_us", row.launch_us);
  out["band"] = is_known ? ordered_json::parse(row.band) : ordered_json::object();
  out["trust"] = row.trust;
  out["bound_by"] = row.bound_by ? ordered_json(*row.bound_by) : ordered_json();
  known("mfu_percent", row.mfu_percent);
  known("mbu_percent", row.mbu_percent);
  known("hbm_bytes", row.hbm_bytes);
  known("sbuf_bytes", row.sbuf_bytes);
  known("host_ops", row.host_ops);
  return out;
}

ordered_json json_of(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json json_of(const InstanceRow& row) {
  ordered_json out{{"instance", row.instance}, {"chip", row.chip}, {"chips", row.chips}};
  const auto known = [&](const char* name, auto value) {
    out[name] = row.is_known ? ordered_json(value) : ordered_json();
  };
  known("cores", row.cores);
  known("latency_us", row.latency_us);
  known("inferences_per_s", row.inferences_per_s);
  known("fits", row.fits);
  out["prices"] = ordered_json::object();
  if (row.is_known)
    for (size_t i = 0; i < kComparedRates.size(); ++i)
      out["prices"][std::string(kComparedRates[i].key)] = json_of(row.prices[i]);
  out["usd_per_million"] = json_of(row.usd_per_million());
  return out;
}

}  // namespace

std::vector<ComparedTarget> compared_targets(const arch::Tables& tables) {
  std::vector<ComparedTarget> found;
  for (const arch::NeuronCore& core : tables.neuron_cores()) {
    ComparedTarget row{.name = {}, .core = core.name, .chips = {}};
    for (const std::string& alias : tables.facts().items("target")) {
      if (tables.resolve_target(alias) != core.generation) continue;
      if (row.name.empty() || (alias.starts_with("trn") && !row.name.starts_with("trn"))) row.name = alias;
    }
    for (const arch::Chip& chip : tables.chips())
      if (chip.generation == core.generation) row.chips.push_back(chip.name);
    if (!row.name.empty() && !row.chips.empty()) found.push_back(std::move(row));
  }
  return found;
}

std::optional<double> InstanceRow::usd_per_million() const {
  if (!is_known || !fits) return std::nullopt;
  std::optional<double> least;
  for (const auto& price : prices)
    if (price && (!least || *price < *least)) least = price;
  return least;
}

Comparison::Comparison(std::string source, const arch::Tables& tables)
    : source_(std::move(source)), tables_(tables) {}

void Comparison::add(const ComparedTarget& target, const ComparedRun& run, const Profile& profile) {
  std::vector<const Profile*> parts;
  if (profile.contains("stages"))
    for (const Profile& stage : profile.at("stages")) parts.push_back(&stage.at("profile"));
  else
    parts.push_back(&profile);
  if (parts.empty()) throw Fault(FaultKind::kInput, "profile.stages", "the profile is of no program");
  ChipRow row{.neuron_core = target.core,
              .chips = target.chips,
              .why = "",
              .compile_s = run.compile_s,
              .mfu_percent = run.mfu_percent,
              .mbu_percent = run.mbu_percent,
              .bound_by = run.bound_by,
              .trust = run.trust,
              .band = run.band,
              .host_ops = run.host_ops};
  for (const Profile* part : parts) {
    const Profile& model = part->at("model");
    const Profile& memory = part->at("memory");
    row.latency_us += model.at("latency_us").get<double>();
    row.launch_us += model.at("launch_us").get<double>();
    row.hbm_bytes += memory.at("hbm_bytes_used").get<int64_t>();
    row.sbuf_bytes = std::max(row.sbuf_bytes, memory.at("sbuf_bytes_per_partition_used").get<int64_t>());
  }
  const size_t sizes = parts.front()->at("model").at("serving").size();
  for (size_t i = 0; i < sizes; ++i) {
    std::vector<const Profile*> rows;
    for (const Profile* part : parts) rows.push_back(&part->at("model").at("serving").at(i));
    instances_.push_back(served(rows, row.hbm_bytes, tables_));
  }
  chips_.push_back(std::move(row));
}

void Comparison::add_unknown(const ComparedTarget& target, std::string why) {
  chips_.push_back({.neuron_core = target.core,
                    .chips = target.chips,
                    .why = std::move(why),
                    .bound_by = {},
                    .trust = {},
                    .band = {}});
  for (const arch::Instance& size : tables_.instances())
    if (std::ranges::find(target.chips, size.chip) != target.chips.end())
      instances_.push_back({.instance = size.name, .chip = size.chip, .chips = size.chips, .prices = {}});
}

std::vector<InstanceRow> Comparison::instances() const {
  std::vector<InstanceRow> rows = instances_;
  std::ranges::stable_sort(rows, {}, [](const InstanceRow& row) {
    const auto price = row.usd_per_million();
    return std::tuple(!price, price.value_or(0), !(row.is_known && row.fits), !row.is_known,
                      -row.inferences_per_s);
  });
  return rows;
}

std::string Comparison::text(size_t width) const {
  const std::vector<InstanceRow> rows = instances();
  std::string out =
      filled(fmt::format("{} on every NeuronCore; SBUF is per partition", source_), width, "", "");
  if (!sizes_.empty()) {
    std::vector<std::string> texts;
    for (const auto& [name, size] : sizes_) texts.push_back(fmt::format("{}={}", name, size));
    out += fmt::format("Of an inference with {}, which data decide\n", fmt::join(texts, ", "));
  }
  out += core_table(chips_, width);
  for (const ChipRow& row : chips_)
    if (!row.why.empty()) out += unknown_text(row, rows, width);
  for (const ChipRow& row : chips_)
    if (!row.trust.empty()) out += trust_paragraph(row, width);
  const auto paragraph = [&](const char* sentence) { out += filled(sentence, width, "", ""); };
  out += "\n";
  paragraph("Instances, cheapest first, and USD per million inferences by rate");
  out += instance_table(rows, width);
  paragraph(
      "One copy of the model per NeuronCore, all cores busy (those of an HBM stack share it; latency is that "
      "of one "
      "alone), launches not overlapped, host and network not counted; `opentrn describe INSTANCE` has the "
      "prices' "
      "sources");
  if (std::ranges::any_of(chips_, [](const ChipRow& row) { return row.host_ops > 0; }))
    paragraph("Ops without a device kernel run on the host and are not in the times (`opentrn coverage`)");
  return out;
}

ordered_json Comparison::json() const {
  ordered_json sizes = ordered_json::object(), chips = ordered_json::array(), sized = ordered_json::array();
  for (const auto& [name, size] : sizes_) sizes[name] = size;
  for (const ChipRow& row : chips_) chips.push_back(json_of(row));
  for (const InstanceRow& row : instances()) sized.push_back(json_of(row));
  return {{"model", source_}, {"sizes", sizes}, {"chips", chips}, {"instances", sized}};
}

}  // namespace opentrn::model
