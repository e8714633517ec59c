// opentrn replay: a trace of requests through the scheduler of a server, on a virtual clock.
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "arch/arch.h"
#include "arch/closest.h"
#include "base/new_file.h"
#include "base/text_file.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/replay_report.h"
#include "cli/validators.h"
#include "serving/arrivals.h"
#include "serving/step_times.h"

namespace opentrn::cli {
namespace {

struct ReplayOptions {
  std::string trace, format = "auto";
  size_t limit = 0;
  double speedup = 1;
  std::string arrivals = "poisson";
  serving::SyntheticLoad load;
  std::string policy = "neuron", routing = "least-loaded";
  serving::ReplayConfig replay;
  bool no_prefix_caching = false;
  std::string step_times, linear, slo, instance, html;
  double host_us = 0, host_request_us = 0;
  int32_t replicas_per_instance = 1;
  double kv_link_us = 0, autoscale_start_s = 120, autoscale_down_s = 300;
  bool json = false;
  TableOptions tables;
};

std::ifstream opened(const std::string& path, const char* label) {
  expect_text_file(path, label);
  std::ifstream in(path);
  if (!in || in.peek() == std::ifstream::traits_type::eof())
    throw Fault(FaultKind::kInput, label, fmt::format("'{}' cannot be read, or is empty", path),
                "the path of a file");
  return in;
}

serving::Trace trace_of(const ReplayOptions& options) {
  serving::Trace trace;
  if (options.trace.empty()) {
    trace = serving::synthetic_trace(options.load);
  } else {
    std::ifstream in = opened(options.trace, "serving.trace");
    trace = serving::read_trace(in, options.trace, serving::trace_format_of(options.format), options.limit);
  }
  if (options.speedup == 1) return trace;
  const double most = serving::seconds(serving::kPsMax);
  for (auto& request : trace.requests) {
    const double at = serving::seconds(request.arrival) / options.speedup;
    if (at > most)
      throw Fault(FaultKind::kInput, "serving.trace",
                  fmt::format("{} times as fast, a request comes at {:.0f} s", options.speedup, at),
                  fmt::format("at most {:.0f} s: --speedup of at least {:.3g}, or --limit", most,
                              options.speedup * at / most));
    request.arrival = serving::ps_of_seconds(at);
  }
  return trace;
}

std::shared_ptr<const serving::StepTimes> times_of(const ReplayOptions& options) {
  if (options.step_times.empty() == options.linear.empty())
    throw Fault(FaultKind::kInput, "serving.times", "the times of steps are needed, from one source",
                "--step-times FILE, a table of programs, or --linear "
                "step=500,prefill_token=40,decode_seq=150,context_token=0.02 in us");
  if (!options.linear.empty()) return serving::LinearTimes::parse(options.linear);
  std::ifstream in = opened(options.step_times, "serving.times");
  return serving::TableTimes::read(in, options.step_times);
}

std::string trace_text(const ReplayOptions& options, const serving::Trace& trace) {
  const auto most = options.replay.max_concurrency;
  const std::string under_way = most > 0 ? fmt::format(", at most {} under way", most) : "";
  const std::string faster = options.speedup == 1 ? "" : fmt::format(", {} times as fast", options.speedup);
  if (!options.trace.empty())
    return fmt::format("{} ({}){}{}", options.trace, trace.format, faster, under_way);
  const bool burst = options.arrivals == "burst";
  return fmt::format("{} arrivals{}, seed {}{}{}", options.arrivals,
                     burst ? "" : fmt::format(", {} requests a second", options.load.per_second),
                     options.load.seed, faster, under_way);
}

void find_price(const ReplayOptions& options, ReplayFacts& facts) {
  if (options.instance.empty()) return;
  const auto tables = options.tables.load();
  std::vector<std::string> names;
  for (const auto& instance : tables->instances()) {
    names.push_back(instance.name);
    if (instance.name != options.instance) continue;
    const int32_t each = options.replicas_per_instance;
    const auto& usd = instance.price.on_demand_usd_h;
    if (facts.config.autoscaling.least > 0) {
      facts.machine = fmt::format("{} on demand, as many as are up", instance.name);
      if (usd.known()) facts.usd_replica_h = usd.value() / each;
      return;
    }
    const int32_t replicas = facts.config.replicas + facts.config.disaggregation.prefill_replicas;
    const int32_t count = (replicas + each - 1) / each;
    facts.machine = fmt::format("{} x {} on demand", count, instance.name);
    if (usd.known()) facts.usd_h = usd.value() * count;
    return;
  }
  throw Fault(FaultKind::kInput, "serving.instance",
              fmt::format("no instance is named '{}'", options.instance),
              arch::did_you_mean(options.instance, names, "opentrn ls"));
}

void write_page(const std::string& path, const std::string& page) {
  NewFile file(path, "serving.html", "a path that can be written");
  file.put(page.data(), page.size());
  file.finish();
}

// What was given and would change nothing.
void refuse_without_effect(const CLI::App& command, const ReplayOptions& options) {
  if (options.trace.empty())
    refuse_given(command, {"--format", "--limit"}, "only for a file of requests, and they are drawn");
  else
    refuse_given(command,
                 {"--arrivals", "--rate", "--variation", "--requests", "--prompt-tokens", "--output-tokens",
                  "--spread", "--seed"},
                 "only for requests that are drawn, and a file of them is given");
  if (options.arrivals != "gamma") refuse_given(command, {"--variation"}, "only for --arrivals gamma");
  if (options.arrivals == "burst")
    refuse_given(command, {"--rate"}, "only for a burst, whose requests come all at once");
  const serving::ReplayConfig& replay = options.replay;
  if (replay.replicas <= 1 && replay.disaggregation.prefill_replicas <= 1)
    refuse_given(command, {"--routing"}, "only for several engines, and there is one: --replicas");
  if (replay.disaggregation.prefill_replicas == 0)
    refuse_given(command, {"--kv-bytes-per-token", "--kv-link-gb-s", "--kv-link-us"},
                 "only for keys and values that cross a link, with --prefill-replicas");
  if (replay.autoscaling.least == 0)
    refuse_given(command, {"--autoscale-target", "--autoscale-start-s", "--autoscale-down-s"},
                 "only for engines that start and stop, with --autoscale-min");
  if (options.instance.empty())
    refuse_given(command, {"--replicas-per-instance", "--set", "--tables"},
                 "only for the price of an --instance, and none is named");
}

void run_replay(ReplayOptions& options, std::ostream& out) {
  auto& scheduler = options.replay.scheduler;
  scheduler.policy = serving::policy_of(options.policy);
  scheduler.prefix_caching = !options.no_prefix_caching;
  scheduler = serving::completed(scheduler);
  options.replay.routing = serving::routing_of(options.routing);
  options.replay.disaggregation.link_latency = serving::ps_of_us(options.kv_link_us);
  options.replay.autoscaling.start_time = serving::ps_of_seconds(options.autoscale_start_s);
  options.replay.autoscaling.down_after = serving::ps_of_seconds(options.autoscale_down_s);
  if (!options.slo.empty()) options.replay.slo = serving::Slo::parse(options.slo);
  const auto times = times_of(options);
  ReplayFacts facts;
  facts.config = options.replay;
  find_price(options, facts);
  serving::Trace trace = trace_of(options);
  facts.trace = trace_text(options, trace);
  facts.times = times->description();
  if (options.host_us > 0) facts.times += fmt::format("; host {} us a step", options.host_us);
  if (options.host_request_us > 0)
    facts.times += fmt::format("; host {} us for each request of a step", options.host_request_us);
  const serving::HostTimes host{serving::ps_of_us(options.host_us),
                                serving::ps_of_us(options.host_request_us)};
  const serving::Replay run = serving::replay(std::move(trace), options.replay, [&](int32_t) {
    return std::make_unique<serving::TimeExecutor>(times, host);
  });
  if (!options.html.empty()) write_page(options.html, replay_page(facts, run));
  if (options.json)
    out << replay_json(facts, run, true).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
        << "\n";
  else
    out << replay_text(facts, run);
}

const std::map<std::string, serving::ArrivalProcess> kProcesses{
    {"poisson", serving::ArrivalProcess::kPoisson},
    {"gamma", serving::ArrivalProcess::kGamma},
    {"uniform", serving::ArrivalProcess::kUniform},
    {"burst", serving::ArrivalProcess::kBurst}};

void add_load_options(CLI::App& command, ReplayOptions& options) {
  const char* group = "Requests";
  command.add_option("trace", options.trace, "File of requests; without one they are generated (--arrivals)")
      ->group(group);
  command
      .add_option("--format", options.format,
                  "Format of the file: auto, azure, mooncake, llmservingsim or plain")
      ->group(group);
  command.add_option("--limit", options.limit, "Read at most this many requests of the file (0: all)")
      ->check(whole_within(0, INT64_MAX))
      ->group(group);
  command
      .add_option("--speedup", options.speedup,
                  "Requests arrive this many times as fast as in the file, or as drawn")
      ->check(within(1e-3, 1e6))
      ->group(group);
  command
      .add_option("--arrivals", options.arrivals,
                  "Arrival process: poisson, gamma, uniform or burst (all at once)")
      ->check(CLI::IsMember(kProcesses))
      ->group(group);
  auto& load = options.load;
  command.add_option("--rate", load.per_second, "Requests per second (default: 1)")->group(group);
  command
      .add_option("--variation", load.variation,
                  "For gamma: standard deviation over mean of the gaps; 1 is Poisson")
      ->group(group);
  command.add_option("--requests", load.requests, "Number of requests (default: 1000)")->group(group);
  command.add_option("--prompt-tokens", load.prompt_tokens, "Mean length of prompts (default: 512)")
      ->group(group);
  command.add_option("--output-tokens", load.output_tokens, "Mean length of answers (default: 128)")
      ->group(group);
  command.add_option("--spread", load.spread, "Lengths from mean * (1 - spread) to mean * (1 + spread)")
      ->group(group);
  command
      .add_option(
          "--max-concurrency", options.replay.max_concurrency,
          "Clients have at most this many requests under way; the next follows when one ends (0: any)")
      ->check(whole_within(0, 1 << 30))
      ->group(group);
  command.add_option("--seed", load.seed, "Seed of the generated requests")
      ->check(whole_within(0, INT64_MAX))
      ->group(group);
}

void add_fleet_options(CLI::App& command, ReplayOptions& options) {
  const char* group = "Several engines";
  auto& r = options.replay;
  const auto seconds = within(0.0, 1e6);
  const auto add = [&](const char* name, auto& to, const char* text) {
    return command.add_option(name, to, text)->group(group);
  };
  add("--replicas", r.replicas, "Data-parallel engines (default: 1)");
  add("--routing", options.routing, "Routing: round-robin, least-loaded or prefix");
  add("--prefill-replicas", r.disaggregation.prefill_replicas,
      "Engines that only prefill, besides the --replicas, which decode");
  add("--kv-bytes-per-token", r.disaggregation.kv_bytes_per_token,
      "Bytes of keys and values that cross a link after prefill")
      ->check(within(0.0, 1e12));
  add("--kv-link-gb-s", r.disaggregation.link_gb_s,
      "Bandwidth of a prefill engine's link, in 1e9 bytes per second")
      ->check(within(1e-6, 1e9));
  add("--kv-link-us", options.kv_link_us, "Latency of the link")->check(within(0.0, 3.6e9));
  add("--autoscale-min", r.autoscaling.least, "Scale from this many engines to --replicas (0: always all)");
  add("--autoscale-target", r.autoscaling.target, "Running and waiting requests per engine (default: 8)")
      ->check(within(1e-3, 1e6));
  add("--autoscale-start-s", options.autoscale_start_s, "Seconds to start an engine (default: 120)")
      ->check(seconds);
  add("--autoscale-down-s", options.autoscale_down_s, "Seconds before engines stop (default: 300)")
      ->check(seconds);
}

void add_scheduler_options(CLI::App& command, ReplayOptions& options) {
  const char* group = "Scheduler (names of vLLM's flags and of AWS's neuron_config)";
  auto& c = options.replay.scheduler;
  command.add_option("--policy", options.policy, "Scheduling policy: neuron, neuron-nxdi or vllm")
      ->group(group);
  command.add_option("--max-num-seqs", c.max_num_seqs, "Requests that run concurrently (default: 8)")
      ->group(group);
  command
      .add_option("--max-num-batched-tokens", c.max_num_batched_tokens, "Tokens in a step (default: 8192)")
      ->group(group);
  command
      .add_option("--max-model-len", c.max_model_len, "Tokens of a request, answer included (default: 32768)")
      ->group(group);
  command.add_option("--block-size", c.block_size, "Tokens in a block of KV cache (default: 32)")
      ->group(group);
  command
      .add_option("--num-gpu-blocks-override", c.num_blocks,
                  "Blocks (default: enough for max-num-seqs of max-model-len)")
      ->group(group);
  command
      .add_flag("--no-enable-prefix-caching", options.no_prefix_caching, "Compute every prompt completely")
      ->group(group);
  command.add_flag("--async-scheduling", c.async_scheduling, "Plan a step while the one before it runs")
      ->group(group);
  command
      .add_option("--long-prefill-token-threshold", c.long_prefill_token_threshold,
                  "Largest part of a prompt in one step (0: no limit)")
      ->group(group);
  const auto buckets = [&](const char* name, std::vector<int32_t>& to, const char* text) {
    command.add_option(name, to, text)->delimiter(',')->group(group);
  };
  buckets("--num-batched-tokens-buckets", c.num_batched_tokens_buckets,
          "Compiled sizes of prefill: 128,256,...");
  buckets("--num-seqs-buckets", c.num_seqs_buckets, "Compiled batches of decode: 1,2,4,...");
  buckets("--decode-context-length-buckets", c.decode_context_length_buckets,
          "Compiled contexts of decode (default: one)");
}

}  // namespace

void add_replay(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* command =
      app.add_subcommand("replay", "Run a trace of requests through a server's scheduler, in virtual time");
  add_load_options(*command, *options);
  add_scheduler_options(*command, *options);
  add_fleet_options(*command, *options);
  const char* group = "Time, machine and output";
  command
      ->add_option("--step-times", options->step_times,
                   "Table of step times, CSV program,us: prefill_s512, decode_b8, decode_b8_c2048")
      ->group(group);
  command
      ->add_option("--linear", options->linear,
                   "Linear model in us: step=500,prefill_token=40,decode_seq=150,context_token=0.02")
      ->group(group);
  command->add_option("--host-us", options->host_us, "Host time before each step (default: 0)")
      ->check(within(0.0, 3.6e9))
      ->group(group);
  command
      ->add_option("--host-request-us", options->host_request_us,
                   "Host time before each step for each request that it gives a token (default: 0)")
      ->check(within(0.0, 3.6e9))
      ->group(group);
  command->add_option("--instance", options->instance, "Instance, for the price: trn2.48xlarge")
      ->group(group);
  command
      ->add_option("--replicas-per-instance", options->replicas_per_instance,
                   "Engines per instance (default: 1)")
      ->check(whole_within(1, 4096))
      ->group(group);
  command->add_option("--slo", options->slo, "Limits in ms for goodput: ttft=500,tpot=50,e2e=20000")
      ->group(group);
  command->add_flag("--json", options->json, "Print JSON, with the series over time")->group(group);
  command->add_option("--html", options->html, "Write a page with plots over time")->group(group);
  options->tables.add_to(*command);
  command->callback([options, command, &out] {
    refuse_without_effect(*command, *options);
    options->load.process = kProcesses.at(options->arrivals);
    run_replay(*options, out);
  });
}

}  // namespace opentrn::cli
