// What a call of a compiled program through runtime/program_call.h does around the run itself.
#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <vector>

#include <fmt/format.h>
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

// `run` of arrays by address, without the interpreter lock, of a program of so many inputs and results.
// `core`: the logical one that it counts for; without one the current one. kInput "model.arguments" for other
// numbers.
template <typename Run>
void run_at_addresses(size_t input_count, size_t output_count, const std::vector<uintptr_t>& inputs,
                      const std::vector<uintptr_t>& outputs, std::optional<int> core, Run&& run) {
  if (inputs.size() != input_count || outputs.size() != output_count)
    throw Fault(FaultKind::kInput, "model.arguments",
                fmt::format("the program has {} inputs and {} results; {} and {} were given", input_count,
                            output_count, inputs.size(), outputs.size()));
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const uintptr_t address : inputs) from.push_back(reinterpret_cast<const void*>(address));
  for (const uintptr_t address : outputs) to.push_back(reinterpret_cast<void*>(address));
  std::optional<device::CoreScope> scope;
  if (core) scope.emplace(*core);
  const Unlocked unlocked;
  run(from.data(), to.data());
}

}  // namespace opentrn::python
