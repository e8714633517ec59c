#include "compiler/lowering/literal_number.h"

#include <cstring>

#include "numerics/float_format.h"

namespace opentrn::compiler {

using graph::ElementType;

namespace {

template <typename T>
double read(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

}  // namespace

std::optional<double> number_of(ElementType element, const std::byte* bytes) {
  const auto coded = [&](const numerics::FloatFormat& format) -> double {
    return format.bits() > 8 ? numerics::decode(format, static_cast<uint32_t>(read<uint16_t>(bytes)))
                             : numerics::decode(format, static_cast<uint32_t>(read<uint8_t>(bytes)));
  };
  switch (element) {
    case ElementType::kI1:
    case ElementType::kUI2:
    case ElementType::kUI4:
    case ElementType::kUI8: return read<uint8_t>(bytes);
    case ElementType::kI2:
    case ElementType::kI4:
    case ElementType::kI8: return read<int8_t>(bytes);
    case ElementType::kI16: return read<int16_t>(bytes);
    case ElementType::kI32: return read<int32_t>(bytes);
    case ElementType::kI64:
    case ElementType::kIndex: return read<int64_t>(bytes);
    case ElementType::kUI16: return read<uint16_t>(bytes);
    case ElementType::kUI32: return read<uint32_t>(bytes);
    case ElementType::kUI64: return read<uint64_t>(bytes);
    case ElementType::kF8E3M4: return coded(numerics::kFormatFloat8E3M4);
    case ElementType::kF8E4M3: return coded(numerics::kFormatFloat8E4M3);
    case ElementType::kF8E4M3FN: return coded(numerics::kFormatFloat8E4M3Fn);
    case ElementType::kF8E5M2: return coded(numerics::kFormatFloat8E5M2);
    case ElementType::kBF16: return coded(numerics::kFormatBFloat16);
    case ElementType::kF16: return coded(numerics::kFormatFloat16);
    case ElementType::kTF32:
    case ElementType::kF32: return read<float>(bytes);
    case ElementType::kF64: return read<double>(bytes);
    default: return std::nullopt;
  }
}

std::optional<double> splat_value(const graph::Literal& literal) {
  if (!literal.is_splat()) return std::nullopt;
  return number_of(literal.type().element(), literal.bytes().data());
}

}  // namespace opentrn::compiler
