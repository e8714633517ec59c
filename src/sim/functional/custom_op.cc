#include "sim/functional/custom_op.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "isa/custom_ops.h"
#include "sim/functional/custom_op_abi.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/poison.h"
#include "sim/functional/transfer.h"

namespace opentrn::sim {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, CustomOp, std::less<>> ops;
  std::function<CustomOp(std::string_view)> make_host_op;
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

}  // namespace

int64_t CustomOpTensor::element_count() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

void register_custom_op(std::string name, CustomOp op) {
  isa::announce_custom_op(name);
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  all.ops.insert_or_assign(std::move(name), std::move(op));
}

void set_host_ops(std::function<CustomOp(std::string_view)> make) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  all.make_host_op = std::move(make);
}

std::optional<CustomOp> find_custom_op(std::string_view name) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  if (name.starts_with(isa::kHostOpPrefix) && all.make_host_op)
    return all.make_host_op(name.substr(isa::kHostOpPrefix.size()));
  const auto found = all.ops.find(name);
  return found == all.ops.end() ? std::nullopt : std::optional(found->second);
}

// -- shared libraries

namespace {

[[noreturn]] void refuse_library(const std::string& path, std::string_view why) {
  throw Fault(FaultKind::kInput, "custom_op.library", fmt::format("{}: {}", path, why),
              "the library must export what sim/functional/custom_op_abi.h declares");
}

std::vector<opentrn_tensor> as_c(std::span<const CustomOpTensor> tensors, std::deque<std::string>& names) {
  std::vector<opentrn_tensor> result;
  for (const CustomOpTensor& tensor : tensors) {
    names.emplace_back(name(tensor.dtype));
    result.push_back({tensor.data, names.back().c_str(), size_bytes(tensor.dtype),
                      static_cast<int32_t>(tensor.shape.size()), tensor.shape.data()});
  }
  return result;
}

CustomOp wrap_c(std::string op_name, opentrn_custom_op_function function) {
  return [op_name = std::move(op_name), function](std::span<CustomOpTensor> outputs,
                                                  std::span<const CustomOpTensor> inputs) {
    std::deque<std::string> names;
    const std::vector<opentrn_tensor> out = as_c(outputs, names);
    const std::vector<opentrn_tensor> in = as_c(inputs, names);
    std::array<char, 512> message{};
    const int status = function(out.data(), static_cast<int32_t>(out.size()), in.data(),
                                static_cast<int32_t>(in.size()), message.data(), message.size() - 1);
    if (status != 0)
      throw Fault(FaultKind::kProgram, "custom_op.failed",
                  fmt::format("{} returned {}: {}", op_name, status, message.data()));
  };
}

}  // namespace

std::vector<std::string> load_custom_op_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Fault(
        FaultKind::kInput, "custom_op.library", fmt::format("a library cannot be loaded: {}", dlerror()),
        "the path of a shared library for this machine; OPENTRN_CUSTOM_OPS holds paths separated by ':'");
  using VersionFunction = int32_t (*)();
  using ListFunction = const opentrn_custom_op_entry* (*)(size_t*);
  const auto version = reinterpret_cast<VersionFunction>(dlsym(library, "opentrn_custom_op_abi_version"));
  const auto list = reinterpret_cast<ListFunction>(dlsym(library, "opentrn_custom_ops"));
  using TimeFunction = void (*)(const char*, double*, double*);
  const auto time = reinterpret_cast<TimeFunction>(dlsym(library, "opentrn_custom_op_time"));
  if (version == nullptr || list == nullptr) refuse_library(path, "a function is missing");
  if (version() != OPENTRN_CUSTOM_OP_ABI_VERSION)
    refuse_library(path,
                   fmt::format("ABI version {}, {} expected", version(), OPENTRN_CUSTOM_OP_ABI_VERSION));
  size_t count = 0;
  const opentrn_custom_op_entry* entries = list(&count);
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    names.emplace_back(entries[i].name);
    register_custom_op(names.back(), wrap_c(names.back(), entries[i].function));
    isa::CustomOpTime stated;
    if (time) time(entries[i].name, &stated.ns, &stated.cycles_per_element);
    if (stated.ns >= 0 || stated.cycles_per_element >= 0) isa::state_custom_op_time(names.back(), stated);
  }
  return names;
}

void load_custom_ops_of_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* paths = std::getenv("OPENTRN_CUSTOM_OPS");
    std::string_view rest = paths ? paths : "";
    while (!rest.empty()) {
      const std::string_view path = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), path.size() + 1));
      if (!path.empty()) load_custom_op_library(std::string(path));
    }
  });
}

// -- the instruction

namespace bodies {

namespace {

CustomOpTensor tensor_of(const Context& cx, int slot, const View& dense) {
  CustomOpTensor tensor{dense.base, dense.dtype, {}};
  const isa::Pattern& pattern = cx.program.pattern(cx.operand(slot));
  for (const isa::Dim& dim : pattern.view()) tensor.shape.push_back(dim.count);
  return tensor;
}

void mark_unwritten(const Context& cx, const View& target, std::span<const ElementRun> runs,
                    const std::string& op) {
  std::string origin = fmt::format("custom operator '{}' left it unwritten", op);
  if (cx.in.location < cx.program.location_count())
    if (const SourceLocation& where = cx.program.location(cx.in.location); where.known())
      origin += fmt::format(" at {}:{}", where.file, where.line);
  Buffer& buffer = *target.buffer;
  std::lock_guard guard(buffer.mask_lock());
  if (buffer.unwritten_origin().empty()) buffer.set_unwritten_origin(std::move(origin));
  int64_t element = 0;
  auto run = runs.begin();
  const FlatView flat = flatten(target);
  for (RunCursor at(flat); at.remaining() > 0; at.advance(at.remaining()))
    for (int64_t i = 0; i < at.remaining(); ++i, ++element) {
      while (run != runs.end() && run->first + run->count <= element) ++run;
      if (run == runs.end()) return;
      if (element >= run->first && !at.skipped())
        buffer.initialised().clear(buffer.logical(at.address() + i * at.stride()), target.element_bytes);
    }
}

}  // namespace

void custom_op(Context& cx) {
  using namespace isa::slot::custom_op;
  const int64_t output_count = cx.integer(kAOutputs);
  if (output_count < 0 || output_count > cx.operand_count())
    cx.broken("outputs", fmt::format("{} outputs of {} operands", output_count, cx.operand_count()));
  const int64_t text = cx.integer(kAOp);
  if (text < 0 || static_cast<size_t>(text) >= cx.program.string_count())
    cx.broken("op", fmt::format("string {} does not exist", text));
  const std::string& name = cx.program.string(static_cast<uint32_t>(text));
  const std::optional<CustomOp> op = find_custom_op(name);
  if (!op)
    cx.broken("op", fmt::format("custom operator '{}' is not registered in this process", name),
              "load its library: OPENTRN_CUSTOM_OPS=./libops.so, or custom_op.load_library()");
  std::vector<CustomOpTensor> outputs, inputs;
  for (int slot = static_cast<int>(output_count); slot < cx.operand_count(); ++slot) {
    if (cx.operand(slot).kind == isa::OperandKind::kImmediate) {
      float* value = cx.scratch.floats(1);
      *value = static_cast<float>(cx.operand(slot).immediate);
      inputs.push_back({reinterpret_cast<std::byte*>(value), DType::kFloat32, {}});
    } else {
      inputs.push_back(tensor_of(cx, slot, cx.snapshot(cx.source(slot))));
    }
  }
  std::vector<View> targets, results;
  for (int slot = 0; slot < output_count; ++slot) {
    targets.push_back(cx.destination(slot));
    results.push_back(cx.scratch_like(targets.back()));
    poison(results.back());
    outputs.push_back(tensor_of(cx, slot, results.back()));
  }
  (*op)(outputs, inputs);
  for (size_t i = 0; i < targets.size(); ++i) {
    const std::vector<ElementRun> unwritten = still_poisoned(results[i]);
    for (const ElementRun& run : unwritten)
      std::memset(results[i].base + run.first * results[i].element_bytes, 0xFF,
                  static_cast<size_t>(run.count * results[i].element_bytes));
    transfer(cx, flatten(results[i]), flatten(targets[i]), targets[i].dtype, targets[i].dtype,
             targets[i].total());
    if (!unwritten.empty()) mark_unwritten(cx, targets[i], unwritten, name);
  }
}

}  // namespace bodies

}  // namespace opentrn::sim
