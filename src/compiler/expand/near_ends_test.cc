#include "compiler/analysis/pass_for_test.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {
namespace {

constexpr PassCase kCases[] = {
    {"what_a_mask_fills_in_comes_near_and_what_is_compared_with_it_too",
     "(%x: tensor<4xi64>, %m: tensor<4xi1>) -> tensor<4xi1>",
     R"(%low = stablehlo.constant dense<-9223372036854775808> : tensor<i64>
        %again = stablehlo.constant dense<-9223372036854775808> : tensor<4xi64>
        %wide = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<i64>) -> tensor<4xi64>
        %s = stablehlo.select %m, %x, %wide : tensor<4xi1>, tensor<4xi64>
        %c = stablehlo.compare EQ, %s, %again : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
        return %c : tensor<4xi1>)",
     R"(%low = stablehlo.constant dense<-2147483648> : tensor<i64>
        %again = stablehlo.constant dense<-2147483648> : tensor<4xi64>
        %wide = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<i64>) -> tensor<4xi64>
        %s = stablehlo.select %m, %x, %wide : tensor<4xi1>, tensor<4xi64>
        %c = stablehlo.compare EQ, %s, %again : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
        return %c : tensor<4xi1>)"},
    {"the_start_of_a_search_comes_near", "(%x: tensor<4xi64>) -> tensor<i64>",
     R"(%high = stablehlo.constant dense<9223372036854775807> : tensor<i64>
        %a = stablehlo.reduce(%x init: %high) applies stablehlo.minimum across dimensions = [0]
             : (tensor<4xi64>, tensor<i64>) -> tensor<i64>
        return %a : tensor<i64>)",
     R"(%high = stablehlo.constant dense<2147483647> : tensor<i64>
        %a = stablehlo.reduce(%x init: %high) applies stablehlo.minimum across dimensions = [0]
             : (tensor<4xi64>, tensor<i64>) -> tensor<i64>
        return %a : tensor<i64>)"},
};

// The low bits of an end are those of what is computed with it; a comparison alone knows that it is not
// reached.
constexpr std::string_view kKept[] = {
    R"(%high = stablehlo.constant dense<9223372036854775807> : tensor<4xi64>
       %a = stablehlo.and %x, %high : tensor<4xi64>
       return %a : tensor<4xi64>)",
    R"(%high = stablehlo.constant dense<9223372036854775807> : tensor<4xi64>
       %c = stablehlo.compare LT, %x, %high : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
       %a = stablehlo.convert %c : (tensor<4xi1>) -> tensor<4xi64>
       return %a : tensor<4xi64>)",
    R"(%far = stablehlo.constant dense<1099511627776> : tensor<4xi64>
       return %far : tensor<4xi64>)",
};

TEST(NearEnds, BoundWhatTheDeviceHolds) {
  expect_cases(kCases, [](auto& f) { bring_ends_near(f); });
}

TEST(NearEnds, StayWhereTheyAreComputedWith) {
  for (const std::string_view body : kKept) {
    const std::string text = main_of("(%x: tensor<4xi64>) -> tensor<4xi64>", body);
    EXPECT_EQ(after(text, [](auto& f) { bring_ends_near(f); }), printed(text));
  }
}

}  // namespace
}  // namespace opentrn::compiler
