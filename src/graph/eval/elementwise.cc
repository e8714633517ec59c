// Elementwise ops: loops around scalar_functions.h, and those whose result has another element type than
// their operands.
#include <algorithm>
#include <climits>
#include <cmath>
#include <limits>

#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"
#include "graph/eval/rounding.h"

namespace opentrn::graph::eval {

namespace {

void require_same_dims(const Call& call, const Tensor& a, const Tensor& b) {
  if (!std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end()))
    call.fail(
        fmt::format("operands of different shapes: {} and {}", a.type().to_string(), b.type().to_string()));
}

void require_same_compute_type(const Call& call, const Tensor& a, const Tensor& b) {
  if (a.storage().index() != b.storage().index())
    call.fail(fmt::format("operands of different element types: {} and {}", a.type().to_string(),
                          b.type().to_string()));
}

[[noreturn]] void undefined_on(const Call& call, const Tensor& operand) {
  call.fail(fmt::format("it is not defined on {}", operand.type().to_string()));
}

// |a + bi| of a complex tensor is real.
Tensor absolute_of_complex(const Call& call, const Tensor& operand) {
  std::vector<Real> values;
  for (const Complex& value : operand.values<Complex>()) values.push_back(std::abs(value));
  return call.finish(call.result(operand.dims()), std::move(values));
}

}  // namespace

Tensor unary(const Call& call) {
  const Tensor& operand = call.tensor(0);
  if (call.kind() == OpKind::abs_ && is_complex(operand.element())) return absolute_of_complex(call, operand);
  return visit_values(operand, [&]<typename T>(const std::vector<T>& values) {
    const auto function = unary_function<T>(call.kind());
    if (!function) undefined_on(call, operand);
    std::vector<T> results(values.size());
    for_each_element(values.size(), [&](size_t i) { results[i] = function(values[i], operand.element()); });
    return call.finish(call.result(operand.dims()), std::move(results));
  });
}

Tensor binary(const Call& call) {
  const Tensor& lhs = call.tensor(0);
  const Tensor& rhs = call.tensor(1);
  require_same_dims(call, lhs, rhs);
  require_same_compute_type(call, lhs, rhs);
  return visit_values(lhs, [&]<typename T>(const std::vector<T>& a) {
    const auto function = binary_function<T>(call.kind());
    if (!function) undefined_on(call, lhs);
    const std::vector<T>& b = rhs.values<T>();
    std::vector<T> results(a.size());
    for_each_element(a.size(), [&](size_t i) { results[i] = function(a[i], b[i], lhs.element()); });
    return call.finish(call.result(lhs.dims()), std::move(results));
  });
}

Tensor compare_op(const Call& call) {
  const Tensor& lhs = call.tensor(0);
  const Tensor& rhs = call.tensor(1);
  require_same_dims(call, lhs, rhs);
  require_same_compute_type(call, lhs, rhs);
  const auto direction = call.op().enumeration(Attr::comparison_direction, ComparisonDirection::kEq);
  const auto type = call.op().enumeration(Attr::compare_type, ComparisonType::kNone);
  return visit_values(lhs, [&]<typename T>(const std::vector<T>& a) {
    const std::vector<T>& b = rhs.values<T>();
    std::vector<Bool> results(a.size());
    for_each_element(a.size(), [&](size_t i) { results[i] = compare<T>(direction, type, a[i], b[i]); });
    return Tensor(call.result(lhs.dims()), std::move(results));
  });
}

Tensor select(const Call& call) {
  const Tensor& predicate = call.tensor(0);
  const Tensor& on_true = call.tensor(1);
  const Tensor& on_false = call.tensor(2);
  require_same_dims(call, on_true, on_false);
  require_same_compute_type(call, on_true, on_false);
  const std::vector<Bool>& choose = predicate.values<Bool>();
  if (predicate.rank() != 0) require_same_dims(call, predicate, on_true);
  return visit_values(on_true, [&]<typename T>(const std::vector<T>& a) {
    const std::vector<T>& b = on_false.values<T>();
    std::vector<T> results(a.size());
    for_each_element(a.size(),
                     [&](size_t i) { results[i] = choose[predicate.rank() == 0 ? 0 : i] ? a[i] : b[i]; });
    return Tensor(call.result(on_true.dims()), std::move(results));
  });
}

Tensor clamp(const Call& call) {
  const Tensor& low = call.tensor(0);
  const Tensor& operand = call.tensor(1);
  const Tensor& high = call.tensor(2);
  require_same_compute_type(call, low, operand);
  require_same_compute_type(call, high, operand);
  if (low.rank() != 0) require_same_dims(call, low, operand);
  if (high.rank() != 0) require_same_dims(call, high, operand);
  return visit_values(operand, [&]<typename T>(const std::vector<T>& values) {
    const auto maximum = binary_function<T>(OpKind::maximum_);
    const auto minimum = binary_function<T>(OpKind::minimum_);
    std::vector<T> results(values.size());
    for_each_element(values.size(), [&](size_t i) {
      const T raised = maximum(values[i], low.values<T>()[low.rank() == 0 ? 0 : i], operand.element());
      results[i] = minimum(raised, high.values<T>()[high.rank() == 0 ? 0 : i], operand.element());
    });
    return Tensor(call.result(operand.dims()), std::move(results));
  });
}

namespace {

// Floats go to integers towards zero; beyond the range the nearest end, NaN 0, as XLA does (the spec
// leaves it open).
template <typename To>
To real_to_integer(ElementType type, Real value) {
  if (std::isnan(value)) return 0;
  const int bits = bit_width(type);
  const bool is_signed = std::is_same_v<To, Signed>;
  const double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // one above the largest
  if (value >= limit) {
    const Unsigned ones = ~Unsigned{0} >> (64 - bits);
    return static_cast<To>(is_signed ? ones >> 1 : ones);
  }
  if (!is_signed) return value <= 0 ? 0 : static_cast<To>(value);
  return value <= -limit ? static_cast<To>(-limit) : static_cast<To>(value);
}

// An integer of 64 bits to a float in one rounding: double has 53 bits, so the result may have been
// rounded twice. Rounding the first time to odd makes the second one right.
Real integer_to_real(ElementType type, Unsigned magnitude, bool negative) {
  int shift = 0;
  if (type != ElementType::kF64) {
    Unsigned sticky = 0;
    while (magnitude >> 53 != 0) {
      sticky |= magnitude & 1;
      magnitude >>= 1;
      ++shift;
    }
    magnitude |= sticky;
  }
  const Real value = std::ldexp(static_cast<Real>(magnitude), shift);
  return negative ? -value : value;
}

template <typename To, typename From>
To convert_value(ElementType to, From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Complex>) {
    return convert_value<To, Real>(to, value.real());
  } else if constexpr (std::is_same_v<To, Complex>) {
    return {convert_value<Real, From>(real_part(to), value), 0};
  } else if constexpr (std::is_same_v<To, Bool>) {
    return value != 0;
  } else if constexpr (std::is_same_v<From, Real>) {
    return real_to_integer<To>(to, value);
  } else if constexpr (std::is_same_v<To, Real>) {
    const bool negative = std::is_same_v<From, Signed> && value < 0;
    return integer_to_real(to, negative ? Unsigned{0} - static_cast<Unsigned>(value) : value, negative);
  } else {
    return static_cast<To>(value);
  }
}

// Raw bits of one element, low bits first.
using Bits = std::vector<Bool>;

template <typename T>
void append_bits(ElementType type, const T& value, Bits& bits) {
  const auto append = [&](uint64_t code, int count) {
    for (int i = 0; i < count; ++i) bits.push_back((code >> i) & 1);
  };
  if constexpr (std::is_same_v<T, Real>) {
    append(encode(type, value), bit_width(type));
  } else if constexpr (std::is_same_v<T, Complex>) {
    append(encode(real_part(type), value.real()), bit_width(real_part(type)));
    append(encode(real_part(type), value.imag()), bit_width(real_part(type)));
  } else {
    append(static_cast<uint64_t>(value), bit_width(type));
  }
}

template <typename T>
T from_bits(ElementType type, const Bool* bits) {
  const auto read = [](const Bool* from, int count) {
    uint64_t code = 0;
    for (int i = 0; i < count; ++i) code |= uint64_t{from[i]} << i;
    return code;
  };
  if constexpr (std::is_same_v<T, Real>) {
    return decode(type, read(bits, bit_width(type)));
  } else if constexpr (std::is_same_v<T, Complex>) {
    const int half = bit_width(real_part(type));
    return {decode(real_part(type), read(bits, half)), decode(real_part(type), read(bits + half, half))};
  } else {
    return normalised<T>(type, static_cast<T>(read(bits, bit_width(type))));
  }
}

}  // namespace

Tensor convert(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const ElementType to = call.stated().element();
  Storage results = zeros(to, operand.size());
  visit_values(operand, [&]<typename From>(const std::vector<From>& values) {
    std::visit(
        [&]<typename To>(std::vector<To>& converted) {
          for_each_element(values.size(),
                           [&](size_t i) { converted[i] = convert_value<To, From>(to, values[i]); });
        },
        results);
  });
  return call.finish(call.result(operand.dims()), std::move(results));
}

// Wider to narrower elements adds a last dimension, narrower to wider takes it away; the first of them is
// the least significant.
Tensor bitcast_convert(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const int from_bits_count = bit_width(operand.element());
  const int to_bits_count = bit_width(call.stated().element());
  Dims dims = copy_dims(operand.dims());
  if (from_bits_count > to_bits_count) {
    dims.push_back(from_bits_count / to_bits_count);
  } else if (from_bits_count < to_bits_count) {
    if (dims.empty() || dims.back() != to_bits_count / from_bits_count)
      call.fail(fmt::format("the last dimension of {} does not make up {}", operand.type().to_string(),
                            name(call.stated().element())));
    dims.pop_back();
  }
  Bits bits;
  bits.reserve(static_cast<size_t>(operand.size() * from_bits_count));
  visit_values(operand, [&](const auto& values) {
    for (const auto& value : values) append_bits(operand.element(), value, bits);
  });
  const Type type = call.result(dims);
  Storage results = zeros(type.element(), type.element_count());
  std::visit(
      [&]<typename T>(std::vector<T>& values) {
        const Bool* at = bits.data();
        for (size_t i = 0; i < values.size(); ++i, at += to_bits_count)
          values[i] = from_bits<T>(type.element(), at);
      },
      results);
  return Tensor(type, std::move(results));
}

// Rounds the mantissa, then flushes what the smaller exponent range cannot hold to zero (there are no
// subnormals) or infinity.
Tensor reduce_precision(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const auto exponent_bits = static_cast<int>(call.op().integer(Attr::exponent_bits));
  const auto mantissa_bits = static_cast<int>(call.op().integer(Attr::mantissa_bits));
  if (exponent_bits < 1 || mantissa_bits < 0)
    call.fail(fmt::format("{} exponent and {} mantissa bits", exponent_bits, mantissa_bits));
  const bool is_f64 = operand.element() == ElementType::kF64;
  const int own_exponent_bits = is_f64 ? 11 : format_of(operand.element()).exponent_bits;
  const int own_mantissa_bits = is_f64 ? 52 : format_of(operand.element()).mantissa_bits;
  const int exponent_max = exponent_bits < own_exponent_bits ? (1 << (exponent_bits - 1)) - 1 : INT_MAX;
  std::vector<Real> results;
  for (const Real value : operand.values<Real>()) {
    Real reduced = value;
    if (std::isnan(value)) {
      // A NaN without mantissa bits to say so is an infinity.
      if (mantissa_bits == 0) reduced = std::copysign(std::numeric_limits<double>::infinity(), value);
    } else if (std::isfinite(value) && value != 0) {
      // Subnormal operands keep the quantum of the smallest normal number: their bits round as stored.
      const int exponent = std::max(std::ilogb(value), 2 - (1 << (own_exponent_bits - 1)));
      if (mantissa_bits < own_mantissa_bits)
        reduced =
            std::ldexp(std::nearbyint(std::ldexp(value, mantissa_bits - exponent)), exponent - mantissa_bits);
      if (exponent_max != INT_MAX && reduced != 0) {
        if (std::ilogb(reduced) > exponent_max)
          reduced = std::copysign(std::numeric_limits<double>::infinity(), value);
        else if (std::ilogb(reduced) < 1 - exponent_max)
          reduced = std::copysign(0.0, value);
      }
    }
    results.push_back(reduced);
  }
  return call.finish(call.result(operand.dims()), std::move(results));
}

Tensor complex(const Call& call) {
  const Tensor& lhs = call.tensor(0);
  const Tensor& rhs = call.tensor(1);
  require_same_dims(call, lhs, rhs);
  const std::vector<Real>& a = lhs.values<Real>();
  const std::vector<Real>& b = rhs.values<Real>();
  std::vector<Complex> results(a.size());
  for (size_t i = 0; i < a.size(); ++i) results[i] = {a[i], b[i]};
  return Tensor(call.result(lhs.dims()), std::move(results));
}

Tensor real(const Call& call) {
  const Tensor& operand = call.tensor(0);
  if (!is_complex(operand.element())) return operand;
  std::vector<Real> results;
  for (const Complex& value : operand.values<Complex>()) results.push_back(value.real());
  return Tensor(call.result(operand.dims()), std::move(results));
}

Tensor imag(const Call& call) {
  const Tensor& operand = call.tensor(0);
  if (!is_complex(operand.element())) return zero_tensor(call.result(operand.dims()));
  std::vector<Real> results;
  for (const Complex& value : operand.values<Complex>()) results.push_back(value.imag());
  return Tensor(call.result(operand.dims()), std::move(results));
}

Tensor classify(const Call& call) {
  const Tensor& operand = call.tensor(0);
  std::vector<Bool> results;
  for (const Real value : operand.values<Real>()) {
    switch (call.kind()) {
      case OpKind::is_finite_: results.push_back(std::isfinite(value)); break;
      case OpKind::chlo_is_inf_: results.push_back(std::isinf(value)); break;
      case OpKind::chlo_is_pos_inf_: results.push_back(std::isinf(value) && value > 0); break;
      default: results.push_back(std::isinf(value) && value < 0); break;
    }
  }
  return Tensor(call.result(operand.dims()), std::move(results));
}

}  // namespace opentrn::graph::eval
