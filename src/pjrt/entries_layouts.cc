// The layouts extension.
#include "pjrt/element.h"
#include "pjrt/entries.h"
#include "pjrt/layouts.h"

namespace opentrn::pjrt {

void layout_destroy(abi::LayoutArgs& args) { delete args.layout; }

void layout_serialize(abi::LayoutSerialized& args) {
  args.bytes = args.layout->text.data();
  args.size = args.layout->text.size();
  args.owner = args.layout;  // which the caller keeps for longer
  args.deleter = [](void*) {};
}

void client_default_layout(abi::DefaultLayout& args) {
  element_of(args.type);  // refuses what no device holds
  args.layout = new MemoryLayout{row_major(static_cast<int64_t>(args.rank))};
}

void buffer_memory_layout(abi::BufferMemoryLayout& args) {
  args.layout = new MemoryLayout{row_major(args.buffer->type.rank())};
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
