// What the ABI calls errors, and how faults become them.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/fault.h"
#include "pjrt/abi.h"

namespace opentrn::pjrt {

struct Status {
  abi::Code code = abi::Code::kInternal;
  std::string message;
};

// The caller frees it through PJRT_Error_Destroy.
struct Error {
  Status status;
};

// Thrown where an earlier failure is met again.
struct Failed {
  Status status;
};

Error* error_of(Status status);
// Of the exception that is being handled. Nothing may leave the plugin: the caller is C.
Status status_of_exception();

// Met in the child of a fork by what waits for a thread of the parent.
Fault forked_fault();

// Input fault for a pointer that the ABI wants and the caller has not given.
void require(const void* pointer, const char* what);

// The object that a record is about is its first field; of these the plugin makes it, or there is none.
template <typename Record>
inline constexpr bool kHasObject = sizeof(Record) > sizeof(abi::Args) &&
                                   !std::is_same_v<Record, abi::ClientCreate> &&
                                   !std::is_same_v<Record, abi::PluginAttributes>;

template <typename Record>
void require_object(const Record& record) {
  if constexpr (kHasObject<Record>) {
    const void* object = nullptr;
    std::memcpy(&object, reinterpret_cast<const std::byte*>(&record) + sizeof(abi::Args), sizeof object);
    require(object, "the object that the call is about");
  }
}

// An entry of the table: `body` on the arguments, with exceptions as errors. A record of another minor
// version may end earlier than ours.
template <typename Record, void (*body)(Record&), bool kMakesObject = false>
Error* guarded(abi::Args* args) {
  try {
    require(args, "the arguments");
    Record whole{};
    const bool is_short = args->struct_size < sizeof(Record);
    if (is_short) std::memcpy(static_cast<void*>(&whole), args, args->struct_size);
    Record& record = is_short ? whole : *static_cast<Record*>(args);
    if constexpr (!kMakesObject) require_object(record);
    body(record);
    if (is_short) std::memcpy(static_cast<void*>(args), &whole, args->struct_size);
    return nullptr;
  } catch (...) {
    return error_of(status_of_exception());
  }
}

// Of the profiler's interface, whose callers leave the sizes of records unset.
template <typename Record, void (*body)(Record&)>
Error* guarded_plain(abi::Args* args) {
  try {
    require(args, "the arguments");
    body(*reinterpret_cast<Record*>(args));
    return nullptr;
  } catch (...) {
    return error_of(status_of_exception());
  }
}

}  // namespace opentrn::pjrt
