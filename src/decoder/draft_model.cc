#include "decoder/draft_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/fault.h"

namespace opentrn::decoder {

DraftState::DraftState(std::shared_ptr<FreeBlocks> free, size_t count) : free_(std::move(free)) {
  OPENTRN_CHECK(free_->size() >= count, "{} blocks of {}", count, free_->size());
  blocks_.assign(free_->end() - static_cast<int64_t>(count), free_->end());
  free_->resize(free_->size() - count);
}

DraftState::~DraftState() { free_->insert(free_->end(), blocks_.begin(), blocks_.end()); }

DraftModel::DraftModel(Engine& engine, int64_t guesses)
    : engine_(engine),
      guesses_(guesses),
      free_(std::make_shared<DraftState::FreeBlocks>(engine.options().pool.blocks - 1)) {
  std::iota(free_->rbegin(), free_->rend(), 1);  // the first ones are taken first
  const EngineOptions& sizes = engine.options();
  const auto program = [&](int64_t sequences, int64_t tokens, int64_t context) {
    programs_.push_back(engine.bucket_of(sequences, tokens, context, false, Choice::kLikeliest));
  };
  for (const int64_t context : sizes.context_buckets)
    for (const int64_t sequences : sizes.sequence_buckets) {
      program(sequences, 1, context);
      program(sequences, 1 + guesses, context);
    }
  for (const int64_t tokens : sizes.token_buckets) program(1, tokens, tokens);
}

// Tokens of the text that it reads: an EAGLE head takes the first one's features alone.
std::span<const int32_t> DraftModel::readable(const Asked& asked) const {
  return std::span(asked.text).subspan(engine_.config().eagle && !asked.text.empty() ? 1 : 0);
}

// `tokens`: behind those that it has read.
SequenceStep DraftModel::step_of(const Asked& asked, std::span<const int32_t> tokens) const {
  const DraftState& state = **asked.state;
  SequenceStep step{tokens, static_cast<int32_t>(state.read.size()), state.blocks()};
  if (!engine_.config().eagle) return step;
  const auto bytes = static_cast<size_t>(engine_.feature_bytes());
  const size_t known = readable(asked).size(), first = state.read.size();
  step.features = first < known ? asked.features.subspan(first * bytes, tokens.size() * bytes)
                                : std::span(asked.own).last(bytes);
  return step;
}

// Whether there are guesses of it. Forgets what it has read and the text has not.
bool DraftModel::begin(Asked& asked) {
  const std::span<const int32_t> text = readable(asked);
  const auto length = static_cast<int64_t>(text.size());
  const int64_t longest = engine_.options().context_buckets.back();
  // The last guess is not read.
  asked.most = std::min({asked.most, guesses_, longest - length + 1});
  const auto is_known = [&](int32_t token) { return token < engine_.config().vocabulary; };
  if (length < 1 || asked.most < 1 || !std::ranges::all_of(asked.text, is_known)) return false;
  if (!*asked.state) {
    const int64_t block = engine_.options().pool.block_tokens;
    const auto count = static_cast<size_t>((longest + block - 1) / block);
    if (free_->size() < count) return false;
    *asked.state = std::make_unique<DraftState>(free_, count);
  }
  std::vector<int32_t>& read = (*asked.state)->read;
  const auto same = std::ranges::mismatch(read, text).in1 - read.begin();
  read.resize(static_cast<size_t>(std::min(same, length - 1)));  // what follows the last token is asked for
  return true;
}

// The prompt, and tokens that came while it was not asked: as many in one step as its programs take.
void DraftModel::read_alone(Asked& asked, std::vector<Bucket>& ran) {
  std::vector<int32_t>& read = (*asked.state)->read;
  const int64_t largest = engine_.options().token_buckets.back();
  const std::span<const int32_t> text = readable(asked);
  while (static_cast<int64_t>(text.size() - read.size()) > 1 + guesses_) {
    const size_t left = text.size() - read.size() - 1;  // the last token is read with those of others
    const size_t count = std::min(left, static_cast<size_t>(largest));
    const std::span<const int32_t> tokens = text.subspan(read.size(), count);
    const SequenceStep step = step_of(asked, tokens);
    ran.push_back(engine_.step({&step, 1}, {.choice = Choice::kLikeliest}).bucket);
    read.insert(read.end(), tokens.begin(), tokens.end());
  }
}

// A guess of each, behind what it has not read of the text and of its own guesses.
void DraftModel::read_together(std::span<Asked* const> asked, std::vector<Bucket>& ran) {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<SequenceStep> steps;
  for (const Asked* each : asked) {
    const std::vector<int32_t>& read = (*each->state)->read;
    const std::span<const int32_t> text = readable(*each);
    std::vector<int32_t> all(text.begin(), text.end());
    all.insert(all.end(), each->guesses.begin(), each->guesses.end());
    tokens.emplace_back(all.begin() + static_cast<int64_t>(read.size()), all.end());
  }
  for (size_t i = 0; i < asked.size(); ++i) steps.push_back(step_of(*asked[i], tokens[i]));
  const StepResult result = engine_.step(steps, {.choice = Choice::kLikeliest});
  for (size_t i = 0; i < asked.size(); ++i) {
    std::vector<int32_t>& read = (*asked[i]->state)->read;
    read.insert(read.end(), tokens[i].begin(), tokens[i].end());
    if (engine_.config().eagle) {
      const auto bytes = static_cast<size_t>(engine_.feature_bytes());
      const auto own = result.features.subspan(i * bytes, bytes);
      asked[i]->own.insert(asked[i]->own.end(), own.begin(), own.end());
    }
    if (std::isfinite(result.largest_logits[i]))
      asked[i]->guesses.push_back(result.tokens[i]);
    else
      asked[i]->most = 0;  // its values overflowed: what it would say means nothing
  }
  ran.push_back(result.bucket);
}

std::vector<Bucket> DraftModel::guess(std::span<Asked> asked) {
  std::vector<Asked*> left;
  std::vector<Bucket> ran;
  for (Asked& each : asked) {
    if (!begin(each)) continue;
    read_alone(each, ran);
    left.push_back(&each);
  }
  while (!left.empty()) {
    read_together(left, ran);
    std::erase_if(left,
                  [](const Asked* each) { return static_cast<int64_t>(each->guesses.size()) >= each->most; });
  }
  if (engine_.config().eagle)
    for (const Asked& each : asked)
      if (each.state->get()) {
        std::vector<int32_t>& read = (*each.state)->read;
        read.resize(std::min(read.size(), readable(each).size()));
      }
  return ran;
}

}  // namespace opentrn::decoder
