#include "numerics/quantise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/fault.h"
#include "numerics/convert.h"
#include "numerics/mx.h"

namespace opentrn::numerics {

float largest_quantised(DType type) {
  switch (type) {
    case DType::kInt8: return 127;
    case DType::kFloat8E4M3: return 240;
    case DType::kFloat8E4M3Fn: return 448;
    case DType::kFloat8E5M2: return 57344;
    default: OPENTRN_CHECK(false, "nothing is quantised to {}", static_cast<int>(type));
  }
  return 0;
}

bool quantise_columns(DType type, std::span<float> values, std::span<float> scales, std::byte* narrow,
                      std::span<const int64_t> together) {
  const float largest = largest_quantised(type);
  const size_t columns = scales.size();
  std::ranges::fill(scales, 0.0F);
  bool is_finite = true;
  for (size_t i = 0; i < values.size(); i += columns)
    for (size_t n = 0; n < columns; ++n) {
      const float size = std::fabs(values[i + n]);
      is_finite &= size <= std::numeric_limits<float>::max();
      scales[n] = std::max(scales[n], size);
    }
  if (!is_finite) return false;
  size_t first = 0;
  for (const int64_t count : together) {
    const std::span<float> shared = scales.subspan(first, static_cast<size_t>(count));
    if (count > 0) std::ranges::fill(shared, std::ranges::max(shared));
    first += shared.size();
  }
  for (float& scale : scales) scale = scale / largest == 0 ? 1 : scale / largest;
  for (size_t i = 0; i < values.size(); i += columns)
    for (size_t n = 0; n < columns; ++n)
      values[i + n] = std::min(std::max(values[i + n] / scales[n], -largest), largest);
  store_f32(type, values.data(), narrow, values.size());
  return true;
}

namespace {

constexpr int kScaleBias = 127;
constexpr int kLargestCode = 254;
constexpr size_t kPacksOfBlock = kMxBlock / kMxPack;

using BlockNumbers = std::array<float, kMxBlock>;

// Numbers of a block to the nearest ones of an element, without their codes: a sum with a number so large
// that fp32 has no finer step than the element leaves of `value` what the element holds, rounded to nearest
// even.
class Grid {
 public:
  explicit Grid(DType x4)
      : fraction_bits_(x4 == DType::kFloat4E2M1FnX4 ? 1 : 3),
        least_exponent_(x4 == DType::kFloat4E2M1FnX4 ? 0 : -6),
        largest_(x4 == DType::kFloat4E2M1FnX4 ? 6.0F : 448.0F) {}

  float nearest(float value) const {
    const float size = std::min(std::fabs(value), largest_);
    const float normal =
        std::max(size, std::bit_cast<float>(static_cast<uint32_t>(127 + least_exponent_) << 23));
    const uint32_t exponent = std::bit_cast<uint32_t>(normal) >> 23;
    const float coarse = std::bit_cast<float>((exponent + 23 - static_cast<uint32_t>(fraction_bits_)) << 23);
    return std::copysign((size + coarse) - coarse, value);
  }

 private:
  int fraction_bits_, least_exponent_;
  float largest_;
};

// Each block by the better of two scales.
class Microscaler {
 public:
  explicit Microscaler(DType x4) : x4_(x4), grid_(x4) {}

  // False where a number is not finite.
  bool take(const BlockNumbers& values) {
    uint32_t largest = 0;  // sizes compare as integers
    for (const float value : values)
      largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
    const float amax = std::bit_cast<float>(largest);
    if (!(amax <= std::numeric_limits<float>::max())) return false;
    code_ = mx_scale_code(x4_, amax, MxScaleRule::kOcp);
    const double error = rounded(values, code_, numbers_);
    if (error == 0 || code_ >= kLargestCode) return true;
    // Numbers of the second scale are half as large.
    if (4 * rounded(values, code_ + 1, others_) < error) {
      ++code_;
      std::swap(numbers_, others_);
    }
    return true;
  }

  uint8_t code() const { return static_cast<uint8_t>(code_); }
  void store(std::byte* packs) const { pack_x4(x4_, numbers_.data(), packs, kPacksOfBlock); }

 private:
  // The sum of squared errors, of numbers as the element holds them.
  double rounded(const BlockNumbers& values, int code, BlockNumbers& numbers) const {
    const float down = std::ldexp(1.0F, kScaleBias - code);
    double error = 0;
    for (size_t i = 0; i < kMxBlock; ++i) {
      const float scaled = values[i] * down;
      numbers[i] = grid_.nearest(scaled);
      const double difference = numbers[i] - scaled;
      error += difference * difference;
    }
    return error;
  }

  DType x4_;
  Grid grid_;
  BlockNumbers numbers_{}, others_{};
  int code_ = 0;
};

// Columns that are taken together: rows of fp32 that fill cache lines.
constexpr size_t kColumnsTogether = 16;

}  // namespace

bool microscale_columns(DType x4, std::span<const float> values, size_t columns, std::byte* packed,
                        uint8_t* codes) {
  const size_t blocks = columns == 0 ? 0 : values.size() / (kMxBlock * columns);
  const size_t block_bytes = kPacksOfBlock * columns * size_bytes(x4);
  OPENTRN_CHECK(blocks * kMxBlock * columns == values.size(), "{} numbers are no blocks", values.size());
  const auto pack_bytes = static_cast<size_t>(size_bytes(x4));
  Microscaler block(x4);
  std::array<BlockNumbers, kColumnsTogether> numbers;
  std::array<std::byte, kMxBlock> packs;
  for (size_t row = 0; row < blocks; ++row)
    for (size_t first = 0; first < columns; first += kColumnsTogether) {
      const size_t count = std::min(kColumnsTogether, columns - first);
      for (size_t i = 0; i < kMxBlock; ++i)
        for (size_t n = 0; n < count; ++n) numbers[n][i] = values[(row * kMxBlock + i) * columns + first + n];
      for (size_t n = 0; n < count; ++n) {
        if (!block.take(numbers[n])) return false;
        codes[row * columns + first + n] = block.code();
        block.store(packs.data());
        std::byte* to = packed + row * block_bytes + (first + n) * pack_bytes;
        for (size_t i = 0; i < kPacksOfBlock; ++i)
          std::memcpy(to + i * columns * pack_bytes, packs.data() + i * pack_bytes, pack_bytes);
      }
    }
  return true;
}

}  // namespace opentrn::numerics
