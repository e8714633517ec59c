#include "mpi/execute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/testing/cases.h"
#include "collectives/testing/samples.h"
#include "mpi/testing/threads.h"

namespace opentrn::mpi {
namespace {

using collectives::Buffers;
using collectives::Case;
using collectives::Plan;
using collectives::Request;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::chrono::milliseconds kLong{60'000}, kShort{200};

// Inputs of ranks that a process does not hold are not there.
Buffers part_of(const Request& request, uint64_t seed, const Division& division, int process) {
  Buffers buffers = random_buffers(request, seed);
  for (int rank = 0; rank < request.ranks; ++rank)
    if (division.owner(rank) != process) buffers.spans[static_cast<size_t>(rank)] = {};
  return buffers;
}

void expect_the_bits_of_one_process(const Plan& plan, int processes, const std::string& name) {
  const Request& request = plan.request;
  Buffers wanted = random_buffers(request, 7);
  execute(plan, wanted.spans);
  const Division division(request.ranks, processes);
  Mail mail;
  const auto said = run_processes(processes, [&](int process) {
    Buffers found = part_of(request, 7, division, process);
    ThreadTransport transport(mail, process, processes, kLong);
    execute(plan, found.spans, division, transport);
    for (const int rank : division.ranks_of(process))
      EXPECT_EQ(found.outputs[static_cast<size_t>(rank)], wanted.outputs[static_cast<size_t>(rank)])
          << name << ", rank " << rank << " of process " << process << " of " << processes;
  });
  EXPECT_THAT(said, Each(IsEmpty())) << name;
}

TEST(Execute, HasTheBitsOfOneProcess) {
  for (const int ranks : {2, 3, 8})
    collectives::for_each_case(ranks, false, [&](const Case& one) {
      Request request = sample_request(one.request.kind, ranks, DType::kBFloat16);
      request.root = one.request.root;
      const Plan plan = one.algorithm.plan(request, one.layout);
      for (const int processes : {2, 3, ranks})
        if (processes <= ranks) expect_the_bits_of_one_process(plan, processes, one.name);
    });
}

TEST(Execute, RefusesAPlanThatIsNotProved) {
  Request request = collectives::sample_request(collectives::Kind::kAllReduce, 2, DType::kFloat32);
  Plan plan = make_plan("mesh", request, collectives::simple_layout(2));
  plan.steps[0].pop_back();
  Mail mail;
  const Division division(2, 2);
  const auto said = run_processes(2, [&](int process) {
    Buffers buffers = part_of(request, 1, division, process);
    ThreadTransport transport(mail, process, 2, kLong);
    execute(plan, buffers.spans, division, transport);
  });
  EXPECT_THAT(said, Each(HasSubstr("collectives.plan")));
}

TEST(Agree, NamesTheProcessesThatDoSomethingElse) {
  Mail mail;
  const Division division(6, 3);
  const auto said = run_processes(3, [&](int process) {
    ThreadTransport transport(mail, process, 3, kLong);
    agree(transport, division, process == 1 ? "all_gather of 8 B" : "all_reduce of 8 B");
  });
  EXPECT_THAT(said[0], AllOf(HasSubstr("mpi.mismatch"), HasSubstr("process 0 (ranks 0 to 1): all_reduce"),
                             HasSubstr("process 1 (ranks 2 to 3): all_gather")));
  EXPECT_THAT(said[1], AllOf(HasSubstr("process 0 (ranks"), HasSubstr("process 2 (ranks 4 to 5): all_red")));
  EXPECT_THAT(said[2], HasSubstr("mpi.mismatch"));
}

TEST(Agree, NamesTheProcessesThatAreNotThere) {
  Mail mail;
  const Division division(4, 4);
  const auto said = run_processes(4, [&](int process) {
    if (process % 2 == 1) return;
    ThreadTransport transport(mail, process, 4, kShort);
    agree(transport, division, "all_reduce of 8 B");
  });
  EXPECT_THAT(said[0], AllOf(HasSubstr("mpi.absent"), HasSubstr("all_reduce of 8 B; not there: process 1 "
                                                                "(rank 1), process 3 (rank 3)")));
}

TEST(Execute, NamesTheStepWhoseDataDoNotCome) {
  const Request request = collectives::sample_request(collectives::Kind::kAllReduce, 4, DType::kFloat32);
  const Plan plan = make_plan("ring", request, collectives::simple_layout(4));
  Mail mail;
  const Division division(4, 2);
  const auto said = run_processes(2, [&](int process) {
    Buffers buffers = part_of(request, 1, division, process);
    constexpr int kOfAgreement = 2;
    ThreadTransport transport(mail, process, 2, kShort, process == 1 ? kOfAgreement + 1 : 1 << 30);
    execute(plan, buffers.spans, division, transport);
  });
  EXPECT_THAT(said[1], HasSubstr("died"));
  EXPECT_THAT(said[0],
              AllOf(HasSubstr("mpi.absent"), HasSubstr("waits for process 1 (ranks 2 to 3) in "),
                    HasSubstr("all_reduce of 124 B, add of float32, 4 ranks, by ring"), HasSubstr("step ")));
}

TEST(Division, IsInRunsAsEqualAsTheyCanBe) {
  const Division division(7, 3);
  EXPECT_THAT(division.ranks_of(0), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(division.ranks_of(1), testing::ElementsAre(3, 4));
  EXPECT_EQ(division.describe(2), "process 2 (ranks 5 to 6)");
  EXPECT_EQ(Division(3, 3).describe(2), "process 2 (rank 2)");
  EXPECT_EQ(division.of_group(std::vector<int>{1, 3, 4, 6}).describe(0), "process 0 (rank 1)");
  EXPECT_EQ(division.of_group(std::vector<int>{0, 2, 3}).describe(0), "process 0 (ranks 0, 2)");
  EXPECT_EQ(division.of_group(std::vector<int>{0, 2, 3}).describe(2), "process 2 (no ranks)");
  try {
    Division(2, 3);
    FAIL() << "a process without a rank was not refused";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "mpi.processes");
  }
}

}  // namespace
}  // namespace opentrn::mpi
