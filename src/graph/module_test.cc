#include "graph/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/op_definitions.h"

namespace opentrn::graph {
namespace {

TEST(ElementTypes, NamesRoundTrip) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(element_type_from_name(name(type)), type);
  }
}

TEST(Types, AreSpelledAsMlirSpellsThem) {
  EXPECT_EQ(Type::tensor(ElementType::kF32, {2, kDynamic}).to_string(), "tensor<2x?xf32>");
  EXPECT_EQ(Type::scalar(ElementType::kComplexF64).to_string(), "tensor<complex<f64>>");
  EXPECT_EQ(Type::tuple({Type::scalar(ElementType::kI1), Type::token()}).to_string(),
            "tuple<tensor<i1>, !stablehlo.token>");
  Quantization q{.storage = ElementType::kI8, .scales = {0.5, 0.25}, .zero_points = {0, 3}};
  q.axis = 1;
  EXPECT_EQ(Type::quantized(q, {4, 2}).to_string(),
            "tensor<4x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>");
}

TEST(Types, ElementCountRefusesOverflow) {
  EXPECT_THROW((void)Type::tensor(ElementType::kI8, {int64_t{1} << 40, int64_t{1} << 40}).element_count(),
               Fault);
}

TEST(Literals, SizeIsChecked) {
  EXPECT_THROW(Literal(Type::tensor(ElementType::kF32, {3}), std::vector<std::byte>(8)), Fault);
  const Literal splat(Type::tensor(ElementType::kF32, {3}), std::vector<std::byte>(4));
  EXPECT_TRUE(splat.is_splat());
  EXPECT_EQ(splat, Literal(Type::tensor(ElementType::kF32, {3}), std::vector<std::byte>(12)));
}

TEST(OpKinds, NamesRoundTrip) {
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    EXPECT_EQ(op_kind_from_name(name(kind)), kind) << name(kind);
  }
}

TEST(Modules, RegionsSeeTheirSurroundings) {
  Module module;
  Function& main = module.add_function("main");
  const Type scalar = Type::scalar(ElementType::kF32);
  const ValueId x = main.add_argument(main.body(), scalar);
  const OpId loop = main.append(main.body(), OpKind::while_, {x}, {scalar});
  const BlockId body = main.add_block(loop);
  const ValueId i = main.add_argument(body, scalar);
  const OpId sum = main.append(body, OpKind::add_, {i, x}, {scalar});
  main.append(body, OpKind::return_, {main.op(sum).results[0]}, {});
  main.append(main.body(), OpKind::return_, {main.op(loop).results[0]}, {});
  std::vector<OpKind> seen;
  walk(main, main.body(), [&](OpId id) { seen.push_back(main.op(id).kind); });
  EXPECT_THAT(seen, testing::ElementsAre(OpKind::while_, OpKind::add_, OpKind::return_, OpKind::return_));
  EXPECT_EQ(&module.entry(), &main);
}

}  // namespace
}  // namespace opentrn::graph
