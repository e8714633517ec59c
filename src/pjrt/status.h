// What the ABI calls errors, and how faults become them.
#pragma once

#include <memory>
#include <optional>
#include <string>
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

// An entry of the table: `body` on the arguments, with exceptions as errors.
template <typename Record, void (*body)(Record&)>
Error* guarded(abi::Args* args) {
  try {
    body(*reinterpret_cast<Record*>(args));
    return nullptr;
  } catch (...) {
    return error_of(status_of_exception());
  }
}

}  // namespace opentrn::pjrt
