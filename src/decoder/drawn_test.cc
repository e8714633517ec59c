#include "decoder/drawn.h"

#include <cstring>

#include <limits>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"
#include "compiler/compile.h"
#include "model/runtime_model.h"
#include "runtime/model.h"
#include "sim/functional/buffer.h"

namespace opentrn::decoder {
namespace {

using BufferPtr = std::shared_ptr<sim::Buffer>;

template <typename T>
BufferPtr buffer_of(const std::vector<T>& values) {
  return sim::Buffer::wrap_read_only(values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
}

struct Row {
  SamplingParams params;
  std::vector<float> logits;
  double point = 0;
};

Row random_row(SplitMix64& random, int64_t vocabulary, bool has_ties) {
  Row row;
  for (int64_t i = 0; i < vocabulary; ++i)
    row.logits.push_back(has_ties ? static_cast<float>(random.below(40)) / 4 - 5
                                  : static_cast<float>(12 * random.uniform() * random.uniform() - 3));
  row.params.temperature = random.below(5) == 0 ? 0 : 0.25 * (1 + random.below(6));
  row.params.top_k = random.below(2) == 0 ? 0 : static_cast<int32_t>(1 + random.below(30));
  row.params.top_p = random.below(2) == 0 ? 1 : 0.05 + 0.9 * random.uniform();
  row.params.min_p = random.below(2) == 0 ? 0 : 0.3 * random.uniform();
  row.point = random.uniform();
  return row;
}

// Whether the host's draw with the same point, or one that is 1e-5 away, gives the token.
bool is_of_host(const Row& row, int32_t token) {
  double before = 0;
  for (const auto& [candidate, probability] : candidates(row.params, row.logits, {}, {})) {
    if (candidate == token) return before - 1e-5 <= row.point && row.point <= before + probability + 1e-5;
    before += probability;
  }
  return false;
}

std::vector<int32_t> drawn_on_device(const std::vector<Row>& rows, int64_t vocabulary, Choice choice) {
  std::vector<float> logits, largest;
  std::vector<SamplingRow> sampling;
  for (const Row& row : rows) {
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
    sampling.push_back(sampling_row(row.params, row.point, vocabulary));
  }
  compiler::Options options;
  options.generation = opentrn::Generation::kV3;
  const graph::Module module = draw_of(static_cast<int64_t>(rows.size()), vocabulary, choice);
  const runtime::Model model = model::model_of(compiler::compile(module, options), options.generation);
  const auto outputs = runtime::execute(model, std::vector{buffer_of(logits), buffer_of(sampling)});
  std::vector<int32_t> tokens(rows.size());
  std::memcpy(tokens.data(), outputs[0]->data(), tokens.size() * sizeof(int32_t));
  for (size_t i = 0; i < rows.size(); ++i) {
    float found = 0;
    std::memcpy(&found, outputs[1]->data() + i * sizeof(float), sizeof found);
    EXPECT_EQ(found, *std::ranges::max_element(rows[i].logits));
  }
  return tokens;
}

TEST(Drawn, TokensAreThoseThatTheHostDraws) {
  SplitMix64 random(7);
  for (const auto& [count, vocabulary] : std::vector<std::pair<int, int64_t>>{
           {1, 60}, {1, 5000}, {3, 517}, {4, 512}, {8, 1003}, {70, 33}, {130, 40}})
    for (const bool truncated : {false, true})
      for (const bool has_ties : {false, true}) {
        std::vector<Row> rows;
        for (int i = 0; i < count; ++i) {
          rows.push_back(random_row(random, vocabulary, has_ties));
          if (truncated) continue;
          rows.back().params.top_k = 0;
          rows.back().params.top_p = 1;
        }
        const auto tokens =
            drawn_on_device(rows, vocabulary, truncated ? Choice::kDrawnTruncated : Choice::kDrawn);
        for (size_t i = 0; i < rows.size(); ++i)
          EXPECT_TRUE(is_of_host(rows[i], tokens[i]))
              << count << " x " << vocabulary << ", row " << i << ": token " << tokens[i] << ", temperature "
              << rows[i].params.temperature << ", top-k " << rows[i].params.top_k << ", top-p "
              << rows[i].params.top_p << ", min-p " << rows[i].params.min_p << ", point " << rows[i].point;
      }
}

// Logits of one size, of many sizes, and points at both ends.
TEST(Drawn, EndsOfTheRange) {
  for (const double point : {0.0, 0.5, 1 - 0x1p-53})
    for (const Choice choice : {Choice::kDrawn, Choice::kDrawnTruncated}) {
      Row flat{{}, std::vector<float>(300, 2.5F), point}, steep = flat, cold = flat, hot = flat;
      for (size_t i = 0; i < 300; ++i) steep.logits[i] = static_cast<float>(i) * 1e34F;
      cold.params.temperature = 1e-6;
      cold.logits[123] = 3;
      hot.params.temperature = 1e6;
      hot.logits[7] = -4000;
      const std::vector<Row> rows{flat, steep, cold, hot};
      const auto tokens = drawn_on_device(rows, 300, choice);
      for (size_t i = 0; i < rows.size(); ++i)
        EXPECT_TRUE(is_of_host(rows[i], tokens[i])) << i << " " << point;
    }
}

TEST(RowParts, AreEqualWhereHalfThePartitionsWorkThen) {
  const auto of = [](int64_t rows, int64_t columns) {
    const RowParts parts = parts_of(rows, columns);
    return std::pair(parts.count, parts.width);
  };
  EXPECT_EQ(of(1, 49152), std::pair(int64_t{128}, int64_t{384}));
  EXPECT_EQ(of(1, 96 * 500), std::pair(int64_t{128}, int64_t{375}));
  EXPECT_EQ(of(3, 128256), std::pair(int64_t{32}, int64_t{4008}));  // of 42
  EXPECT_EQ(of(1, 50257), std::pair(int64_t{128}, int64_t{393}));   // a prime number
  EXPECT_EQ(of(130, 40), std::pair(int64_t{1}, int64_t{40}));
  EXPECT_EQ(of(1, 3), std::pair(int64_t{3}, int64_t{1}));
}

TEST(Choice, IsTheLeastThatGivesTheToken) {
  EXPECT_EQ(choice_of({.temperature = 0}), Choice::kLikeliest);
  EXPECT_EQ(choice_of({.temperature = 0, .top_k = 3}), Choice::kLikeliest);
  EXPECT_EQ(choice_of({.min_p = 0.1}), Choice::kDrawn);
  EXPECT_EQ(choice_of({.top_k = 3}), Choice::kDrawnTruncated);
  EXPECT_EQ(choice_of({.top_p = 0.9}), Choice::kDrawnTruncated);
  for (const SamplingParams& params :
       {SamplingParams{.repetition_penalty = 1.1}, SamplingParams{.frequency_penalty = 0.1},
        SamplingParams{.presence_penalty = 0.1}, SamplingParams{.logprobs = 0},
        SamplingParams{.bias = {{1, 1.0F}}}})
    EXPECT_EQ(choice_of(params), Choice::kHost);
  for (const Choice choice : {Choice::kHost, Choice::kLikeliest, Choice::kDrawn, Choice::kDrawnTruncated})
    EXPECT_EQ(choice_of_text(text(choice)), choice);
  EXPECT_THROW(choice_of_text("greedy"), Fault);
}

TEST(Choice, OfSeveralSequencesTheLeastThatGivesAllATokenOrTheHost) {
  const auto of = [](std::vector<Choice> wanted, Choice most) { return choice_for_all(wanted, most); };
  EXPECT_EQ(of({Choice::kLikeliest, Choice::kDrawn}, Choice::kDrawnTruncated), Choice::kDrawn);
  EXPECT_EQ(of({Choice::kLikeliest, Choice::kDrawn}, Choice::kLikeliest), Choice::kHost);
  EXPECT_EQ(of({Choice::kDrawn, Choice::kHost}, Choice::kDrawnTruncated), Choice::kHost);
  EXPECT_EQ(of({}, Choice::kDrawnTruncated), Choice::kLikeliest);
  EXPECT_EQ(of({}, Choice::kHost), Choice::kHost);
}

TEST(Choice, ATokenHasAFiniteLogitAndLiesInTheVocabulary) {
  EXPECT_TRUE(is_token(9, 1.0F, 10));
  EXPECT_FALSE(is_token(10, 1.0F, 10));
  EXPECT_FALSE(is_token(1, std::numeric_limits<float>::infinity(), 10));
}

}  // namespace
}  // namespace opentrn::decoder
