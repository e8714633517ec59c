#include "server/foreign_steps.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "server/next_token.h"

namespace opentrn::server {

using decoder::Choice;

decoder::SamplingParams sampling_of_vllm(decoder::SamplingParams stated, std::optional<int32_t> logprobs,
                                         int64_t vocabulary) {
  constexpr double kLeastTemperature = 1e-5;  // vLLM's _SAMPLING_EPS
  if (stated.temperature < kLeastTemperature) stated.temperature = 0;
  stated.top_k = std::max(0, stated.top_k);
  stated.logprobs = logprobs.value_or(-1);
  if (logprobs == -1) stated.logprobs = static_cast<int32_t>(vocabulary);
  return stated;
}

ForeignSteps::Held& ForeignSteps::known(const std::string& name) {
  const auto found = requests_.find(name);
  if (found == requests_.end())
    throw Fault(FaultKind::kInput, "decoder.step", fmt::format("no request is called {}", name));
  return found->second;
}

void ForeignSteps::add(const std::string& name, JobParams params, std::optional<uint64_t> seed,
                       double arrival_s) {
  ++added_;
  params.seed = seed.value_or((seed_ << 32) + added_);
  requests_.insert_or_assign(name, Held{name, Job(std::move(params)), arrival_s, 0, std::nullopt});
}

void ForeignSteps::place(const std::string& name, std::vector<int32_t> blocks, int32_t computed) {
  Job& job = known(name).job;
  job.blocks = std::move(blocks);
  job.computed_tokens = computed;
}

void ForeignSteps::grow(const std::string& name, std::span<const int32_t> blocks, int32_t computed) {
  Job& job = known(name).job;
  job.blocks.insert(job.blocks.end(), blocks.begin(), blocks.end());
  job.computed_tokens = computed;
}

std::optional<ForeignSteps::Ended> ForeignSteps::end(const std::string& name) {
  const auto node = requests_.extract(name);
  if (node.empty()) return std::nullopt;
  const Held& held = node.mapped();
  std::erase_if(pending_, [&](const Pending& one) { return one.held == &held; });
  if (!held.first_s) return std::nullopt;
  return Ended{held.job.prompt_tokens, held.job.output_tokens, held.arrival_s, *held.first_s, held.own_s};
}

ForeignSteps::Ran ForeignSteps::run(std::span<const std::pair<std::string, int32_t>> entries) {
  pending_.clear();
  Ran ran;
  Group group;
  const auto shares_program = [&](const std::pair<std::string, int32_t>& entry) {
    Job& job = known(entry.first).job;
    return entry.second == 1 && !scores_prompt({&job, 1, job.computed_tokens, false, false});
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [name, tokens] = entries[i];
    Held& held = known(name);
    const int32_t before = held.job.computed_tokens;
    const bool samples = before + tokens == held.job.tokens();
    group.emplace_back(&held, serving::StepEntry{&held.job, tokens, before, tokens > 1, samples});
    if (i + 1 < entries.size() && shares_program(entries[i]) && shares_program(entries[i + 1])) continue;
    run_group(group, ran);
    group.clear();
  }
  for (const auto& [name, tokens] : entries) known(name).own_s += ran.predicted_s;
  return ran;
}

void ForeignSteps::run_group(const Group& group, Ran& ran) {
  const int64_t words = engine_.config().vocabulary;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<Choice> wanted;
  int64_t longest = 1, context = 1;
  for (const auto& [held, entry] : group) {
    tokens.push_back(tokens_of(entry));
    if (entry.samples) wanted.push_back(choice_of(held->job));
    longest = std::max<int64_t>(longest, entry.tokens);
    context = std::max<int64_t>(context, entry.computed_before + entry.tokens);
  }
  const bool scores = scores_prompt(group.front().second);
  const Choice choice = scores ? Choice::kHost : decoder::choice_for_all(wanted, most_);
  std::vector<decoder::SamplingRow> draws(group.size());
  std::vector<decoder::SequenceStep> rows;
  for (size_t i = 0; i < group.size(); ++i) {
    Job& job = group[i].first->job;
    rows.push_back({tokens[i], group[i].second.computed_before, job.blocks, {}, {}});
    if (choice < Choice::kDrawn) continue;
    // What no token is taken of draws nothing from the request's own numbers.
    const double point = group[i].second.samples ? job.random.uniform() : 0;
    draws[i] = decoder::sampling_row(job.sampling, point, words);
    rows.back().sampling = {&draws[i], 1};
  }
  const decoder::Bucket bucket =
      engine_.bucket_of(static_cast<int64_t>(group.size()), longest, context, scores, choice);
  ran.predicted_s += serving::seconds(program_times_.of(bucket));
  (longest > 1 ? ran.prefill_padding : ran.decode_padding) +=
      longest > 1 ? bucket.tokens - longest : bucket.sequences - static_cast<int64_t>(group.size());
  const decoder::StepResult result = engine_.step(rows, {.every_token = scores, .choice = choice});
  if (scores) score_prompt(group.front().second, result.logits, words);
  for (size_t i = 0; i < group.size(); ++i) {
    const auto& [held, entry] = group[i];
    held->job.computed_tokens += entry.tokens;
    if (!entry.samples) continue;
    const size_t row = scores ? static_cast<size_t>(entry.tokens) - 1 : i;
    Pending& pending = pending_.emplace_back(held);
    if (choice == Choice::kHost) {
      const auto logits = result.logits.subspan(row * static_cast<size_t>(words), static_cast<size_t>(words));
      pending.logits.assign(logits.begin(), logits.end());
    } else {
      pending.token = decoder::expect_token(result.tokens[i], result.largest_logits[i], words);
    }
  }
}

std::optional<std::vector<decoder::SampledToken>> ForeignSteps::prompt_scores(const std::string& name) {
  Job& job = known(name).job;
  if (!job.failure.empty()) throw Fault(FaultKind::kInput, "decoder.overflow", job.failure);
  if (job.prompt_logprobs < 0 || std::ssize(job.prompt_scores) < job.prompt_tokens) return std::nullopt;
  job.prompt_logprobs = -1;
  return std::exchange(job.prompt_scores, {});
}

std::vector<ForeignSteps::Sample> ForeignSteps::sample(
    const std::map<std::string, std::vector<uint32_t>>& masks, double now_s) {
  std::vector<Sample> made;
  for (Pending& pending : std::exchange(pending_, {})) {
    Held& held = *pending.held;
    Job& job = held.job;
    decoder::SampledToken token;
    token.token = pending.token;
    if (!pending.logits.empty()) {
      const auto mask = masks.find(held.name);
      token =
          decoder::sample(sampling_of(job), pending.logits, job.content.tokens, job.output,
                          mask == masks.end() ? job.allowed : both(mask->second, job.allowed), job.random);
    }
    job.output.push_back(token.token);
    ++job.output_tokens;
    if (!held.first_s) held.first_s = now_s;
    made.push_back({held.name, std::move(token)});
  }
  return made;
}

void ForeignSteps::prepare(int64_t tokens) {
  const Choice choice = decoder::choice_for_all({}, most_);
  program_times_.of(engine_.bucket_of(1, tokens, 2, false, choice));
}

std::map<std::string, int32_t> ForeignSteps::logprobs() const {
  std::map<std::string, int32_t> wanted;
  for (const auto& [name, held] : requests_) wanted.emplace(name, held.job.sampling.logprobs);
  return wanted;
}

}  // namespace opentrn::server
