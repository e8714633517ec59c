// neuron-monitor's configuration, as AWS's user guide has it.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace opentrn::monitor {

struct MetricGroup {
  std::string type;
  double period_s = 5;
};

struct RuntimeFilter {
  std::optional<std::regex> tag;  // of NEURON_PROCESS_TAG; all processes without it
  std::vector<MetricGroup> metrics;
};

struct MonitorConfig {
  std::vector<RuntimeFilter> runtimes;
  std::vector<MetricGroup> system;
};

// Every group of every process, each 5 seconds.
MonitorConfig default_monitor_config();
// Input fault "monitor.config" for what is not JSON, a group or a key that there is not, a period that is
// none (from 10 ms to a day, as "1s", "500ms", "2m", "1h"), or a regular expression that cannot be read. At
// most 1 MiB.
MonitorConfig parse_monitor_config(std::string_view text, const std::string& name);

}  // namespace opentrn::monitor
