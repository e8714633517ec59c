#include "numerics/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

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

bool quantise_columns(DType type, std::span<float> values, std::span<float> scales, std::byte* narrow) {
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

// Each block by the better of two scales; a pack of four numbers has `pack_bytes`.
class Microscaler {
 public:
  explicit Microscaler(DType x4)
      : x4_(x4), pack_bytes_(size_bytes(x4)), bytes_(kPacksOfBlock * pack_bytes_), others_(bytes_) {}

  // False where a number is not finite.
  bool take(const BlockNumbers& values) {
    float amax = 0;
    bool is_finite = true;
    for (const float value : values) {
      is_finite &= std::fabs(value) <= std::numeric_limits<float>::max();
      amax = std::max(amax, std::fabs(value));
    }
    if (!is_finite) return false;
    code_ = mx_scale_code(x4_, amax, MxScaleRule::kOcp);
    const double error = packed(values, code_, bytes_.data());
    if (error != 0 && code_ < kLargestCode && packed(values, code_ + 1, others_.data()) < error) {
      ++code_;
      bytes_.swap(others_);
    }
    return true;
  }

  uint8_t code() const { return static_cast<uint8_t>(code_); }
  // Packs [8, columns] from `to` on.
  void store(std::byte* to, size_t columns) const {
    for (size_t i = 0; i < kPacksOfBlock; ++i)
      std::memcpy(to + i * columns * pack_bytes_, bytes_.data() + i * pack_bytes_, pack_bytes_);
  }

 private:
  // The sum of squared errors.
  double packed(const BlockNumbers& values, int code, std::byte* bytes) const {
    BlockNumbers scaled, back;
    const float down = std::ldexp(1.0F, kScaleBias - code);
    for (size_t i = 0; i < kMxBlock; ++i) scaled[i] = values[i] * down;
    pack_x4(x4_, scaled.data(), bytes, kPacksOfBlock);
    unpack_x4(x4_, bytes, back.data(), kPacksOfBlock);
    const double scale = std::ldexp(1.0, code - kScaleBias);
    double error = 0;
    for (size_t i = 0; i < kMxBlock; ++i) {
      const double difference = back[i] * scale - values[i];
      error += difference * difference;
    }
    return error;
  }

  DType x4_;
  size_t pack_bytes_;
  std::vector<std::byte> bytes_, others_;
  int code_ = 0;
};

}  // namespace

bool microscale_columns(DType x4, std::span<const float> values, size_t columns, std::byte* packed,
                        uint8_t* codes) {
  const size_t blocks = columns == 0 ? 0 : values.size() / (kMxBlock * columns);
  const size_t block_bytes = kPacksOfBlock * columns * size_bytes(x4);
  OPENTRN_CHECK(blocks * kMxBlock * columns == values.size(), "{} numbers are no blocks", values.size());
  Microscaler block(x4);
  BlockNumbers numbers;
  for (size_t row = 0; row < blocks; ++row)
    for (size_t n = 0; n < columns; ++n) {
      for (size_t i = 0; i < kMxBlock; ++i) numbers[i] = values[(row * kMxBlock + i) * columns + n];
      if (!block.take(numbers)) return false;
      codes[row * columns + n] = block.code();
      block.store(packed + row * block_bytes + n * size_bytes(x4), columns);
    }
  return true;
}

}  // namespace opentrn::numerics
