#include "import/onnx/tensor.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/element_value.h"
#include "import/onnx/onnx.h"

namespace opentrn::import::onnx {

using graph::ElementType;
using graph::Literal;
using graph::Type;

namespace {

struct Row {
  DataType type;
  ElementType element;
};

constexpr Row kTypes[] = {
    {DataType::kFloat, ElementType::kF32},
    {DataType::kUint8, ElementType::kUI8},
    {DataType::kInt8, ElementType::kI8},
    {DataType::kUint16, ElementType::kUI16},
    {DataType::kInt16, ElementType::kI16},
    {DataType::kInt32, ElementType::kI32},
    {DataType::kInt64, ElementType::kI64},
    {DataType::kBool, ElementType::kI1},
    {DataType::kFloat16, ElementType::kF16},
    {DataType::kDouble, ElementType::kF64},
    {DataType::kUint32, ElementType::kUI32},
    {DataType::kUint64, ElementType::kUI64},
    {DataType::kComplex64, ElementType::kComplexF32},
    {DataType::kComplex128, ElementType::kComplexF64},
    {DataType::kBFloat16, ElementType::kBF16},
    {DataType::kFloat8E4M3Fn, ElementType::kF8E4M3FN},
    {DataType::kFloat8E4M3Fnuz, ElementType::kF8E4M3FNUZ},
    {DataType::kFloat8E5M2, ElementType::kF8E5M2},
    {DataType::kFloat8E5M2Fnuz, ElementType::kF8E5M2FNUZ},
    {DataType::kUint4, ElementType::kUI4},
    {DataType::kInt4, ElementType::kI4},
    {DataType::kFloat4E2M1, ElementType::kF4E2M1FN},
    {DataType::kFloat8E8M0, ElementType::kF8E8M0FNU},
    {DataType::kUint2, ElementType::kUI2},
    {DataType::kInt2, ElementType::kI2},
};

[[noreturn]] void malformed(const Tensor& tensor, std::string message) {
  throw Fault(FaultKind::kInput, "onnx.tensor", fmt::format("tensor '{}': {}", tensor.name, message));
}

// Several elements per byte, the first in the low bits.
std::vector<std::byte> unpacked(const Tensor& tensor, std::span<const std::byte> packed, ElementType element,
                                int64_t count) {
  const int bits = graph::bit_width(element);
  const int64_t per_byte = 8 / bits;
  const int64_t wanted = count / per_byte + (count % per_byte != 0);
  if (static_cast<int64_t>(packed.size()) != wanted)
    malformed(tensor, fmt::format("{} bytes of data for {} elements of {} bits", packed.size(), count, bits));
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  const bool sign = graph::is_signed_integer(element);
  for (int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(packed[static_cast<size_t>(i / per_byte)]);
    const int code = (byte >> (bits * (i % per_byte))) & ((1 << bits) - 1);
    if (sign)
      graph::store_integer(element, code, &bytes[static_cast<size_t>(i)]);
    else
      bytes[static_cast<size_t>(i)] = static_cast<std::byte>(code);
  }
  return bytes;
}

std::vector<std::byte> booleans(std::span<const std::byte> raw) {
  std::vector<std::byte> bytes(raw.size());
  std::transform(raw.begin(), raw.end(), bytes.begin(),
                 [](std::byte b) { return std::byte{b != std::byte{0}}; });
  return bytes;
}

template <typename T>
std::vector<std::byte> copied(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// int32_data holds every type of at most 32 bits, one element (of packed types: one byte) per entry.
std::vector<std::byte> narrowed(const Tensor& tensor, const Type& type) {
  const auto size = static_cast<size_t>(graph::storage_bytes(type.element()));
  std::vector<std::byte> bytes;
  for (const int32_t value : tensor.int32s) {
    std::byte one[4];
    std::memcpy(one, &value, 4);
    bytes.insert(bytes.end(), one, one + std::min<size_t>(size, 4));
  }
  return bytes;
}

std::vector<std::byte> listed(const Tensor& tensor, const Type& type) {
  switch (type.element()) {
    case ElementType::kF32:
    case ElementType::kComplexF32: return copied(tensor.floats);
    case ElementType::kF64:
    case ElementType::kComplexF64: return copied(tensor.doubles);
    case ElementType::kI64: return copied(tensor.int64s);
    case ElementType::kUI64: return copied(tensor.uint64s);
    case ElementType::kUI32: {
      const std::vector<uint32_t> values(tensor.uint64s.begin(), tensor.uint64s.end());
      return copied(values);
    }
    default: return narrowed(tensor, type);
  }
}

}  // namespace

ElementType element_type(DataType type) {
  for (const Row& row : kTypes)
    if (row.type == type) return row.element;
  if (type == DataType::kString)
    throw Fault(FaultKind::kNotModelled, "onnx.string", "a device holds no tensors of strings",
                "cut the part that handles text off the model");
  throw Fault(FaultKind::kInput, "onnx.type",
              fmt::format("{} is not an element type", static_cast<int>(type)));
}

DataType data_type(ElementType element) {
  for (const Row& row : kTypes)
    if (row.element == element) return row.type;
  return DataType::kUndefined;
}

graph::Type tensor_type(const Tensor& tensor) {
  for (const int64_t dim : tensor.dims)
    if (dim < 0) malformed(tensor, fmt::format("a dimension is {}", dim));
  return Type::tensor(element_type(tensor.data_type), tensor.dims);
}

std::span<const std::byte> TensorReader::external_bytes(const Tensor& tensor,
                                                        std::shared_ptr<const void>& owner) {
  const DataRange range = declared_range(tensor);
  const auto offset = static_cast<size_t>(range.offset), bytes = static_cast<size_t>(range.bytes);
  if (const auto given = files_.find(range.location); given != files_.end()) {
    for (const Options::File& file : given->second) {
      if (offset < file.begin || offset - file.begin > file.bytes.size()) continue;
      const size_t at = offset - file.begin;
      if (bytes > file.bytes.size() - at) continue;
      owner = file.owner;
      return file.bytes.subspan(at, bytes);
    }
  }
  auto& file = open_[range.location];
  if (!file) file = folder_.open(range.location, tensor.name);
  const size_t size = file->bytes().size();
  if (offset > size || bytes > size - offset)
    throw Fault(FaultKind::kInput, "onnx.external_data",
                fmt::format("tensor '{}': {} bytes at {} pass the {} bytes of '{}'", tensor.name, bytes,
                            offset, size, range.location),
                "the file is of another model, or was not copied to its end");
  owner = file;
  return file->bytes().subspan(offset, bytes);
}

Literal TensorReader::literal(const Tensor& tensor) {
  const Type type = tensor_type(tensor);
  const int64_t count = type.element_count();
  std::shared_ptr<const void> owner = owner_;
  std::span<const std::byte> raw = tensor.raw;
  std::vector<std::byte> list;
  const bool packed = graph::bit_width(type.element()) < 8 && type.element() != ElementType::kI1;
  if (tensor.external) {
    raw = external_bytes(tensor, owner);
  } else if (!tensor.has_raw) {
    list = listed(tensor, type);
    if (!packed) {
      if (static_cast<int64_t>(list.size()) != type.byte_count())
        malformed(tensor, fmt::format("{} bytes of data for {}", list.size(), type.to_string()));
      return {type, type.element() == ElementType::kI1 ? booleans(list) : std::move(list)};
    }
    raw = list;
  }
  if (packed) return {type, unpacked(tensor, raw, type.element(), count)};
  if (static_cast<int64_t>(raw.size()) != type.byte_count())
    malformed(tensor, fmt::format("{} bytes of data for {}", raw.size(), type.to_string()));
  if (type.element() == ElementType::kI1) return {type, booleans(raw)};
  return {type, raw, std::move(owner)};
}

}  // namespace opentrn::import::onnx
