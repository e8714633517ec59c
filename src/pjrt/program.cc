#include "pjrt/program.h"

#include <cstring>

#include <fmt/format.h>

#include "compiler/compile.h"
#include "compiler/passes/passes.h"
#include "graph/eval/evaluate.h"
#include "graph/verify.h"
#include "import/load.h"
#include "sim/functional/buffer.h"

namespace opentrn::pjrt {

namespace {

constexpr std::string_view kMagic = "OPENTRN-PJRT-1\n";

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

uint64_t fnv1a(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

std::shared_ptr<sim::Buffer> device_buffer(const graph::Literal& literal) {
  const auto wrapped = [](std::span<const std::byte> bytes, std::shared_ptr<void> owner) {
    return sim::Buffer::wrap_read_only(bytes.data(), static_cast<int64_t>(bytes.size()), std::move(owner));
  };
  if (compiler::same_on_device(literal.type().element())) {
    auto owner = std::make_shared<graph::Literal>(literal);
    return wrapped(owner->bytes(), owner);
  }
  auto owner = std::make_shared<std::vector<std::byte>>(compiler::to_device(literal));
  return wrapped(*owner, owner);
}

graph::Literal host_literal(const graph::Type& type, const std::shared_ptr<sim::Buffer>& buffer) {
  const std::span<const std::byte> bytes{buffer->data(), static_cast<size_t>(buffer->bytes())};
  if (compiler::same_on_device(type.element())) return {type, bytes, buffer};
  return compiler::from_device(type, bytes);
}

runtime::Port port_of(const compiler::Port& from) {
  const auto dims = from.type.dims();
  return {from.name, from.tensor, std::string(graph::name(from.type.element())), {dims.begin(), dims.end()}};
}

runtime::Model model_of(const compiler::CompiledModule& compiled, arch::Generation generation) {
  runtime::Model model;
  model.program = compiled.program;
  model.generation = generation;
  for (const compiler::Port& port : compiled.inputs) model.inputs.push_back(port_of(port));
  for (const compiler::Port& port : compiled.outputs) model.outputs.push_back(port_of(port));
  for (const compiler::Constant& constant : compiled.constants)
    model.constants.push_back({constant.tensor, device_buffer(constant.literal)});
  return model;
}

std::vector<size_t> donated_arguments(const graph::Function& function) {
  std::vector<size_t> donated;
  for (size_t i = 0; i < function.argument_attributes.size(); ++i) {
    const graph::Dictionary& attributes = function.argument_attributes[i];
    if (attributes.contains("tf.aliasing_output") || attributes.contains("jax.buffer_donor"))
      donated.push_back(i);
  }
  return donated;
}

void append_sized(std::string& to, std::string_view part) {
  const uint64_t size = part.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof(size));
  to.append(part);
}

std::string take_sized(std::string_view& from) {
  uint64_t size = 0;
  if (from.size() >= sizeof(size)) {
    std::memcpy(&size, from.data(), sizeof(size));
    from.remove_prefix(sizeof(size));
    if (size <= from.size()) {
      std::string part(from.substr(0, size));
      from.remove_prefix(size);
      return part;
    }
  }
  throw Fault(FaultKind::kInput, "pjrt.serialised", "the serialised executable ends early",
              "remove it from the compilation cache");
}

}  // namespace

Program::Program(std::string code, std::string options, const Settings& settings)
    : code_(std::move(code)),
      options_bytes_(std::move(options)),
      options_(read_compile_options(options_bytes_)) {
  fingerprint_ = fmt::format(
      "{:016x}", fnv1a(settings.target, fnv1a(options_bytes_, fnv1a(code_, 0xcbf29ce484222325ull))));
  module_ = import::load(bytes_of(code_), "program");
  graph::verify(module_);
  const graph::Function& entry = module_.entry();
  name_ = module_.name.empty() ? entry.name : module_.name;
  inputs_ = entry.argument_types();
  outputs_ = entry.result_types;
  donated_ = donated_arguments(entry);
  compile(settings);
}

void Program::compile(const Settings& settings) {
  try {
    model_ = model_of(compiler::compile(module_, {.generation = settings.generation}), settings.generation);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled || settings.strict) throw;
    host_reason_ = fault.message();
    host_function_ = compiler::inline_calls(module_, module_.entry());
  }
}

std::vector<graph::Literal> Program::run(std::span<const graph::Literal> arguments) const {
  return model_ ? run_on_device(arguments) : evaluate(arguments);
}

std::vector<graph::Literal> Program::run_on_device(std::span<const graph::Literal> arguments) const {
  std::vector<std::shared_ptr<sim::Buffer>> inputs;
  for (const graph::Literal& argument : arguments) inputs.push_back(device_buffer(argument));
  const auto outputs = runtime::execute(*model_, inputs);
  std::vector<graph::Literal> results;
  for (size_t i = 0; i < outputs.size(); ++i) results.push_back(host_literal(outputs_[i], outputs[i]));
  return results;
}

std::vector<graph::Literal> Program::evaluate(std::span<const graph::Literal> arguments) const {
  std::vector<graph::eval::RuntimeValue> values;
  for (const graph::Literal& argument : arguments) values.push_back({argument});
  std::vector<graph::Literal> results;
  for (const auto& value : graph::eval::evaluate(module_, *host_function_, values)) {
    const graph::Literal& literal = value.literal();
    results.push_back(literal.is_splat() ? graph::Literal(literal.type(), literal.dense()) : literal);
  }
  return results;
}

std::string Program::serialised() const {
  std::string bytes(kMagic);
  append_sized(bytes, options_bytes_);
  append_sized(bytes, code_);
  return bytes;
}

Program Program::deserialised(std::string_view bytes, const Settings& settings) {
  if (!bytes.starts_with(kMagic))
    throw Fault(FaultKind::kInput, "pjrt.serialised", "this is no executable of OpenTrn's",
                "remove it from the compilation cache");
  bytes.remove_prefix(kMagic.size());
  std::string options = take_sized(bytes);
  return {take_sized(bytes), std::move(options), settings};
}

}  // namespace opentrn::pjrt
