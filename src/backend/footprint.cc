#include "backend/footprint.h"

#include <algorithm>

namespace opentrn::backend {

namespace {

// Positions of `f` modulo `pitch` as one interval [begin, begin + length), if its larger steps are
// multiples of the pitch and the rest fits without wrapping round.
struct Residue {
  bool valid = false;
  int64_t begin = 0;
  int64_t length = 0;
};

Residue residue(const Footprint& f, int64_t pitch) {
  int64_t length = f.steps->run_elements * f.element_bytes;
  for (int i = 0; i < f.steps->count; ++i) {
    const Steps::Step& step = f.steps->steps[static_cast<size_t>(i)];
    const int64_t bytes = step.elements * f.element_bytes;
    if (bytes >= pitch) {
      if (bytes % pitch != 0) return {};
    } else {
      length += bytes * (step.count - 1);
    }
  }
  const int64_t begin = f.byte_begin % pitch;
  return {begin + length <= pitch, begin, length};
}

bool disjoint_modulo(const Footprint& a, const Footprint& b, int64_t pitch) {
  const Residue ra = residue(a, pitch);
  if (!ra.valid) return false;
  const Residue rb = residue(b, pitch);
  return rb.valid && (ra.begin + ra.length <= rb.begin || rb.begin + rb.length <= ra.begin);
}

}  // namespace

bool may_overlap(const Footprint& a, const Footprint& b) {
  if (a.moved_by != 0 && a.moved_by == b.moved_by) return may_overlap(a.unmoved(), b.unmoved());
  if (a.row_end <= b.row_begin || b.row_end <= a.row_begin) return false;
  if (a.byte_end <= b.byte_begin || b.byte_end <= a.byte_begin) return false;
  if (a.dense || b.dense || a.steps == nullptr || b.steps == nullptr) return true;
  for (const Footprint* f : {&a, &b})
    for (int i = 0; i < f->steps->count; ++i)
      if (disjoint_modulo(a, b, f->steps->steps[static_cast<size_t>(i)].elements * f->element_bytes))
        return false;
  return true;
}

const FootprintReader::Shape& FootprintReader::shape_of(isa::PatternId id, bool on_chip) {
  std::vector<Shape>& shapes = on_chip ? on_chip_ : flat_;
  OPENTRN_CHECK(id < shapes.size(), "pattern {} was interned after the reader was made", id);
  Shape& shape = shapes[id];
  if (shape.known) return shape;
  shape.known = true;
  const isa::Pattern& pattern = program_.pattern(id);
  const int first = on_chip && pattern.rank > 0 ? 1 : 0;
  if (first == 1) {
    const isa::Dim& rows = pattern.dims[0];
    shape.row_step = rows.count > 1 ? rows.step : 0;
    shape.row_min = std::min<int64_t>(0, rows.step * (rows.count - 1));
    shape.row_max = std::max<int64_t>(0, rows.step * (rows.count - 1));
  }
  Steps& steps = shape.steps;
  for (int i = first; i < pattern.rank; ++i) {
    const isa::Dim& dim = pattern.dims[static_cast<size_t>(i)];
    shape.free_min += std::min<int64_t>(0, dim.step * (dim.count - 1));
    shape.free_max += std::max<int64_t>(0, dim.step * (dim.count - 1));
    if (dim.count > 1 && dim.step != 0) steps.steps[steps.count++] = {std::abs(dim.step), dim.count};
  }
  const auto begin = steps.steps.begin();
  std::sort(begin, begin + steps.count, [](const auto& a, const auto& b) { return a.elements > b.elements; });
  while (steps.count > 0 && steps.steps[steps.count - 1u].elements <= steps.run_elements) {
    const Steps::Step inner = steps.steps[--steps.count];
    steps.run_elements += inner.elements * (inner.count - 1);
  }
  shape.dense = steps.count == 0;
  return shape;
}

Footprint FootprintReader::read(const isa::Operand& operand) {
  const isa::Tensor& tensor = program_.tensor(operand.tensor);
  const bool on_chip = isa::is_on_chip(tensor.space);
  const Shape& shape = shape_of(operand.pattern, on_chip);
  const int64_t element = size_bytes(operand.dtype);
  Footprint f;
  f.steps = &shape.steps;
  f.element_bytes = static_cast<int32_t>(element);
  f.dense = shape.dense;
  int64_t free_offset = operand.offset;
  if (on_chip) {
    const int64_t row_elements = std::max<int64_t>(1, tensor.row_bytes() / element);
    const int64_t row = operand.offset / row_elements;
    free_offset = operand.offset - row * row_elements;
    f.row_begin = static_cast<int32_t>(row + shape.row_min / row_elements);
    f.row_end = static_cast<int32_t>(row + shape.row_max / row_elements + 1);
    f.dense = f.dense && std::abs(shape.row_step) <= row_elements;
  } else {
    f.row_end = 1;
  }
  f.byte_begin = (free_offset + shape.free_min) * element;
  f.byte_end = (free_offset + shape.free_max + 1) * element;
  if (operand.indirect != isa::kNoIndirect) widen(operand, f);
  return f;
}

void FootprintReader::widen(const isa::Operand& operand, Footprint& f) const {
  const isa::Tensor& tensor = program_.tensor(operand.tensor);
  const isa::Indirect& indirect = program_.indirect(operand);
  const bool on_chip = isa::is_on_chip(tensor.space);
  const int64_t limit = on_chip ? tensor.row_bytes() : tensor.bytes();
  const bool by_register =
      indirect.kind == isa::IndirectKind::kScalar && indirect.index.kind == isa::OperandKind::kRegister;
  const Footprint before = f;
  f.dense = false;
  f.steps = nullptr;
  const bool bounded = !on_chip && indirect.kind != isa::IndirectKind::kTensor && indirect.bound > 0;
  if (bounded) {
    if (by_register) {
      f.unmoved_end = before.byte_end;
      f.unmoved_steps = before.steps;
      f.unmoved_dense = before.dense;
    }
    f.byte_end =
        std::min(limit, f.byte_end + (indirect.bound - 1) * indirect.stride * size_bytes(operand.dtype));
    return;
  }
  if (on_chip && indirect.kind != isa::IndirectKind::kTensor) {
    f.row_begin = 0;
    f.row_end = static_cast<int32_t>(tensor.rows);
  }
  f.byte_begin = 0;
  f.byte_end = limit;
}

}  // namespace opentrn::backend
