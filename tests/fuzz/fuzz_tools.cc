// What the tools of src/monitor, src/cli and src/runtime read: configurations, records, words, variables.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "base/fault.h"
#include "cli/nccom_groups.h"
#include "cli/nccom_options.h"
#include "device/record.h"
#include "device/registry.h"
#include "monitor/monitor_config.h"
#include "runtime/inspect.h"
#include "runtime/settings.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

namespace opentrn::fuzz {

namespace {

// Runs `read`; what it throws is an input error with a label.
template <typename Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput) broken("not an input error: {}", fault.what());
    if (fault.label().empty()) broken("no label: {}", fault.what());
  }
}

constexpr std::string_view kConfigWords[] = {"\"period\"",
                                             "\"1s\"",
                                             "\"1e309s\"",
                                             "\"tag_filter\"",
                                             "\"(a*)*b\"",
                                             "\"[\"",
                                             "null",
                                             "[]",
                                             "{}",
                                             "\"type\"",
                                             "\"memory_used\"",
                                             "\\u0000",
                                             "1e999",
                                             "-1",
                                             "[[[[",
                                             "\"period\":\"5s\",",
                                             "\xff",
                                             "\"24h\""};
constexpr std::string_view kConfig = R"({"period": "1s", "neuron_runtimes": [{"tag_filter": "^job",
 "metrics": [{"type": "neuroncore_counters"}, {"type": "memory_used", "period": "500ms"}]}],
 "system_metrics": [{"type": "vcpu_usage"}, {"type": "memory_info", "period": "2m"}]})";

constexpr std::string_view kGroupWords[] = {"[",
                                            "]",
                                            "{",
                                            "}",
                                            ",",
                                            "0",
                                            "-1",
                                            "4294967296",
                                            "1e9",
                                            "null",
                                            "\"replica_groups\"",
                                            "\"src_target_pairs\"",
                                            "\"streams\"",
                                            "\"operation\"",
                                            "\"allr\"",
                                            "\"minbytes\"",
                                            "\"1kb\"",
                                            "true"};
constexpr std::string_view kGroupFiles[] = {
    R"({"replica_groups": [[0, 1], [2, 3]]})",
    R"([[0, 1], [2, 3]])",
    R"({"src_target_pairs": [[0, 1], [1, 0]]})",
    R"([{"op": "allr", "minbytes": "1kb", "maxbytes": "4kb", "datatype": "fp32"}, {"op": "allg"}])",
    R"({"streams": [{"operation": "allr", "minbytes": "8", "maxbytes": "64", "stepfactor": "2"}]})",
    R"({"counts": [1, 2, 3, 4]})"};
constexpr std::string_view kSizes[] = {"1",
                                       "32M",
                                       "1kb",
                                       "0",
                                       "-1",
                                       "1e9",
                                       "9223372036854775807",
                                       "8 exabytes",
                                       "1gb",
                                       "",
                                       "0x10",
                                       "18446744073709551616MB",
                                       "4"};

// A file of this case alone.
class Scratch {
 public:
  explicit Scratch(const std::string& content)
      : path_(std::filesystem::temp_directory_path() / fmt::format("opentrn_fuzz_{}.json", getpid())) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~Scratch() { std::filesystem::remove(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string pick(SplitMix64& random, std::span<const std::string_view> from) {
  return std::string(from[random.below(static_cast<uint32_t>(from.size()))]);
}

constexpr std::string_view kValues[] = {"0",
                                        "1",
                                        "2",
                                        "session",
                                        "0-3",
                                        "3-0",
                                        "0,2,4",
                                        ",",
                                        "^",
                                        "hardware",
                                        "^cc_exec",
                                        "nrt_execute",
                                        "trn2",
                                        "trn2.48xlarge",
                                        "-1",
                                        "99999999999999999999",
                                        "core",
                                        "\xff\xfe",
                                        "4096",
                                        "0-65535",
                                        "software,^model_load"};

}  // namespace

void monitor_case(uint64_t seed) {
  SplitMix64 random(seed);
  std::string text(kConfig);
  for (uint32_t i = random.below(4); i > 0; --i) mutate(random, text, kConfigWords);
  read_or_refuse([&] {
    const monitor::MonitorConfig config = monitor::parse_monitor_config(text, "fuzz");
    for (const monitor::RuntimeFilter& filter : config.runtimes) {
      if (filter.tag) std::regex_search(std::string("job one"), *filter.tag);
      for (const monitor::MetricGroup& group : filter.metrics)
        if (!(group.period_s >= 0.01 && group.period_s <= 86400)) broken("a period of {} s", group.period_s);
    }
  });
}

void record_case(uint64_t seed) {
  SplitMix64 random(seed);
  const uint32_t cores = random.below(5);
  std::vector<std::byte> bytes(device::record_bytes(cores));
  auto* record = reinterpret_cast<device::Record*>(bytes.data());
  std::memcpy(record->magic, device::kRecordMagic, sizeof(device::kRecordMagic));
  record->version = device::kRecordVersion;
  record->cores = cores;
  record->bytes = bytes.size();
  record->pid = static_cast<uint64_t>(getpid());
  record->physical_cores_per_core = 1 + random.below(2);
  std::strcpy(record->command, "python train.py");
  for (device::ModelRecord& model : record->models) model.id = random.below(2);
  mutate(random, bytes, {});
  if (random.below(2) == 0 && bytes.size() >= sizeof(device::Record)) {
    auto* damaged = reinterpret_cast<device::Record*>(bytes.data());  // behind what is checked first
    std::memcpy(damaged->magic, device::kRecordMagic, sizeof(device::kRecordMagic));
    damaged->version = device::kRecordVersion;
    damaged->bytes = bytes.size();
  }
  read_or_refuse([&] {
    const device::Process process = device::parse_record(bytes, "fuzz");
    if (process.cores.size() > device::kRecordCoresMax) broken("{} cores", process.cores.size());
    for (const std::string& text : {process.tag, process.command, process.instance})
      for (const char c : text)
        if (static_cast<unsigned char>(c) < 32) broken("a control character in a text");
  });
}

void nccom_case(uint64_t seed) {
  SplitMix64 random(seed);
  std::string text = pick(random, kGroupFiles);
  mutate(random, text, kGroupWords);
  const Scratch file(text);
  cli::nccom::Operation operation;
  operation.minbytes = pick(random, kSizes);
  operation.maxbytes = pick(random, kSizes);
  if (random.below(2) == 0) operation.stepbytes = pick(random, kSizes);
  if (random.below(2) == 0) operation.stepfactor = pick(random, kSizes);
  const int ranks = static_cast<int>(1 + random.below(8));
  operation.data_parallel_dimension = static_cast<int>(random.below(4));
  read_or_refuse([&] {
    for (const int64_t size : cli::nccom::sizes_of(operation))
      if (size < 0) broken("a size of {} bytes", size);
  });
  read_or_refuse([&] { cli::nccom::long_name(text.substr(0, random.below(12))); });
  read_or_refuse([&] { cli::nccom::dtype_of(text.substr(0, random.below(12))); });
  read_or_refuse([&] { cli::nccom::streams_of(file.path(), operation); });
  cli::nccom::Operation grouped = operation;
  grouped.custom_replica_groups = file.path();
  read_or_refuse([&] {
    for (const auto& group : cli::nccom::groups_of(grouped, ranks))
      for (const int rank : group)
        if (rank < 0 || rank >= ranks) broken("rank {} of {}", rank, ranks);
  });
  cli::nccom::Operation paired = operation;
  paired.custom_src_target_pairs = file.path();
  read_or_refuse([&] {
    for (const auto& [from, to] : cli::nccom::pairs_of(paired, ranks))
      if (from < 0 || from >= ranks || to < 0 || to >= ranks) broken("pair {} {} of {}", from, to, ranks);
  });
  cli::nccom::Operation counted = operation;
  counted.name = random.below(2) == 0 ? "all_to_all_v" : "all_gather_v";
  counted.variable_size_op_metadata = file.path();
  read_or_refuse([&] { cli::nccom::counts_of(counted, ranks, 64); });
}

void variables_case(uint64_t seed) {
  SplitMix64 random(seed);
  std::map<std::string, std::string> chosen;
  const auto variable = [&](const char* name) -> std::optional<std::string> {
    if (const auto found = chosen.find(name); found != chosen.end()) return found->second;
    if (random.below(3) == 0) return std::nullopt;
    std::string text = pick(random, kValues);
    if (random.below(2) == 0) mutate(random, text, kValues);
    return chosen[name] = text;
  };
  read_or_refuse([&] {
    const auto options = runtime::read_inspect_options(variable);
    if (!options) return;
    for (const std::string& event : options->events)
      if (!runtime::inspect_event_types().contains(event)) broken("an event {}", event);
  });
  read_or_refuse([&] {
    const runtime::Settings settings = runtime::read_settings(variable);
    if (settings.cores.empty()) broken("no cores");
  });
}

}  // namespace opentrn::fuzz
