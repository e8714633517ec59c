#include "compiler/analysis/device_type.h"

#include "compiler/analysis/graph_names.h"

namespace opentrn::compiler {

std::optional<DType> device_dtype(ElementType element) {
  switch (element) {
    case ElementType::kI1:
    case ElementType::kUI2:
    case ElementType::kUI4: return DType::kUint8;
    case ElementType::kI2:
    case ElementType::kI4: return DType::kInt8;
    case ElementType::kI64:
    case ElementType::kIndex: return DType::kInt32;
    case ElementType::kUI64: return DType::kUint32;
    case ElementType::kF64: return DType::kFloat32;
    default: return graph::to_dtype(element);
  }
}

bool is_narrowed(ElementType element) {
  return element == ElementType::kI64 || element == ElementType::kUI64 || element == ElementType::kIndex ||
         element == ElementType::kF64 || element == ElementType::kComplexF64;
}

}  // namespace opentrn::compiler
