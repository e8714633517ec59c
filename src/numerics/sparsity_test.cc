#include "numerics/sparsity.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"
#include "numerics/convert.h"

namespace opentrn::numerics {
namespace {

TEST(Sparsity, CompressAndDecompressAreInverse) {
  SplitMix64 rng(1);
  for (const SparsityPattern pattern : sparsity_patterns()) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat8E4M3}) {
      const size_t n = static_cast<size_t>(pattern.group) * 40;
      std::vector<float> row(n);
      for (float& x : row) x = static_cast<float>(static_cast<int>(rng.below(17)) - 8);
      prune_to_pattern(pattern, row.data(), n);
      std::vector<uint32_t> dense(n), values(n), back(n, 77);
      store_f32(dtype, row.data(), dense.data(), n);
      EXPECT_EQ(first_violation(pattern, dtype, dense.data(), n), std::nullopt);
      std::vector<uint8_t> tags(n / static_cast<size_t>(pattern.compression()));
      compress_sparse(pattern, dtype, dense.data(), n, values.data(), tags.data());
      decompress_sparse(pattern, dtype, values.data(), tags.data(), n, back.data());
      std::vector<float> result(n);
      load_f32(dtype, back.data(), result.data(), n);
      EXPECT_EQ(result, row);
      for (size_t i = 0; i < tags.size(); ++i) {
        const bool first = i % static_cast<size_t>(pattern.kept) == 0;
        EXPECT_TRUE(first || tags[i - 1] < tags[i]) << "tags ascend within a group";
      }
    }
  }
}

TEST(Sparsity, ViolationNamesItsGroup) {
  std::vector<float> row(32, 0.0f);
  std::fill_n(row.begin() + 20, 5, 1.0f);
  const SparsityPattern pattern = *sparsity_pattern_from_name("4:16");
  EXPECT_EQ(first_violation(pattern, DType::kFloat32, row.data(), row.size()), 1u);
  float values[8];
  uint8_t tags[8];
  EXPECT_THROW(compress_sparse(pattern, DType::kFloat32, row.data(), row.size(), values, tags), Fault);
}

TEST(Sparsity, PruneKeepsTheLargestAndTheEarliest) {
  float row[] = {1, -3, 2, 2};
  prune_to_pattern({2, 4}, row, 4);
  EXPECT_EQ(std::vector<float>(row, row + 4), (std::vector<float>{0, -3, 2, 0}));
}

TEST(Sparsity, BadTagsAndPatternsAreFaults) {
  const float values[] = {1, 2};
  float dense[4];
  const uint8_t outside[] = {0, 4}, twice[] = {1, 1};
  EXPECT_THROW(decompress_sparse({2, 4}, DType::kFloat32, values, outside, 4, dense), Fault);
  EXPECT_THROW(decompress_sparse({2, 4}, DType::kFloat32, values, twice, 4, dense), Fault);
  EXPECT_THROW(first_violation({3, 4}, DType::kFloat32, dense, 4), Fault);
  EXPECT_THROW(first_violation({2, 4}, DType::kFloat32, dense, 3), Fault);
  EXPECT_EQ(sparsity_pattern_from_name("3:4"), std::nullopt);
}

TEST(Sparsity, TagsPackFourToAWord) {
  const uint8_t tags[] = {1, 2, 3, 15, 0, 0, 0, 8};
  uint16_t packed[2];
  pack_tags(tags, 8, packed);
  EXPECT_EQ(packed[0], 0xf321);
  EXPECT_EQ(packed[1], 0x8000);
  uint8_t back[8];
  unpack_tags(packed, 8, back);
  EXPECT_TRUE(std::equal(tags, tags + 8, back));
}

}  // namespace
}  // namespace opentrn::numerics
