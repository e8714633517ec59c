#include "graph/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/element_value.h"
#include "graph/verify.h"

namespace opentrn::graph {
namespace {

using testing::ElementsAre;

std::string label_of(auto&& run) {
  try {
    run();
  } catch (const Fault& fault) {
    return fault.label();
  }
  return "";
}

class BuilderTest : public testing::Test {
 protected:
  BuilderTest() : main_(module_.add_function("main")), b_(module_, main_, main_.body()) {}

  ValueId argument(ElementType element, std::vector<int64_t> dims) {
    return main_.add_argument(main_.body(), Type::tensor(element, std::move(dims)));
  }
  void finish(ValueId result) {
    b_.return_values({result});
    main_.result_types = {b_.type(result)};
    verify(module_);
  }
  std::string spelled(ValueId value) { return b_.type(value).to_string(); }

  Module module_;
  Function& main_;
  Builder b_;
};

TEST_F(BuilderTest, AMatrixProductHasItsShape) {
  const ValueId x = argument(ElementType::kF32, {8, 2, kDynamic, 64});
  const ValueId y = argument(ElementType::kF32, {8, 2, 64, 32});
  const std::vector<int64_t> batch{0, 1};
  const ValueId z = b_.add(OpKind::dot_general_, {x, y},
                           {{Attr::lhs_batching_dimensions, batch},
                            {Attr::rhs_batching_dimensions, batch},
                            {Attr::lhs_contracting_dimensions, std::vector<int64_t>{3}},
                            {Attr::rhs_contracting_dimensions, std::vector<int64_t>{2}}});
  EXPECT_EQ(spelled(z), "tensor<8x2x?x32xf32>");
  finish(z);
}

TEST_F(BuilderTest, AReductionHasABodyThatVerifies) {
  const ValueId x = argument(ElementType::kBF16, {4, 5, 6});
  const ValueId sum = b_.reduce(OpKind::add_, x, {0, 2});
  EXPECT_EQ(spelled(sum), "tensor<5xbf16>");
  finish(sum);
}

TEST_F(BuilderTest, AFaultNamesConstraintAndNode) {
  const ValueId x = argument(ElementType::kF32, {4, 5});
  b_.set_location(module_.intern({"encoder/Transpose_3", "", 0, 0}));
  try {
    b_.transpose(x, {1, 1});
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "transpose.C2");
    EXPECT_THAT(fault.what(), testing::HasSubstr("encoder/Transpose_3"));
  }
}

TEST_F(BuilderTest, VerifyRefusesUseBeforeDefinition) {
  const ValueId x = argument(ElementType::kF32, {4});
  const ValueId y = b_.add(OpKind::negate_, {x});
  const ValueId z = b_.add(OpKind::abs_, {y});
  b_.return_values({z});
  main_.result_types = {b_.type(z)};
  auto& ops = main_.block(main_.body()).ops;
  std::swap(ops[0], ops[1]);
  EXPECT_EQ(label_of([&] { verify(module_); }), "graph.dominance");
}

TEST_F(BuilderTest, VerifyRefusesWrongStatedTypesMissingReturnsAndRecursion) {
  const ValueId x = argument(ElementType::kF32, {4});
  const ValueId y = b_.add(OpKind::negate_, {x});
  EXPECT_EQ(label_of([&] { verify(module_); }), "graph.terminator");
  b_.return_values({y});
  EXPECT_EQ(label_of([&] { verify(module_); }), "graph.return");
  main_.result_types = {b_.type(y)};
  verify(module_);
  main_.value(y).type = Type::tensor(ElementType::kF32, {5});
  EXPECT_EQ(label_of([&] { verify(module_); }), "negate.C1");
}

TEST(NeutralElements, ComplexNumbersHaveNoOrder) {
  EXPECT_EQ(label_of([] { (void)neutral_element(OpKind::maximum_, ElementType::kComplexF64); }),
            "graph.complex_order");
  EXPECT_TRUE(neutral_element(OpKind::add_, ElementType::kComplexF64).is_splat());
}

TEST(NeutralElements, LeaveEveryElementAsItIs) {
  const auto of = [](OpKind kind, ElementType element) { return neutral_element(kind, element); };
  EXPECT_EQ(load_real(ElementType::kF32, of(OpKind::maximum_, ElementType::kF32).element(0)), -INFINITY);
  EXPECT_EQ(load_real(ElementType::kF8E4M3FN, of(OpKind::maximum_, ElementType::kF8E4M3FN).element(0)), -448);
  EXPECT_EQ(load_integer(ElementType::kI64, of(OpKind::minimum_, ElementType::kI64).element(0)), INT64_MAX);
  EXPECT_EQ(load_integer(ElementType::kUI8, of(OpKind::minimum_, ElementType::kUI8).element(0)), 255);
  EXPECT_EQ(load_integer(ElementType::kI8, of(OpKind::maximum_, ElementType::kI8).element(0)), -128);
}

}  // namespace
}  // namespace opentrn::graph
