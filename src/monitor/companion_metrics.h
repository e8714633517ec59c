// The numbers of neuron-monitor's reports as metrics: what its companions for Prometheus, StatsD and
// CloudWatch hand on. Names and labels are those of AWS's companion script for Prometheus. What a report
// leaves out is no metric.
//
// Input fault "tools.report" for what is not a report.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace opentrn::monitor {

using Labels = std::map<std::string, std::string>;

struct Sample {
  bool is_counter = false;  // what the period of the report added; else a gauge
  std::string name;
  Labels labels;
  double value = 0;
};
std::vector<Sample> metric_samples(const nlohmann::ordered_json& report);

// What a scrape of Prometheus gets: the gauges of the last report, and counters since the start. Counters of
// a process end with it; their sum over processes is kept.
class MetricCollector {
 public:
  // `now_s`: since the epoch.
  void take(const nlohmann::ordered_json& report, double now_s);

  struct Family {
    std::string name, documentation;
    bool is_counter = false;
    struct Row {
      std::string name;
      Labels labels;
      double value = 0;
    };
    std::vector<Row> rows;
  };
  std::vector<Family> families() const;

 private:
  using Key = std::pair<std::string, Labels>;
  std::set<std::string> repeated(const nlohmann::ordered_json& report);

  std::map<Key, double> gauges_, counters_;
  std::map<Key, double> created_;          // when a counter was first seen
  std::map<std::string, double> periods_;  // of a process's execution_stats, which a report may repeat
};

// Datagrams for a StatsD server, of several lines each: gauges, and what counters grew by since the report
// before. Labels stand in the name, `neuron.neuroncore_utilization_ratio.neuroncore.0`, or behind it as tags
// where the server is DogStatsD.
std::vector<std::string> statsd_datagrams(const nlohmann::ordered_json& report, const std::string& prefix,
                                          bool with_tags);

// An entry of CloudWatch's MetricData, without its time. Labels are dimensions.
struct MetricDatum {
  std::string name, unit;
  std::vector<std::pair<std::string, std::string>> dimensions;
  double value = 0;
};
std::vector<MetricDatum> cloudwatch_data(const nlohmann::ordered_json& report);

}  // namespace opentrn::monitor
