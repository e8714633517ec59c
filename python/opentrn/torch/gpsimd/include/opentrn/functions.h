// The functions of the tensor library of custom operators. Source: custom-ops-ref-guide.rst of the Neuron
// SDK, "Tensor Factory Functions" and "Tensor Operation Functions": operands have one shape and one type,
// which the result has too.
#ifndef OPENTRN_TORCH_GPSIMD_FUNCTIONS_H_
#define OPENTRN_TORCH_GPSIMD_FUNCTIONS_H_

#include "opentrn/tensor.h"

namespace torch {

inline Tensor empty(IntArrayRef size, TensorOptions options) { return {size, options.type()}; }
inline Tensor full(IntArrayRef size, const Scalar& value, TensorOptions options) {
  return empty(size, options).fill_(value);
}
inline Tensor zeros(IntArrayRef size, TensorOptions options) { return full(size, 0, options); }
inline Tensor ones(IntArrayRef size, TensorOptions options) { return full(size, 1, options); }
inline Tensor eye(int64_t n, int64_t m, TensorOptions options) {
  Tensor made = zeros({n, m}, options);
  c10::with_type(made.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < std::min(n, m); ++i) made.elements<T>()[i * m + i] = static_cast<T>(1);
  });
  return made;
}

namespace neuron {

template <typename T>
constexpr bool is_whole() {
  return std::is_integral<T>::value;
}

inline void same(const char* name, const Tensor& a, const Tensor& b) {
  check(a.sizes() == b.sizes(), std::string(name) + ": sizes " + listed(a.sizes()) + " and " +
                                    listed(b.sizes()) + "; there is no broadcasting");
  check(a.scalar_type() == b.scalar_type(), std::string(name) + ": types " + c10::spelling(a.scalar_type()) +
                                                " and " + c10::spelling(b.scalar_type()));
}

// An operand's element i: of a tensor, or the one number.
template <typename T>
struct Operand {
  const T* data;
  T number;
  Operand(const Tensor& of) : data(of.elements<T>()), number() {}  // NOLINT(google-explicit-constructor)
  Operand(const Scalar& of)
      : data(nullptr), number(of.template to<T>()) {}  // NOLINT(google-explicit-constructor)
  T operator[](int64_t i) const { return data != nullptr ? data[i] : number; }
};

inline void matches(const char* name, const Tensor& result, const Tensor& with) { same(name, result, with); }
inline void matches(const char* /*name*/, const Tensor& /*result*/, const Scalar& /*with*/) {}

enum class Kinds { kAll, kFloats, kWhole };

inline void of_kinds(const char* name, const Tensor& tensor, Kinds kinds) {
  const bool whole =
      c10::with_type(tensor.scalar_type(), [](auto zero) { return is_whole<decltype(zero)>(); });
  check(kinds == Kinds::kAll || whole == (kinds == Kinds::kWhole),
        std::string(name) + " of " + c10::spelling(tensor.scalar_type()) + ": it takes " +
            (kinds == Kinds::kWhole ? "whole numbers" : "floats"));
}

// result[i] = function(a[i]); floats of 16 bits compute in float.
template <typename F>
Tensor& each(const char* name, Kinds kinds, Tensor& result, const Tensor& a, F function) {
  same(name, result, a);
  of_kinds(name, a, kinds);
  c10::with_type(a.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using Computed = std::conditional_t<is_whole<T>(), T, float>;
    for (int64_t i = 0; i < a.numel(); ++i)
      result.elements<T>()[i] = static_cast<T>(function(static_cast<Computed>(a.elements<T>()[i])));
  });
  return result;
}

// result[i] = function(a[i], b[i]), either one a number for all i.
template <typename A, typename B, typename F>
Tensor& each(const char* name, Kinds kinds, Tensor& result, const A& a, const B& b, F function) {
  matches(name, result, a);
  matches(name, result, b);
  of_kinds(name, result, kinds);
  c10::with_type(result.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using Computed = std::conditional_t<is_whole<T>(), T, float>;
    const Operand<T> left(a), right(b);
    for (int64_t i = 0; i < result.numel(); ++i)
      result.elements<T>()[i] =
          static_cast<T>(function(static_cast<Computed>(left[i]), static_cast<Computed>(right[i])));
  });
  return result;
}

inline Tensor like(const Tensor& a) { return {a.sizes(), a.scalar_type()}; }
inline Tensor like(const Tensor& a, const Scalar& /*b*/) { return like(a); }
inline Tensor like(const Scalar& /*a*/, const Tensor& b) { return like(b); }
inline Tensor like(const Tensor& a, const Tensor& /*b*/) { return like(a); }

}  // namespace neuron

#define OPENTRN_UNARY(name, kinds, expression)                                                         \
  inline Tensor& name##_out(Tensor& result, const Tensor& self) {                                      \
    return neuron::each(#name, neuron::Kinds::kinds, result, self, [](auto x) { return expression; }); \
  }                                                                                                    \
  inline Tensor name(const Tensor& self) {                                                             \
    Tensor result = neuron::like(self);                                                                \
    return name##_out(result, self);                                                                   \
  }
OPENTRN_UNARY(abs, kAll, x < 0 ? -x : x + 0)
OPENTRN_UNARY(ceil, kFloats, std::ceil(x))
OPENTRN_UNARY(floor, kFloats, std::floor(x))
OPENTRN_UNARY(sin, kFloats, std::sin(x))
OPENTRN_UNARY(cos, kFloats, std::cos(x))
OPENTRN_UNARY(tan, kFloats, std::tan(x))
OPENTRN_UNARY(log, kFloats, std::log(x))
OPENTRN_UNARY(log2, kFloats, std::log2(x))
OPENTRN_UNARY(log10, kFloats, std::log10(x))
OPENTRN_UNARY(exp, kFloats, std::exp(x))
#undef OPENTRN_UNARY

#define OPENTRN_BINARY_OF(name, kinds, A, B, expression)                     \
  inline Tensor& name##_out(Tensor& result, const A& self, const B& other) { \
    return neuron::each(#name, neuron::Kinds::kinds, result, self, other,    \
                        [](auto x, auto y) { return expression; });          \
  }                                                                          \
  inline Tensor name(const A& self, const B& other) {                        \
    Tensor result = neuron::like(self, other);                               \
    return name##_out(result, self, other);                                  \
  }
#define OPENTRN_BINARY(name, kinds, expression)              \
  OPENTRN_BINARY_OF(name, kinds, Tensor, Tensor, expression) \
  OPENTRN_BINARY_OF(name, kinds, Tensor, Scalar, expression)
#define OPENTRN_EITHER(name, kinds, expression) \
  OPENTRN_BINARY(name, kinds, expression)       \
  OPENTRN_BINARY_OF(name, kinds, Scalar, Tensor, expression)
OPENTRN_BINARY(mul, kAll, x* y)
OPENTRN_BINARY(div, kFloats, x / y)
OPENTRN_EITHER(pow, kFloats, std::pow(x, y))
OPENTRN_EITHER(bitwise_and, kWhole, static_cast<int64_t>(x) & static_cast<int64_t>(y))
OPENTRN_EITHER(bitwise_or, kWhole, static_cast<int64_t>(x) | static_cast<int64_t>(y))
#undef OPENTRN_EITHER
#undef OPENTRN_BINARY
#undef OPENTRN_BINARY_OF

// self + alpha * other, self - alpha * other
#define OPENTRN_SCALED(name, B, expression)                                                                \
  inline Tensor& name##_out(Tensor& result, const Tensor& self, const B& other, const Scalar& alpha = 1) { \
    return neuron::each(#name, neuron::Kinds::kAll, result, self, other, [&](auto x, auto y) {             \
      const auto scale = alpha.to<decltype(x)>();                                                          \
      return expression;                                                                                   \
    });                                                                                                    \
  }                                                                                                        \
  inline Tensor name(const Tensor& self, const B& other, const Scalar& alpha = 1) {                        \
    Tensor result = neuron::like(self);                                                                    \
    return name##_out(result, self, other, alpha);                                                         \
  }
OPENTRN_SCALED(add, Tensor, x + scale * y)
OPENTRN_SCALED(add, Scalar, x + scale * y)
OPENTRN_SCALED(sub, Tensor, x - scale * y)
OPENTRN_SCALED(sub, Scalar, x - scale * y)
#undef OPENTRN_SCALED

inline Tensor& bitwise_not_out(Tensor& result, const Tensor& self) {
  return neuron::each("bitwise_not", neuron::Kinds::kWhole, result, self,
                      [](auto x) { return ~static_cast<int64_t>(x); });
}
inline Tensor bitwise_not(const Tensor& self) {
  Tensor result = neuron::like(self);
  return bitwise_not_out(result, self);
}

inline Tensor& clamp_out(Tensor& result, const Tensor& self, const Scalar& least, const Scalar& most) {
  return neuron::each("clamp", neuron::Kinds::kAll, result, self, [&](auto x) {
    using T = decltype(x);
    const T low = least.to<T>(), high = most.to<T>();
    return x < low ? low : x > high ? high : x;
  });
}
inline Tensor clamp(const Tensor& self, const Scalar& least, const Scalar& most) {
  Tensor result = neuron::like(self);
  return clamp_out(result, self, least, most);
}

}  // namespace torch

#endif  // OPENTRN_TORCH_GPSIMD_FUNCTIONS_H_
