// What a call of a compiled program through runtime/program_call.h does around the run itself.
#pragma once

#include <new>

#include <nanobind/nanobind.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "device/presence.h"
#include "python/convert.h"
#include "python/unlocked.h"

namespace opentrn::python {

// `run` on behalf of the logical core, by a thread without the interpreter lock. 0; or 1, and the thread's
// Python error is set.
template <typename Run>
int call_program(int core, Run&& run) {
  const auto raised = [](auto set_error) {
    const nanobind::gil_scoped_acquire locked;
    set_error();
    return 1;
  };
  try {
    const Interruptible work;
    const device::CoreScope scope(core);
    run();
    return 0;
  } catch (nanobind::python_error& error) {
    return raised([&] { error.restore(); });
  } catch (const Fault& fault) {
    return raised([&] { raise_fault(fault); });
  } catch (const Interrupted& stop) {
    return raised([&] { raise_interrupted(stop); });
  } catch (const std::bad_alloc&) {
    return raised([] { PyErr_NoMemory(); });
  } catch (const std::exception& error) {
    return raised([&] { PyErr_SetString(PyExc_RuntimeError, error.what()); });
  }
}

}  // namespace opentrn::python
