#include "sim/functional/custom_op.h"

#include "isa/custom_ops.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::custom_op_tests {
namespace {

using isa::Opcode;
using isa::Operand;

TEST(CustomOp, RunsARegisteredBody) {
  register_custom_op("test.axpy", [](std::span<CustomOpTensor> out, std::span<const CustomOpTensor> in) {
    // malformed_test.cc calls this too, in the same process.
    if (out.size() != 1 || in.size() != 2 || out[0].shape != std::vector<int64_t>{2, 2})
      throw Fault(FaultKind::kProgram, "test.axpy", "wrong operands");
    const auto* x = reinterpret_cast<const float*>(in[0].data);
    const auto* scale = reinterpret_cast<const float*>(in[1].data);
    auto* y = reinterpret_cast<float*>(out[0].data);
    for (int64_t i = 0; i < out[0].element_count(); ++i) y[i] = *scale * x[i];
  });
  EXPECT_TRUE(find_custom_op("test.axpy"));
  EXPECT_TRUE(isa::has_custom_op("test.axpy"));
  TestKernel k;
  const Tile x = k.sbuf_of(2, 2, {1, 2, 3, 4}), y = k.sbuf(2, 2);
  k.run(
      Opcode::kCustomOp, {k.op(y), k.op(x), Operand::imm(3)},
      {word(int64_t{k.program.intern_string("test.axpy")}), word(int64_t{1}), word_real(-1), word_real(-1)});
  EXPECT_EQ(k.get(y), (std::vector<float>{3, 6, 9, 12}));
}

TEST(CustomOp, AnUnknownNameAndAMissingLibraryAreFaults) {
  TestKernel k;
  const Tile x = k.sbuf_of(1, 1, {1});
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kCustomOp, {k.op(x), k.op(x)},
                    {word(int64_t{k.program.intern_string("test.none")}), word(int64_t{1}), word_real(-1),
                     word_real(-1)});
            }).label(),
            "custom_op.op");
  EXPECT_EQ(fault_of([] { load_custom_op_library("/no/such/library.so"); }).label(), "custom_op.library");
}

}  // namespace
}  // namespace opentrn::sim::custom_op_tests
