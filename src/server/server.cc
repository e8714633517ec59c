#include "server/server.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::server {

using serving::Finish;
using serving::Ps;
using serving::seconds;

namespace {

std::unique_ptr<serving::Clock> make_clock(ClockKind kind) {
  if (kind == ClockKind::kVirtual) return std::make_unique<serving::VirtualClock>();
  return std::make_unique<serving::WallClock>(kind == ClockKind::kPaced);
}

void check(const JobParams& params, const ServerOptions& options, const Worker& worker) {
  const auto refuse = [](std::string message, std::string hint) {
    throw Fault(FaultKind::kInput, "serving.request", std::move(message), std::move(hint));
  };
  const int32_t longest = options.scheduler.max_model_len;
  const auto tokens = static_cast<int64_t>(params.prompt.size());
  if (tokens < 1) refuse("the prompt is empty", "at least one token");
  if (tokens >= longest)
    refuse(fmt::format("a prompt of {} tokens leaves no place for an answer", tokens),
           fmt::format("max_model_len is {}", longest));
  if (params.max_tokens < 1) refuse(fmt::format("{} tokens were asked for", params.max_tokens), "at least 1");
  if (params.min_tokens < 0 || params.min_tokens > params.max_tokens)
    refuse(fmt::format("min_tokens is {}", params.min_tokens),
           fmt::format("0 to max_tokens, which is {}", params.max_tokens));
  const int32_t vocabulary = worker.vocabulary();
  const auto expect_token = [&](int32_t token, const char* where) {
    if (token < 0 || token >= vocabulary)
      refuse(fmt::format("token {} {}", token, where), fmt::format("0 to {}", vocabulary - 1));
  };
  for (const int32_t token : params.prompt) expect_token(token, "in the prompt");
  for (const int32_t token : params.stop_tokens) expect_token(token, "as one that stops");
  for (const std::vector<int32_t>& word : params.bad_words)
    for (const int32_t token : word) expect_token(token, "of a bad word");
  for (const auto& [token, bias] : params.sampling.bias) expect_token(token, "in the bias");
  decoder::check(params.sampling);
  if (params.adapter < 0 || params.adapter >= worker.adapters())
    refuse(fmt::format("adapter {}; there are {}", params.adapter, worker.adapters() - 1), "0 for none");
  if (!worker.has_logits() && (params.sampling.logprobs >= 0 || params.prompt_logprobs >= 0))
    refuse("log probabilities of tokens that are drawn without a model", "a server with values");
  if (!params.mask.empty() && params.mask.size() * 32 < static_cast<size_t>(vocabulary))
    refuse(fmt::format("a mask of {} words", params.mask.size()), "a bit for each token of the vocabulary");
}

}  // namespace

ClockKind clock_of(std::string_view name) {
  if (name == "wall") return ClockKind::kWall;
  if (name == "paced") return ClockKind::kPaced;
  if (name == "virtual") return ClockKind::kVirtual;
  throw Fault(FaultKind::kInput, "server.clock", fmt::format("no clock is named '{}'", name),
              "wall, paced or virtual");
}

Server::Server(ServerOptions options, std::unique_ptr<Worker> worker)
    : options_(std::move(options)),
      worker_(std::move(worker)),
      tap_(*worker_),
      clock_(make_clock(options_.clock)),
      engine_(
          options_.scheduler, *clock_, tap_,
          [this](const serving::Step& step, const serving::StepRecord& record) { describe(step, record); }) {
  OPENTRN_CHECK(!options_.scheduler.async_scheduling,
                "a step is planned with the tokens of the one before it");
  guesses_.right_at.resize(static_cast<size_t>(options_.speculation.tokens));
  note_stats();
}

// --- any thread
// ----------------------------------------------------------------------------------------------

int64_t Server::add(JobParams params) {
  check(params, options_, *worker_);
  auto job = std::make_unique<Job>(std::move(params));
  const std::lock_guard lock(mutex_);
  const auto waiting = static_cast<size_t>(stats_.waiting) + inbox_.size();
  if (waiting >= static_cast<size_t>(options_.waiting_max))
    throw Fault(FaultKind::kCapacity, "server.full", fmt::format("{} requests wait already", waiting),
                "try again later");
  job->id = next_id_++;
  // A virtual clock stands still between steps, and is the stepping thread's alone.
  job->arrival = options_.clock == ClockKind::kVirtual ? -1 : clock_->now();
  const int64_t id = job->id;
  inbox_.push_back(std::move(job));
  arrived_.notify_one();
  return id;
}

void Server::abort(int64_t id) {
  const std::lock_guard lock(mutex_);
  aborted_.push_back(id);
  arrived_.notify_one();
}

Stats Server::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.waiting += static_cast<int32_t>(inbox_.size());
  return stats;
}

// --- the thread that takes steps
// -----------------------------------------------------------------------------

void Server::take_inbox() {
  std::vector<std::unique_ptr<Job>> arrivals;
  std::vector<int64_t> aborted;
  {
    const std::lock_guard lock(mutex_);
    arrivals.swap(inbox_);
    aborted.swap(aborted_);
    stats_.waiting += static_cast<int32_t>(arrivals.size());  // they count until the books are made again
  }
  for (auto& job : arrivals) {
    if (job->arrival < 0) job->arrival = clock_->now();
    job->device_arrival = device_now_;
    engine_.add(*job);
    jobs_.emplace(job->id, std::move(job));
  }
  for (const int64_t id : aborted) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) continue;
    engine_.abort(*found->second);
    jobs_.erase(found);
  }
}

void Server::describe(const serving::Step& step, const serving::StepRecord& record) {
  const serving::Outcome& outcome = tap_.outcome;
  const Ps predicted = outcome.device + outcome.host;
  device_now_ += predicted;
  totals_.add(record);
  report_->program = step.program();
  report_->record = record;
  report_->predicted_s = seconds(predicted);
  report_->preempted = static_cast<int64_t>(step.preempted.size());
  size_t next = 0;
  for (const serving::StepEntry& entry : step.entries) {
    Job& job = static_cast<Job&>(*entry.request);
    job.own += predicted;
    report_->requests.push_back(job.id);
    if (!entry.samples) continue;
    if (job.device_first < 0) job.device_first = device_now_;
    job.device_last = device_now_;
    const size_t first = next;
    do {
      TokenEvent event;
      event.id = job.id;
      event.token = worker_->samples()[next];
      event.prompt = std::exchange(job.prompt_scores, {});
      if (!event.prompt.empty()) job.prompt_logprobs = -1;  // they are told once
      report_->events.push_back(std::move(event));
    } while (outcome.sampled[next++].more);
    if (entry.drafts == 0) continue;
    const size_t right = next - first - 1;
    ++guesses_.drafts;
    guesses_.guessed += entry.drafts;
    guesses_.right += static_cast<int64_t>(right);
    for (size_t i = 0; i < right; ++i) ++guesses_.right_at[i];
  }
}

void Server::guess(Job& job) const {
  if (options_.speculation.tokens == 0 || job.finished() || !job.mask.empty()) return;
  // The last token that may come is chosen behind the last guess.
  const int32_t room =
      std::min(job.max_tokens - job.output_tokens, options_.scheduler.max_model_len - job.tokens());
  if (worker_->proposes()) {
    const auto most = static_cast<size_t>(std::max(room - 1, 0));
    job.drafts = std::move(job.proposed);
    job.drafts.resize(std::min(job.drafts.size(), most));
    return;
  }
  std::vector<int32_t> text = job.content.tokens;
  text.insert(text.end(), job.output.begin(), job.output.end());
  job.drafts = decoder::guesses(text, options_.speculation, room - 1);
}

bool Server::step(std::chrono::milliseconds patience, bool prepares, StepReport& report) {
  report = {};
  take_inbox();
  if (!engine_.busy()) {
    note_stats();
    if (prepares && worker_->prepare_one()) {
      note_stats();
      return false;
    }
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, patience, [&] { return !inbox_.empty() || !aborted_.empty(); });
    lock.unlock();
    take_inbox();
    if (!engine_.busy()) return false;
  }
  report_ = &report;
  if (!engine_.advance()) give_up();
  for (size_t i = 0; i < report.events.size(); ++i) {
    TokenEvent& event = report.events[i];
    if (i + 1 < report.events.size() && report.events[i + 1].id == event.id) continue;
    Job& job = *jobs_.at(event.id);
    guess(job);
    if (!job.finished()) continue;
    event.ended = true;
    event.end = ended(job, job.finish);
  }
  for (const TokenEvent& event : report.events)
    if (event.ended) forget(event.id);
  if (options_.audit) {
    const std::string wrong = audit();
    OPENTRN_CHECK(wrong.empty(), "the books of the pool after a step: {}", wrong);
  }
  note_stats();
  return true;
}

// Requests wait, and none can ever run.
void Server::give_up() {
  const size_t waiting = jobs_.size();
  for (auto& [id, job] : jobs_) engine_.abort(*job);
  jobs_.clear();
  note_stats();
  throw Fault(FaultKind::kInput, "serving.deadlock",
              fmt::format("{} requests wait and none can run", waiting),
              "more blocks, or a smaller max_model_len");
}

Ended Server::ended(const Job& job, Finish finish) const {
  Ended end;
  end.finish = finish;
  end.failure = job.failure;
  end.prompt_tokens = job.prompt_tokens;
  end.output_tokens = job.output_tokens;
  end.cached_tokens = job.prefix_hit_tokens;
  end.preemptions = job.preemptions;
  if (job.first_scheduled >= 0) end.queue_s = seconds(job.first_scheduled - job.arrival);
  if (job.first_token >= 0) {
    end.first_token_s = seconds(job.first_token - job.arrival);
    end.end_s = seconds(job.last_token - job.arrival);
    end.predicted_first_token_s = seconds(job.device_first - job.device_arrival);
    end.predicted_end_s = seconds(job.device_last - job.device_arrival);
  }
  end.predicted_own_s = seconds(job.own);
  return end;
}

void Server::forget(int64_t id) { jobs_.erase(id); }

Ended Server::finish(int64_t id) {
  Job& job = *jobs_.at(id);
  const Ended end = ended(job, Finish::kStop);
  engine_.abort(job);
  forget(id);
  note_stats();
  return end;
}

void Server::set_mask(int64_t id, std::vector<uint32_t> mask) {
  if (mask.size() * 32 < static_cast<size_t>(worker_->vocabulary()))
    throw Fault(FaultKind::kInput, "serving.request", fmt::format("a mask of {} words", mask.size()),
                "a bit for each token of the vocabulary");
  jobs_.at(id)->mask = std::move(mask);
}

bool Server::prepare_one() {
  const bool made = worker_->prepare_one();
  note_stats();
  return made;
}

std::string Server::audit() const { return engine_.scheduler().audit(); }

void Server::note_stats() {
  const serving::Scheduler& scheduler = engine_.scheduler();
  const serving::BlockPool& pool = scheduler.pool();
  const std::lock_guard lock(mutex_);
  stats_.running = scheduler.running();
  stats_.waiting = scheduler.waiting();
  stats_.blocks = pool.usable_blocks();
  stats_.used_blocks = pool.usable_blocks() - pool.free_blocks();
  stats_.prefix_queries = scheduler.prefix_queries();
  stats_.prefix_hits = scheduler.prefix_hits();
  stats_.preemptions = scheduler.preemptions();
  stats_.programs = worker_->programs();
  stats_.compile_s = worker_->compile_seconds();
  stats_.predicted_s = seconds(device_now_);
  stats_.now_s = seconds(clock_->now());
  stats_.totals = totals_;
  stats_.guesses = guesses_;
}

}  // namespace opentrn::server
