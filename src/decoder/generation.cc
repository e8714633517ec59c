#include "decoder/generation.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::decoder {

namespace {

void check(const Request& request, const Engine& engine) {
  const auto refuse = [](std::string message, std::string hint = {}) {
    throw Fault(FaultKind::kInput, "decoder.request", std::move(message), std::move(hint));
  };
  if (request.prompt.empty()) refuse("the prompt has no tokens");
  if (request.tokens_max < 1) refuse(fmt::format("{} new tokens were asked for", request.tokens_max));
  const auto longest = engine.options().context_buckets.back();
  const auto needed = static_cast<int64_t>(request.prompt.size()) + request.tokens_max;
  if (needed > longest)
    refuse(fmt::format("a prompt of {} tokens and {} new ones are {} positions; there are {}",
                       request.prompt.size(), request.tokens_max, needed, longest),
           "ask for fewer tokens, or for a longer context");
  check(request.sampling);
}

void check(const Speculation& speculation, const Engine& engine) {
  if (speculation.tokens == 0) return;
  const auto refuse = [](std::string message, std::string hint = {}) {
    throw Fault(FaultKind::kInput, "decoder.request", std::move(message), std::move(hint));
  };
  const int64_t most = engine.options().token_buckets.back() - 1;
  if (speculation.tokens < 0 || speculation.tokens > most)
    refuse(fmt::format("{} tokens are guessed in a step; 1 to {} can be", speculation.tokens, most));
  if (speculation.shortest < 1 || speculation.longest < speculation.shortest)
    refuse(fmt::format("{} to {} tokens are looked for", speculation.shortest, speculation.longest));
}

}  // namespace

std::vector<int32_t> guesses(std::span<const int32_t> text, const Speculation& speculation, int64_t most) {
  const auto size = static_cast<int64_t>(text.size());
  most = std::min(most, speculation.tokens);
  for (int64_t length = std::min(speculation.longest, size - 1); length >= speculation.shortest; --length) {
    const auto newest = text.last(static_cast<size_t>(length));
    for (int64_t at = size - length - 1; at >= 0; --at) {
      if (!std::ranges::equal(text.subspan(static_cast<size_t>(at), newest.size()), newest)) continue;
      const auto behind = text.subspan(static_cast<size_t>(at + length));
      const auto count =
          static_cast<size_t>(std::clamp<int64_t>(most, 0, static_cast<int64_t>(behind.size())));
      return {behind.begin(), behind.begin() + static_cast<std::ptrdiff_t>(count)};
    }
  }
  return {};
}

Generation::Generation(Engine& engine, std::vector<Request> requests, Speculation speculation, Engine* draft)
    : engine_(engine), speculation_(speculation) {
  check(speculation, engine);
  if (draft) draft_.emplace(*draft, speculation.tokens);
  const Pool& pool = engine.options().pool;
  int32_t next = 1;
  for (Request& request : requests) {
    check(request, engine);
    const auto positions = static_cast<int64_t>(request.prompt.size()) + request.tokens_max;
    const int64_t blocks = (positions + pool.block_tokens - 1) / pool.block_tokens;
    if (next + blocks > pool.blocks)
      throw Fault(FaultKind::kCapacity, "decoder.pool",
                  fmt::format("{} requests need more than the pool's {} blocks of {} positions",
                              requests.size(), pool.blocks - 1, pool.block_tokens),
                  "ask for fewer tokens, or answer fewer prompts at once");
    const SplitMix64 random(request.seed);
    State state{std::move(request), random, {}};
    state.text = state.request.prompt;
    for (int64_t i = 0; i < blocks; ++i) state.blocks.push_back(next++);
    states_.push_back(std::move(state));
  }
  active_ = states_.size();
}

NewToken Generation::sampled(size_t number, std::span<const float> logits) {
  State& state = states_[number];
  const std::span<const int32_t> text(state.text);
  const size_t prompt = state.request.prompt.size();
  const SampledToken chosen =
      sample(state.request.sampling, logits, text.first(prompt), text.subspan(prompt), {}, state.random);
  NewToken made{number, chosen.token};
  state.text.push_back(made.token);
  ++state.given;
  if (std::ranges::find(state.request.stop_tokens, made.token) != state.request.stop_tokens.end())
    made.finish = Finish::kStop;
  else if (state.given == state.request.tokens_max)
    made.finish = Finish::kLength;
  if (made.finish != Finish::kNot) {
    state.finished = true;
    --active_;
  }
  return made;
}

GenerationStep Generation::read_prompt(size_t number) {
  State& state = states_[number];
  const auto most = static_cast<size_t>(engine_.options().token_buckets.back());
  const size_t count = std::min(most, state.request.prompt.size() - state.read);
  const SequenceStep step{std::span(state.request.prompt).subspan(state.read, count),
                          static_cast<int32_t>(state.read), state.blocks};
  const StepResult result = engine_.step({&step, 1});
  state.read += count;
  keep_features(state, result, 0, count);
  GenerationStep done{result.bucket, {}};
  const auto vocabulary = static_cast<size_t>(engine_.config().vocabulary);
  if (!state.in_prompt()) done.tokens.push_back(sampled(number, result.logits.first(vocabulary)));
  return done;
}

// New tokens that are still wanted.
int64_t Generation::room(const State& state) const { return state.request.tokens_max - state.given; }

// The last token that is wanted comes from the logits behind the last guess.
std::vector<int32_t> Generation::guesses_of(const State& state) const {
  if (draft_ || speculation_.tokens == 0) return state.proposed;
  return guesses(state.text, speculation_, room(state) - 1);
}

// Of tokens whose rows of the step begin at `first`.
void Generation::keep_features(State& state, const StepResult& result, size_t first, size_t count) const {
  if (!engine_.config().features) return;
  const auto bytes = static_cast<size_t>(engine_.feature_bytes());
  const auto rows = result.features.subspan(first * bytes, count * bytes);
  state.features.insert(state.features.end(), rows.begin(), rows.end());
}

// What follows the newest token of each answer, where that is not known yet.
std::vector<Bucket> Generation::propose() {
  std::vector<DraftModel::Asked> asked;
  std::vector<State*> states;
  for (State& state : states_) {
    if (state.finished || state.in_prompt() || !state.proposed.empty()) continue;
    asked.push_back({state.text, room(state) - 1, &state.draft, state.features});
    states.push_back(&state);
  }
  std::vector<Bucket> ran = draft_->guess(asked);
  for (size_t i = 0; i < states.size(); ++i) {
    std::vector<int32_t>& made = asked[i].guesses;  // of a model whose table of words may be longer
    const auto is_unknown = [&](int32_t token) { return token >= engine_.config().vocabulary; };
    made.erase(std::ranges::find_if(made, is_unknown), made.end());
    states[i]->proposed = std::move(made);
  }
  return ran;
}

GenerationStep Generation::decode() {
  std::vector<size_t> numbers;
  std::vector<std::vector<int32_t>> tokens;
  for (size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    if (state.finished) continue;
    numbers.push_back(i);
    tokens.push_back({state.text.back()});
    const std::vector<int32_t> more = guesses_of(state);
    tokens.back().insert(tokens.back().end(), more.begin(), more.end());
  }
  return decode(numbers, tokens);
}

GenerationStep Generation::decode(const std::vector<size_t>& numbers,
                                  const std::vector<std::vector<int32_t>>& tokens) {
  std::vector<SequenceStep> steps;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const State& state = states_[numbers[i]];
    steps.push_back({tokens[i], static_cast<int32_t>(state.text.size() - 1), state.blocks});
  }
  const bool guesses_some = std::ranges::any_of(tokens, [](const auto& row) { return row.size() > 1; });
  const StepResult result = engine_.step(steps, {.every_token = guesses_some});
  GenerationStep done{result.bucket, {}};
  const auto vocabulary = static_cast<size_t>(engine_.config().vocabulary);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t first = i * static_cast<size_t>(result.rows_per_sequence);
    states_[numbers[i]].proposed.clear();
    guessed_ += static_cast<int64_t>(tokens[i].size()) - 1;
    for (size_t j = 0; j < tokens[i].size(); ++j) {
      const NewToken made = sampled(numbers[i], result.logits.subspan((first + j) * vocabulary, vocabulary));
      done.tokens.push_back(made);
      keep_features(states_[numbers[i]], result, i * static_cast<size_t>(result.bucket.tokens) + j, 1);
      const bool is_right = j + 1 < tokens[i].size() && made.token == tokens[i][j + 1];
      right_ += is_right;
      if (made.finish != Finish::kNot || !is_right) break;
    }
  }
  return done;
}

GenerationStep Generation::step() {
  OPENTRN_CHECK(!done(), "a step of a generation that is done");
  const auto in_prompt =
      std::ranges::find_if(states_, [](const State& state) { return !state.finished && state.in_prompt(); });
  GenerationStep done =
      in_prompt == states_.end() ? decode() : read_prompt(static_cast<size_t>(in_prompt - states_.begin()));
  if (draft_) done.drafted = propose();
  return done;
}

}  // namespace opentrn::decoder
