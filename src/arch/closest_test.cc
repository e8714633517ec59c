#include "arch/closest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::arch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> kNames = {"trn1.32xlarge", "trn2.48xlarge", "inf2.48xlarge"};

TEST(Closest, RanksByEditDistanceWhateverTheCase) {
  EXPECT_THAT(closest("TRN2.48xlrge", kNames, 2), ElementsAre("trn2.48xlarge", "inf2.48xlarge"));
}

TEST(Closest, LeavesOutWhatIsNoHelp) { EXPECT_THAT(closest("p5", kNames), IsEmpty()); }

TEST(Closest, DidYouMeanFallsBack) {
  EXPECT_EQ(did_you_mean("trn1.32xlarg", {"trn1.32xlarge"}, "see ls"), "did you mean 'trn1.32xlarge'?");
  EXPECT_EQ(did_you_mean("zzz", kNames, "see ls"), "see ls");
}

}  // namespace
}  // namespace opentrn::arch
