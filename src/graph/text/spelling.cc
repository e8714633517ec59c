#include "graph/text/spelling.h"

#include <bit>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/element_value.h"
#include "graph/text/hex.h"

namespace opentrn::graph::text {

namespace {

// More elements than this are written as raw bytes, as MLIR does by default.
constexpr int64_t kListMax = 100;

bool is_bare(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9') || name[0] == '.' || name[0] == '$') return false;
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
          c == '.' || c == '$'))
      return false;
  return true;
}

std::string with_point(std::string digits) {
  if (digits.find('.') != std::string::npos) return digits;
  const size_t exponent = digits.find('e');
  digits.insert(exponent == std::string::npos ? digits.size() : exponent, ".0");
  return digits;
}

bool comes_back(const std::string& digits, ElementType element, uint64_t bits) {
  std::byte bytes[8] = {};
  if (element == ElementType::kF32) {
    float value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return std::bit_cast<uint32_t>(value) == bits;
  }
  double value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  store_real(element, value, bytes);
  return load_bits(element, bytes) == bits;
}

std::string scalar(ElementType element, const std::byte* bytes) {
  if (is_complex(element)) {
    const ElementType part = real_part(element);
    return fmt::format("({},{})", spelled_real(part, bytes), spelled_real(part, bytes + storage_bytes(part)));
  }
  if (is_float(element)) return spelled_real(element, bytes);
  const int64_t value = load_integer(element, bytes);
  if (is_bool(element)) return value != 0 ? "true" : "false";
  return is_unsigned_integer(element) ? fmt::format("{}", static_cast<uint64_t>(value))
                                      : fmt::format("{}", value);
}

void append_list(const Literal& literal, int axis, int64_t& at, std::string& to) {
  const Type& type = literal.type();
  to += '[';
  for (int64_t i = 0; i < type.dim(axis); ++i) {
    if (i > 0) to += ", ";
    if (axis + 1 < type.rank()) {
      append_list(literal, axis + 1, at, to);
    } else {
      to += scalar(type.element(), literal.element(at++));
    }
  }
  to += ']';
}

// i32 attributes that programs carry; all others are written as i64.
bool is_i32_key(std::string_view key) {
  return key == "mhlo.num_partitions" || key == "mhlo.num_replicas" || key == "tf.aliasing_output";
}

std::string spelled_double(double value) {
  return spelled_real(ElementType::kF64, reinterpret_cast<const std::byte*>(&value));
}

}  // namespace

std::string spelled_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c >= ' ' && c < 127 && c != '"') {
      out += c;
    } else {
      out += fmt::format("\\{:02X}", static_cast<uint8_t>(c));
    }
  }
  return out + '"';
}

std::string spelled_symbol(std::string_view name) {
  std::string out;
  // outer::@inner has a symbol on either side.
  for (size_t mark = 0; (mark = name.find("::@")) != std::string_view::npos; name.remove_prefix(mark + 3))
    out += spelled_symbol(name.substr(0, mark)) + "::";
  return out + "@" + (is_bare(name) ? std::string(name) : spelled_string(name));
}

std::string spelled_key(std::string_view key) {
  return is_bare(key) ? std::string(key) : spelled_string(key);
}

std::string spelled_real(ElementType element, const std::byte* bytes) {
  const double value = load_real(element, bytes);
  const uint64_t bits = load_bits(element, bytes);
  if (!std::isfinite(value)) {
    const bool tf32 = element == ElementType::kTF32;
    return fmt::format("0x{:0{}X}", tf32 ? bits >> 13 : bits, tf32 ? 5 : (bit_width(element) + 3) / 4);
  }
  std::string digits = fmt::format("{:.6e}", value);
  if (comes_back(digits, element, bits)) return digits;
  return with_point(element == ElementType::kF64 ? fmt::format("{}", value)
                                                 : fmt::format("{}", static_cast<float>(value)));
}

std::string spelled_literal(const Literal& literal, const PrintOptions& options) {
  const Type& type = literal.type();
  const int64_t count = type.element_count();
  std::string data = "dense<";
  if (options.elide_larger >= 0 && count > options.elide_larger && !literal.is_splat())
    return fmt::format("dense_resource<__elided__> : {}", type.to_string());
  if (count == 0) {
    // nothing between the brackets
  } else if (literal.is_splat()) {
    data += scalar(type.element(), literal.element(0));
  } else if (count > kListMax && bit_width(type.element()) >= 8 && type.element() != ElementType::kTF32) {
    data.reserve(literal.bytes().size() * 2 + 64);
    data += "\"0x";
    append_hex(literal.bytes(), data);
    data += '"';
  } else {
    int64_t at = 0;
    append_list(literal, 0, at, data);
  }
  // Appended, not formatted: the data may be hundreds of megabytes.
  data += "> : " + type.to_string();
  return data;
}

std::string spelled_integers(std::span<const int64_t> values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ", ";
    out += values[i] == kDynamic ? "?" : fmt::format("{}", values[i]);
  }
  return out + "]";
}

std::string spelled_attribute(std::string_view key, const Attribute& value, const PrintOptions& options) {
  if (value.get<Unit>()) return "unit";
  if (const auto* truth = value.get<bool>()) return *truth ? "true" : "false";
  if (const auto* number = value.get<int64_t>())
    return fmt::format("{} : {}", *number, is_i32_key(key) ? "i32" : "i64");
  if (const auto* real = value.get<double>()) return spelled_double(*real) + " : f64";
  if (const auto* text = value.get<std::string>()) return spelled_string(*text);
  if (const auto* integers = value.get<std::vector<int64_t>>()) {
    const char* element = key.ends_with("SegmentSizes") ? "i32" : "i64";
    if (integers->empty()) return fmt::format("array<{}>", element);
    return fmt::format("array<{}: {}>", element, fmt::join(*integers, ", "));
  }
  if (const auto* matrix = value.get<IntMatrix>()) {
    std::string rows;
    for (int64_t row = 0; row < matrix->rows; ++row) {
      rows += row > 0 ? ", [" : "[";
      for (int64_t column = 0; column < matrix->columns; ++column)
        rows += fmt::format("{}{}", column > 0 ? ", " : "", matrix->at(row, column));
      rows += "]";
    }
    if (matrix->values.empty())
      rows.clear();
    else
      rows = fmt::format("[{}]", rows);
    return fmt::format("dense<{}> : tensor<{}x{}xi64>", rows, matrix->rows, matrix->columns);
  }
  if (const auto* literal = value.get<Literal>()) return spelled_literal(*literal, options);
  if (const auto* type = value.get<Type>()) return type->to_string();
  if (const auto* symbol = value.get<SymbolRef>()) return spelled_symbol(symbol->name);
  if (const auto* opaque = value.get<Opaque>()) return opaque->text;
  if (const auto* list = value.as_list()) {
    std::vector<std::string> parts;
    for (const Attribute& each : *list) parts.push_back(spelled_attribute(key, each, options));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  return spelled_dictionary(*value.as_dictionary(), options);
}

std::string spelled_dictionary(const Dictionary& entries, const PrintOptions& options) {
  std::string out = "{";
  for (const auto& [key, value] : entries) {
    if (out.size() > 1) out += ", ";
    out += spelled_key(key);
    if (!value.get<Unit>()) out += " = " + spelled_attribute(key, value, options);
  }
  return out + "}";
}

std::string spelled_location(const Location& location) {
  const std::string place = location.file.empty() ? ""
                                                  : fmt::format("{}:{}:{}", spelled_string(location.file),
                                                                location.line, location.column);
  if (location.name.empty()) return fmt::format("loc({})", place.empty() ? "unknown" : place);
  return place.empty() ? fmt::format("loc({})", spelled_string(location.name))
                       : fmt::format("loc({}({}))", spelled_string(location.name), place);
}

}  // namespace opentrn::graph::text
