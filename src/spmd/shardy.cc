#include "spmd/shardy.h"

#include <cstring>
#include <filesystem>

#include <dlfcn.h>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"

namespace opentrn::spmd {

namespace {

constexpr int kSecondsMax = 120;  // for an answer: a large program takes seconds

// sys.executable of the Python that this process is, through CPython's stable ABI; empty when it is none.
std::string python_executable() {
  const auto ensure = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
  const auto release = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "PyGILState_Release"));
  const auto get = reinterpret_cast<void* (*)(const char*)>(::dlsym(RTLD_DEFAULT, "PySys_GetObject"));
  const auto utf8 =
      reinterpret_cast<const char* (*)(void*, ssize_t*)>(::dlsym(RTLD_DEFAULT, "PyUnicode_AsUTF8AndSize"));
  if (!ensure || !release || !get || !utf8) return {};
  const int state = ensure();
  std::string path;
  if (void* executable = get("executable"))
    if (const char* text = utf8(executable, nullptr)) path = text;
  release(state);
  return path;
}

// Beside this library.
std::string script() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&python_executable), &info) == 0 || !info.dli_fname) return {};
  const auto path = std::filesystem::path(info.dli_fname).parent_path() / "jax" / "shardy.py";
  return std::filesystem::exists(path) ? path.string() : std::string();
}

Partition& add_shardings(std::string_view lines, Partition& to) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.starts_with("in "))
      to.inputs.emplace_back(line.substr(3));
    else if (line.starts_with("out "))
      to.outputs.emplace_back(line.substr(4));
  }
  return to;
}

}  // namespace

std::optional<Partition> Shardy::partition(std::string_view code) {
  std::lock_guard lock(mutex_);
  std::string problem;
  try {
    if (!child_) {
      const std::string python = python_executable(), file = script();
      if (python.empty() || file.empty())
        throw Fault(FaultKind::kInput, "shardy",
                    python.empty() ? "this process is no Python" : "jax/shardy.py is not beside the plugin");
      child_ = std::make_unique<Child>(std::vector<std::string>{python, file});
    }
    if (auto made = ask(code)) return made;
    problem = child_->end();
    child_.reset();
  } catch (const Fault& fault) {
    problem = fault.message();
  } catch (const Interrupted&) {
    child_.reset();  // its answer would be taken for that of the next question
    throw;
  }
  if (problem != said_)
    fmt::print(stderr, "opentrn: results whose sharding nobody states are replicated; no Shardy: {}\n",
               problem);
  said_ = std::move(problem);
  return std::nullopt;
}

std::optional<Partition> Shardy::ask(std::string_view code) {
  const uint64_t size = code.size();
  const std::string_view header(reinterpret_cast<const char*>(&size), sizeof(size));
  if (!child_->write(header) || !child_->write(code)) return std::nullopt;
  Partition partition;
  bool spread = false;
  for (;;) {
    char kind = 0;
    uint64_t count = 0;
    std::string content;
    bool whole = child_->read(&kind, 1, kSecondsMax) && child_->read(&count, sizeof(count), kSecondsMax);
    if (whole) {
      content.resize(count);
      whole = child_->read(content.data(), count, kSecondsMax);
    }
    if (!whole) {
      if (!spread) return std::nullopt;
      partition.problem = child_->end();
      child_.reset();
      return partition;
    }
    switch (kind) {
      case 's':
        partition.inputs.clear();
        partition.outputs.clear();
        add_shardings(content, partition);
        spread = true;
        break;
      case 'l': partition.local = std::move(content); break;
      case 'e': partition.problem = std::move(content); break;
      default:
        if (!spread) throw Fault(FaultKind::kInput, "shardy", partition.problem);
        return partition;
    }
  }
}

}  // namespace opentrn::spmd
