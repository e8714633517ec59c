#include "arch/core_features.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "arch/arch.h"

namespace opentrn::arch {

namespace {

constexpr std::pair<std::string_view, bool CoreFeatures::*> kFeatures[] = {
    {"scalar_copies", &CoreFeatures::scalar_copies},
    {"scalar_tensor_scalar", &CoreFeatures::scalar_tensor_scalar},
    {"scalar_every_operator", &CoreFeatures::scalar_every_operator},
    {"activation_bias_number", &CoreFeatures::activation_bias_number},
    {"activation_reduce_operators", &CoreFeatures::activation_reduce_operators},
    {"activation_reciprocal_bias", &CoreFeatures::activation_reciprocal_bias},
    {"alu_absolute_and_relu", &CoreFeatures::alu_absolute_and_relu},
    {"matmul_small_tiles", &CoreFeatures::matmul_small_tiles},
    {"matmul_double_row", &CoreFeatures::matmul_double_row},
    {"matmul_sparse", &CoreFeatures::matmul_sparse},
    {"matmul_mx", &CoreFeatures::matmul_mx},
    {"matmul_fp8_e4m3fn", &CoreFeatures::matmul_fp8_e4m3fn},
    {"matmul_bf16_result", &CoreFeatures::matmul_bf16_result},
    {"matmul_over_banks", &CoreFeatures::matmul_over_banks},
    {"matmul_transposes_bits", &CoreFeatures::matmul_transposes_bits},
    {"psum_accumulates_any", &CoreFeatures::psum_accumulates_any},
    {"hardware_descriptors", &CoreFeatures::hardware_descriptors},
    {"dma_classes", &CoreFeatures::dma_classes},
    {"gpsimd_random", &CoreFeatures::gpsimd_random},
    {"vector_random_state", &CoreFeatures::vector_random_state},
    {"tile_indirection", &CoreFeatures::tile_indirection},
    {"logical_cores", &CoreFeatures::logical_cores},
};

CoreFeatures read(const Tables& tables, Generation generation) {
  CoreFeatures features{};
  for (const auto& [name, member] : kFeatures)
    features.*member =
        tables.facts().spec<bool>(fmt::format("neuron_core.{}.can.{}", table_key(generation), name)).value();
  return features;
}

}  // namespace

const CoreFeatures& core_features(Generation generation) {
  static const auto* all = [] {
    auto* table = new std::array<CoreFeatures, kGenerations.size()>{};
    for (const Generation each : kGenerations)
      table->at(static_cast<size_t>(version(each) - 1)) = read(default_tables(), each);
    return table;
  }();
  return all->at(static_cast<size_t>(version(generation) - 1));
}

}  // namespace opentrn::arch
