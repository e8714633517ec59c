#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"
#include "import/weights/encoding.h"
#include "import/weights/gguf.h"

namespace opentrn::import::weights {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> decoded(Encoding encoding, const std::vector<uint8_t>& bytes) {
  std::vector<float> out(bytes.size() / static_cast<size_t>(block_bytes(encoding)) *
                         static_cast<size_t>(block_elements(encoding)));
  decode(encoding, std::as_bytes(std::span(bytes)), out);
  return out;
}

// 1.5 and -2 as binary16.
constexpr uint8_t kOneAndAHalf[] = {0x00, 0x3E}, kMinusTwo[] = {0x00, 0xC0};

// Codes 0 to 15 of E2M1 in the lower halves and 15 to 0 in the upper ones, with a scale of 2^-3.
TEST(Mxfp4, NumbersOfABlock) {
  constexpr float kNumbers[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  std::vector<uint8_t> block{124}, scales{124};
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<uint8_t>(i | (15 - i) << 4));
  const std::vector<float> found = decoded(Encoding::kMXFP4, block);
  std::vector<float> pairs(32);
  decode_mxfp4(std::as_bytes(std::span(block).subspan(1)), std::as_bytes(std::span(scales)), pairs);
  for (size_t i = 0; i < 16; ++i) {
    const float number = (i < 8 ? kNumbers[i] : -kNumbers[i - 8]) / 8;
    EXPECT_EQ(found[i], number);
    EXPECT_EQ(found[31 - i], number);  // ggml's order: the upper halves are the later numbers
    EXPECT_EQ(pairs[2 * i], number);   // OpenAI's: the two of a byte are neighbours
    EXPECT_EQ(pairs[31 - 2 * i], number);
  }
}

// Scales are powers of two from 2^-127 on.
TEST(Mxfp4, ScalesOfAllExponents) {
  for (int bits = 0; bits < 255; ++bits) {
    std::vector<uint8_t> block(17, 0x22);
    block[0] = static_cast<uint8_t>(bits);
    EXPECT_EQ(decoded(Encoding::kMXFP4, block)[7], std::ldexp(1.0F, bits - 127)) << bits;
  }
}

// A scale of 1.5, codes 0 to 15 in the lower halves and 15 to 0 in the upper ones.
TEST(NonLinear, NumbersOfABlock) {
  constexpr float kNumbers[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  std::vector<uint8_t> block(std::begin(kOneAndAHalf), std::end(kOneAndAHalf));
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<uint8_t>(i | (15 - i) << 4));
  const std::vector<float> found = decoded(Encoding::kIQ4_NL, block);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(found[i], 1.5F * kNumbers[i]);
    EXPECT_EQ(found[31 - i], 1.5F * kNumbers[i]);
  }
}

// Eight scales of six bits: 0, 9, 18, ... 63, less 32; all codes are 8, which stands for 1.
TEST(NonLinear, ScalesOfABlock) {
  std::vector<uint8_t> block(std::begin(kOneAndAHalf), std::end(kOneAndAHalf));
  uint16_t upper = 0;
  std::vector<uint8_t> lower(4);
  for (int i = 0; i < 8; ++i) {
    const int scale = 9 * i;
    upper = static_cast<uint16_t>(upper | (scale >> 4) << (2 * i));
    lower[static_cast<size_t>(i / 2)] |= static_cast<uint8_t>((scale & 15) << (i % 2 * 4));
  }
  block.push_back(static_cast<uint8_t>(upper & 255));
  block.push_back(static_cast<uint8_t>(upper >> 8));
  block.insert(block.end(), lower.begin(), lower.end());
  block.resize(136, 0x88);
  const std::vector<float> found = decoded(Encoding::kIQ4_XS, block);
  for (size_t i = 0; i < 256; ++i)
    EXPECT_EQ(found[i], 1.5F * static_cast<float>(9 * static_cast<int>(i / 32) - 32));
}

TEST(Half, EveryNumberIsWhatItsBitsSay) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(half_to_float(half)), fraction != 0);
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    EXPECT_EQ(half_to_float(half), static_cast<float>(bits & 0x8000 ? -magnitude : magnitude));
    EXPECT_EQ(float_to_half(half_to_float(half)), half);
  }
}

// The nearest of two neighbours, the even one of equally near ones.
TEST(Half, NumbersBetweenTwoAreRoundedToTheNearest) {
  SplitMix64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto low = static_cast<uint16_t>(random.below(0x7BFF));
    const double from = half_to_float(low), to = half_to_float(static_cast<uint16_t>(low + 1));
    const int part = static_cast<int>(random.below(9));
    const auto value = static_cast<float>(from + (to - from) * part / 8);
    const bool up = part > 4 || (part == 4 && low % 2 == 1);
    EXPECT_EQ(float_to_half(value), low + up) << value;
    EXPECT_EQ(float_to_half(-value), (low + up) | 0x8000);
  }
  EXPECT_EQ(float_to_half(65519.0F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
}

TEST(Bfloat, RoundsToNearestEven) {
  EXPECT_EQ(float_to_bfloat(1.0F), 0x3F80);
  EXPECT_EQ(float_to_bfloat(1.0F + 0x1p-8F), 0x3F80);  // a tie, to even
  EXPECT_EQ(float_to_bfloat(1.0F + 3 * 0x1p-8F), 0x3F82);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(uint32_t{float_to_bfloat(std::nanf("1"))} << 16)));
}

TEST(Blocks, OfThirtyTwo) {
  std::vector<uint8_t> q4_0{kOneAndAHalf[0], kOneAndAHalf[1]};
  for (int j = 0; j < 16; ++j) q4_0.push_back(static_cast<uint8_t>(j | (15 - j) << 4));
  std::vector<uint8_t> q4_1 = q4_0, q5_0 = q4_0, q5_1, q8_0{kOneAndAHalf[0], kOneAndAHalf[1]};
  q4_1.insert(q4_1.begin() + 2, std::begin(kMinusTwo), std::end(kMinusTwo));
  const uint8_t fifths[] = {0x01, 0x80, 0x00, 0x80};  // of numbers 0, 15 and 31
  q5_0.insert(q5_0.begin() + 2, std::begin(fifths), std::end(fifths));
  q5_1 = q5_0;
  q5_1.insert(q5_1.begin() + 2, std::begin(kMinusTwo), std::end(kMinusTwo));
  for (int j = 0; j < 32; ++j) q8_0.push_back(static_cast<uint8_t>(j * 8 - 128));
  for (int j = 0; j < 32; ++j) {
    const int nibble = j < 16 ? j : 31 - j;
    const int five = nibble + (j == 0 || j == 15 || j == 31 ? 16 : 0);
    const auto at = static_cast<size_t>(j);
    EXPECT_EQ(decoded(Encoding::kQ4_0, q4_0)[at], 1.5F * static_cast<float>(nibble - 8));
    EXPECT_EQ(decoded(Encoding::kQ4_1, q4_1)[at], 1.5F * static_cast<float>(nibble) - 2);
    EXPECT_EQ(decoded(Encoding::kQ5_0, q5_0)[at], 1.5F * static_cast<float>(five - 16));
    EXPECT_EQ(decoded(Encoding::kQ5_1, q5_1)[at], 1.5F * static_cast<float>(five) - 2);
    EXPECT_EQ(decoded(Encoding::kQ8_0, q8_0)[at], 1.5F * static_cast<float>(j * 8 - 128));
  }
}

TEST(Blocks, OfTwoHundredAndFiftySixHaveScalesOfTheirOwn) {
  // Q6_K: quants 0 but for the upper bits of number 33, scales 1 to 16, d 1.5.
  std::vector<uint8_t> q6(210, 0);
  q6[128 + 1] = 1 << 2;  // numbers 1, 33, 65 and 97 share a byte
  for (int i = 0; i < 16; ++i) q6[192 + static_cast<size_t>(i)] = static_cast<uint8_t>(i + 1);
  std::memcpy(&q6[208], kOneAndAHalf, 2);
  const auto six = decoded(Encoding::kQ6_K, q6);
  EXPECT_EQ(six[0], 1.5F * 1 * -32);
  EXPECT_EQ(six[33], 1.5F * 3 * (16 - 32));
  EXPECT_EQ(six[255], 1.5F * 16 * -32);
  // Q4_K: every pair's scale is its number plus 1, its minimum 2, quants 3.
  std::vector<uint8_t> q4(144, 0x33);
  std::memcpy(&q4[0], kOneAndAHalf, 2);
  std::memcpy(&q4[2], kMinusTwo, 2);
  const uint8_t packed[] = {1, 2, 3, 4, 2, 2, 2, 2, 0x25, 0x26, 0x27, 0x28};
  std::memcpy(&q4[4], packed, sizeof packed);
  const auto four = decoded(Encoding::kQ4_K, q4);
  for (size_t j = 0; j < 8; ++j) EXPECT_EQ(four[j * 32], 1.5F * static_cast<float>(j + 1) * 3 + 4);
}

// -- GGUF
class Writer {
 public:
  template <typename Value>
  Writer& put(Value value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Writer& text(std::string_view value) {
    put(static_cast<uint64_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  Writer& raw(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  Writer& aligned() {
    bytes_.resize((bytes_.size() + 31) / 32 * 32);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// One key "k" = 7 and one tensor "t", [2, 3] fp32 with 0, 1, ... 5.
std::string small_file() {
  Writer file;
  file.raw("GGUF").put(uint32_t{3}).put(uint64_t{1}).put(uint64_t{1});
  file.text("k").put(uint32_t{4}).put(uint32_t{7});
  file.text("t").put(uint32_t{2}).put(uint64_t{3}).put(uint64_t{2}).put(uint32_t{0}).put(uint64_t{0});
  file.aligned();
  for (int i = 0; i < 6; ++i) file.put(static_cast<float>(i));
  return file.bytes();
}

Gguf read(const std::string& bytes) { return read_gguf(std::as_bytes(std::span(bytes)), nullptr); }

std::string label_of(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const Fault& fault) {
    return fault.label();
  }
  return "";
}

TEST(Gguf, HoldsKeysAndTensors) {
  const std::string bytes = small_file();
  const Gguf file = read(bytes);
  EXPECT_EQ(file.integer("k"), 7);
  EXPECT_EQ(file.real("k"), 7.0);
  EXPECT_EQ(file.integer("absent"), std::nullopt);
  EXPECT_THROW((void)file.text("k"), Fault);
  const StoredTensor& tensor = *file.tensors.find("t");
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  std::vector<float> values(6);
  decode(tensor.encoding, tensor.bytes, values);
  EXPECT_THAT(values, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(file.tensors.find("u"), nullptr);
}

TEST(Gguf, ShorterFilesAreRefused) {
  const std::string bytes = small_file();
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THAT(label_of(bytes.substr(0, length)), HasSubstr("gguf.")) << length;
  EXPECT_EQ(label_of(bytes), "");
}

TEST(Gguf, SizesBeyondTheFileAreNotBelieved) {
  const auto changed = [](size_t at, uint64_t value) {
    std::string bytes = small_file();
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    return label_of(bytes);
  };
  EXPECT_EQ(changed(8, ~uint64_t{0}), "gguf.header");                                 // tensors
  EXPECT_EQ(changed(16, ~uint64_t{0}), "gguf.header");                                // keys
  EXPECT_EQ(changed(24, uint64_t{1} << 40), "gguf.header");                           // of the first key
  EXPECT_EQ(changed(24 + 9 + 8 + 9 + 4, uint64_t{1} << 62), "gguf.tensor");           // a dimension
  EXPECT_EQ(changed(24 + 9 + 8 + 9 + 4 + 16 + 4, uint64_t{1} << 33), "gguf.tensor");  // the offset
}

TEST(Gguf, TypesThatAreNotReadAreNamed) {
  std::string bytes = small_file();
  const uint32_t type = 18;
  std::memcpy(bytes.data() + 24 + 9 + 8 + 9 + 4 + 16, &type, sizeof(type));
  try {
    read(bytes);
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kNotModelled);
    EXPECT_THAT(fault.message(), HasSubstr("'t' is IQ3_XXS"));
  }
}

}  // namespace
}  // namespace opentrn::import::weights
