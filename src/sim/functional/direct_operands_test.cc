#include "sim/functional/direct_operands.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "isa/text.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::direct_operands_tests {
namespace {

// A product of 160 x 2 with 160 x 96 of a weight of 160 x 200, in two copies: 128 rows, then 32.
std::string product(std::string_view more = "", std::string_view late = "") {
  return fmt::format(R"(opentrn program 1 "kernel"
registers 1
tensor %0 hbm float16 [160, 200] "weight" input
tensor %1 hbm float16 [160, 2] "x" input
tensor %2 hbm float32 [2, 96] "y" output
tensor %3 sbuf float16 [128, 192] "w"
tensor %4 sbuf float16 [128, 4] "x"
tensor %5 psum float32 [2, 96] "sum"
tensor %6 sbuf float32 [2, 96] "sum"
tensor %7 sbuf float16 [128, 192] "other"
{}dma_copy dst=%3[192:128, 1:96] src=%0[+40, 200:128, 1:96] priority=-1
dma_copy dst=%3[+96, 192:32, 1:96] src=%0[+25640, 200:32, 1:96] priority=-1
dma_copy dst=%4[4:128, 1:2] src=%1[2:128, 1:2] priority=-1
dma_copy dst=%4[+2, 4:32, 1:2] src=%1[+256, 1:64] priority=-1
{}nc_matmul dst=%5 stationary=%4[4:128, 1:2] moving=%3[192:128, 1:96] accumulate=false
nc_matmul dst=%5 stationary=%4[+2, 4:32, 1:2] moving=%3[+96, 192:32, 1:96] accumulate=true
tensor_copy dst=%6 src=%5
dma_copy dst=%2 src=%6 priority=-1
)",
                     more, late);
}

std::vector<float> run(const isa::Program& program) {
  Core core(Generation::kV3);
  for (const isa::TensorId id : {0u, 1u}) {
    const auto buffer = core.buffer(program, id);
    const auto elements = static_cast<size_t>(program.tensor(id).row_elements);
    std::vector<float> values(elements);
    for (size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 11);
    numerics::store_f32(DType::kFloat16, values.data(), buffer->data(), elements);
    buffer->mark_all_initialised();
  }
  const auto y = Buffer::allocate(2 * 96 * 4);
  core.bind(2, y);
  core.run(program);
  const auto* data = reinterpret_cast<const float*>(y->data());
  return {data, data + 2 * 96};
}

TEST(DirectOperands, ProductsReadWhereTheCopyWouldHave) {
  const isa::Program program = isa::parse_program(product());
  const DirectOperands direct = direct_operands(program);
  ASSERT_NE(direct.program, nullptr);
  EXPECT_EQ(direct.sources, (std::vector<isa::TensorId>{0, 1}));
  ASSERT_EQ(direct.program->size(), program.size());
  const isa::Instruction& second = direct.program->instruction(5);
  EXPECT_EQ(direct.program->operand(second, 2).tensor, 0u);
  EXPECT_EQ(direct.program->operand(second, 2).offset, 25640);
  EXPECT_EQ(run(*direct.program), run(program));
  EXPECT_EQ(
      direct.program->pattern(direct.program->operand(direct.program->instruction(0), 0)).element_count(), 1);
}

TEST(DirectOperands, LeavesWhatIsWrittenOrReadOtherwise) {
  const auto sources = [](const std::string& text) {
    return direct_operands(isa::parse_program(text)).sources;
  };
  const std::vector<isa::TensorId> only_x{1};
  // Somebody else reads the tile, writes it, or reads it before it is there.
  EXPECT_EQ(sources(product("", "tensor_copy dst=%7 src=%3\n")), only_x);
  EXPECT_EQ(sources(product("", "memset dst=%3[192:1, 1:1] value=0\n")), only_x);
  EXPECT_EQ(sources(product("nc_matmul dst=%5 stationary=%4[4:128, 1:2] moving=%3[192:128, 1:96]\n")),
            std::vector<isa::TensorId>{});
  // The weight changes, or its copies lie on top of each other.
  EXPECT_EQ(sources(product("", "dma_copy dst=%0[200:128, 1:96] src=%0[+96, 200:128, 1:96] priority=-1\n")),
            only_x);
  EXPECT_EQ(sources(product("", "dma_copy dst=%3[192:1, 1:2] src=%0[200:1, 1:2] priority=-1\n")), only_x);
}

TEST(DirectOperands, NothingToGain) {
  const std::string text = R"(opentrn program 1 "kernel"
registers 1
tensor %0 hbm float32 [128, 4] "x" input
tensor %1 sbuf float32 [128, 4] "x"
dma_copy dst=%1 src=%0 priority=-1
)";
  EXPECT_EQ(direct_operands(isa::parse_program(text)).program, nullptr);
}

}  // namespace
}  // namespace opentrn::sim::direct_operands_tests
