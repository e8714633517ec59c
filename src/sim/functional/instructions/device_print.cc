// device_print.
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "sim/functional/instructions/body.h"
#include "sim/functional/rows.h"

namespace opentrn::sim::bodies {

namespace {

constexpr int64_t kShownElementsMax = 1000;  // longer tensors show the ends of each dimension
constexpr int64_t kShownPerEnd = 3;

std::string element_text(DType dtype, const std::byte* at) {
  if (is_packed_x4(dtype)) {
    uint64_t bits = 0;
    std::memcpy(&bits, at, static_cast<size_t>(size_bytes(dtype)));
    return fmt::format("0x{:0{}x}", bits, 2 * size_bytes(dtype));
  }
  if (is_integer(dtype) || dtype == DType::kBool) {
    int64_t value;
    numerics::load_i64(dtype, at, 1, &value, 1);
    return dtype == DType::kUint64 ? fmt::format("{}", static_cast<uint64_t>(value))
                                   : fmt::format("{}", value);
  }
  if (dtype == DType::kFloat64) {
    double value;
    std::memcpy(&value, at, sizeof value);
    return fmt::format("{}", value);
  }
  float value;
  numerics::load_f32(dtype, at, &value, 1);
  return fmt::format("{}", value);
}

void append_array(std::string& text, DType dtype, std::span<const int64_t> shape, const std::byte*& at,
                  bool abridge, int depth) {
  if (shape.empty()) {
    text += element_text(dtype, at);
    at += size_bytes(dtype);
    return;
  }
  int64_t inner_bytes = size_bytes(dtype);
  for (size_t d = 1; d < shape.size(); ++d) inner_bytes *= shape[d];
  text += '[';
  for (int64_t i = 0; i < shape[0]; ++i) {
    if (i > 0) {
      text += shape.size() == 1 ? ", " : ",\n";
      if (shape.size() > 1) text.append(static_cast<size_t>(depth) + 1, ' ');
    }
    if (abridge && i == kShownPerEnd && shape[0] > 2 * kShownPerEnd) {
      const int64_t hidden = shape[0] - 2 * kShownPerEnd;
      text += "...";
      at += hidden * inner_bytes;
      i += hidden - 1;
      continue;
    }
    append_array(text, dtype, shape.subspan(1), at, abridge, depth + 1);
  }
  text += ']';
}

}  // namespace

void device_print(Context& cx) {
  using namespace isa::slot::device_print;
  const View view = cx.source(kTensor);
  const int64_t text = cx.integer(kAText);
  if (text < 0 || static_cast<size_t>(text) >= cx.program.string_count())
    cx.broken("attribute", fmt::format("string {} does not exist", text));
  const PrintCallback& callback = cx.print_callback();
  if (!callback) return;
  PrintEvent event;
  event.text = cx.program.string(static_cast<uint32_t>(text));
  event.tensor_name = cx.program.tensor(view.tensor).name;
  event.dtype = view.dtype;
  for (const isa::Dim& dim : cx.program.pattern(cx.operand(kTensor)).view()) event.shape.push_back(dim.count);
  const View dense = cx.snapshot(view);
  event.values.assign(dense.base, dense.base + view.total() * view.element_bytes);
  event.location = cx.program.location(cx.in.location < cx.program.location_count() ? cx.in.location : 0);
  event.formatted = std::string(event.text);
  if (!event.formatted.empty()) event.formatted += '\n';
  const std::byte* at = event.values.data();
  append_array(event.formatted, view.dtype, event.shape, at, view.total() > kShownElementsMax, 0);
  callback(event);
}

}  // namespace opentrn::sim::bodies
