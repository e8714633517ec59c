#include "compiler/pipeline/phases.h"

#include <set>

#include <gmock/gmock.h>

#include "base/fault.h"
#include "compiler/analysis/pass_for_test.h"

namespace opentrn::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A call, a constant to fold, an op with an expansion, an activation.
constexpr std::string_view kModel = R"(
  func.func private @scaled(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<4x8xf32>
    %two = stablehlo.add %one, %one : tensor<4x8xf32>
    %a = stablehlo.multiply %x, %two : tensor<4x8xf32>
    return %a : tensor<4x8xf32>
  }
  func.func public @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = call @scaled(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %b = stablehlo.tan %a : tensor<4x8xf32>
    %c = stablehlo.logistic %b : tensor<4x8xf32>
    %d = stablehlo.multiply %b, %c : tensor<4x8xf32>
    return %d : tensor<4x8xf32>
  })";

std::string fault_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return {};
}

TEST(Phases, EachKeepsItsPromiseAndThoseBeforeIt) {
  const graph::Module module = parsed(kModel);
  for (const Level level : {Level::k1, Level::k2}) {
    Options options;
    options.level = level;
    const PassInput input{module, options, /*kernel_ops=*/true};
    std::vector<std::string> reached;
    PassCounts counts;
    run_until(Phase::kReady, input, counts,
              {.after = {}, .reached = [&](const PhaseRow& row, const graph::Function& function) {
                 reached.emplace_back(row.name);
                 for (const PhaseRow& earlier : phases())
                   if (earlier.phase <= row.phase && earlier.phase != Phase::kCanonical) {
                     EXPECT_EQ(earlier.broken(function, input), "") << earlier.name << " after " << row.name;
                   }
                 if (row.phase == Phase::kCanonical) {
                   EXPECT_EQ(row.broken(function, input), "");
                 }
               }});
    EXPECT_THAT(reached, ElementsAre("inlined", "typed", "canonical", "expanded", "recognised", "ready"));
    EXPECT_EQ(counts.activations, level == Level::k2 ? 1 : 0);
  }
}

// A promise that nothing can break would promise nothing: the model as it is given breaks these.
TEST(Phases, PromisesCanBeBroken) {
  const graph::Module module = parsed(kModel);
  const Options options;
  const PassInput input{module, options};
  const auto broken = [&](Phase phase) { return row_of(phase).broken(module.entry(), input); };
  EXPECT_THAT(broken(Phase::kInlined), HasSubstr("call is not inlined"));
  EXPECT_THAT(broken(Phase::kExpanded), HasSubstr("tan is not expanded"));
  PassCounts counts;
  const std::string inline_only[] = {"inline-calls"};
  EXPECT_THAT(row_of(Phase::kCanonical).broken(run_passes(inline_only, input, counts), input),
              HasSubstr("fold-constants finds"));
  const graph::Module mixed =
      parsed(main_of("(%x: tensor<2x2xf32>, %y: tensor<2x2xbf16>) -> tensor<2x2xf32>", R"(
        %a = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
             : (tensor<2x2xf32>, tensor<2x2xbf16>) -> tensor<2x2xf32>
        return %a : tensor<2x2xf32>)"));
  EXPECT_THAT(row_of(Phase::kTyped).broken(mixed.entry(), {mixed, options}), HasSubstr("two float types"));
}

// Passes that wait for an option do nothing without it: every pass alone leaves a module that verifies.
TEST(Passes, EachRunsAlone) {
  graph::Module module = parsed(kModel);
  const Options options;
  for (const Pass& pass : passes()) {
    SCOPED_TRACE(pass.name);
    PassCounts counts;
    const std::string names[] = {"inline-calls", std::string(pass.name)};
    graph::Module made = module.without_functions();
    made.functions = {run_passes(names, {module, options}, counts)};
    if (pass.name != "recognise-activations") graph::verify(made);  // its op is the compiler's own
    EXPECT_EQ(made.entry().arguments().size(), 1u);
  }
}

TEST(Passes, NamesAreOnceEach) {
  std::set<std::string_view> names;
  for (const Pass& pass : passes()) EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
  for (const PhaseRow& row : phases()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
}

TEST(Passes, UnknownNamesAreRefusedWithThoseThatThereAre) {
  EXPECT_THAT(
      fault_of([] { pass_named("simplfy"); }),
      testing::AllOf(HasSubstr("[compiler.pass]"), HasSubstr("simplfy"), HasSubstr("fold-constants")));
  EXPECT_THAT(fault_of([] { phase_named("done"); }),
              testing::AllOf(HasSubstr("[compiler.phase]"), HasSubstr("ready")));
}

}  // namespace
}  // namespace opentrn::compiler
