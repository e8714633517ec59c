#include "runtime/inspect.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/fork.h"
#include "isa/text.h"
#include "profile/reports.h"
#include "runtime/settings.h"
#include "runtime/timing.h"

namespace opentrn::runtime {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kProfilesMax = 256;         // device profiles of a process
constexpr uint64_t kSampleNs = 100'000'000;  // between samples of the host
constexpr size_t kSamplesMax = 100'000;
constexpr const char* kEnable = "NEURON_RT_INSPECT_ENABLE";
constexpr const char* kFilterCores = "NEURON_RT_INSPECT_EVENT_FILTER_NC";
constexpr const char* kFilterTypes = "NEURON_RT_INSPECT_EVENT_FILTER_TYPE";

// Event types of AWS's runtime that come from the device; all others are of the software.
const std::set<std::string> kHardware = {"nc_exec_running", "cc_running",       "cc_exec_barrier",
                                         "numerical_err",   "nrt_model_switch", "timestamp_sync_point",
                                         "hw_notify"};

[[noreturn]] void refuse_inspection(const std::string& what, const std::string& hint) {
  throw Fault(FaultKind::kInput, "runtime.inspect", what, hint);
}

uint64_t fnv(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

struct Ring {
  std::deque<Json> events;
  uint64_t dropped = 0;
};

struct ProgramFacts {
  std::weak_ptr<const isa::Program> program;
  std::string digest;
};

struct Recorder {
  explicit Recorder(InspectOptions given)
      : options(std::move(given)), settings(settings_of_environment()), born(fork_generation()) {}

  const InspectOptions options;
  const Settings settings;  // asked now: when the process ends, tables are gone
  const uint64_t born;
  ForkSafeMutex mutex;
  std::map<int, Ring> rings;          // by core
  std::map<int, uint64_t> clocks_ns;  // of the simulated cores
  std::unordered_map<const isa::Program*, ProgramFacts> known;
  std::map<std::string, std::string> profiles;  // file name -> content
  std::set<std::string> models;
  size_t profiles_left_out = 0;
  uint64_t last_id = 0, last_sample_ns = 0;
  std::vector<std::pair<uint64_t, uint64_t>> memory;  // time, resident bytes
  struct Cpu {
    uint64_t at_ns, user_ns, system_ns;
  };
  std::vector<Cpu> cpu;
};

// Never destroyed: threads may execute while the process ends.
std::atomic<Recorder*> g_recorder;
ForkSafeMutex& making() {
  static auto& mutex = *new ForkSafeMutex;
  return mutex;
}

Recorder* recorder_here() {
  Recorder* recorder = g_recorder.load(std::memory_order_acquire);
  return recorder != nullptr && recorder->born == fork_generation() ? recorder : nullptr;
}

bool wants_core(const Recorder& recorder, int core) {
  return recorder.options.cores.empty() || recorder.options.cores.contains(static_cast<uint32_t>(core));
}

void add_event_of(Recorder& to, int core, const char* type, uint64_t at_ns, uint64_t duration_ns, Json more) {
  if (!to.options.system_profile || !to.options.events.contains(type) || !wants_core(to, core)) return;
  Ring& ring = to.rings[core];
  if (ring.events.size() >= to.options.events_max) {
    ring.events.pop_front();
    ++ring.dropped;
  }
  Json event{{"name", type},
             {"type", kHardware.contains(type) ? "hardware" : "software"},
             {"group", fmt::format("nrt-nc-{:03d}", core)},
             {"id", ++to.last_id},
             {"nc_idx", core},
             {"timestamp", at_ns},
             {"duration", duration_ns}};
  event.update(more);
  ring.events.push_back(std::move(event));
}

uint64_t ns_of(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_usec) * 1000;
}

void sample_host(Recorder& to, uint64_t now_ns) {
  if (now_ns - to.last_sample_ns < kSampleNs || to.cpu.size() >= kSamplesMax) return;
  to.last_sample_ns = now_ns;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  to.cpu.push_back({now_ns, ns_of(usage.ru_utime), ns_of(usage.ru_stime)});
  uint64_t pages = 0, resident = 0;
  std::ifstream statm("/proc/self/statm");
  if (statm >> pages >> resident)
    to.memory.emplace_back(now_ns, resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

std::string digest_of(Recorder& to, const Model& model, bool& is_new) {
  {
    const std::lock_guard lock(to.mutex);
    const auto found = to.known.find(model.program.get());
    if (found != to.known.end() && !found->second.program.expired()) return found->second.digest;
  }
  const std::string digest = fmt::format("{}", fnv(isa::to_text(*model.program)));
  const std::lock_guard lock(to.mutex);
  to.known[model.program.get()] = {model.program, digest};
  is_new = to.models.insert(digest).second;
  return digest;
}

// Of the program's first execution on the core.
void keep_profile(Recorder& to, const Model& model, const LoopTrips& trips, const std::string& digest,
                  int core) {
  if (!to.options.device_profile || !wants_core(to, core)) return;
  const std::string name = fmt::format("{}_instid_0_vnc_{}.ntff", digest, core);
  {
    const std::lock_guard lock(to.mutex);
    if (to.profiles.contains(name)) return;
    if (to.profiles.size() >= kProfilesMax) {
      ++to.profiles_left_out;
      return;
    }
    to.profiles[name];  // whoever comes second does not compute it
  }
  std::ostringstream text;
  try {
    profile::write_perfetto(timeline(model, trips), text);
  } catch (const Fault&) {  // the timing model cannot tell
    const std::lock_guard lock(to.mutex);
    to.profiles.erase(name);
    ++to.profiles_left_out;
    return;
  }
  const std::lock_guard lock(to.mutex);
  to.profiles[name] = text.str();
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  out.close();
  if (!out) refuse_inspection(fmt::format("{} cannot be written", path.string()), "name another folder");
}

// FOLDER/INSTANCE_pid_PID, with a number behind it where that is there.
std::filesystem::path make_folder_of_process(const Recorder& from) {
  const char* instance = std::getenv("OPENTRN_INSTANCE_ID");
  std::string name = instance != nullptr && *instance != 0 ? instance : "simulated";
  std::replace(name.begin(), name.end(), '/', '_');
  name += fmt::format("_pid_{}", getpid());
  std::error_code error;
  const std::filesystem::path base(from.options.folder);
  std::filesystem::create_directories(base, error);
  for (int i = 1; i < 1000; ++i) {
    const auto folder = base / (i == 1 ? name : fmt::format("{}_{}", name, i));
    if (std::filesystem::create_directory(folder, error)) return folder;
    if (error) break;
  }
  refuse_inspection(fmt::format("{}: {}", base.string(), error ? error.message() : "it is full of profiles"),
                    "name another folder with NEURON_RT_INSPECT_OUTPUT_DIR");
}

Json events_of(Recorder& from) {
  std::vector<Json> all;
  for (auto& [core, ring] : from.rings)
    for (Json& event : ring.events) all.push_back(std::move(event));
  std::sort(all.begin(), all.end(), [](const Json& a, const Json& b) {
    return std::pair(a["timestamp"].get<uint64_t>(), a["id"].get<uint64_t>()) <
           std::pair(b["timestamp"].get<uint64_t>(), b["id"].get<uint64_t>());
  });
  return all;
}

std::string write_all(Recorder& from) {
  const std::lock_guard lock(from.mutex);
  const std::filesystem::path folder = make_folder_of_process(from);
  for (const auto& [name, content] : from.profiles)
    if (!content.empty()) write_file(folder / name, content);
  uint64_t dropped = 0;
  for (const auto& [core, ring] : from.rings) dropped += ring.dropped;
  const Json info{{"format", "opentrn-inspect-1"},
                  {"is_simulation", true},
                  {"session_id", from.options.session},
                  {"pid", getpid()},
                  {"instance_type", from.settings.target},
                  {"logical_neuroncore_config", from.settings.physical_cores_per_core},
                  {"events_dropped", dropped},
                  {"device_profiles_left_out", from.profiles_left_out}};
  write_file(folder / "trace_info.json", info.dump(1) + "\n");
  if (from.options.system_profile)
    write_file(folder / "ntrace.json", Json{{"events", events_of(from)}}.dump() + "\n");
  if (from.options.host_memory) {
    Json rows = Json::array();
    for (const auto& [at, bytes] : from.memory)
      rows.push_back({{"timestamp", at}, {"resident_bytes", bytes}});
    write_file(folder / "host_mem.json", Json{{"mem_usage", rows}}.dump() + "\n");
  }
  if (from.options.cpu_util) {
    Json rows = Json::array();
    for (const auto& row : from.cpu)
      rows.push_back({{"timestamp", row.at_ns}, {"user_ns", row.user_ns}, {"system_ns", row.system_ns}});
    write_file(folder / "cpu_util.json", Json{{"cpu_util", rows}}.dump() + "\n");
  }
  return folder.string();
}

void end_at_exit() {
  if (recorder_here() == nullptr) return;
  try {
    end_inspection();
  } catch (const std::exception& error) {
    fmt::print(stderr, "opentrn: the profiles are not written: {}\n", error.what());
  }
}

std::optional<std::string> environment_text(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
}

void begin_as_environment_says() {
  static std::atomic<uint64_t> asked{UINT64_MAX};  // once for a process
  if (asked.load(std::memory_order_relaxed) == fork_generation()) return;
  const std::lock_guard lock(making());
  if (asked.load() == fork_generation()) return;
  const auto options = read_inspect_options(environment_text);
  asked = fork_generation();
  if (!options) return;
  static const int registered = std::atexit(end_at_exit);
  static_cast<void>(registered);
  g_recorder = new Recorder(*options);
}

template <typename Each>
void each_of_list(std::string_view text, Each each) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    each(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
}

uint64_t inspect_number(const char* name, std::string_view text, uint64_t max) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > max)
    refuse_inspection(fmt::format("{} has '{}'", name, text), fmt::format("a number from 0 to {}", max));
  return value;
}

std::set<uint32_t> filtered_cores(const std::string& text) {
  constexpr uint64_t kCoreMax = 65535;
  std::set<uint32_t> cores;
  each_of_list(text, [&](std::string_view part) {
    const size_t dash = part.find('-');
    const uint64_t first = inspect_number(kFilterCores, part.substr(0, dash), kCoreMax);
    const uint64_t last = dash == std::string_view::npos
                              ? first
                              : inspect_number(kFilterCores, part.substr(dash + 1), kCoreMax);
    if (last < first) refuse_inspection(fmt::format("{} has '{}'", kFilterCores, part), "as in 0,2-4");
    for (uint64_t core = first; core <= last; ++core) cores.insert(static_cast<uint32_t>(core));
  });
  return cores;
}

// "hardware", "software" and names add, "^name" takes away.
std::set<std::string> filtered_events(const std::string& text) {
  std::set<std::string> wanted;
  std::set<std::string> without;
  const auto& known = inspect_event_types();
  each_of_list(text, [&](std::string_view part) {
    const bool is_without = part.starts_with('^');
    const std::string name(part.substr(is_without ? 1 : 0));
    auto& to = is_without ? without : wanted;
    if (name == "hardware" || name == "software") {
      for (const std::string& each : known)
        if (kHardware.contains(each) == (name == "hardware")) to.insert(each);
    } else if (known.contains(name)) {
      to.insert(name);
    } else if (!kHardware.contains(name) &&
               name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != name.npos) {
      refuse_inspection(fmt::format("{} has '{}'", kFilterTypes, part),
                        "event types, hardware or software, with ^ before what is left out");
    }  // else an event of AWS's that nothing here gives
  });
  for (const std::string& name : without) wanted.erase(name);
  return wanted;
}

bool switched(const std::function<std::optional<std::string>(const char*)>& variable, const char* name,
              bool otherwise) {
  const auto text = variable(name);
  return text ? inspect_number(name, *text, 1) == 1 : otherwise;
}

}  // namespace

const std::set<std::string>& inspect_event_types() {
  static const std::set<std::string> types{"model_load", "nc_exec_running", "nrt_execute"};
  return types;
}

std::optional<InspectOptions> read_inspect_options(
    const std::function<std::optional<std::string>(const char*)>& variable) {
  InspectOptions options;
  options.normal = switched(variable, kEnable, false);
  options.on_fail = switched(variable, "NEURON_RT_INSPECT_ON_FAIL", false);
  options.events = inspect_event_types();
  if (const auto folder = variable("NEURON_RT_INSPECT_OUTPUT_DIR")) options.folder = *folder;
  options.system_profile = switched(variable, "NEURON_RT_INSPECT_SYSTEM_PROFILE", true);
  const std::string device = variable("NEURON_RT_INSPECT_DEVICE_PROFILE").value_or("0");
  if (device != "0" && device != "1" && device != "model" && device != "session")
    refuse_inspection(fmt::format("NEURON_RT_INSPECT_DEVICE_PROFILE has '{}'", device),
                      "0, or 1 (as are model and session): each program's first execution");
  options.device_profile = device != "0" || !options.normal;
  options.host_memory = switched(variable, "NEURON_RT_INSPECT_HOST_MEMORY", true);
  options.cpu_util = switched(variable, "NEURON_RT_INSPECT_CPU_UTIL", true);
  if (const auto cores = variable(kFilterCores)) options.cores = filtered_cores(*cores);
  if (const auto types = variable(kFilterTypes)) options.events = filtered_events(*types);
  constexpr auto kMax = "NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC";
  if (const auto count = variable(kMax))
    options.events_max = std::max<uint64_t>(1, inspect_number(kMax, *count, 100'000'000));
  if (!options.normal && !options.on_fail) return std::nullopt;
  return options;
}

void begin_inspection(const InspectOptions& options) {
  const std::lock_guard lock(making());
  if (recorder_here() != nullptr)
    refuse_inspection("this process is inspected already", "end that first: nrt_inspect_stop()");
  g_recorder = new Recorder(options);
}

std::string end_inspection() {
  Recorder* recorder = nullptr;
  {
    const std::lock_guard lock(making());
    recorder = recorder_here();
    if (recorder == nullptr) refuse_inspection("nothing is inspected", "begin first: nrt_inspect_begin()");
    g_recorder = nullptr;  // it stays allocated: a thread may be noting its last execution
  }
  return write_all(*recorder);
}

bool is_inspected() {
  begin_as_environment_says();
  return recorder_here() != nullptr;
}

void note_inspected(const InspectedRun& run) {
  Recorder* to = recorder_here();
  if (to == nullptr || !to->options.normal) return;
  const int core = device::current_core();
  bool is_new = false;
  const std::string digest = digest_of(*to, run.model, is_new);
  {
    const std::lock_guard lock(to->mutex);
    sample_host(*to, run.end_ns);
    if (is_new) add_event_of(*to, core, "model_load", run.begin_ns, 0, {{"model_id", digest}});
    add_event_of(*to, core, "nrt_execute", run.begin_ns, run.end_ns - run.begin_ns, {{"model_id", digest}});
    if (run.predicted != nullptr) {
      uint64_t& clock = to->clocks_ns[core];
      add_event_of(*to, core, "nc_exec_running", run.begin_ns, run.predicted->total_ns,
                   {{"model_id", digest}, {"nc_timestamp_ns", clock}});
      clock += run.predicted->total_ns;
    }
  }
  keep_profile(*to, run.model, run.trips, digest, core);
}

void note_inspected_failure(const Model& model) {
  Recorder* to = recorder_here();
  if (to == nullptr || !to->options.on_fail) return;
  bool is_new = false;
  keep_profile(*to, model, {}, digest_of(*to, model, is_new) + "_failed", device::current_core());
}

}  // namespace opentrn::runtime
