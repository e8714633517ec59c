// The PJRT C ABI at 0.104, as far as this plugin uses it: argument records and enumerations.
//
// These are the facts of the interface, declared by OpenTrn: OpenXLA's header is in no package that a build
// could depend on. Offsets and sizes are asserted in abi_test.cc. Every record begins with Args; fields that
// the plugin fills come after those it reads, in the ABI's order. A caller of another minor version hands
// records that are longer or shorter at the end; struct_size says which.
#pragma once

#include <cstddef>
#include <cstdint>

namespace opentrn::pjrt {

// What the plugin's own objects are to the caller: opaque.
struct Error;
struct Event;
struct Client;
struct Device;
struct Memory;
struct Buffer;
struct Topology;
struct MemoryLayout;
struct Executable;
struct LoadedExecutable;

}  // namespace opentrn::pjrt

namespace opentrn::pjrt::abi {

inline constexpr int kMajor = 0;
inline constexpr int kMinor = 104;
inline constexpr size_t kFunctions = 135;

struct Extension {
  size_t struct_size;
  int type;
  Extension* next;
};

struct Args {
  size_t struct_size;
  Extension* extension;
};

using Function = Error* (*)(Args*);

// The profiler, an interface of its own: its errors are the plugin's, its records have no extensions.
inline constexpr int kProfilerExtension = 1;
struct ProfilerApi {
  size_t struct_size;
  void* unused;
  Function error_destroy, error_message, error_code, create, destroy, start, stop, collect;
};
struct ProfilerExtension : Extension {
  ProfilerApi* api;
  int64_t context;  // of arguments only
};
struct ProfilerCreate {
  size_t struct_size;
  const char* options;
  size_t options_size;
  void* profiler;
};
struct ProfilerArgs {
  size_t struct_size;
  void* profiler;
};
struct ProfilerCollect {
  size_t struct_size;
  void* profiler;
  uint8_t* buffer;  // null: the plugin's own
  size_t size;
};

// How arrays lie in memory.
inline constexpr int kLayoutsExtension = 4;
struct LayoutsExtension : Extension {
  Function destroy, serialize, client_default, buffer, topology_default, outputs, parameters;
};

// How a compiled program's parameters and outputs are spread.
inline constexpr int kShardingsExtension = 19;
struct ShardingsExtension : Extension {
  Function parameters, outputs;
};

struct Version : Args {
  int major, minor;
};

struct Api : Args {
  Version version;
  Function functions[kFunctions];  // in the order of api.cc's table
};

// The codes of absl::Status.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kNotFound = 5,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
};

struct ErrorArgs : Args {
  Error* error;
};
struct ErrorMessage : Args {
  const Error* error;
  const char* message;
  size_t size;
};
struct ErrorCode : Args {
  const Error* error;
  Code code;
};

enum class ValueKind : int { kString = 0, kInt64 = 1, kInt64List = 2, kFloat = 3, kBool = 4 };
struct NamedValue : Args {
  const char* name;
  size_t name_size;
  ValueKind kind;
  union {
    const char* string;
    int64_t int64;
    const int64_t* int64_list;
    float real;
    bool boolean;
  };
  size_t size;  // of the string or the list; 1 otherwise
};

struct PluginAttributes : Args {
  const NamedValue* attributes;
  size_t count;
};

// -- events
struct EventArgs : Args {
  Event* event;
};
struct EventIsReady : Args {
  Event* event;
  bool ready;
};
struct EventOnReady : Args {
  Event* event;
  void (*callback)(Error* error, void* user);
  void* user;
};
struct EventSet : Args {
  Event* event;
  Code code;
  const char* message;
  size_t message_size;
};

// -- client
// The coordinator's store for keys, which the caller of client_create() has.
using CallbackError = Error* (*)(Code code, const char* message, size_t message_size);
struct KeyValueGet : Args {
  const char* key;
  size_t key_size;
  int timeout_ms;
  CallbackError* error_of;
  void* user;
  char* value;  // the caller's, until it is given back
  size_t value_size;
  void (*deleter)(char* value);
};
struct KeyValuePut : Args {
  const char* key;
  size_t key_size;
  const char* value;
  size_t value_size;
  CallbackError* error_of;
  void* user;
};
using KeyValueGetter = Error* (*)(KeyValueGet*);
using KeyValuePutter = Error* (*)(KeyValuePut*);
struct ClientCreate : Args {
  const NamedValue* options;
  size_t option_count;
  void *kv_get, *kv_get_user, *kv_put, *kv_put_user;
  Client* client;
};
struct ClientArgs : Args {
  Client* client;
};
struct ClientText : Args {
  Client* client;
  const char* text;
  size_t size;
};
struct ClientNumber : Args {
  Client* client;
  int number;
};
struct ClientTopology : Args {
  Client* client;
  Topology* topology;
};
struct ClientDevices : Args {
  Client* client;
  Device* const* devices;
  size_t count;
};
struct ClientMemories : Args {
  Client* client;
  Memory* const* memories;
  size_t count;
};
struct ClientLookup : Args {
  Client* client;
  int id;
  Device* device;
};
struct Program : Args {
  char* code;
  size_t code_size;
  const char* format;
  size_t format_size;
};
struct ClientCompile : Args {
  Client* client;
  const Program* program;
  const char* options;
  size_t options_size;
  LoadedExecutable* executable;
};
struct ClientLoad : Args {
  Client* client;
  Executable* executable;
  const char* options;
  size_t options_size;
  LoadedExecutable* loaded;
};
struct ClientDefaultAssignment : Args {
  Client* client;
  int replicas, partitions;
  size_t size;
  int* assignment;
};
struct ClientUpdateProcesses : Args {
  Client* client;
  void* processes;
  size_t count;
};

enum class ElementType : int {
  kInvalid,
  kPred,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kF32,
  kF64,
  kBF16,
  kC64,
  kC128,
  kF8E5M2,
  kF8E4M3FN,
  kF8E4M3B11FNUZ,
  kF8E5M2FNUZ,
  kF8E4M3FNUZ,
  kS4,
  kU4,
  kToken,
  kS2,
  kU2,
  kF8E4M3,
  kF8E3M4,
  kF8E8M0FNU,
  kF4E2M1FN,
  kS1,
  kU1,
};

enum class LayoutKind : int { kTiled = 0, kStrides = 1 };
struct TiledLayout : Args {
  const int64_t* minor_to_major;
  size_t minor_to_major_size;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t tiles;
};
struct StridedLayout : Args {
  const int64_t* byte_strides;
  size_t count;
};
struct Layout : Args {
  union {
    TiledLayout tiled;
    StridedLayout strides;
  };
  LayoutKind kind;
};

struct ClientBufferFromHost : Args {
  Client* client;
  const void* data;
  ElementType type;
  const int64_t* dims;
  size_t rank;
  const int64_t* byte_strides;
  size_t byte_stride_count;
  int semantics;
  Device* device;
  Memory* memory;
  Layout* device_layout;
  Event* done_with_host_buffer;
  Buffer* buffer;
};
struct ClientUninitialized : Args {
  Client* client;
  const int64_t* dims;
  size_t rank;
  ElementType type;
  Layout* layout;
  Device* device;
  Memory* memory;
  Buffer* buffer;
};
struct ClientErrorBuffer : Args {
  Client* client;
  Code code;
  const char* message;
  size_t message_size;
  const int64_t* dims;
  size_t rank;
  ElementType type;
  Layout* layout;
  Memory* memory;
  Buffer* buffer;
};

// -- devices and memories; a device is its own description
struct DeviceNumber : Args {
  Device* device;
  int number;
};
struct DeviceText : Args {
  Device* device;
  const char* text;
  size_t size;
};
struct DescriptionAttributes : Args {
  Device* device;
  size_t count;
  const NamedValue* attributes;
};
struct DeviceAttributes : Args {
  Device* device;
  const NamedValue* attributes;
  size_t count;
  void* owner;
  void (*deleter)(void* owner);
};
struct DeviceDescription : Args {
  Device* device;
  Device* description;
};
struct DeviceFlag : Args {
  Device* device;
  bool flag;
};
struct DeviceMemories : Args {
  Device* device;
  Memory* const* memories;
  size_t count;
};
struct DeviceMemory : Args {
  Device* device;
  Memory* memory;
};
struct OptionalInt {
  int64_t value;
  bool set;
};
struct DeviceMemoryStats : Args {
  Device* device;
  int64_t bytes_in_use;
  OptionalInt peak_bytes_in_use, allocations, largest_allocation, bytes_limit, bytes_reserved,
      peak_bytes_reserved, bytes_reservable_limit, largest_free_block, pool_bytes, peak_pool_bytes;
};
struct DeviceTrackingEvent : Args {
  Device* device;
  const char* description;
  size_t description_size;
  void* event;
};
struct MemoryNumber : Args {
  Memory* memory;
  int number;
};
struct MemoryText : Args {
  Memory* memory;
  const char* text;
  size_t size;
};
struct MemoryDevices : Args {
  Memory* memory;
  Device* const* devices;
  size_t count;
};
struct ContextArgs : Args {
  void* context;
};

// -- executables
struct ExecutableArgs : Args {
  Executable* executable;
};
struct ExecutableText : Args {
  Executable* executable;
  const char* text;
  size_t size;
};
struct ExecutableOptimized : Args {
  Executable* executable;
  Program* program;  // the caller's; without code it asks for the size
};
struct ExecutableNumber : Args {
  Executable* executable;
  size_t number;
};
struct ExecutableCost : Args {
  Executable* executable;
  size_t count;
  const NamedValue* properties;
};
struct ExecutableMemoryStats : Args {
  Executable* executable;
  int64_t code, argument, output, alias, temporary;
  int64_t host_code, host_argument, host_output, host_alias, host_temporary;
  int64_t peak, total, total_allocated, indefinite, peak_unpadded;
};
struct ExecutableElementTypes : Args {
  Executable* executable;
  ElementType* types;
  size_t count;
};
struct ExecutableDimensions : Args {
  Executable* executable;
  size_t count;
  const int64_t* dims;
  const size_t* ranks;
};
struct ExecutableMemoryKinds : Args {
  Executable* executable;
  size_t count;
  const char* const* kinds;
  const size_t* sizes;
};
struct ExecutableSerialized : Args {
  Executable* executable;
  const char* bytes;
  size_t size;
  void* owner;
  void (*deleter)(void* owner);
};
struct ExecutableDeserialize : Args {
  Client* client;
  const char* bytes;
  size_t size;
  LoadedExecutable* loaded;
  const char* overridden_options;
  size_t overridden_options_size;
};
// -- the layouts extension
struct LayoutArgs : Args {
  MemoryLayout* layout;
};
struct LayoutSerialized : Args {
  MemoryLayout* layout;
  const char* bytes;
  size_t size;
  void* owner;
  void (*deleter)(void* owner);
};
// Of a client and of a topology.
struct DefaultLayout : Args {
  void* of;
  ElementType type;
  const int64_t* dims;
  size_t rank;
  MemoryLayout* layout;
};
struct BufferMemoryLayout : Args {
  Buffer* buffer;
  MemoryLayout* layout;
};
struct ExecutableLayouts : Args {
  Executable* executable;
  size_t count;
  MemoryLayout* const* layouts;
};

struct ExecutableShardings : Args {
  Executable* executable;
  size_t count;
  const char* const* shardings;  // serialised xla.OpSharding
  const size_t* sizes;
};
struct LoadedArgs : Args {
  LoadedExecutable* executable;
};
struct LoadedExecutableOf : Args {
  LoadedExecutable* loaded;
  Executable* executable;
};
struct LoadedSerialized : Args {
  LoadedExecutable* executable;
  const char* bytes;
  size_t size;
  void* owner;
  void (*deleter)(void* owner);
};
struct LoadedDevices : Args {
  LoadedExecutable* executable;
  Device* const* devices;
  size_t count;
};
struct LogicalId {
  int replica, partition;
};
struct LoadedLogicalIds : Args {
  LoadedExecutable* executable;
  LogicalId* ids;
  size_t count;
};
struct LoadedFlag : Args {
  LoadedExecutable* executable;
  bool flag;
};
struct LoadedText : Args {
  LoadedExecutable* executable;
  const char* text;
  size_t size;
};
struct ExecuteOptions : Args {
  void **send_callbacks, **receive_callbacks;
  size_t send_count, receive_count;
  int launch_id;
  const int64_t* non_donatable;
  size_t non_donatable_count;
  void* context;
  const char* call_location;
  size_t task_count;
  int* task_ids;
  int64_t* incarnation_ids;
};
struct Execute : Args {
  LoadedExecutable* executable;
  ExecuteOptions* options;
  Buffer* const* const* arguments;  // [device][argument]
  size_t devices;
  size_t argument_count;
  Buffer** const* outputs;  // [device][output]
  Event** complete;         // by device; may be null
  Device* device;           // null: where it was compiled for
};

// -- buffers
struct BufferArgs : Args {
  Buffer* buffer;
};
struct BufferElementType : Args {
  Buffer* buffer;
  ElementType type;
};
struct BufferDimensions : Args {
  Buffer* buffer;
  const int64_t* dims;
  size_t rank;
};
struct BufferDynamicDimensions : Args {
  Buffer* buffer;
  const size_t* dims;
  size_t count;
};
struct BufferLayout : Args {
  Buffer* buffer;
  Layout layout;
};
struct BufferSize : Args {
  Buffer* buffer;
  size_t bytes;
};
struct BufferDevice : Args {
  Buffer* buffer;
  Device* device;
};
struct BufferMemory : Args {
  Buffer* buffer;
  Memory* memory;
};
struct BufferFlag : Args {
  Buffer* buffer;
  bool flag;
};
struct BufferToDevice : Args {
  Buffer* buffer;
  Device* device;
  Buffer* copy;
};
struct BufferToMemory : Args {
  Buffer* buffer;
  Memory* memory;
  Buffer* copy;
};
struct BufferToHost : Args {
  Buffer* buffer;
  Layout* host_layout;
  void* data;  // null: how many bytes are needed?
  size_t size;
  Event* event;
};
struct BufferRawToHost : Args {
  Buffer* buffer;
  void* data;
  int64_t offset, size;
  Event* event;
};
struct BufferReadyEvent : Args {
  Buffer* buffer;
  Event* event;
};
struct BufferPointer : Args {
  Buffer* buffer;
  uintptr_t pointer;
};

// -- topology
struct TopologyArgs : Args {
  Topology* topology;
};
struct TopologyText : Args {
  Topology* topology;
  const char* text;
  size_t size;
};
struct TopologyDevices : Args {
  Topology* topology;
  Device* const* devices;
  size_t count;
};
struct TopologyAttributes : Args {
  Topology* topology;
  const NamedValue* attributes;
  size_t count;
};
struct TopologyFingerprint : Args {
  Topology* topology;
  uint64_t fingerprint;
};

}  // namespace opentrn::pjrt::abi
