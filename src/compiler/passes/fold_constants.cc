#include <cstring>

#include "compiler/passes/passes.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::ElementType;
using graph::Literal;
using graph::Op;
using graph::OpId;
using graph::OpKind;

namespace {

// Integers and f32: what frameworks number things with. Others keep their op.
bool can_count_in(ElementType element) {
  return element == ElementType::kI32 || element == ElementType::kUI32 || element == ElementType::kI64 ||
         element == ElementType::kUI64 || element == ElementType::kF32;
}

template <typename T>
void put(std::vector<std::byte>& bytes, int64_t index, int64_t value) {
  const T typed = static_cast<T>(value);
  std::memcpy(bytes.data() + static_cast<size_t>(index) * sizeof(T), &typed, sizeof(T));
}

Literal counted(const graph::Type& type, int64_t axis) {
  std::vector<std::byte> bytes(static_cast<size_t>(type.byte_count()));
  int64_t inner = 1;
  for (int i = static_cast<int>(axis) + 1; i < type.rank(); ++i) inner *= type.dim(i);
  for (int64_t i = 0; i < type.element_count(); ++i) {
    const int64_t value = i / inner % type.dim(static_cast<int>(axis));
    switch (type.element()) {
      case ElementType::kI32:
      case ElementType::kUI32: put<uint32_t>(bytes, i, value); break;
      case ElementType::kF32: put<float>(bytes, i, value); break;
      default: put<uint64_t>(bytes, i, value); break;
    }
  }
  return {type, std::move(bytes)};
}

}  // namespace

void fold_constants(graph::Function& function) {
  for (size_t i = 0; i < function.op_count(); ++i) {
    Op& op = function.op(OpId{static_cast<uint32_t>(i)});
    if (op.kind != OpKind::iota_) continue;
    const graph::Type& type = function.type(op.results[0]);
    if (!type.is_static() || !can_count_in(type.element())) continue;
    Literal value = counted(type, op.integer(Attr::iota_dimension));
    op.kind = OpKind::constant_;
    op.attributes.clear();
    op.set(Attr::value, std::move(value));
  }
}

}  // namespace opentrn::compiler
