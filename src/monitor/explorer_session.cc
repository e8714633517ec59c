#include "monitor/explorer_session.h"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "base/utf8.h"
#include "monitor/explorer_tables.h"

namespace opentrn::monitor {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr const char* kFormat = "opentrn-inspect-1";
constexpr int64_t kMost = int64_t{1} << 62;
constexpr double kNsPerUs = 1e3, kNsPerS = 1e9;
// A field that rows are grouped by, and the column of the rows that has it.
constexpr std::pair<const char*, const char*> kGroups[] = {
    {"instance_id", "instance_id"}, {"process_id", "process_id"}, {"lnc_idx", "nc_idx"}};

[[noreturn]] void refuse_session(std::string what, std::string hint = "") {
  throw Fault(FaultKind::kInput, "tools.explorer", std::move(what), std::move(hint));
}

[[noreturn]] void refuse_damaged_file(const fs::path& path) {
  refuse_session(fmt::format("{} is damaged", path.string()), "run neuron-explorer inspect again");
}

json json_of(const fs::path& path) {
  json content = json::parse(read_explorer_file(path), nullptr, /*allow_exceptions=*/false);
  if (content.is_discarded()) refuse_damaged_file(path);
  return content;
}

json rows_in(const fs::path& path, const std::string& key) {
  json content = json_of(path);
  if (!content.is_object() || !content.contains(key) || !content[key].is_array()) refuse_damaged_file(path);
  for (const json& row : content[key])
    if (!row.is_object()) refuse_damaged_file(path);
  return std::move(content[key]);
}

bool is_event(const json& event) {
  for (const char* key : {"name", "type"})
    if (!event.contains(key) || !event[key].is_string()) return false;
  for (const char* key : {"id", "nc_idx", "timestamp", "duration"}) {
    if (!event.contains(key) || !event[key].is_number_integer()) return false;
    const json& value = event[key];
    if (value.is_number_unsigned() ? value.get<uint64_t>() >= uint64_t{kMost} : value.get<int64_t>() < 0)
      return false;
  }
  return true;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string text_of_value(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
}

std::string group_words(const ordered_json& row, const std::vector<std::string>& fields) {
  std::vector<std::string> words;
  for (const std::string& field : fields)
    for (const auto& [name, column] : kGroups)
      if (field == name) words.push_back(fmt::format("{} {}", name, text_of_value(row.at(column))));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::set<int64_t> session_cores(const std::string& text) {
  std::set<int64_t> cores;
  for (const std::string& part : parts_of(text)) {
    int64_t core = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), core);
    if (error != std::errc{} || end != part.data() + part.size() || core < 0 || part.size() > 6)
      refuse_session(fmt::format("--system-trace-filter-neuron-core '{}'", printable(text.substr(0, 40))),
                     "numbers, as in 0,1");
    cores.insert(core);
  }
  return cores;
}

std::vector<std::string> session_groups(const std::string& text, const std::string& option) {
  std::vector<std::string> known;
  for (const auto& [name, column] : kGroups) known.emplace_back(name);
  std::vector<std::string> fields = parts_of(text);
  for (const std::string& field : fields)
    if (std::ranges::find(known, field) == known.end())
      refuse_session(
          fmt::format("{} '{}'", option, printable(field.substr(0, 40))),
          fmt::format("a simulated device knows {}; no threads and workers", fmt::join(known, ", ")));
  if (fields.empty())
    refuse_session(fmt::format("{} names nothing", option), fmt::format("of {}", fmt::join(known, ", ")));
  return fields;
}

std::vector<fs::path> session_folders(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (std::error_code ignored; fs::is_regular_file(entry->path() / "trace_info.json", ignored))
      found.push_back(entry->path());
  std::ranges::sort(found);
  if (found.empty() && fs::is_regular_file(folder / "trace_info.json", error)) found.push_back(folder);
  return found;
}

Session::Session(const fs::path& folder, SessionFilters filters) : filters_(std::move(filters)) {
  for (const fs::path& path : session_folders(folder)) {
    const json info = json_of(path / "trace_info.json");
    if (!info.is_object() || info.value("format", json()) != kFormat || !info.contains("pid") ||
        !info["pid"].is_number_integer())
      refuse_session(fmt::format("{} is not a profile of OpenTrn's", path.string()),
                     "neuron-explorer inspect writes one");
    const std::string name = fs::absolute(path).lexically_normal().filename().string();
    const Process process{path, printable(name.substr(0, name.find("_pid_"))), info["pid"].get<int64_t>()};
    if (!filters_.instances.empty() && !filters_.instances.contains(process.instance)) continue;
    processes_.push_back(process);
    if (!filters_.without_system) add_events(process);
    if (!filters_.without_device) add_models(process);
  }
  if (processes_.empty())
    refuse_session(fmt::format("{} holds no profile", folder.string()),
                   "neuron-explorer inspect -o DIR PROGRAM ... writes one");
}

void Session::add_events(const Process& process) {
  const fs::path path = process.folder / "ntrace.json";
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  for (const json& event : rows_in(path, "events")) {
    if (!is_event(event)) refuse_damaged_file(path);
    const auto core = event["nc_idx"].get<int64_t>(), begin = event["timestamp"].get<int64_t>(),
               ns = event["duration"].get<int64_t>();
    const std::string name = event["name"];
    if (!filters_.cores.empty() && !filters_.cores.contains(core)) continue;
    if (!filters_.types.empty() && !filters_.types.contains(name)) continue;
    ordered_json extra = ordered_json::object();
    for (const char* key : {"model_id", "nc_timestamp_ns"})
      if (event.contains(key)) extra[key] = event[key];
    rows_.push_back({{"id", rows_.size()},
                     {"name", name},
                     {"start_ts", begin},
                     {"end_ts", begin + ns},
                     {"duration_ns", ns},
                     {"trace_event_source", event["type"] == "hardware" ? "neuron_hw" : "neuron_rt"},
                     {"instance_id", process.instance},
                     {"process_id", process.pid},
                     {"thread_id", nullptr},
                     {"nc_idx", core},
                     {"extra_attributes_json", extra.dump()}});
  }
}

void Session::add_models(const Process& process) {
  std::vector<fs::path> traces;
  std::error_code error;
  for (fs::directory_iterator entry(process.folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().extension() == ".ntff") traces.push_back(entry->path());
  std::ranges::sort(traces);
  for (const fs::path& path : traces) {
    constexpr std::string_view kMiddle = "_instid_0_vnc_";
    std::string name = path.stem().string();
    if (const size_t at = name.find(kMiddle); at != std::string::npos)
      name.replace(at, kMiddle.size(), "_core_");
    const auto is_same = [&](const auto& model) { return model.first == name; };
    if (std::ranges::none_of(models_, is_same)) models_.emplace_back(std::move(name), path);
  }
}

ordered_json Session::host_rows(const std::string& file, const std::string& key) const {
  ordered_json rows = ordered_json::array();
  for (const Process& process : processes_) {
    const fs::path path = process.folder / file;
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) continue;
    for (const json& row : rows_in(path, key)) {
      ordered_json made{{"instance_id", process.instance}, {"process_id", process.pid}};
      for (const auto& [name, value] : row.items()) made[name] = value;
      rows.push_back(std::move(made));
    }
  }
  return rows;
}

ordered_json Session::summary(const std::string& version) const {
  ordered_json summary{{"is_simulation", true}, {"processes", processes_.size()}};
  if (!filters_.without_system) {
    std::set<int64_t> cores;
    size_t executions = 0;
    double device_ns = 0, host_ns = 0;
    for (const ordered_json& row : rows_) {
      cores.insert(row["nc_idx"].get<int64_t>());
      const double ns = row["duration_ns"];
      if (row["name"] == "nc_exec_running") device_ns += ns;
      if (row["name"] != "nrt_execute") continue;
      ++executions;
      host_ns += ns;
    }
    summary["executions"] = executions;
    summary["neuroncores"] = cores;
    summary["device_time_s"] = device_ns / kNsPerS;
    summary["host_time_s"] = host_ns / kNsPerS;
  }
  summary["models"] = ordered_json::object();
  for (const auto& [name, path] : models_)
    summary["models"][name] = explorer_tables(read_explorer_file(path), path.string(), version)["Summary"][0];
  return summary;
}

ordered_json Session::perfetto(const std::vector<std::string>& primary,
                               const std::vector<std::string>& secondary) const {
  ordered_json events = ordered_json::array();
  std::map<std::pair<std::string, std::string>, size_t> numbers;  // of a group, and of a row in it
  const auto number_of = [&](const std::string& first, const std::string& second) {
    const auto [found, fresh] = numbers.try_emplace({first, second}, numbers.size() + 1);
    if (fresh)
      events.push_back({{"ph", "M"},
                        {"name", second.empty() ? "process_name" : "thread_name"},
                        {"pid", numbers.at({first, ""})},
                        {"tid", found->second},
                        {"args", {{"name", second.empty() ? first : second}}}});
    return found->second;
  };
  for (const ordered_json& row : rows_) {
    const std::string first = group_words(row, primary), second = group_words(row, secondary);
    const size_t process = number_of(first, ""), thread = number_of(first, second);
    events.push_back({{"ph", "X"},
                      {"name", row["name"]},
                      {"pid", process},
                      {"tid", thread},
                      {"ts", row["start_ts"].get<double>() / kNsPerUs},
                      {"dur", row["duration_ns"].get<double>() / kNsPerUs},
                      {"args", ordered_json::parse(row["extra_attributes_json"].get<std::string>())}});
  }
  return {{"traceEvents", std::move(events)}, {"otherData", {{"is_simulation", "true"}}}};
}

std::string session_summary_text(const ordered_json& summary) {
  std::string text;
  for (const auto& [name, value] : summary.items())
    if (name != "models") text += fmt::format("{:<40} {}\n", name, text_of_value(value));
  for (const auto& [model, row] : summary.at("models").items()) {
    text += fmt::format("\nmodel {}\n", model);
    for (const auto& [name, value] : row.items())
      text += fmt::format("{:<40} {:.6g}\n", name, value.get<double>());
  }
  return text;
}

}  // namespace opentrn::monitor
