#include "numerics/sparsity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/fault.h"
#include "numerics/convert.h"

namespace opentrn::numerics {
namespace {

constexpr int kGroupMax = 16;

constexpr std::array kPatterns{SparsityPattern{4, 16}, SparsityPattern{4, 12}, SparsityPattern{4, 8},
                               SparsityPattern{2, 8},  SparsityPattern{2, 4},  SparsityPattern{1, 4},
                               SparsityPattern{1, 2}};

void check_row(SparsityPattern pattern, size_t n) {
  if (std::find(kPatterns.begin(), kPatterns.end(), pattern) == kPatterns.end()) {
    throw Fault(FaultKind::kProgram, "sparsity.pattern",
                fmt::format("{}:{} is not a supported sparsity pattern", pattern.kept, pattern.group),
                "use 4:16, 4:12, 4:8, 2:8, 2:4, 1:4 or 1:2");
  }
  if (n % static_cast<size_t>(pattern.group) != 0) {
    throw Fault(FaultKind::kProgram, "sparsity.length",
                fmt::format("{} elements are not whole groups of {}", n, pattern.group),
                "pad the row with zeros");
  }
}

// All bits of the element, and whether it is zero as a number.
struct Element {
  uint64_t bits;
  bool zero;
};

Element element_at(DType dtype, const void* row, size_t i) {
  const auto bytes = static_cast<size_t>(size_bytes(dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(row) + i * bytes, bytes);
  const uint64_t sign = uint64_t{1} << (8 * bytes - 1);
  return {bits, is_float(dtype) ? (bits & ~sign) == 0 : bits == 0};
}

void put(DType dtype, void* row, size_t i, uint64_t bits) {
  const auto bytes = static_cast<size_t>(size_bytes(dtype));
  std::memcpy(static_cast<std::byte*>(row) + i * bytes, &bits, bytes);
}

// Positions of a group to store: those that are not zero, then the lowest others, in order.
std::optional<std::array<uint8_t, kGroupMax>> kept_positions(SparsityPattern pattern, DType dtype,
                                                             const void* dense, size_t first) {
  std::array<bool, kGroupMax> keep{};
  int count = 0;
  for (int j = 0; j < pattern.group; ++j) {
    keep[static_cast<size_t>(j)] = !element_at(dtype, dense, first + static_cast<size_t>(j)).zero;
    count += keep[static_cast<size_t>(j)];
  }
  if (count > pattern.kept) return std::nullopt;
  for (size_t j = 0; count < pattern.kept; ++j) {
    count += !keep[j];
    keep[j] = true;
  }
  std::array<uint8_t, kGroupMax> positions{};
  for (size_t j = 0, k = 0; j < static_cast<size_t>(pattern.group); ++j) {
    if (keep[j]) positions[k++] = static_cast<uint8_t>(j);
  }
  return positions;
}

}  // namespace

std::span<const SparsityPattern> sparsity_patterns() { return kPatterns; }

std::optional<SparsityPattern> sparsity_pattern_from_name(std::string_view name) {
  for (const SparsityPattern& pattern : kPatterns) {
    if (name == fmt::format("{}:{}", pattern.kept, pattern.group)) return pattern;
  }
  return std::nullopt;
}

std::optional<size_t> first_violation(SparsityPattern pattern, DType dtype, const void* dense, size_t n) {
  check_row(pattern, n);
  const auto group = static_cast<size_t>(pattern.group);
  for (size_t g = 0; g < n / group; ++g) {
    if (!kept_positions(pattern, dtype, dense, g * group)) return g;
  }
  return std::nullopt;
}

void compress_sparse(SparsityPattern pattern, DType dtype, const void* dense, size_t n, void* values,
                     uint8_t* tags) {
  check_row(pattern, n);
  const auto group = static_cast<size_t>(pattern.group), kept = static_cast<size_t>(pattern.kept);
  for (size_t g = 0; g < n / group; ++g) {
    const auto positions = kept_positions(pattern, dtype, dense, g * group);
    if (!positions) {
      throw Fault(FaultKind::kProgram, "sparsity.violation",
                  fmt::format("group {} (elements {} to {}) has more than {} values that are not zero", g,
                              g * group, g * group + group - 1, pattern.kept),
                  "prune the matrix to the pattern first");
    }
    for (size_t k = 0; k < kept; ++k) {
      const size_t at = (*positions)[k];
      tags[g * kept + k] = static_cast<uint8_t>(at);
      put(dtype, values, g * kept + k, element_at(dtype, dense, g * group + at).bits);
    }
  }
}

void decompress_sparse(SparsityPattern pattern, DType dtype, const void* values, const uint8_t* tags,
                       size_t n, void* dense) {
  check_row(pattern, n);
  const auto group = static_cast<size_t>(pattern.group), kept = static_cast<size_t>(pattern.kept);
  std::memset(dense, 0, n * static_cast<size_t>(size_bytes(dtype)));
  for (size_t g = 0; g < n / group; ++g) {
    uint32_t used = 0;
    for (size_t k = 0; k < kept; ++k) {
      const uint8_t tag = tags[g * kept + k];
      if (tag >= pattern.group || (used >> tag & 1) != 0) {
        throw Fault(FaultKind::kProgram, "sparsity.tag",
                    fmt::format("group {} has tag {} {}", g, tag,
                                tag >= pattern.group ? "outside the group" : "twice"),
                    fmt::format("tags of {}:{} are distinct and below {}", pattern.kept, pattern.group,
                                pattern.group));
      }
      used |= 1u << tag;
      put(dtype, dense, g * group + tag, element_at(dtype, values, g * kept + k).bits);
    }
  }
}

void prune_to_pattern(SparsityPattern pattern, float* row, size_t n) {
  check_row(pattern, n);
  const auto group = static_cast<size_t>(pattern.group);
  std::array<uint8_t, kGroupMax> order;
  for (size_t first = 0; first < n; first += group) {
    for (size_t j = 0; j < group; ++j) order[j] = static_cast<uint8_t>(j);
    std::stable_sort(order.begin(), order.begin() + pattern.group, [&](uint8_t a, uint8_t b) {
      return std::fabs(row[first + a]) > std::fabs(row[first + b]);
    });
    for (size_t k = static_cast<size_t>(pattern.kept); k < group; ++k) row[first + order[k]] = 0.0f;
  }
}

void pack_tags(const uint8_t* tags, size_t n, uint16_t* packed) {
  OPENTRN_CHECK(n % 4 == 0, "{} tags do not fill 16-bit words", n);
  for (size_t i = 0; i < n; i += 4) {
    uint32_t word = 0;
    for (size_t j = 0; j < 4; ++j) word |= static_cast<uint32_t>(tags[i + j] & 15) << (4 * j);
    packed[i / 4] = static_cast<uint16_t>(word);
  }
}

void unpack_tags(const uint16_t* packed, size_t n, uint8_t* tags) {
  OPENTRN_CHECK(n % 4 == 0, "{} tags do not fill 16-bit words", n);
  for (size_t i = 0; i < n; ++i) tags[i] = packed[i / 4] >> (4 * (i % 4)) & 15;
}

}  // namespace opentrn::numerics
