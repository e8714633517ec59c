#include "python/unlocked.h"

#include <memory>

#include <fmt/format.h>

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// What a handler raised and nobody has passed on yet. Handlers run on Python's main thread only.
std::unique_ptr<nb::python_error>& raised() {
  static auto* error = new std::unique_ptr<nb::python_error>;
  return *error;
}

bool run_handlers() {
  const nb::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() == 0) return false;
  raised() = std::make_unique<nb::python_error>();
  return true;
}

// "compiling: fold_constants, kernel.py:12 in attention"
std::string where(const Interrupted& stop) {
  std::string text = stop.activity();
  if (const SourceLocation& at = stop.location(); at.known()) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", at.file, at.line);
    if (!at.function.empty()) text += fmt::format(" in {}", at.function);
  }
  return text;
}

}  // namespace

void raise_interrupted(const Interrupted& stop) {
  const std::string text = where(stop);
  if (!interrupt::is_on_host_thread() || raised() == nullptr) {
    PyErr_SetString(PyExc_RuntimeError,
                    fmt::format("interrupted{}{}", text.empty() ? "" : ": ", text).c_str());
    return;
  }
  const std::unique_ptr<nb::python_error> error = std::move(raised());
  interrupt::host_error_taken();
  if (!text.empty() &&
      PyObject_SetAttrString(error->value().ptr(), "opentrn_where", nb::str(text.c_str()).ptr()) != 0)
    PyErr_Clear();  // an exception without a dictionary
  error->restore();
}

void bind_interrupt(nb::module_&) {
  // `threading`, which a command need not import, takes the thread that imports it for the main one.
  const nb::object threading = nb::module_::import_("sys").attr("modules").attr("get")("threading");
  const auto main = threading.is_none()
                        ? static_cast<std::uintptr_t>(PyThread_get_thread_ident())
                        : nb::cast<std::uintptr_t>(threading.attr("main_thread")().attr("ident"));
  interrupt::set_host(&run_handlers, main);
}

}  // namespace opentrn::python
