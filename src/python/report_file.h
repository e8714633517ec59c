// A file that C++ writes for Python.
#pragma once

#include <cerrno>
#include <filesystem>
#include <fstream>

#include <nanobind/nanobind.h>

#include "python/unlocked.h"

namespace opentrn::python {

// Calls `write` with a stream into `path`, without the interpreter lock. Python's OSError with the reason
// where that fails: opentrn.base.files gives it the name that the user stated.
template <class Write>
void write_report(const std::filesystem::path& path, const Write& write) {
  int error = 0;
  {
    const Unlocked unlocked;
    errno = 0;
    std::ofstream file(path, std::ios::binary);
    if (file) write(file);
    file.close();
    if (!file) error = errno != 0 ? errno : EIO;
  }
  if (error == 0) return;
  errno = error;
  PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.c_str());
  throw nanobind::python_error();
}

}  // namespace opentrn::python
