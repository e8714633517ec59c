// What sums of products are kept in: f64 for f64, f32 for every narrower float (each product and each sum
// rounded, as a loop in f32 does), 64-bit integers that wrap, parts alike for complex numbers. Results are
// rounded to their type once, at the end. Under Options::float64 everything is f64.
#pragma once

#include <complex>
#include <type_traits>
#include <vector>

#include "graph/eval/call.h"

namespace opentrn::graph::eval {

template <typename S>
S multiply_add(S sum, S a, S b) {
  if constexpr (std::is_same_v<S, Bool>) {
    return sum | (a & b);
  } else if constexpr (std::is_same_v<S, Signed>) {
    return static_cast<S>(static_cast<Unsigned>(sum) + static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
  } else if constexpr (std::is_same_v<S, Complex> || std::is_same_v<S, std::complex<float>>) {
    return {sum.real() + (a.real() * b.real() - a.imag() * b.imag()),
            sum.imag() + (a.real() * b.imag() + a.imag() * b.real())};
  } else {
    return sum + a * b;
  }
}

// The operand in the compute type of the result: integers times integers may give floats. Exact below 2^53.
inline Tensor in_result_class(const Call& call, const Tensor& operand) {
  Storage values = zeros(call.stated().element(), operand.size());
  return std::visit(
      [&]<typename To>(std::vector<To>& all) {
        return visit_values(operand, [&]<typename From>(const std::vector<From>& from) {
          if constexpr (std::is_same_v<To, From>) return operand;
          if constexpr (std::is_same_v<To, Bool> ||
                        (std::is_same_v<From, Complex> && !std::is_same_v<To, Complex>))
            call.fail(
                fmt::format("{} for a result of {}", operand.type().to_string(), call.stated().to_string()));
          else
            for (size_t i = 0; i < from.size(); ++i) all[i] = static_cast<To>(from[i]);
          return Tensor(operand.type().with_element(call.stated().element()), std::move(values));
        });
      },
      values);
}

// Calls body(lhs, rhs) with the values of both tensors in the accumulator's type and gives its sums in
// the result's compute type.
template <typename Body>
Storage sum_in_accumulator(const Call& call, const Tensor& a, const Tensor& b, Body&& body) {
  const Tensor lhs = in_result_class(call, a);
  const Tensor rhs = in_result_class(call, b);
  const bool double_sums = call.options().float64 || real_part(a.element()) == ElementType::kF64 ||
                           real_part(b.element()) == ElementType::kF64 ||
                           real_part(call.stated().element()) == ElementType::kF64;
  return visit_values(lhs, [&]<typename T>(const std::vector<T>& values) -> Storage {
    const std::vector<T>& others = rhs.values<T>();
    if constexpr (std::is_same_v<T, Real> || std::is_same_v<T, Complex>) {
      using Single = std::conditional_t<std::is_same_v<T, Real>, float, std::complex<float>>;
      if (!double_sums) {
        std::vector<Single> left(values.size());
        std::vector<Single> right(others.size());
        for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<Single>(values[i]);
        for (size_t i = 0; i < right.size(); ++i) right[i] = static_cast<Single>(others[i]);
        const std::vector<Single> sums = body(left, right);
        return std::vector<T>(sums.begin(), sums.end());
      }
    }
    return body(values, others);
  });
}

}  // namespace opentrn::graph::eval
