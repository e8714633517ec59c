#include "monitor/companion_metrics.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::monitor {

using nlohmann::ordered_json;

namespace {

constexpr double kPercent = 100;
constexpr size_t kDatagramBytes = 1400;  // below the size of a packet of most networks
// Limits of CloudWatch's PutMetricData.
constexpr size_t kDimensionsMax = 30, kDimensionBytesMax = 1024;
constexpr double kValueMax = 1e100;

constexpr const char* kInstanceLabels[] = {"instance_id",       "instance_name", "instance_type",
                                           "availability_zone", "region",        "subnet_id"};
constexpr const char* kMemoryKinds[] = {"constants", "model_code", "model_shared_scratchpad",
                                        "runtime_memory", "tensors"};
constexpr const char* kEccEvents[] = {"mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected",
                                      "sram_ecc_uncorrected"};
constexpr const char* kHardwareFacts[] = {"neuron_device_count", "neuroncore_per_device_count",
                                          "neuron_device_type", "neuroncore_version"};
constexpr const char* kSystemMemory[] = {"memory_total_bytes", "memory_used_bytes", "swap_total_bytes",
                                         "swap_used_bytes"};

[[noreturn]] void refuse_report(const std::string& what) {
  throw Fault(FaultKind::kInput, "tools.report", "this is not a report of neuron-monitor: " + what);
}

// A member that may be absent or null: an empty object. A fault for one that is not an object.
const ordered_json& object_in(const ordered_json& of, const char* name) {
  static const ordered_json empty = ordered_json::object();
  const auto found = of.find(name);
  if (found == of.end() || found->is_null()) return empty;
  if (!found->is_object()) refuse_report(fmt::format("'{}' is not an object", name));
  return *found;
}

const ordered_json& objects_in(const ordered_json& of, const char* name) {
  static const ordered_json empty = ordered_json::array();
  const auto found = of.find(name);
  if (found == of.end()) return empty;
  if (!found->is_array()) refuse_report(fmt::format("'{}' is not a list", name));
  for (const ordered_json& row : *found)
    if (!row.is_object()) refuse_report(fmt::format("an entry of '{}' is not an object", name));
  return *found;
}

double number_named(const ordered_json& value, const std::string& name) {
  if (!value.is_number()) refuse_report(fmt::format("'{}' is not a number", name));
  return value.get<double>();
}

std::string word_of(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

class Samples {
 public:
  std::vector<Sample> take(const ordered_json& report) {
    for (const ordered_json& runtime : objects_in(report, "neuron_runtime_data")) {
      const auto tag = runtime.find("neuron_runtime_tag");
      tag_ = tag == runtime.end() ? "" : word_of(*tag);
      take_runtime(object_in(runtime, "report"));
    }
    const ordered_json& system = object_in(report, "system_data");
    take_system(system);
    for (const ordered_json& device : objects_in(object_in(system, "neuron_hw_counters"), "neuron_devices"))
      for (const char* event : kEccEvents)
        if (device.contains(event))
          gauge("hardware_ecc_events_total",
                {{"event_type", event}, {"neuron_device_index", word_of(device.at("neuron_device_index"))}},
                device.at(event));
    const ordered_json& hardware = object_in(report, "neuron_hardware_info");
    Labels labels;
    for (const char* name : kHardwareFacts)
      if (hardware.contains(name)) labels[name] = word_of(hardware.at(name));
    gauge("neuron_hardware_info", labels, 1);
    gauge("instance_info", {}, 1);
    return std::move(samples_);
  }

 private:
  void gauge(const std::string& name, Labels labels, const ordered_json& value, double divisor = 1) {
    samples_.push_back({false, name, std::move(labels), number_named(value, name) / divisor});
  }
  Labels tagged(Labels labels) const {
    labels["runtime_tag"] = tag_;
    return labels;
  }

  void take_runtime(const ordered_json& report) {
    const ordered_json& cores = object_in(object_in(report, "neuroncore_counters"), "neuroncores_in_use");
    for (const auto& [core, row] : cores.items())
      if (row.contains("neuroncore_utilization"))
        gauge("neuroncore_utilization_ratio", tagged({{"neuroncore", core}}), row["neuroncore_utilization"],
              kPercent);
    take_memory(object_in(object_in(report, "memory_used"), "neuron_runtime_used_bytes"));
    const ordered_json& usage = object_in(object_in(report, "neuron_runtime_vcpu_usage"), "vcpu_usage");
    for (const auto& [kind, percent] : usage.items())
      gauge("neuron_runtime_vcpu_usage_ratio", tagged({{"usage_type", kind}}), percent, kPercent);
    const ordered_json& stats = object_in(report, "execution_stats");
    count("execution_status_total", "status_type", object_in(stats, "execution_summary"));
    count("execution_errors_total", "error_type", object_in(stats, "error_summary"));
    for (const auto& [percentile, value] :
         object_in(object_in(stats, "latency_stats"), "total_latency").items())
      gauge("execution_latency_seconds", tagged({{"percentile", percentile}}), value);
  }

  void count(const std::string& name, const char* label, const ordered_json& rows) {
    for (const auto& [kind, value] : rows.items())
      samples_.push_back({true, name, tagged({{label, kind}}), number_named(value, name)});
  }

  void take_memory(const ordered_json& used) {
    for (const char* place : {"host", "neuron_device"})
      if (used.contains(place))
        gauge("neuron_runtime_memory_used_bytes", tagged({{"memory_location", place}}), used.at(place));
    for (const auto& [core, row] :
         object_in(object_in(used, "usage_breakdown"), "neuroncore_memory_usage").items())
      for (const char* kind : kMemoryKinds)
        if (row.contains(kind))
          gauge(fmt::format("neuroncore_memory_usage_{}", kind),
                tagged({{"neuroncore", core}, {"memory_location", "None"}}), row.at(kind));
  }

  void take_system(const ordered_json& system) {
    const ordered_json& memory = object_in(system, "memory_info");
    for (const char* name : kSystemMemory)
      if (memory.contains(name)) gauge(fmt::format("system_{}", name), {}, memory.at(name));
    const ordered_json& cpu = object_in(system, "vcpu_usage");
    for (const auto& [kind, percent] : object_in(cpu, "average_usage").items())
      gauge("system_vcpu_usage_ratio", {{"usage_type", kind}}, percent, kPercent);
    if (cpu.contains("usage_data")) gauge("system_vcpu_count", {}, cpu.at("usage_data").size());
  }

  std::string tag_;
  std::vector<Sample> samples_;
};

// Of the pod that holds the core of a metric; none where no pod does.
Labels pod_labels(const Labels& labels, const ordered_json& pods) {
  const auto core = labels.find("neuroncore");
  if (core == labels.end() || !pods.contains(core->second)) return {};
  const ordered_json& row = pods.at(core->second);
  std::vector<std::string> names;
  for (const ordered_json& name : row.at("container_name")) names.push_back(word_of(name));
  return {{"pod_name", word_of(row.at("pod_name"))},
          {"namespace", word_of(row.at("namespace"))},
          {"container_name", fmt::format("{}", fmt::join(names, ","))}};
}

Labels instance_labels(const ordered_json& report) {
  const ordered_json& info = report.at("instance_info");
  if (!info.is_object()) refuse_report("'instance_info' is not an object");
  Labels labels;
  for (const char* name : kInstanceLabels) {
    const std::string longer = fmt::format("instance_{}", name);
    labels[name] = info.contains(name)     ? word_of(info.at(name))
                   : info.contains(longer) ? word_of(info.at(longer))
                                           : "";
  }
  return labels;
}

template <typename Body>
auto of_report(const ordered_json& report, Body&& body) {
  if (!report.is_object()) refuse_report("it is not an object");
  try {
    return body();
  } catch (const ordered_json::exception& error) {
    refuse_report(error.what());
  }
}

bool is_total(const std::string& name) { return name.ends_with("_total"); }

std::string statsd_word(std::string text) {
  const auto is_safe = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-';
  };
  std::ranges::replace_if(
      text, [&](char c) { return !is_safe(c); }, '_');
  return text.empty() ? "_" : text;
}

std::string statsd_line(const Sample& sample, const std::string& prefix, bool with_tags) {
  const bool is_whole = sample.value == std::trunc(sample.value);
  const std::string number = is_whole ? fmt::format("{:.0f}", sample.value) : fmt::format("{}", sample.value);
  std::string path, tags;
  for (const auto& [key, label] : sample.labels) {
    path += fmt::format(".{}.{}", statsd_word(key), statsd_word(label));
    tags += fmt::format("{}{}:{}", tags.empty() ? "|#" : ",", statsd_word(key), statsd_word(label));
  }
  return fmt::format("{}.{}{}:{}|{}{}", prefix, sample.name, with_tags ? "" : path, number,
                     sample.is_counter ? 'c' : 'g', with_tags ? tags : "");
}

std::string cloudwatch_unit(const std::string& name) {
  if (name.ends_with("_ratio")) return "None";
  if (name.ends_with("_seconds")) return "Seconds";
  const bool is_bytes =
      name.find("_bytes") != std::string::npos || name.starts_with("neuroncore_memory_usage");
  return is_bytes ? "Bytes" : "Count";
}

// At most so many bytes, and no half of a character.
std::string at_most(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace

std::vector<Sample> metric_samples(const ordered_json& report) {
  return of_report(report, [&] { return Samples().take(report); });
}

// Tags whose execution_stats are those of the report before: another group was due.
std::set<std::string> MetricCollector::repeated(const ordered_json& report) {
  std::map<std::string, double> periods;
  for (const ordered_json& runtime : objects_in(report, "neuron_runtime_data")) {
    const ordered_json& stats = object_in(runtime.at("report"), "execution_stats");
    periods[word_of(runtime.at("neuron_runtime_tag"))] =
        stats.contains("period") ? number_named(stats.at("period"), "period") : 0;
  }
  std::set<std::string> same;
  for (const auto& [tag, period] : periods)
    if (const auto before = periods_.find(tag); before != periods_.end() && before->second == period)
      same.insert(tag);
  periods_ = std::move(periods);
  return same;
}

void MetricCollector::take(const ordered_json& report, double now_s) {
  of_report(report, [&] {
    const Labels common = instance_labels(report);
    const ordered_json& pods = object_in(object_in(report, "neuron_k8s_info"), "neuroncores_k8s_info");
    std::map<Key, double> gauges, counters = counters_;
    const std::vector<Sample> samples = Samples().take(report);
    const std::set<std::string> same = repeated(report);
    for (const Sample& sample : samples) {
      Labels labels = pod_labels(sample.labels, pods);
      labels.insert(sample.labels.begin(), sample.labels.end());
      labels.insert(common.begin(), common.end());
      Key key{sample.name, std::move(labels)};
      if (!sample.is_counter)
        gauges[std::move(key)] = sample.value;
      else if (!same.contains(sample.labels.at("runtime_tag")) || !counters.contains(key))
        counters[std::move(key)] += sample.value;
    }
    gauges_ = std::move(gauges);
    counters_ = std::move(counters);
    for (const auto* rows : {&gauges_, &counters_})
      for (const auto& [key, value] : *rows)
        if (is_total(key.first)) created_.try_emplace(key, now_s);
  });
}

std::vector<MetricCollector::Family> MetricCollector::families() const {
  std::vector<Family> families;
  for (const auto* rows : {&gauges_, &counters_})
    for (const auto& [key, value] : *rows) {
      const auto& [name, labels] = key;
      const std::string family = is_total(name) ? name.substr(0, name.size() - 6) : name;
      auto found = std::ranges::find(families, family, &Family::name);
      if (found == families.end()) found = families.insert(found, {family, name, is_total(name), {}});
      found->rows.push_back({name, labels, value});
      if (is_total(name)) found->rows.push_back({family + "_created", labels, created_.at(key)});
    }
  return families;
}

std::vector<std::string> statsd_datagrams(const ordered_json& report, const std::string& prefix,
                                          bool with_tags) {
  std::vector<std::string> datagrams;
  for (const Sample& sample : metric_samples(report)) {
    if (sample.is_counter && sample.value == 0) continue;
    const std::string line = statsd_line(sample, prefix, with_tags);
    if (datagrams.empty() || datagrams.back().size() + 1 + line.size() > kDatagramBytes)
      datagrams.push_back(line);
    else
      datagrams.back() += "\n" + line;
  }
  return datagrams;
}

std::vector<MetricDatum> cloudwatch_data(const ordered_json& report) {
  std::vector<MetricDatum> data;
  for (const Sample& sample : metric_samples(report)) {
    if (!std::isfinite(sample.value) || std::abs(sample.value) > kValueMax) continue;
    Labels dimensions = sample.labels;
    const ordered_json& info = object_in(report, "instance_info");
    if (info.contains("instance_id")) dimensions.try_emplace("instance_id", word_of(info.at("instance_id")));
    MetricDatum datum{sample.name, cloudwatch_unit(sample.name), {}, sample.value};
    for (const auto& [key, label] : dimensions)  // CloudWatch takes no empty values
      if (!label.empty() && datum.dimensions.size() < kDimensionsMax)
        datum.dimensions.emplace_back(key, at_most(label, kDimensionBytesMax));
    data.push_back(std::move(datum));
  }
  return data;
}

}  // namespace opentrn::monitor
