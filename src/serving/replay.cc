#include "serving/replay.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "serving/series.h"

namespace opentrn::serving {
namespace {

// Blocks at the start of a prompt by which the prefix router tells prompts apart.
constexpr int32_t kRoutedTokens = 1024;
constexpr int32_t kReplicasMax = 4096;

class Fleet {
 public:
  Fleet(Trace trace, const ReplayConfig& config, const MakeExecutor& make)
      : config_(config), series_(config.bins) {
    requests_.reserve(trace.requests.size());
    for (TraceRequest& from : trace.requests) {
      interrupt::poll();
      Request& request = requests_.emplace_back();
      request.id = static_cast<int64_t>(requests_.size()) - 1;
      request.arrival = from.arrival;
      request.prompt_tokens = from.prompt_tokens;
      request.max_tokens = from.output_tokens;
      request.content = std::move(from.content);
    }
    for (int32_t i = 0; i < config.replicas + config.disaggregation.prefill_replicas; ++i) {
      auto& replica = replicas_.emplace_back(std::make_unique<Replica>());
      replica->number = static_cast<size_t>(i);
      replica->executor = make(i);
      replica->engine =
          std::make_unique<Engine>(config.scheduler, clock_, *replica->executor,
                                   [this, r = replica.get()](const Step& step, const StepRecord& record) {
                                     observe(*r, step, record);
                                   });
      const bool up = !scales() || i < config.autoscaling.least || i >= config.replicas;
      replica->state = up ? State::kUp : State::kDown;
    }
    if (disaggregated()) prefills_.reserve(requests_.size());
  }

  Replay run() {
    while (true) {
      interrupt::poll();
      Ps at = next_event();
      if (at == INT64_MAX) break;
      if (scales() && next_tick_ <= at) at = next_tick_;
      clock_.wait_until(at);
      if (scales() && at == next_tick_) scale(at);
      for (; may_send() && requests_[next_].arrival <= at; ++next_) arrive(requests_[next_]);
      for (; !transfers_.empty() && transfers_.begin()->first <= at; transfers_.erase(transfers_.begin()))
        choose(*transfers_.begin()->second, 0, decoders()).engine->add(*transfers_.begin()->second);
      for (const auto& replica : replicas_) advance(*replica, at);
    }
    expect_all_ended();
    return result();
  }

 private:
  enum class State : uint8_t { kDown, kStarting, kUp, kDraining };
  struct Replica {
    size_t number = 0;
    std::unique_ptr<Executor> executor;
    std::unique_ptr<Engine> engine;
    StepTotals totals;
    State state = State::kUp;
    Ps since = 0;      // it costs
    Ps ready = 0;      // of one that starts
    Ps link_free = 0;  // of one that prefills for others
  };

  bool scales() const { return config_.autoscaling.least > 0; }
  bool disaggregated() const { return config_.disaggregation.prefill_replicas > 0; }
  size_t decoders() const { return static_cast<size_t>(config_.replicas); }

  // The next arrival, transfer or end of a step; INT64_MAX: nothing more happens.
  Ps next_event() const {
    Ps at = may_send() ? std::max(requests_[next_].arrival, clock_.now()) : INT64_MAX;
    if (!transfers_.empty()) at = std::min(at, transfers_.begin()->first);
    for (const auto& replica : replicas_)
      if (const auto end = replica->engine->next_end()) at = std::min(at, *end);
    return at;
  }

  bool may_send() const {
    if (next_ >= requests_.size()) return false;
    return config_.max_concurrency == 0 || under_way_ < config_.max_concurrency;
  }

  void arrive(Request& request) {
    // Its client measures from when it sent it, which is later than in the trace where others had to end
    // first.
    if (config_.max_concurrency > 0) request.arrival = std::max(request.arrival, clock_.now());
    series_.arrival(request.arrival);
    if (request.max_tokens < 1 || request.prompt_tokens < 1 ||
        request.prompt_tokens >= config_.scheduler.max_model_len) {
      request.status = Status::kFinished;
      request.finish = Finish::kRefused;
      return;
    }
    ++under_way_;
    if (!disaggregated()) {
      choose(request, 0, decoders()).engine->add(request);
      return;
    }
    Request& prefill = prefills_.emplace_back(request);
    prefill.max_tokens = 1;
    choose(prefill, decoders(), replicas_.size()).engine->add(prefill);
  }

  // Among the replicas that take requests, of those from `begin` to `end`.
  Replica& choose(const Request& request, size_t begin, size_t end) {
    open_.clear();
    for (size_t i = begin; i < end; ++i)
      if (is_up(*replicas_[i])) open_.push_back(replicas_[i].get());
    if (open_.size() == 1) return *open_.front();
    if (config_.routing == Routing::kRoundRobin) return *open_[turn_++ % open_.size()];
    if (config_.routing == Routing::kPrefix)
      if (const auto start = prefix_name(request)) return *open_[start % open_.size()];
    return **std::min_element(open_.begin(), open_.end(),
                              [](const Replica* a, const Replica* b) { return load_of(*a) < load_of(*b); });
  }

  bool is_up(Replica& replica) const {
    if (replica.state == State::kStarting && replica.ready <= clock_.now()) replica.state = State::kUp;
    return replica.state == State::kUp;
  }

  static int32_t load_of(const Replica& replica) {
    return replica.engine->scheduler().running() + replica.engine->scheduler().waiting();
  }

  // 0: the prompt has no content that another could share.
  static uint64_t prefix_name(const Request& request) {
    const PromptContent& content = request.content;
    BlockHash hash;
    if (!content.tokens.empty()) {
      const size_t count = std::min<size_t>(content.tokens.size(), kRoutedTokens);
      hash = chained(hash, std::span(content.tokens).first(count));
    } else if (!content.segments.empty()) {
      const auto count = static_cast<size_t>(std::max(1, kRoutedTokens / content.segment_tokens));
      for (size_t i = 0; i < std::min(count, content.segments.size()); ++i)
        hash = chained(hash, content.segments[i]);
    }
    return hash.low;
  }

  // vLLM plans when the outcome of a step has come, or when it was idle; in between it waits for the device.
  void advance(Replica& replica, Ps now) {
    Engine& engine = *replica.engine;
    bool free = !engine.next_end();
    while (engine.next_end() && *engine.next_end() <= now) {
      const std::vector<Request*> ended = engine.take();
      if (replica.number >= decoders())
        for (const Request* prefill : ended) hand_over(replica, *prefill, now);
      else
        under_way_ -= static_cast<int64_t>(ended.size());
      free = true;
    }
    if (free)
      while (engine.start()) {
      }
    if (replica.state == State::kDraining && !engine.busy()) stop(replica, now);
  }

  // The first token is there; keys and values go to whoever will give the rest.
  void hand_over(Replica& from, const Request& prefill, Ps now) {
    Request& request = requests_[static_cast<size_t>(prefill.id)];
    request.first_scheduled = prefill.first_scheduled;
    request.first_token = request.last_token = prefill.first_token;
    request.prefix_hit_tokens = prefill.prefix_hit_tokens;
    request.output_tokens = 1;
    if (request.max_tokens == 1 || request.tokens() >= config_.scheduler.max_model_len) {
      request.status = Status::kFinished;
      request.finish = Finish::kLength;
      --under_way_;
      return;
    }
    const Disaggregation& d = config_.disaggregation;
    request.remote_tokens = request.prompt_tokens;
    from.link_free = std::max(from.link_free, now) +
                     ps_of_seconds(request.prompt_tokens * d.kv_bytes_per_token / (d.link_gb_s * 1e9));
    transfers_.emplace(from.link_free + d.link_latency, &request);
  }

  void stop(Replica& replica, Ps now) {
    replica_ps_ += static_cast<double>(now - replica.since);
    replica.state = State::kDown;
  }

  void scale(Ps now) {
    const Autoscaling& a = config_.autoscaling;
    next_tick_ += a.interval;
    double load = 0;
    int32_t up = 0;
    for (size_t i = 0; i < decoders(); ++i) {
      Replica& replica = *replicas_[i];
      up += is_up(replica) || replica.state == State::kStarting;
      load += load_of(replica);
    }
    const auto wanted = static_cast<int32_t>(std::clamp(
        std::ceil(load / a.target), static_cast<double>(a.least), static_cast<double>(config_.replicas)));
    wanted_.emplace_back(now, wanted);
    while (wanted_.front().first < now - a.down_after) wanted_.pop_front();
    int32_t most = 0;
    for (const auto& [when, count] : wanted_) most = std::max(most, count);
    for (size_t i = 0; i < decoders() && up < wanted; ++i) {
      Replica& replica = *replicas_[i];
      if (replica.state == State::kDraining) {
        replica.state = State::kUp;
        ++up;
      } else if (replica.state == State::kDown) {
        replica.state = State::kStarting;
        replica.since = now;
        replica.ready = now + a.start_time;
        ++up;
      }
    }
    // Those that have not started yet go first, so that one is always up.
    for (size_t i = decoders(); i-- > 0 && up > most;)
      if (replicas_[i]->state == State::kStarting) {
        stop(*replicas_[i], now);
        --up;
      }
    for (size_t i = decoders(); i-- > 0 && up > most;) {
      Replica& replica = *replicas_[i];
      if (replica.state != State::kUp) continue;
      replica.state = State::kDraining;
      --up;
      if (!replica.engine->busy()) stop(replica, now);
    }
  }

  void observe(Replica& replica, const Step& step, const StepRecord& record) {
    replica.totals.add(record);
    int64_t given = 0;
    for (const StepEntry& entry : step.entries) {
      if (!entry.samples || entry.request->finished()) continue;
      ++given;
      if (entry.request->first_token >= 0) itl_.add(milliseconds(record.end - entry.request->last_token));
    }
    const double share =
        static_cast<double>(record.used_blocks) / replica.engine->scheduler().pool().usable_blocks();
    kv_peak_ = std::max(kv_peak_, share);
    running_peak_ = std::max(running_peak_, record.running);
    waiting_peak_ = std::max(waiting_peak_, record.waiting);
    series_.step(replica.number, record, share, given);
  }

  void expect_all_ended() const {
    for (const auto& replica : replicas_) {
      const Scheduler& scheduler = replica->engine->scheduler();
      if (!scheduler.has_requests()) continue;
      throw Fault(FaultKind::kInput, "serving.deadlock",
                  fmt::format("after {:.3f} s no step is possible: {} requests run, {} wait, {} blocks of {} "
                              "are free",
                              seconds(clock_.now()), scheduler.running(), scheduler.waiting(),
                              scheduler.pool().free_blocks(), scheduler.pool().usable_blocks()),
                  "more blocks, or a smaller max_num_seqs");
    }
  }

  Replay result() {
    Replay out;
    for (const auto& replica : replicas_) {
      out.replicas.push_back(replica->totals);
      out.steps.add(replica->totals);
      out.prefix_queries += replica->engine->scheduler().prefix_queries();
      out.prefix_hits += replica->engine->scheduler().prefix_hits();
    }
    for (const auto& replica : replicas_)
      if (replica->state != State::kDown) stop(*replica, out.steps.end);
    out.replica_s = replica_ps_ / kPsPerSecond;
    for (const Request& request : requests_) out.summary.add(request, config_.slo);
    out.summary.itl_ms = std::move(itl_);
    out.kv_peak = kv_peak_;
    out.running_peak = running_peak_;
    out.waiting_peak = waiting_peak_;
    out.series = series_.bins(out.steps.end, static_cast<int32_t>(replicas_.size()));
    out.bin_s = series_.bin_s();
    out.requests = std::move(requests_);
    return out;
  }

  const ReplayConfig& config_;
  VirtualClock clock_;
  std::vector<Request> requests_, prefills_;
  size_t next_ = 0;
  int64_t under_way_ = 0;  // sent and not ended
  std::multimap<Ps, Request*> transfers_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Replica*> open_;
  size_t turn_ = 0;
  Ps next_tick_ = 0;
  std::deque<std::pair<Ps, int32_t>> wanted_;
  double replica_ps_ = 0;
  Series series_;
  Distribution itl_;
  double kv_peak_ = 0;
  int32_t running_peak_ = 0, waiting_peak_ = 0;
};

void expect_fleet(const ReplayConfig& config) {
  const auto refuse = [](std::string why, const char* hint) {
    throw Fault(FaultKind::kInput, "serving.fleet", std::move(why), hint);
  };
  if (config.max_concurrency < 0)
    refuse(fmt::format("{} requests under way at once", config.max_concurrency), "0 (any number), or more");
  if (config.replicas < 1 || config.replicas > kReplicasMax)
    refuse(fmt::format("{} replicas", config.replicas), "1 to 4096");
  const Disaggregation& d = config.disaggregation;
  if (d.prefill_replicas < 0 || d.prefill_replicas > kReplicasMax)
    refuse(fmt::format("{} replicas for prefill", d.prefill_replicas), "0 to 4096");
  if (d.prefill_replicas > 0 && (d.kv_bytes_per_token <= 0 || d.link_gb_s <= 0))
    refuse("keys and values cross a link whose rate, or whose bytes for each token, are not given",
           "both, more than 0: 2 x layers x KV heads x head size x bytes of the dtype for each token");
  const Autoscaling& a = config.autoscaling;
  if (a.least < 0 || a.least > config.replicas)
    refuse(fmt::format("at least {} replicas of {}", a.least, config.replicas), "0: all, always");
  if (a.least > 0 && (!(a.target > 0) || !std::isfinite(a.target) || a.interval <= 0 || a.start_time < 0 ||
                      a.down_after < 0))
    refuse("scaling without a target or an interval", "more than 0");
}

}  // namespace

Routing routing_of(std::string_view name) {
  if (name == "round-robin") return Routing::kRoundRobin;
  if (name == "least-loaded") return Routing::kLeastLoaded;
  if (name == "prefix") return Routing::kPrefix;
  throw Fault(FaultKind::kInput, "serving.fleet", fmt::format("no routing is named '{}'", name),
              "round-robin, least-loaded or prefix");
}

Replay replay(Trace trace, const ReplayConfig& config, const MakeExecutor& make) {
  expect_fleet(config);
  return Fleet(std::move(trace), config, make).run();
}

}  // namespace opentrn::serving
