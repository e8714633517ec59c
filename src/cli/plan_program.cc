#include "cli/plan_program.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/program_file.h"
#include "cli/text_table.h"
#include "cli/validators.h"
#include "planner/program/program_plan.h"

namespace opentrn::cli {
namespace {

using Json = nlohmann::ordered_json;
using planner::program::Compiled;
using planner::program::Program;

constexpr double kStepsPriced = 1000;
constexpr size_t kDefaultCompiled = 4;

// One machine's plans of the program.
struct ProgramPlanned {
  Planned on;  // machine, price and failures
  planner::program::Found found;
};

struct ProgramLine {
  const ProgramPlanned* on = nullptr;
  const Compiled* plan = nullptr;

  double clock_s(double step_s) const { return step_s * on->on.stretch(); }
  // Of a thousand steps; none without a rate.
  std::optional<double> usd(double step_s) const {
    if (!on->on.rate) return std::nullopt;
    return on->on.rate->usd_h * double(on->on.count) * clock_s(step_s) / 3600 * kStepsPriced;
  }
};

Program load(const PlanOptions& options) {
  try {
    return Program(read_program(options.program.file));
  } catch (const Fault& fault) {
    const bool is_placed = options.places.contains(fault.label());  // by whoever catches it
    if (options.program.place.empty() || is_placed || fault.kind() == FaultKind::kInternal) throw;
    Fault placed(fault.kind(), fault.label(), fmt::format("{}: {}", options.program.place, fault.message()),
                 fault.hint());
    if (fault.location().known()) placed.set_location(fault.location());
    throw placed;
  }
}

std::string cuts_text(const planner::program::Way& way) {
  std::vector<std::string> words;
  for (size_t i = 0; i < way.cuts.size(); ++i)
    words.push_back(fmt::format("{}: {}", way.mesh.axes[i].name, way.cuts[i]));
  return fmt::format("{}{}", fmt::join(words, ", "), way.shards_state ? ", ZeRO" : "");
}

std::string collectives_text(const Compiled& plan) {
  if (plan.collectives.empty()) return "no collectives";
  std::vector<std::string> words;
  for (const auto& each : plan.collectives)
    words.push_back(fmt::format("{} {} of {:.3g} MB", each.count, each.name, double(each.bytes) / 1e6));
  return fmt::format("{}, {} of {} exposed", fmt::join(words, ", "), seconds_text(plan.exposed_s),
                     seconds_text(plan.collectives_s));
}

std::string table_text(const PlanOptions& options, const Program& program,
                       const std::vector<ProgramPlanned>& machines, const std::vector<ProgramLine>& lines) {
  std::string text = fmt::format("{}: {} inputs, {:.4g} GFLOP a step{}, {:.3g} MB of weights and state\n",
                                 options.program.file, program.inputs, program.flops / 1e9,
                                 program.has_open_loops ? " (loops of unknown ends once)" : "",
                                 double(program.state_bytes) / 1e6);
  const bool several = machines.size() > 1;
  std::vector<std::string> header = {"#"};
  if (several) header.emplace_back("on");
  header.insert(header.end(), {"mesh", "step", "exposed", "MFU", "GB/device", "bound by", "$/1000 steps"});
  if (!options.reliability.empty()) header.emplace_back("goodput");
  if (options.program.steps > 0) header.emplace_back("hours");
  header.emplace_back("80 % interval");
  TextTable table(header);
  int number = 0;
  for (const ProgramLine& line : lines) {
    const Compiled& plan = *line.plan;
    std::vector<std::string> cells = {std::to_string(++number)};
    if (several) cells.push_back(line.on->on.machine.instance);
    const auto usd = line.usd(plan.step_s);
    cells.insert(cells.end(),
                 {plan.way.mesh_text() + (plan.way.shards_state ? " ZeRO" : ""), seconds_text(plan.step_s),
                  seconds_text(plan.exposed_s), plan.mfu > 0 ? fmt::format("{:.2g}%", 100 * plan.mfu) : "?",
                  fmt::format("{:.3g}", plan.memory_bytes / kBytesPerGb), plan.bound_by,
                  usd ? fmt::format("{:.4g}", *usd) : "?"});
    if (!options.reliability.empty()) cells.push_back(fmt::format("{:.1f}%", 100 / line.on->on.stretch()));
    if (options.program.steps > 0)
      cells.push_back(fmt::format("{:.3g}", line.clock_s(plan.step_s) * options.program.steps / 3600));
    cells.push_back(fmt::format("{} .. {}", seconds_text(plan.low_s), seconds_text(plan.high_s)));
    table.add_row(std::move(cells));
  }
  text += table.str();
  number = 0;
  for (const ProgramLine& line : lines)
    text += wrapped(
        fmt::format("{}: {}; {}", ++number, cuts_text(line.plan->way), collectives_text(*line.plan)), 0);
  const Compiled& first = *lines.front().plan;
  if (!first.contributors.empty())
    text += wrapped(
        "Widest contributor to plan 1's interval: " + contributor_text(first.contributors.front()), 0);
  for (const ProgramPlanned& each : machines) {
    const planner::Machine& machine = each.on.machine;
    text += wrapped(
        fmt::format(
            "{}: {} devices of {:.1f} GB; {} ways estimated, {} compiled{}", machine.instance, machine.ranks,
            machine.memory_bytes / kBytesPerGb, each.found.tried,
            each.found.plans.size() + each.found.too_large.size(),
            machine.cores_per_rank > 1
                ? fmt::format("; each device computes on one of its {} physical cores, --lnc 1 uses all",
                              machine.cores_per_rank)
                : ""),
        0);
    text += wrapped(price_line(each.on, options), 0);
    for (const Compiled& large : each.found.too_large)
      text += wrapped(fmt::format("{} does not fit: {:.2f} GB a device", large.way.mesh_text(),
                                  large.memory_bytes / kBytesPerGb),
                      0);
    for (const std::string& why : each.found.refused) text += wrapped("Not compiled: " + why, 0);
    if (each.on.goodput)
      text += wrapped(fmt::format("Failures as {}'s: one every {:.2f} h; hours and dollars include them",
                                  options.reliability, each.on.mttf_h),
                      0);
  }
  if (!first.host_reason.empty())
    text += wrapped("The host computes a part of plan 1, which takes no time here: " + first.host_reason, 0);
  return text;
}

std::string explained(const ProgramLine& line, int number) {
  const Compiled& plan = *line.plan;
  std::string text = fmt::format("\nPlan {}, {}:\n", number, plan.way.mesh_text());
  text += fmt::format("  {:<28}{}\n", "computes", seconds_text(plan.compute_s));
  text += fmt::format("  {:<28}{}\n", "collectives under way", seconds_text(plan.collectives_s));
  text += fmt::format("  {:<28}{}\n", "of these not hidden", seconds_text(plan.exposed_s));
  text += fmt::format("  {:<28}{}\n", "estimated by rates alone", seconds_text(plan.way.estimated_s));
  text += fmt::format("  {:<28}{:.3f} GB\n", "inputs and weights", plan.argument_bytes / kBytesPerGb);
  text += fmt::format("  {:<28}{:.3f} GB of {:.1f}\n", "where memory is fullest",
                      plan.memory_bytes / kBytesPerGb, line.on->on.machine.memory_bytes / kBytesPerGb);
  text += "Its interval rests on:\n";
  for (const auto& each : plan.contributors) text += wrapped(contributor_text(each), 2);
  text += "Cut, for `opentrn run --mesh` and --shard:\n";
  constexpr size_t kShown = 40;
  for (size_t i = 0; i < std::min(kShown, plan.shardings.size()); ++i)
    text += "  " + plan.shardings[i] + "\n";
  if (plan.shardings.size() > kShown)
    text += fmt::format("  and {} more (--json has them)\n", plan.shardings.size() - kShown);
  return text;
}

Json between(double value, double low, double high, const std::string& source) {
  return {{"value", value}, {"low", low}, {"high", high}, {"source", source}};
}

Json line_json(const PlanOptions& options, const ProgramLine& line) {
  const Compiled& plan = *line.plan;
  const planner::Machine& machine = line.on->on.machine;
  const std::string source = "compiled and timed by OpenTrn; bands of its evidence";
  Json each = {
      {"instance", machine.instance},
      {"count", line.on->on.count},
      {"ranks", machine.ranks},
      {"layout", {{"text", plan.way.mesh_text() + (plan.way.shards_state ? " ZeRO" : "")}}},
      {"mesh", plan.way.mesh_text()},
      {"cuts", plan.way.cuts},
      {"shards_state", plan.way.shards_state},
      {"shardings", plan.shardings},
      {"step_s", between(plan.step_s, plan.low_s, plan.high_s, source)},
      {"estimated_s", plan.way.estimated_s},
      {"seconds_by_cause", {{"compute", plan.step_s - plan.exposed_s}, {"collectives", plan.exposed_s}}},
      {"collectives_s", plan.collectives_s},
      {"memory_bytes", between(plan.memory_bytes, plan.memory_bytes, plan.memory_bytes, source)},
      {"memory_limit_bytes", machine.memory_bytes},
      {"memory_by_cause",
       {{"inputs and weights", plan.argument_bytes},
        {"between", std::max(0.0, plan.memory_bytes - plan.argument_bytes)}}},
      {"bound_by", plan.bound_by},
      {"host_reason", plan.host_reason}};
  each["mfu"] = plan.mfu > 0 ? between(plan.mfu, plan.mfu * plan.step_s / plan.high_s,
                                       plan.mfu * plan.step_s / plan.low_s, source)
                             : Json(nullptr);
  Json collectives = Json::array();
  for (const auto& sum : plan.collectives)
    collectives.push_back({{"name", sum.name}, {"count", sum.count}, {"bytes", sum.bytes}});
  each["collectives"] = std::move(collectives);
  if (const auto usd = line.usd(plan.step_s))
    each["usd_per_thousand_steps"] =
        between(*usd, *line.usd(plan.low_s), *line.usd(plan.high_s),
                fmt::format("{} {}", line.on->on.rate->source, line.on->on.rate->date));
  else
    each["usd_per_thousand_steps"] = nullptr;
  if (options.program.steps > 0) {
    const auto hours = [&](double step_s) { return line.clock_s(step_s) * options.program.steps / 3600; };
    each["hours"] = between(hours(plan.step_s), hours(plan.low_s), hours(plan.high_s), source);
  }
  each["interval_by_input"] = contributors_json(plan.contributors);
  return each;
}

std::string json_text(const PlanOptions& options, const Program& program,
                      const std::vector<ProgramPlanned>& machines, const std::vector<ProgramLine>& lines) {
  Json plans = Json::array(), on = Json::array();
  for (const ProgramLine& line : lines) plans.push_back(line_json(options, line));
  for (const ProgramPlanned& each : machines) {
    Json dimensions = Json::array();
    for (const auto& of : each.found.dimensions)
      dimensions.push_back({{"name", of.name}, {"size", of.seeds.front().size}, {"batch", !of.cuts_state}});
    on.push_back({{"instance", each.on.machine.instance},
                  {"count", each.on.count},
                  {"chip", each.on.machine.chip},
                  {"ways", each.found.tried},
                  {"dimensions", std::move(dimensions)},
                  {"refused", each.found.refused},
                  {"price", price_line(each.on, options)}});
  }
  return Json{{"schema", 1},
              {"program", options.program.file},
              {"inputs", program.inputs},
              {"flops", program.flops},
              {"state_bytes", program.state_bytes},
              {"machines", std::move(on)},
              {"plans", std::move(plans)}}
      .dump(2);
}

[[noreturn]] void refuse_all(const std::vector<ProgramPlanned>& machines) {
  std::string detail;
  bool is_memory = false;
  for (const ProgramPlanned& each : machines) {
    for (const Compiled& large : each.found.too_large) {
      is_memory = true;
      detail += fmt::format("{}, {}: {:.2f} GB of a device's {:.2f}; ", each.on.machine.instance,
                            large.way.mesh_text(), large.memory_bytes / kBytesPerGb,
                            each.on.machine.memory_bytes / kBytesPerGb);
    }
    for (const std::string& why : each.found.refused) detail += why + "; ";
  }
  if (detail.ends_with("; ")) detail.resize(detail.size() - 2);
  if (is_memory)
    throw Fault(FaultKind::kCapacity, "plan.memory", fmt::format("no way fits: {}", detail),
                "more devices, or a smaller batch in the program");
  throw Fault(FaultKind::kNotModelled, "plan.program", fmt::format("no way compiles: {}", detail),
              "`opentrn coverage` says which ops have a device kernel");
}

void plan_on(const PlanOptions& options, const arch::Tables& tables, const Program& program,
             ProgramPlanned& each) {
  planner::program::Asked asked;
  asked.compiled = options.compiled > 0 ? static_cast<size_t>(options.compiled) : kDefaultCompiled;
  asked.dp = options.search.fixed.dp;
  asked.tp = options.search.fixed.tp;
  asked.mesh = options.program.mesh;
  asked.shard = options.program.shard;
  asked.lnc = each.on.machine.cores_per_rank;
  each.found = planner::program::plan_program(tables, program, each.on.machine, asked);
  set_goodput(options, tables, double(program.state_bytes), each.on);
}

}  // namespace

void add_program_options(CLI::App& command, PlanOptions& options) {
  command.add_option("--mesh", options.program.mesh,
                     "Of a program: this mesh, dp=2,tp=4 (default: searched)");
  command.add_option("--shard", options.program.shard,
                     "Of a program, with --mesh: how a tensor is cut, NAME=AXES,AXES; repeatable");
  command.add_option("--steps", options.program.steps, "Of a program: steps of the whole run, for hours")
      ->check(above_zero());
}

void check_program_options(const CLI::App& command, const PlanOptions& options) {
  if (options.program.file.empty()) {
    refuse_given(command, {"--mesh", "--shard", "--steps"},
                 "only for a program, and none is given (a .mlir, .pb, .onnx or .pt2 file)", "plan.program");
    return;
  }
  refuse_given(command, {"--seq",        "--global-batch",
                         "--tokens",     "--precision",
                         "--stack",      "--serve",
                         "--cp",         "--pp",
                         "--vpp",        "--ep",
                         "--zero",       "--micro-batch",
                         "--recompute",  "--recompute-layers",
                         "--schedule",   "--offload",
                         "--sp",         "--export",
                         "--check",      "--layer-times",
                         "--exhaustive", "--links"},
               "only for a model, and a program says these itself", "plan.program");
  if (!options.program.shard.empty() && options.program.mesh.empty())
    throw Fault(FaultKind::kInput, "plan.program", "--shard, and no mesh", "--mesh dp=2,tp=4");
  if (!options.program.mesh.empty() && (options.search.fixed.dp || options.search.fixed.tp))
    throw Fault(FaultKind::kInput, "plan.program", "a mesh, and degrees beside it", "one of the two");
}

void print_program_plans(const PlanOptions& options, const arch::Tables& tables, std::ostream& out) {
  if (options.instances.empty())
    throw Fault(FaultKind::kInput, "plan.instance", "no --instance",
                "--instance trn1.32xlarge; `opentrn plan --instances` lists what there is");
  const Program program = load(options);
  planner::PriceQuery prices = options.price;
  if (!options.price_file.empty()) prices.file = planner::read_prices(options.price_file);
  std::vector<ProgramPlanned> machines;
  for (const std::string& instance : options.instances)
    for (const int64_t count : options.counts) {
      ProgramPlanned& each = machines.emplace_back();
      each.on.machine = planner::machine_of(tables, instance, count, options.lnc);
      each.on.count = count;
      each.on.rate = planner::rate_of(tables, each.on.machine.instance, prices);
      each.on.published = planner::published_kinds(tables, each.on.machine.instance, prices);
      plan_on(options, tables, program, each);
    }
  std::vector<ProgramLine> lines;
  for (const ProgramPlanned& each : machines)
    for (const Compiled& plan : each.found.plans) lines.push_back({&each, &plan});
  if (lines.empty()) refuse_all(machines);
  std::ranges::stable_sort(lines, {},
                           [](const ProgramLine& line) { return line.clock_s(line.plan->step_s); });
  if (lines.size() > options.search.top) lines.resize(options.search.top);
  if (options.explain > static_cast<int>(lines.size()))
    throw Fault(FaultKind::kInput, "plan.explain", fmt::format("there is no plan {}", options.explain),
                fmt::format("1 to {}; --compiled N compiles more", lines.size()));
  const std::string json =
      options.json || !options.html.empty() ? json_text(options, program, machines, lines) : "";
  if (!options.html.empty()) write_page(options.html, plan_page(json));
  if (options.json) {
    out << json << "\n";
    return;
  }
  out << table_text(options, program, machines, lines);
  if (options.explain > 0) out << explained(lines[options.explain - 1], options.explain);
}

}  // namespace opentrn::cli
