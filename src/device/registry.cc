#include "device/registry.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::device {

namespace {

constexpr size_t kRecordBytesMax = sizeof(Record) + kRecordCoresMax * sizeof(CoreRecord);
constexpr size_t kProcessesMax = 4096;
constexpr auto kHint = "set OPENTRN_RUN_DIR to a folder of your own with mode 0700, or to off";

[[noreturn]] void refuse(const std::filesystem::path& folder, const std::string& why) {
  throw Fault(FaultKind::kInput, "device.run_folder", fmt::format("{}: {}", folder.string(), why), kHint);
}

void expect_safe(const std::filesystem::path& folder) {
  struct stat state {};
  if (lstat(folder.c_str(), &state) != 0) refuse(folder, std::strerror(errno));
  if (!S_ISDIR(state.st_mode)) refuse(folder, "it is not a folder");
  if (state.st_uid != geteuid()) refuse(folder, fmt::format("it belongs to user {}", state.st_uid));
  if ((state.st_mode & 077) != 0)
    refuse(folder, fmt::format("others may use it: its mode is {:o}", state.st_mode & 0777));
}

// Closes a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return number_; }

 private:
  int number_;
};

// Up to the first NUL, as UTF-8 of one line: what a terminal shows is what it says.
std::string text_of(const char* text, size_t size) {
  std::string out(text, strnlen(text, size));
  if (!is_utf8(out))
    std::replace_if(
        out.begin(), out.end(), [](char c) { return (c & 0x80) != 0; }, '?');
  std::replace_if(
      out.begin(), out.end(), [](char c) { return (static_cast<unsigned char>(c) < 0x20) || c == 0x7F; },
      ' ');
  return out;
}

void read_core(const CoreRecord& from, CoreState& to) {
  to.index = from.index;
  for (int i = 0; i < 2; ++i) to.busy_ns[i] = from.busy_ns[i];
  to.elapsed_ns = from.elapsed_ns;
  to.simulating_ns = from.simulating_ns;
  to.timed = from.timed;
  to.untimed = from.untimed;
  to.flops = from.flops;
  to.loads = from.loads;
  to.last_ns = from.last_ns;
  for (size_t i = 0; i < kOutcomes; ++i) to.outcomes[i] = from.outcomes[i];
  for (size_t i = 0; i < kMemories; ++i) {
    to.memory[i] = from.memory[i];
    to.memory_peak[i] = from.memory_peak[i];
  }
}

std::vector<LoadedModel> models_of(const Record& record) {
  std::vector<LoadedModel> models;
  for (const ModelRecord& from : record.models) {
    if (from.id == 0) continue;
    models.push_back({from.id, from.core, from.constants, from.code, from.scratchpad, from.digest,
                      text_of(from.name, sizeof(from.name))});
  }
  return models;
}

std::vector<Latency> latencies_of(const Record& record) {
  std::vector<Latency> latencies;
  const uint64_t count = record.latency_count;
  const uint64_t first = count > kRecordLatencies ? count - kRecordLatencies : 0;
  for (uint64_t i = first; i < count && i - first < kRecordLatencies; ++i) {
    const LatencyRecord& from = record.latencies[i % kRecordLatencies];
    latencies.push_back({from.end_ns, from.total_ns, from.device_ns});
  }
  return latencies;
}

// The whole file, of at most the size of the largest record.
std::optional<std::vector<std::byte>> bytes_of(int file) {
  struct stat state {};
  if (fstat(file, &state) != 0 || !S_ISREG(state.st_mode) || state.st_uid != geteuid()) return std::nullopt;
  const size_t size = std::min(static_cast<size_t>(state.st_size), kRecordBytesMax + 1);
  std::vector<std::byte> bytes(size);
  size_t have = 0;
  while (have < size) {
    const ssize_t got = pread(file, bytes.data() + have, size - have, static_cast<off_t>(have));
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

void ask_for_times(int file, std::chrono::nanoseconds watch) {
  const uint64_t until = monotonic_ns() + static_cast<uint64_t>(watch.count());
  // The record of a process that has just gone is written to in vain.
  [[maybe_unused]] const ssize_t written =
      pwrite(file, &until, sizeof(until), offsetof(Record, watched_until_ns));
}

void list_one(const std::filesystem::path& path, std::chrono::nanoseconds watch, Listing& listing) {
  const std::string name = path.filename();
  uint64_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc{} || end != name.data() + name.size()) return;  // somebody else's file
  const Descriptor file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file < 0) return;  // gone since the folder was read
  const auto bytes = bytes_of(file);
  if (!bytes) {
    listing.damaged.push_back(path.string());
    return;
  }
  try {
    Process process = parse_record(*bytes, path.string());
    if (process.pid != pid || start_ticks_of(pid) != process.start_ticks) {
      unlink(path.c_str());
      return;
    }
    if (watch.count() > 0) ask_for_times(file, watch);
    listing.processes.push_back(std::move(process));
  } catch (const Fault& fault) {
    if (start_ticks_of(pid))
      listing.damaged.push_back(fault.message());
    else
      unlink(path.c_str());  // of a process that is gone: of another release of OpenTrn, or half written
  }
}

}  // namespace

std::optional<std::filesystem::path> run_folder() {
  if (const char* named = std::getenv("OPENTRN_RUN_DIR"); named && *named) {
    if (std::string_view(named) == "off") return std::nullopt;
    return named;
  }
  if (const char* user = std::getenv("XDG_RUNTIME_DIR"); user && *user)
    if (std::error_code error; std::filesystem::is_directory(user, error))
      return std::filesystem::path(user) / "opentrn";
  std::error_code error;
  const auto temporary = std::filesystem::temp_directory_path(error);
  if (error) return std::nullopt;
  return temporary / fmt::format("opentrn-{}", geteuid());
}

void make_run_folder(const std::filesystem::path& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) refuse(folder, std::strerror(errno));
  expect_safe(folder);
}

bool Process::holds(uint64_t core) const {
  return std::any_of(cores.begin(), cores.end(), [&](const CoreState& held) { return held.index == core; });
}

Process parse_record(std::span<const std::byte> bytes, const std::string& name) {
  const auto bad = [&](const std::string& why) {
    return Fault(FaultKind::kInput, "device.record", fmt::format("{}: {}", name, why),
                 "remove the file; its process makes no other one");
  };
  if (bytes.size() < sizeof(Record)) throw bad(fmt::format("{} bytes are not a record", bytes.size()));
  // A copy at an aligned place: the bytes may come from anywhere.
  std::vector<uint64_t> words((bytes.size() + 7) / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  const auto& record = *reinterpret_cast<const Record*>(words.data());
  if (std::memcmp(record.magic, kRecordMagic, sizeof(kRecordMagic)) != 0)
    throw bad("it does not begin as a record does");
  if (record.version != kRecordVersion)
    throw bad(fmt::format("a record of version {}; this program reads {}", record.version, kRecordVersion));
  if (record.cores > kRecordCoresMax)
    throw bad(fmt::format("{} cores; a record has at most {}", record.cores, kRecordCoresMax));
  if (record.bytes != bytes.size() || bytes.size() != record_bytes(record.cores))
    throw bad(fmt::format("{} bytes for {} cores", bytes.size(), record.cores));
  if (record.physical_cores_per_core != 1 && record.physical_cores_per_core != 2)
    throw bad(fmt::format("{} physical cores of a logical one", record.physical_cores_per_core));
  Process process;
  process.pid = record.pid;
  process.start_ticks = record.start_ticks;
  process.is_tool = record.is_tool != 0;
  process.physical_cores_per_core = record.physical_cores_per_core;
  process.tag = text_of(record.tag, sizeof(record.tag));
  process.command = text_of(record.command, sizeof(record.command));
  process.instance = text_of(record.instance, sizeof(record.instance));
  process.runtime_version = text_of(record.runtime_version, sizeof(record.runtime_version));
  process.cores.resize(record.cores);
  for (uint32_t i = 0; i < record.cores; ++i) read_core(cores_of(&record)[i], process.cores[i]);
  process.models = models_of(record);
  process.latencies = latencies_of(record);
  return process;
}

Listing list_processes(std::chrono::nanoseconds watch) {
  Listing listing;
  const auto folder = run_folder();
  std::error_code error;
  if (!folder || !std::filesystem::exists(*folder, error)) return listing;
  expect_safe(*folder);
  std::vector<std::filesystem::path> paths;
  for (auto entry = std::filesystem::directory_iterator(*folder, error);
       !error && entry != std::filesystem::directory_iterator() && paths.size() < kProcessesMax;
       entry.increment(error))
    paths.push_back(entry->path());
  for (const auto& path : paths) list_one(path, watch, listing);
  std::sort(listing.processes.begin(), listing.processes.end(),
            [](const Process& a, const Process& b) { return a.pid < b.pid; });
  return listing;
}

std::optional<Process> find_process(uint64_t pid) {
  const auto folder = run_folder();
  std::error_code error;
  if (!folder || !std::filesystem::exists(*folder, error)) return std::nullopt;
  expect_safe(*folder);
  Listing listing;
  list_one(*folder / std::to_string(pid), {}, listing);
  if (listing.processes.empty()) return std::nullopt;
  return std::move(listing.processes.front());
}

std::optional<uint64_t> start_ticks_of(uint64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The name may hold blanks and brackets; the 20th word behind it is the time of the start.
  const size_t behind = text.rfind(')');
  if (behind == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(behind + 1));
  std::string word;
  for (int i = 0; i < 20; ++i)
    if (!(words >> word)) return std::nullopt;
  uint64_t ticks = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), ticks);
  return error == std::errc{} ? std::optional(ticks) : std::nullopt;
}

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace opentrn::device
