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
}

}  // namespace

Generation::Generation(Engine& engine, std::vector<Request> requests) : engine_(engine) {
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
    Sampler sampler(request.sampling);
    State state{std::move(request), std::move(sampler), {}};
    for (int64_t i = 0; i < blocks; ++i) state.blocks.push_back(next++);
    states_.push_back(std::move(state));
  }
  active_ = states_.size();
}

NewToken Generation::sampled(size_t number, std::span<const float> logits) {
  State& state = states_[number];
  NewToken made{number, state.sampler.next(logits)};
  state.last = made.token;
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
  GenerationStep done{result.bucket, {}};
  const auto vocabulary = static_cast<size_t>(engine_.config().vocabulary);
  if (!state.in_prompt()) done.tokens.push_back(sampled(number, result.logits.first(vocabulary)));
  return done;
}

GenerationStep Generation::decode() {
  std::vector<SequenceStep> steps;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    if (state.finished) continue;
    const auto position = static_cast<int64_t>(state.request.prompt.size()) + state.given - 1;
    steps.push_back({{&state.last, 1}, static_cast<int32_t>(position), state.blocks});
    numbers.push_back(i);
  }
  const StepResult result = engine_.step(steps);
  GenerationStep done{result.bucket, {}};
  const auto vocabulary = static_cast<size_t>(engine_.config().vocabulary);
  for (size_t i = 0; i < numbers.size(); ++i)
    done.tokens.push_back(sampled(numbers[i], result.logits.subspan(i * vocabulary, vocabulary)));
  return done;
}

GenerationStep Generation::step() {
  OPENTRN_CHECK(!done(), "a step of a generation that is done");
  for (size_t i = 0; i < states_.size(); ++i)
    if (!states_[i].finished && states_[i].in_prompt()) return read_prompt(i);
  return decode();
}

}  // namespace opentrn::decoder
