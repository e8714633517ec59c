#include "serving/replay.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"
#include "serving/series.h"

namespace opentrn::serving {
namespace {

// Blocks at the start of a prompt by which the prefix router tells prompts apart.
constexpr int32_t kRoutedTokens = 1024;

class Fleet {
 public:
  Fleet(Trace trace, const ReplayConfig& config, const MakeExecutor& make)
      : config_(config), series_(config.bins) {
    requests_.reserve(trace.requests.size());
    for (TraceRequest& from : trace.requests) {
      Request& request = requests_.emplace_back();
      request.id = static_cast<int64_t>(requests_.size()) - 1;
      request.arrival = from.arrival;
      request.prompt_tokens = from.prompt_tokens;
      request.max_tokens = from.output_tokens;
      request.content = std::move(from.content);
    }
    for (int32_t i = 0; i < config.replicas; ++i) {
      auto& replica = replicas_.emplace_back(std::make_unique<Replica>());
      replica->number = static_cast<size_t>(i);
      replica->executor = make(i);
      replica->engine =
          std::make_unique<Engine>(config.scheduler, clock_, *replica->executor,
                                   [this, r = replica.get()](const Step& step, const StepRecord& record) {
                                     observe(*r, step, record);
                                   });
    }
  }

  Replay run() {
    while (true) {
      Ps at = next_arrival();
      for (const auto& replica : replicas_)
        if (const auto end = replica->engine->next_end()) at = std::min(at, *end);
      if (at == INT64_MAX) break;
      clock_.wait_until(at);
      for (; next_ < requests_.size() && requests_[next_].arrival <= at; ++next_) arrive(requests_[next_]);
      for (const auto& replica : replicas_) advance(*replica, at);
    }
    expect_all_ended();
    return result();
  }

 private:
  struct Replica {
    size_t number = 0;
    std::unique_ptr<Executor> executor;
    std::unique_ptr<Engine> engine;
    StepTotals totals;
  };

  Ps next_arrival() const { return next_ < requests_.size() ? requests_[next_].arrival : INT64_MAX; }

  void arrive(Request& request) {
    series_.arrival(request.arrival);
    if (request.max_tokens < 1 || request.prompt_tokens < 1 ||
        request.prompt_tokens >= config_.scheduler.max_model_len) {
      request.status = Status::kFinished;
      request.finish = Finish::kRefused;
      return;
    }
    choose(request).engine->add(request);
  }

  Replica& choose(const Request& request) {
    if (replicas_.size() == 1) return *replicas_.front();
    if (config_.routing == Routing::kRoundRobin) return *replicas_[turn_++ % replicas_.size()];
    if (config_.routing == Routing::kPrefix)
      if (const auto start = prefix_name(request)) return *replicas_[start % replicas_.size()];
    return **std::min_element(replicas_.begin(), replicas_.end(), [](const auto& a, const auto& b) {
      const auto load = [](const auto& r) {
        return r->engine->scheduler().running() + r->engine->scheduler().waiting();
      };
      return load(a) < load(b);
    });
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
  static void advance(Replica& replica, Ps now) {
    Engine& engine = *replica.engine;
    bool free = !engine.next_end();
    while (engine.next_end() && *engine.next_end() <= now) {
      engine.take();
      free = true;
    }
    if (free)
      while (engine.start()) {
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
      throw Fault(
          FaultKind::kInput, "serving.deadlock",
          fmt::format(
              "after {:.3f} s no step is possible: {} requests run, {} wait, {} blocks of {} are free",
              seconds(clock_.now()), scheduler.running(), scheduler.waiting(), scheduler.pool().free_blocks(),
              scheduler.pool().usable_blocks()),
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
  std::vector<Request> requests_;
  size_t next_ = 0;
  std::vector<std::unique_ptr<Replica>> replicas_;
  size_t turn_ = 0;
  Series series_;
  Distribution itl_;
  double kv_peak_ = 0;
  int32_t running_peak_ = 0, waiting_peak_ = 0;
};

}  // namespace

Routing routing_of(std::string_view name) {
  if (name == "round-robin") return Routing::kRoundRobin;
  if (name == "least-loaded") return Routing::kLeastLoaded;
  if (name == "prefix") return Routing::kPrefix;
  throw Fault(FaultKind::kInput, "serving.fleet", fmt::format("no routing is named '{}'", name),
              "round-robin, least-loaded or prefix");
}

Replay replay(Trace trace, const ReplayConfig& config, const MakeExecutor& make) {
  if (config.replicas < 1 || config.replicas > 4096)
    throw Fault(FaultKind::kInput, "serving.fleet", fmt::format("{} replicas", config.replicas), "1 to 4096");
  return Fleet(std::move(trace), config, make).run();
}

}  // namespace opentrn::serving
