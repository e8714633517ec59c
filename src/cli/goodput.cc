// opentrn goodput: how much of a job's time ends up in the model, where hosts fail.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text_file.h"
#include "cli/commands.h"
#include "cli/text_table.h"
#include "cli/validators.h"
#include "planner/goodput/failures_check.h"
#include "planner/goodput/monte_carlo.h"
#include "planner/goodput/profile.h"
#include "planner/hf_config.h"
#include "planner/machine.h"

namespace opentrn::cli {
namespace {

using planner::Goodput;
using planner::GoodputInterval;
using planner::MonteCarlo;
using planner::UncertainJob;

struct GoodputOptions {
  TableOptions tables;
  planner::GoodputJob job;
  std::string instance, model, check;
  int64_t count = 0;
  double parameters = 0, checkpoint_tb = 0;
  int spares = -1;
  planner::MonteCarloOptions runs;
  bool json = false, list = false;
};

struct Result {
  UncertainJob job;
  planner::Profile profile;
  Goodput exact;
  GoodputInterval interval;
  MonteCarlo played;
};

std::string hours(double value) {
  return value >= 48  ? fmt::format("{:.1f} days", value / 24)
         : value >= 1 ? fmt::format("{:.2f} h", value)
                      : fmt::format("{:.1f} min", 60 * value);
}

void complete(GoodputOptions& options, const arch::Tables& tables) {
  const auto refuse = [](const char* what, const char* hint) {
    throw Fault(FaultKind::kInput, "goodput.value", what, hint);
  };
  if (!options.instance.empty()) {
    if (options.job.chips > 0) refuse("--instance and --chips", "--instance and --count, or --chips");
    const planner::Machine machine =
        planner::machine_of(tables, options.instance, std::max<int64_t>(1, options.count));
    options.job.chips_per_host = machine.ranks_per_server / machine.ranks_per_chip;
    options.job.chips = options.job.chips_per_host * double(std::max<int64_t>(1, options.count));
    options.job.own_hardware = machine.kind == planner::Kind::kGpu;
  } else if (options.count > 0) {
    refuse("--count without --instance", "--instance trn2.48xlarge --count 64");
  }
  if (options.job.chips <= 0) refuse("no chips", "--chips 16384, or --instance trn2.48xlarge --count 64");
  if (!options.model.empty()) options.parameters = planner::model_of(tables, options.model).parameters();
  options.job.checkpoint_bytes = options.checkpoint_tb > 0
                                     ? options.checkpoint_tb * 1e12
                                     : planner::checkpoint_bytes(tables, options.parameters);
  if (options.spares >= 0) options.job.spares = options.spares;
  if (options.job.slow_hosts > 0 && options.job.slowdown <= 0)
    refuse("--slow-hosts without --slowdown", "--slowdown 0.1: by a tenth");
}

std::string report(const GoodputOptions& options, const Result& result) {
  const planner::Reliability& job = result.job.nominal;
  const Goodput& exact = result.exact;
  // With --mttf-h the rate is the caller's; a profile still says what the causes are.
  std::string text = fmt::format(
      "{} chips, {} of a host; {} as {} published them ({})\n", options.job.chips, options.job.chips_per_host,
      options.job.mttf_h > 0 ? "causes of failures, in the stated number," : "failures", result.profile.name,
      result.profile.source);
  text += fmt::format("A failure every {}; a checkpoint of {:.2f} TB every {} of work\n", hours(exact.mttf_h),
                      options.job.checkpoint_bytes / 1e12, hours(job.interval_s / 3600));
  TextTable table({"share of the time", "%", "where from"});
  const auto row = [&](const char* name, double share, const std::string& why) {
    if (share > 0) table.add_row({name, fmt::format("{:.2f}", 100 * share), why});
  };
  row("goodput", exact.useful, "work that is kept");
  row("checkpoints", exact.checkpoints, fmt::format("{:.1f} s of standing still each", job.write_s));
  row("lost work", exact.lost, "since the last whole checkpoint, done again");
  row("restarts", exact.restarts, fmt::format("{:.0f} s each", result.job.restart_s.value));
  row("waiting for hosts", exact.waiting,
      fmt::format("{} spare, {} h of repair", job.spares.value_or(0), job.repair_h));
  row("slow hosts", exact.slow, fmt::format("{:.0f} % of runs have one", 100 * job.slow_chance));
  text += table.str();
  const GoodputInterval& interval = result.interval;
  text += fmt::format("80 % interval of the goodput: {:.1f} to {:.1f} %\n", 100 * interval.useful.low,
                      100 * interval.useful.high);
  const std::pair<double, const char*> widths[] = {{interval.by_rate, "the failure rate"},
                                                   {interval.by_restart, "the time of a restart"},
                                                   {interval.by_write, "the time of a checkpoint"}};
  const auto widest = *std::ranges::max_element(widths);
  if (widest.first > 0)
    text += fmt::format("Most of it comes from {}: alone {:.1f} points\n", widest.second, 100 * widest.first);
  text += wrapped(
      fmt::format("Played through: {} runs of {} days, seed {}, {:.1f} failures each: {:.2f} % (closed form "
                  "{:+.2f} %), four runs in five between {:.1f} and {:.1f} %",
                  options.runs.runs, options.runs.days, options.runs.seed, result.played.failures,
                  100 * result.played.useful, 100 * (exact.useful / result.played.useful - 1),
                  100 * result.played.low, 100 * result.played.high),
      0);
  for (const std::string& each : result.job.assumed) text += wrapped("Assumed: " + each, 0);
  TextTable causes({"cause", "every", "share %"});
  for (const planner::Cause& cause : job.causes)
    if (cause.per_hour > 0)
      causes.add_row({cause.name, hours(1 / cause.per_hour),
                      fmt::format("{:.1f}", 100 * cause.per_hour / job.per_hour())});
  return text + causes.str();
}

nlohmann::ordered_json result_json(const GoodputOptions& options, const Result& result) {
  const auto value = [](double at, double low, double high, const std::string& source) {
    return nlohmann::ordered_json{{"value", at}, {"low", low}, {"high", high}, {"source", source}};
  };
  const Goodput& exact = result.exact;
  const planner::Between& rate = result.job.rate;
  nlohmann::ordered_json out = {
      {"schema", 1}, {"chips", options.job.chips}, {"profile", result.profile.name}};
  out["mttf_h"] =
      value(exact.mttf_h, exact.mttf_h / rate.high, exact.mttf_h / rate.low, result.profile.source);
  out["goodput"] = value(exact.useful, result.interval.useful.low, result.interval.useful.high,
                         "closed form; 80 % interval of its inputs");
  out["played"] = {{"value", result.played.useful},      {"low", result.played.low},
                   {"high", result.played.high},         {"standard_error", result.played.standard_error},
                   {"failures", result.played.failures}, {"runs", options.runs.runs},
                   {"days", options.runs.days},          {"seed", options.runs.seed}};
  out["interval_s"] = result.job.nominal.interval_s;
  out["shares"] = {{"checkpoints", exact.checkpoints},
                   {"lost", exact.lost},
                   {"restarts", exact.restarts},
                   {"waiting", exact.waiting},
                   {"slow", exact.slow}};
  out["width_by"] = {{"rate", result.interval.by_rate},
                     {"restart", result.interval.by_restart},
                     {"checkpoint", result.interval.by_write}};
  for (const planner::Cause& cause : result.job.nominal.causes)
    out["causes_per_hour"][cause.name] = cause.per_hour;
  out["assumed"] = result.job.assumed;
  return out;
}

void run_goodput(GoodputOptions options, std::ostream& out) {
  const auto tables = options.tables.load();
  if (options.list) {
    for (const std::string& name : planner::profiles(*tables)) {
      const planner::Profile profile = planner::profile_of(*tables, name);
      out << fmt::format("{:<12}{:.2e} failures per chip and hour, of {:.0f}: {}\n", name,
                         profile.per_chip_hour(), profile.failures_seen, profile.source);
    }
    return;
  }
  if (!options.check.empty()) {
    const auto check =
        planner::check_failures(*tables, read_text_file(options.check, "plan.file"), options.check);
    out << (options.json ? planner::failures_json(check) + "\n" : planner::failures_text(check));
    return;
  }
  complete(options, *tables);
  Result result;
  result.profile = planner::profile_of(*tables, options.job.profile);
  result.job = planner::reliability_of(*tables, options.job);
  result.exact = planner::goodput_of(result.job.nominal);
  result.interval = planner::goodput_interval(result.job, options.runs.seed);
  result.played = planner::simulate_goodput(result.job.nominal, options.runs);
  if (options.json)
    out << result_json(options, result).dump(2) << "\n";
  else
    out << report(options, result);
}

// What was given and would change nothing.
void refuse_without_effect(const CLI::App& command, const GoodputOptions& options) {
  if (options.list || !options.check.empty()) return;
  const char* const label = "goodput.value";
  if (command.count("--slow-hosts") == 0)
    refuse_given(command, {"--slowdown"}, "only for slow hosts: --slow-hosts says how many are", label);
  if (!options.instance.empty())
    refuse_given(command, {"--chips-per-host"}, "an --instance says how many chips a host has", label);
  if (!options.model.empty())
    refuse_given(command, {"--parameters"}, "only for a model without a name, and --model has one", label);
  if (options.checkpoint_tb > 0)
    refuse_given(command, {"--model", "--parameters"},
                 "only for the size of a checkpoint, which --checkpoint-tb states", label);
}

}  // namespace

void add_goodput(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<GoodputOptions>();
  CLI::App* command =
      app.add_subcommand("goodput", "Predict what failures, checkpoints and restarts leave of a job's time");
  options->tables.add_to(*command);
  planner::GoodputJob& job = options->job;
  const auto positive = above_zero();
  command->add_option("--chips", job.chips, "Chips of the job")->check(within(1.0, 1e8));
  command->add_option("--chips-per-host", job.chips_per_host, "Chips that fail with one host (default: 8)")
      ->check(positive);
  command->add_option("--instance", options->instance,
                      "Instance instead of --chips (`opentrn plan --instances` lists them)");
  command->add_option("--count", options->count, "Number of instances (default: 1)")->check(positive);
  command->add_option("--profile", job.profile,
                      "Published failure rates to use (--profiles lists them; default: llama3)");
  command
      ->add_option("--mttf-h", job.mttf_h,
                   "Mean hours between failures of the job, instead of a profile's rate")
      ->check(positive);
  command->add_option("--model", options->model,
                      "Model whose checkpoints are written: a name, or a config.json");
  command->add_option("--parameters", options->parameters, "Parameters of a model without a name: 405e9")
      ->check(positive);
  command->add_option("--checkpoint-tb", options->checkpoint_tb, "Size of a checkpoint")->check(positive);
  command
      ->add_option("--checkpoint-gb-s", job.checkpoint_gb_s,
                   "Bandwidth of the checkpoint store for all hosts together")
      ->check(positive);
  command
      ->add_option("--stall-s", job.stall_s,
                   "Seconds that a checkpoint stops the job, if it is written in the background after that")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--interval-s", job.interval_s,
                   "Seconds of work between checkpoints (default: the optimum)")
      ->check(positive);
  command->add_option("--restart-s", job.restart_s, "Time from a failure until training continues")
      ->check(positive);
  command->add_option("--spares", options->spares, "Spare hosts (default: always one more)")
      ->check(whole_within(0, 100'000));
  command->add_option("--repair-h", job.repair_h, "Hours until a failed host is a spare again")
      ->check(positive);
  command->add_option("--slow-hosts", job.slow_hosts, "Share of hosts that are slow")
      ->check(within(0.0, 1.0));
  command->add_option("--slowdown", job.slowdown, "Slowdown by a slow host: 0.1")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--runs", options->runs.runs, "Simulated runs (default: 1000)")
      ->check(whole_within(1, 1'000'000));
  command->add_option("--days", options->runs.days, "Days of each simulated run (default: 30)")
      ->check(positive);
  command->add_option("--seed", options->runs.seed, "Seed of the simulation (default: 1)")
      ->check(whole_within(0, INT64_MAX));
  command->add_option("--check", options->check, "Compare with published failure rates of a CSV file");
  command->add_flag("--profiles", options->list, "List the published failures");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, command, &out] {
    refuse_without_effect(*command, *options);
    run_goodput(*options, out);
  });
}

}  // namespace opentrn::cli
