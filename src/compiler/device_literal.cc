#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/compile.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

template <typename Wide, typename Narrow>
std::optional<std::string> first_beyond(std::span<const std::byte> bytes) {
  for (size_t i = 0; i + sizeof(Wide) <= bytes.size(); i += sizeof(Wide)) {
    Wide value;
    std::memcpy(&value, bytes.data() + i, sizeof(value));
    if (!std::in_range<Narrow>(value)) return fmt::format("{}", value);
  }
  return std::nullopt;
}

template <typename From, typename To>
std::vector<std::byte> converted(std::span<const std::byte> bytes) {
  std::vector<std::byte> result(bytes.size() / sizeof(From) * sizeof(To));
  for (size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From from;
    std::memcpy(&from, bytes.data() + i * sizeof(From), sizeof(From));
    const To to = static_cast<To>(from);
    std::memcpy(result.data() + i * sizeof(To), &to, sizeof(To));
  }
  return result;
}

// The upper bits of a byte that holds a smaller integer are the host's own; the device reads all of them.
std::vector<std::byte> extended(const graph::Literal& literal) {
  std::vector<std::byte> result(literal.bytes().begin(), literal.bytes().end());
  for (std::byte& byte : result)
    graph::store_integer(literal.type().element(), std::to_integer<int64_t>(byte), &byte);
  return result;
}

}  // namespace

std::vector<std::byte> to_device(const graph::Literal& literal) {
  switch (literal.type().element()) {
    case ElementType::kI64:
    case ElementType::kIndex:
    case ElementType::kUI64: return converted<uint64_t, uint32_t>(literal.bytes());
    case ElementType::kComplexF64:
    case ElementType::kF64: return converted<double, float>(literal.bytes());
    case ElementType::kI2:
    case ElementType::kI4:
    case ElementType::kUI2:
    case ElementType::kUI4: return extended(literal);
    default: return {literal.bytes().begin(), literal.bytes().end()};
  }
}

std::optional<std::string> beyond_device(const graph::Literal& literal) {
  switch (literal.type().element()) {
    case ElementType::kI64: return first_beyond<int64_t, int32_t>(literal.bytes());
    case ElementType::kUI64: return first_beyond<uint64_t, uint32_t>(literal.bytes());
    default: return std::nullopt;
  }
}

bool same_on_device(ElementType element) { return !is_narrowed(element); }

graph::Literal from_device(const graph::Type& type, std::span<const std::byte> bytes) {
  switch (type.element()) {
    case ElementType::kI64:
    case ElementType::kIndex: return {type, converted<int32_t, int64_t>(bytes)};
    case ElementType::kUI64: return {type, converted<uint32_t, uint64_t>(bytes)};
    case ElementType::kComplexF64:
    case ElementType::kF64: return {type, converted<float, double>(bytes)};
    default: return {type, std::vector<std::byte>(bytes.begin(), bytes.end())};
  }
}

}  // namespace opentrn::compiler
