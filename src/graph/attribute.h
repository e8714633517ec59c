// Attributes of graph ops.
//
// An op's own attributes are flat: integers, lists of integers, enumerations, strings, types and
// literals, with the names that StableHLO's portable form (VHLO) gives them, so that dot_general has
// lhs_contracting_dimensions and convolution has input_batch_dimension. What else a program carries
// (jax.result_info, mhlo.sharding) is kept as it came in a Dictionary of the op or the module.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/literal.h"
#include "graph/type.h"

namespace opentrn::graph {

struct Attribute;
using AttributeList = std::vector<Attribute>;
using Dictionary = std::map<std::string, Attribute, std::less<>>;

// A row-major matrix of integers: replica_groups, source_target_pairs, padding. Ragged replica groups
// are filled with -1.
struct IntMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<int64_t> values;

  int64_t at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
  bool operator==(const IntMatrix&) const = default;
};

// @callee
struct SymbolRef {
  std::string name;
  bool operator==(const SymbolRef&) const = default;
};

// An attribute of a dialect that this project does not interpret, as its text: #sdy.sharding<...>.
struct Opaque {
  std::string text;
  bool operator==(const Opaque&) const = default;
};

struct Unit {
  bool operator==(const Unit&) const = default;
};

struct Attribute {
  using Value = std::variant<Unit, bool, int64_t, double, std::string, std::vector<int64_t>, IntMatrix,
                             Literal, Type, SymbolRef, Opaque, std::shared_ptr<const AttributeList>,
                             std::shared_ptr<const Dictionary>>;
  Value value;

  Attribute() = default;
  template <typename T>
  // NOLINTNEXTLINE(google-explicit-constructor): an attribute is its value
  requires std::is_constructible_v<Value, T> Attribute(T v) : value(std::move(v)) {}
  static Attribute list(AttributeList elements);
  static Attribute dictionary(Dictionary entries);

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&value);
  }
  const AttributeList* as_list() const;
  const Dictionary* as_dictionary() const;
  bool operator==(const Attribute& other) const;
};

// The names of ops' own attributes. op_definitions.cc says which op has which, of what kind and with what
// default.
// clang-format off
#define OPENTRN_GRAPH_ATTRIBUTES(X)                                                                          \
  X(accumulation_type)                                                                                       \
  X(all_gather_dim)                                                                                          \
  X(allow_imprecise_accumulation) X(api_version) X(backend_config) X(base_dilations) X(batch_dims) X(        \
      batch_group_count) X(broadcast_dimensions) X(broadcast_sizes) X(call_target_name)                      \
      X(called_computations) X(callee) X(channel_id) X(channel_type) X(collapsed_slice_dims) X(              \
          compare_type) X(comparison_direction) X(composite_attributes) X(concat_dimension) X(decomposition) \
          X(dim) X(dimension) X(dimensions) X(edge_padding_high) X(edge_padding_low) X(einsum_config) X(     \
              epsilon) X(exponent_bits) X(feature_group_count) X(feature_index) X(fft_length) X(fft_type)    \
              X(group_sizes) X(has_dynamic_root) X(has_side_effect) X(index) X(index_vector_dim) X(          \
                  indices_are_sorted) X(infeed_config) X(input_batch_dimension) X(input_batching_dims)       \
                  X(input_feature_dimension) X(input_spatial_dimensions) X(inserted_window_dims) X(          \
                      interior_padding) X(iota_dimension) X(is_host_transfer) X(is_reverse) X(is_stable)     \
                      X(k) X(kernel_input_feature_dimension) X(kernel_output_feature_dimension) X(           \
                          kernel_spatial_dimensions) X(known_expanding_dimensions)                           \
                          X(known_nonexpanding_dimensions) X(layout) X(left_side) X(                         \
                              lhs_batching_dimensions) X(lhs_component_count) X(lhs_contracting_dimensions)  \
                              X(lhs_dilation) X(lhs_group_dimensions) X(lhs_precision_type) X(               \
                                  lhs_ragged_dimensions) X(limit_indices) X(lower) X(mantissa_bits) X(name)  \
                                  X(num_primitive_operations) X(offset_dims) X(operand_batching_dims) X(     \
                                      operand_layouts) X(outfeed_config) X(output_batch_dimension)           \
                                      X(output_feature_dimension) X(output_operand_aliases) X(               \
                                          output_spatial_dimensions) X(padding) X(permutation)               \
                                          X(precision_config) X(replica_groups) X(result_accuracy) X(        \
                                              result_layouts) X(result_tilings) X(rhs_batching_dimensions)   \
                                              X(rhs_component_count) X(rhs_contracting_dimensions) X(        \
                                                  rhs_dilation) X(rhs_group_dimensions)                      \
                                                  X(rhs_precision_type) X(rng_algorithm) X(rng_distribution) \
                                                      X(scatter_dimension) X(scatter_dims_to_operand_dims)   \
                                                          X(scatter_indices_batching_dims) X(slice_sizes) X( \
                                                              source_target_pairs) X(split_count)            \
                                                              X(split_dimension) X(start_index_map) X(       \
                                                                  start_indices)                             \
                                                                  X(start_indices_batching_dims) X(          \
                                                                      strides) X(transpose_a)                \
                                                                      X(unique_indices) X(unit_diagonal) X(  \
                                                                          update_window_dims)                \
                                                                          X(use_global_device_ids) X(value)  \
                                                                              X(version) X(window_dilations) \
                                                                                  X(window_dimensions)       \
                                                                                      X(window_reversal)     \
                                                                                          X(window_strides)
// clang-format on

enum class Attr : uint8_t {
#define X(name) name,
  OPENTRN_GRAPH_ATTRIBUTES(X)
#undef X
};
#define X(name) +1  // NOLINT(bugprone-macro-parentheses)
inline constexpr int kAttrCount = 0 OPENTRN_GRAPH_ATTRIBUTES(X);
#undef X

std::string_view name(Attr attr);
std::optional<Attr> attr_from_name(std::string_view name);

// Enumerations, numbered as in VHLO's bytecode. Stored as int64_t.
enum class ComparisonDirection : uint8_t { kEq, kNe, kGe, kGt, kLe, kLt };
enum class ComparisonType : uint8_t { kNone, kFloat, kTotalOrder, kSigned, kUnsigned };
enum class Precision : uint8_t { kDefault, kHigh, kHighest };
enum class FftType : uint8_t { kFft, kIfft, kRfft, kIrfft };
enum class RngAlgorithm : uint8_t { kDefault, kThreeFry, kPhilox };
enum class RngDistribution : uint8_t { kInvalid, kUniform, kNormal };
enum class Transpose : uint8_t { kInvalid, kNone, kTranspose, kAdjoint };
enum class CustomCallApi : uint8_t {
  kUnspecified,
  kOriginal,
  kStatusReturning,
  kStatusReturningUnified,
  kTypedFfi
};

}  // namespace opentrn::graph
