#include "nrt/data_store.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace opentrn::nrt {

namespace {

using device::CoreState;
using device::Memory;
using device::Outcome;

std::string store_name(uint64_t pid, int device) { return fmt::format("nds-{}-{}", pid, device); }

// Files of processes that have ended without closing them.
void remove_left_stores(const std::filesystem::path& folder) {
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    unsigned long long pid = 0;
    int device = 0, end = 0;
    const std::string name = entry->path().filename();
    if (std::sscanf(name.c_str(), "nds-%llu-%d%n", &pid, &device, &end) != 2 ||
        static_cast<size_t>(end) != name.size())
      continue;
    if (!device::start_ticks_of(pid)) unlink(entry->path().c_str());
  }
}

uint64_t outcome_of(const CoreState& core, Outcome outcome) {
  return core.outcomes[static_cast<size_t>(outcome)];
}
uint64_t memory_kept(const CoreState& core, Memory kind) { return core.memory[static_cast<size_t>(kind)]; }

uint64_t counted(const CoreState& core, uint32_t counter) {
  const uint64_t completed = outcome_of(core, Outcome::kCompleted);
  const uint64_t with_error = outcome_of(core, Outcome::kCompletedWithError);
  const uint64_t incorrect = outcome_of(core, Outcome::kIncorrectInput);
  switch (counter) {
    case NDS_NC_COUNTER_NC_TIME: return core.elapsed_ns;
    case NDS_NC_COUNTER_INFER_COMPLETED: return completed;
    case NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR:
    case NDS_NC_COUNTER_ERR_GENERIC: return with_error;
    case NDS_NC_COUNTER_INFER_INCORRECT_INPUT: return incorrect;
    case NDS_NC_COUNTER_INFERENCE_COUNT: return completed + with_error + incorrect;
    case NDS_NC_COUNTER_MODEL_LOAD_COUNT: return core.loads;
    case NDS_NC_COUNTER_MAC_COUNT: return core.flops / 2;
    case NDS_NC_COUNTER_MEM_USAGE_CODE_DEVICE: return memory_kept(core, Memory::kModelCode);
    case NDS_NC_COUNTER_MEM_USAGE_TENSORS_DEVICE: return memory_kept(core, Memory::kTensors);
    case NDS_NC_COUNTER_MEM_USAGE_CONSTANTS_DEVICE: return memory_kept(core, Memory::kConstants);
    case NDS_NC_COUNTER_MEM_USAGE_SCRATCHPAD_DEVICE: return memory_kept(core, Memory::kScratchpad);
    default: return 0;
  }
}

}  // namespace

uint64_t counted_of_core(const device::Process& process, const Machine& machine, int device, int core,
                         uint32_t counter) {
  const auto lnc = static_cast<uint64_t>(process.physical_cores_per_core);
  const auto physical = static_cast<uint64_t>(device * machine.cores_per_device + core);
  for (const CoreState& held : process.cores) {
    if (held.index != physical / lnc) continue;
    const uint64_t part = physical % lnc;
    if (counter == NDS_NC_COUNTER_TIME_IN_USE) return held.busy_ns[part];
    return part == 0 ? counted(held, counter) : 0;
  }
  return 0;
}

uint64_t counted_of_device(const device::Process& process, uint32_t counter) {
  if (counter != NDS_ND_COUNTER_RUNTIME_VERSION) return 0;
  const nds_version_info_t found = runtime_version_of(process);
  nmetric_version_t version{};
  version.major_ver = found.major;
  version.minor_ver = found.minor;
  version.build_num = found.build;
  return version.all;
}

nds_version_info_t runtime_version_of(const device::Process& process) {
  unsigned major = 0, minor = 0, patch = 0;
  if (std::sscanf(process.runtime_version.c_str(), "%u.%u.%u", &major, &minor, &patch) != 3) return {};
  return {static_cast<uint8_t>(major), static_cast<uint8_t>(minor), patch};
}

OwnStore::OwnStore(int device) {
  if (const auto folder = device::run_folder()) {
    device::make_run_folder(*folder);
    remove_left_stores(*folder);
    map_file(*folder / store_name(static_cast<uint64_t>(getpid()), device));
  } else {
    void* memory = std::calloc(1, sizeof(Store));
    if (memory == nullptr) throw std::bad_alloc();
    store_ = new (memory) Store;
  }
  store_->pid = static_cast<uint64_t>(getpid());
  store_->start_ticks = device::start_ticks_of(store_->pid).value_or(0);
  std::memcpy(store_->magic, Store::kMagic, sizeof store_->magic);  // last: from here on it can be read
}

void OwnStore::map_file(const std::string& path) {
  unlink(path.c_str());  // of an earlier process with this number
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) throw Failed{errno, fmt::format("{}: {}", path, std::strerror(errno))};
  void* memory = MAP_FAILED;
  if (ftruncate(file, sizeof(Store)) == 0)
    memory = mmap(nullptr, sizeof(Store), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) {
    unlink(path.c_str());
    throw Failed{ENOMEM, fmt::format("{} cannot be made", path)};
  }
  store_ = new (memory) Store;  // all zero, as the file is
  path_ = path;
}

OwnStore::~OwnStore() {
  if (path_.empty()) {
    std::free(store_);
    return;
  }
  if (store_->pid == static_cast<uint64_t>(getpid())) unlink(path_.c_str());  // a forked child leaves it
  munmap(store_, sizeof(Store));
}

Stores& Stores::instance() {
  static Stores& instance = *new Stores;  // never destroyed: threads may call while the process ends
  return instance;
}

nds_instance& Stores::at(nds_instance_t* handle) {
  expect_place(handle, "the store");
  if (!open.contains(handle))
    throw Failed{EBADF, fmt::format("{} is not an open store", static_cast<const void*>(handle))};
  return *handle;
}

StoreObject& Stores::object_at(nds_obj_handle_t handle) {
  expect_place(handle, "the object");
  const auto found = objects.find(handle);
  if (found == objects.end()) throw Failed{EBADF, fmt::format("{} is not an object of a store", handle)};
  return *found->second;
}

nds_obj_handle_t Stores::adopt(std::unique_ptr<StoreObject> object) {
  nds_obj_handle_t handle = object.get();
  objects[handle] = std::move(object);
  return handle;
}

namespace {

// What a process that ends leaves is taken away where it can be.
void remove_own_stores() {
  for (auto& [key, each] : Stores::instance().own)
    if (const auto folder = device::run_folder(); folder && key.first == getpid() && !each.expired())
      unlink((*folder / store_name(static_cast<uint64_t>(key.first), key.second)).c_str());
}

std::shared_ptr<OwnStore> own_store(Stores& stores, int device) {
  static const int registered = std::atexit(remove_own_stores);
  static_cast<void>(registered);
  auto& place = stores.own[{getpid(), device}];
  auto found = place.lock();
  if (!found) place = found = std::make_shared<OwnStore>(device);
  return found;
}

// The file of another process; -1 where it has written nothing.
int foreign_store(const device::Process& process, int device) {
  const auto folder = device::run_folder();
  const std::string path = *folder / store_name(process.pid, device);
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return -1;
  struct stat state {};
  struct {
    char magic[8];
    uint64_t pid, start_ticks;
  } head{};
  if (fstat(file, &state) == 0 && S_ISREG(state.st_mode) && state.st_uid == geteuid() &&
      state.st_size == static_cast<off_t>(sizeof(Store)) &&
      pread(file, &head, sizeof head, 0) == sizeof head &&
      std::memcmp(head.magic, Store::kMagic, sizeof head.magic) == 0 && head.pid == process.pid &&
      head.start_ticks == process.start_ticks)
    return file;
  close(file);
  return -1;
}

nds_instance_t* open_store(ndl_device_t* device, pid_t pid) {
  auto made = std::make_unique<nds_instance>();
  {
    Driver& driver = Driver::instance();
    const std::lock_guard lock(driver.mutex);
    const OpenDevice& open = driver.device_at(device);
    made->hardware = open.hardware;
    made->device = open.index;
  }
  if (pid < 0) throw Failed{EINVAL, fmt::format("process {}", pid)};
  Stores& stores = Stores::instance();
  const std::lock_guard lock(stores.mutex);
  if (pid == 0) {
    made->pid = static_cast<uint64_t>(getpid());
    made->own = own_store(stores, made->device);
  } else {
    made->pid = static_cast<uint64_t>(pid);
    const auto process = device::find_process(made->pid);
    if (!process) throw Failed{ENOENT, fmt::format("process {} is not among those that hold cores", pid)};
    made->file = foreign_store(*process, made->device);
  }
  nds_instance_t* handle = made.get();
  stores.open[handle] = std::move(made);
  return handle;
}

void close_store(nds_instance_t* handle) {
  Stores& stores = Stores::instance();
  const std::lock_guard lock(stores.mutex);
  static_cast<void>(stores.at(handle));
  std::erase_if(stores.objects, [&](const auto& each) { return each.second->instance == handle; });
  stores.open.erase(handle);
}

template <typename Body>
int with_store(const char* function, nds_instance_t* handle, Body&& body) noexcept {
  return drive(function, [&] {
    Stores& stores = Stores::instance();
    const std::lock_guard lock(stores.mutex);
    body(stores.at(handle));
  });
}

size_t core_place(const nds_instance& at, int core, uint32_t counter) {
  const int cores = std::min(at.hardware->machine.cores_per_device, static_cast<int>(kStoreCores));
  if (core < 0 || core >= cores)
    throw Failed{EINVAL, fmt::format("core {}: a device has 0 to {}", core, cores - 1)};
  if (counter >= NDS_TOTAL_NC_COUNTER_COUNT)
    throw Failed{EINVAL, fmt::format("counter {} of a core: there are 0 to {}", counter,
                                     NDS_TOTAL_NC_COUNTER_COUNT - 1)};
  return static_cast<size_t>(core);
}
size_t device_place(uint32_t counter) {
  if (counter >= NDS_ND_COUNTER_COUNT)
    throw Failed{EINVAL,
                 fmt::format("counter {} of a device: there are 0 to {}", counter, NDS_ND_COUNTER_COUNT - 1)};
  return counter;
}

uint64_t core_value(const nds_instance& at, int core, uint32_t counter) {
  const size_t place = core_place(at, core, counter);
  uint64_t written = 0;
  at.read(&written,
          offsetof(Store, core_counters) + (place * NDS_TOTAL_NC_COUNTER_COUNT + counter) * sizeof written,
          sizeof written);
  return written + counted_of_core(at.process(), at.hardware->machine, at.device, core, counter);
}
uint64_t device_value(const nds_instance& at, uint32_t counter) {
  const size_t place = device_place(counter);
  uint64_t written = 0;
  at.read(&written, offsetof(Store, device_counters) + place * sizeof written, sizeof written);
  return written + counted_of_device(at.process(), counter);
}

std::atomic<uint64_t>& core_cell(nds_instance& at, int core, uint32_t counter) {
  return at.writable().core_counters[core_place(at, core, counter)][counter];
}
std::atomic<uint64_t>& device_cell(nds_instance& at, uint32_t counter) {
  return at.writable().device_counters[device_place(counter)];
}

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::drive;
using opentrn::nrt::expect_place;
using opentrn::nrt::Failed;
using opentrn::nrt::with_store;

nds_instance::~nds_instance() {
  if (file >= 0) close(file);
}

void nds_instance::read(void* to, size_t offset, size_t bytes) const {
  std::memset(to, 0, bytes);
  if (own != nullptr)
    std::memcpy(to, reinterpret_cast<const std::byte*>(&own->store()) + offset, bytes);
  else if (file >= 0 && pread(file, to, bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes))
    std::memset(to, 0, bytes);  // cut short by its owner
}

opentrn::nrt::Store& nds_instance::writable() {
  if (own == nullptr) throw Failed{EACCES, fmt::format("the store of process {} is read only", pid)};
  return own->store();
}

opentrn::device::Process nds_instance::process() const {
  return opentrn::device::find_process(pid).value_or(opentrn::device::Process{});
}

extern "C" {

int nds_open(ndl_device_t* device, pid_t pid, nds_instance_t** inst) {
  return drive("nds_open", [&] {
    expect_place(inst, "the place of the store");
    *inst = opentrn::nrt::open_store(device, pid);
  });
}

int nds_close(nds_instance_t* inst) {
  return drive("nds_close", [&] { opentrn::nrt::close_store(inst); });
}

int nds_increment_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                             uint64_t increment) {
  return with_store("nds_increment_nc_counter", inst,
                    [&](auto& at) { opentrn::nrt::core_cell(at, pnc_index, counter_index) += increment; });
}
int nds_decrement_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                             uint64_t decrement) {
  return with_store("nds_decrement_nc_counter", inst,
                    [&](auto& at) { opentrn::nrt::core_cell(at, pnc_index, counter_index) -= decrement; });
}
int nds_get_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index, uint64_t* value) {
  return with_store("nds_get_nc_counter", inst, [&](auto& at) {
    expect_place(value, "the place of the value");
    *value = opentrn::nrt::core_value(at, pnc_index, counter_index);
  });
}
int nds_set_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index, uint64_t* value) {
  return with_store("nds_set_nc_counter", inst, [&](auto& at) {
    expect_place(value, "the value");
    auto& cell = opentrn::nrt::core_cell(at, pnc_index, counter_index);
    cell += *value - opentrn::nrt::core_value(at, pnc_index, counter_index);
  });
}

int nds_increment_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t increment) {
  return with_store("nds_increment_nd_counter", inst,
                    [&](auto& at) { opentrn::nrt::device_cell(at, counter_index) += increment; });
}
int nds_decrement_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t decrement) {
  return with_store("nds_decrement_nd_counter", inst,
                    [&](auto& at) { opentrn::nrt::device_cell(at, counter_index) -= decrement; });
}
int nds_or_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t bit_index) {
  return with_store("nds_or_nd_counter", inst, [&](auto& at) {
    if (bit_index >= 64) throw Failed{EINVAL, fmt::format("bit {} of a counter of 64", bit_index)};
    auto& cell = opentrn::nrt::device_cell(at, counter_index);
    const uint64_t now = opentrn::nrt::device_value(at, counter_index);
    cell += (now | (uint64_t{1} << bit_index)) - now;
  });
}
int nds_get_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t* value) {
  return with_store("nds_get_nd_counter", inst, [&](auto& at) {
    expect_place(value, "the place of the value");
    *value = opentrn::nrt::device_value(at, counter_index);
  });
}
int nds_set_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t* value) {
  return with_store("nds_set_nd_counter", inst, [&](auto& at) {
    expect_place(value, "the value");
    auto& cell = opentrn::nrt::device_cell(at, counter_index);
    cell += *value - opentrn::nrt::device_value(at, counter_index);
  });
}

}  // extern "C"
