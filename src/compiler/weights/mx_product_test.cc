#include "compiler/weights/mx_product.h"

#include <fmt/format.h>

#include "base/fault.h"
#include "compiler/analysis/packed_product.h"
#include "compiler/analysis/pass_for_test.h"

namespace opentrn::compiler {
namespace {

// x [1, 128] times one column: 0x38 is 1 in e4m3fn, 2 is 1 in e2m1fn; the codes of its four blocks stand for
// 1, 2, 4 and 1/2.
std::string call(std::string_view packed, std::string_view ones) {
  return main_of("(%x: tensor<1x128xbf16>) -> tensor<1x1xf32>", fmt::format(R"(
    %w = stablehlo.constant dense<{1}> : tensor<32x1x{0}>
    %s = stablehlo.constant dense<[[127], [128], [129], [126]]> : tensor<4x1xui8>
    %y = stablehlo.custom_call @opentrn.mx_product(%x, %w, %s)
         : (tensor<1x128xbf16>, tensor<32x1x{0}>, tensor<4x1xui8>) -> tensor<1x1xf32>
    return %y : tensor<1x1xf32>)",
                                                                            packed, ones));
}

constexpr std::string_view kFp8Ones = "943208504", kFp4Ones = "8738";  // 0x38383838, 0x2222

TEST(ExpandMxProducts, AreWrittenOutForTheEvaluator) {
  for (const auto& [packed, ones] : {std::pair{"ui32", kFp8Ones}, {"ui16", kFp4Ones}}) {
    const graph::Module module = passed(call(packed, ones), [](graph::Function& function) {
      EXPECT_EQ(expand_mx_products(function, /*as_kernels=*/false), 1);
    });
    const graph::Type type = module.entry().type(module.entry().arguments()[0]);
    std::vector<std::byte> threes;
    for (int i = 0; i < 128; ++i) threes.insert(threes.end(), {std::byte{0x40}, std::byte{0x40}});  // bf16
    const std::vector<graph::eval::RuntimeValue> arguments{{graph::Literal(type, std::move(threes))}};
    const auto results = graph::eval::evaluate(module, module.entry(), arguments);
    EXPECT_EQ(numbers_of(results[0].literal()), std::vector<double>{32 * 3 * (1 + 2 + 4 + 0.5)}) << packed;
  }
}

TEST(ExpandMxProducts, BecomeTheOpThatKernelsTake) {
  graph::Module module = parsed(call("ui32", kFp8Ones));
  EXPECT_EQ(expand_mx_products(module.entry(), /*as_kernels=*/true), 1);
  int64_t found = 0;
  graph::walk(module.entry(), module.entry().body(),
              [&](graph::OpId id) { found += is_mx_product(module.entry().op(id)); });
  EXPECT_EQ(found, 1);
}

TEST(ExpandMxProducts, OtherOperandsAreRefused) {
  graph::Module module = parsed(call("ui8", "1"));
  EXPECT_THROW(expand_mx_products(module.entry(), /*as_kernels=*/false), Fault);
}

}  // namespace
}  // namespace opentrn::compiler
