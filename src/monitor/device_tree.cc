#include "monitor/device_tree.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::monitor {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMark = ".opentrn-device-tree";
constexpr std::string_view kSys = "sys/devices/virtual/neuron_device";

// By device::Outcome; the guide's other statuses never happen on a simulated device.
constexpr const char* kStatus[device::kOutcomes] = {"success", "infer_completed_with_error",
                                                    "exec_bad_input"};
constexpr const char* kStatusThatNeverHappens[] = {"hw_error",
                                                   "infer_failed_to_queue",
                                                   "resource_nc_error",
                                                   "unsupported_neff_version",
                                                   "failure",
                                                   "invalid_error",
                                                   "oob_error",
                                                   "generic_error",
                                                   "infer_completed_with_num_error",
                                                   "resource_error",
                                                   "timeout"};
// By device::Memory, and kinds that a simulated device does not have.
constexpr const char* kMemory[device::kMemories] = {"constants", "model_code", "model_shared_scratchpad",
                                                    "tensors"};
constexpr const char* kMemoryThatIsAbsent[] = {"collectives", "nonshared_scratchpad", "notifications"};
constexpr const char* kHardware[] = {"mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected",
                                     "sram_ecc_uncorrected"};

[[noreturn]] void refuse_tree(const fs::path& path, std::string_view what, std::string hint = "") {
  throw Fault(FaultKind::kInput, "tools.device_tree", fmt::format("{}: {}", path.string(), what),
              std::move(hint));
}

using Files = std::map<std::string, std::string>;

class CoreFiles {
 public:
  CoreFiles(std::string folder, Files& to) : folder_(std::move(folder)), to_(to) {}

  void put(std::string_view name, std::string_view text) {
    to_[fmt::format("{}/{}", folder_, name)] = fmt::format("{}\n", text);
  }
  void put(std::string_view name, uint64_t number) { put(name, std::to_string(number)); }
  void put_memory(std::string_view kind, uint64_t total, uint64_t peak) {
    put(fmt::format("stats/memory_usage/device_mem/{}/total", kind), total);
    put(fmt::format("stats/memory_usage/device_mem/{}/peak", kind), peak);
  }
  void put_status(std::string_view name, uint64_t total) {
    put(fmt::format("stats/status/{}/total", name), total);
    put(fmt::format("stats/status/{}/present", name), std::min<uint64_t>(total, 1));  // counted one by one
  }

 private:
  std::string folder_;
  Files& to_;
};

// What all processes together did with a core.
device::CoreState sum_of(int core, std::span<const device::Process> processes) {
  device::CoreState sum;
  for (const device::Process& process : processes)
    for (const device::CoreState& row : process.cores) {
      if (row.index != static_cast<uint64_t>(core)) continue;
      for (size_t i = 0; i < device::kOutcomes; ++i) sum.outcomes[i] += row.outcomes[i];
      for (size_t i = 0; i < device::kMemories; ++i) {
        sum.memory[i] += row.memory[i];
        sum.memory_peak[i] += row.memory_peak[i];
      }
      sum.flops += row.flops;
      sum.loads += row.loads;
      sum.last_ns = std::max(sum.last_ns, row.last_ns);
    }
  return sum;
}

void put_core(CoreFiles files, const device::CoreState& core, std::string_view arch_type) {
  files.put("info/architecture/arch_type", arch_type);
  for (size_t i = 0; i < device::kOutcomes; ++i) files.put_status(kStatus[i], core.outcomes[i]);
  for (const char* name : kStatusThatNeverHappens) files.put_status(name, 0);
  for (size_t i = 0; i < device::kMemories; ++i)
    files.put_memory(kMemory[i], core.memory[i], core.memory_peak[i]);
  for (const char* kind : kMemoryThatIsAbsent) files.put_memory(kind, 0, 0);
  files.put("stats/other_info/flop_count", core.flops);
  files.put("stats/other_info/inference_count", core.outcomes[0]);
  files.put("stats/other_info/model_load_count", core.loads);
  files.put("stats/other_info/reset_fail_count", 0);
  files.put("stats/other_info/reset_req_count", 0);
  constexpr uint64_t kNsPerUs = 1000;
  files.put("stats/other_info/nc_time_in_use", core.last_ns / kNsPerUs);
}

std::string reason(int error) { return std::strerror(error); }

class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string read_all(int descriptor, const fs::path& path) {
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t count = ::read(descriptor, piece, sizeof piece);
    if (count < 0 && errno != EINTR) refuse_tree(path, reason(errno));
    if (count == 0) return text;
    if (count > 0) text.append(piece, static_cast<size_t>(count));
  }
}

void write_all(int descriptor, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno != EINTR) refuse_tree(path, reason(errno));
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

void put_file(const fs::path& path, const std::string& text) {
  const int opened = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (opened < 0 && errno == ELOOP) refuse_tree(path, "this is a link", "remove it");
  if (opened < 0) refuse_tree(path, reason(errno));
  const OpenFile file(opened);
  const std::string old = read_all(opened, path);
  if (old == text) return;
  if (old.empty()) {
    write_all(opened, text, path);
    return;
  }
  // A reader sees the old number or the new one.
  const fs::path part = path.parent_path() / fmt::format(".{}.part", path.filename().string());
  {
    const int made = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (made < 0) refuse_tree(part, reason(errno));
    const OpenFile beside(made);
    write_all(made, text, part);
  }
  std::error_code error;
  fs::rename(part, path, error);
  if (error) refuse_tree(path, error.message());
}

bool is_tree(const fs::path& root) {
  std::error_code ignored;
  return !fs::is_symlink(root, ignored) && fs::is_regular_file(root / kMark, ignored);
}

}  // namespace

Files device_files(const Machine& machine, std::span<const device::Process> processes) {
  Files files;
  const std::string arch_type = fmt::format("NCv{}", machine.generation);
  std::string family = machine.instance_type.substr(0, machine.instance_type.find('.'));
  if (!family.empty() && family[0] >= 'a' && family[0] <= 'z')
    family[0] = static_cast<char>(family[0] - 'a' + 'A');
  for (const Device& device : machine.devices) {
    const std::string folder = fmt::format("{}/neuron{}", kSys, device.index);
    CoreFiles own(folder, files);
    own.put("core_count", device.cores.size());
    own.put("connected_devices", fmt::format("{}", fmt::join(device.connected_to, ", ")));
    own.put("info/notify_delay", "-1");
    own.put("info/architecture/arch_type", arch_type);
    own.put("info/architecture/device_name", machine.chip);
    own.put("info/architecture/instance_type", family);
    for (const char* name : kHardware) own.put(fmt::format("stats/hardware/{}/total", name), 0);
    for (size_t i = 0; i < device.cores.size(); ++i)
      put_core(CoreFiles(fmt::format("{}/neuron_core{}", folder, i), files),
               sum_of(device.cores[i], processes), arch_type);
    files[fmt::format("dev/neuron{}", device.index)] = "";
  }
  files["sys/devices/virtual/dmi/id/product_name"] = machine.instance_type + "\n";
  return files;
}

void write_device_tree(const fs::path& root, const Files& files) {
  std::error_code error;
  const bool has_other_files = fs::exists(root, error) && !is_tree(root) && !fs::is_empty(root, error);
  if (fs::is_symlink(root, error) || has_other_files)
    refuse_tree(root, "this folder is not empty, and is not a tree of `opentrn device-tree`",
                "name a new folder");
  const auto make_folder = [](const fs::path& folder) {
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed) refuse_tree(folder, failed.message());
  };
  make_folder(root);
  put_file(root / kMark, "");
  fs::path made;
  for (const auto& [name, text] : files) {
    const fs::path path = root / name;
    if (path.parent_path() != made) make_folder(made = path.parent_path());
    put_file(path, text);
  }
}

void remove_device_tree(const fs::path& root) {
  if (!is_tree(root)) refuse_tree(root, "this is not a tree of `opentrn device-tree`", "name its --root");
  std::error_code error;
  for (const char* name : {"sys", "dev"})
    if (!fs::is_symlink(root / name, error)) fs::remove_all(root / name, error);
  if (error) refuse_tree(root, error.message());
  fs::remove(root / kMark, error);
  if (error) refuse_tree(root, error.message());
  fs::remove(root, error);  // stays where somebody else's files are in it
}

}  // namespace opentrn::monitor
