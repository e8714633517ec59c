#include "model/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::model {
namespace {

using compiler::PortAxis;
using testing::HasSubstr;

// Two inputs [batch, 4] and [batch, length], one result [length, batch].
Bucket bucket_of(int64_t batch, int64_t length) {
  return {{{"batch", batch}, {"length", length}}, {{batch, 4}, {batch, length}}, {{length, batch}}};
}

std::vector<OpenDimension> both(std::string mixing_of_length = "") {
  return {{"batch", {{0, 0}, {1, 0}}, {{0, 1}}, ""},
          {"length", {{1, 1}}, {{0, 0}}, std::move(mixing_of_length)}};
}

Buckets made(std::string mixing_of_length = "") {
  std::vector<Bucket> programs;
  for (const Sizes& sizes : combinations({{"batch", {1, 8}}, {"length", {16, 64}}}))
    programs.push_back(bucket_of(sizes.at("batch"), sizes.at("length")));
  return {programs, both(std::move(mixing_of_length)), {"x", "mask"}};
}

std::string refusal(const std::function<void()>& refused) {
  try {
    refused();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "nothing was refused";
}

TEST(Buckets, CombinationsAreThoseOfNestedLoops) {
  std::vector<Sizes> expected;
  for (const int64_t a : {1, 2, 3})
    for (const int64_t b : {5, 7}) expected.push_back({{"a", a}, {"b", b}});
  EXPECT_EQ(combinations({{"a", {1, 2, 3}}, {"b", {5, 7}}}), expected);
  EXPECT_EQ(combinations({}), std::vector<Sizes>{{}});
}

TEST(Buckets, TheSmallestProgramThatHoldsAnInferenceIsTaken) {
  const Buckets buckets = made();
  for (int64_t batch = 1; batch <= 8; ++batch)
    for (int64_t length = 1; length <= 64; ++length) {
      const Sizes& sizes = buckets.programs()[buckets.pick({{"batch", batch}, {"length", length}})].sizes;
      EXPECT_EQ(sizes.at("batch"), batch == 1 ? 1 : 8);
      EXPECT_EQ(sizes.at("length"), length <= 16 ? 16 : 64);
    }
  EXPECT_THAT(
      refusal([&] {
        buckets.pick({{"batch", 9}, {"length", 16}});
      }),
      testing::AllOf(HasSubstr("[model.size]: "), HasSubstr("no program for batch=9, length=16; compiled for "
                                                            "batch=1, length=16; batch=1, length=64")));
}

TEST(Buckets, InputsArePaddedAndResultsCut) {
  const Fit fit = made().fit({{5, 4}, {5, 60}}, {});
  EXPECT_EQ(fit.program, 3U);
  const auto rows = [](const std::vector<Resized>& all) {
    std::vector<std::tuple<size_t, int64_t, int64_t>> found;
    for (const Resized& row : all) found.emplace_back(row.port, row.axis, row.size);
    return found;
  };
  using Rows = std::vector<std::tuple<size_t, int64_t, int64_t>>;
  EXPECT_EQ(rows(fit.padded), (Rows{{0, 0, 8}, {1, 0, 8}, {1, 1, 64}}));
  EXPECT_EQ(rows(fit.cut), (Rows{{0, 1, 5}, {0, 0, 60}}));
  EXPECT_TRUE(made().fit({{8, 4}, {8, 16}}, {}).padded.empty());
}

TEST(Buckets, PaddingThatMixesIsRefusedUnlessTheModelMasksIt) {
  const Buckets buckets = made("stablehlo.reduce at 3");
  EXPECT_THAT(refusal([&] {
                buckets.fit({{8, 4}, {8, 60}}, {});
              }),
              testing::AllOf(HasSubstr("[model.padding]: "), HasSubstr("length=60 would be padded to 64"),
                             HasSubstr("stablehlo.reduce at 3"), HasSubstr("--pad length")));
  EXPECT_EQ(buckets.fit({{8, 4}, {8, 60}}, {"length"}).padded.size(), 1U);
  EXPECT_EQ(buckets.fit({{5, 4}, {5, 64}}, {}).padded.size(), 2U);  // length is not padded
}

TEST(Buckets, InputsThatAreNotTheModelsAreRefused) {
  const Buckets buckets = made();
  EXPECT_THAT(refusal([&] {
                buckets.sizes_of({{5, 4}});
              }),
              HasSubstr("[model.inputs]: the model takes 2 inputs, 1 were given"));
  EXPECT_THAT(refusal([&] {
                buckets.sizes_of({{5, 4}, {5}});
              }),
              HasSubstr("[model.shape]: mask has 2 dimensions, got 1"));
  EXPECT_THAT(refusal([&] {
                buckets.sizes_of({{5, 4}, {6, 16}});
              }),
              HasSubstr("[model.size]: batch is 5 and, in mask, 6"));
}

TEST(Buckets, DimensionsComeBackFromTheirText) {
  const std::vector<OpenDimension> rows = dimensions_from_text(text_of(both("reduce")));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "batch");
  EXPECT_EQ(rows[0].inputs.size(), 2U);
  EXPECT_EQ(rows[0].results[0].axis, 1);
  EXPECT_EQ(rows[1].mixing, "reduce");
  for (const char* text :
       {"", "{", "[1]", R"([{"name": "b"}])", R"([{"name": 1, "inputs": [], "results": [], "mixing": ""}])",
        R"([{"name": "b", "inputs": [[0]], "results": [], "mixing": ""}])"})
    EXPECT_THAT(refusal([&] { dimensions_from_text(text); }), HasSubstr("[model_file]: ")) << text;
}

TEST(Buckets, ATableThatIsNotTheProgramsIsRefused) {
  const auto refused = [](OpenDimension row) {
    return refusal([&] { Buckets({bucket_of(1, 16)}, {std::move(row)}, {"x", "mask"}); });
  };
  EXPECT_THAT(refused({"width", {{0, 0}}, {}, ""}), HasSubstr("[model_file]: "));  // no such size
  EXPECT_THAT(refused({"batch", {}, {}, ""}), HasSubstr("[model_file]: "));        // of no input
  EXPECT_THAT(refused({"batch", {{0, 1}}, {}, ""}), HasSubstr("[model_file]: "));  // an axis of another size
  EXPECT_THAT(refused({"batch", {{0, 7}}, {}, ""}), HasSubstr("[model_file]: "));  // no such axis
  EXPECT_THAT(refused({"batch", {{2, 0}}, {}, ""}), HasSubstr("[model_file]: "));  // no such input
  EXPECT_THAT(refused({"batch", {{0, 0}}, {{0, -1}}, ""}), HasSubstr("[model_file]: "));
}

}  // namespace
}  // namespace opentrn::model
