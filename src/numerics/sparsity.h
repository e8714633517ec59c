// M:N structured sparsity: of every N consecutive elements along the contraction axis at most M are
// not zero, so M values and their positions are stored.
//
// Patterns: NeuronCore-v3 lists 4:16, 4:12, 4:8, 2:8, 2:4, 1:4, 1:2 [doc: neuron-core-v3.rst]. A
// position within its group is a 4-bit tag; four tags fill one uint16, first tag in the low bits
// [doc: trainium2_arch.rst gives 4-bit tags, four to a uint16; the order within is assumed].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "numerics/dtype.h"

namespace opentrn::numerics {

struct SparsityPattern {
  int kept;   // M
  int group;  // N

  int compression() const { return group / kept; }
  friend bool operator==(const SparsityPattern&, const SparsityPattern&) = default;
};
std::span<const SparsityPattern> sparsity_patterns();
std::optional<SparsityPattern> sparsity_pattern_from_name(std::string_view name);  // "4:16"

// Index of the first group of `dense` with more than M values that are not zero; nullopt when the row
// obeys the pattern. n must be a multiple of N. A float -0 counts as zero.
std::optional<size_t> first_violation(SparsityPattern pattern, DType dtype, const void* dense, size_t n);

// Stores each group's values that are not zero in order, padded with the zeros at the lowest other
// positions, so a group's tags are distinct and ascending. values: n * M / N elements; tags: one byte
// each. Throws Fault{kProgram} on a violation.
void compress_sparse(SparsityPattern pattern, DType dtype, const void* dense, size_t n, void* values,
                     uint8_t* tags);
// The inverse; n is the length of `dense`. A tag of N or more, or one used twice in a group, is
// Fault{kProgram}.
void decompress_sparse(SparsityPattern pattern, DType dtype, const void* values, const uint8_t* tags,
                       size_t n, void* dense);

// Makes a row obey the pattern: keeps the M largest magnitudes of each group, earliest first on ties.
void prune_to_pattern(SparsityPattern pattern, float* row, size_t n);

// n must be a multiple of 4.
void pack_tags(const uint8_t* tags, size_t n, uint16_t* packed);
void unpack_tags(const uint16_t* packed, size_t n, uint8_t* tags);

}  // namespace opentrn::numerics
