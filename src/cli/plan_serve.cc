#include "cli/plan_serve.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text_file.h"
#include "base/units.h"
#include "cli/text_table.h"
#include "cli/validators.h"
#include "planner/compiled/compiled_layers.h"
#include "planner/hf_config.h"
#include "planner/serve/serve.h"
#include "serving/replay.h"

namespace opentrn::cli {
namespace {

using Json = nlohmann::ordered_json;

// One machine's plans, and what they are asked for.
struct Served {
  planner::Machine machine;
  int64_t count = 0;
  std::optional<planner::Rate> rate;
  std::vector<std::string> published;  // kinds of rates
  planner::ServeProgram program;
  std::unique_ptr<planner::AllReduces> reduces;
  planner::ServeResult result;
  std::string why;  // its layers are not compiled
};

struct ServeLine {
  Served* on = nullptr;
  planner::ServeEstimate plan;
  std::optional<planner::ServeEstimate> curves;  // the same plan, where layers are compiled
  std::optional<serving::Summary> replayed;
  double instances = 1;  // for the rate of requests

  // Dollars of a million output tokens; none without a rate.
  std::optional<double> usd_per_mtok() const {
    if (!on->rate) return std::nullopt;
    return on->rate->usd_h * double(on->count) / 3600 / plan.tokens_s * 1e6;
  }
};

[[noreturn]] void refuse_serve(std::string what, std::string hint) {
  throw Fault(FaultKind::kInput, "plan.serve", std::move(what), std::move(hint));
}

serving::Trace trace_of(const PlanServeOptions& options) {
  expect_text_file(options.trace, "plan.serve", "a file of requests");
  std::ifstream in(options.trace);
  if (!in || in.peek() == std::ifstream::traits_type::eof())
    refuse_serve(fmt::format("'{}' cannot be read, or is empty", options.trace), "a file of requests");
  serving::Trace trace = serving::read_trace(in, options.trace);
  if (trace.requests.empty()) refuse_serve(fmt::format("'{}' has no request", options.trace), "at least one");
  return trace;
}

planner::ServeJob job_of(const PlanOptions& options, const arch::Tables& tables,
                         const serving::Trace* trace) {
  const PlanServeOptions& serve = options.serve;
  planner::ServeJob job;
  job.model = planner::model_of(tables, options.model);
  if (!job.model.causal)
    refuse_serve(fmt::format("{} does not generate: it has no tokens after the first", job.model.name),
                 "a decoder");
  job.precision = options.precision == "fp8"    ? planner::Precision::kFp8
                  : options.precision == "fp32" ? planner::Precision::kFp32
                                                : planner::Precision::kBf16;
  job.prompt = serve.prompt;
  job.output = serve.output;
  if (trace != nullptr) {
    if (serve.prompt > 0 || serve.output > 0)
      refuse_serve("lengths of requests, and a trace that has them", "one of the two");
    for (const auto& request : trace->requests) {
      job.prompt += request.prompt_tokens / double(trace->requests.size());
      job.output += request.output_tokens / double(trace->requests.size());
      job.longest = std::max(job.longest, double(request.prompt_tokens) + request.output_tokens);
    }
  }
  if (job.prompt < 1 || job.output < 1)
    refuse_serve("no lengths of requests", "--prompt-tokens 1500 --output-tokens 250, or --trace FILE");
  if (serve.longest > 0) job.longest = serve.longest;
  if (job.longest <= 0) job.longest = job.prompt + job.output;
  if (job.longest < job.prompt + job.output)
    refuse_serve(fmt::format("requests of {:.0f} tokens, and --max-model-len {:.0f}", job.prompt + job.output,
                             job.longest),
                 "at least as many");
  if (!serve.slo.empty()) {
    const serving::Slo slo = serving::Slo::parse(serve.slo);
    if (slo.ttft_ms) job.ttft_s = *slo.ttft_ms / 1e3;
    if (slo.tpot_ms) job.tpot_s = *slo.tpot_ms / 1e3;
    if (slo.e2e_ms) refuse_serve("--slo e2e", "ttft and tpot, which a plan predicts");
  }
  return job;
}

// Times of the steps of a replay, by the planner.
class PlannedTimes final : public serving::StepTimes {
 public:
  PlannedTimes(const planner::ServeJob& job, const ServeLine& line, planner::LayerSource* source)
      : job_(job), line_(line), source_(source) {}

  serving::Ps of(const serving::Step& step) const override {
    int64_t prompt = 0, rows = 0, context = 1;
    for (const auto& entry : step.entries) {
      if (entry.prefill && entry.tokens > 1) {
        prompt += entry.tokens;
      } else {
        ++rows;
        context = std::max<int64_t>(context, entry.computed_before + entry.tokens);
      }
    }
    double seconds = 0;
    if (prompt > 0) seconds += of({1, bucket(prompt), bucket(prompt)});
    if (rows > 0) seconds += of({bucket_of_rows(rows), 1, bucket(context)});
    return serving::ps_of_seconds(seconds);
  }
  std::string description() const override { return "the planner's"; }

 private:
  static int64_t bucket_of_rows(int64_t rows) {
    int64_t size = 1;
    while (size < rows) size *= 2;
    return size;
  }
  int64_t bucket(int64_t tokens) const {
    int64_t size = 128;
    while (size < tokens) size = line_.on->program.reads_buckets ? 2 * size : size + 128;
    return size;
  }
  double of(const planner::ServeStep& step) const {
    const auto [at, is_new] = asked_.try_emplace({step.sequences, step.tokens, step.context}, 0.0);
    std::string why;
    if (is_new)
      at->second = planner::serve_step(job_, line_.on->machine, line_.on->program, line_.plan.layout.tp, step,
                                       *line_.on->reduces, line_.plan.compiled ? source_ : nullptr, why)
                       .total();
    return at->second;
  }

  const planner::ServeJob& job_;
  const ServeLine& line_;
  planner::LayerSource* source_;
  mutable std::map<std::tuple<int64_t, int64_t, int64_t>, double> asked_;
};

serving::Summary replayed(const planner::ServeJob& job, const ServeLine& line, const serving::Trace& trace,
                          const PlanServeOptions& options, planner::LayerSource* source) {
  serving::ReplayConfig config;
  config.scheduler.policy =
      line.on->machine.kind == planner::Kind::kNeuron ? serving::Policy::kNeuron : serving::Policy::kVllm;
  config.scheduler.max_num_seqs = line.plan.layout.batch;
  config.scheduler.max_model_len = static_cast<int32_t>(std::ceil((job.longest + 1) / 32) * 32);
  config.scheduler.max_num_batched_tokens = std::max(8192, config.scheduler.max_model_len);
  config.scheduler = serving::completed(config.scheduler);
  config.replicas = static_cast<int32_t>(line.plan.copies);
  if (!options.slo.empty()) config.slo = serving::Slo::parse(options.slo);
  const auto times = std::make_shared<PlannedTimes>(job, line, source);
  return serving::replay(
             trace, config,
             [&](int32_t) { return std::make_unique<serving::TimeExecutor>(times, serving::HostTimes{}); })
      .summary;
}

std::string ms(double seconds) { return fmt::format("{:.{}f} ms", 1e3 * seconds, seconds < 0.1 ? 1 : 0); }

Json serve_value_json(double value, double low, double high, const std::string& source) {
  return {{"value", value}, {"low", low}, {"high", high}, {"source", source}};
}

std::string layout_text(const planner::ServeLayout& layout) {
  return fmt::format("TP{} batch {}", layout.tp, layout.batch);
}

std::string table_of(const planner::ServeJob& job, const PlanOptions& options,
                     const std::vector<ServeLine>& lines, const std::vector<Served>& machines) {
  std::string text = fmt::format(
      "{}: {} parameters{}; prompts of {:.0f} tokens, answers of {:.0f}, room for {:.0f}; {}\n",
      job.model.name, planner::count_text(job.model.parameters()), planner::stored_text(job.model),
      job.prompt, job.output, job.longest, options.precision == "fp8" ? "8-bit weights" : options.precision);
  std::vector<std::string> header = {"#"};
  const bool several = machines.size() > 1, compiled = options.compiled > 0;
  if (several) header.emplace_back("on");
  header.insert(header.end(),
                {"copies", "plan", "TTFT", "TPOT", "tokens/s", "req/s", "$/Mtok", "GB/rank", "bound by"});
  if (compiled) header.insert(header.end(), {"layers", "by curves"});
  if (options.serve.rate > 0) header.emplace_back("instances");
  header.emplace_back("TPOT, 80 %");
  TextTable table(header);
  int number = 0;
  for (const ServeLine& line : lines) {
    const planner::ServeEstimate& plan = line.plan;
    std::vector<std::string> cells = {fmt::format("{}", ++number)};
    if (several) cells.push_back(fmt::format("{} x {}", line.on->count, line.on->machine.instance));
    const auto price = line.usd_per_mtok();
    cells.insert(cells.end(),
                 {fmt::format("{}", plan.copies), layout_text(plan.layout), ms(plan.ttft_s), ms(plan.tpot_s),
                  fmt::format("{:.0f}", plan.tokens_s), fmt::format("{:.2f}", plan.requests_s),
                  price ? fmt::format("{:.3f}", *price) : "?",
                  fmt::format("{:.1f}", plan.memory.total() / kBytesPerGb), std::string(plan.bound_by)});
    if (compiled)
      cells.insert(
          cells.end(),
          {plan.compiled ? "compiled" : "curves",
           line.curves
               ? fmt::format(
                     "{:.0f} ({:+.0f}%){}", line.curves->tokens_s,
                     100 * (plan.tokens_s / line.curves->tokens_s - 1),
                     std::abs(plan.tokens_s / line.curves->tokens_s - 1) > planner::kMovedBy ? " !" : "")
               : ""});
    if (options.serve.rate > 0) cells.push_back(fmt::format("{:.0f}", line.instances));
    cells.push_back(fmt::format("{} .. {}", ms(plan.tpot_s * line.on->program.decode_low),
                                ms(plan.tpot_s * line.on->program.decode_high)));
    table.add_row(std::move(cells));
  }
  text += table.str();
  for (const Served& each : machines) {
    text += wrapped(
        fmt::format("{} x {}: {} ranks of {:.1f} GB, program {}; {} plans evaluated", each.count,
                    each.machine.instance, each.machine.ranks, each.machine.memory_bytes / kBytesPerGb,
                    each.program.name, each.result.evaluated),
        0);
    text += wrapped(price_line(each.machine.instance, each.rate, each.published, options), 0);
    if (!each.why.empty()) text += wrapped("Curves, not compiled layers: " + each.why, 0);
  }
  if (compiled)
    text += wrapped(
        "Compiled layers are OpenTrn's own compiler's, not AWS's; \"by curves\" is the same plan's "
        "tokens/s by the curves, ! where the two are more than a tenth apart",
        0);
  for (size_t i = 0; i < lines.size(); ++i)
    if (const auto& run = lines[i].replayed)
      text += wrapped(
          fmt::format(
              "Plan {} in a replay of the trace: TTFT {:.0f} ms (p99 {:.0f}), TPOT {:.1f} ms (p99 "
              "{:.1f}), {:.0f} tokens/s{}",
              i + 1, run->ttft_ms.percentile(50), run->ttft_ms.percentile(99), run->tpot_ms.percentile(50),
              run->tpot_ms.percentile(99), double(run->output_tokens) / std::max(1e-9, run->duration_s()),
              options.serve.slo.empty()
                  ? ""
                  : fmt::format(", {:.1f} % of requests within the limits",
                                100.0 * double(run->good) / double(std::max<int64_t>(1, run->requests)))),
          0);
  return text;
}

Json plan_of(const ServeLine& line, const PlanOptions& options) {
  const planner::ServeEstimate& plan = line.plan;
  const planner::ServeProgram& program = line.on->program;
  const std::string source = fmt::format("planner, program {}, layers {}; 80 % of published rows",
                                         program.name, plan.compiled ? "compiled by OpenTrn" : "by curves");
  Json out{
      {"instance", line.on->machine.instance},
      {"count", line.on->count},
      {"copies", plan.copies},
      {"layout", {{"text", layout_text(plan.layout)}, {"tp", plan.layout.tp}, {"batch", plan.layout.batch}}},
      {"layers", plan.compiled ? "compiled by OpenTrn" : "curves"}};
  const auto scaled = [&](double value, double low, double high) {
    return serve_value_json(value, value * low, value * high, source);
  };
  out["ttft_s"] = scaled(plan.ttft_s, program.prefill_low, program.prefill_high);
  out["tpot_s"] = scaled(plan.tpot_s, program.decode_low, program.decode_high);
  out["prefill_s"] = scaled(plan.prefill.total(), program.prefill_low, program.prefill_high);
  out["decode_step_s"] = scaled(plan.decode.total(), program.decode_low, program.decode_high);
  out["output_tokens_s"] = scaled(plan.tokens_s, 1 / program.decode_high, 1 / program.decode_low);
  out["requests_s"] = scaled(plan.requests_s, 1 / program.decode_high, 1 / program.decode_low);
  if (const auto price = line.usd_per_mtok())
    out["usd_per_million_output_tokens"] =
        serve_value_json(*price, *price * program.decode_low, *price * program.decode_high,
                         fmt::format("{} {}", line.on->rate->source, line.on->rate->date));
  else
    out["usd_per_million_output_tokens"] = nullptr;
  const double memory = plan.memory.total();
  out["memory_bytes"] = serve_value_json(memory, memory * 0.9, memory * 1.1, "planner; +-10 % assumed");
  out["memory_limit_bytes"] = line.on->machine.memory_bytes;
  out["memory_by_cause"] = {{"weights", plan.memory.weights},
                            {"kv", plan.memory.kv},
                            {"working", plan.memory.working},
                            {"runtime", plan.memory.runtime}};
  for (const auto& [name, step] : {std::pair{"prefill", plan.prefill}, {"decode", plan.decode}})
    out["seconds_by_cause"][name] = {{"layers", step.layers},
                                     {"output", step.output},
                                     {"collectives", step.collectives},
                                     {"fixed", step.fixed}};
  out["bound_by"] = plan.bound_by;
  if (line.curves) out["output_tokens_s_by_curves"] = line.curves->tokens_s;
  if (options.serve.rate > 0) out["instances"] = line.instances;
  if (line.replayed)
    out["replay"] = {{"ttft_p50_ms", line.replayed->ttft_ms.percentile(50)},
                     {"ttft_p99_ms", line.replayed->ttft_ms.percentile(99)},
                     {"tpot_p50_ms", line.replayed->tpot_ms.percentile(50)},
                     {"tpot_p99_ms", line.replayed->tpot_ms.percentile(99)},
                     {"requests", line.replayed->requests},
                     {"good", line.replayed->good}};
  return out;
}

[[noreturn]] void refuse_none(const planner::ServeJob& job, const std::vector<Served>& machines) {
  std::string detail;
  bool fits = false, none_divides = true;
  for (const Served& each : machines) {
    detail += fmt::format("; {} x {}: ", each.count, each.machine.instance);
    if (each.result.nearest) {
      fits = true;
      detail +=
          fmt::format("the nearest, {}, has TTFT {} and TPOT {}", layout_text(each.result.nearest->layout),
                      ms(each.result.nearest->ttft_s), ms(each.result.nearest->tpot_s));
    } else if (each.result.smallest) {
      detail += fmt::format(
          "the smallest, {}, needs {:.1f} GB of a rank's {:.1f}", layout_text(each.result.smallest->layout),
          each.result.smallest->memory.total() / kBytesPerGb, each.machine.memory_bytes / kBytesPerGb);
    } else {
      detail += fmt::format("no degree of TP that is asked for divides its {} ranks and is at most {} heads",
                            each.machine.ranks_per_server, job.model.heads);
      continue;
    }
    none_divides = false;
  }
  if (none_divides)
    throw Fault(FaultKind::kInput, "plan.layout", fmt::format("no plan of {}{}", job.model.name, detail),
                "another --tp, or none: it is searched");
  if (fits)
    throw Fault(FaultKind::kCapacity, "plan.slo",
                fmt::format("no plan of {} meets the limits{}", job.model.name, detail),
                "another instance, 8-bit weights, or wider limits");
  throw Fault(FaultKind::kCapacity, "plan.memory",
              fmt::format("no plan of {} fits{}", job.model.name, detail),
              "more memory, --precision fp8, or a smaller --max-model-len");
}

}  // namespace

void check_serve_options(const PlanOptions& options) {
  const PlanServeOptions& serve = options.serve;
  const bool any = serve.prompt > 0 || serve.output > 0 || serve.longest > 0 || serve.rate > 0 ||
                   serve.batch > 0 || !serve.slo.empty() || !serve.trace.empty();
  if (!serve.on && any)
    refuse_serve("lengths, limits or rates of requests, and no --serve", "--serve plans inference");
  if (!serve.on) return;
  const planner::Fixed& fixed = options.search.fixed;
  const std::pair<bool, const char*> training[] = {
      {options.seq > 0, "--seq"},
      {options.global_batch > 0, "--global-batch"},
      {options.tokens > 0, "--tokens"},
      {options.search.fixed.recompute.has_value(), "--recompute"},
      {options.search.fixed.recompute_layers.has_value(), "--recompute-layers"},
      {!options.sp.empty(), "--sp"},
      {!options.stack.empty(), "--stack"},
      {fixed.pp.has_value(), "--pp"},
      {fixed.cp.has_value(), "--cp"},
      {fixed.ep.has_value(), "--ep"},
      {fixed.dp.has_value(), "--dp"},
      {fixed.vpp.has_value(), "--vpp"},
      {fixed.zero.has_value(), "--zero"},
      {!options.html.empty(), "--html"},
      {fixed.micro_batch.has_value(), "--micro-batch"},
      {options.explain > 0, "--explain"},
      {!options.reliability.empty(), "--reliability"},
      {options.exhaustive, "--exhaustive"},
      {!options.format.empty(), "--export"},
      {!options.schedules.empty(), "--schedule"},
      {fixed.offload, "--offload"},
      {!options.layer_times.empty(), "--layer-times"}};
  for (const auto& [given, name] : training)
    if (given) refuse_serve(fmt::format("{} with --serve", name), "it is of training plans");
}

void print_serve_plans(const PlanOptions& options, const arch::Tables& tables, std::ostream& out) {
  std::optional<serving::Trace> trace;
  if (!options.serve.trace.empty()) trace = trace_of(options.serve);
  const planner::ServeJob job = job_of(options, tables, trace ? &*trace : nullptr);
  if (options.instances.empty())
    throw Fault(FaultKind::kInput, "plan.instance", "no --instance",
                "--instance inf2.48xlarge; `opentrn plan --instances` lists what there is");
  planner::PriceQuery prices = options.price;
  if (!options.price_file.empty()) prices.file = planner::read_prices(options.price_file);
  planner::ServeSearch search;
  search.tp = options.search.fixed.tp;
  if (options.serve.batch > 0) search.batch = options.serve.batch;
  search.top = std::max<size_t>(options.search.top, options.compiled);
  std::vector<Served> machines;
  for (const std::string& instance : options.instances)
    for (const int64_t count : options.counts) {
      Served served;
      served.machine = planner::machine_of(tables, instance, count, options.lnc);
      served.count = count;
      served.rate = planner::rate_of(tables, served.machine.instance, prices);
      served.published = planner::published_kinds(tables, served.machine.instance, prices);
      served.program = planner::serve_program_of(tables, served.machine.kind);
      machines.push_back(std::move(served));
    }
  planner::compiled::CompiledLayers compiled;
  std::vector<ServeLine> lines;
  for (Served& each : machines) {
    each.reduces = std::make_unique<planner::AllReduces>(tables, each.machine);
    each.result = planner::serve_search(job, each.machine, each.program, search, *each.reduces);
    size_t left = options.compiled;
    for (const planner::ServeEstimate& plan : each.result.best) {
      ServeLine line{&each, plan, std::nullopt, std::nullopt, 1};
      if (left > 0) {
        --left;
        planner::ServeEstimate other =
            planner::serve(job, each.machine, each.program, plan.layout, *each.reduces, &compiled, each.why);
        if (other.compiled) {
          line.curves = plan;
          line.plan = other;
        }
      }
      lines.push_back(std::move(line));
    }
  }
  if (lines.empty()) refuse_none(job, machines);
  // Cheapest first; what has no price behind, by throughput.
  std::ranges::stable_sort(lines, {}, [](const ServeLine& line) {
    const auto price = line.usd_per_mtok();
    return std::tuple(!price, price.value_or(0), -line.plan.tokens_s / double(line.on->count));
  });
  if (lines.size() > options.search.top) lines.resize(options.search.top);
  for (ServeLine& line : lines) {
    if (options.serve.rate > 0)
      line.instances = std::ceil(options.serve.rate / line.plan.requests_s * double(line.on->count));
    if (trace) line.replayed = replayed(job, line, *trace, options.serve, &compiled);
  }
  if (!options.json) {
    out << table_of(job, options, lines, machines);
    return;
  }
  Json plans = Json::array();
  for (const ServeLine& line : lines) plans.push_back(plan_of(line, options));
  out << Json{{"schema", 1},
              {"model", job.model.name},
              {"stored_as", job.model.stored_as},
              {"parameters", job.model.parameters()},
              {"prompt_tokens", job.prompt},
              {"output_tokens", job.output},
              {"max_model_len", job.longest},
              {"precision", options.precision},
              {"plans", std::move(plans)}}
             .dump(2)
      << "\n";
}

void add_serve_options(CLI::App& command, PlanOptions& options) {
  PlanServeOptions& serve = options.serve;
  const char* group = "Serving";
  const auto tokens = within(1.0, 1e7);
  command.add_flag("--serve", serve.on, "Plan inference, not training")->group(group);
  command.add_option("--prompt-tokens", serve.prompt, "Tokens of a prompt")->check(tokens)->group(group);
  command.add_option("--output-tokens", serve.output, "Tokens of an answer")->check(tokens)->group(group);
  command
      .add_option("--max-model-len", serve.longest, "Tokens that a request may have (default: both together)")
      ->check(tokens)
      ->group(group);
  command.add_option("--batch", serve.batch, "Fix the sequences that a copy decodes at once")
      ->check(whole_within(1, 4096))
      ->group(group);
  command.add_option("--slo", serve.slo, "Limits in ms: ttft=500,tpot=50")->group(group);
  command.add_option("--rate", serve.rate, "Requests a second: how many instances that takes")
      ->check(above_zero())
      ->group(group);
  command.add_option("--trace", serve.trace, "A file of requests, as of opentrn replay, in place of lengths")
      ->group(group);
}

}  // namespace opentrn::cli
