#include "backend/pair.h"

#include <gtest/gtest.h>

#include "isa/text.h"

namespace opentrn::backend {
namespace {

std::shared_ptr<const isa::Program> parsed(const std::string& rest) {
  return std::make_shared<const isa::Program>(isa::parse_program(R"(opentrn program 1 "p"
registers 2
tensor %0 hbm float32 [8] "x" input
tensor %1 shared_hbm float32 [8] "made"
tensor %2 shared_hbm float32 [8] "result" output
tensor %3 sbuf float32 [1, 8] "of core 0"
tensor %4 sbuf float32 [1, 8] "of core 1")" + rest));
}

std::vector<isa::Opcode> opcodes(const isa::Program& program) {
  std::vector<isa::Opcode> list;
  for (const isa::Instruction& in : program.instructions()) list.push_back(in.opcode);
  return list;
}

using enum isa::Opcode;

TEST(Pair, AProgramWithoutLaunchesIsItself) {
  const auto program = parsed("\ndma_copy dst=%2[1:8] src=%0[1:8]\n");
  const auto parts = core_parts(program);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].program, program);
  EXPECT_TRUE(parts[0].merged.empty());
}

// The launch reads what the model made, and the model goes on with its result; core 1 has a loop of its own.
constexpr char kLaunch[] = R"( loop 4
dma_copy dst=%1[1:8] src=%0[1:8]
loop_begin register=r0 lower=0 upper=2 step=1 core0 launch match=3
dma_copy dst=%3[8:1, 1:8] src=%1[1:8] core0
loop_end register=r0 step=1 match=1 core0
loop_begin register=r1 lower=0 upper=2 step=1 core1 match=7
dma_copy dst=%4[8:1, 1:8] src=%1[1:8] core1
dma_copy dst=%2[1:8] src=%4[8:1, 1:8] core1
loop_end register=r1 step=1 match=4 core1
dma_copy dst=%3[8:1, 1:8] src=%2[1:8]
)";

TEST(Pair, CoresMeetWhereOneReadsWhatTheOtherWrote) {
  const auto parts = core_parts(parsed(kLaunch));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(opcodes(*parts[0].program),
            (std::vector{kDmaCopy, kCoreBarrier, kLoopBegin, kDmaCopy, kLoopEnd, kCoreBarrier, kDmaCopy}));
  EXPECT_EQ(opcodes(*parts[1].program),
            (std::vector{kCoreBarrier, kLoopBegin, kDmaCopy, kDmaCopy, kLoopEnd, kCoreBarrier}));
  EXPECT_EQ(parts[0].merged, (std::vector<isa::InstructionIndex>{0, kNotMerged, 1, 2, 3, kNotMerged, 8}));
  EXPECT_EQ(parts[1].merged, (std::vector<isa::InstructionIndex>{kNotMerged, 4, 5, 6, 7, kNotMerged}));
}

TEST(Pair, LoopsAreNumberedAnewAndBarriersOrderWhatTheyAreAbout) {
  const auto parts = core_parts(parsed(kLaunch));
  const isa::Program& second = *parts[1].program;
  EXPECT_EQ(second.attribute_int(second.instruction(1), isa::slot::loop::kAMatch), 4);
  EXPECT_EQ(second.attribute_int(second.instruction(4), isa::slot::loop::kAMatch), 1);
  EXPECT_EQ(second.tensor(4).loop, isa::InstructionIndex{1});
  EXPECT_FALSE(parts[0].program->tensor(4).loop);
  const auto waits = [](const isa::Program& program, isa::InstructionIndex consumer,
                        isa::InstructionIndex producer) {
    for (const isa::DependencyEdge& edge : program.edges())
      if (edge.consumer == consumer && edge.producer == producer) return true;
    return false;
  };
  EXPECT_TRUE(waits(*parts[0].program, 1, 0));   // the operand is there
  EXPECT_TRUE(waits(second, 2, 0));              // before it is read
  EXPECT_TRUE(waits(second, 5, 3));              // the result is there
  EXPECT_TRUE(waits(*parts[0].program, 6, 5));   // before it is read
  EXPECT_TRUE(waits(*parts[0].program, 5, 1));   // rendezvous keep their order
  EXPECT_FALSE(waits(*parts[0].program, 3, 5));  // what came before does not wait
}

TEST(Pair, ALaunchBetweenArgumentsAndResultsNeedsNoRendezvous) {
  const auto parts = core_parts(parsed(
      "\ndma_copy dst=%3[8:1, 1:8] src=%0[1:8] core0 launch\ndma_copy dst=%2[1:8] src=%0[1:8] core1\n"));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].program->size(), 1u);
  EXPECT_EQ(parts[1].program->size(), 1u);
}

TEST(Pair, LoopsOfTheModelAreOnBothCores) {
  const auto parts = core_parts(parsed(R"(
loop_begin register=r0 lower=0 upper=2 step=1 match=3
dma_copy dst=%3[8:1, 1:8] src=%0[1:8] core0 launch
dma_copy dst=%2[1:8] src=%0[1:8] core1
loop_end register=r0 step=1 match=0
)"));
  for (const CorePart& part : parts)
    EXPECT_EQ(opcodes(*part.program),
              (std::vector{kLoopBegin, kCoreBarrier, kDmaCopy, kCoreBarrier, kLoopEnd}));
}

}  // namespace
}  // namespace opentrn::backend
