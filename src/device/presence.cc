#include "device/presence.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <new>
#include <unordered_map>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/fork.h"
#include "device/registry.h"

namespace opentrn::device {

namespace {

thread_local int t_core = -1;                            // of a CoreScope; -1: the first held one
thread_local const std::vector<int>* t_cores = nullptr;  // of a CoresScope
thread_local std::optional<Execution> t_last_execution;

template <size_t Size>
void put_text(char (&to)[Size], std::string_view text) {
  const size_t count = std::min(text.size(), Size - 1);
  std::memcpy(to, text.data(), count);
  to[count] = 0;
}

// Words of the command line with blanks between them.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == 0) text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

void raise_to(Counter& peak, uint64_t value) {
  uint64_t seen = peak;
  while (seen < value && !peak.compare_exchange_weak(seen, value)) continue;
}

// The mapped record of this process. Made once, never unmapped: threads may still count while the process
// ends.
class Presence {
 public:
  explicit Presence(const Holder& holder) : born_(fork_generation()) {
    const auto folder = run_folder();
    if (!folder || holder.cores.size() > kRecordCoresMax) return;
    try {
      make_run_folder(*folder);
    } catch (const Fault&) {
      return;  // not listed; neuron-ls says why
    }
    path_ = *folder / std::to_string(getpid());
    map(holder);
  }

  bool listed() const { return record_ != nullptr && born_ == fork_generation(); }
  bool of_this_process() const { return born_ == fork_generation(); }
  Record& record() { return *record_; }

  // Of the core with this number; the first one where there is none of it or -1 is given.
  CoreRecord& core(int index) {
    CoreRecord* cores = cores_of(record_);
    for (uint32_t i = 0; i < record_->cores; ++i)
      if (cores[i].index == static_cast<uint64_t>(index)) return cores[i];
    return cores[0];
  }
  CoreRecord& current() { return core(t_core); }

  void load(const ModelFacts& model) {
    const std::lock_guard lock(mutex_);
    if (slots_.contains(model.key)) return;
    CoreRecord& core = current();
    core.loads.fetch_add(1);
    size_t slot = 0;
    while (slot < kRecordModels && record_->models[slot].id != 0) ++slot;
    slots_[model.key] = {slot, core.index, {model.constants, model.code, model.scratchpad}};
    add(core, Memory::kConstants, static_cast<int64_t>(model.constants));
    if (model.code != kUnknown) add(core, Memory::kModelCode, static_cast<int64_t>(model.code));
    add(core, Memory::kScratchpad, static_cast<int64_t>(model.scratchpad));
    if (slot == kRecordModels) return;  // its memory counts, its name does not stand in the list
    ModelRecord& to = record_->models[slot];
    to.core = core.index;
    to.constants = model.constants;
    to.code = model.code;
    to.scratchpad = model.scratchpad;
    to.digest = model.digest;
    put_text(to.name, model.name);
    to.id = ++last_id_;
  }

  void unload(const void* key) {
    const std::lock_guard lock(mutex_);
    const auto found = slots_.find(key);
    if (found == slots_.end()) return;
    const Loaded& model = found->second;
    CoreRecord& on = core(static_cast<int>(model.core));
    add(on, Memory::kConstants, -static_cast<int64_t>(model.bytes[0]));
    if (model.bytes[1] != kUnknown) add(on, Memory::kModelCode, -static_cast<int64_t>(model.bytes[1]));
    add(on, Memory::kScratchpad, -static_cast<int64_t>(model.bytes[2]));
    if (model.slot < kRecordModels) record_->models[model.slot].id = 0;
    slots_.erase(found);
  }

  void add_latency(const Predicted& predicted) {
    const uint64_t place = record_->latency_count.fetch_add(1) % kRecordLatencies;
    LatencyRecord& to = record_->latencies[place];
    to.end_ns = monotonic_ns();
    to.total_ns = predicted.total_ns + predicted.launch_ns;
    to.device_ns = predicted.total_ns;
  }

  static void add(CoreRecord& core, Memory kind, int64_t bytes) {
    const auto i = static_cast<size_t>(kind);
    const uint64_t now =
        core.memory[i].fetch_add(static_cast<uint64_t>(bytes)) + static_cast<uint64_t>(bytes);
    if (bytes > 0) raise_to(core.memory_peak[i], now);
  }

 private:
  struct Loaded {
    size_t slot = 0;
    uint64_t core = 0;
    std::array<uint64_t, 3> bytes{};  // constants, code, scratchpad
  };

  void map(const Holder& holder) {
    unlink(path_.c_str());  // of an earlier process with this number
    const auto cores = static_cast<uint32_t>(holder.cores.size());
    const size_t bytes = record_bytes(cores);
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) return;
    void* memory = MAP_FAILED;
    if (ftruncate(file, static_cast<off_t>(bytes)) == 0)
      memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) {
      unlink(path_.c_str());
      return;
    }
    record_ = new (memory) Record;  // all zero, as the file is
    record_->version = kRecordVersion;
    record_->cores = cores;
    record_->bytes = bytes;
    record_->pid = static_cast<uint64_t>(getpid());
    record_->start_ticks = start_ticks_of(record_->pid).value_or(0);
    record_->physical_cores_per_core = static_cast<uint32_t>(holder.physical_cores_per_core);
    record_->is_tool = holder.is_tool ? 1 : 0;
    const char* tag = std::getenv("NEURON_PROCESS_TAG");
    put_text(record_->tag, tag && *tag ? std::string(tag) : std::to_string(getpid()));
    put_text(record_->command, command_line());
    put_text(record_->instance, holder.instance);
    put_text(record_->runtime_version, holder.is_tool ? "NA" : OPENTRN_VERSION);
    for (uint32_t i = 0; i < cores; ++i) cores_of(record_)[i].index = static_cast<uint64_t>(holder.cores[i]);
    std::memcpy(record_->magic, kRecordMagic, sizeof(kRecordMagic));  // last: from here on it can be read
  }

  std::filesystem::path path_;
  uint64_t born_;
  Record* record_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<const void*, Loaded> slots_;
  uint64_t last_id_ = 10'000;  // AWS's numbers begin above this
  friend void remove_at_exit();
};

std::atomic<Presence*> g_presence;
ForkSafeMutex g_making;

void remove_at_exit() {
  Presence* presence = g_presence;
  if (presence && presence->listed()) unlink(presence->path_.c_str());
}

Presence* here() {
  Presence* presence = g_presence;
  return presence && presence->listed() && presence->record().cores > 0 ? presence : nullptr;
}

}  // namespace

void hold(const Holder& holder) {
  if (Presence* presence = g_presence; presence && presence->of_this_process()) return;
  const std::lock_guard lock(g_making);
  if (Presence* presence = g_presence; presence && presence->of_this_process()) return;
  static const int registered = std::atexit(remove_at_exit);
  static_cast<void>(registered);
  g_presence = new Presence(holder);  // that of the parent of a fork stays the parent's
}

void leave() { remove_at_exit(); }

bool is_listed() {
  Presence* presence = g_presence;
  return presence && presence->listed();
}

CoreScope::CoreScope(int core) : outer_(t_core) { t_core = core; }
CoreScope::~CoreScope() { t_core = outer_; }

int current_core() {
  if (t_core >= 0) return t_core;
  Presence* presence = here();
  return presence ? static_cast<int>(presence->current().index) : 0;
}

CoresScope::CoresScope(const std::vector<int>& cores) : outer_(t_cores) { t_cores = &cores; }
CoresScope::~CoresScope() { t_cores = outer_; }
int CoresScope::core(size_t device) {
  return t_cores != nullptr && device < t_cores->size() ? (*t_cores)[device] : t_core;
}

void load(const ModelFacts& model) {
  if (Presence* presence = here()) presence->load(model);
}

void unload(const void* key) {
  if (Presence* presence = here()) presence->unload(key);
}

void add_memory(Memory kind, int64_t bytes) {
  if (Presence* presence = here()) Presence::add(presence->current(), kind, bytes);
}

bool wants_times() {
  Presence* presence = here();
  return presence && presence->record().watched_until_ns.load(std::memory_order_relaxed) > monotonic_ns();
}

std::optional<Execution> last_execution() { return t_last_execution; }

void executed_again(const Execution& execution) {
  executed(execution.outcome, 0, execution.predicted ? &*execution.predicted : nullptr);
}

void executed(Outcome outcome, uint64_t host_ns, const Predicted* predicted) {
  Presence* presence = here();
  if (!presence) return;
  t_last_execution = Execution{outcome, predicted ? std::optional(*predicted) : std::nullopt};
  CoreRecord& core = presence->current();
  core.outcomes[static_cast<size_t>(outcome)].fetch_add(1);
  if (outcome != Outcome::kCompleted) return;
  if (!predicted) {
    core.untimed.fetch_add(1);
    return;
  }
  presence->add_latency(*predicted);
  core.elapsed_ns.fetch_add(predicted->total_ns);
  for (int i = 0; i < 2; ++i) core.busy_ns[i].fetch_add(predicted->busy_ns[i]);
  core.simulating_ns.fetch_add(host_ns);
  core.flops.fetch_add(predicted->flops);
  core.last_ns = predicted->total_ns;
  core.timed.fetch_add(1);
}

}  // namespace opentrn::device
