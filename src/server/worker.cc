#include "server/worker.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/fault.h"
#include "server/next_token.h"

namespace opentrn::server {

using decoder::Choice;
using decoder::SampledToken;
using serving::Outcome;
using serving::Ps;
using serving::Step;
using serving::StepEntry;

namespace {

Job& job_of(const StepEntry& entry) { return static_cast<Job&>(*entry.request); }

bool contains(const std::vector<int32_t>& tokens, int32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// A token by the request's rules. A request whose grammar and bias leave none, or whose logits are no
// numbers, ends; its neighbours go on.
SampledToken choose(Job& job, std::span<const float> logits) {
  try {
    return decoder::sample(sampling_of(job), logits, job.content.tokens, job.output, next_mask(job),
                           job.random);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput) throw;
    job.failure = fault.message();
    return {};
  }
}

// Of what follows so many tokens of the entry, with the numbers that come next of the request's own.
std::vector<decoder::SamplingRow> sampling_rows(const StepEntry& entry, int64_t count, int64_t vocabulary) {
  const Job& job = job_of(entry);
  SplitMix64 random = job.random;
  std::vector<decoder::SamplingRow> rows;
  while (static_cast<int64_t>(rows.size()) < count)
    rows.push_back(decoder::sampling_row(job.sampling, random.uniform(), vocabulary));
  return rows;
}

SampledToken taken(Job& job, int32_t token, float largest_logit, int32_t vocabulary) {
  SampledToken made;
  if (decoder::is_token(token, largest_logit, vocabulary))
    made.token = token;
  else
    job.failure = "the logits are not finite: a value of the model overflowed";
  return made;
}

// Behind the newest token and behind each right guess, which choose(i) gives the i-th of.
template <typename Choose>
void choose_behind_guesses(const StepEntry& entry, Choose&& choose, std::vector<SampledToken>& made) {
  Job& job = job_of(entry);
  const size_t known = job.output.size();
  const int32_t counted = job.output_tokens;
  for (size_t i = 0;; ++i) {
    made.push_back(choose(i));
    const int32_t token = made.back().token;
    const bool ends = !job.failure.empty() || contains(job.stop_tokens, token);
    if (ends || i == static_cast<size_t>(entry.drafts) || token != job.drafts[i]) break;
    // The next one's penalties count it.
    job.output.push_back(token);
    ++job.output_tokens;
  }
  job.output.resize(known);
  job.output_tokens = counted;
}

}  // namespace

// --- the model
// -----------------------------------------------------------------------------------------------

ModelWorker::ModelWorker(decoder::Engine& engine, std::shared_ptr<const serving::StepTimes> times,
                         serving::HostTimes host, const ModelOptions& options)
    : engine_(engine), times_(std::move(times)), host_(host), options_(options), program_times_(engine) {
  const decoder::EngineOptions& sizes = engine.options();
  const auto prepare = [&](int64_t sequences, int64_t tokens, int64_t context, bool every_token) {
    to_prepare_.emplace_back(&program_times_, engine.bucket_of(sequences, tokens, context, every_token,
                                                               std::min(options.most, Choice::kLikeliest)));
  };
  for (const int64_t context : sizes.context_buckets)
    for (const int64_t sequences : sizes.sequence_buckets) {
      prepare(sequences, 1, context, false);
      if (options.guesses > 0) prepare(sequences, 1 + options.guesses, context, true);
    }
  for (const int64_t tokens : sizes.token_buckets) prepare(1, tokens, tokens, false);
  if (options.draft) {
    draft_.emplace(decoder::DraftModel(*options.draft, options.guesses), ProgramTimes(*options.draft));
    for (const decoder::Bucket& bucket : draft_->model.programs())
      to_prepare_.emplace_back(&draft_->times, bucket);
  }
  // Short answers to single requests come first.
  std::ranges::stable_sort(to_prepare_, std::greater{}, [](const auto& program) {
    const decoder::Bucket& bucket = program.second;
    return bucket.sequences * bucket.tokens * bucket.context;
  });
}

bool ModelWorker::prepare_one() {
  if (to_prepare_.empty()) return false;
  const auto [times, bucket] = to_prepare_.back();
  times->of(bucket);
  to_prepare_.pop_back();
  return true;
}

int64_t ModelWorker::programs() const {
  return program_times_.programs() + (draft_ ? draft_->times.programs() : 0);
}

double ModelWorker::compile_seconds() const {
  return program_times_.compile_seconds() + (draft_ ? draft_->times.compile_seconds() : 0);
}

Choice ModelWorker::choice_of(std::span<const Row> entries) const {
  std::vector<Choice> wanted;
  for (const Row& row : entries)
    if (row.entry->samples) wanted.push_back(server::choice_of(job_of(*row.entry)));
  return decoder::choice_for_all(wanted, options_.most);
}

// One program. Returns its predicted time.
Ps ModelWorker::run_entries(std::span<const Row> entries) {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<decoder::SequenceStep> rows;
  int64_t longest = 1, context = 1;
  bool guesses = false, scores = false;
  for (const auto& [entry, made] : entries) {
    guesses = guesses || entry->drafts > 0;
    scores = scores || scores_prompt(*entry);
    tokens.push_back(tokens_of(*entry));
    rows.push_back({tokens.back(), entry->computed_before, entry->request->blocks, {}, {}});
    longest = std::max<int64_t>(longest, entry->tokens);
    context = std::max<int64_t>(context, entry->computed_before + entry->tokens);
  }
  const bool every_token = guesses || scores;
  const Choice choice = scores ? Choice::kHost : choice_of(entries);
  const int32_t words = vocabulary();
  std::vector<std::vector<decoder::SamplingRow>> sampling;
  if (choice >= Choice::kDrawn)
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i].sampling = sampling.emplace_back(
          sampling_rows(*entries[i].entry, guesses ? entries[i].entry->tokens : 1, words));
  const Ps time = program_times_.of(
      engine_.bucket_of(static_cast<int64_t>(entries.size()), longest, context, every_token, choice));
  const decoder::StepResult result =
      engine_.step(rows, {every_token, job_of(*entries.front().entry).adapter, choice});
  for (size_t i = 0; i < entries.size(); ++i) {
    keep_features(*entries[i].entry, result, i * static_cast<size_t>(result.bucket.tokens));
    const StepEntry& entry = *entries[i].entry;
    const size_t first = i * static_cast<size_t>(result.rows_per_sequence);
    if (scores_prompt(entry))
      score_prompt(entry, result.logits.subspan(first * static_cast<size_t>(words)), words);
    if (!entry.samples) continue;
    Job& job = job_of(entry);
    const size_t newest = every_token ? static_cast<size_t>(entry.tokens - entry.drafts - 1) : 0;
    const auto token_behind = [&](size_t guess) {
      const size_t row = first + newest + guess;
      if (choice == Choice::kHost)
        return choose(job,
                      result.logits.subspan(row * static_cast<size_t>(words), static_cast<size_t>(words)));
      if (choice >= Choice::kDrawn) job.random.uniform();
      return taken(job, result.tokens[row], result.largest_logits[row], words);
    };
    choose_behind_guesses(*entries[i].entry, token_behind, *entries[i].made);
  }
  return time;
}

// Of the tokens that the entry computes, whose rows of the step begin at `first`. Those of wrong guesses are
// computed again at their positions.
void ModelWorker::keep_features(const StepEntry& entry, const decoder::StepResult& result, size_t first) {
  if (!engine_.config().features) return;
  const auto bytes = static_cast<size_t>(engine_.feature_bytes());
  const auto count = static_cast<size_t>(entry.tokens), before = static_cast<size_t>(entry.computed_before);
  if (options_.prefix_caching) find_features(entry);
  std::vector<std::byte>& kept = job_of(entry).features;
  if (kept.size() < (before + count) * bytes) kept.resize((before + count) * bytes);
  const std::span<const std::byte> fresh = result.features.subspan(first * bytes, count * bytes);
  std::ranges::copy(fresh, kept.begin() + static_cast<int64_t>(before * bytes));
  if (options_.prefix_caching) keep_by_block(entry, fresh);
}

void ModelWorker::find_features(const StepEntry& entry) {
  const auto bytes = static_cast<size_t>(engine_.feature_bytes());
  const auto block = static_cast<size_t>(engine_.options().pool.block_tokens);
  const auto before = static_cast<size_t>(entry.computed_before);
  std::vector<std::byte>& kept = job_of(entry).features;
  for (size_t position = kept.size() / bytes; position < before; ++position) {
    const auto found = features_of_blocks_.find(entry.request->blocks.at(position / block));
    OPENTRN_CHECK(found != features_of_blocks_.end(), "no features of position {}", position);
    const std::span<const std::byte> features(found->second);
    const auto own = features.subspan(position % block * bytes, bytes);
    kept.insert(kept.end(), own.begin(), own.end());
  }
}

void ModelWorker::keep_by_block(const StepEntry& entry, std::span<const std::byte> features) {
  const auto bytes = static_cast<size_t>(engine_.feature_bytes());
  const auto block = static_cast<size_t>(engine_.options().pool.block_tokens);
  for (size_t i = 0; i < static_cast<size_t>(entry.tokens); ++i) {
    const size_t position = static_cast<size_t>(entry.computed_before) + i;
    std::vector<std::byte>& kept = features_of_blocks_[entry.request->blocks.at(position / block)];
    kept.resize(block * bytes);
    std::ranges::copy(features.subspan(i * bytes, bytes),
                      kept.begin() + static_cast<int64_t>(position % block * bytes));
  }
}

// What follows the new tokens of requests that go on. Of a grammar the next mask is not known yet.
Ps ModelWorker::propose(std::span<const Row> entries) {
  std::vector<decoder::DraftModel::Asked> asked;
  std::vector<Job*> jobs;
  for (const auto& [entry, made] : entries) {
    Job& job = job_of(*entry);
    job.proposed.clear();
    if (made->empty() || !job.failure.empty() || !job.mask.empty() ||
        contains(job.stop_tokens, made->back().token))
      continue;
    std::vector<int32_t> text = job.content.tokens;
    text.insert(text.end(), job.output.begin(), job.output.end());
    for (const SampledToken& token : *made) text.push_back(token.token);
    // The last token that may come is chosen behind the last guess.
    const int64_t left = job.prompt_tokens + job.max_tokens - static_cast<int64_t>(text.size());
    const size_t known = (text.size() - 1) * static_cast<size_t>(engine_.feature_bytes());
    asked.push_back({std::move(text), left - 1, &job.draft});
    if (engine_.config().features) asked.back().features = std::span(job.features).first(known);
    jobs.push_back(&job);
  }
  Ps time = 0;
  for (const decoder::Bucket& bucket : draft_->model.guess(asked)) time += draft_->times.of(bucket);
  for (size_t i = 0; i < jobs.size(); ++i) {
    std::vector<int32_t>& guesses = asked[i].guesses;  // of a model whose table of words may be longer
    guesses.erase(std::ranges::find_if(guesses, [&](int32_t token) { return token >= vocabulary(); }),
                  guesses.end());
    jobs[i]->proposed = std::move(guesses);
  }
  return time;
}

Outcome ModelWorker::run(const Step& step) {
  samples_.clear();
  Outcome outcome;
  outcome.host = host_.of(step);
  // Entries of one token, with guesses behind it or without, and one adapter go together; the order of the
  // samples is that of the entries.
  std::vector<std::vector<Row>> groups;
  std::map<int32_t, size_t> of_decode;  // by adapter
  std::vector<std::vector<SampledToken>> made(step.entries.size());
  for (size_t i = 0; i < step.entries.size(); ++i) {
    const StepEntry& entry = step.entries[i];
    const Row row{&entry, &made[i]};
    if (entry.tokens - entry.drafts == 1 && !scores_prompt(entry)) {
      const auto [found, fresh] = of_decode.try_emplace(job_of(entry).adapter, groups.size());
      if (!fresh) {
        groups[found->second].push_back(row);
        continue;
      }
    }
    groups.push_back({row});
  }
  std::vector<Row> rows;
  for (const std::vector<Row>& group : groups) {
    outcome.device += run_entries(group);
    rows.insert(rows.end(), group.begin(), group.end());
  }
  if (times_) outcome.device = times_->of(step);
  if (draft_) outcome.device += propose(rows);
  for (size_t i = 0; i < step.entries.size(); ++i) {
    const Job& job = job_of(step.entries[i]);
    for (SampledToken& token : made[i]) {
      const bool stop = !job.failure.empty() || contains(job.stop_tokens, token.token);
      outcome.sampled.push_back({token.token, stop, &token != &made[i].back()});
      samples_.push_back(std::move(token));
    }
  }
  return outcome;
}

// --- drawn tokens
// --------------------------------------------------------------------------------------------

DrawingWorker::DrawingWorker(int32_t vocabulary, std::vector<int32_t> choices,
                             std::shared_ptr<const serving::StepTimes> times, serving::HostTimes host)
    : vocabulary_(vocabulary), choices_(std::move(choices)), times_(std::move(times)), host_(host) {
  OPENTRN_CHECK(!choices_.empty(), "no tokens to draw from");
}

int32_t DrawingWorker::draw(Job& job) const {
  const auto pick = [&](const std::vector<int32_t>& from) {
    return from[job.random.below(static_cast<uint32_t>(from.size()))];
  };
  const std::vector<uint32_t> mask = next_mask(job);
  if (mask.empty()) return pick(choices_);
  std::vector<int32_t> allowed;
  for (int32_t token = 0; token < vocabulary_; ++token)
    if (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) {
      if (contains(job.stop_tokens, token) && job.output_tokens >= job.min_tokens) return token;
      allowed.push_back(token);
    }
  if (!allowed.empty()) return pick(allowed);
  job.failure = "the grammar allows no token";
  return -1;
}

Outcome DrawingWorker::run(const Step& step) {
  samples_.clear();
  Outcome outcome{times_->of(step), host_.of(step), {}};
  for (const StepEntry& entry : step.entries) {
    if (!entry.samples) continue;
    Job& job = job_of(entry);
    SampledToken token;
    token.token = draw(job);
    const bool stop = !job.failure.empty() || contains(job.stop_tokens, token.token);
    samples_.push_back(std::move(token));
    outcome.sampled.push_back({samples_.back().token, stop});
  }
  return outcome;
}

}  // namespace opentrn::server
