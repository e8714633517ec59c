#include "monitor/monitor_config.h"

#include <algorithm>
#include <charconv>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"

namespace opentrn::monitor {

namespace {

using nlohmann::json;

constexpr size_t kBytesMax = 1 << 20, kEntriesMax = 64, kPatternMax = 256;
constexpr double kDefaultPeriod = 5, kPeriodMin = 0.01, kPeriodMax = 86400;
const std::vector<std::string> kRuntimeGroups = {"neuroncore_counters", "execution_stats", "memory_used",
                                                 "neuron_runtime_vcpu_usage"};
const std::vector<std::string> kSystemGroups = {"vcpu_usage", "memory_info", "neuron_hw_counters"};

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  MonitorConfig read(std::string_view text) const {
    if (text.size() > kBytesMax) fail(fmt::format("{} bytes; at most {}", text.size(), kBytesMax), "");
    const json root = json::parse(text, nullptr, false);
    if (root.is_discarded()) fail("it is not JSON", "see the example of AWS's guide to neuron-monitor");
    expect_keys(root, {"period", "neuron_runtimes", "system_metrics"}, "the configuration");
    const double period = period_of(root, kDefaultPeriod);
    MonitorConfig config;
    for (const json& entry : list_of(root, "neuron_runtimes")) {
      expect_keys(entry, {"tag_filter", "metrics", "period", "address"}, "an entry of neuron_runtimes");
      RuntimeFilter& filter = config.runtimes.emplace_back();
      filter.tag = tag_of(entry);
      filter.metrics = groups_of(entry, "metrics", period_of(entry, period), kRuntimeGroups);
    }
    config.system = groups_of(root, "system_metrics", period, kSystemGroups);
    return config;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw Fault(FaultKind::kInput, "monitor.config", fmt::format("{}: {}", name_, what), hint);
  }

  void expect_keys(const json& object, const std::vector<std::string>& known, const char* what) const {
    if (!object.is_object()) fail(fmt::format("{} is not an object", what), "");
    for (const auto& [key, value] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(fmt::format("{} has a key '{}'", what, key), fmt::format("it takes {}", fmt::join(known, ", ")));
  }

  json list_of(const json& object, const char* key) const {
    if (!object.contains(key)) return json::array();
    const json& list = object[key];
    if (!list.is_array() || list.size() > kEntriesMax)
      fail(fmt::format("{} is not a list of up to {} entries", key, kEntriesMax), "");
    return list;
  }

  double period_of(const json& object, double otherwise) const {
    if (!object.contains("period")) return otherwise;
    const auto refuse = [&] {
      const json& found = object["period"];
      fail(fmt::format("the period {} is none",
                       found.is_string() ? found.get<std::string>() : found.type_name()),
           "a number with ms, s, m or h, from 10ms to 24h");
    };
    if (!object["period"].is_string()) refuse();
    const std::string text = object["period"];
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
    const double scale = unit == "ms" ? 1e-3 : unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
    const double seconds = value * scale;
    if (error != std::errc{} || !(seconds >= kPeriodMin && seconds <= kPeriodMax)) refuse();
    return seconds;
  }

  std::optional<std::regex> tag_of(const json& entry) const {
    if (!entry.contains("tag_filter")) return std::nullopt;
    if (!entry["tag_filter"].is_string()) fail("tag_filter is not text", "");
    const std::string text = entry["tag_filter"];
    if (text.size() > kPatternMax)
      fail(fmt::format("tag_filter has more than {} characters", kPatternMax), "");
    try {
      return std::regex(text, std::regex::ECMAScript);
    } catch (const std::regex_error&) {
      fail(fmt::format("tag_filter '{}' is not a regular expression", text), "");
    }
  }

  std::vector<MetricGroup> groups_of(const json& object, const char* key, double period,
                                     const std::vector<std::string>& known) const {
    std::vector<MetricGroup> groups;
    for (const json& entry : list_of(object, key)) {
      expect_keys(entry, {"type", "period"}, "a metric group");
      const std::string type =
          entry.contains("type") && entry["type"].is_string() ? entry["type"].get<std::string>() : "";
      if (std::find(known.begin(), known.end(), type) == known.end())
        fail(fmt::format("{} has no metric group '{}'", key, type),
             fmt::format("it has {}", fmt::join(known, ", ")));
      groups.push_back({type, period_of(entry, period)});
    }
    return groups;
  }

  std::string name_;
};

}  // namespace

MonitorConfig default_monitor_config() {
  MonitorConfig config;
  RuntimeFilter& all = config.runtimes.emplace_back();
  for (const std::string& type : kRuntimeGroups) all.metrics.push_back({type, kDefaultPeriod});
  for (const std::string& type : kSystemGroups) config.system.push_back({type, kDefaultPeriod});
  return config;
}

MonitorConfig parse_monitor_config(std::string_view text, const std::string& name) {
  return Reader(name).read(text);
}

}  // namespace opentrn::monitor
