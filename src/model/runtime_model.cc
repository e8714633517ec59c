#include "model/runtime_model.h"

#include "base/mapped_file.h"

namespace opentrn::model {

namespace {

std::shared_ptr<sim::Buffer> read_only(std::span<const std::byte> bytes, std::shared_ptr<void> owner) {
  return sim::Buffer::wrap_read_only(bytes.data(), static_cast<int64_t>(bytes.size()), std::move(owner));
}

std::shared_ptr<sim::Buffer> converted(const graph::Literal& value) {
  auto owner = std::make_shared<std::vector<std::byte>>(compiler::to_device(value));
  return read_only(*owner, owner);
}

runtime::Port port_of(const compiler::Port& from) {
  const auto dims = from.type.dims();
  return {from.name, from.tensor, std::string(graph::name(from.type.element())), {dims.begin(), dims.end()}};
}

runtime::ConstantData constant_data(const compiler::Constant& constant) {
  runtime::ConstantData data{constant.tensor, device_buffer(constant.literal), "", 0};
  // The place is that of the bytes in the file, which a converted constant has left.
  const std::byte* bytes = constant.literal.bytes().data();
  if (data.bytes->data() != bytes) return data;
  if (const auto place = file_place(bytes)) {
    data.file = place->path.string();
    data.file_offset = static_cast<int64_t>(place->offset);
  }
  return data;
}

}  // namespace

std::shared_ptr<sim::Buffer> device_buffer(const graph::Literal& value) {
  if (!compiler::same_on_device(value.type().element())) return converted(value);
  auto owner = std::make_shared<graph::Literal>(value);
  return read_only(owner->bytes(), owner);
}

std::shared_ptr<sim::Buffer> device_buffer(const graph::Type& type, std::span<const std::byte> bytes) {
  if (compiler::same_on_device(type.element())) return read_only(bytes, nullptr);
  return converted(graph::Literal(type, bytes, nullptr));
}

graph::Literal host_literal(const graph::Type& type, const std::shared_ptr<sim::Buffer>& buffer) {
  const std::span<const std::byte> bytes{buffer->data(), static_cast<size_t>(buffer->bytes())};
  if (compiler::same_on_device(type.element())) return {type, bytes, buffer};
  return compiler::from_device(type, bytes);
}

runtime::Model model_of(const compiler::CompiledModule& compiled, Generation generation) {
  runtime::Model model;
  model.program = compiled.program;
  model.generation = generation;
  model.origin = compiled.origin;
  model.narrowing = compiled.narrowing;
  for (const compiler::Port& port : compiled.inputs) model.inputs.push_back(port_of(port));
  for (const compiler::Port& port : compiled.outputs) model.outputs.push_back(port_of(port));
  for (const compiler::Constant& constant : compiled.constants)
    model.constants.push_back(constant_data(constant));
  return model;
}

}  // namespace opentrn::model
