#include "server/next_token.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "server/foreign_steps.h"

namespace opentrn::server {
namespace {

Job job_of(JobParams params) {
  params.prompt = {1, 2, 3};
  return Job(std::move(params));
}

std::vector<int32_t> forbidden(const Job& job) {
  std::vector<int32_t> tokens;
  for (const auto& [token, bias] : sampling_of(job).bias)
    if (std::isinf(bias)) tokens.push_back(token);
  return tokens;
}

TEST(NextToken, StopTokensWaitForTheLeastTokens) {
  Job job = job_of({.min_tokens = 2, .stop_tokens = {7, 9}});
  EXPECT_EQ(forbidden(job), (std::vector<int32_t>{7, 9}));
  job.output = {5, 5};
  job.output_tokens = 2;
  EXPECT_TRUE(forbidden(job).empty());
}

TEST(NextToken, ABadWordIsNeverWhole) {
  Job job = job_of({.bad_words = {{5, 6, 7}, {8}, {3, 4}}});
  EXPECT_EQ(forbidden(job), (std::vector<int32_t>{8}));  // 3 stands in the prompt alone
  job.output = {5, 6};
  EXPECT_EQ(forbidden(job), (std::vector<int32_t>{7, 8}));
  job.output = {5, 6, 3};
  EXPECT_EQ(forbidden(job), (std::vector<int32_t>{8, 4}));
}

TEST(NextToken, TheHostChoosesByGrammarsMasksAndBias) {
  decoder::SamplingParams greedy{.temperature = 0};
  EXPECT_EQ(choice_of(job_of({.sampling = greedy})), decoder::Choice::kLikeliest);
  EXPECT_EQ(choice_of(job_of({.sampling = greedy, .has_grammar = true})), decoder::Choice::kHost);
  EXPECT_EQ(choice_of(job_of({.sampling = greedy, .allowed = {1}})), decoder::Choice::kHost);
  EXPECT_EQ(choice_of(job_of({.sampling = greedy, .mask = {1}})), decoder::Choice::kHost);
  EXPECT_EQ(choice_of(job_of({.sampling = greedy, .bad_words = {{4}}})), decoder::Choice::kHost);
  EXPECT_EQ(choice_of(job_of({.sampling = greedy, .bad_words = {{4, 5}}})), decoder::Choice::kLikeliest);
}

TEST(NextToken, WhatTheGrammarAndTheListAllowIsLeft) {
  EXPECT_TRUE(next_mask(job_of({})).empty());
  EXPECT_EQ(next_mask(job_of({.allowed = {6, 1}})), (std::vector<uint32_t>{6, 1}));
  EXPECT_EQ(next_mask(job_of({.mask = {3, 1}})), (std::vector<uint32_t>{3, 1}));
  EXPECT_EQ(next_mask(job_of({.allowed = {6, 1}, .mask = {3, 0, 0}})), (std::vector<uint32_t>{2, 0}));
}

// Requests of one salt share what they begin with, whoever guesses prompts of another finds nothing.
TEST(Job, SaltsAndAdaptersNameBlocks) {
  EXPECT_EQ(job_of({}).variant, serving::BlockHash{});
  EXPECT_EQ(job_of({.cache_salt = "a"}).variant, job_of({.cache_salt = "a"}).variant);
  const std::vector<serving::BlockHash> names = {
      job_of({}).variant,
      job_of({.adapter = 1}).variant,
      job_of({.cache_salt = "a"}).variant,
      job_of({.cache_salt = "b"}).variant,
      job_of({.cache_salt = "ab"}).variant,
      job_of({.cache_salt = std::string("a\0", 2)}).variant,
      job_of({.adapter = 1, .cache_salt = "a"}).variant,
  };
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(names[i], names[j]) << i << " and " << j;
}

TEST(NextToken, AMaskHasABitForEachAllowedToken) {
  EXPECT_TRUE(mask_of({}, 40).empty());
  const std::vector<int32_t> tokens = {0, 31, 33};
  EXPECT_EQ(mask_of(tokens, 40), (std::vector<uint32_t>{0x80000001, 2}));
  const std::vector<int32_t> none = {40};
  EXPECT_THROW(mask_of(none, 40), Fault);
}

TEST(NextToken, AnEntryHasTokensOfThePromptTheOutputAndGuesses) {
  Job job = job_of({});
  job.output = {4};
  job.drafts = {5, 6};
  EXPECT_EQ(tokens_of({&job, 5, 1, true, true, 2}), (std::vector<int32_t>{2, 3, 4, 5, 6}));
}

TEST(ForeignSteps, ParametersOfVllm) {
  decoder::SamplingParams stated{.temperature = 1e-6, .top_k = -1, .logprobs = 5};
  decoder::SamplingParams taken = sampling_of_vllm(stated, std::nullopt, 40);
  EXPECT_EQ(taken.temperature, 0);
  EXPECT_EQ(taken.top_k, 0);
  EXPECT_EQ(taken.logprobs, -1);
  stated.temperature = 1e-5;
  taken = sampling_of_vllm(stated, -1, 40);
  EXPECT_EQ(taken.temperature, 1e-5);
  EXPECT_EQ(taken.logprobs, 40);
  EXPECT_EQ(sampling_of_vllm(stated, 0, 40).logprobs, 0);
}

}  // namespace
}  // namespace opentrn::server
