#include "serving/engine.h"

#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"

namespace opentrn::serving {
namespace {

constexpr int32_t kVocabulary = 50;

// The next token is a function of all tokens before it.
int32_t next_token(const std::vector<int32_t>& tokens) {
  BlockHash hash;
  for (const int32_t token : tokens) hash = chained(hash, static_cast<uint64_t>(token));
  return static_cast<int32_t>(hash.low % kVocabulary);
}

// A model whose keys and values are the tokens themselves, written into the blocks of the pool and read from
// there alone: it answers wrongly as soon as two requests share a block that they should not, a block is
// given away too early, or a prefix hit names the wrong contents.
class BlockModel final : public Executor {
 public:
  BlockModel(int32_t blocks, int32_t block_size)
      : block_size_(static_cast<size_t>(block_size)), slots_(static_cast<size_t>(blocks) * block_size_, -1) {}

  Outcome run(const Step& step) override {
    Outcome out{kPsPerMs, 0, {}};
    for (const StepEntry& entry : step.entries) {
      const Request& request = *entry.request;
      const auto end = static_cast<size_t>(entry.computed_before + entry.tokens);
      auto& told = told_[request.id];
      for (auto i = static_cast<size_t>(entry.computed_before); i < end; ++i) {
        const size_t prompt = request.content.tokens.size();
        slot(request, i) = i < prompt                 ? request.content.tokens[i]
                           : i - prompt < told.size() ? told[i - prompt]
                                                      : request.drafts.at(i - prompt - told.size());
      }
      if (entry.samples) answer(entry, end - static_cast<size_t>(entry.drafts), out);
    }
    return out;
  }

 private:
  // Behind `known` tokens, and behind each right guess.
  void answer(const StepEntry& entry, size_t known, Outcome& out) {
    const Request& request = *entry.request;
    auto& told = told_[request.id];
    std::vector<int32_t> read;
    for (size_t i = 0; i < known; ++i) read.push_back(slot(request, i));
    for (size_t guess = 0;; ++guess) {
      const int32_t token = next_token(read);
      if (told.size() == read.size() - request.content.tokens.size()) told.push_back(token);
      const bool more =
          token != 0 && guess < static_cast<size_t>(entry.drafts) && token == request.drafts[guess];
      out.sampled.push_back({token, token == 0, more});
      if (!more) return;
      read.push_back(slot(request, read.size()));
    }
  }
  int32_t& slot(const Request& request, size_t i) {
    return slots_[static_cast<size_t>(request.blocks.at(i / block_size_)) * block_size_ + i % block_size_];
  }

  size_t block_size_;
  std::vector<int32_t> slots_;
  std::map<int64_t, std::vector<int32_t>> told_;
};

std::vector<int32_t> expected_answer(const Request& request, int32_t max_model_len) {
  std::vector<int32_t> tokens = request.content.tokens, out;
  while (out.size() < static_cast<size_t>(request.max_tokens) &&
         tokens.size() < static_cast<size_t>(max_model_len)) {
    out.push_back(next_token(tokens));
    tokens.push_back(out.back());
    if (out.back() == 0) break;
  }
  return out;
}

std::vector<std::unique_ptr<Request>> random_requests(SplitMix64& random, int32_t max_model_len) {
  std::vector<std::unique_ptr<Request>> out;
  std::vector<int32_t> stem;
  for (int i = 0; i < 30; ++i) {
    auto& request = out.emplace_back(std::make_unique<Request>());
    request->id = i;
    auto& tokens = request->content.tokens;
    if (random.below(2) == 0)
      tokens.assign(stem.begin(), stem.begin() + random.below(static_cast<uint32_t>(stem.size()) + 1));
    while (tokens.empty() || random.below(12) > 0)
      tokens.push_back(static_cast<int32_t>(random.below(kVocabulary)));
    tokens.resize(std::min(tokens.size(), static_cast<size_t>(max_model_len) - 1));
    stem = tokens;
    request->prompt_tokens = static_cast<int32_t>(tokens.size());
    request->max_tokens = 1 + static_cast<int32_t>(random.below(40));
    request->priority = static_cast<int64_t>(random.below(3));
    request->adapter = static_cast<int32_t>(random.below(4));
    request->variant = chained(BlockHash{}, static_cast<uint64_t>(request->adapter));
  }
  return out;
}

// Right guesses of what follows, and wrong ones behind them, so many that the answer does not pass its end.
void guess(Request& request, int32_t max_model_len, SplitMix64& random) {
  if (request.status != Status::kRunning || request.output.empty()) return;
  if (request.computed_tokens < request.prompt_tokens) return;
  const std::vector<int32_t> answer = expected_answer(request, max_model_len);
  const int32_t room = std::min(request.max_tokens - request.output_tokens, max_model_len - request.tokens());
  const size_t right = random.below(4);
  request.drafts.clear();
  for (int32_t i = 0; i + 1 < room && i < 5; ++i) {
    const size_t at = request.output.size() + static_cast<size_t>(i);
    const int32_t next = at < answer.size() ? answer[at] : 1;
    request.drafts.push_back(static_cast<size_t>(i) < right ? next : (next + 1) % kVocabulary);
  }
}

// Whatever the policy, the pool, the neighbours, preemptions, prefix hits and guesses: every request gets the
// answer that it would get alone, no block is lost, and the books are right after every step.
TEST(Engine, AnswersDoNotDependOnScheduling) {
  int64_t preemptions = 0, hits = 0, steps_saved = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SplitMix64 random(seed);
    SchedulerConfig config;
    config.policy = static_cast<Policy>(seed % 3);
    config.max_model_len = 64;
    config.max_num_seqs = 1 + static_cast<int32_t>(random.below(8));
    config.max_num_batched_tokens =
        config.policy == Policy::kNeuronNxdi ? 64 : 8 + static_cast<int32_t>(random.below(64));
    config.block_size = 1 << random.below(4);
    const int32_t each = config.blocks_of(config.max_model_len);
    // A block more than the requests that AWS's rule counts: the null block.
    config.num_blocks =
        1 + each * (config.policy == Policy::kNeuronNxdi ? config.max_num_seqs
                                                         : 1 + static_cast<int32_t>(random.below(3)));
    config.prefix_caching = random.below(4) > 0;
    config.async_scheduling = config.policy == Policy::kVllm && random.below(2) == 0;
    if (config.policy == Policy::kVllm && random.below(2) == 0) config.order = Order::kPriority;
    config.max_loras = static_cast<int32_t>(random.below(3));
    if (config.policy == Policy::kNeuron && each == 1) continue;  // the rule counts the null block as one
    const bool guesses = !config.async_scheduling && random.below(2) == 0;
    config = completed(config);
    auto requests = random_requests(random, config.max_model_len);
    VirtualClock clock;
    BlockModel model(config.num_blocks, config.block_size);
    Engine engine(config, clock, model, [&](const Step& step, const StepRecord&) {
      std::set<int32_t> adapters;
      for (const StepEntry& entry : step.entries) {
        steps_saved -= entry.samples;
        if (entry.request->adapter != 0) adapters.insert(entry.request->adapter);
      }
      // Asynchronously a request that runs may be left out of a step, and its adapter comes back later.
      if (config.max_loras > 0 && !config.async_scheduling) {
        EXPECT_LE(std::ssize(adapters), config.max_loras) << "seed " << seed;
      }
    });
    size_t next = 0;
    while (next < requests.size() || engine.busy()) {
      for (const auto& request : requests)
        if (guesses) guess(*request, config.max_model_len, random);
      for (int i = 0; i < 3 && next < requests.size(); ++i) engine.add(*requests[next++]);
      ASSERT_TRUE(engine.advance()) << "seed " << seed;
      ASSERT_EQ(engine.scheduler().audit(), "") << "seed " << seed;
    }
    for (const auto& request : requests)
      ASSERT_EQ(request->output, expected_answer(*request, config.max_model_len))
          << "seed " << seed << " request " << request->id;
    for (const auto& request : requests) steps_saved += request->output_tokens;
    EXPECT_EQ(engine.scheduler().pool().free_blocks(), config.num_blocks - 1);
    preemptions += engine.scheduler().preemptions();
    hits += engine.scheduler().prefix_hits();
  }
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(hits, 1000);
  EXPECT_GT(steps_saved, 1000);
}

TEST(Engine, AStepWithGuessesHasAProgramOfItsOwn) {
  SchedulerConfig config;
  config.max_model_len = 64;
  config.block_size = 4;
  config.num_batched_tokens_buckets = {4, 64};
  config.decode_context_length_buckets = {32, 64};
  config = completed(config);
  auto scheduler = Scheduler::make(config);
  Request request;
  request.content.tokens = {1, 2, 3};
  request.prompt_tokens = 3;
  request.max_tokens = 20;
  scheduler->add(request);
  const auto take = [&](std::vector<Sampled> sampled) {
    const Step step = scheduler->schedule();
    EXPECT_TRUE(scheduler->update(step, sampled).empty());
    EXPECT_EQ(scheduler->audit(), "");
    return step;
  };
  EXPECT_EQ(take({{10}}).program(), "prefill_s4");
  request.drafts = {11, 12, 13};
  const Step verified = take({{11, false, true}, {14}});  // one of the three was right
  EXPECT_EQ(verified.program(), "verify_b1_t4_c32");
  EXPECT_EQ(verified.padded_tokens(), 4);
  EXPECT_EQ(request.output, (std::vector<int32_t>{10, 11, 14}));
  EXPECT_EQ(request.computed_tokens, request.tokens() - 1);
  EXPECT_EQ(take({{15}}).program(), "decode_b1_c32");
}

TEST(Engine, ARecordedRunComesAgainBitForBit) {
  const auto run = [](Executor& executor, std::vector<std::unique_ptr<Request>>& requests) {
    SplitMix64 random(5);
    SchedulerConfig config;
    config.policy = Policy::kVllm;
    config.max_model_len = 64;
    config.block_size = 4;
    config.num_blocks = 40;
    requests = random_requests(random, 64);
    VirtualClock clock;
    Engine engine(completed(config), clock, executor);
    for (auto& request : requests) engine.add(*request);
    while (engine.busy()) engine.advance();
  };
  std::vector<std::unique_ptr<Request>> first, second;
  BlockModel model(40, 4);
  RecordingExecutor recording(model);
  run(recording, first);
  ReplayExecutor replaying(recording.outcomes());
  run(replaying, second);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i]->output, second[i]->output);
    EXPECT_EQ(first[i]->last_token, second[i]->last_token);
  }
  ReplayExecutor none({});
  EXPECT_THROW(run(none, second), Fault);
}

TEST(Engine, AbortedRequestsLeaveNothing) {
  SchedulerConfig config;
  config.policy = Policy::kVllm;
  config.max_model_len = 64;
  config.block_size = 4;
  config.async_scheduling = true;
  config = completed(config);
  SplitMix64 random(1);
  auto requests = random_requests(random, 64);
  VirtualClock clock;
  BlockModel model(config.num_blocks, 4);
  Engine engine(config, clock, model);
  for (auto& request : requests) engine.add(*request);
  for (size_t i = 0; engine.busy(); ++i) {
    engine.advance();
    if (i < requests.size()) engine.abort(*requests[i]);
    ASSERT_EQ(engine.scheduler().audit(), "");
  }
  EXPECT_EQ(engine.scheduler().pool().free_blocks(), config.num_blocks - 1);
}

TEST(Engine, APacedClockTakesTheStatedTime) {
  class Fixed final : public Executor {
    Outcome run(const Step& step) override {
      return {20 * kPsPerMs, 0, std::vector<Sampled>(step.entries.size())};
    }
  } executor;
  WallClock clock(true);
  Engine engine(completed({}), clock, executor);
  Request request;
  request.prompt_tokens = 10;
  request.max_tokens = 3;
  engine.add(request);
  while (engine.busy()) engine.advance();
  EXPECT_GE(clock.now(), 60 * kPsPerMs);
  EXPECT_GE(request.last_token - request.first_token, 40 * kPsPerMs);
}

TEST(Engine, RefusesWhatCanNeverRun) {
  VirtualClock clock;
  BlockModel model(100, 32);
  SchedulerConfig config;
  config.max_model_len = 100;
  Engine engine(completed(config), clock, model);
  Request request;
  request.prompt_tokens = 100;
  EXPECT_THROW(engine.add(request), Fault);
  config.num_blocks = 4;
  EXPECT_THROW(completed(config), Fault);
}

}  // namespace
}  // namespace opentrn::serving
