// GetPjrtApi: the table of the plugin's functions, in the ABI's order. Every slot is filled; what the plugin
// does not do answers UNIMPLEMENTED.
#include <cstring>

#include "base/fault.h"
#include "pjrt/callback.h"
#include "pjrt/entries.h"
#include "pjrt/interrupts.h"
#include "pjrt/status.h"

namespace opentrn::pjrt {

namespace {

// Error_Destroy and Error_Message return nothing.
template <typename Record, void (*body)(Record&)>
Error* unguarded(abi::Args* args) {
  auto& record = *static_cast<Record*>(args);
  if (record.error) body(record);
  return nullptr;
}

Error* unimplemented(abi::Args*) {
  return error_of(
      {abi::Code::kUnimplemented, "OpenTrn's plugin does not have this function of the PJRT API"});
}

// No error of this plugin carries a payload.
Error* no_payload(abi::Args*) { return nullptr; }

abi::ShardingsExtension make_shardings() {
  abi::ShardingsExtension extension{};
  extension.struct_size = sizeof(extension);
  extension.type = abi::kShardingsExtension;
  extension.parameters = guarded<abi::ExecutableShardings, executable_parameter_shardings>;
  extension.outputs = guarded<abi::ExecutableShardings, executable_output_shardings>;
  return extension;
}

abi::ShardingsExtension shardings = make_shardings();

abi::LayoutsExtension make_layouts() {
  abi::LayoutsExtension extension{};
  extension.struct_size = sizeof(extension);
  extension.type = abi::kLayoutsExtension;
  extension.next = &shardings;
  extension.destroy = guarded<abi::LayoutArgs, layout_destroy>;
  extension.serialize = guarded<abi::LayoutSerialized, layout_serialize>;
  extension.client_default = guarded<abi::DefaultLayout, client_default_layout>;
  extension.buffer = guarded<abi::BufferMemoryLayout, buffer_memory_layout>;
  extension.topology_default = guarded<abi::DefaultLayout, client_default_layout>;
  extension.outputs = guarded<abi::ExecutableLayouts, executable_output_layouts>;
  extension.parameters = guarded<abi::ExecutableLayouts, executable_parameter_layouts>;
  return extension;
}

abi::LayoutsExtension layouts = make_layouts();

// Record by record as PJRT's own functions of errors.
abi::ProfilerApi profiler_api = {
    sizeof(abi::ProfilerApi),
    nullptr,
    unguarded<abi::ErrorArgs, error_destroy>,
    unguarded<abi::ErrorMessage, error_message>,
    guarded<abi::ErrorCode, error_code>,
    guarded_plain<abi::ProfilerCreate, profiler_create>,
    guarded_plain<abi::ProfilerArgs, profiler_destroy>,
    guarded_plain<abi::ProfilerArgs, profiler_start>,
    guarded_plain<abi::ProfilerArgs, profiler_stop>,
    guarded_plain<abi::ProfilerCollect, profiler_collect>,
};

abi::ProfilerExtension make_profiler() {
  abi::ProfilerExtension extension{};
  extension.struct_size = sizeof(extension);
  extension.type = abi::kProfilerExtension;
  extension.next = &layouts;
  extension.api = &profiler_api;
  return extension;
}

abi::ProfilerExtension profiler = make_profiler();

abi::Api make_api() {
  abi::Api api{};
  api.extension = &profiler;
  api.struct_size = sizeof(abi::Api);
  api.version.struct_size = sizeof(abi::Version);
  api.version.major = abi::kMajor;
  api.version.minor = abi::kMinor;
  for (abi::Function& function : api.functions) function = unimplemented;
  abi::Function* f = api.functions;
  f[0] = unguarded<abi::ErrorArgs, error_destroy>;
  f[1] = unguarded<abi::ErrorMessage, error_message>;
  f[2] = guarded<abi::ErrorCode, error_code>;
  f[3] = guarded<abi::Args, plugin_initialize>;
  f[4] = guarded<abi::PluginAttributes, get_plugin_attributes>;
  f[5] = guarded<abi::EventArgs, event_destroy>;
  f[6] = guarded<abi::EventIsReady, event_is_ready>;
  f[7] = event_error;
  f[8] = event_await;
  f[9] = guarded<abi::EventOnReady, event_on_ready>;
  f[10] = guarded<abi::ClientCreate, client_create>;
  f[11] = guarded<abi::ClientArgs, client_destroy>;
  f[12] = guarded<abi::ClientText, client_platform_name>;
  f[13] = guarded<abi::ClientNumber, client_process_index>;
  f[14] = guarded<abi::ClientText, client_platform_version>;
  f[15] = guarded<abi::ClientDevices, client_devices>;
  f[16] = guarded<abi::ClientDevices, client_own_devices>;
  f[17] = guarded<abi::ClientLookup, client_lookup_device>;
  f[18] = guarded<abi::ClientLookup, client_lookup_addressable_device>;
  f[19] = guarded<abi::ClientMemories, client_memories>;
  f[20] = guarded<abi::ClientCompile, client_compile>;
  f[21] = guarded<abi::ClientDefaultAssignment, client_default_assignment>;
  f[22] = guarded<abi::ClientBufferFromHost, client_buffer_from_host>;
  f[23] = guarded<abi::DeviceNumber, description_id>;
  f[24] = guarded<abi::DeviceNumber, description_process_index>;
  f[25] = guarded<abi::DescriptionAttributes, description_attributes>;
  f[26] = guarded<abi::DeviceText, description_kind>;
  f[27] = guarded<abi::DeviceText, description_debug_string>;
  f[28] = guarded<abi::DeviceText, description_to_string>;
  f[29] = guarded<abi::DeviceDescription, device_description>;
  f[30] = guarded<abi::DeviceFlag, device_is_addressable>;
  f[31] = guarded<abi::DeviceNumber, device_local_hardware_id>;
  f[32] = guarded<abi::DeviceMemories, device_memories>;
  f[33] = guarded<abi::DeviceMemory, device_default_memory>;
  f[34] = guarded<abi::DeviceMemoryStats, device_memory_stats>;
  f[35] = guarded<abi::MemoryNumber, memory_id>;
  f[36] = guarded<abi::MemoryText, memory_kind>;
  f[37] = guarded<abi::MemoryText, memory_debug_string>;
  f[38] = guarded<abi::MemoryText, memory_to_string>;
  f[39] = guarded<abi::MemoryDevices, memory_devices>;
  f[40] = guarded<abi::ExecutableArgs, executable_destroy>;
  f[41] = guarded<abi::ExecutableText, executable_name>;
  f[42] = guarded<abi::ExecutableNumber, executable_replicas>;
  f[43] = guarded<abi::ExecutableNumber, executable_partitions>;
  f[44] = guarded<abi::ExecutableNumber, executable_outputs>;
  f[45] = guarded<abi::ExecutableNumber, executable_code_size>;
  f[46] = guarded<abi::ExecutableCost, executable_costs>;
  f[47] = guarded<abi::ExecutableMemoryKinds, executable_output_memory_kinds>;
  f[48] = guarded<abi::ExecutableOptimized, executable_optimized>;
  f[49] = guarded<abi::ExecutableSerialized, executable_serialize>;
  f[50] = guarded<abi::LoadedArgs, loaded_destroy>;
  f[51] = guarded<abi::LoadedExecutableOf, loaded_executable>;
  f[52] = guarded<abi::LoadedDevices, loaded_devices>;
  f[53] = guarded<abi::LoadedArgs, loaded_delete>;
  f[54] = guarded<abi::LoadedFlag, loaded_is_deleted>;
  f[55] = guarded<abi::Execute, loaded_execute>;
  f[56] = guarded<abi::ExecutableDeserialize, executable_deserialize>;
  f[57] = guarded<abi::LoadedText, loaded_fingerprint>;
  f[58] = guarded<abi::BufferArgs, buffer_destroy>;
  f[59] = guarded<abi::BufferElementType, buffer_element_type>;
  f[60] = guarded<abi::BufferDimensions, buffer_dims>;
  f[61] = guarded<abi::BufferDimensions, buffer_dims>;
  f[62] = guarded<abi::BufferDynamicDimensions, buffer_dynamic_dims>;
  f[63] = guarded<abi::BufferLayout, buffer_layout>;
  f[64] = guarded<abi::BufferSize, buffer_size>;
  f[65] = guarded<abi::BufferDevice, buffer_device>;
  f[66] = guarded<abi::BufferMemory, buffer_memory>;
  f[67] = guarded<abi::BufferArgs, buffer_delete>;
  f[68] = guarded<abi::BufferFlag, buffer_is_deleted>;
  f[69] = guarded<abi::BufferToDevice, buffer_to_device>;
  f[70] = guarded<abi::BufferToHost, buffer_to_host>;
  f[71] = guarded<abi::BufferFlag, buffer_is_on_cpu>;
  f[72] = guarded<abi::BufferReadyEvent, buffer_ready_event>;
  f[73] = guarded<abi::BufferPointer, buffer_pointer>;
  f[74] = guarded<abi::BufferArgs, buffer_reference>;
  f[75] = guarded<abi::BufferArgs, buffer_dereference>;
  f[76] = guarded<abi::BufferPointer, buffer_pointer>;
  f[83] = guarded<abi::TopologyArgs, topology_destroy>;
  f[84] = guarded<abi::TopologyText, topology_platform_name>;
  f[85] = guarded<abi::TopologyText, topology_platform_version>;
  f[86] = guarded<abi::TopologyDevices, topology_devices>;
  f[88] = guarded<abi::TopologyAttributes, topology_attributes>;
  f[90] = guarded<abi::ExecutableElementTypes, executable_output_types>;
  f[91] = guarded<abi::ExecutableDimensions, executable_output_dims>;
  f[92] = guarded<abi::BufferToMemory, buffer_to_memory>;
  f[94] = guarded<abi::ExecutableText, executable_fingerprint>;
  f[95] = guarded<abi::ClientTopology, client_topology>;
  f[96] = guarded<abi::ExecutableMemoryStats, executable_memory_stats>;
  f[97] = guarded<abi::MemoryNumber, memory_kind_id>;
  f[98] = guarded<abi::ContextArgs, context_create, true>;
  f[99] = guarded<abi::ContextArgs, context_destroy>;
  f[100] = guarded<abi::BufferRawToHost, buffer_raw_to_host>;
  f[112] = guarded<abi::ClientUninitialized, client_uninitialized_buffer>;
  f[113] = guarded<abi::ClientUpdateProcesses, client_update_processes>;
  f[117] = guarded<abi::LoadedSerialized, loaded_assignment>;
  f[118] = guarded<abi::ClientErrorBuffer, client_error_buffer>;
  f[122] = guarded<abi::DeviceTrackingEvent, device_tracking_event>;
  f[123] = guarded<abi::Args, tracking_event_destroy>;
  f[126] = guarded<abi::EventArgs, event_create, true>;
  f[127] = guarded<abi::EventSet, event_set>;
  f[128] = guarded<abi::DeviceAttributes, device_attributes>;
  f[129] = guarded<abi::ClientLoad, client_load>;
  f[130] = guarded<abi::LoadedLogicalIds, loaded_logical_ids>;
  f[132] = no_payload;
  f[133] = guarded<abi::TopologyFingerprint, topology_fingerprint>;
  return api;
}

}  // namespace

}  // namespace opentrn::pjrt

extern "C" __attribute__((visibility("default"))) const opentrn::pjrt::abi::Api* GetPjrtApi() {
  static const opentrn::pjrt::abi::Api api = opentrn::pjrt::make_api();
  return &api;
}

// For python/opentrn/jax/callbacks.py.
extern "C" __attribute__((visibility("default"))) void opentrn_set_host_call(opentrn::pjrt::HostCall call) {
  opentrn::pjrt::set_host_call(call);
}

// For python/opentrn/jax/interrupts.py.
extern "C" __attribute__((visibility("default"))) void opentrn_stop_compilations() {
  opentrn::pjrt::stop_compilations();
}

// For python/opentrn/program_profile.py. 0: well; 1: JAX has no client of this platform; 2: under way
// already.
extern "C" __attribute__((visibility("default"))) int opentrn_profile_begin() {
  opentrn::pjrt::Client* client = opentrn::pjrt::Client::current();
  if (!client) return 1;
  client->drain();
  try {
    client->usage.begin();
  } catch (const opentrn::Fault&) {
    return 2;
  }
  return 0;
}
// JSON, for the caller to free(); null when there is no client.
extern "C" __attribute__((visibility("default"))) char* opentrn_profile_end() {
  opentrn::pjrt::Client* client = opentrn::pjrt::Client::current();
  if (!client) return nullptr;
  client->drain();
  return ::strdup(client->usage.end(client->settings, client->bytes_peak()).c_str());
}
