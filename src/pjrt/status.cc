#include "pjrt/status.h"

#include <exception>
#include <new>

#include "base/interrupt.h"

namespace opentrn::pjrt {

namespace {

abi::Code code_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kProgram:
    case FaultKind::kInput: return abi::Code::kInvalidArgument;
    case FaultKind::kCapacity: return abi::Code::kResourceExhausted;
    case FaultKind::kNotModelled:
    case FaultKind::kUnspecified: return abi::Code::kUnimplemented;
    case FaultKind::kInternal: return abi::Code::kInternal;
  }
  return abi::Code::kInternal;
}

}  // namespace

Error* error_of(Status status) { return new Error{std::move(status)}; }

Fault forked_fault() {
  return Fault(
      FaultKind::kInput, "pjrt.fork",
      "this process was forked after the platform neuron had started its threads, which a fork does "
      "not copy",
      "start processes with multiprocessing.get_context(\"spawn\"), or fork before JAX is first used");
}

void require(const void* pointer, const char* what) {
  if (!pointer) throw Fault(FaultKind::kInput, "pjrt.arguments", std::string(what) + " is a null pointer");
}

Status status_of_exception() {
  try {
    throw;
  } catch (const Failed& failed) {
    return failed.status;
  } catch (const Fault& fault) {
    return {code_of(fault.kind()), fault.what()};
  } catch (const Interrupted&) {
    interrupt::host_error_taken();
    return {abi::Code::kCancelled, "interrupted"};
  } catch (const std::bad_alloc&) {
    return {abi::Code::kResourceExhausted,
            "the host has no memory left for this\n    try: a smaller model or batch, a share of it for each "
            "core, or a host with "
            "more memory"};
  } catch (const std::exception& error) {
    return {abi::Code::kInternal, error.what()};
  } catch (...) {
    return {abi::Code::kInternal, "an exception of unknown type"};
  }
}

}  // namespace opentrn::pjrt
