#include "pjrt/entries.h"

namespace opentrn::pjrt {

void description_id(abi::DeviceNumber& args) { args.number = args.device->id; }
void description_process_index(abi::DeviceNumber& args) { args.number = args.device->process; }
void description_kind(abi::DeviceText& args) { give(args, args.device->kind); }
void description_debug_string(abi::DeviceText& args) { give(args, args.device->debug_text); }
void description_to_string(abi::DeviceText& args) { give(args, args.device->text); }

void description_attributes(abi::DescriptionAttributes& args) {
  args.attributes = args.device->attributes.data();
  args.count = args.device->attributes.size();
}

void device_description(abi::DeviceDescription& args) { args.description = args.device; }
void device_is_addressable(abi::DeviceFlag& args) { args.flag = args.device->is_own; }
void device_local_hardware_id(abi::DeviceNumber& args) { args.number = args.device->core; }

void device_memories(abi::DeviceMemories& args) {
  args.memories = args.device->memories;
  args.count = 1;
}

void device_default_memory(abi::DeviceMemory& args) { args.memory = &args.device->memory; }

void device_memory_stats(abi::DeviceMemoryStats& args) {
  std::lock_guard lock(args.device->mutex);
  args.bytes_in_use = args.device->bytes_in_use;
  args.peak_bytes_in_use = {args.device->bytes_peak, true};
  args.allocations = {args.device->allocations, true};
  args.largest_allocation = {args.device->largest_allocation, true};
  args.bytes_limit = {args.device->bytes_limit, true};
  // Nothing is set aside beforehand, so a program may have all that there is.
  args.bytes_reserved = args.peak_bytes_reserved = {0, true};
  args.bytes_reservable_limit = {args.device->bytes_limit, true};
  for (abi::OptionalInt* unknown : {&args.largest_free_block, &args.pool_bytes, &args.peak_pool_bytes})
    *unknown = {0, false};
}

void device_attributes(abi::DeviceAttributes& args) {
  args.attributes = args.device->attributes.data();
  args.count = args.device->attributes.size();
  args.owner = nullptr;
  args.deleter = [](void*) {};
}

// Work that an event tracks needs no marks here; the handle only has to exist.
void device_tracking_event(abi::DeviceTrackingEvent& args) { args.event = args.device; }
void tracking_event_destroy(abi::Args&) {}

void memory_id(abi::MemoryNumber& args) { args.number = args.memory->id; }
void memory_kind(abi::MemoryText& args) { give(args, kMemoryKind); }
void memory_kind_id(abi::MemoryNumber& args) { args.number = 0; }
void memory_debug_string(abi::MemoryText& args) { give(args, args.memory->debug_text); }
void memory_to_string(abi::MemoryText& args) { give(args, args.memory->text); }

void memory_devices(abi::MemoryDevices& args) {
  args.devices = args.memory->device->self;
  args.count = 1;
}

}  // namespace opentrn::pjrt
