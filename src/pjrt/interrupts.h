// Python's signal handlers for the plugin, which is not linked with Python: where JAX's main thread waits in
// it, as for a compilation, Ctrl-C is heard (base/interrupt.h). What a handler raises cannot go through
// PJRT's C interface: the call fails with CANCELLED, and the exception is raised in the main thread at its
// next bytecode.
#pragma once

#include "base/interrupt.h"

namespace opentrn::pjrt {

// A compilation, on the thread that it is called on. jaxlib compiles on threads of its own and waits for
// them at its end, whether or not somebody still waits for the program.
class Compilation {
 public:
  Compilation();
  ~Compilation();
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

 private:
  const interrupt::HostWork heard_;
  interrupt::Work work_;
  const interrupt::Scope scope_;
};

// Those under way fail with CANCELLED at their next poll.
void stop_compilations();

// Once per process; nothing where it is no Python, or on another thread than the main one.
void hear_signals();

}  // namespace opentrn::pjrt
