#include "collectives/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/testing/cases.h"
#include "collectives/testing/exhaustive_check.h"
#include "collectives/testing/mutate.h"
#include "collectives/testing/samples.h"

namespace opentrn::collectives {
namespace {

using testing::HasSubstr;

// opentrn_collectives_prove does all of 1 to 64.
TEST(Verify, EveryAlgorithmIsProved) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 24, 32})
    for_each_case(ranks, ranks < 9, [](const Case& one) {
      check(one.request);
      check(one.layout, one.request.ranks);
      EXPECT_EQ(joined(verify(one.algorithm.plan(one.request, one.layout))), "") << one.name;
    });
}

// Small enough for the exhaustive check.
std::vector<Plan> small_plans() {
  std::vector<Plan> plans;
  for (const int ranks : {2, 3, 4, 8})
    for_each_case(ranks, false, [&](const Case& one) {
      if (!reduces(one.request.kind) && one.request.kind != Kind::kAllGather && ranks > 4) return;
      if (one.algorithm.name.starts_with("hier of") && plans.size() % 7 != 0) return;
      Request request = one.request;
      if (reduces(request.kind)) {
        request.dtype = DType::kUint16;
        request.bytes = request.bytes / ranks * ranks * 2;
      }
      plans.push_back(one.algorithm.plan(request, one.layout));
    });
  return plans;
}

TEST(Verify, AgreesWithTheExhaustiveCheck) {
  for (const Plan& plan : small_plans()) {
    EXPECT_EQ(joined(verify(plan)), "");
    EXPECT_EQ(exhaustive_check(plan, 7), "") << plan.algorithm << " " << name_of(plan.request.kind);
  }
}

// Where the lost byte is the one that fills an output before it is written, one run alone would find it
// right.
TEST(Verify, TheExhaustiveCheckFindsALostByteWhateverItsValue) {
  Plan plan = make_plan("permute", {.kind = Kind::kPermute, .ranks = 2, .bytes = 1, .pairs = {{0, 1}}},
                        simple_layout(2));
  plan.steps[0][0].bytes = 0;
  for (uint64_t seed = 0; seed < 5000; ++seed) ASSERT_EQ(exhaustive_check(plan, seed), "result") << seed;
}

// A mutant that is proved must be right by the exhaustive check, and one that is refused must be wrong by it.
TEST(Verify, NoMutantSurvives) {
  SplitMix64 random(11);
  const std::vector<Plan> plans = small_plans();
  int refused = 0, equivalent = 0;
  constexpr int kMutants = 4000;
  for (int i = 0; i < kMutants; ++i) {
    Plan plan = plans[random.below(static_cast<uint32_t>(plans.size()))];
    const std::string what = mutate(plan, random);
    if (what.empty()) continue;
    const std::vector<Finding> findings = verify(plan);
    const std::string flaw = exhaustive_check(plan, random.next());
    ++(findings.empty() ? equivalent : refused);
    EXPECT_EQ(findings.empty(), flaw.empty())
        << what << " in " << plan.algorithm << " " << name_of(plan.request.kind) << " on "
        << plan.request.ranks << " ranks; exhaustive: " << flaw << "; verify:\n"
        << joined(findings);
  }
  EXPECT_GE(refused, 500);
  std::cout << refused << " mutants refused, " << equivalent
            << " right by the exhaustive check, 0 survived\n";
}

// What goes wrong in the field: the release notes of AWS's runtime name each of these.
class PlantedBugs : public testing::Test {
 protected:
  static std::string labels(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings)
      if (text.find(finding.label) == std::string::npos) text += (text.empty() ? "" : " ") + finding.label;
    return text;
  }
  static Plan plan_of(const std::string& name, Kind kind, int ranks) {
    return make_plan(name, sample_request(kind, ranks), simple_layout(ranks));
  }
  // Plans one after the other on the same ranks and one communicator.
  static std::vector<Finding> in_sequence(const std::vector<Plan>& plans, bool handshake) {
    std::vector<Placed> placed;
    std::vector<int> ranks = {0, 1, 2, 3}, order;
    for (const Plan& plan : plans) {
      order.push_back(static_cast<int>(placed.size()));
      placed.push_back({&plan, ranks, 0, handshake});
    }
    return verify_together(placed, std::vector<std::vector<int>>(4, order));
  }
  static Plan with_scratch_moved(Plan plan, int64_t by) {
    const auto move = [by](Slice& slice) {
      if (slice.buffer == Buffer::kScratch) slice.offset += by;
    };
    for (auto& steps : plan.steps)
      for (Step& step : steps) {
        move(step.from);
        move(step.to);
      }
    for (auto& pool : plan.place_pool)
      for (At& place : pool) move(place.slice);
    plan.scratch_bytes += by;
    return plan;
  }
};

TEST_F(PlantedBugs, StagingMemoryUsedAgainBeforeItIsRead) {
  const Plan plan = plan_of("rdh", Kind::kReduceScatter, 4);
  const Plan other = with_scratch_moved(plan, plan.scratch_bytes);
  EXPECT_EQ(labels(in_sequence({plan, plan}, false)), "race");
  EXPECT_EQ(labels(in_sequence({plan, plan}, true)), "");
  // Two halves in turn need no handshake, as who sends again has heard of the turn before.
  EXPECT_EQ(labels(in_sequence({plan, other, plan, other}, false)), "");
  EXPECT_EQ(labels(in_sequence({plan, other, other}, false)), "race");
}

TEST_F(PlantedBugs, ACommunicatorWhosePlansComeInAnotherOrder) {
  const Plan plan = plan_of("ring", Kind::kAllReduce, 2);
  const std::vector<Placed> placed = {{&plan, {0, 1}, 0}, {&plan, {0, 1}, 0}};
  const auto findings = verify_together(placed, std::vector<std::vector<int>>{{0, 1}, {1, 0}});
  ASSERT_EQ(labels(findings), "issue_order");
  EXPECT_THAT(findings[0].text,
              HasSubstr("rank 1 has plan 1 of communicator 0 before plan 0, rank 0 after it"));
}

TEST_F(PlantedBugs, RowsByRingAndColumnsByMeshWaitForEachOther) {
  const Plan ring = plan_of("ring", Kind::kAllReduce, 2), mesh = plan_of("mesh", Kind::kAllReduce, 2);
  // Ranks of a 2x2 grid: rows 0 1 and 2 3, columns 0 2 and 1 3.
  const std::vector<Placed> placed = {{&ring, {0, 1}}, {&ring, {2, 3}}, {&mesh, {0, 2}}, {&mesh, {1, 3}}};
  const std::vector<std::vector<int>> same = {{0, 2}, {0, 3}, {1, 2}, {1, 3}};
  const std::vector<std::vector<int>> mixed = {{0, 2}, {3, 0}, {2, 1}, {1, 3}};
  EXPECT_EQ(labels(verify_together(placed, same)), "");
  const auto findings = verify_together(placed, mixed);
  ASSERT_EQ(labels(findings), "deadlock");
  EXPECT_THAT(findings[0].text, HasSubstr("wait for each other: plan "));
}

TEST_F(PlantedBugs, ReduceScatterOnTwoServersThatWaitsForItsPartner) {
  Plan plan = make_plan("hier", sample_request(Kind::kReduceScatter, 8), simple_servers(2, 4, 2));
  EXPECT_EQ(joined(verify(plan)), "");
  // The last step of ranks 0 and 4 is made to wait for that of the other.
  for (const int rank : {0, 4}) {
    const int partner = 4 - rank;
    auto& pool = plan.wait_pool[static_cast<size_t>(rank)];
    Step& step = plan.steps[static_cast<size_t>(rank)].back();
    step.waits = {static_cast<uint32_t>(pool.size()), 1};
    pool.push_back({partner, static_cast<int32_t>(plan.steps[static_cast<size_t>(partner)].size()) - 1});
  }
  const auto findings = verify(plan);
  ASSERT_EQ(labels(findings), "deadlock");
  EXPECT_THAT(findings[0].text, HasSubstr("2 steps wait for each other: rank 0 step"));
}

TEST_F(PlantedBugs, AllToAllVWithAWrongDisplacement) {
  Request request{.kind = Kind::kAllToAllV, .ranks = 3, .counts = {4, 8, 4, 8, 4, 4, 4, 4, 8}};
  Plan plan = make_plan("all_to_all_v", request, simple_layout(3));
  EXPECT_EQ(joined(verify(plan)), "");
  for (Step& step : plan.steps[1])
    if (step.peer == 0) step.to.offset += 4;
  EXPECT_THAT(labels(verify(plan)), HasSubstr("wrong_result"));
}

TEST_F(PlantedBugs, ReductionsWithoutAnOrder) {
  // Two ranks add into the root's output at once.
  Plan plan = plan_of("mesh", Kind::kAllReduce, 2);
  plan.request.kind = Kind::kReduce;
  plan.request.ranks = 3;
  plan.steps.assign(3, {});
  plan.wait_pool.assign(3, {});
  plan.place_pool.assign(3, {});
  plan.scratch_bytes = 0;
  for (int rank = 0; rank < 3; ++rank) {
    Step step;
    step.bytes = plan.request.bytes;
    step.to.buffer = Buffer::kOutput;
    step.reduces = rank > 0;
    if (rank > 0) step.waits.count = 1;
    plan.steps[static_cast<size_t>(rank)].push_back(step);
    if (rank > 0) plan.wait_pool[static_cast<size_t>(rank)].push_back({0, 0});
  }
  EXPECT_EQ(labels(verify(plan)), "nondeterministic");
}

}  // namespace
}  // namespace opentrn::collectives
