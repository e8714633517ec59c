// Rounding, special functions, wrapping, limits: what the conformance files do not probe. Values of whole
// ops are in tests/graph (against NumPy) and conformance/stablehlo.
#include "graph/eval/evaluate.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/builder.h"
#include "graph/element_value.h"
#include "graph/eval/rounding.h"
#include "graph/eval/special_functions.h"

namespace opentrn::graph::eval {
namespace {

using testing::ElementsAre;

constexpr ElementType kSmallFloats[] = {
    ElementType::kF4E2M1FN, ElementType::kF6E2M3FN,   ElementType::kF6E3M2FN,   ElementType::kF8E3M4,
    ElementType::kF8E4M3,   ElementType::kF8E4M3FN,   ElementType::kF8E4M3FNUZ, ElementType::kF8E4M3B11FNUZ,
    ElementType::kF8E5M2,   ElementType::kF8E5M2FNUZ, ElementType::kF8E8M0FNU,  ElementType::kBF16,
    ElementType::kF16};

TEST(Rounding, EveryCodeIsItsOwnNearestValue) {
  for (const ElementType type : kSmallFloats) {
    for (uint64_t code = 0; code < 1ull << bit_width(type); ++code) {
      const double value = decode(type, code);
      if (std::isnan(value)) continue;
      ASSERT_EQ(round_to(type, value), value) << name(type) << " code " << code;
      ASSERT_EQ(encode(type, value), code) << name(type);
    }
  }
}

TEST(Rounding, MidpointsGoToTheEvenCode) {
  for (const ElementType type : kSmallFloats) {
    if (type == ElementType::kF8E8M0FNU) continue;  // ties go up there
    for (uint64_t code = 0; code + 1 < 1ull << (bit_width(type) - 1); ++code) {
      const double low = decode(type, code);
      const double high = decode(type, code + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) break;
      const double middle = (low + high) / 2;
      ASSERT_EQ(round_to(type, middle), code % 2 == 0 ? low : high) << name(type) << " code " << code;
      ASSERT_EQ(round_to(type, std::nextafter(middle, high)), high) << name(type) << " code " << code;
      ASSERT_EQ(round_to(type, std::nextafter(middle, low)), low) << name(type) << " code " << code;
    }
  }
}

// element_value.h was written apart from rounding.h.
TEST(Rounding, AgreesWithTheLiteralsOfTheGraph) {
  for (const ElementType type : kSmallFloats) {
    for (const double value :
         {0.0, -0.0, 1.0, -1.0, 0.3, 1e-3, -7.1, 447.0, 449.0, 479.0, 1e5, 1e39, 1e-45,
          std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
          -std::numeric_limits<double>::quiet_NaN()}) {
      std::byte bytes[4] = {};
      store_real(type, value, bytes);
      uint64_t code = 0;
      std::memcpy(&code, bytes, static_cast<size_t>(storage_bytes(type)));
      const double ours = round_to(type, value);
      if (std::isnan(ours))
        EXPECT_TRUE(std::isnan(load_real(type, bytes))) << name(type) << " " << value;
      else
        EXPECT_EQ(encode(type, value), code) << name(type) << " " << value;
    }
  }
}

// Golden values: scipy.special 1.17.
TEST(SpecialFunctions, AgreeWithScipy) {
  const auto close = [](double ours, double golden) {
    EXPECT_NEAR(ours, golden, 4e-15 * std::fabs(golden)) << golden;
  };
  close(log_gamma(0.5), 0.5723649429247001);
  close(log_gamma(-2.5), -0.05624371649767405);
  close(digamma(0.5), -1.9635100260214235);
  close(digamma(-1.75), -2.32269162861436);
  close(digamma(30), 3.384438132685525);
  close(hurwitz_zeta(2, 1), 1.6449340668482264);
  close(hurwitz_zeta(3.5, 0.25), 128.54695896428433);
  close(hurwitz_zeta(1.01, 7), 98.14463369609564);
  close(polygamma(1, 0.5), 4.934802200544679);
  close(polygamma(4, 2.25), -0.5110686379337336);
  close(bessel_i1e(0.5), 0.15642080318487173);
  close(bessel_i1e(-20), -0.08750622218328867);
  close(bessel_i1e(60), 0.05117963018902872);
  close(inverse_erf(0.25), 0.2253120550121781);
  close(inverse_erf(-0.999999), -3.458910737275499);
  close(inverse_erf(1e-9), 8.86226925452758e-10);
  close(inverse_erf(0.5), 0.4769362762044699);
  close(inverse_erf(1 - 0x1p-53), 5.863584748755168);
}

TEST(SpecialFunctions, HaveTheirPoles) {
  EXPECT_TRUE(std::isnan(digamma(0)));
  EXPECT_TRUE(std::isnan(digamma(-3)));
  EXPECT_EQ(hurwitz_zeta(1, 2), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(hurwitz_zeta(0.5, 2)));
  EXPECT_TRUE(std::isnan(polygamma(-1, 2)));
  EXPECT_TRUE(std::isnan(inverse_erf(1.5)));
}

template <typename T>
Literal literal(ElementType element, std::vector<int64_t> dims, std::initializer_list<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return Literal(Type::tensor(element, std::move(dims)), std::move(bytes));
}

template <typename T>
std::vector<T> values_of(const RuntimeValue& value) {
  const std::vector<std::byte> bytes = value.literal().dense();
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class EvaluateTest : public testing::Test {
 protected:
  EvaluateTest() : main_(module_.add_function("main")), b_(module_, main_, main_.body()) {}

  ValueId argument(const Literal& value) {
    arguments_.push_back({value});
    return main_.add_argument(main_.body(), value.type());
  }
  RuntimeValue run(ValueId result, const Options& options = {}) {
    b_.return_values({result});
    main_.result_types = {b_.type(result)};
    return evaluate(module_, main_, arguments_, options).at(0);
  }
  std::string label_of_run(ValueId result, const Options& options = {}) {
    try {
      run(result, options);
    } catch (const Fault& fault) {
      return fault.label();
    }
    return "";
  }

  Module module_;
  Function& main_;
  Builder b_;
  std::vector<RuntimeValue> arguments_;
};

TEST_F(EvaluateTest, IntegersWrap) {
  const ValueId x = argument(literal<int8_t>(ElementType::kI8, {3}, {127, -128, 100}));
  EXPECT_THAT(values_of<int8_t>(run(b_.add(OpKind::add_, {x, x}))), ElementsAre(-2, 0, -56));
}

TEST_F(EvaluateTest, NarrowIntegersKeepTheirSign) {
  const ValueId x = argument(literal<int8_t>(ElementType::kI4, {3}, {7, -8, 3}));
  EXPECT_THAT(values_of<int8_t>(run(b_.add(OpKind::add_, {x, x}))), ElementsAre(-2, 0, 6));
}

TEST_F(EvaluateTest, DivisionByZeroIsDefined) {
  const ValueId x = argument(literal<int32_t>(ElementType::kI32, {3}, {5, -5, INT32_MIN}));
  const ValueId y = argument(literal<int32_t>(ElementType::kI32, {3}, {0, 2, -1}));
  EXPECT_THAT(values_of<int32_t>(run(b_.add(OpKind::divide_, {x, y}))), ElementsAre(-1, -2, INT32_MIN));
}

TEST_F(EvaluateTest, EveryOpRoundsOnceToItsType) {
  // bf16 holds 8 significant bits: 256 + 1 is 256.
  const ValueId x = argument(literal<uint16_t>(ElementType::kBF16, {1}, {0x4380}));
  const ValueId y = argument(literal<uint16_t>(ElementType::kBF16, {1}, {0x3F80}));
  EXPECT_THAT(values_of<uint16_t>(run(b_.add(OpKind::add_, {x, y}))), ElementsAre(0x4380));
}

TEST_F(EvaluateTest, Float64KeepsWhatTheTypeWouldRound) {
  const ValueId x = argument(literal<float>(ElementType::kF32, {1}, {1.0F}));
  const ValueId y = argument(literal<float>(ElementType::kF32, {1}, {3.0F}));
  const RuntimeValue third = run(b_.add(OpKind::divide_, {x, y}), {.float64 = true});
  EXPECT_EQ(third.literal().type().element(), ElementType::kF64);
  EXPECT_THAT(values_of<double>(third), ElementsAre(1.0 / 3.0));
}

TEST_F(EvaluateTest, AReductionGoesInRowMajorOrder) {
  // (1 + 2^24) + 1 loses both ones in f32; another order would keep them.
  const ValueId x = argument(literal<float>(ElementType::kF32, {1, 3}, {1.0F, 0x1p24F, 1.0F}));
  EXPECT_THAT(values_of<float>(run(b_.reduce(OpKind::add_, x, {1}))), ElementsAre(0x1p24F));
}

TEST_F(EvaluateTest, ANarrowMatrixProductSumsInF32AndRoundsAtTheEnd) {
  // 256 + 1 + 1 is 258 in bf16; rounded at each step it would stay 256.
  const ValueId x = argument(literal<uint16_t>(ElementType::kBF16, {1, 3}, {0x4380, 0x3F80, 0x3F80}));
  const ValueId y = argument(literal<uint16_t>(ElementType::kBF16, {3, 1}, {0x3F80, 0x3F80, 0x3F80}));
  const ValueId z = b_.add(OpKind::dot_general_, {x, y},
                           {{Attr::lhs_contracting_dimensions, std::vector<int64_t>{1}},
                            {Attr::rhs_contracting_dimensions, std::vector<int64_t>{0}}});
  EXPECT_THAT(values_of<uint16_t>(run(z)), ElementsAre(0x4381));
}

TEST_F(EvaluateTest, ArgumentsAreChecked) {
  const ValueId x = argument(literal<float>(ElementType::kF32, {1}, {1.0F}));
  arguments_[0] = {literal<float>(ElementType::kF32, {2}, {1.0F, 2.0F})};
  EXPECT_EQ(label_of_run(x), "eval.arguments");
}

TEST_F(EvaluateTest, AnUnknownCustomCallIsRefusedByName) {
  const ValueId x = argument(literal<float>(ElementType::kF32, {1}, {1.0F}));
  const ValueId y =
      b_.add(OpKind::custom_call_, {x}, {{Attr::call_target_name, std::string("their_gelu")}}, {b_.type(x)});
  b_.return_values({y});
  try {
    evaluate(module_, main_, arguments_);
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kNotModelled);
    EXPECT_THAT(fault.message(), testing::HasSubstr("their_gelu"));
  }
}

TEST_F(EvaluateTest, AHandlerRunsCustomCalls) {
  const ValueId x = argument(literal<float>(ElementType::kF32, {1}, {1.5F}));
  const ValueId y =
      b_.add(OpKind::custom_call_, {x}, {{Attr::call_target_name, std::string("twice")}}, {b_.type(x)});
  const Options options{
      .custom_call = [](const Op& op, const Module&,
                        std::span<const RuntimeValue> operands) -> std::optional<std::vector<RuntimeValue>> {
        if (op.string(Attr::call_target_name) != "twice") return std::nullopt;
        return std::vector<RuntimeValue>{
            {literal<float>(ElementType::kF32, {1}, {2 * values_of<float>(operands[0])[0]})}};
      }};
  EXPECT_THAT(values_of<float>(run(y, options)), ElementsAre(3.0F));
}

TEST_F(EvaluateTest, AFunctionThatCallsItselfIsRefused) {
  const ValueId x = argument(literal<float>(ElementType::kF32, {1}, {1.0F}));
  main_.result_types = {b_.type(x)};
  const ValueId y = b_.add(OpKind::call_, {x}, {{Attr::callee, SymbolRef{"main"}}}, {b_.type(x)});
  EXPECT_EQ(label_of_run(y), "eval.depth");
}

TEST_F(EvaluateTest, AnEndlessLoopIsRefused) {
  const ValueId x = argument(literal<int32_t>(ElementType::kI32, {}, {0}));
  const OpId loop = main_.append(main_.body(), OpKind::while_, {x}, {b_.type(x)});
  const BlockId condition = main_.add_block(loop);
  main_.add_argument(condition, b_.type(x));
  Builder c(module_, main_, condition);
  c.return_values({c.constant(literal<uint8_t>(ElementType::kI1, {}, {1}))});
  const BlockId body = main_.add_block(loop);
  const ValueId state = main_.add_argument(body, b_.type(x));
  Builder(module_, main_, body).return_values({state});
  EXPECT_EQ(label_of_run(main_.op(loop).results[0], {.while_trips_max = 10}), "eval.stablehlo.while");
}

TEST_F(EvaluateTest, AnAsynchronousRegionIsDoneWhenItIsAwaited) {
  const ValueId x = argument(literal<int32_t>(ElementType::kI32, {2}, {3, 4}));
  const OpId start = main_.append(main_.body(), OpKind::async_start_, {x}, {Type::token()});
  const BlockId region = main_.add_block(start);
  const ValueId inside = main_.add_argument(region, b_.type(x));
  Builder r(module_, main_, region);
  r.return_values({r.add(OpKind::add_, {inside, inside})});
  const OpId done =
      main_.append(main_.body(), OpKind::async_done_, {main_.op(start).results[0]}, {b_.type(x)});
  EXPECT_THAT(values_of<int32_t>(run(main_.op(done).results[0])), ElementsAre(6, 8));
}

TEST(EvaluateParallel, ProcessesMeetAndDeadlocksAreFaults) {
  Module module;
  module.add_function("gather");
  module.add_function("alone");
  const Type part = Type::tensor(ElementType::kI32, {1});
  {
    Function& gather = *module.find("gather");
    const ValueId x = gather.add_argument(gather.body(), part);
    Builder b(module, gather, gather.body());
    const ValueId all =
        b.add(OpKind::all_gather_, {x},
              {{Attr::all_gather_dim, int64_t{0}}, {Attr::replica_groups, IntMatrix{1, 2, {0, 1}}}},
              {Type::tensor(ElementType::kI32, {2})});
    b.return_values({all});
  }
  {
    Function& alone = *module.find("alone");
    const ValueId x = alone.add_argument(alone.body(), part);
    Builder(module, alone, alone.body()).return_values({x});
  }
  const std::vector<std::vector<RuntimeValue>> arguments{{{literal<int32_t>(ElementType::kI32, {1}, {7})}},
                                                         {{literal<int32_t>(ElementType::kI32, {1}, {8})}}};
  const Function* gather = module.find("gather");
  const std::vector<const Function*> both{gather, gather};
  for (const auto& result : evaluate_parallel(module, both, 2, 1, arguments))
    EXPECT_THAT(values_of<int32_t>(result.at(0)), ElementsAre(7, 8));
  const std::vector<const Function*> one{gather, module.find("alone")};
  try {
    evaluate_parallel(module, one, 2, 1, arguments);
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "eval.deadlock");
    EXPECT_THAT(
        fault.message(),
        testing::HasSubstr("process 0 waits at stablehlo.all_gather for process 1 of the group 0, 1,"));
  }
}

// One gathers where the other exchanges, and both would have had numbers of it.
TEST(EvaluateParallel, DifferentCollectivesOfAGroupAreRefused) {
  Module module;
  const Type pair = Type::tensor(ElementType::kI32, {2}), four = Type::tensor(ElementType::kI32, {4});
  const std::pair<Attr, Attribute> groups{Attr::replica_groups, IntMatrix{1, 2, {0, 1}}};
  for (const char* name : {"gather", "exchange"}) {
    Function& function = module.add_function(name);
    const ValueId x = function.add_argument(function.body(), pair);
    Builder b(module, function, function.body());
    const bool gathers = function.name == "gather";
    const ValueId made =
        gathers ? b.add(OpKind::all_gather_, {x}, {{Attr::all_gather_dim, int64_t{0}}, groups}, {four})
                : b.add(OpKind::all_to_all_, {x},
                        {{Attr::split_dimension, int64_t{0}},
                         {Attr::concat_dimension, int64_t{0}},
                         {Attr::split_count, int64_t{2}},
                         groups},
                        {pair});
    b.return_values({made});
  }
  const std::vector<std::vector<RuntimeValue>> arguments(
      2, {{literal<int32_t>(ElementType::kI32, {2}, {7, 8})}});
  const std::vector<const Function*> functions{module.find("gather"), module.find("exchange")};
  try {
    evaluate_parallel(module, functions, 2, 1, arguments);
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "eval.mismatch");
    EXPECT_EQ(
        fault.message(),
        "the processes 0, 1 meet at different collectives: 0 at stablehlo.all_gather [all_gather_dim 0] of "
        "tensor<2xi32>; 1 at stablehlo.all_to_all [split_dimension 0, concat_dimension 0, split_count 2] "
        "of tensor<2xi32>");
  }
}

}  // namespace
}  // namespace opentrn::graph::eval
