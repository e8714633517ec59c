#include "graph/type.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::graph {

namespace {

// NumPy's arrays have at most 64 dimensions; some passes add a few. Work on shapes goes with the square of
// the rank.
constexpr size_t kRankMax = 128;

void check_rank(size_t rank) {
  if (rank > kRankMax)
    throw Fault(FaultKind::kInput, "graph.rank",
                fmt::format("a tensor of rank {}; at most {} dimensions are taken", rank, kRankMax),
                "reshape it to fewer dimensions");
}

}  // namespace

Type Type::tensor(ElementType element, std::vector<int64_t> dims) {
  check_rank(dims.size());
  Type type;
  type.element_ = element;
  type.dims_ = std::move(dims);
  return type;
}

Type Type::quantized(Quantization quantization, std::vector<int64_t> dims) {
  Type type = tensor(quantization.storage, std::move(dims));
  type.quantization_ = std::make_shared<const Quantization>(std::move(quantization));
  return type;
}

Type Type::token() {
  Type type;
  type.kind_ = Kind::kToken;
  return type;
}

Type Type::tuple(std::vector<Type> elements) {
  Type type;
  type.kind_ = Kind::kTuple;
  type.elements_ = std::move(elements);
  return type;
}

bool Type::is_static() const {
  return std::none_of(dims_.begin(), dims_.end(), [](int64_t dim) { return dim == kDynamic; });
}

int64_t Type::element_count() const {
  int64_t count = 1;
  for (const int64_t dim : dims_) {
    if (dim == kDynamic)
      throw Fault(FaultKind::kNotModelled, "graph.static_shape",
                  fmt::format("{} has no static number of elements", to_string()),
                  "give the dimension a value or a bucket");
    if (__builtin_mul_overflow(count, dim, &count))
      throw Fault(FaultKind::kInput, "graph.type", fmt::format("{} has too many elements", to_string()));
  }
  return count;
}

int64_t Type::byte_count() const {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(element_count(), static_cast<int64_t>(storage_bytes(element_)), &bytes))
    throw Fault(FaultKind::kInput, "graph.type", fmt::format("{} has too many bytes", to_string()));
  return bytes;
}

Type Type::with_element(ElementType element) const {
  Type type = *this;
  type.element_ = element;
  type.quantization_.reset();
  return type;
}

Type Type::with_dims(std::vector<int64_t> dims) const {
  check_rank(dims.size());
  Type type = *this;
  type.dims_ = std::move(dims);
  type.bounds_.clear();
  return type;
}

bool Type::operator==(const Type& other) const {
  if (kind_ != other.kind_) return false;
  if (kind_ == Kind::kTuple) return elements_ == other.elements_;
  if (kind_ == Kind::kToken) return true;
  if (element_ != other.element_ || dims_ != other.dims_ || bounds_ != other.bounds_) return false;
  if (!quantization_ || !other.quantization_) return !quantization_ && !other.quantization_;
  return *quantization_ == *other.quantization_;
}

namespace {

std::string scaled(const Quantization& quantization, size_t i) {
  const std::string scale = fmt::format("{:e}", quantization.scales[i]);
  const int64_t zero = quantization.zero_points[i];
  return zero == 0 ? scale : fmt::format("{}:{}", scale, zero);
}

std::string spelled(const Quantization& q) {
  const int bits = bit_width(q.storage);
  const bool is_unsigned = is_unsigned_integer(q.storage);
  const int64_t low = is_unsigned ? 0 : -(int64_t{1} << (bits - 1));
  const int64_t high = is_unsigned ? (int64_t{1} << bits) - 1 : (int64_t{1} << (bits - 1)) - 1;
  std::string text = fmt::format("!quant.uniform<{}{}", is_unsigned ? "u" : "",
                                 is_unsigned ? name(q.storage).substr(1) : name(q.storage));
  if (q.storage_min != low || q.storage_max != high)
    text += fmt::format("<{}:{}>", q.storage_min, q.storage_max);
  text += fmt::format(":{}", name(q.expressed));
  if (!q.per_axis()) return text + fmt::format(", {}>", scaled(q, 0));
  std::vector<std::string> parts;
  for (size_t i = 0; i < q.scales.size(); ++i) parts.push_back(scaled(q, i));
  return text + fmt::format(":{}, {{{}}}>", q.axis, fmt::join(parts, ","));
}

}  // namespace

std::string Type::to_string() const {
  if (kind_ == Kind::kToken) return "!stablehlo.token";
  if (kind_ == Kind::kTuple) {
    std::vector<std::string> parts;
    for (const Type& element : elements_) parts.push_back(element.to_string());
    return fmt::format("tuple<{}>", fmt::join(parts, ", "));
  }
  std::string text = "tensor<";
  for (const int64_t dim : dims_) text += dim == kDynamic ? "?x" : fmt::format("{}x", dim);
  text += quantization_ ? spelled(*quantization_) : std::string(name(element_));
  if (!bounds_.empty()) {
    std::vector<std::string> parts;
    for (const int64_t bound : bounds_) parts.push_back(bound == kDynamic ? "?" : fmt::format("{}", bound));
    text += fmt::format(", #stablehlo.bounds<{}>", fmt::join(parts, ", "));
  }
  return text + ">";
}

std::vector<int64_t> row_major_strides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

}  // namespace opentrn::graph
