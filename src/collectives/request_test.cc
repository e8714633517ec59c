#include "collectives/request.h"
#include "base/fault.h"

#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/rules.h"
#include "collectives/testing/samples.h"

namespace opentrn::collectives {
namespace {

using testing::HasSubstr;

struct Broken {
  const char* label;
  const char* says;
  std::function<void()> act;
};

Request changed(Kind kind, const std::function<void(Request&)>& change) {
  Request request = sample_request(kind, 4, DType::kFloat32);
  change(request);
  return request;
}

std::vector<Broken> broken_requests() {
  const auto check_changed = [](Kind kind, std::function<void(Request&)> change) {
    return [=] { check(changed(kind, change)); };
  };
  return {
      {"collectives.ranks", "0 ranks", check_changed(Kind::kAllReduce, [](Request& r) { r.ranks = 0; })},
      {"collectives.bytes", "-4 B", check_changed(Kind::kAllReduce, [](Request& r) { r.bytes = -4; })},
      {"collectives.bytes", "2^56", check_changed(Kind::kAllReduce, [](Request& r) { r.bytes = INT64_MAX; })},
      {"collectives.elements", "6 B", check_changed(Kind::kAllGather, [](Request& r) { r.bytes = 6; })},
      {"collectives.divides", "4 equal parts",
       check_changed(Kind::kReduceScatter, [](Request& r) { r.bytes = 20; })},
      {"collectives.divides", "4 equal parts",
       check_changed(Kind::kAllToAll, [](Request& r) { r.bytes = 8; })},
      {"collectives.counts", "it needs 4",
       check_changed(Kind::kAllGatherV, [](Request& r) { r.counts.pop_back(); })},
      {"collectives.counts", "it needs 16",
       check_changed(Kind::kAllToAllV, [](Request& r) { r.counts.resize(4); })},
      {"collectives.counts", "-4 B", check_changed(Kind::kAllToAllV, [](Request& r) { r.counts[3] = -4; })},
      {"collectives.counts", "beside", check_changed(Kind::kAllToAllV, [](Request& r) { r.bytes = 4; })},
      {"collectives.elements", "count 1",
       check_changed(Kind::kAllGatherV, [](Request& r) { r.counts[1] = 3; })},
      {"collectives.pairs", "rank 4",
       check_changed(Kind::kPermute,
                     [](Request& r) {
                       r.pairs = {{0, 4}};
                     })},
      {"collectives.pairs", "source of two",
       check_changed(Kind::kPermute,
                     [](Request& r) {
                       r.pairs = {{0, 1}, {0, 2}};
                     })},
      {"collectives.pairs", "target of two",
       check_changed(Kind::kPermute,
                     [](Request& r) {
                       r.pairs = {{0, 1}, {2, 1}};
                     })},
      {"collectives.root", "rank 4", check_changed(Kind::kBroadcast, [](Request& r) { r.root = 4; })},
      {"collectives.root", "rank -1", check_changed(Kind::kReduce, [](Request& r) { r.root = -1; })},
      {"collectives.reduction", "with xor",
       check_changed(Kind::kAllReduce, [](Request& r) { r.reduction = Reduction::kXor; })},
      {"collectives.reduction", "float8_e8m0fnu",
       check_changed(Kind::kReduce, [](Request& r) { r.dtype = DType::kFloat8E8M0Fnu; })},
      {"collectives.layout", "4 places for 5", [] { check(simple_layout(4), 5); }},
      {"collectives.layout", "two ranks",
       [] {
         Layout layout = simple_layout(4);
         layout.ranks[1] = layout.ranks[0];
         check(layout, 4);
       }},
      {"collectives.layout", "cycle",
       [] {
         Layout layout = simple_layout(4);
         layout.cycles[0].pop_back();
         check(layout, 4);
       }},
      {"collectives.algorithm", "there are mesh", [] { algorithm("ting"); }},
      {"collectives.serves", "not all_to_all",
       [] { make_plan("ring", sample_request(Kind::kAllToAll, 4), simple_layout(4)); }},
      {"collectives.plan", "rank 0 step 0",
       [] {
         const Request request = sample_request(Kind::kAllReduce, 2);
         Plan plan = make_plan("mesh", request, simple_layout(2));
         plan.steps[0][0].to.offset = -1;
         Buffers buffers = random_buffers(request, 1);
         execute(plan, buffers.spans);
       }},
      {"collectives.buffers", "needs 17 and 17",
       [] {
         const Request request = sample_request(Kind::kAllReduce, 2);
         Buffers buffers = random_buffers(request, 1);
         buffers.spans[1].output = {};
         reference(request, buffers.spans);
       }},
  };
}

TEST(Rules, EveryRuleHasALabelAndAMessageThatNamesIt) {
  std::set<std::string_view> seen;
  for (const Broken& broken : broken_requests()) {
    seen.insert(broken.label);
    try {
      broken.act();
      ADD_FAILURE() << broken.label << " was not found";
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind(), FaultKind::kInput);
      EXPECT_EQ(fault.label(), broken.label);
      EXPECT_THAT(fault.message(), HasSubstr(broken.says));
      EXPECT_NE(fault.hint(), "");
    }
  }
  seen.insert("collectives.msccl");  // msccl_test.cc, which needs a library
  for (const RuleRow& row : rules()) EXPECT_TRUE(seen.contains(row.label)) << row.label << " has no case";
}

TEST(Request, SizesOfBuffers) {
  EXPECT_EQ(output_bytes(sample_request(Kind::kAllGather, 4), 0), 28);
  EXPECT_EQ(output_bytes(sample_request(Kind::kReduceScatter, 4), 0), 7);
  Request v{.kind = Kind::kAllToAllV, .ranks = 2, .counts = {1, 2, 3, 4}};
  EXPECT_EQ(input_bytes(v, 0), 3);
  EXPECT_EQ(input_bytes(v, 1), 7);
  EXPECT_EQ(output_bytes(v, 0), 4);
  EXPECT_EQ(output_bytes(v, 1), 6);
  const std::vector<Contribution> parts = expected_output(v, 1);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].offset, 2);
  EXPECT_EQ(parts[1].input_offset, 3);
  EXPECT_EQ(parts[1].source, 1);
}

}  // namespace
}  // namespace opentrn::collectives
