#include "cli/replay_report.h"

#include <fmt/format.h>

#include "cli/text_table.h"

namespace opentrn::cli {
namespace {

using nlohmann::ordered_json;
using serving::Distribution;
using serving::Replay;

constexpr double kPercentiles[] = {50, 90, 95, 99};

std::string ms_of_seconds(double value) {
  return value < 10 ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}", value);
}

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

double per_second(int64_t count, const Replay& run) {
  const double s = run.summary.duration_s();
  return s > 0 ? static_cast<double>(count) / s : 0;
}

double fraction(double part, double whole) { return whole > 0 ? part / whole : 0; }

double busy_fraction(const Replay& run) { return fraction(serving::seconds(run.steps.busy), run.replica_s); }

void add_latency(TextTable& table, const char* name, const Distribution& values) {
  std::vector<std::string> row{name};
  row.push_back(values.count() ? ms_of_seconds(values.mean()) : "-");
  for (const double p : kPercentiles)
    row.push_back(values.count() ? ms_of_seconds(values.percentile(p)) : "-");
  table.add_row(std::move(row));
}

ordered_json latency_json(const Distribution& values) {
  if (values.count() == 0) return nullptr;
  ordered_json out{{"count", values.count()}, {"mean", values.mean()}};
  for (const double p : kPercentiles) out[fmt::format("p{:.0f}", p)] = values.percentile(p);
  return out;
}

std::string padding_text(const Replay& run) {
  const auto& s = run.steps;
  const auto part = [](int64_t real, int64_t padded) {
    return percent(static_cast<double>(padded - real), static_cast<double>(padded));
  };
  return fmt::format("{} of prefill tokens, {} of decode rows",
                     part(s.prefill_tokens, s.prefill_padded_tokens),
                     part(s.decode_rows, s.decode_padded_rows));
}

std::string scheduler_text(const serving::SchedulerConfig& c) {
  return fmt::format("{}{}, {} seqs, {} batched tokens, {} model len, {} blocks of {}{}", to_string(c.policy),
                     c.async_scheduling ? " (async)" : "", c.max_num_seqs, c.max_num_batched_tokens,
                     c.max_model_len, c.num_blocks, c.block_size,
                     c.prefix_caching ? "" : ", no prefix cache");
}

const char* to_string(serving::Routing routing) {
  switch (routing) {
    case serving::Routing::kRoundRobin: return "round-robin";
    case serving::Routing::kLeastLoaded: return "least-loaded";
    case serving::Routing::kPrefix: return "prefix";
  }
  return "?";
}

std::string replicas_text(const serving::ReplayConfig& config, const Replay& run) {
  const int32_t prefill = config.disaggregation.prefill_replicas;
  std::string out = fmt::format("{}, {}", config.replicas, to_string(config.routing));
  if (prefill > 0) out += fmt::format("; {} more prefill", prefill);
  if (config.autoscaling.least > 0)
    out += fmt::format("; {:.2f} up on average", run.replica_s / serving::seconds(run.steps.end));
  return out;
}

}  // namespace

std::optional<double> usd_per_million(const ReplayFacts& facts, const Replay& run) {
  if (run.summary.output_tokens == 0) return std::nullopt;
  const double millions = static_cast<double>(run.summary.output_tokens) / 1e6;
  if (facts.usd_replica_h) return *facts.usd_replica_h * run.replica_s / 3600 / millions;
  if (facts.usd_h) return *facts.usd_h * run.summary.duration_s() / 3600 / millions;
  return std::nullopt;
}

std::string replay_text(const ReplayFacts& facts, const Replay& run) {
  const auto& s = run.summary;
  TextTable head({"what", "value"});
  const auto line = [&](const char* name, std::string value) { head.add_row({name, std::move(value)}); };
  line("trace", facts.trace);
  line("scheduler", scheduler_text(facts.config.scheduler));
  if (run.replicas.size() > 1) line("replicas", replicas_text(facts.config, run));
  line("step times", facts.times);
  const std::string refused =
      s.refused == 0 ? ""
                     : fmt::format(", {} refused: without a token, or prompts of {} tokens or more",
                                   s.refused, facts.config.scheduler.max_model_len);
  line("requests", fmt::format("{} completed{}", s.completed, refused));
  line("tokens", fmt::format("{} prompt, {} output", s.prompt_tokens, s.output_tokens));
  line("duration", fmt::format("{:.3f} s", s.duration_s()));
  line("throughput", fmt::format("{:.3f} requests/s, {:.1f} output tokens/s", per_second(s.completed, run),
                                 per_second(s.output_tokens, run)));
  if (facts.config.slo.given())
    line("goodput", fmt::format("{:.3f} requests/s ({} of {} keep the SLO)", per_second(s.good, run), s.good,
                                s.requests));
  line("steps", fmt::format("{} ({} prefill, {} decode, {} mixed)", run.steps.steps, run.steps.prefill_steps,
                            run.steps.decode_steps, run.steps.mixed_steps));
  line("device busy", fmt::format("{:.1f} %", 100 * busy_fraction(run)));
  if (facts.config.scheduler.policy != serving::Policy::kVllm) line("padding", padding_text(run));
  line("peak", fmt::format("{} running, {} waiting, {:.1f} % of KV blocks", run.running_peak,
                           run.waiting_peak, 100 * run.kv_peak));
  if (facts.config.scheduler.prefix_caching)
    line("prefix hits",
         percent(static_cast<double>(run.prefix_hits), static_cast<double>(run.prefix_queries)));
  if (s.preemptions) line("preemptions", fmt::format("{}", s.preemptions));
  if (!facts.machine.empty()) {
    const auto usd = usd_per_million(facts, run);
    line("price", fmt::format("{}: {}", facts.machine,
                              usd ? fmt::format("{:.4f} USD per million output tokens", *usd)
                                  : "? (no public price)"));
  }
  TextTable latency({"ms", "mean", "p50", "p90", "p95", "p99"});
  add_latency(latency, "TTFT", s.ttft_ms);
  add_latency(latency, "TPOT", s.tpot_ms);
  add_latency(latency, "ITL", s.itl_ms);
  add_latency(latency, "E2E", s.e2e_ms);
  add_latency(latency, "queue", s.queue_ms);
  return head.str() + "\n" + latency.str();
}

ordered_json replay_json(const ReplayFacts& facts, const Replay& run, bool whole) {
  const auto& s = run.summary;
  const auto& c = facts.config.scheduler;
  const auto usd = usd_per_million(facts, run);
  ordered_json out{
      {"trace", facts.trace},
      {"step_times", facts.times},
      {"scheduler",
       {{"policy", serving::to_string(c.policy)},
        {"max_num_seqs", c.max_num_seqs},
        {"max_num_batched_tokens", c.max_num_batched_tokens},
        {"max_model_len", c.max_model_len},
        {"block_size", c.block_size},
        {"num_blocks", c.num_blocks},
        {"prefix_caching", c.prefix_caching},
        {"async_scheduling", c.async_scheduling},
        {"num_batched_tokens_buckets", c.num_batched_tokens_buckets},
        {"num_seqs_buckets", c.num_seqs_buckets},
        {"decode_context_length_buckets", c.decode_context_length_buckets}}},
      {"replicas", run.replicas.size()},
      {"replica_s", run.replica_s},
      {"requests", {{"all", s.requests}, {"completed", s.completed}, {"refused", s.refused}}},
      {"prompt_tokens", s.prompt_tokens},
      {"output_tokens", s.output_tokens},
      {"duration_s", s.duration_s()},
      {"requests_per_s", per_second(s.completed, run)},
      {"output_tokens_per_s", per_second(s.output_tokens, run)},
      {"ttft_ms", latency_json(s.ttft_ms)},
      {"tpot_ms", latency_json(s.tpot_ms)},
      {"itl_ms", latency_json(s.itl_ms)},
      {"e2e_ms", latency_json(s.e2e_ms)},
      {"queue_ms", latency_json(s.queue_ms)},
      {"goodput_per_s",
       facts.config.slo.given() ? ordered_json(per_second(s.good, run)) : ordered_json(nullptr)},
      {"steps",
       {{"all", run.steps.steps},
        {"prefill", run.steps.prefill_steps},
        {"decode", run.steps.decode_steps},
        {"mixed", run.steps.mixed_steps}}},
      {"device_busy", busy_fraction(run)},
      {"prefill_padding",
       fraction(static_cast<double>(run.steps.prefill_padded_tokens - run.steps.prefill_tokens),
                static_cast<double>(run.steps.prefill_padded_tokens))},
      {"decode_padding", fraction(static_cast<double>(run.steps.decode_padded_rows - run.steps.decode_rows),
                                  static_cast<double>(run.steps.decode_padded_rows))},
      {"kv_peak", run.kv_peak},
      {"running_peak", run.running_peak},
      {"waiting_peak", run.waiting_peak},
      {"prefix_hit_tokens", run.prefix_hits},
      {"prefix_query_tokens", run.prefix_queries},
      {"preemptions", s.preemptions},
      {"machine", facts.machine.empty() ? ordered_json(nullptr) : ordered_json(facts.machine)},
      {"usd_per_million_output_tokens", usd ? ordered_json(*usd) : ordered_json(nullptr)}};
  if (!whole) return out;
  auto series = ordered_json::array();
  for (const serving::Bin& bin : run.series)
    series.push_back({{"running", bin.running},
                      {"waiting", bin.waiting},
                      {"kv_use", bin.kv_use},
                      {"busy", bin.busy},
                      {"prefill_busy", bin.prefill_busy},
                      {"tokens_per_s", bin.tokens_per_s},
                      {"padding", bin.padding},
                      {"arrivals_per_s", bin.arrivals_per_s}});
  out["series"] = {{"bin_s", run.bin_s}, {"bins", std::move(series)}};
  return out;
}

}  // namespace opentrn::cli
