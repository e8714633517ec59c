// Objects of the store of data: loaded models and what a process says of itself.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "nrt/data_store.h"

namespace opentrn::nrt {

namespace {

template <size_t Size>
void put_name(char (&to)[Size], const std::string& text) {
  std::memset(to, 0, Size);
  std::memcpy(to, text.data(), std::min(text.size(), Size - 1));
}

StoreObject object_of(const device::LoadedModel& model, int core) {
  StoreObject made;
  made.is_loaded = true;
  made.model.model_id = made.model.model_node_id = static_cast<uint32_t>(model.id);
  put_name(made.model.name, model.name);
  std::memcpy(made.model.uuid, &model.digest, sizeof model.digest);
  made.model.nc_index = static_cast<uint8_t>(core);
  const auto put = [&](int slot, uint64_t bytes) {
    if (bytes == 0 || bytes == device::kUnknown) return;
    made.memory.model_mem_usage[1][slot] = {static_cast<size_t>(bytes), 1};
  };
  put(NDS_DMA_MEM_USAGE_SLOT_CODE, model.code);
  put(NDS_DMA_MEM_USAGE_SLOT_CONSTANTS, model.constants);
  put(NDS_DMA_MEM_USAGE_SLOT_SCRATCHPAD, model.scratchpad);
  return made;
}

// Models that the runtime has loaded on the device, then those that were committed.
std::vector<StoreObject> models_of(const nds_instance& at) {
  std::vector<StoreObject> found;
  const device::Process process = at.process();
  const auto lnc = static_cast<int>(process.physical_cores_per_core);
  const int per_device = at.hardware->machine.cores_per_device;
  for (const device::LoadedModel& model : process.models) {
    const auto physical = static_cast<int64_t>(model.core) * lnc;
    if (physical / per_device == at.device)
      found.push_back(object_of(model, static_cast<int>(physical % per_device)));
  }
  for (size_t slot = 0; slot < kStoreModels; ++slot) {
    const size_t offset = offsetof(Store, models) + slot * sizeof(Store::Model);
    uint64_t used = 0;
    at.read(&used, offset + offsetof(Store::Model, used), sizeof used);
    if (used == 0) continue;
    StoreObject made;
    made.slot = slot;
    at.read(&made.model, offset + offsetof(Store::Model, info), sizeof made.model);
    at.read(&made.memory, offset + offsetof(Store::Model, memory), sizeof made.memory);
    made.model.name[sizeof made.model.name - 1] = 0;
    found.push_back(made);
  }
  return found;
}

StoreObject info_of(const nds_instance& at, int type) {
  StoreObject made;
  made.type = type;
  const device::Process process = at.process();
  const bool extended = type == OBJECT_TYPE_PROCESS_INFO_EXT;
  uint64_t written = 0;
  at.read(&written, extended ? offsetof(Store, has_info_ext) : offsetof(Store, has_info), sizeof written);
  if (extended) {
    put_name(made.info_ext.tag, process.tag);
    if (written != 0) at.read(&made.info_ext, offsetof(Store, info_ext), sizeof made.info_ext);
    made.info_ext.tag[sizeof made.info_ext.tag - 1] = 0;
    return made;
  }
  put_name(made.info.tag, process.tag);
  made.info.runtime_version = runtime_version_of(process);
  if (written != 0) at.read(&made.info, offsetof(Store, info), sizeof made.info);
  made.info.tag[sizeof made.info.tag - 1] = 0;
  return made;
}

void commit_model(Store& store, StoreObject& object) {
  if (object.is_loaded) throw Failed{EINVAL, "a model that the runtime has loaded is not to be written"};
  if (!object.slot) {
    const auto free = std::find_if(std::begin(store.models), std::end(store.models),
                                   [](const Store::Model& model) { return model.used == 0; });
    if (free == std::end(store.models))
      throw Failed{ENOSPC, fmt::format("the store has {} models, and no room for more", kStoreModels)};
    object.slot = static_cast<size_t>(free - std::begin(store.models));
  }
  Store::Model& to = store.models[*object.slot];
  to.used = 0;  // whoever reads meanwhile finds none
  to.info = object.model;
  to.memory = object.memory;
  to.used = 1;
}

void commit(StoreObject& object) {
  Store& store = object.instance->writable();
  switch (object.type) {
    case OBJECT_TYPE_MODEL_NODE_INFO: commit_model(store, object); break;
    case OBJECT_TYPE_PROCESS_INFO:
      store.info = object.info;
      store.has_info = 1;
      break;
    default:
      store.info_ext = object.info_ext;
      store.has_info_ext = 1;
      break;
  }
}

template <typename Member>
Member* part_of(const char* function, nds_obj_handle_t handle, int type,
                Member StoreObject::*member) noexcept {
  Member* part = nullptr;
  static_cast<void>(drive(function, [&] {
    Stores& stores = Stores::instance();
    const std::lock_guard lock(stores.mutex);
    StoreObject& object = stores.object_at(handle);
    if (object.type != type) throw Failed{EINVAL, fmt::format("the object is of the type {}", object.type)};
    part = &(object.*member);
  }));
  return part;
}

template <typename Body>
nds_obj_handle_t give_object(const char* function, nds_instance_t* inst, Body&& make) noexcept {
  nds_obj_handle_t handle = nullptr;
  static_cast<void>(drive(function, [&] {
    Stores& stores = Stores::instance();
    const std::lock_guard lock(stores.mutex);
    auto made = std::make_unique<StoreObject>(make(stores.at(inst)));
    made->instance = inst;
    handle = stores.adopt(std::move(made));
  }));
  return handle;
}

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::drive;
using opentrn::nrt::expect_place;
using opentrn::nrt::Failed;
using opentrn::nrt::give_object;
using opentrn::nrt::part_of;
using opentrn::nrt::StoreObject;
using opentrn::nrt::Stores;

extern "C" {

nds_obj_handle_t nds_obj_new(nds_instance_t* inst, int type) {
  return give_object("nds_obj_new", inst, [&](nds_instance& at) {
    if (type < OBJECT_TYPE_MODEL_NODE_INFO || type > OBJECT_TYPE_PROCESS_INFO_EXT)
      throw Failed{EINVAL, fmt::format("{} is not a type of an object", type)};
    static_cast<void>(at.writable());
    StoreObject made;
    made.type = type;
    return made;
  });
}

int nds_obj_commit(nds_obj_handle_t obj) {
  return drive("nds_obj_commit", [&] {
    Stores& stores = Stores::instance();
    const std::lock_guard lock(stores.mutex);
    opentrn::nrt::commit(stores.object_at(obj));
  });
}

int nds_obj_delete(nds_obj_handle_t obj) {
  return drive("nds_obj_delete", [&] {
    Stores& stores = Stores::instance();
    const std::lock_guard lock(stores.mutex);
    const StoreObject& object = stores.object_at(obj);
    if (object.instance->own != nullptr && object.slot)
      object.instance->writable().models[*object.slot].used = 0;
    stores.objects.erase(obj);
  });
}

nds_model_node_info_t* nds_obj_handle_to_model_node_info(nds_obj_handle_t obj) {
  return part_of("nds_obj_handle_to_model_node_info", obj, OBJECT_TYPE_MODEL_NODE_INFO, &StoreObject::model);
}
nds_model_node_mem_usage_info_t* nds_obj_handle_to_model_node_mem_usage(nds_obj_handle_t obj) {
  return part_of("nds_obj_handle_to_model_node_mem_usage", obj, OBJECT_TYPE_MODEL_NODE_INFO,
                 &StoreObject::memory);
}
nds_process_info_t* nds_obj_handle_to_process_info(nds_obj_handle_t obj) {
  return part_of("nds_obj_handle_to_process_info", obj, OBJECT_TYPE_PROCESS_INFO, &StoreObject::info);
}
nds_process_info_ext_t* nds_obj_handle_to_process_info_ext(nds_obj_handle_t obj) {
  return part_of("nds_obj_handle_to_process_info_ext", obj, OBJECT_TYPE_PROCESS_INFO_EXT,
                 &StoreObject::info_ext);
}

int nds_read_all_model_nodes(nds_instance_t* inst, nds_obj_handle_t** models, size_t* count) {
  return drive("nds_read_all_model_nodes", [&] {
    expect_place(models, "the place of the array");
    expect_place(count, "the place of the count");
    Stores& stores = Stores::instance();
    const std::lock_guard lock(stores.mutex);
    const auto found = opentrn::nrt::models_of(stores.at(inst));
    auto* array = static_cast<nds_obj_handle_t*>(
        std::malloc(std::max<size_t>(found.size(), 1) * sizeof(nds_obj_handle_t)));
    if (array == nullptr) throw Failed{ENOMEM, "this host has no memory left"};
    for (size_t i = 0; i < found.size(); ++i) {
      auto object = std::make_unique<StoreObject>(found[i]);
      object->instance = inst;
      array[i] = stores.adopt(std::move(object));
    }
    *models = array;
    *count = found.size();
  });
}

nds_obj_handle_t nds_read_process_info(nds_instance_t* inst) {
  return give_object("nds_read_process_info", inst, [](const nds_instance& at) {
    return opentrn::nrt::info_of(at, OBJECT_TYPE_PROCESS_INFO);
  });
}
nds_obj_handle_t nds_read_process_info_ext(nds_instance_t* inst) {
  return give_object("nds_read_process_info_ext", inst, [](const nds_instance& at) {
    return opentrn::nrt::info_of(at, OBJECT_TYPE_PROCESS_INFO_EXT);
  });
}

}  // extern "C"
