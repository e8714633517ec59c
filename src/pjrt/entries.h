// The functions behind the table of api.cc, by what they are about. Each reads and fills one record of the
// ABI and throws on failure.
#pragma once

#include "pjrt/abi.h"
#include "pjrt/array.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"

namespace opentrn::pjrt {

// Text that stays where it is while its owner lives.
template <typename Record>
void give(Record& args, std::string_view text) {
  args.text = text.data();
  args.size = text.size();
}

// entries_plugin.cc: errors, events, the plugin
void error_destroy(abi::ErrorArgs& args);
void error_message(abi::ErrorMessage& args);
void error_code(abi::ErrorCode& args);
void plugin_initialize(abi::Args& args);
void get_plugin_attributes(abi::PluginAttributes& args);
void event_destroy(abi::EventArgs& args);
void event_is_ready(abi::EventIsReady& args);
void event_on_ready(abi::EventOnReady& args);
void event_create(abi::EventArgs& args);
void event_set(abi::EventSet& args);
// These hand out the event's own error.
Error* event_error(abi::Args* args);
Error* event_await(abi::Args* args);
void context_create(abi::ContextArgs& args);
void context_destroy(abi::ContextArgs& args);

// entries_client.cc
// Says on stderr what of a program does not run on the simulated device, which is never a silent matter.
void report(const Program& program);
void client_create(abi::ClientCreate& args);
void client_destroy(abi::ClientArgs& args);
void client_platform_name(abi::ClientText& args);
void client_platform_version(abi::ClientText& args);
void client_process_index(abi::ClientNumber& args);
void client_devices(abi::ClientDevices& args);
void client_own_devices(abi::ClientDevices& args);
void client_memories(abi::ClientMemories& args);
void client_lookup_device(abi::ClientLookup& args);
void client_lookup_addressable_device(abi::ClientLookup& args);
void client_topology(abi::ClientTopology& args);
void client_compile(abi::ClientCompile& args);
void client_load(abi::ClientLoad& args);
void client_default_assignment(abi::ClientDefaultAssignment& args);
void client_update_processes(abi::ClientUpdateProcesses& args);
void client_buffer_from_host(abi::ClientBufferFromHost& args);
void client_uninitialized_buffer(abi::ClientUninitialized& args);
void client_error_buffer(abi::ClientErrorBuffer& args);
void topology_destroy(abi::TopologyArgs& args);
void topology_platform_name(abi::TopologyText& args);
void topology_platform_version(abi::TopologyText& args);
void topology_devices(abi::TopologyDevices& args);
void topology_attributes(abi::TopologyAttributes& args);
void topology_fingerprint(abi::TopologyFingerprint& args);

// entries_device.cc
void description_id(abi::DeviceNumber& args);
void description_process_index(abi::DeviceNumber& args);
void description_attributes(abi::DescriptionAttributes& args);
void description_kind(abi::DeviceText& args);
void description_debug_string(abi::DeviceText& args);
void description_to_string(abi::DeviceText& args);
void device_description(abi::DeviceDescription& args);
void device_is_addressable(abi::DeviceFlag& args);
void device_local_hardware_id(abi::DeviceNumber& args);
void device_memories(abi::DeviceMemories& args);
void device_default_memory(abi::DeviceMemory& args);
void device_memory_stats(abi::DeviceMemoryStats& args);
void device_attributes(abi::DeviceAttributes& args);
void device_tracking_event(abi::DeviceTrackingEvent& args);
void tracking_event_destroy(abi::Args& args);
void memory_id(abi::MemoryNumber& args);
void memory_kind(abi::MemoryText& args);
void memory_kind_id(abi::MemoryNumber& args);
void memory_debug_string(abi::MemoryText& args);
void memory_to_string(abi::MemoryText& args);
void memory_devices(abi::MemoryDevices& args);

// entries_executable.cc
void executable_destroy(abi::ExecutableArgs& args);
void executable_name(abi::ExecutableText& args);
void executable_replicas(abi::ExecutableNumber& args);
void executable_partitions(abi::ExecutableNumber& args);
void executable_outputs(abi::ExecutableNumber& args);
void executable_code_size(abi::ExecutableNumber& args);
void executable_costs(abi::ExecutableCost& args);
void executable_memory_stats(abi::ExecutableMemoryStats& args);
void executable_output_types(abi::ExecutableElementTypes& args);
void executable_output_dims(abi::ExecutableDimensions& args);
void executable_output_memory_kinds(abi::ExecutableMemoryKinds& args);
void executable_optimized(abi::ExecutableOptimized& args);
void executable_serialize(abi::ExecutableSerialized& args);
void executable_fingerprint(abi::ExecutableText& args);
void executable_deserialize(abi::ExecutableDeserialize& args);
void executable_parameter_shardings(abi::ExecutableShardings& args);
void executable_output_shardings(abi::ExecutableShardings& args);
void loaded_destroy(abi::LoadedArgs& args);
void loaded_executable(abi::LoadedExecutableOf& args);
void loaded_devices(abi::LoadedDevices& args);
void loaded_logical_ids(abi::LoadedLogicalIds& args);
void loaded_assignment(abi::LoadedSerialized& args);
void loaded_delete(abi::LoadedArgs& args);
void loaded_is_deleted(abi::LoadedFlag& args);
void loaded_fingerprint(abi::LoadedText& args);
void loaded_execute(abi::Execute& args);

// entries_layouts.cc
void layout_destroy(abi::LayoutArgs& args);
void layout_serialize(abi::LayoutSerialized& args);
void client_default_layout(abi::DefaultLayout& args);
// The order of dimensions that a caller gives an array of `rank`; empty where there is none. Input fault for
// what is no permutation, kNotModelled for tiles and strides.
MinorToMajor order_of(const abi::Layout* layout, int64_t rank);
void buffer_memory_layout(abi::BufferMemoryLayout& args);
void executable_parameter_layouts(abi::ExecutableLayouts& args);
void executable_output_layouts(abi::ExecutableLayouts& args);

// entries_profiler.cc
void profiler_create(abi::ProfilerCreate& args);
void profiler_destroy(abi::ProfilerArgs& args);
void profiler_start(abi::ProfilerArgs& args);
void profiler_stop(abi::ProfilerArgs& args);
void profiler_collect(abi::ProfilerCollect& args);

// entries_buffer.cc
void buffer_destroy(abi::BufferArgs& args);
void buffer_element_type(abi::BufferElementType& args);
void buffer_dims(abi::BufferDimensions& args);
void buffer_dynamic_dims(abi::BufferDynamicDimensions& args);
void buffer_layout(abi::BufferLayout& args);
void buffer_size(abi::BufferSize& args);
void buffer_device(abi::BufferDevice& args);
void buffer_memory(abi::BufferMemory& args);
void buffer_delete(abi::BufferArgs& args);
void buffer_is_deleted(abi::BufferFlag& args);
void buffer_is_on_cpu(abi::BufferFlag& args);
void buffer_to_device(abi::BufferToDevice& args);
void buffer_to_memory(abi::BufferToMemory& args);
void buffer_to_host(abi::BufferToHost& args);
void buffer_raw_to_host(abi::BufferRawToHost& args);
void buffer_ready_event(abi::BufferReadyEvent& args);
void buffer_pointer(abi::BufferPointer& args);
void buffer_reference(abi::BufferArgs& args);
void buffer_dereference(abi::BufferArgs& args);

}  // namespace opentrn::pjrt
