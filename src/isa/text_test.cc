#include "isa/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/text_random.h"

namespace opentrn::isa {
namespace {

using testing::HasSubstr;

constexpr std::string_view kExample = R"(opentrn program 1 "softmax"
registers 1
tensor %0 hbm float32 [128, 512] "x" input
tensor %1 sbuf float32 [128, 512] "tile"
tensor %2 psum float32 [128, 512] "acc" at 0:2048
tensor %3 sbuf uint32 [128, 1] "rows"
tensor %4 sbuf float32 [128, 8] "step" loop 1
iteration 1 of 0 in 0 independent
iteration 2 of 1 in 1
iteration 3 of 0
dma_copy on sync dst=%1 src=%0{vector dim=0 index=%3 stride=512 bound=128 elements=1} priority=-1
loop_begin register=r0 lower=0 upper=4 step=1 match=3
  activation on scalar dst=%1[512:128, 1:256] data=%1[+256, 512:128, 1:256] scale=0.5 op=exp @ k.py:41 exp
loop_end register=r0 step=1 match=1
nc_matmul on tensor dst=%2 stationary=%1[512:128, 1:128] moving=%1 accumulate=auto no_reorder iteration=2 name="a"
device_print tensor=%1 text="a \"b\" \\"
edge 4 after 0
)";

TEST(Text, PrintsWhatItParsed) { EXPECT_EQ(to_text(parse_program(kExample)), kExample); }

TEST(Text, ReadsMeaning) {
  const Program program = parse_program(kExample, "example");
  ASSERT_EQ(program.size(), 6u);
  EXPECT_EQ(program.name, "softmax");
  const Instruction& in = program.instruction(2);
  EXPECT_EQ(in.opcode, Opcode::kActivation);
  EXPECT_EQ(program.location(in.location).line, 41);
  EXPECT_EQ(program.operand(in, slot::activation::kScale).immediate, 0.5);
  EXPECT_EQ(program.operand(in, slot::activation::kData).offset, 256);
  EXPECT_FALSE(program.operand(in, slot::activation::kBias).present());
  EXPECT_EQ(program.attribute_int(program.instruction(4), slot::nc_matmul::kAAccumulate), -1);
  EXPECT_TRUE(program.tensor(2).address.has_value());
  EXPECT_EQ(program.made_in_loop(1).size(), 1u);
  EXPECT_EQ(program.made_in_loop(1)[0], 4u);
  EXPECT_TRUE(program.made_in_loop(0).empty());
}

void expect_error(std::string_view text, int line, std::string_view message) {
  try {
    parse_program(text, "file.trn");
    ADD_FAILURE() << "accepted: " << text;
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kInput);
    EXPECT_EQ(fault.location().line, line) << fault.what();
    EXPECT_EQ(fault.location().file, "file.trn");
    EXPECT_THAT(fault.what(), HasSubstr(message));
  }
}

TEST(Text, SaysWhereAndWhatIsWrong) {
  const std::string head = "opentrn program 1 \"k\"\nregisters 1\ntensor %0 sbuf float32 [4, 4]\n";
  expect_error("", 1, "the text is empty");
  expect_error("opentrn program 2 \"k\"\n", 1, "version is 2");
  expect_error(head + "bogus dst=%0\n", 4, "'bogus' is not an instruction");
  expect_error(head + "\n# comment\ntensor_copy dst=%0 src=%1\n", 6,
               "column 25: the tensor's number is 1; 0 to 0 are possible");
  expect_error(head + "tensor_copy dst=%0 dst=%0\n", 4, "given twice");
  expect_error(head + "tensor_copy dst=%0 other=%0\n", 4, "tensor_copy has no 'other'");
  expect_error(head + "tensor_copy dst=%0 src=%0[4:5, 1:4]\n", 4,
               "ends at element 19 of a tensor of 64 bytes");
  expect_error(head + "tensor_copy dst=%0 src=%0[1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1]\n", 4,
               "more than 8 dimensions");
  expect_error(head + "tensor_copy dst=%0 src=%0[9223372036854775807:3]\n", 4, "a step of");
  expect_error(head + "tensor_tensor dst=%0 op=plus\n", 4, "'plus' is not a value of op");
  expect_error(head + "register_move dst=r1 src=2\n", 4, "register 1 of 1");
  expect_error(head + "loop_begin register=r0 lower=0 upper=2 step=1 match=1\n", 5,
               "begins a loop that does not end");
  expect_error(head + "tensor %1 sbuf float32 [4, 4] loop 0\ntensor_copy dst=%0 src=%1\n", 6,
               "tensor 1 is made in a loop at instruction 0, where none begins");
  expect_error(head + "device_print tensor=%0 text=\"abc\n", 4, "the string does not end");
  expect_error(head + "tensor_copy dst=%0 src=%0 )\n", 4, "expected a word");
}

TEST(Text, RandomProgramsSurviveTheRoundTrip) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SplitMix64 random(seed);
    const std::string text = to_text(random_program(random, 30));
    ASSERT_EQ(to_text(parse_program(text)), text) << "seed " << seed;
  }
}

TEST(Text, RandomExecutablesSurviveTheRoundTrip) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SplitMix64 random(seed);
    const std::string text = to_text(random_executable(random, 20));
    ASSERT_EQ(to_text(parse_executable(text)), text) << "seed " << seed;
  }
}

TEST(Text, RefusesAWaitThatPointsForward) {
  SplitMix64 random(3);
  std::string text = to_text(random_executable(random, 3));
  const size_t run = text.find("\nrun ");
  ASSERT_NE(run, std::string::npos);
  const size_t comment = text.find("  #", run);
  ASSERT_EQ(text.substr(run, comment - run).find(" wait"),
            std::string::npos);  // the first has nobody to wait for
  text.insert(comment, " wait [0]");
  EXPECT_THROW(parse_executable(text), Fault);
}

}  // namespace
}  // namespace opentrn::isa
