// Native work as Python calls it: without the interpreter lock, and so that Python's signal handlers run
// meanwhile.
#pragma once

#include <nanobind/nanobind.h>

#include "base/interrupt.h"

namespace opentrn::python {

// Ctrl-C and other signals are heard while it lives: at the next interrupt::poll(). For what keeps the lock.
class Interruptible {
 public:
  Interruptible() { interrupt::refuse_in_handler(); }

 private:
  interrupt::HostWork work_;
};

// As Interruptible, and drops the interpreter lock.
class Unlocked {
 private:
  Interruptible work_;
  nanobind::gil_scoped_release released_;
};

// Lets native work run Python's signal handlers.
void bind_interrupt(nanobind::module_& module);
// Sets the Python exception of an Interrupted: what a signal handler raised, with where the work stood as its
// attribute `opentrn_where`.
void raise_interrupted(const Interrupted& stop);

}  // namespace opentrn::python
