#include "pjrt/callback.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/op_definitions.h"
#include "graph/text/text.h"

namespace opentrn::pjrt {

using graph::Attr;
using graph::eval::RuntimeValue;

namespace {

constexpr size_t kErrorBytes = 4096;

std::atomic<HostCall> g_host_call = nullptr;
std::atomic<int> g_calls = 0;

// Keeps Python from going away while it is called.
class Calling {
 public:
  Calling() { g_calls.fetch_add(1); }
  ~Calling() {
    g_calls.fetch_sub(1);
    g_calls.notify_all();
  }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

  // Null where there is no Python, or no more.
  HostCall function() const { return g_host_call.load(); }
};

HostArray array_of(const graph::Type& type, void* data) {
  return {graph::name(type.element()).data(), int64_t{type.rank()}, type.dims().data(), type.byte_count(),
          data};
}

struct Configuration {
  std::string key;
  bool for_all = false;
  std::vector<graph::Type> results;
};

// "key;once;token;f32:3,4;i1:": what to call, and the types of what it gives.
Configuration read_configuration(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  Configuration read;
  if (words.empty()) return read;
  read.key = words.front();
  for (const std::string_view word : std::span(words).subspan(1)) {
    if (word == "once") {
      read.for_all = true;
      continue;
    }
    if (word == "token") {
      read.results.push_back(graph::Type::token());
      continue;
    }
    const size_t colon = word.find(':');
    std::vector<int64_t> dims;
    for (std::string_view rest = word.substr(colon + 1); !rest.empty();) {
      const size_t end = std::min(rest.find(','), rest.size());
      std::from_chars(rest.data(), rest.data() + end, dims.emplace_back());
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    read.results.push_back(
        graph::Type::tensor(graph::element_type_from_name(word.substr(0, colon)).value(), dims));
  }
  return read;
}

}  // namespace

void set_host_call(HostCall call) {
  g_host_call = call;
  if (call) return;
  for (int calls = g_calls.load(); calls > 0; calls = g_calls.load()) g_calls.wait(calls);
}

bool is_host_call(const graph::Op& op) {
  return op.kind == graph::OpKind::custom_call_ && op.string(Attr::call_target_name) == "opentrn.callback";
}

bool is_for_all_devices(const graph::Op& op) {
  if (!is_host_call(op)) return false;
  const graph::Attribute* config = op.find(Attr::backend_config);
  const std::string* text = config ? config->get<std::string>() : nullptr;
  return text && read_configuration(*text).for_all;
}

void check_on_host(const graph::Module& module, std::span<const graph::Literal> arguments) {
  const Calling calling;
  const HostCall call = calling.function();
  if (!call)
    throw Fault(FaultKind::kInput, "pjrt.check", "OPENTRN_CHECK needs OpenTrn's Python in this process",
                "install OpenTrn, or put its python folder on PYTHONPATH");
  std::string text = graph::print_module(module, {.locations = true});
  const graph::Type type = graph::Type::tensor(graph::ElementType::kUI8, {static_cast<int64_t>(text.size())});
  std::vector<HostArray> inputs{array_of(type, text.data())};
  std::vector<std::vector<std::byte>> bytes;
  bytes.reserve(arguments.size());
  for (const graph::Literal& argument : arguments) {
    bytes.push_back(argument.dense());
    inputs.push_back(array_of(argument.type(), bytes.back().data()));
  }
  std::string error(kErrorBytes, '\0');
  if (call("check", static_cast<int64_t>(inputs.size()), inputs.data(), 0, nullptr, error.data(),
           static_cast<int64_t>(error.size())) != 0)
    throw Fault(FaultKind::kInternal, "pjrt.check", error.c_str());
}

std::optional<std::vector<RuntimeValue>> call_host(const graph::Op& op, const graph::Module& module,
                                                   std::span<const RuntimeValue> operands) {
  if (!is_host_call(op)) return std::nullopt;
  const Calling calling;
  const HostCall call = calling.function();
  const graph::Attribute* config = op.find(Attr::backend_config);
  const std::string* key = config ? config->get<std::string>() : nullptr;
  if (!call || !key)
    throw Fault(FaultKind::kInput, "pjrt.callback", "the program calls Python, which this process has not",
                "run it where it was compiled");
  // Tokens order calls, and are no values.
  std::vector<std::vector<std::byte>> bytes;
  std::vector<graph::Type> types;
  std::vector<HostArray> inputs, outputs;
  bytes.reserve(operands.size());
  types.reserve(operands.size());
  for (const RuntimeValue& operand : operands)
    if (const auto* literal = std::get_if<graph::Literal>(&operand.value)) {
      bytes.push_back(literal->dense());
      types.push_back(literal->type());
      inputs.push_back(array_of(types.back(), bytes.back().data()));
    }
  const auto [name, for_all, result_types] = read_configuration(*key);
  std::vector<std::vector<std::byte>> made;
  made.reserve(result_types.size());
  for (const graph::Type& type : result_types)
    if (!type.is_token()) {
      made.emplace_back(static_cast<size_t>(type.byte_count()));
      outputs.push_back(array_of(type, made.back().data()));
    }
  std::string error(kErrorBytes, '\0');
  if (call(name.c_str(), static_cast<int64_t>(inputs.size()), inputs.data(),
           static_cast<int64_t>(outputs.size()), outputs.data(), error.data(),
           static_cast<int64_t>(error.size())) != 0) {
    Fault fault(FaultKind::kInput, "pjrt.callback", error.c_str());
    fault.set_location(module.source(op.location));
    throw fault;
  }
  std::vector<RuntimeValue> results;
  size_t next = 0;
  for (const graph::Type& type : result_types)
    if (type.is_token())
      results.push_back({graph::eval::Token{}});
    else
      results.push_back({graph::Literal(type, std::move(made[next++]))});
  return results;
}

spmd::HostCalls host_calls() { return {is_host_call, is_for_all_devices, call_host, check_on_host}; }

}  // namespace opentrn::pjrt
