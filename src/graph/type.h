// Types of graph values: ranked tensors (static, bounded or dynamic dimensions; quantized or not),
// tokens and tuples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/element_type.h"

namespace opentrn::graph {

inline constexpr int64_t kDynamic = INT64_MIN;  // as MLIR's ShapedType::kDynamic

// Uniform quantization: real = (stored - zero_point) * scale. One scale and zero point, or one per
// index of `axis`.
struct Quantization {
  ElementType storage = ElementType::kI8;
  ElementType expressed = ElementType::kF32;
  int64_t storage_min = -128;
  int64_t storage_max = 127;
  int64_t axis = -1;  // -1: per tensor
  std::vector<double> scales;
  std::vector<int64_t> zero_points;

  bool per_axis() const { return axis >= 0; }
  bool operator==(const Quantization&) const = default;
};

class Type {
 public:
  enum class Kind : uint8_t { kTensor, kToken, kTuple };

  Type() = default;  // a scalar f32
  static Type tensor(ElementType element, std::vector<int64_t> dims);
  static Type scalar(ElementType element) { return tensor(element, {}); }
  // The element is stored as quantization.storage.
  static Type quantized(Quantization quantization, std::vector<int64_t> dims);
  static Type token();
  static Type tuple(std::vector<Type> elements);

  Kind kind() const { return kind_; }
  bool is_tensor() const { return kind_ == Kind::kTensor; }
  bool is_tuple() const { return kind_ == Kind::kTuple; }
  bool is_token() const { return kind_ == Kind::kToken; }

  // Tensors only from here. The element type of a quantized tensor is its storage type.
  ElementType element() const { return element_; }
  const Quantization* quantization() const { return quantization_.get(); }
  std::span<const int64_t> dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis)]; }
  std::vector<int64_t> dims_vector() const { return dims_; }
  bool is_static() const;
  // Product of the dimensions; a fault when one is dynamic or the product passes INT64_MAX.
  int64_t element_count() const;
  int64_t byte_count() const;  // element_count() * storage_bytes
  // Upper bounds of dynamic dimensions (StableHLO type extensions); empty when none is stated,
  // kDynamic where a dimension has none.
  std::span<const int64_t> bounds() const { return bounds_; }
  void set_bounds(std::vector<int64_t> bounds) { bounds_ = std::move(bounds); }

  Type with_element(ElementType element) const;  // drops quantization
  Type with_dims(std::vector<int64_t> dims) const;

  // Tuples only.
  std::span<const Type> elements() const { return elements_; }

  bool operator==(const Type& other) const;
  // MLIR's spelling: tensor<2x?xf32>, tensor<4x!quant.uniform<i8:f32, 1.0e-01>>, tuple<...>,
  // !stablehlo.token.
  std::string to_string() const;

 private:
  Kind kind_ = Kind::kTensor;
  ElementType element_ = ElementType::kF32;
  std::vector<int64_t> dims_;
  std::vector<int64_t> bounds_;
  std::shared_ptr<const Quantization> quantization_;
  std::vector<Type> elements_;
};

// Row-major strides, in elements.
std::vector<int64_t> row_major_strides(std::span<const int64_t> dims);

}  // namespace opentrn::graph
