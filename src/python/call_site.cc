#include "python/call_site.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include <nanobind/nanobind.h>

namespace opentrn::python {

namespace {

struct Site {
  std::string file;
  int line;
  std::string function;
};

// Keyed by code object and instruction offset. The code objects are kept alive: a freed one's address
// could come again as another function's.
struct Cache {
  std::unordered_map<PyObject*, bool> is_ours;
  struct Key {
    PyObject* code;
    int instruction;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return reinterpret_cast<size_t>(key.code) * 0x9E3779B97F4A7C15u +
             static_cast<size_t>(key.instruction) * 0xC2B2AE35u;
    }
  };
  std::unordered_map<Key, Site, Hash> sites;
};

Cache& cache() {
  static auto* instance = new Cache;  // outlives the interpreter's shutdown
  return *instance;
}

// The folder of the package `opentrn`.
const std::string& package() {
  static const std::string folder = [] {
    const auto file = nanobind::cast<std::string>(nanobind::module_::import_("opentrn").attr("__file__"));
    return file.substr(0, file.find_last_of("/\\") + 1);
  }();
  return folder;
}

// Files through which a kernel's calls come to the machine. Others of the package may hold kernels.
bool leads_to_the_machine(std::string_view file) {
  if (!file.starts_with(package())) return false;
  constexpr std::string_view kParts[] = {"nki/", "nki_legacy/", "standins/", "core.py", "custom_op.py"};
  const std::string_view inside = file.substr(package().size());
  return std::ranges::any_of(kParts, [&](std::string_view part) {
    return part.back() == '/' ? inside.starts_with(part) : inside == part;
  });
}

bool is_ours(PyObject* code) {
  auto [it, inserted] = cache().is_ours.try_emplace(code, false);
  if (inserted) {
    Py_INCREF(code);
    const char* file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code)->co_filename);
    if (!file) PyErr_Clear();
    it->second = file && leads_to_the_machine(file);
  }
  return it->second;
}

const Site& site_of(PyFrameObject* frame, PyObject* code) {
  auto [it, inserted] = cache().sites.try_emplace({code, bytecode_offset(frame)});
  if (inserted) {
    const auto text = [](PyObject* value) {
      const char* utf8 = PyUnicode_AsUTF8(value);
      if (!utf8) PyErr_Clear();
      return std::string(utf8 ? utf8 : "?");
    };
    auto* code_object = reinterpret_cast<PyCodeObject*>(code);
    it->second = {text(code_object->co_filename), PyFrame_GetLineNumber(frame), text(code_object->co_name)};
  }
  return it->second;
}

}  // namespace

isa::LocationId call_site(nki::Machine& machine) {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(reinterpret_cast<PyObject*>(frame));
  while (frame) {
    PyObject* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
    if (!is_ours(code)) {
      const Site& site = site_of(frame, code);
      const isa::LocationId id = machine.location_of(
          &site, [&] { return machine.program()->intern_location(site.file, site.line, site.function); });
      Py_DECREF(code);
      Py_DECREF(reinterpret_cast<PyObject*>(frame));
      return id;
    }
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(reinterpret_cast<PyObject*>(frame));
    frame = back;
  }
  return 0;
}

}  // namespace opentrn::python
