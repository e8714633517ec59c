#include "serving/scheduler.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/fault.h"
#include "serving/buckets.h"

namespace opentrn::serving {

Scheduler::Scheduler(const SchedulerConfig& config)
    : config_(config), pool_(config.num_blocks, config.prefix_caching) {}

void Scheduler::add(Request& request) {
  const auto refuse = [&](std::string why, std::string hint) {
    throw Fault(FaultKind::kInput, "serving.request", fmt::format("request {}: {}", request.id, why),
                std::move(hint));
  };
  if (request.prompt_tokens < 1) refuse("its prompt is empty", "at least one token");
  if (request.max_tokens < 1) refuse(fmt::format("it asks for {} tokens", request.max_tokens), "at least 1");
  if (request.prompt_tokens >= config_.max_model_len)
    refuse(fmt::format("a prompt of {} tokens leaves no place for an answer", request.prompt_tokens),
           fmt::format("max_model_len is {}", config_.max_model_len));
  request.status = Status::kWaiting;
  queue(request);
}

namespace {

// Whether `a` is to run before `b`, as vLLM orders requests by priority.
bool more_urgent(const Request* a, const Request* b) {
  return std::tie(a->priority, a->arrival, a->id) < std::tie(b->priority, b->arrival, b->id);
}

}  // namespace

void Scheduler::queue(Request& request) {
  if (config_.order == Order::kFcfs) {
    waiting_.push_back(&request);
    return;
  }
  waiting_.insert(std::ranges::upper_bound(waiting_, &request, more_urgent), &request);
}

void Scheduler::abort(Request& request) {
  if (request.finished()) return;
  std::erase(running_, &request);
  std::erase(waiting_, &request);
  finish(request, Finish::kAborted);
}

Step Scheduler::schedule() {
  Step step;
  step.number = steps_++;
  plan(step);
  advance(step);
  return step;
}

// --- planning
// ------------------------------------------------------------------------------------------------

void Scheduler::plan_base(Step& step) {
  int64_t budget = config_.max_num_batched_tokens;
  // The threshold keeps a long prompt from starving the others; alone it may have the whole budget.
  long_prefill_ = running_.size() + waiting_.size() > 1 ? config_.long_prefill_token_threshold : 0;
  plan_running(step, budget);
  if (step.preempted.empty()) plan_waiting(step, budget);
}

int32_t Scheduler::capped(int64_t tokens, int64_t budget) const {
  if (long_prefill_ > 0) tokens = std::min<int64_t>(tokens, long_prefill_);
  return static_cast<int32_t>(std::min(tokens, budget));
}

void Scheduler::plan_running(Step& step, int64_t& budget) {
  for (size_t i = 0; i < running_.size() && budget > 0;) {
    Request& request = *running_[i];
    // The token that a step under way will give is the last one.
    if (request.output_placeholders > 0 && request.computed_tokens + 2 - request.output_placeholders >=
                                               request.prompt_tokens + request.max_tokens) {
      ++i;
      continue;
    }
    const int32_t known = request.tokens() + request.output_placeholders;
    int32_t tokens =
        capped(known + static_cast<int64_t>(request.drafts.size()) - request.computed_tokens, budget);
    tokens = std::min(tokens, config_.max_model_len - request.computed_tokens - 1);
    if (tokens <= 0) {
      ++i;
      continue;
    }
    bool fits = allocate(request, request.computed_tokens, tokens, {});
    while (!fits) {
      if (&preempt_last(step, i, budget) == &request) break;
      fits = allocate(request, request.computed_tokens, tokens, {});
    }
    if (!fits) break;
    const int32_t drafts = std::max(request.computed_tokens + tokens - known, 0);
    request.drafts.resize(static_cast<size_t>(drafts));
    step.entries.push_back({&request, tokens, request.computed_tokens, false, false, drafts});
    budget -= tokens;
    ++i;
  }
}

Request& Scheduler::preempt_last(Step& step, size_t& index, int64_t& budget) {
  const auto last = config_.order == Order::kFcfs ? std::prev(running_.end())
                                                  : std::ranges::max_element(running_, more_urgent);
  Request& request = **last;
  if (last - running_.begin() < static_cast<ptrdiff_t>(index)) --index;
  running_.erase(last);
  // By priority it may be one that the step has already.
  const auto planned = std::ranges::find(step.entries, &request, &StepEntry::request);
  if (planned != step.entries.end()) {
    budget += planned->tokens;
    step.entries.erase(planned);
  }
  preempt(request);
  step.preempted.push_back(&request);
  return request;
}

bool Scheduler::adapter_fits(const Request& request, std::span<Request* const> others) const {
  if (config_.max_loras == 0 || request.adapter == 0) return true;
  std::set<int32_t> adapters = {request.adapter};
  for (const Request* other : others)
    if (other->adapter != 0) adapters.insert(other->adapter);
  return std::ssize(adapters) <= config_.max_loras;
}

void Scheduler::plan_waiting(Step& step, int64_t& budget) {
  std::vector<Request*> skipped;
  std::vector<Request*> planned;
  for (const StepEntry& entry : step.entries) planned.push_back(entry.request);
  while (!waiting_.empty() && budget > 0 && running_.size() < static_cast<size_t>(config_.max_num_seqs)) {
    Request& request = *waiting_.front();
    // The outcome of the former is still to come; the latter's adapter is one too many.
    if (request.stale_tokens > 0 || !adapter_fits(request, planned)) {
      skipped.push_back(&request);
      waiting_.pop_front();
      continue;
    }
    found_.clear();
    find_prefix(request, found_);
    const int32_t hit = static_cast<int32_t>(found_.size()) * config_.block_size;
    const int32_t computed = std::max(hit, request.remote_tokens);
    const int64_t wanted = request.tokens() - computed;
    const int32_t tokens = capped(wanted, budget);
    // NxD Inference takes a prompt whole or not at all.
    if (config_.policy == Policy::kNeuronNxdi && tokens < wanted) break;
    if (!allocate(request, computed, tokens, found_)) break;
    if (config_.prefix_caching && request.preemptions == 0) {
      prefix_queries_ += request.tokens();
      prefix_hits_ += hit;
      request.prefix_hit_tokens = hit;
    }
    waiting_.pop_front();
    running_.push_back(&request);
    planned.push_back(&request);
    request.status = Status::kRunning;
    request.computed_tokens = computed;
    step.entries.push_back({&request, tokens, computed, false, false});
    budget -= tokens;
  }
  waiting_.insert(waiting_.begin(), skipped.begin(), skipped.end());
}

// --- blocks
// --------------------------------------------------------------------------------------------------

const BlockHash& Scheduler::hash(Request& request, int32_t block) const {
  const PromptContent& content = request.content;
  const int32_t size = config_.block_size;
  while (request.hashes.size() <= static_cast<size_t>(block)) {
    const auto at = static_cast<int32_t>(request.hashes.size());
    BlockHash h;
    if (at > 0)
      h = request.hashes.back();
    else
      h = request.variant;
    const int32_t begin = at * size, end = begin + size;
    const auto known = static_cast<int64_t>(content.tokens.size() + request.output.size());
    if (!content.tokens.empty() && end <= known) {
      for (int32_t i = begin; i < end; ++i) {
        const int32_t token = i < request.prompt_tokens
                                  ? content.tokens[static_cast<size_t>(i)]
                                  : request.output[static_cast<size_t>(i - request.prompt_tokens)];
        h = chained(h, static_cast<uint32_t>(token));
      }
    } else if (!content.segments.empty() && end <= request.prompt_tokens) {
      // The name of each segment that the block touches, and where in it the block begins.
      for (int32_t i = begin; i < end; i = (i / content.segment_tokens + 1) * content.segment_tokens)
        h = chained(chained(h, content.segments[static_cast<size_t>(i / content.segment_tokens)]),
                    static_cast<uint64_t>(i % content.segment_tokens));
    } else {
      h = chained(chained(h, ~static_cast<uint64_t>(request.id)), static_cast<uint64_t>(at));
    }
    request.hashes.push_back(h);
  }
  return request.hashes[static_cast<size_t>(block)];
}

// The longest run of blocks in the cache from the start of the request. One token is always computed, for its
// logits.
void Scheduler::find_prefix(Request& request, std::vector<BlockId>& blocks) const {
  if (!config_.prefix_caching || request.skips_prefix_cache) return;
  const int32_t most = (request.tokens() - 1) / config_.block_size;
  for (int32_t i = 0; i < most; ++i) {
    const BlockId block = pool_.cached(hash(request, i));
    if (block < 0) return;
    blocks.push_back(block);
  }
}

bool Scheduler::allocate(Request& request, int32_t computed, int32_t tokens, std::span<const BlockId> found) {
  const bool admission = request.status != Status::kRunning;
  const auto have = static_cast<int32_t>(request.blocks.size() + found.size());
  int32_t idle = 0;
  for (const BlockId block : found) idle += pool_.idle(block);
  const auto needed = [&](int32_t total) { return std::max(config_.blocks_of(total) - have, 0) + idle; };
  if (admission && config_.reserve_full_prompt &&
      needed(std::min(request.tokens(), config_.max_model_len)) > pool_.free_blocks())
    return false;
  const int32_t total = std::min(computed + tokens, config_.max_model_len);
  if (needed(total) > pool_.free_blocks()) return false;
  if (!found.empty()) {
    pool_.hold(found);
    request.blocks.insert(request.blocks.end(), found.begin(), found.end());
    request.cached_blocks = static_cast<int32_t>(found.size());
  }
  const int32_t fresh = config_.blocks_of(total) - static_cast<int32_t>(request.blocks.size());
  if (fresh > 0) pool_.take(fresh, request.blocks);
  name_blocks(request, std::min(computed + tokens, request.tokens()));
  return true;
}

// Full blocks of the first `tokens` tokens can be found by what they hold.
void Scheduler::name_blocks(Request& request, int32_t tokens) {
  if (!config_.prefix_caching) return;
  for (const int32_t full = tokens / config_.block_size; request.cached_blocks < full;
       ++request.cached_blocks)
    pool_.name(request.blocks[static_cast<size_t>(request.cached_blocks)],
               hash(request, request.cached_blocks));
}

void Scheduler::free_blocks(Request& request) {
  pool_.release(request.blocks);
  request.blocks.clear();
  request.cached_blocks = 0;
}

void Scheduler::preempt(Request& request) {
  free_blocks(request);
  request.status = Status::kPreempted;
  request.computed_tokens = 0;
  request.remote_tokens = 0;  // they were in the blocks
  request.output_placeholders = 0;
  request.drafts.clear();
  request.stale_tokens = request.in_flight_tokens;
  ++request.preemptions;
  ++preemptions_;
  if (config_.order == Order::kFcfs)
    waiting_.push_front(&request);
  else
    queue(request);
}

// --- after planning
// ------------------------------------------------------------------------------------------

void Scheduler::advance(Step& step) {
  int32_t prefills = 0, context = 0, longest = 1;
  for (StepEntry& entry : step.entries) {
    Request& request = *entry.request;
    // A request that was preempted reads what it has answered as it reads a prompt.
    entry.prefill = entry.computed_before < request.prompt_tokens || entry.tokens - entry.drafts > 1;
    prefills += entry.prefill;
    context = std::max(context, entry.computed_before + entry.tokens);
    longest = std::max(longest, entry.tokens);
    step.tokens += entry.tokens;
    request.computed_tokens += entry.tokens;
    request.in_flight_tokens += entry.tokens;
    request.prefill_chunk = request.computed_tokens < request.tokens() + request.output_placeholders;
    entry.samples = !request.prefill_chunk;
    if (entry.samples && config_.async_scheduling) ++request.output_placeholders;
  }
  if (step.empty()) return;
  const auto entries = static_cast<int32_t>(step.entries.size());
  step.phase = prefills == 0 ? Phase::kDecode : prefills == entries ? Phase::kPrefill : Phase::kMixed;
  if (config_.policy == Policy::kVllm) return;
  OPENTRN_CHECK(step.phase != Phase::kMixed, "prefill and decode in one step of a Neuron policy");
  if (step.phase == Phase::kPrefill) {
    step.seqs_bucket = entries;
    step.tokens_bucket = bucket_of(step.tokens, config_.num_batched_tokens_buckets);
  } else {
    step.seqs_bucket = bucket_of(entries, config_.num_seqs_buckets);
    step.tokens_bucket = longest == 1 ? 1 : bucket_of(longest, config_.num_batched_tokens_buckets);
    if (!config_.decode_context_length_buckets.empty())
      step.context_bucket = bucket_of(context, config_.decode_context_length_buckets);
  }
}

bool Scheduler::stops(const Request& request, bool asked) const {
  return asked || request.tokens() >= config_.max_model_len || request.output_tokens >= request.max_tokens;
}

void Scheduler::finish(Request& request, Finish why) {
  free_blocks(request);
  request.status = Status::kFinished;
  request.finish = why;
}

std::vector<Request*> Scheduler::update(const Step& step, std::span<const Sampled> sampled) {
  std::vector<Request*> finished;
  size_t next = 0;
  bool any_running = false, any_waiting = false;
  for (const StepEntry& entry : step.entries) {
    Request& request = *entry.request;
    const size_t first = next;
    while (entry.samples && (next == first || sampled[next - 1].more)) {
      OPENTRN_CHECK(next < sampled.size(), "step {} gave {} tokens", step.number, sampled.size());
      ++next;
    }
    const std::span<const Sampled> given = sampled.subspan(first, next - first);
    request.in_flight_tokens -= entry.tokens;
    const bool stale = request.stale_tokens > 0;
    if (stale) request.stale_tokens -= entry.tokens;
    if (request.finished() || given.empty()) continue;
    OPENTRN_CHECK(given.size() <= static_cast<size_t>(entry.drafts) + 1, "{} tokens of {} guesses",
                  given.size(), entry.drafts);
    // What wrong guesses wrote into their blocks is written again.
    request.computed_tokens -= entry.drafts + 1 - static_cast<int32_t>(given.size());
    request.drafts.clear();
    const bool running = request.status == Status::kRunning;
    bool stopped = false, asked = false;
    for (const Sampled& out : given) {
      ++request.output_tokens;
      if (out.token >= 0) request.output.push_back(out.token);
      asked = out.stop;
      stopped = stops(request, asked);
      if (stopped) break;
    }
    if (config_.async_scheduling) {
      if (!stale) --request.output_placeholders;
      if (running) name_blocks(request, request.computed_tokens - request.output_placeholders);
    }
    if (!stopped) continue;
    (running ? any_running : any_waiting) = true;
    finish(request, asked ? Finish::kStop : Finish::kLength);
    finished.push_back(&request);
  }
  const auto done = [](const Request* request) { return request->finished(); };
  if (any_running) std::erase_if(running_, done);
  if (any_waiting) std::erase_if(waiting_, done);
  return finished;
}

std::string Scheduler::audit() const {
  std::vector<const std::vector<BlockId>*> tables;
  for (const Request* request : running_) {
    tables.push_back(&request->blocks);
    if (request->status != Status::kRunning) return fmt::format("request {} runs and does not", request->id);
    if (config_.blocks_of(request->computed_tokens) > static_cast<int32_t>(request->blocks.size()))
      return fmt::format("request {} has {} blocks for {} tokens", request->id, request->blocks.size(),
                         request->computed_tokens);
  }
  for (const Request* request : waiting_)
    if (!request->blocks.empty()) return fmt::format("request {} waits and has blocks", request->id);
  if (running_.size() > static_cast<size_t>(config_.max_num_seqs))
    return fmt::format("{} requests run, of {} at most", running_.size(), config_.max_num_seqs);
  return pool_.audit(tables);
}

}  // namespace opentrn::serving
