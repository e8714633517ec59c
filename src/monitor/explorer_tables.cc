#include "monitor/explorer_tables.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"

namespace opentrn::monitor {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr uintmax_t kTraceBytesMax = uintmax_t{2} << 30;
constexpr int64_t kLanes = 1000;  // of a track, profile/perfetto.cc
constexpr const char* kEngines[] = {"tensor", "vector", "scalar", "gpsimd", "sync"};
constexpr size_t kOpcodesShown = 12;

[[noreturn]] void refuse_trace(std::string what, std::string hint = "") {
  throw Fault(FaultKind::kInput, "tools.explorer", std::move(what), std::move(hint));
}

[[noreturn]] void refuse_damaged(const std::string& what) { refuse_trace("the trace is damaged: " + what); }

// Rounded to the nearest, halves to even.
int64_t whole_ns(double value) {
  constexpr double kMost = 4.0e18;
  if (!(std::abs(value) < kMost)) refuse_damaged(fmt::format("a time of {}", value));
  return static_cast<int64_t>(std::nearbyint(value));
}

int64_t whole_at(const json& row, const char* key) {
  const json& value = row.at(key);
  if (!value.is_number_integer())
    refuse_damaged(fmt::format("'{}' is {}, not a whole number", key, value.type_name()));
  return value.get<int64_t>();
}

using Spans = std::vector<std::pair<int64_t, int64_t>>;

// Length of the union of [begin, end).
int64_t covered(Spans spans) {
  std::ranges::sort(spans);
  int64_t total = 0, end = -1;
  for (const auto& [begin, last] : spans)
    if (last > end) {
      total += last - std::max(begin, end);
      end = last;
    }
  return total;
}

double share_of_run(int64_t part, int64_t all) {
  return all > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(all) : 0.0;
}

struct Instruction {
  std::string engine, opcode;
  int64_t core = 0, begin = 0, end = 0;
  double flops = 0;
};

class TableMaker {
 public:
  explicit TableMaker(const json& events) : events_(events) {
    for (const json& event : events)
      if (event.at("ph") == "M" && event.at("name") == "thread_name")
        tracks_[{whole_at(event, "pid"), whole_at(event, "tid")}] = event.at("args").at("name");
  }

  ordered_json make(const std::string& version) {
    for (const json& event : events_)
      if (event.at("ph") == "X") take(event);
    ordered_json tables;
    std::set<int64_t> cores;
    for (const Instruction& row : executed_) cores.insert(row.core);
    tables["Instruction"] = std::move(instructions_);
    tables["DmaPacketAggregated"] = std::move(transfers_);
    tables["OpcodeSummary"] = opcodes();
    tables["Summary"] = ordered_json::array({summary()});
    const size_t physical = std::max<size_t>(cores.size(), 1);
    tables["Metadata"] = ordered_json::array({{{"profile_schema_version", kExplorerSchemaVersion},
                                               {"num_physical_cores", physical},
                                               {"vnc_enabled", physical > 1},
                                               {"first_hw_timestamp", 0},
                                               {"last_hw_timestamp", last_},
                                               {"is_simulation", true},
                                               {"explorer_version", "OpenTrn " + version}}});
    tables["Warning"] = warnings();
    return tables;
  }

 private:
  void take(const json& event) {
    const int64_t core = whole_at(event, "pid"), track_number = whole_at(event, "tid");
    const auto found = tracks_.find({core, track_number});
    if (found == tracks_.end())
      refuse_damaged(fmt::format("track {} of core {} has no name", track_number, core));
    const std::string& track = found->second;
    const json& args = event.at("args");
    constexpr double kNsPerUs = 1000;
    const double begin_us = event.at("ts").get<double>(), us = event.at("dur").get<double>();
    const int64_t begin = whole_ns(begin_us * kNsPerUs), end = whole_ns((begin_us + us) * kNsPerUs);
    if (track == "not drawn") {
      skipped_ += whole_at(args, "iterations");
      return;
    }
    ordered_json row{{"start_ts", begin}, {"end_ts", end}, {"duration_ns", end - begin}, {"pcore_idx", core}};
    // "Tensor +1" is the second lane of the track.
    const std::string name = track.substr(0, track.find(" +"));
    if (args.contains("bytes")) {
      if (!args.contains("instruction") || args["instruction"].is_null()) return;
      row["id"] = transfers_.size();
      row["queue_idx"] = track_number / kLanes;
      row["queue_name"] = name;
      row["transfer_bytes"] = whole_at(args, "bytes");
      transfers_.push_back(std::move(row));
      moved_.emplace_back(begin, end);
    } else {
      take_instruction(event, args, track, name, std::move(row));
    }
    last_ = std::max(last_, end);
  }

  void take_instruction(const json& event, const json& args, const std::string& track, std::string engine,
                        ordered_json row) {
    std::ranges::transform(engine, engine.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
    Instruction made{engine, event.at("name"), row["pcore_idx"], row["start_ts"], row["end_ts"]};
    row["engine"] = engine;
    row["timeline_track"] = track;
    row["opcode"] = made.opcode;
    row["id"] = instructions_.size();
    row["pc"] = counts_[{made.core, engine}]++;
    row["compiler_pc"] = whole_at(args, "instruction");
    row["evt_wait_time_ns"] =
        args.contains("stall_ns") ? json(whole_ns(args["stall_ns"].get<double>())) : json();
    row["nki_source_location"] = text_of(args, "source");
    row["hlo_name"] = text_of(args, "name");
    row["raw_flops"] = nullptr;
    if (args.contains("flops")) {
      made.flops = static_cast<double>(whole_ns(args["flops"].get<double>()));
      row["raw_flops"] = whole_ns(made.flops);
    }
    instructions_.push_back(std::move(row));
    executed_.push_back(std::move(made));
  }

  static json text_of(const json& args, const char* key) {
    if (!args.contains(key)) return nullptr;
    return args[key].get<std::string>();
  }

  ordered_json opcodes() const {
    std::map<std::pair<std::string, std::string>, Spans> groups;
    for (const Instruction& row : executed_)
      groups[{row.engine, row.opcode}].emplace_back(row.begin, row.end);
    ordered_json rows = ordered_json::array();
    for (const auto& [key, spans] : groups) {
      int64_t time = 0;
      for (const auto& [begin, end] : spans) time += end - begin;
      const int64_t active = covered(spans);
      rows.push_back({{"engine", key.first},
                      {"opcode", key.second},
                      {"instruction_count", spans.size()},
                      {"instruction_time_ns", time},
                      {"active_time_ns", active},
                      {"active_time_percent", share_of_run(active, last_)}});
    }
    return rows;
  }

  ordered_json summary() const {
    constexpr double kNsPerS = 1e9;
    double flops = 0;
    std::map<std::string, Spans> by_engine;
    for (const Instruction& row : executed_) {
      flops += row.flops;
      by_engine[row.engine].emplace_back(row.begin, row.end);
    }
    ordered_json row{{"total_time", static_cast<double>(last_) / kNsPerS},
                     {"hardware_flops", whole_ns(flops)},
                     {"dma_active_time_percent", share_of_run(covered(moved_), last_)}};
    for (const char* engine : kEngines)
      row[fmt::format("{}_engine_active_time_percent", engine)] =
          share_of_run(covered(by_engine[engine]), last_);
    return row;
  }

  ordered_json warnings() const {
    ordered_json rows =
        ordered_json::array({{{"message", "Predicted by OpenTrn's timing model, not measured on a device."},
                              {"category", "Simulation"}}});
    if (skipped_ != 0)
      rows.push_back(
          {{"message", fmt::format("{} iterations of steady loops are not in the tables.", skipped_)},
           {"category", "Missing Data"}});
    return rows;
  }

  const json& events_;
  std::map<std::pair<int64_t, int64_t>, std::string> tracks_;
  std::map<std::pair<int64_t, std::string>, int64_t> counts_;
  ordered_json instructions_ = ordered_json::array(), transfers_ = ordered_json::array();
  std::vector<Instruction> executed_;
  Spans moved_;
  int64_t last_ = 0, skipped_ = 0;
};

// %.6g of a number, and texts as they are.
std::string shown(const ordered_json& value) {
  return value.is_number() ? fmt::format("{:.6g}", value.get<double>()) : value.dump();
}

}  // namespace

std::string read_explorer_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) refuse_trace(fmt::format("{}: {}", path.string(), error.message()));
  if (size > kTraceBytesMax)
    refuse_trace(
        fmt::format("{} has {} bytes; at most {} GiB are read", path.string(), size, kTraceBytesMax >> 30));
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size)) && size > 0)
    refuse_trace(fmt::format("{} cannot be read", path.string()));
  return text;
}

ordered_json explorer_tables(std::string_view trace, const std::string& name, const std::string& version) {
  const json root = json::parse(trace, nullptr, /*allow_exceptions=*/false);
  const bool is_ours = root.is_object() && root.contains("traceEvents") && root["traceEvents"].is_array() &&
                       root.contains("otherData") && root["otherData"].is_object() &&
                       root["otherData"].value("is_simulation", json()) == "true";
  if (!is_ours)
    refuse_trace(fmt::format("{} is not a profile of OpenTrn's", name),
                 "neuron-explorer capture writes one (AWS's NTFF is not documented, and is not read)");
  try {
    return TableMaker(root["traceEvents"]).make(version);
  } catch (const json::exception& error) {
    refuse_damaged(error.what());
  }
}

std::string explorer_summary_text(const ordered_json& tables) {
  std::string text;
  for (const auto& [name, value] : tables.at("Summary").at(0).items())
    text += fmt::format("{:<40} {}\n", name, shown(value));
  text += "\n";
  std::vector<const ordered_json*> rows;
  for (const ordered_json& row : tables.at("OpcodeSummary")) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::greater{},
                           [](const ordered_json* row) { return row->at("active_time_ns").get<int64_t>(); });
  if (rows.size() > kOpcodesShown) rows.resize(kOpcodesShown);
  for (const ordered_json* row : rows)
    text += fmt::format("{:<8} {:<28} {:>8} times {:>12} ns\n", row->at("engine").get<std::string>(),
                        row->at("opcode").get<std::string>(), row->at("instruction_count").get<int64_t>(),
                        row->at("active_time_ns").get<int64_t>());
  return text;
}

}  // namespace opentrn::monitor
