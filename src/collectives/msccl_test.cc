#include "collectives/msccl.h"
#include "base/fault.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/testing/samples.h"

namespace opentrn::collectives {
namespace {

using testing::HasSubstr;

std::string step(const std::string& type, int from, int to,
                 const std::string& depends = "depid=\"-1\" deps=\"-1\"") {
  return fmt::format(
      R"(<step type="{}" srcbuf="i" srcoff="{}" dstbuf="i" dstoff="{}" cnt="1" {} hasdep="0"/>)", type, from,
      to, depends);
}

// An in-place all-reduce of two chunks by a ring of two: each rank sends its half to the other, which adds it
// to its own and sends the sum back.
std::string two_ranks(const std::string& second = "rrcs") {
  std::string text = R"(<algo name="two" nchannels="1" ngpus="2" coll="allreduce" inplace="1">)";
  for (int rank = 0; rank < 2; ++rank) {
    text += fmt::format(
        R"(<gpu id="{}" i_chunks="2" o_chunks="0" s_chunks="0"><tb id="0" send="{}" recv="{}" chan="0">)",
        rank, 1 - rank, 1 - rank);
    text += step("s", rank, rank) + step(second, 1 - rank, 1 - rank) + step("r", rank, rank) + "</tb></gpu>";
  }
  return text + "</algo>";
}

TEST(Msccl, AProgramIsProvedAndExecuted) {
  const Plan plan = plan_of_msccl(two_ranks());
  EXPECT_EQ(joined(verify(plan)), "");
  EXPECT_TRUE(plan.in_place);
  EXPECT_EQ(plan.request.bytes, 8);
  Buffers found = random_buffers(plan.request, 3), wanted = random_buffers(plan.request, 3);
  execute(plan, found.spans);
  reference(plan.request, wanted.spans);
  EXPECT_EQ(found.outputs, wanted.outputs);
}

TEST(Msccl, ASumThatIsNotKeptIsMissing) {
  EXPECT_THAT(joined(verify(plan_of_msccl(two_ranks("rrs")))), HasSubstr("wrong_result"));
  EXPECT_THAT(joined(verify(plan_of_msccl(two_ranks("rcs")))), HasSubstr("wrong_result"));
}

TEST(Msccl, QueuesHaveAnEnd) {
  // Both ranks send three chunks before they receive: two slots are too few.
  std::string text = R"(<algo name="full" nchannels="1" ngpus="2" coll="alltoall" inplace="0">)";
  for (int rank = 0; rank < 2; ++rank) {
    text += fmt::format(
        R"(<gpu id="{}" i_chunks="6" o_chunks="6" s_chunks="0"><tb id="0" send="{}" recv="{}" chan="0">)",
        rank, 1 - rank, 1 - rank);
    for (const char* type : {"s", "r"})
      for (int i = 0; i < 3; ++i)
        text += fmt::format(R"(<step type="{}" srcbuf="i" srcoff="{}" dstbuf="o" dstoff="{}" cnt="1" )"
                            R"(depid="-1" deps="-1" hasdep="0"/>)",
                            type, 3 * (1 - rank) + i, 3 * (1 - rank) + i);
    text += "</tb></gpu>";
  }
  text += "</algo>";
  EXPECT_THAT(joined(verify(plan_of_msccl(text, {.queue_slots = 2}))), HasSubstr("deadlock: 4 steps"));
  EXPECT_THAT(joined(verify(plan_of_msccl(text, {.queue_slots = 3}))), Not(HasSubstr("deadlock")));
}

TEST(Msccl, PlansComeBack) {
  for (const char* name :
       {"mesh", "mesh_single_step", "ring", "rdh", "all_to_all", "permute", "broadcast", "reduce"})
    for (int kind = 0; kind < kKindCount; ++kind)
      for (const int ranks : {1, 2, 4, 8}) {
        const Request request = sample_request(static_cast<Kind>(kind), ranks, DType::kInt32);
        const Layout layout = simple_layout(ranks);
        if (!algorithm(name).why_not(request, layout).empty()) continue;
        const MscclProgram program = msccl_of_plan(make_plan(name, request, layout));
        const Plan plan = plan_of_msccl(program.xml, program.options);
        Buffers found = random_buffers(request, 3), wanted = random_buffers(request, 3);
        execute(plan, found.spans);
        reference(request, wanted.spans);
        EXPECT_EQ(found.outputs, wanted.outputs) << name << " " << name_of(request.kind) << " " << ranks;
      }
}

TEST(Msccl, PlansThatItCannotSayAreRefused) {
  const Plan plan = make_plan("kangaring", sample_request(Kind::kReduceScatter, 4), simple_layout(4, 2));
  EXPECT_THROW(msccl_of_plan(plan), Fault);
}

TEST(Msccl, WhatIsNoProgramIsRefused) {
  const auto refused = [](const std::string& text, const std::string& says) {
    try {
      plan_of_msccl(text);
      ADD_FAILURE() << says;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "collectives.msccl");
      EXPECT_THAT(fault.message(), HasSubstr(says));
    }
  };
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = two_ranks();
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  refused("<algo", "byte ");
  refused("<program/>", "no <algo>");
  refused(changed("ngpus=\"2\"", "ngpus=\"x\""), "ngpus");
  refused(changed("type=\"s\"", "type=\"q\""), "'q'");
  refused(changed("srcbuf=\"i\"", "srcbuf=\"z\""), "srcbuf");
  refused(changed("type=\"s\"", "type=\"r\""), "1 sends and 2 receives");
  refused(changed("recv=\"1\"", "recv=\"-1\""), "no peer");
  refused(changed("depid=\"-1\" deps=\"-1\"", "depid=\"7\" deps=\"0\""), "thread block 7");
  refused(changed("allreduce", "custom"), "give a request");
}

}  // namespace
}  // namespace opentrn::collectives
