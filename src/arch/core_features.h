// What instructions may do on a generation of the NeuronCore: facts of src/arch/tables/neuron_core.toml.
//
// Code asks for one of these and not for the generation, so that a new generation is a table. A compiler's
// habit on one generation is no fact of the core: compiler_model.toml has those.
#pragma once

#include "base/generation.h"

namespace opentrn::arch {

struct CoreFeatures {
  bool scalar_copies;                // tensor_copy on the Scalar engine
  bool scalar_tensor_scalar;         // tensor_scalar is given to the Scalar engine where no engine is named
  bool scalar_every_operator;        // tensor_scalar on the Scalar engine takes every operator
  bool activation_bias_number;       // activation takes a number as bias
  bool activation_reduce_operators;  // activation_reduce takes more than add
  bool activation_reciprocal_bias;   // activation with reciprocal takes a bias
  bool alu_absolute_and_relu;        // abs_max, abs_min, square and relu are ALU operators
  bool matmul_small_tiles;           // tiles of 32 rows or columns
  bool matmul_double_row;            // perf_mode double_row
  bool matmul_sparse;                // weights of M:N structured sparsity
  bool matmul_mx;                    // nc_matmul_mx
  bool matmul_fp8_e4m3fn;            // operands in float8_e4m3fn
  bool matmul_bf16_result;           // sums are written as bf16
  bool matmul_over_banks;            // one product covers more than one PSUM bank
  bool matmul_transposes_bits;       // is_transpose moves bits; before, a product computes
  bool psum_accumulates_any;         // a product accumulates onto what another engine wrote
  bool hardware_descriptors;         // a unit writes descriptors while the kernel runs
  bool dma_classes;                  // transfers have a priority, 0 to 3
  bool gpsimd_random;                // rng on GpSimd
  bool vector_random_state;          // the Vector engine's random state is readable
  bool tile_indirection;             // .indirect() of tiles
  bool logical_cores;                // two physical cores make a logical one
};

// Of the built-in tables; a lookup.
const CoreFeatures& core_features(Generation generation);

}  // namespace opentrn::arch
