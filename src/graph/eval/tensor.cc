#include "graph/eval/tensor.h"

#include <cstring>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/host_memory.h"
#include "graph/eval/rounding.h"

namespace opentrn::graph::eval {

namespace {

size_t storage_index(ElementType element) {
  if (is_bool(element)) return 0;
  if (is_signed_integer(element)) return 1;
  if (is_unsigned_integer(element)) return 2;
  if (is_float(element)) return 3;
  return 4;
}

uint64_t read_code(const std::byte* at, int bytes) {
  uint64_t code = 0;
  std::memcpy(&code, at, static_cast<size_t>(bytes));
  return code;
}

void write_code(std::byte* at, int bytes, uint64_t code) {
  std::memcpy(at, &code, static_cast<size_t>(bytes));
}

template <typename T>
T read_element(ElementType element, const std::byte* at) {
  const int bytes = storage_bytes(element);
  if constexpr (std::is_same_v<T, Bool>) {
    return *at != std::byte{0};
  } else if constexpr (std::is_same_v<T, Signed>) {
    return wrap_signed(bit_width(element), static_cast<int64_t>(read_code(at, bytes)));
  } else if constexpr (std::is_same_v<T, Unsigned>) {
    return wrap_unsigned(bit_width(element), read_code(at, bytes));
  } else if constexpr (std::is_same_v<T, Real>) {
    return decode(element, read_code(at, bytes));
  } else {
    const ElementType part = real_part(element);
    return {decode(part, read_code(at, bytes / 2)), decode(part, read_code(at + bytes / 2, bytes / 2))};
  }
}

template <typename T>
void write_element(ElementType element, std::byte* at, const T& value) {
  const int bytes = storage_bytes(element);
  if constexpr (std::is_same_v<T, Bool>) {
    *at = std::byte{value};
  } else if constexpr (std::is_same_v<T, Signed> || std::is_same_v<T, Unsigned>) {
    write_code(at, bytes, static_cast<uint64_t>(value));
  } else if constexpr (std::is_same_v<T, Real>) {
    write_code(at, bytes, encode(element, value));
  } else {
    const ElementType part = real_part(element);
    write_code(at, bytes / 2, encode(part, value.real()));
    write_code(at + bytes / 2, bytes / 2, encode(part, value.imag()));
  }
}

// The host's own f32 and f64, without a call per element.
bool read_native(const Literal& literal, std::vector<Real>& values) {
  const ElementType element = literal.type().element();
  const std::byte* bytes = literal.bytes().data();
  if (literal.is_splat()) return false;
  if (element == ElementType::kF64) {
    if (!values.empty()) std::memcpy(values.data(), bytes, values.size() * sizeof(double));
    return true;
  }
  if (element != ElementType::kF32) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    float value = 0;
    std::memcpy(&value, bytes + i * sizeof(float), sizeof(float));
    values[i] = value;
  }
  return true;
}

}  // namespace

Tensor::Tensor(Type type, Storage values) {
  const int64_t size = type.element_count();
  const auto held = std::visit([](const auto& v) { return static_cast<int64_t>(v.size()); }, values);
  OPENTRN_CHECK(held == size, "{} values for {}", held, type.to_string());
  OPENTRN_CHECK(values.index() == storage_index(type.element()), "wrong compute type for {}",
                type.to_string());
  body_ = std::make_shared<const Body>(Body{std::move(type), std::move(values), size});
}

Tensor Tensor::with_type(Type type) const {
  if (type == body_->type) return *this;
  return Tensor(std::move(type), Storage(body_->values));
}

Storage zeros(ElementType element, int64_t count) {
  constexpr int64_t kAskFrom = int64_t{1} << 23;  // elements; fewer are had without asking
  constexpr int64_t kBytesEach[] = {sizeof(Bool), sizeof(Signed), sizeof(Unsigned), sizeof(Real),
                                    sizeof(Complex)};
  if (count > kAskFrom) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(count, kBytesEach[storage_index(element)], &bytes)) bytes = INT64_MAX;
    expect_host_memory(bytes, fmt::format("a value of {} elements", count));
  }
  const auto n = static_cast<size_t>(count);
  switch (storage_index(element)) {
    case 0: return std::vector<Bool>(n);
    case 1: return std::vector<Signed>(n);
    case 2: return std::vector<Unsigned>(n);
    case 3: return std::vector<Real>(n);
    default: return std::vector<Complex>(n);
  }
}

Tensor from_literal(const Literal& literal) {
  const ElementType element = literal.type().element();
  Storage storage = zeros(element, literal.type().element_count());
  std::visit(
      [&]<typename T>(std::vector<T>& values) {
        if constexpr (std::is_same_v<T, Real>)
          if (read_native(literal, values)) return;
        if (values.empty()) return;
        if (literal.is_splat()) {
          std::fill(values.begin(), values.end(), read_element<T>(element, literal.element(0)));
          return;
        }
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = read_element<T>(element, literal.element(static_cast<int64_t>(i)));
      },
      storage);
  return Tensor(literal.type(), std::move(storage));
}

Literal to_literal(const Tensor& tensor) {
  const ElementType element = tensor.element();
  const auto step = static_cast<size_t>(storage_bytes(element));
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.type().byte_count()));
  visit_values(tensor, [&](const auto& values) {
    for (size_t i = 0; i < values.size(); ++i) write_element(element, bytes.data() + i * step, values[i]);
  });
  return Literal(tensor.type(), std::move(bytes));
}

template <typename T>
T normalised(ElementType element, T value) {
  if constexpr (std::is_same_v<T, Signed>)
    return wrap_signed(bit_width(element), value);
  else if constexpr (std::is_same_v<T, Unsigned>)
    return wrap_unsigned(bit_width(element), value);
  else if constexpr (std::is_same_v<T, Real>)
    return round_to(element, value);
  else if constexpr (std::is_same_v<T, Complex>)
    return {round_to(real_part(element), value.real()), round_to(real_part(element), value.imag())};
  else
    return value;
}
template Bool normalised(ElementType, Bool);
template Signed normalised(ElementType, Signed);
template Unsigned normalised(ElementType, Unsigned);
template Real normalised(ElementType, Real);
template Complex normalised(ElementType, Complex);

void normalise(ElementType element, Storage& storage) {
  std::visit(
      [&]<typename T>(std::vector<T>& values) {
        if constexpr (std::is_same_v<T, Real>)
          round_to(element, values);
        else if constexpr (!std::is_same_v<T, Bool>)
          for (T& value : values) value = normalised(element, value);
      },
      storage);
}

int64_t integer_at(const Tensor& tensor, int64_t index) {
  const auto at = static_cast<size_t>(index);
  return visit_values(tensor, [&]<typename T>(const std::vector<T>& values) -> int64_t {
    if constexpr (std::is_same_v<T, Unsigned>) {
      return values[at] > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(values[at]);
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<int64_t>(values[at]);
    } else {
      throw Fault(FaultKind::kInput, "eval.index",
                  fmt::format("an index or a size is {}, not integers", tensor.type().to_string()));
    }
  });
}

std::vector<int64_t> integers_of(const Tensor& tensor) {
  std::vector<int64_t> all;
  all.reserve(static_cast<size_t>(tensor.size()));
  for (int64_t i = 0; i < tensor.size(); ++i) all.push_back(integer_at(tensor, i));
  return all;
}

Tensor i64_tensor(std::span<const int64_t> values) {
  return Tensor(Type::tensor(ElementType::kI64, {static_cast<int64_t>(values.size())}),
                std::vector<Signed>(values.begin(), values.end()));
}

}  // namespace opentrn::graph::eval
