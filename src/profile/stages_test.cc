#include <gtest/gtest.h>

#include "profile/stages.h"

namespace opentrn::profile {
namespace {

TEST(Stages, TimesAreAddedAndSharesAreMeansOverTime) {
  Profile first, second;
  first.summary.total_ns = 100;
  first.summary.launch_ns = 7;
  first.mfu_estimated_percent = 10;
  second.summary.total_ns = 300;
  second.summary.launch_ns = 7;
  second.mfu_estimated_percent = 50;
  second.mbu_estimated_percent = 20;
  const StageTotals totals = add_up({&first, &second});
  EXPECT_EQ(totals.total_ns, 400);
  EXPECT_EQ(totals.launch_ns, 14);
  EXPECT_EQ(totals.mfu_percent, 40);
  EXPECT_EQ(totals.mbu_percent, 15);
  EXPECT_EQ(totals.longest, 1u);
}

}  // namespace
}  // namespace opentrn::profile
