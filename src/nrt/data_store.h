// The store of counters and facts of a process (nds/neuron_ds.h): what the simulated device counts comes from
// the process's record (device/record.h), what programs write lies in a file beside it, "nds-PID-DEVICE".
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/registry.h"
#include "nrt/driver.h"
#include "nrt/include/nrt/nds/neuron_ds.h"

namespace opentrn::nrt {

inline constexpr size_t kStoreModels = 64;
inline constexpr size_t kStoreCores = 16;  // of a device

// The file. A counter is what was added to what the device counts. Numbers are of this host's byte order.
struct Store {
  static constexpr char kMagic[8] = {'O', 'T', 'R', 'N', 'N', 'D', 'S', '1'};
  struct Model {
    std::atomic<uint64_t> used;
    nds_model_node_info_t info;
    nds_model_node_mem_usage_info_t memory;
  };

  char magic[8];
  uint64_t pid, start_ticks;
  std::atomic<uint64_t> device_counters[NDS_ND_COUNTER_COUNT];
  std::atomic<uint64_t> core_counters[kStoreCores][NDS_TOTAL_NC_COUNTER_COUNT];
  Model models[kStoreModels];
  std::atomic<uint64_t> has_info, has_info_ext;
  nds_process_info_t info;
  nds_process_info_ext_t info_ext;
};

// This process's own, of one device; the file goes with it.
class OwnStore {
 public:
  explicit OwnStore(int device);
  ~OwnStore();
  OwnStore(const OwnStore&) = delete;
  OwnStore& operator=(const OwnStore&) = delete;

  Store& store() { return *store_; }

 private:
  void map_file(const std::string& path);

  Store* store_ = nullptr;
  std::string path_;  // empty: no folder of records, so that this process alone sees it
};

struct StoreObject {
  int type = 0;
  nds_instance* instance = nullptr;
  std::optional<size_t> slot;  // of a model that was committed
  bool is_loaded = false;      // a model of the runtime's
  nds_model_node_info_t model{};
  nds_model_node_mem_usage_info_t memory{};
  nds_process_info_t info{};
  nds_process_info_ext_t info_ext{};
};

// Open stores and their objects.
class Stores {
 public:
  static Stores& instance();
  std::mutex mutex;  // of everything here; the driver's is never taken while this one is held
  std::map<nds_instance*, std::unique_ptr<nds_instance>> open;
  std::map<const void*, std::unique_ptr<StoreObject>> objects;
  std::map<std::pair<pid_t, int>, std::weak_ptr<OwnStore>> own;

  // The mutex is held. Failed EBADF.
  nds_instance& at(nds_instance_t* handle);
  StoreObject& object_at(nds_obj_handle_t handle);
  nds_obj_handle_t adopt(std::unique_ptr<StoreObject> object);
};

// What the device counts, as neuron-monitor shows it; 0 where it counts nothing of the kind.
uint64_t counted_of_core(const device::Process& process, const Machine& machine, int device, int core,
                         uint32_t counter);
uint64_t counted_of_device(const device::Process& process, uint32_t counter);
nds_version_info_t runtime_version_of(const device::Process& process);

}  // namespace opentrn::nrt

struct nds_instance {
  std::shared_ptr<const opentrn::nrt::Hardware> hardware;
  int device = 0;
  uint64_t pid = 0;
  std::shared_ptr<opentrn::nrt::OwnStore> own;  // null: another process's, to be read
  int file = -1;                                // of another process; -1: it has written nothing

  ~nds_instance();
  // A part of the store; zeros where there is none.
  void read(void* to, size_t offset, size_t bytes) const;
  opentrn::nrt::Store& writable();  // Failed EACCES
  // Of the record; an empty one where the process is not listed.
  opentrn::device::Process process() const;
};
