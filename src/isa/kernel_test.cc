#include "isa/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/splice.h"
#include "isa/text.h"
#include "isa/text_random.h"

namespace opentrn::isa {
namespace {

constexpr char kLoop[] = R"(opentrn program 1 "k"
registers 1
tensor %0 hbm float32 [8, 4] "x" input
tensor %1 private_hbm float32 [8, 4] "y"
tensor %2 sbuf float32 [4, 4] "t" loop 0
loop_begin register=r0 lower=0 upper=2 step=1 match=2
memset dst=%2[4:4, 1:4] value=1
loop_end register=r0 step=1
)";

Program small() {
  Program program = parse_program(R"(opentrn program 1 "k"
registers 1
tensor %0 hbm float32 [8] "x" input
tensor %1 private_hbm float32 [8] "y"
)");
  return program;
}

TEST(Splice, IsTheSameProgramOnceItsTablesAreNumberedAnew) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SplitMix64 random(seed);
    Program source = random_program(random, 30);
    Program once, twice;
    once.name = twice.name = source.name;
    Splice(source, once).copy();
    ASSERT_EQ(once.size(), source.size()) << "seed " << seed;
    for (InstructionIndex i = 0; i < source.size(); ++i)
      ASSERT_EQ(once.instruction(i).opcode, source.instruction(i).opcode) << "seed " << seed;
    Splice(once, twice).copy();
    ASSERT_EQ(to_text(twice), to_text(once)) << "seed " << seed;
  }
}

TEST(Splice, GivesTheSecondCopyItsOwnTensorsRegistersAndLoops) {
  const Program source = parse_program(kLoop);
  Program target;
  Splice(source, target).copy();
  Splice(source, target).copy();
  EXPECT_EQ(target.register_count(), 2u);
  EXPECT_EQ(target.tensor_count(), 2u);  // those that instructions use
  EXPECT_EQ(target.tensor(1).loop, InstructionIndex{3});
  EXPECT_EQ(target.attribute_int(target.instruction(3), slot::loop::kAMatch), 5);
  EXPECT_EQ(target.attribute_int(target.instruction(5), slot::loop::kAMatch), 3);
  EXPECT_EQ(target.operand(target.instruction(3), slot::loop::kRegister).tensor, 1u);
}

TEST(Splice, IntoALoopMakesTensorsOfOneIteration) {
  const Program source = parse_program(
      "opentrn program 1 \"k\"\nregisters 0\ntensor %0 sbuf float32 [4, 4] \"t\"\n"
      "memset dst=%0[4:4, 1:4] value=1\n");
  Program target;
  Splice(source, target, InstructionIndex{7}).copy();
  EXPECT_EQ(target.tensor(0).loop, InstructionIndex{7});
}

Kernel kernel_of(Program program, TensorId input, TensorId output) {
  Kernel kernel;
  kernel.name = "k";
  kernel.grid = {2};
  kernel.program = std::move(program);
  kernel.inputs = {{input, "x", {2, 4}}};
  kernel.outputs = {{output, "y", {8}}};
  return kernel;
}

TEST(Kernel, SurvivesItsText) {
  Kernel kernel = kernel_of(small(), 0, 1);
  kernel.constants = {};
  const std::string text = to_text(kernel);
  ASSERT_TRUE(is_kernel_text(text));
  EXPECT_EQ(kernel_name(text), "k");
  const Kernel back = kernel_from_text(text);
  EXPECT_EQ(to_text(back.program), to_text(kernel.program));
  EXPECT_EQ(back.grid, kernel.grid);
  EXPECT_EQ(back.inputs[0].shape, kernel.inputs[0].shape);
  EXPECT_EQ(back.outputs[0].tensor, 1u);
  EXPECT_EQ(to_text(back), text);
}

TEST(Kernel, ReturnedAndWrittenOperandsBecomeCopies) {
  Kernel kernel = kernel_of(small(), 0, 0);  // returns its operand
  separate(kernel);
  EXPECT_NE(kernel.inputs[0].tensor, kernel.outputs[0].tensor);
  ASSERT_EQ(kernel.program.size(), 1u);
  EXPECT_EQ(kernel.program.instruction(0).opcode, Opcode::kDmaCopy);
  EXPECT_EQ(to_text(kernel_from_text(to_text(kernel))), to_text(kernel));
}

std::string error_of(const std::string& text) {
  try {
    kernel_from_text(text);
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kInput) << fault.what();
    return fault.what();
  }
  return "no error";
}

TEST(Kernel, MalformedTextsAreInputFaults) {
  EXPECT_THAT(error_of("eyJrZXJuZWxfdmVyc2lvbiI6IDF9"), testing::HasSubstr("not a kernel of OpenTrn's"));
  EXPECT_THAT(error_of("opentrn-kernel-1 k"), testing::HasSubstr("nothing follows"));
  EXPECT_THAT(error_of("opentrn-kernel-1 k ab?="), testing::HasSubstr("base64"));
  EXPECT_THAT(error_of(to_text(kernel_of(small(), 0, 0))), testing::HasSubstr("stands for two"));
  EXPECT_THAT(error_of(to_text(kernel_of(small(), 0, 9))), testing::HasSubstr("tensor 9 of 2"));
  Kernel wrong = kernel_of(small(), 0, 1);
  wrong.outputs[0].shape = {9};
  EXPECT_THAT(error_of(to_text(wrong)), testing::HasSubstr("its shape 9"));
}

TEST(Kernel, EveryFlippedCharacterIsNoticedOrHarmless) {
  const std::string good = to_text(kernel_of(small(), 0, 1));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = bad[i] == 'A' ? 'B' : 'A';
    try {
      kernel_from_text(bad);
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind(), FaultKind::kInput) << "character " << i << ": " << fault.what();
    }
  }
}

}  // namespace
}  // namespace opentrn::isa
