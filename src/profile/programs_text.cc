#include "profile/programs_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include <fmt/format.h>

namespace opentrn::profile {

namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

constexpr size_t kColumns = 80, kNameColumns = 31;

// Of a name in UTF-8.
std::string first_characters(const std::string& text, size_t most) {
  size_t end = 0;
  for (size_t count = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U;
    if (begins && count++ == most) break;
  }
  return text.substr(0, end);
}

size_t characters(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string duration(const Json& microseconds) {
  if (microseconds.is_null()) return "-";
  const double us = microseconds.get<double>();
  if (us < 1e3) return fmt::format("{:.2f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1e3);
  return fmt::format("{:.2f} s", us / 1e6);
}

void add_wrapped(Lines& lines, const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && characters(line) + 1 + characters(word) > kColumns) {
      lines.push_back(std::move(line));
      line = "  " + word;
    } else {
      line += line.empty() ? word : " " + word;
    }
  }
  lines.push_back(std::move(line));
}

const Json& member(const Json& row, const char* name) {
  static const Json kNone;
  const auto found = row.find(name);
  return found == row.end() ? kNone : *found;
}

void add_head(Lines& lines, const Json& summary) {
  const int64_t cores = summary["cores"], ranks = summary["ranks"];
  const std::string of = ranks > 1 ? fmt::format(" of {} ranks", ranks) : "";
  lines.push_back(fmt::format(
      "{}, {} core{}{}: {} program runs, {} of device time; {:.2f} s on this host",
      summary["target"].get<std::string>(), cores, cores > 1 ? "s" : "", of, summary["runs"].get<int64_t>(),
      duration(summary["device_s"].get<double>() * 1e6), summary["host_s"].get<double>()));
  std::string memory =
      fmt::format("memory: {:.1f} MiB of HBM at most", summary["bytes_peak"].get<double>() / (1 << 20));
  if (const Json& mfu = summary["mfu"]; !mfu.is_null())
    memory += fmt::format("; MFU {:.2f}% of the BF16 peak", 100 * mfu.get<double>());
  lines.push_back(std::move(memory));
}

// The step, and what is beside it; an empty line where no program has a time.
void add_step(Lines& lines, const Json& summary) {
  const Json& step = summary["step"];
  if (step.is_null() || step == "") {
    lines.emplace_back();
    return;
  }
  const bool by_clock = std::ranges::any_of(
      member(summary, "clocks"), [](const Json& clock) { return clock["steps"].get<int64_t>() > 0; });
  const double whole = summary["device_s"].get<double>();
  const std::string share =
      whole == 0 ? "none" : fmt::format("{:.0f}%", 100 * summary["launch_s"].get<double>() / whole);
  add_wrapped(lines, fmt::format("a step ({}): {} {}, {} of {} launches", step.get<std::string>(),
                                 duration(summary["step_us"]),
                                 by_clock ? "by the clock of its core" : "of device time", share,
                                 by_clock ? "device time" : "it"));
  const Json& beside = summary["beside_us"];
  if (beside.is_null() || beside == 0) return;
  lines.push_back(fmt::format("{} steps; {} takes {} in all", summary["steps"].get<int64_t>(),
                              by_clock ? "what is before and after them" : "what runs less often",
                              duration(beside)));
}

// An instance that all rates are of is named once.
void add_prices(Lines& lines, const Json& usd, const Json& rented) {
  std::set<std::string> of;
  const auto renter = [&](const std::string& kind) {
    const Json& name = rented[kind];
    return name.is_null() ? std::string("None") : name.get<std::string>();
  };
  for (const auto& [kind, value] : usd.items())
    if (!value.is_null()) of.insert(renter(kind));
  if (of.empty()) {
    lines.emplace_back("price: no rate is published");
    return;
  }
  Lines texts;
  for (const auto& [kind, value] : usd.items()) {
    if (value.is_null()) continue;
    std::string name = kind;
    std::ranges::replace(name, '_', ' ');
    const std::string whose = of.size() > 1 ? fmt::format(" ({})", renter(kind)) : "";
    texts.push_back(fmt::format("${:.2g} {}{}", value.get<double>(), name, whose));
  }
  const std::string on = of.size() > 1 ? "" : " on " + *of.begin();
  add_wrapped(lines, fmt::format("price{}, by the core: {}", on, fmt::join(texts, ", ")));
}

// A row for each program, numbered where several have a name; and a line for each of those: what it takes
// and gives.
void add_programs(Lines& lines, const Json& programs, size_t rows_max) {
  lines.push_back(fmt::format("{:<32}{:>7}{:>12}{:>12}{:>8}", "program (a run: with its launch)", "runs",
                              "one run", "all", "share"));
  const size_t shown = std::min(rows_max, programs.size());
  std::map<std::string, int> count, seen;
  for (size_t i = 0; i < shown; ++i) ++count[programs[i]["name"].get<std::string>()];
  Lines legend;
  for (size_t i = 0; i < shown; ++i) {
    const Json& row = programs[i];
    const std::string name = row["name"];
    std::string label = first_characters(name, kNameColumns);
    if (count[name] > 1) {
      const std::string number = fmt::format(" #{}", ++seen[name]);
      label = first_characters(name, kNameColumns - number.size()) + number;
      if (const Json& types = member(row, "types"); types.is_string() && types != "") {
        const std::string line = fmt::format("{}: {}", label, types.get<std::string>());
        legend.push_back(characters(line) <= kColumns ? line : first_characters(line, kColumns - 3) + "...");
      }
    }
    label.resize(label.size() + 32 - characters(label), ' ');
    const Json& share = row["share"];
    lines.push_back(fmt::format("{}{:>7}{:>12}{:>12}{:>8}", label, row["runs"].get<int64_t>(),
                                duration(row["run_us"]), duration(row["total_us"]),
                                share.is_null() ? "-" : fmt::format("{:.1f}%", 100 * share.get<double>())));
  }
  if (programs.size() > shown)
    lines.push_back(fmt::format("... and {} more (--lines)", programs.size() - shown));
  std::ranges::move(legend, std::back_inserter(lines));
}

void add_collectives(Lines& lines, const Json& row) {
  const auto found = row.find("collectives_us");
  if (found == row.end() || *found == 0) return;
  const std::string name = row["name"];
  if (found->is_null())
    lines.push_back(name + ": what its collectives take is not known, and not in its time");
  else
    lines.push_back(fmt::format(
        "{}: {} of a run are collectives, an estimate; {} of them exposed (no compute beside them)", name,
        duration(*found), duration(row["exposed_us"])));
}

void add_cores(Lines& lines, const Json& summary) {
  if (const Json& both = summary["both_cores_us_min"]; !both.is_null() && both != 0) {
    std::set<std::string> reasons;
    for (const Json& row : summary["programs"])
      if (const Json& why = member(row, "one_core_because"); why.is_string()) reasons.insert(why);
    lines.push_back(
        fmt::format("each core is two physical ones, of which some programs use one ({}): with\n"
                    "both, evenly, all of it would take {} at least",
                    fmt::join(reasons, "; "), duration(both)));
  }
  for (const Json& row : summary["programs"])
    if (const Json& way = member(row, "both_cores_by"); way.is_string() && way != "")
      lines.push_back(fmt::format("{}: both physical cores of each core compute, cut by: {}",
                                  row["name"].get<std::string>(), way.get<std::string>()));
}

void add_without_time(Lines& lines, const Json& summary) {
  const Json& on_host = summary["on_host"];
  for (const auto& [name, reason] : on_host.items())
    lines.push_back(
        fmt::format("no device time for {}, which ran on the host: {}", name, reason.get<std::string>()));
  for (const Json& each : summary["without_time"]) {
    const std::string name = each;
    if (on_host.contains(name)) continue;
    for (const Json& row : summary["programs"])
      if (row["name"] == name && row.contains("why")) {
        lines.push_back(fmt::format("no device time for {}: {}", name, row["why"].get<std::string>()));
        break;
      }
  }
}

}  // namespace

std::string programs_text(const Json& summary, size_t rows_max) {
  Lines lines;
  add_head(lines, summary);
  add_step(lines, summary);
  lines.push_back(
      fmt::format("this host without a program to run: {:.2f} s", summary["host_gap_s"].get<double>()));
  add_prices(lines, summary["usd"], summary["rented"]);
  lines.emplace_back();
  add_programs(lines, summary["programs"], rows_max);
  for (const Json& row : summary["programs"]) add_collectives(lines, row);
  add_cores(lines, summary);
  add_without_time(lines, summary);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace opentrn::profile
