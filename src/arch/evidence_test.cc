#include "arch/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace opentrn::arch {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Evidence, ABandHoldsThePredictedTimeOfItsKind) {
  const TimedKind kind{Generation::kV3, false, false};
  const Band known = band(default_tables(), kind);
  ASSERT_TRUE(known.known()) << known.unknown;
  EXPECT_NEAR(known.share, 0.8, 0.1);
  EXPECT_LT(known.low, known.high);
  EXPECT_GT(known.runs, 10);
  EXPECT_THAT(to_text(known, 10'000), HasSubstr("runs of NKI kernels on Trainium2"));
}

TEST(Evidence, LanguageModelsAreAKindOfTheirOwn) {
  const TimedKind kind{.generation = Generation::kV2, .model = true, .language = true};
  EXPECT_EQ(kind.key(), "llm.model.v2");
  const Band own = band(default_tables(), kind);
  const Band models = band(default_tables(), {.generation = Generation::kV2, .model = true});
  ASSERT_TRUE(own.known()) << own.unknown;
  EXPECT_GT(own.high / own.low, models.high / models.low);
  EXPECT_THAT(to_text(own), HasSubstr("runs of language models on Trainium and Inferentia2"));
  const Band few = band(default_tables(), {.generation = Generation::kV3, .model = true, .language = true});
  EXPECT_THAT(to_text(few), HasSubstr(" evidence runs of language models on Trainium2"));
  EXPECT_LT(few.share, own.share);
  EXPECT_THAT(band(default_tables(), {.generation = Generation::kV3, .model = true}).unknown,
              HasSubstr("compiled models on Trainium2"));
}

TEST(Evidence, NothingIsKnownOfTrainium3AndOfWhatIfs) {
  EXPECT_THAT(band(default_tables(), {Generation::kV4, false, false}).unknown, HasSubstr("no measurement"));
  const auto tables = load_tables({{}, {"timing.v3.constant.hbm_sustained_gb_s=600"}});
  const Band what_if = band(*tables, {Generation::kV3, false, false});
  EXPECT_THAT(what_if.unknown, HasSubstr("timing.v3.constant.hbm_sustained_gb_s was overridden"));
  const auto price = load_tables({{}, {"instance.trn2.48xlarge.chips=8"}});
  EXPECT_TRUE(band(*price, {Generation::kV3, false, false}).known());
}

TEST(Evidence, TheBasisCountsWhatIsAssumed) {
  const Basis v4 =
      basis(default_tables(), {Generation::kV4, false, false}, {"tensor_copy", "quantize_mx", "dma_copy"});
  EXPECT_GT(v4.assumed_constants.size(), v4.constants / 2u);
  EXPECT_EQ(v4.rules, 2);
  EXPECT_THAT(v4.assumed_rules, testing::ElementsAre("timing.v4.instruction.tensor_copy"));
  EXPECT_THAT(to_text(v4), HasSubstr("none was checked against a measurement"));
  const Basis v3 = basis(default_tables(), {Generation::kV3, false, false}, {});
  EXPECT_LT(v3.assumed_constants.size(), v4.assumed_constants.size());
  EXPECT_THAT(v3.fitted, testing::Contains("timing.v3.constant.hbm_sustained_gb_s"));
  EXPECT_THAT(basis(default_tables(), {Generation::kV3, true, false}, {}).checked,
              HasSubstr("compiled models"));
}

// A value that was read off published rows says which: predictions of those are no evidence.
TEST(Evidence, ValuesReadOffPublishedRowsNameThem) {
  constexpr const char* kPublishers[] = {
      "ucb-bar/autocomp", "zhang677/AccelOpt",    "mlp-tkg regression", "matrix_multiplication.rst",
      "mamba_v*.png",     "design-rmsnorm-quant", "how-to/*.png",       "nki_perf_guide"};
  for (const Fact& fact : default_tables().facts().all()) {
    const bool fitted = fact.confidence == Confidence::kFitted;
    bool read_off = fact.confidence == Confidence::kMeasured && fact.key.starts_with("timing.");
    read_off &= std::ranges::any_of(kPublishers,
                                    [&](const char* p) { return fact.source.find(p) != std::string::npos; });
    if ((fitted || read_off) && !fact.information) {
      EXPECT_THAT(fact.calibrated_on, testing::Not(IsEmpty())) << fact.key;
    }
  }
}

}  // namespace
}  // namespace opentrn::arch
