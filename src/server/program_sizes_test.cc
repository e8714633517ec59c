#include "server/program_sizes.h"

#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::server {
namespace {

using Sizes = std::vector<int32_t>;

TEST(ProgramSizes, PowersOfTwoUpToWhatIsNeeded) {
  const ProgramSizes sizes = program_sizes(320, 6);
  EXPECT_EQ(sizes.sequences, (Sizes{1, 2, 4, 6}));
  EXPECT_EQ(sizes.tokens, (Sizes{16, 64, 128, 256}));
  EXPECT_EQ(sizes.contexts, (Sizes{128, 256, 320}));
  EXPECT_EQ(program_sizes(64, 1).contexts, (Sizes{64}));
}

TEST(ProgramSizes, GuessesHaveASizeOfTheirOwn) {
  EXPECT_EQ(program_sizes(128, 1, 1).tokens, (Sizes{2, 16, 64, 128}));
  EXPECT_EQ(program_sizes(128, 1, 3).tokens, (Sizes{4, 16, 64, 128}));
  EXPECT_EQ(program_sizes(128, 1, 4).tokens, (Sizes{8, 16, 64, 128}));
  EXPECT_EQ(program_sizes(128, 1, 15).tokens, (Sizes{16, 64, 128}));
  EXPECT_EQ(program_sizes(128, 1, 16).tokens, (Sizes{16, 32, 64, 128}));
  EXPECT_EQ(program_sizes(128, 1, 100).tokens, (Sizes{16, 64, 128}));  // the largest one's
}

TEST(ProgramSizes, AContextIsOfWholeBlocks) {
  EXPECT_EQ(whole_context(2048, 1000), 992);
  EXPECT_EQ(whole_context(95, 4096), 64);
  EXPECT_THROW(whole_context(63, 4096), Fault);
}

}  // namespace
}  // namespace opentrn::server
