#include "server/draft_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/fault.h"

namespace opentrn::server {

using serving::Ps;

DraftState::DraftState(std::shared_ptr<FreeBlocks> free, size_t count) : free_(std::move(free)) {
  OPENTRN_CHECK(free_->size() >= count, "{} blocks of {}", count, free_->size());
  blocks_.assign(free_->end() - static_cast<int64_t>(count), free_->end());
  free_->resize(free_->size() - count);
}

DraftState::~DraftState() { free_->insert(free_->end(), blocks_.begin(), blocks_.end()); }

DraftModel::DraftModel(decoder::Engine& engine, int64_t guesses)
    : engine_(engine),
      guesses_(guesses),
      times_(engine),
      free_(std::make_shared<DraftState::FreeBlocks>(engine.options().pool.blocks - 1)) {
  std::iota(free_->rbegin(), free_->rend(), 1);  // the first ones are taken first
  const decoder::EngineOptions& sizes = engine.options();
  const auto program = [&](int64_t sequences, int64_t tokens, int64_t context) {
    programs_.push_back(engine.bucket_of(sequences, tokens, context, false, /*chooses=*/true));
  };
  for (const int64_t context : sizes.context_buckets)
    for (const int64_t sequences : sizes.sequence_buckets) {
      program(sequences, 1, context);
      program(sequences, 1 + guesses, context);
    }
  for (const int64_t tokens : sizes.token_buckets) program(1, tokens, tokens);
}

// Whether there are guesses of it. Forgets what it has read and the text has not.
bool DraftModel::begin(Asked& asked) {
  const auto length = static_cast<int64_t>(asked.text.size());
  const int64_t longest = engine_.options().context_buckets.back();
  // The last guess is not read.
  asked.most = std::min({asked.most, guesses_, longest - length + 1});
  const auto is_known = [&](int32_t token) { return token < engine_.config().vocabulary; };
  if (asked.most < 1 || !std::ranges::all_of(asked.text, is_known)) return false;
  if (!*asked.state) {
    const int64_t block = engine_.options().pool.block_tokens;
    const auto count = static_cast<size_t>((longest + block - 1) / block);
    if (free_->size() < count) return false;
    *asked.state = std::make_unique<DraftState>(free_, count);
  }
  std::vector<int32_t>& read = (*asked.state)->read;
  const auto same = std::ranges::mismatch(read, asked.text).in1 - read.begin();
  read.resize(static_cast<size_t>(std::min(same, length - 1)));  // what follows the last token is asked for
  return true;
}

// The prompt, and tokens that came while it was not asked: as many in one step as its programs take.
Ps DraftModel::read_alone(Asked& asked) {
  std::vector<int32_t>& read = (*asked.state)->read;
  const int64_t largest = engine_.options().token_buckets.back();
  Ps time = 0;
  while (static_cast<int64_t>(asked.text.size() - read.size()) > 1 + guesses_) {
    const size_t left = asked.text.size() - read.size() - 1;  // the last token is read with those of others
    const size_t count = std::min(left, static_cast<size_t>(largest));
    const std::span<const int32_t> tokens(asked.text.data() + read.size(), count);
    const decoder::SequenceStep step{tokens, static_cast<int32_t>(read.size()), (*asked.state)->blocks()};
    time += times_.of(engine_.step({&step, 1}, {.chooses = true}).bucket);
    read.insert(read.end(), tokens.begin(), tokens.end());
  }
  return time;
}

// A guess of each, behind what it has not read of the text and of its own guesses.
Ps DraftModel::read_together(std::span<Asked* const> asked) {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<decoder::SequenceStep> steps;
  for (const Asked* each : asked) {
    const std::vector<int32_t>& read = (*each->state)->read;
    std::vector<int32_t> all = each->text;
    all.insert(all.end(), each->guesses.begin(), each->guesses.end());
    tokens.emplace_back(all.begin() + static_cast<int64_t>(read.size()), all.end());
  }
  for (size_t i = 0; i < asked.size(); ++i)
    steps.push_back(
        {tokens[i], static_cast<int32_t>((*asked[i]->state)->read.size()), (*asked[i]->state)->blocks()});
  const decoder::StepResult result = engine_.step(steps, {.chooses = true});
  for (size_t i = 0; i < asked.size(); ++i) {
    std::vector<int32_t>& read = (*asked[i]->state)->read;
    read.insert(read.end(), tokens[i].begin(), tokens[i].end());
    if (std::isfinite(result.logits_of_tokens[i]))
      asked[i]->guesses.push_back(result.tokens[i]);
    else
      asked[i]->most = 0;  // its values overflowed: what it would say means nothing
  }
  return times_.of(result.bucket);
}

Ps DraftModel::guess(std::span<Asked> asked) {
  std::vector<Asked*> left;
  Ps time = 0;
  for (Asked& each : asked) {
    if (!begin(each)) continue;
    time += read_alone(each);
    left.push_back(&each);
  }
  while (!left.empty()) {
    time += read_together(left);
    std::erase_if(left,
                  [](const Asked* each) { return static_cast<int64_t>(each->guesses.size()) >= each->most; });
  }
  return time;
}

}  // namespace opentrn::server
