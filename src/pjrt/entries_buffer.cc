#include <cstring>

#include <fmt/format.h>

#include "pjrt/element.h"
#include "pjrt/entries.h"

namespace opentrn::pjrt {

namespace {

// `read` on the value when it is there, on the client's thread.
Event* read_later(const std::shared_ptr<Array>& array, std::function<void(const graph::Literal&)> read) {
  auto event = std::make_shared<Completion>();
  array->ready->then([event, array, read = std::move(read)](const Completion::Outcome& failed) {
    if (failed) return event->set(failed);
    read(array->value());
    event->set(std::nullopt);
  });
  return new Event{event};
}

Buffer* copy_to(const Buffer& buffer, Device* device) {
  buffer.device->client->expect_not_forked();
  if (!device->is_own)
    throw Fault(FaultKind::kNotModelled, "pjrt.processes",
                fmt::format("a copy from a device of process {} to device {} of process {}",
                            buffer.device->process, device->id, device->process),
                "move arrays between processes by a program (jax.jit with shardings)");
  const std::shared_ptr<Array> source = buffer.live();
  auto copy = std::make_shared<Array>(device, source->type, source->order);
  source->ready->then([source, copy](const Completion::Outcome& failed) {
    if (failed) return copy->fail(*failed);
    copy->set(source->value_for_another());
  });
  return new Buffer(copy);
}

}  // namespace

void buffer_destroy(abi::BufferArgs& args) { delete args.buffer; }

void buffer_element_type(abi::BufferElementType& args) {
  args.type = abi_type_of(args.buffer->type.element());
}

void buffer_dims(abi::BufferDimensions& args) {
  args.dims = args.buffer->dims.data();
  args.rank = args.buffer->dims.size();
}

void buffer_dynamic_dims(abi::BufferDynamicDimensions& args) {
  args.dims = nullptr;
  args.count = 0;
}

void buffer_layout(abi::BufferLayout& args) {
  abi::Layout& layout = args.layout;
  layout.struct_size = sizeof(abi::Layout);
  layout.extension = nullptr;
  layout.kind = abi::LayoutKind::kTiled;
  layout.tiled.struct_size = sizeof(abi::TiledLayout);
  layout.tiled.extension = nullptr;
  layout.tiled.minor_to_major = args.buffer->minor_to_major.data();
  layout.tiled.minor_to_major_size = args.buffer->minor_to_major.size();
  layout.tiled.tile_dims = nullptr;
  layout.tiled.tile_dim_sizes = nullptr;
  layout.tiled.tiles = 0;
}

void buffer_size(abi::BufferSize& args) { args.bytes = static_cast<size_t>(args.buffer->type.byte_count()); }
void buffer_device(abi::BufferDevice& args) { args.device = args.buffer->device; }
void buffer_memory(abi::BufferMemory& args) { args.memory = &args.buffer->device->memory; }
void buffer_delete(abi::BufferArgs& args) { args.buffer->remove(); }
void buffer_is_deleted(abi::BufferFlag& args) { args.flag = args.buffer->deleted(); }
void buffer_is_on_cpu(abi::BufferFlag& args) { args.flag = false; }
void buffer_to_device(abi::BufferToDevice& args) {
  require(args.device, "the device");
  args.copy = copy_to(*args.buffer, args.device);
}
void buffer_to_memory(abi::BufferToMemory& args) {
  require(args.memory, "the memory");
  args.copy = copy_to(*args.buffer, args.memory->device);
}

void buffer_to_host(abi::BufferToHost& args) {
  args.buffer->device->client->expect_not_forked();
  const std::shared_ptr<Array> array = args.buffer->live();
  const auto bytes = static_cast<size_t>(array->type.byte_count());
  if (!args.data) {
    args.size = bytes;
    return;
  }
  if (args.size < bytes)
    throw Fault(FaultKind::kInput, "pjrt.to_host",
                fmt::format("{} bytes of room for an array of {}", args.size, bytes));
  args.event = read_later(
      array, [data = args.data, order = order_of(args.host_layout, array->type.rank())](
                 const graph::Literal& value) { write_host(value.bytes(), value.type(), order, data); });
}

void buffer_raw_to_host(abi::BufferRawToHost& args) {
  args.buffer->device->client->expect_not_forked();
  const std::shared_ptr<Array> array = args.buffer->live();
  if (args.offset < 0 || args.size < 0 || args.offset > array->type.byte_count() - args.size)
    throw Fault(FaultKind::kInput, "pjrt.to_host",
                fmt::format("bytes {} to {} of an array of {}", args.offset, args.offset + args.size,
                            array->type.byte_count()));
  if (args.size > 0) require(args.data, "the host's memory");
  args.event = read_later(array, [args, order = args.buffer->minor_to_major](const graph::Literal& value) {
    const graph::Literal raw = in_memory(value, order);
    std::memcpy(args.data, raw.bytes().data() + args.offset, static_cast<size_t>(args.size));
  });
}

void buffer_ready_event(abi::BufferReadyEvent& args) { args.event = new Event{args.buffer->live()->ready}; }
// Where the host keeps the elements: it tells equal memory from other memory, which is what callers ask for.
void buffer_pointer(abi::BufferPointer& args) {
  const std::shared_ptr<Array> array = args.buffer->live();
  if (!array->order.empty())
    throw Fault(FaultKind::kNotModelled, "pjrt.pointer",
                fmt::format("an array in the layout {} has no pointer", to_text(array->order)),
                "copy it to the default layout");
  if (const auto& failed = array->ready->wait()) throw Failed{*failed};
  args.pointer = reinterpret_cast<uintptr_t>(array->pointer());
}

// What a pointer leads to outlives the deletion and the donation of the buffer while there are references.
void buffer_reference(abi::BufferArgs& args) { args.buffer->reference(); }
void buffer_dereference(abi::BufferArgs& args) { args.buffer->dereference(); }

}  // namespace opentrn::pjrt
