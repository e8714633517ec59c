// Element types and numbers of the tensor library of custom operators.
#ifndef OPENTRN_TORCH_GPSIMD_TYPES_H_
#define OPENTRN_TORCH_GPSIMD_TYPES_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "opentrn/call.h"

namespace c10 {

// Floats of 16 bits, which compute in float and are rounded to the nearest, ties to even.
struct BFloat16 {
  uint16_t x = 0;

  BFloat16() = default;
  BFloat16(float value) {  // NOLINT(google-explicit-constructor): as in PyTorch
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (std::isnan(value))
      x = static_cast<uint16_t>((bits >> 16) | 0x40);
    else
      x = static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
  operator float() const {  // NOLINT(google-explicit-constructor)
    const uint32_t bits = static_cast<uint32_t>(x) << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

struct Half {
  uint16_t x = 0;

  Half() = default;
  Half(float value) {  // NOLINT(google-explicit-constructor)
    const float size = std::fabs(value);
    uint16_t bits = 0;
    if (std::isnan(value)) {
      bits = 0x7E00;
    } else if (size >= 65520.0F) {  // halfway from the largest number to 2^16
      bits = 0x7C00;
    } else if (size < 0x1p-14F) {  // subnormal: a multiple of 2^-24
      bits = static_cast<uint16_t>(std::nearbyint(size * 0x1p24F));
    } else {
      int exponent = 0;
      const float fraction = std::frexp(size, &exponent);  // [0.5, 1)
      // 1.m of eleven bits; a carry out of it is one more in the exponent's field.
      const auto digits = static_cast<int>(std::nearbyint(fraction * 2048.0F));
      bits = static_cast<uint16_t>(((exponent + 13) << 10) + digits);
    }
    x = static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
  }
  operator float() const {  // NOLINT(google-explicit-constructor)
    const int exponent = (x >> 10) & 31, digits = x & 1023;
    float size = 0;
    if (exponent == 31)
      size = digits != 0 ? NAN : INFINITY;
    else if (exponent == 0)
      size = std::ldexp(static_cast<float>(digits), -24);
    else
      size = std::ldexp(static_cast<float>(1024 + digits), exponent - 25);
    return (x & 0x8000) != 0 ? -size : size;
  }
};

enum class ScalarType : int8_t { Byte, Char, Short, Int, Half, Float, BFloat16 };

// A number that is written in the code, or an argument of an operator.
class Scalar {
 public:
  Scalar() = default;
  Scalar(const Scalar& other) : whole_(other.whole_), real_(other.real_), is_whole_(other.is_whole_) {}
  Scalar& operator=(const Scalar& other) = default;
  template <typename T, typename = std::enable_if_t<std::is_arithmetic<T>::value>>
  Scalar(T value)  // NOLINT(google-explicit-constructor): as in PyTorch
      : whole_(static_cast<int64_t>(value)),
        real_(static_cast<double>(value)),
        is_whole_(std::is_integral<T>::value) {}

  template <typename T>
  T to() const {
    return is_whole_ ? static_cast<T>(whole_) : static_cast<T>(real_);
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int toInt() const { return to<int>(); }
  bool isFloatingPoint() const { return !is_whole_; }
  bool isIntegral(bool /*include_bool*/ = false) const { return is_whole_; }

 private:
  int64_t whole_ = 0;
  double real_ = 0;
  bool is_whole_ = true;
};

template <typename T>
struct TypeOf;
#define OPENTRN_TYPE_OF(cpp, name, words)                 \
  template <>                                             \
  struct TypeOf<cpp> {                                    \
    static constexpr ScalarType kType = ScalarType::name; \
    static const char* spelling() { return words; }       \
  };
OPENTRN_TYPE_OF(uint8_t, Byte, "uint8")
OPENTRN_TYPE_OF(int8_t, Char, "int8")
OPENTRN_TYPE_OF(int16_t, Short, "int16")
OPENTRN_TYPE_OF(int32_t, Int, "int32")
OPENTRN_TYPE_OF(Half, Half, "float16")
OPENTRN_TYPE_OF(float, Float, "float32")
OPENTRN_TYPE_OF(BFloat16, BFloat16, "bfloat16")
#undef OPENTRN_TYPE_OF

// function(T{}) for the element type's T.
template <typename F>
auto with_type(ScalarType type, F&& function) {
  switch (type) {
    case ScalarType::Byte: return function(uint8_t{});
    case ScalarType::Char: return function(int8_t{});
    case ScalarType::Short: return function(int16_t{});
    case ScalarType::Int: return function(int32_t{});
    case ScalarType::Half: return function(Half{});
    case ScalarType::BFloat16: return function(BFloat16{});
    case ScalarType::Float: break;
  }
  return function(float{});
}

inline const char* spelling(ScalarType type) {
  return with_type(type, [](auto zero) { return TypeOf<decltype(zero)>::spelling(); });
}

inline size_t elementSize(ScalarType type) {
  return with_type(type, [](auto zero) { return sizeof(zero); });
}

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType type) : type_(type), has_type_(true) {}  // NOLINT(google-explicit-constructor)
  TensorOptions dtype(ScalarType type) const { return {type}; }
  ScalarType type() const {
    torch::neuron::check(has_type_, "a new tensor needs its dtype: torch::zeros(sizes, torch::kFloat)");
    return type_;
  }

 private:
  ScalarType type_ = ScalarType::Float;
  bool has_type_ = false;
};

}  // namespace c10

namespace torch {

using c10::BFloat16;
using c10::Half;
using c10::Scalar;
using c10::ScalarType;
using c10::TensorOptions;

constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = kByte, kChar = ScalarType::Char, kInt8 = kChar;
constexpr ScalarType kShort = ScalarType::Short, kInt16 = kShort, kInt = ScalarType::Int, kInt32 = kInt;
constexpr ScalarType kHalf = ScalarType::Half, kFloat16 = kHalf, kBFloat16 = ScalarType::BFloat16;
constexpr ScalarType kFloat = ScalarType::Float, kFloat32 = kFloat;

inline TensorOptions dtype(ScalarType type) { return {type}; }

}  // namespace torch

#endif  // OPENTRN_TORCH_GPSIMD_TYPES_H_
