// The layouts extension.
#include <fmt/format.h>

#include "pjrt/element.h"
#include "pjrt/entries.h"
#include "pjrt/layouts.h"

namespace opentrn::pjrt {

MinorToMajor order_of(const abi::Layout* layout, int64_t rank) {
  if (!layout) return {};
  if (layout->kind != abi::LayoutKind::kTiled || layout->tiled.tiles != 0)
    throw Fault(FaultKind::kNotModelled, "pjrt.layout", "a layout of tiles or byte strides is not taken",
                "give an order of dimensions");
  MinorToMajor order(layout->tiled.minor_to_major,
                     layout->tiled.minor_to_major + layout->tiled.minor_to_major_size);
  if (!is_order(order, rank))
    throw Fault(FaultKind::kInput, "pjrt.layout",
                fmt::format("the layout {} of an array of {} dimensions", to_text(order), rank),
                "name each dimension once");
  return order;
}

void layout_destroy(abi::LayoutArgs& args) { delete args.layout; }

void layout_serialize(abi::LayoutSerialized& args) {
  args.bytes = args.layout->text.data();
  args.size = args.layout->text.size();
  args.owner = args.layout;  // which the caller keeps for longer
  args.deleter = [](void*) {};
}

void client_default_layout(abi::DefaultLayout& args) {
  element_of(args.type);  // refuses what no device holds
  args.layout = new MemoryLayout{to_text(row_major(static_cast<int64_t>(args.rank)))};
}

void buffer_memory_layout(abi::BufferMemoryLayout& args) {
  args.layout = new MemoryLayout{to_text(args.buffer->minor_to_major)};
}

void executable_parameter_layouts(abi::ExecutableLayouts& args) {
  args.count = args.executable->parameter_layouts.pointers.size();
  args.layouts = args.executable->parameter_layouts.pointers.data();
}

void executable_output_layouts(abi::ExecutableLayouts& args) {
  args.count = args.executable->output_layouts.pointers.size();
  args.layouts = args.executable->output_layouts.pointers.data();
}

}  // namespace opentrn::pjrt
