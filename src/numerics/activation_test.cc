#include "numerics/activation.h"
#include "numerics/alu.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "numerics/simd_targets.h"

namespace opentrn::numerics {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<ActivationFunction> functions() {
  std::vector<ActivationFunction> all;
  for (int i = 0; i < kActivationFunctionCount; ++i) all.push_back(static_cast<ActivationFunction>(i));
  return all;
}

// Half over all magnitudes, half where the functions bend.
std::vector<float> inputs(size_t n) {
  SplitMix64 rng(11);
  std::vector<float> row(n);
  for (float& x : row) {
    if (rng.below(2) == 0) {
      do x = std::bit_cast<float>(rng.next32());
      while (std::isnan(x));
    } else {
      x = static_cast<float>((rng.uniform() - 0.5) * (rng.below(2) == 0 ? 4 : 220));
    }
  }
  return row;
}

double ulp_of(double magnitude) {
  const int exponent = magnitude == 0 ? -126 : std::max(std::ilogb(magnitude), -126);
  return std::ldexp(1.0, exponent - 23);
}

TEST(Activation, ErrorIsWithinThePromisedBound) {
  const std::vector<float> in = inputs(400000);
  std::vector<float> out(in.size());
  constexpr float kSlope = 0.25f;
  for (const ActivationFunction f : functions()) {
    activate(f, in.data(), out.data(), in.size(), kSlope);
    double worst = 0, worst_at = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const double truth = activation_reference(f, in[i], kSlope);
      const auto rounded = static_cast<float>(truth);
      if (std::isnan(truth) || std::isinf(rounded) || rounded == 0) {
        const bool same = std::isnan(truth) ? std::isnan(out[i]) : out[i] == rounded;
        // A subnormal step at the edge of 0, one last place at the edge of infinity, are rounding.
        const bool edge = rounded == 0 ? std::fabs(out[i]) <= 0x1p-148f : std::fabs(out[i]) > 0x1.ffffe0p127f;
        ASSERT_TRUE(same || (!std::isnan(truth) && edge)) << name(f) << "(" << in[i] << ") = " << out[i];
        continue;
      }
      const double scale = ulp_of(std::max(std::fabs(truth), activation_error_floor(f, in[i])));
      const double error = std::fabs(out[i] - truth) / scale;
      if (error > worst) worst = error, worst_at = in[i];
    }
    EXPECT_LE(worst, activation_error_ulp(f)) << name(f) << "(" << worst_at << ")";
    RecordProperty(std::string(name(f)), std::to_string(worst));
  }
}

TEST(Activation, EveryTargetGivesTheSameBits) {
  std::vector<float> in = inputs(20011);
  in[0] = std::nanf(""), in[1] = -std::nanf(""), in[2] = kInf, in[3] = -kInf, in[4] = -0.0f;
  std::vector<float> best(in.size()), out(in.size());
  for (const ActivationFunction f : functions()) {
    force_simd_target("");
    activate(f, in.data(), best.data(), in.size(), 0.1f);
    for (const std::string& target : simd_targets()) {
      force_simd_target(target);
      activate(f, in.data(), out.data(), in.size(), 0.1f);
      EXPECT_EQ(std::memcmp(best.data(), out.data(), out.size() * sizeof(float)), 0)
          << name(f) << " " << target;
    }
  }
  force_simd_target("");
}

TEST(Activation, ScaleAndBiasAreAProductAndASum) {
  std::vector<float> in = inputs(5003);
  in[0] = std::nanf(""), in[1] = -std::nanf(""), in[2] = kInf, in[3] = -kInf, in[4] = -0.0f;
  std::vector<float> steps(in.size()), out(in.size());
  for (const Affine affine : {Affine{}, Affine{-1.75f, -0.0f}, Affine{1.0f, 0.5f}, Affine{0.1f, -3.0f},
                              Affine{0.0f, kInf}, Affine{1e30f, std::nanf("")}}) {
    for (const ActivationFunction f : functions()) {
      alu_tensor_scalar(AluOp::kMultiply, in.data(), affine.scale, false, steps.data(), in.size());
      alu_tensor_scalar(AluOp::kAdd, steps.data(), affine.bias, false, steps.data(), in.size());
      activate(f, steps.data(), steps.data(), in.size());
      for (const std::string& target : simd_targets()) {
        force_simd_target(target);
        activate(f, affine, in.data(), out.data(), in.size());
        EXPECT_EQ(std::memcmp(steps.data(), out.data(), out.size() * sizeof(float)), 0)
            << name(f) << " " << target << " " << affine.scale << " " << affine.bias;
      }
      force_simd_target("");
    }
  }
}

TEST(Activation, RowsEqualRowsAlone) {
  constexpr size_t kRows = 39, kPitch = 64;
  const std::vector<float> in = inputs(kRows * kPitch);
  std::vector<float> scale, bias, slope;
  for (size_t r = 0; r < kRows; ++r) {
    scale.push_back(std::array{-1.75f, 1.0f, 0.1f}[r % 3]);
    bias.push_back(std::array{0.5f, -0.0f, kInf}[r % 3]);
    slope.push_back(std::array{0.25f, -2.0f, 0.0f}[r % 3]);
  }
  for (const std::string& target : simd_targets()) {
    force_simd_target(target);
    for (const ActivationFunction f : functions()) {
      for (const auto& [step, n] : {std::pair<size_t, size_t>{0, 37}, {1, 37}, {0, 1}, {1, 1}, {1, 16}}) {
        std::vector<float> plain(kRows * kPitch, 7.5f), affine = plain, expected = plain,
                                                        expected_affine = plain;
        activate(f, {in.data(), kPitch}, {plain.data(), kPitch}, kRows, n, {slope.data(), step});
        activate(f, {scale.data(), step}, {bias.data(), 1}, {in.data(), kPitch}, {affine.data(), kPitch},
                 kRows, n);
        for (size_t r = 0; r < kRows; ++r) {
          const size_t at = r * kPitch;
          activate(f, in.data() + at, expected.data() + at, n, slope[r * step]);
          activate(f, Affine{scale[r * step], bias[r]}, in.data() + at, expected_affine.data() + at, n);
        }
        EXPECT_EQ(std::memcmp(plain.data(), expected.data(), plain.size() * sizeof(float)), 0)
            << name(f) << " " << target;
        EXPECT_EQ(std::memcmp(affine.data(), expected_affine.data(), plain.size() * sizeof(float)), 0)
            << name(f) << " " << target;
      }
    }
  }
  force_simd_target("");
}

TEST(Activation, InfinitiesGiveLimits) {
  const float ends[] = {-kInf, kInf};
  for (const ActivationFunction f : functions()) {
    float out[2];
    activate(f, ends, out, 2, 0.5f);
    for (int i = 0; i < 2; ++i) {
      const double truth = activation_reference(f, ends[i], 0.5);
      if (std::isnan(truth)) {
        EXPECT_TRUE(std::isnan(out[i])) << name(f);
      } else {
        EXPECT_EQ(out[i], static_cast<float>(truth)) << name(f);
      }
    }
  }
}

TEST(Activation, SinOfARightAngleIsOneAndNothingIsMore) {
  std::vector<float> in{1.57079637f, -1.57079637f, 1.57079625f, 1.57079649f};
  for (float x = 0.95f; x < 2.2f; x = std::nextafter(x, 3.0f)) in.push_back(x);
  std::vector<float> out(in.size());
  activate(ActivationFunction::kSin, in.data(), out.data(), in.size());
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i], i == 1 ? -1.0f : 1.0f) << in[i];
  for (size_t i = 4; i < in.size(); ++i)
    ASSERT_LT(std::fabs(out[i] - std::sin(static_cast<double>(in[i]))), 0x1p-24) << in[i];
}

TEST(Activation, SinExtrapolatesTheDocumentedCubic) {
  const float in[] = {9.0f, -9.0f, 3.0f};
  float out[3];
  activate(ActivationFunction::kSin, in, out, 3);
  EXPECT_NEAR(out[0], 27.65, 0.005);  // nki.api.shared.rst: "sin(9.0) returns ~27.65"
  EXPECT_EQ(out[1], -out[0]);
  EXPECT_NEAR(out[2], std::sin(3.0), 1e-7);
}

TEST(Activation, ValidRangesAreTheDocumentedOnes) {
  EXPECT_TRUE(valid_range(ActivationFunction::kReciprocal).contains(-0x1p-42f));
  EXPECT_FALSE(valid_range(ActivationFunction::kReciprocal).contains(0.0f));
  EXPECT_FALSE(valid_range(ActivationFunction::kSin).contains(3.2f));
  EXPECT_TRUE(valid_range(ActivationFunction::kExp).contains(-kInf));
  EXPECT_FALSE(valid_range(ActivationFunction::kLog).contains(0x1p65f));
}

}  // namespace
}  // namespace opentrn::numerics
