// opentrn plan: the layouts of a training job on instances, what they take and cost, and how far to trust
// that.
#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/new_file.h"
#include "base/text_file.h"
#include "cli/commands.h"
#include "cli/plan_export.h"
#include "cli/plan_job_file.h"
#include "cli/plan_options.h"
#include "cli/plan_program.h"
#include "cli/plan_serve.h"
#include "cli/program_file.h"
#include "cli/validators.h"
#include "planner/check/report.h"
#include "planner/compiled/compiled_layers.h"
#include "planner/hf_config.h"
#include "planner/recompute.h"
#include "planner/schedule.h"
#include "planner/serve/serve_check.h"
#include "planner/stated_layers.h"

namespace opentrn::cli {
namespace {

void print_check(const PlanOptions& options, const arch::Tables& tables, std::ostream& out) {
  if (options.serve.on) {
    planner::compiled::CompiledLayers compiled;
    const planner::ServeCheck check =
        planner::check_serving(tables, read_text_file(options.check, "plan.file"), options.check,
                               options.compiled > 0 ? &compiled : nullptr);
    if (options.json)
      out << planner::serve_check_json(check) << "\n";
    else
      out << planner::serve_check_text(check, options.rows);
    return;
  }
  const planner::Check check = planner::check_rows(
      tables, planner::read_rows(read_text_file(options.check, "plan.file"), options.check));
  if (options.json)
    out << planner::check_json(check) << "\n";
  else
    out << planner::check_text(check, options.rows);
}

planner::Job job_of(const PlanOptions& options, const arch::Tables& tables) {
  planner::Job job;
  job.model = planner::model_of(tables, options.model);
  const auto need = [](double value, const char* name, const char* hint) {
    if (value < 1 || value != static_cast<double>(static_cast<int64_t>(value)))
      throw Fault(FaultKind::kInput, "plan.job", fmt::format("{} is {}", name, value), hint);
  };
  job.seq = options.seq == 0 ? job.model.image_sequence : options.seq;
  need(job.seq, "--seq", "tokens in a sequence: --seq 8192");
  need(options.global_batch, "--global-batch", "sequences in a step: --global-batch 1024");
  if (job.model.text_tokens >= job.seq)
    throw Fault(FaultKind::kInput, "plan.job",
                fmt::format("--seq is {}, and {} tokens of it are of text", job.seq, job.model.text_tokens),
                "tokens of the image and of text together: 4429 for 1024 x 1024 pixels");
  if (job.model.positions > 0 && job.seq > job.model.positions)
    throw Fault(
        FaultKind::kInput, "plan.job",
        fmt::format("--seq is {}, and the model has learned positions for {}", job.seq, job.model.positions),
        fmt::format("--seq {} or less, or a config with more positions", job.model.positions));
  job.global_batch = options.global_batch;
  job.tokens = options.tokens;
  job.precision = options.precision == "fp8"    ? planner::Precision::kFp8
                  : options.precision == "fp32" ? planner::Precision::kFp32
                                                : planner::Precision::kBf16;
  return job;
}

// Without pods each unit is one where what is above it is oversubscribed.
fabric::Cluster cluster_of(const PlanLinksOptions& links) {
  fabric::Cluster cluster;
  cluster.pod_units = links.pod == 0 && links.oversubscription != 1 ? 1 : links.pod;
  cluster.oversubscription = links.oversubscription;
  return cluster;
}

planner::SearchOptions search_of(const PlanOptions& options) {
  planner::SearchOptions search = options.search;
  search.cut = !options.exhaustive;
  for (const std::string& name : options.schedules)
    search.fixed.schedules.push_back(*planner::schedule_named(name));
  if (const std::string why = planner::unused_because(search.fixed); !why.empty())
    throw Fault(FaultKind::kInput, "plan.layout", why, "another pp, or none of the two");
  if (options.format == "jax") {  // one program on all ranks has 1F1B in ticks
    std::vector<planner::Schedule>& schedules = search.fixed.schedules;
    if (schedules.empty()) schedules.push_back(planner::Schedule::k1F1B);
    std::ranges::replace(schedules, planner::Schedule::k1F1B, planner::Schedule::k1F1BInTicks);
    std::ranges::replace(schedules, planner::Schedule::kZbH1, planner::Schedule::kZbInTicks);
    std::ranges::replace(schedules, planner::Schedule::kDualPipe, planner::Schedule::kDualInTicks);
  }
  search.top = std::max<size_t>(search.top, options.compiled);
  if (!options.sp.empty()) search.fixed.sp = options.sp == "on";
  return search;
}

// The training program, with what its recomputation is asked for, and without what has no words in an export.
planner::Stack stack_for(const PlanOptions& options, const arch::Tables& tables, planner::Kind kind) {
  planner::Stack stack =
      planner::stack_of(tables, options.stack.empty() ? planner::default_stack(kind) : options.stack);
  const planner::Fixed& fixed = options.search.fixed;
  const int layers = fixed.recompute_layers.value_or(0);
  if (const std::string why = planner::unknown_to_because(stack, fixed.recompute, layers); !why.empty())
    throw Fault(FaultKind::kInput, "plan.recompute", why,
                layers > 0 ? "--stack megatron-core, or no --recompute-layers"
                           : "--stack maxtext, or --recompute none, selective or full");
  const bool has_words = options.format.empty() || options.format == "megatron";
  if (!has_words && planner::recomputes_some(stack)) stack.recomputes = "none full";
  return stack;
}

// How many more instances of the first machine have room, where as many as are tried do.
std::string room_text(const planner::Job& job, const PlanOptions& options, const arch::Tables& tables,
                      const Planned& on) {
  constexpr int64_t kMost = 4096;
  planner::SearchOptions search = search_of(options);
  search.top = 1;
  try {
    for (int64_t count = 2 * on.count; count <= kMost; count *= 2) {
      const planner::Machine machine = planner::machine_of(tables, on.machine.instance, count, options.lnc);
      if (!planner::search(job, machine, on.stack, search).best.empty())
        return fmt::format("--count {}, which has room", count);
    }
  } catch (const Fault& fault) {  // several of a kind whose network nobody published
    if (fault.kind() == FaultKind::kInternal) throw;
    return "an instance with more memory, or fewer fixed degrees";
  }
  return "fewer fixed degrees, or a larger global batch: more instances have no room either";
}

[[noreturn]] void refuse_none(const planner::Job& job, const PlanOptions& options, const arch::Tables& tables,
                              const std::vector<Planned>& machines) {
  std::string detail;
  for (const Planned& each : machines) {
    if (each.result.nearest) {
      const auto& nearest = *each.result.nearest;
      detail += fmt::format("{} x {}: the nearest, {}, needs {:.1f} GB of a rank's {:.1f}; ", each.count,
                            each.machine.instance, planner::to_string(nearest.layout),
                            nearest.memory.total() / 1e9, each.machine.memory_bytes / 1e9);
    } else {
      const std::string why = planner::none_legal_because(job, each.machine, search_of(options).fixed);
      detail += fmt::format("{} x {}: no legal layout{}{}; ", each.count, each.machine.instance,
                            why.empty() ? "" : ": ", why);
    }
  }
  if (detail.ends_with("; ")) detail.resize(detail.size() - 2);
  const bool fits_nowhere =
      std::ranges::any_of(machines, [](const Planned& each) { return each.result.nearest.has_value(); });
  if (fits_nowhere)
    throw Fault(FaultKind::kCapacity, "plan.memory",
                fmt::format("no layout of {} fits: {}", job.model.name, detail),
                room_text(job, options, tables, machines.front()));
  const bool is_precision = detail.find("--precision") != std::string::npos;
  throw Fault(
      FaultKind::kInput, "plan.layout", fmt::format("{}: {}", job.model.name, detail),
      is_precision
          ? "--precision bf16"
          : fmt::format("degrees must divide {} heads, {} layers, the ranks, and the global batch of {}",
                        job.model.heads, job.model.layers, job.global_batch));
}

void print_plans(const PlanOptions& options, const arch::Tables& tables, std::ostream& out) {
  const planner::Job job = job_of(options, tables);
  std::vector<Planned> machines;
  planner::PriceQuery prices = options.price;
  if (!options.price_file.empty()) prices.file = planner::read_prices(options.price_file);
  if (options.instances.empty())
    throw Fault(FaultKind::kInput, "plan.instance", "no --instance",
                "--instance trn1.32xlarge --count 32; `opentrn plan --instances` lists what there is");
  for (const std::string& instance : options.instances)
    for (const int64_t count : options.counts) {
      Planned planned;
      planned.machine = planner::machine_of(tables, instance, count, options.lnc);
      planned.count = count;
      planned.rate = planner::rate_of(tables, planned.machine.instance, prices);
      planned.published = planner::published_kinds(tables, planned.machine.instance, prices);
      machines.push_back(std::move(planned));
    }
  planner::compiled::CompiledLayers compiled;
  for (Planned& each : machines) {
    each.stack = stack_for(options, tables, each.machine.kind);
    each.result = planner::search(job, each.machine, each.stack, search_of(options));
    if (!options.layer_times.empty()) {
      planner::StatedLayers stated(read_text_file(options.layer_times, "plan.file"), options.layer_times);
      each.recost =
          planner::recost(job, each.machine, each.stack, each.result.best.size(), stated, each.result);
    } else if (options.compiled > 0 && each.machine.kind == planner::Kind::kNeuron) {
      const int64_t before = compiled.compiled();
      each.recost = planner::recost(job, each.machine, each.stack, options.compiled, compiled, each.result);
      each.programs = compiled.compiled() - before;
    }
    if (options.links.on)
      each.on_links = planner::cost_on_links(tables, job, each.machine, each.stack, cluster_of(options.links),
                                             options.search.top, each.result);
    set_goodput(options, tables, planner::checkpoint_bytes(tables, job.model.parameters()), each);
  }
  std::vector<Line> lines;
  for (const Planned& each : machines)
    for (const planner::Estimate& plan : each.result.best) lines.push_back({&each, &plan});
  if (lines.empty()) refuse_none(job, options, tables, machines);
  // Of a machine whose finalists are compiled, or costed on its links, the others come last.
  std::ranges::stable_sort(lines, {}, [&](const Line& line) {
    return std::tuple(line.on->on_links && !line.plan->tiers_s, line.on->recost && !line.plan->curves_s,
                      line.plan->step_s * line.on->stretch());
  });
  if (lines.size() > options.search.top) lines.resize(options.search.top);
  if (options.explain > static_cast<int>(lines.size()))
    throw Fault(FaultKind::kInput, "plan.explain", fmt::format("there is no plan {}", options.explain),
                fmt::format("1 to {}", lines.size()));
  if (!options.html.empty()) write_page(options.html, plan_page(tables, job, options, machines, lines));
  std::string written;
  if (!options.format.empty())
    written = export_plan(job, lines[std::max(1, options.explain) - 1], options.format, options.folder);
  if (options.json) {
    out << plan_json(tables, job, options, machines, lines) << "\n";
    return;
  }
  out << plan_table(tables, job, options, machines, lines);
  if (!written.empty()) out << fmt::format("Plan {} is in {}\n", std::max(1, options.explain), written);
  if (options.format == "jax" && lines[std::max(1, options.explain) - 1].on->stack.name != "opentrn")
    out << wrapped(
        fmt::format("Its step is that of program {}; what OpenTrn makes of the file itself takes as long "
                    "as a plan with --stack opentrn --compiled 1 on a Neuron instance says",
                    lines[std::max(1, options.explain) - 1].on->stack.name),
        0);
  if (options.explain > 0) out << plan_explained(tables, job, lines[options.explain - 1], options.explain);
}

bool is_job_file(const std::string& name) { return name.ends_with(".yaml") || name.ends_with(".yml"); }

void answer(PlanOptions options, std::ostream& out);

void run_plan(const CLI::App& command, PlanOptions options, std::ostream& out) {
  if (is_job_file(options.model)) {
    read_job_file(std::string(options.model), options);
  } else if (is_program_file(options.model)) {
    options.program.file = std::exchange(options.model, "");
  }
  const std::map<std::string, std::string> places = options.places;
  try {
    check_program_options(command, options);
    answer(std::move(options), out);
  } catch (const Fault& fault) {
    // What the job file states, and only the planner can judge: with the file's line.
    const auto place = places.find(fault.label());
    if (place == places.end()) throw;
    Fault located(fault.kind(), fault.label(), fmt::format("{}: {}", place->second, fault.message()),
                  fault.hint());
    throw located;
  }
}

void answer(PlanOptions options, std::ostream& out) {
  check_serve_options(options);
  if (options.counts.empty()) options.counts = {1};
  if (options.precision.empty()) options.precision = "bf16";
  const auto tables = options.tables.load();
  if (options.list_models) {
    for (const std::string& name : planner::model_names(*tables)) out << name << "\n";
  } else if (options.list_instances) {
    for (const std::string& name : planner::plannable_instances(*tables)) out << name << "\n";
  } else if (!options.check.empty()) {
    print_check(options, *tables, out);
  } else if (!options.program.file.empty()) {
    print_program_plans(options, *tables, out);
  } else if (options.model.empty()) {
    throw Fault(
        FaultKind::kInput, "plan.model", "no model",
        "opentrn plan config.json --instance trn1.32xlarge --count 32 --seq 8192 --global-batch 1024");
  } else if (options.serve.on) {
    print_serve_plans(options, *tables, out);
  } else {
    print_plans(options, *tables, out);
  }
}

void add_fixed(CLI::App& command, PlanOptions& options) {
  planner::Fixed& fixed = options.search.fixed;
  const auto degree = [&](const char* name, std::optional<int>& to, const char* text) {
    command.add_option(name, to, text)->check(whole_within(1, 1 << 20));
  };
  degree("--tp", fixed.tp, "Fix the ranks of tensor parallelism");
  degree("--cp", fixed.cp, "Fix the ranks of context parallelism");
  degree("--pp", fixed.pp, "Fix the stages of the pipeline");
  degree("--vpp", fixed.vpp, "Fix the chunks on a stage (interleaved schedule)");
  degree("--ep", fixed.ep, "Fix the ranks that share a set of experts");
  degree("--dp", fixed.dp, "Fix the ranks of data parallelism");
  degree("--micro-batch", fixed.micro_batch, "Fix the sequences of a micro-batch");
  command
      .add_option("--zero", fixed.zero,
                  "Fix what ZeRO shards: 0 nothing, 1 optimizer, 2 gradients, 3 weights")
      ->check(whole_within(0, 3));
  command
      .add_option_function<std::string>(
          "--recompute",
          [&fixed](const std::string& name) { fixed.recompute = planner::recompute_named(name); },
          fmt::format("Fix the recomputation: {}", fmt::join(planner::recompute_names(), ", ")))
      ->check(CLI::IsMember(planner::recompute_names()));
  degree("--recompute-layers", fixed.recompute_layers,
         "Fix the blocks of a stage's chunk that are recomputed");
  command
      .add_option("--schedule", options.schedules,
                  fmt::format("Pipeline schedules to search: {} (default: 1f1b)",
                              fmt::join(planner::schedule_names(), ", ")))
      ->check(CLI::IsMember(planner::schedule_names()));
  command.add_flag("--offload", fixed.offload,
                   "Keep optimizer states in the host's memory; the host updates them");
  command.add_option("--sp", options.sp, "Fix sequence parallelism")->check(CLI::IsMember({"on", "off"}));
}

// What was given and would change nothing.
void refuse_without_effect(const CLI::App& command, const PlanOptions& options) {
  if (options.check.empty()) refuse_given(command, {"--rows"}, "only for --check, which is not asked for");
  if (options.format.empty())
    refuse_given(command, {"--output"}, "the folder of --export, which is not asked for");
  if (!options.links.on && !is_job_file(options.model))
    refuse_given(command, {"--pod", "--oversubscription"}, "only for --links, which is not asked for");
  if (options.serve.on)
    refuse_given(command, {"--checkpoint-gb-s", "--restart-s", "--spares", "--links"},
                 "only for training plans, and this is --serve", "plan.serve");
  else
    refuse_given(
        command,
        {"--prompt-tokens", "--output-tokens", "--max-model-len", "--batch", "--slo", "--rate", "--trace"},
        "only for requests, which --serve plans for", "plan.serve");
  if (options.reliability.empty() && !is_job_file(options.model) && !options.serve.on)
    refuse_given(command, {"--checkpoint-gb-s", "--restart-s", "--spares"},
                 "only for failures, which --reliability llama3 counts (`opentrn goodput --profiles`)",
                 "plan.reliability");
}

}  // namespace

void set_goodput(const PlanOptions& options, const arch::Tables& tables, double checkpoint_bytes,
                 Planned& on) {
  if (options.reliability.empty()) {
    if (options.checkpoint_gb_s > 0 || options.restart_s > 0 || options.spares >= 0)
      throw Fault(FaultKind::kInput, "plan.reliability", "checkpoints, restarts or spares, and no failures",
                  "--reliability llama3; `opentrn goodput --profiles` lists what there is");
    return;
  }
  planner::GoodputJob ask;
  ask.profile = options.reliability;
  ask.chips = double(on.machine.ranks) / on.machine.ranks_per_chip;
  ask.chips_per_host = on.machine.ranks_per_server / on.machine.ranks_per_chip;
  ask.own_hardware = on.machine.kind == planner::Kind::kGpu;
  ask.checkpoint_bytes = checkpoint_bytes;
  ask.checkpoint_gb_s = options.checkpoint_gb_s;
  ask.restart_s = options.restart_s;
  if (options.spares >= 0) ask.spares = options.spares;
  const planner::UncertainJob reliability = planner::reliability_of(tables, ask);
  on.goodput = planner::goodput_interval(reliability, 1);
  on.mttf_h = planner::goodput_of(reliability.nominal).mttf_h;
  on.assumed = reliability.assumed;
}

void write_page(const std::string& path, const std::string& page) {
  NewFile file(path, "cli.output", "a path in an existing folder");
  file.put(page.data(), page.size());
  file.finish();
}

void add_plan(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Layouts of a training job: time, memory and cost");
  options->tables.add_to(*command);
  command->add_option(
      "model", options->model,
      "A config.json of Hugging Face, a model's name (--models lists them), a program (StableHLO, HLO, "
      "ONNX, or exported by PyTorch or JAX), or a job file in YAML");
  command->add_option("--instance", options->instances,
                      "Instances to plan for (--instances lists them); several are compared");
  command
      ->add_option("--count", options->counts,
                   "Number of instances; several numbers are compared (default: 1)")
      ->check(whole_within(int64_t{1}, int64_t{100'000}));
  command->add_option("--seq", options->seq, "Tokens in a sequence");
  command->add_option("--global-batch", options->global_batch, "Sequences in a step");
  command
      ->add_option("--tokens", options->tokens, "Tokens of the whole training, for hours and dollars: 15e12")
      ->check(above_zero());
  command->add_option("--precision", options->precision, "Precision of the matrix products (default: bf16)")
      ->check(CLI::IsMember({"bf16", "fp8", "fp32"}));
  command->add_option("--stack", options->stack, "Training software to model (default: that of the chip)");
  add_fixed(*command, *options);
  add_serve_options(*command, *options);
  add_program_options(*command, *options);
  command->add_option("--top", options->search.top, "Plans to print (default: 10)")
      ->check(whole_within(1, 1000));
  command->add_option("--explain", options->explain, "Show where the time and memory of plan N go")
      ->check(whole_within(1, 1000));
  command
      ->add_option(
          "--compiled", options->compiled,
          "Compile and time the layers of the best N plans on Neuron machines, by OpenTrn's own compiler "
          "(N: 32)")
      ->expected(0, 1)
      ->default_str("32")
      ->check(whole_within(1, 1000));
  command
      ->add_option(
          "--layer-times", options->layer_times,
          "Your layer times instead of curves: CSV tp,cp,sp,micro_batch,forward_us,backward_us,output_us")
      ->excludes("--compiled");
  command->add_flag("--links", options->links.on,
                    "Simulate the collectives of the printed plans on the links of the instances and of the "
                    "network between them");
  command->add_option("--pod", options->links.pod, "With --links: instances of a pod (default: no pods)")
      ->check(whole_within(1, 1 << 20));
  command
      ->add_option("--oversubscription", options->links.oversubscription,
                   "With --links: bandwidth of a pod's adapters over that of its uplinks (default: 1)")
      ->check(within(1.0, 1000.0));
  command->add_option("--lnc", options->lnc, "Cores of a logical NeuronCore (default: the instance's)")
      ->check(whole_within(1, 2));
  command->add_flag("--exhaustive", options->exhaustive, "Evaluate every layout; the result is the same");
  command->add_option("--price", options->price.kind, "on_demand, reserved, capacity_block or spot");
  command
      ->add_option("--price-file", options->price_file,
                   "Your rates, in the form of price.toml; they take precedence")
      ->envname("OPENTRN_PRICES");
  command->add_option("--as-of", options->price.as_of, "Use the rate that was valid then: 2025-01");
  command->add_option("--reliability", options->reliability,
                      "Count failures by a published profile (`opentrn goodput --profiles` lists them)");
  command->add_option("--checkpoint-gb-s", options->checkpoint_gb_s, "Bandwidth of the checkpoint store")
      ->check(above_zero());
  command->add_option("--restart-s", options->restart_s, "Time from a failure until training continues")
      ->check(above_zero());
  command->add_option("--spares", options->spares, "Spare hosts (default: always one more)")
      ->check(whole_within(0, 100'000));
  command->add_flag("--models", options->list_models, "List the models of the catalogue");
  command->add_flag("--instances", options->list_instances, "List the instances");
  command
      ->add_option("--export", options->format,
                   "Write plan 1 (or that of --explain) as a program or its configuration into the folder -o")
      ->check(CLI::IsMember({"jax", "torchtitan", "nxdt", "megatron", "maxtext"}));
  command->add_option("-o,--output", options->folder, "The folder of --export (default: .)");
  command->add_option("--check", options->check, "Compare with published rows of a CSV file");
  command->add_flag("--rows", options->rows, "With --check: print every row");
  command->add_option("--html", options->html, "Also write a page: time against money, memory, the schedule");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, command, &out] {
    refuse_without_effect(*command, *options);
    run_plan(*command, *options, out);
  });
}

}  // namespace opentrn::cli
