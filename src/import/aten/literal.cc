// Numbers, types and lists as MLIR's text has them, and what torch means by its arguments.
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "import/aten/body.h"
#include "numerics/convert.h"

namespace opentrn::import::aten {

namespace {

[[noreturn]] void refuse(const std::string& label, const std::string& message, const std::string& hint = "") {
  throw Fault(FaultKind::kNotModelled, label, message, hint);
}

std::string hex(uint64_t bits, int bytes) { return fmt::format("0x{:0{}X}", bits, 2 * bytes); }

// Through float, as torch rounds a number to a narrow type.
uint64_t bits_of_half(float value) {
  if (std::isnan(value)) return std::signbit(value) ? 0xFE00 : 0x7E00;
  return numerics::from_float(DType::kFloat16, value);
}

uint64_t bits_of_bfloat(float value) {
  if (std::isnan(value)) return 0x7FC0;
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
}

std::string float_literal(double value, ElementType dtype) {
  switch (graph::storage_bytes(dtype)) {
    case 1: return hex(torch().byte_of(value, dtype), 1);
    case 2: {
      const auto narrow = static_cast<float>(value);
      return hex(dtype == ElementType::kBF16 ? bits_of_bfloat(narrow) : bits_of_half(narrow), 2);
    }
    case 4: return hex(std::bit_cast<uint32_t>(static_cast<float>(value)), 4);
    default: return hex(std::bit_cast<uint64_t>(value), 8);
  }
}

// Without its fraction.
int64_t whole_of(const Number& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  const double real = std::get<double>(value);
  if (!(std::abs(real) < 0x1p63))
    refuse("torch.range", fmt::format("{:.0f} does not fit the whole numbers that the device has", real));
  return static_cast<int64_t>(real);
}

std::string integer_literal(const Number& value, ElementType dtype) {
  const auto [low, high] = integer_range(dtype);
  int64_t whole = whole_of(value);
  if (whole < low || whole > static_cast<int64_t>(high)) {
    if (graph::storage_bytes(dtype) == 8)
      refuse("torch.range",
             fmt::format("{} does not fit the 32 bits that the device has for torch.{}int64", whole,
                         low < 0 ? "" : "u"),
             "keep whole numbers below 2^31 on the device");
    // The low bits: every range here is a power of two.
    const auto first = static_cast<uint64_t>(low);
    whole = low + static_cast<int64_t>((static_cast<uint64_t>(whole) - first) & (high - first));
  }
  return fmt::to_string(whole);
}

}  // namespace

std::string literal(const Number& value, ElementType dtype) {
  const auto* complex = std::get_if<std::complex<double>>(&value);
  if (dtype == ElementType::kI1) {
    if (complex) return *complex != 0.0 ? "true" : "false";
    return equals(value, 0) ? "false" : "true";
  }
  if (graph::is_complex(dtype)) {
    const ElementType part = graph::real_part(dtype);
    const auto number = complex ? *complex : std::complex<double>(real_of(value));
    return fmt::format("({}, {})", float_literal(number.real(), part), float_literal(number.imag(), part));
  }
  if (complex)
    refuse("torch.type", fmt::format("({}{:+}j) is complex, and {} has no such numbers", complex->real(),
                                     complex->imag(), graph::name(dtype)));
  return graph::is_float(dtype) ? float_literal(real_of(value), dtype) : integer_literal(value, dtype);
}

Torch& torch() {
  static Torch settings;
  return settings;
}

double real_of(const Number& number) {
  if (const auto* whole = std::get_if<int64_t>(&number)) return static_cast<double>(*whole);
  if (const auto* flag = std::get_if<bool>(&number)) return *flag ? 1 : 0;
  if (const auto* real = std::get_if<double>(&number)) return *real;
  return std::get<std::complex<double>>(number).real();
}

bool equals(const Number& number, double other) {
  if (const auto* complex = std::get_if<std::complex<double>>(&number)) return *complex == other;
  return real_of(number) == other;
}

bool holds(ElementType dtype, const Number& number) {
  const auto wide = static_cast<float>(real_of(number));
  const float narrow = dtype == ElementType::kBF16
                           ? std::bit_cast<float>(static_cast<uint32_t>(bits_of_bfloat(wide)) << 16)
                           : numerics::to_float(DType::kFloat16, bits_of_half(wide));
  return std::isnan(wide) || narrow == wide;
}

std::string type_text(const Shape& shape, ElementType dtype) {
  std::string text = "tensor<";
  for (const int64_t size : shape) text += fmt::to_string(size) + "x";
  return text.append(graph::name(dtype)) + ">";
}

std::string numbers(const Shape& values) {
  return values.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

std::string pairs(const Pairs& values) {
  if (values.empty()) return "dense<> : tensor<0x2xi64>";
  std::string text;
  for (const auto& [low, high] : values)
    text += fmt::format("{}[{}, {}]", text.empty() ? "" : ", ", low, high);
  return fmt::format("dense<[{}]> : tensor<{}x2xi64>", text, values.size());
}

std::string list_text(const Shape& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

int64_t size_of(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

bool is_empty(const Shape& shape) { return has(shape, 0); }

bool has(const Shape& values, int64_t value) {
  for (const int64_t each : values)
    if (each == value) return true;
  return false;
}

Shape counted_up(int64_t count) {
  Shape values;
  for (int64_t i = 0; i < count; ++i) values.push_back(i);
  return values;
}

Shape broadcast_shape(const std::vector<Shape>& shapes) {
  Shape made;
  for (const Shape& shape : shapes) {
    if (shape.size() > made.size()) made.insert(made.begin(), shape.size() - made.size(), 1);
    const size_t first = made.size() - shape.size();
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t& size = made[first + i];
      OPENTRN_CHECK(size == shape[i] || size == 1 || shape[i] == 1,
                    "torch traced shapes that do not broadcast");
      if (size == 1) size = shape[i];
    }
  }
  return made;
}

int64_t axis_of(int64_t axis, int64_t rank) { return axis < 0 ? axis + std::max<int64_t>(rank, 1) : axis; }

bool is_signed(ElementType dtype) { return dtype != ElementType::kI1 && !graph::is_unsigned_integer(dtype); }

std::pair<int64_t, uint64_t> integer_range(ElementType dtype) {
  if (dtype == ElementType::kI1) return {0, 1};
  const int bits = std::min(32, 8 * graph::storage_bytes(dtype));  // 64-bit types are held in 32
  if (graph::is_unsigned_integer(dtype)) return {0, (uint64_t{1} << bits) - 1};
  return {-(int64_t{1} << (bits - 1)), (uint64_t{1} << (bits - 1)) - 1};
}

ElementType math_dtype(ElementType dtype) {
  return graph::is_float(dtype) && graph::storage_bytes(dtype) < 4 ? ElementType::kF32 : dtype;
}

void require(bool condition, const std::string& message) {
  if (!condition) refuse("torch.no_emitter", message);
}

// ---- arguments

bool Arg::is_integer() const {
  const auto* number = std::get_if<Number>(&held);
  return number && (std::holds_alternative<int64_t>(*number) || std::holds_alternative<bool>(*number));
}

const Value& Arg::value() const {
  const auto* found = std::get_if<Value>(&held);
  OPENTRN_CHECK(found, "an argument that is no tensor");
  return *found;
}

const Number& Arg::number() const {
  const auto* found = std::get_if<Number>(&held);
  OPENTRN_CHECK(found, "an argument that is no number");
  return *found;
}

int64_t Arg::integer() const { return static_cast<int64_t>(whole_of(number())); }

double Arg::real() const { return real_of(number()); }

bool Arg::flag() const { return !equals(number(), 0); }

const std::string& Arg::text() const {
  const auto* found = std::get_if<std::string>(&held);
  OPENTRN_CHECK(found, "an argument that is no word");
  return *found;
}

const std::vector<Arg>& Arg::list() const {
  const auto* found = std::get_if<std::vector<Arg>>(&held);
  OPENTRN_CHECK(found, "an argument that is no list");
  return *found;
}

Shape Arg::integers() const {
  Shape values;
  for (const Arg& each : list()) values.push_back(each.integer());
  return values;
}

std::vector<Value> Arg::values() const {
  std::vector<Value> found;
  for (const Arg& each : list()) found.push_back(each.value());
  return found;
}

}  // namespace opentrn::import::aten
