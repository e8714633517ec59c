#include "python/call_site.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

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
  // A place in a helper, with the place in the kernel that called it.
  std::map<std::pair<const Site*, const Site*>, Site> called;
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
  constexpr std::string_view kParts[] = {
      "nki/",         "nki_legacy/",       "compat/standins/",         "strict/",
      "custom_op.py", "kernel/machine.py", "kernel/register_truth.py", "oracle/nki_legacy/"};
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

// Walks the stack outwards, frame by frame.
class Frames {
 public:
  Frames() : frame_(PyEval_GetFrame()) {
    Py_XINCREF(reinterpret_cast<PyObject*>(frame_));
    look();
  }
  ~Frames() {
    Py_XDECREF(code_);
    Py_XDECREF(reinterpret_cast<PyObject*>(frame_));
  }
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;

  bool at_end() const { return frame_ == nullptr; }
  bool is_ours() const { return python::is_ours(code_); }
  const Site& site() const { return site_of(frame_, code_); }
  void outwards() {
    PyFrameObject* back = PyFrame_GetBack(frame_);
    Py_DECREF(reinterpret_cast<PyObject*>(frame_));
    frame_ = back;
    look();
  }

 private:
  void look() {
    Py_XDECREF(code_);
    code_ = frame_ == nullptr ? nullptr : reinterpret_cast<PyObject*>(PyFrame_GetCode(frame_));
  }
  PyFrameObject* frame_;
  PyObject* code_ = nullptr;
};

// `helper`, with the line of the kernel that called it, maybe through other helpers.
const Site& called_from(const Site& helper, const Site& kernel) {
  auto [it, inserted] = cache().called.try_emplace({&helper, &kernel});
  if (inserted)
    it->second = {helper.file, helper.line,
                  fmt::format("{}, called from {}:{} in {}", helper.function, kernel.file, kernel.line,
                              kernel.function)};
  return it->second;
}

}  // namespace

isa::LocationId call_site(nki::Machine& machine) {
  Frames frames;
  while (!frames.at_end() && frames.is_ours()) frames.outwards();
  if (frames.at_end()) return 0;
  const Site* const place = &frames.site();
  const Site* outermost = place;
  // In NKI 0.1 an instruction waits for the statement after its own, whose callers are not its own's; and
  // neuronx-cc's passes go by the statement (backend/passes/common_subexpressions.h), wherever it is called
  // from.
  if (!machine.moves_rows())
    for (frames.outwards(); !frames.at_end() && !frames.is_ours(); frames.outwards())
      outermost = &frames.site();
  // Without a launch around it, the outermost frame is the program that calls, and no kernel.
  const Site& site = frames.at_end() || outermost == place ? *place : called_from(*place, *outermost);
  return machine.location_of(
      &site, [&] { return machine.program()->intern_location(site.file, site.line, site.function); });
}

}  // namespace opentrn::python
