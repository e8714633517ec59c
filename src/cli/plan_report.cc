// The results of `opentrn plan` as a table, as an explanation and as JSON.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/cluster_options.h"
#include "cli/plan_options.h"
#include "cli/text_table.h"
#include "planner/interval.h"
#include "planner/schedule.h"

namespace opentrn::cli {
namespace {

// The day of the latest list that the tables hold: what "stale" is counted from where no --as-of is given.
constexpr const char* kTablesDate = "2026-07-20";

double hours_of(const planner::Job& job, double step_s) {
  return job.tokens / (job.global_batch * job.seq) * step_s / 3600;
}

std::string hours_text(double hours) { return fmt::format("{:.{}f}", hours, hours < 10 ? 1 : 0); }

// "188", "12.3k", "4.56M".
std::string usd_text(double usd) {
  if (usd >= 1e6) return fmt::format("{:.2f}M", usd / 1e6);
  return usd >= 1e4 ? fmt::format("{:.1f}k", usd / 1e3) : fmt::format("{:.0f}", usd);
}

// A plan's step by curves, and how far the compiled one is from it: "!" where that is more than a tenth.
std::string moved(const planner::Estimate& plan) {
  if (!plan.curves_s) return "";
  return fmt::format("{} ({:+.0f}%){}", seconds_text(*plan.curves_s),
                     100 * (plan.step_s / *plan.curves_s - 1), planner::has_moved(plan) ? " !" : "");
}

// The same of the links: the step by two tiers.
std::string moved_from_tiers(const planner::Estimate& plan) {
  if (!plan.tiers_s) return "";
  return fmt::format("{} ({:+.0f}%)", seconds_text(*plan.tiers_s), 100 * (plan.step_s / *plan.tiers_s - 1));
}

std::string links_line(const Planned& on) {
  const planner::Links& links = *on.on_links->links;
  std::string text = fmt::format(
      "Collectives of {} plans on the links of {} ranks: {} of them simulated; the largest is written out as "
      "{} transfers of {}, of {} classes{}. Assumed: {}; "
      "collectives that a program waits for meet no others than those that it hides beside them",
      on.on_links->plans, links.ranks(), links.simulated(), links.written(),
      links.units_written() > 1 ? fmt::format("all {} instances, which are not alike", links.units_written())
                                : "one instance",
      links.classes(),
      links.units_written() > 1 ? "" : fmt::format(", and that instance stands for all {}", on.count),
      network_of(static_cast<int>(on.count), links.cluster()));
  for (const std::string& why : on.on_links->refused) text += fmt::format(". Tiers elsewhere: {}", why);
  return text;
}

std::string layers_text(const planner::Estimate& plan) {
  return plan.layers == "compiled" ? "compiled by OpenTrn" : std::string(plan.layers);
}

std::string recost_line(const Planned& on, bool stated) {
  const planner::Recost& recost = *on.recost;
  if (stated) {
    std::string text = fmt::format("Layers of {} plans as stated: {} moved by more than {:.0f} % (!)",
                                   recost.plans, recost.moved, 100 * planner::kMovedBy);
    for (const std::string& why : recost.refused) text += fmt::format(". Curves elsewhere: {}", why);
    return text;
  }
  std::string text = fmt::format(
      "Layers of {} plans by OpenTrn's own compiler and timing model, not by AWS's compiler, which the "
      "curves "
      "of program {} stand for: {} moved by more than {:.0f} % (!); {} programs compiled",
      recost.plans, on.stack.name, recost.moved, 100 * planner::kMovedBy, on.programs);
  for (const std::string& why : recost.refused) text += fmt::format(". Curves elsewhere: {}", why);
  return text;
}

nlohmann::ordered_json value_json(double value, double low, double high, const std::string& source) {
  return {{"value", value}, {"low", low}, {"high", high}, {"source", source}};
}

nlohmann::ordered_json layout_json(const planner::Layout& layout) {
  return {{"text", planner::to_string(layout)},
          {"tp", layout.tp},
          {"cp", layout.cp},
          {"pp", layout.pp},
          {"vpp", layout.vpp},
          {"schedule", layout.pp == 1                                ? "none"
                       : layout.schedule != planner::Schedule::k1F1B ? planner::to_string(layout.schedule)
                       : layout.vpp > 1                              ? "interleaved_1f1b"
                                                                     : "1f1b"},
          {"ep", layout.ep},
          {"dp", layout.dp},
          {"zero", int{layout.zero}},
          {"sp", layout.sp},
          {"offload", layout.offload},
          {"recompute", planner::to_string(layout.recompute)},
          {"recompute_layers", layout.recompute_layers},
          {"micro_batch", layout.micro_batch}};
}

// Widest first; failures, which make the interval of hours and dollars, among them.
std::vector<planner::Contributor> contributors_of(const arch::Tables& tables, const planner::Job& job,
                                                  const Line& line) {
  const planner::Estimate& plan = *line.plan;
  auto all =
      planner::contributors(tables, job, line.on->machine, line.on->stack, plan, plan.layer_times.get());
  if (line.on->goodput) {
    const planner::Between& share = line.on->goodput->useful;
    planner::Contributor failures{"failures, in hours and dollars", "goodput", "assumed"};
    failures.low = share.low / share.value;
    failures.high = share.high / share.value;
    failures.low_s = plan.step_s * share.value / share.high;
    failures.high_s = plan.step_s * share.value / share.low;
    all.push_back(std::move(failures));
    std::ranges::stable_sort(all, std::greater{}, &planner::Contributor::width_s);
  }
  return all;
}

using Causes = std::vector<std::pair<const char*, double>>;

Causes time_causes(const planner::StepTime& time) {
  return {{"compute", time.compute},
          {"recompute", time.recompute},
          {"tp", time.tp},
          {"cp", time.cp},
          {"ep", time.ep},
          {"pp", time.pp},
          {"bubble", time.bubble},
          {"dp", time.gradients},
          {"optimizer", time.optimizer},
          {"host", time.host}};
}

Causes memory_causes(const planner::Memory& memory) {
  return {{"weights", memory.weights},     {"gradients", memory.gradients},
          {"optimizer", memory.optimizer}, {"activations", memory.activations},
          {"working", memory.working},     {"runtime", memory.runtime}};
}

}  // namespace

std::string seconds_text(double value) {
  return value >= 100     ? fmt::format("{:.0f} s", value)
         : value >= 1     ? fmt::format("{:.2f} s", value)
         : value >= 0.01  ? fmt::format("{:.0f} ms", 1e3 * value)
         : value >= 0.001 ? fmt::format("{:.2f} ms", 1e3 * value)
                          : fmt::format("{:.1f} us", 1e6 * value);
}

std::string price_line(const Planned& on, const PlanOptions& options) {
  return price_line(on.machine.instance, on.rate, on.published, options);
}

std::string price_line(const std::string& instance, const std::optional<planner::Rate>& known,
                       const std::vector<std::string>& published, const PlanOptions& options) {
  if (!known)
    return fmt::format("{}: no {} rate{} is published, so nothing is priced{}", instance, options.price.kind,
                       options.price.as_of.empty() ? "" : " as of " + options.price.as_of,
                       published.empty() ? "; --price-file states your own"
                                         : fmt::format("; --price {} is", fmt::join(published, " or ")));
  const planner::Rate& rate = *known;
  std::string line = fmt::format("{}: {} USD/h {}", instance, rate.usd_h, rate.kind);
  if (!rate.region.empty()) line += ", " + rate.region;
  line += rate.date.empty() ? ", undated" : ", list of " + rate.date;
  const std::string now = options.price.as_of.empty() ? kTablesDate : options.price.as_of;
  if (rate.date.empty())
    line += " (STALE: no date)";
  else if (const int days = planner::days_between(rate.date, now); days > planner::kStaleDays)
    line += fmt::format(" (STALE: {} days before {})", days, now);
  else if (options.price.as_of.empty() && planner::days_between(planner::today(), rate.date) > 0)
    line += fmt::format(" (FUTURE: today is {})", planner::today());
  if (rate.confidence != arch::Confidence::kDocumented)
    line += fmt::format(" ({})", arch::to_string(rate.confidence));
  return line;
}

std::string contributor_text(const planner::Contributor& each) {
  return fmt::format("{} ({}, {}), {:.2f} to {:.2f} of it: a step of {} to {}", each.what, each.key,
                     each.confidence, each.low, each.high, seconds_text(each.low_s),
                     seconds_text(each.high_s));
}

nlohmann::ordered_json contributors_json(const std::vector<planner::Contributor>& contributors) {
  auto list = nlohmann::ordered_json::array();
  for (const planner::Contributor& each : contributors)
    list.push_back({{"input", each.what},
                    {"key", each.key},
                    {"confidence", each.confidence},
                    {"low", each.low},
                    {"high", each.high},
                    {"step_low_s", each.low_s},
                    {"step_high_s", each.high_s}});
  return list;
}

std::optional<double> usd_per_mtok(const planner::Job& job, const Line& line, double step_s) {
  if (!line.on->rate) return std::nullopt;
  return line.on->rate->usd_h * double(line.on->count) * step_s * line.on->stretch() / 3600 /
         (job.global_batch * job.seq / 1e6);
}

planner::Interval clock_interval(const arch::Tables& tables, const Planned& on, double step_s) {
  planner::Interval out = planner::interval_of(tables, on.stack, on.machine, step_s);
  if (on.goodput) {
    out.low /= on.goodput->useful.high;
    out.high /= on.goodput->useful.low;
  }
  return out;
}

std::string plan_table(const arch::Tables& tables, const planner::Job& job, const PlanOptions& options,
                       const std::vector<Planned>& machines, const std::vector<Line>& lines) {
  std::string text = wrapped(
      fmt::format(
          "{}: {} parameters{}{}, {} tokens a sequence, {} sequences a step, {}", job.model.name,
          planner::count_text(job.model.parameters()),
          job.model.experts > 0 ? fmt::format(" ({:.1f}B active)", job.model.active_parameters() / 1e9) : "",
          planner::stored_text(job.model), job.seq, job.global_batch, planner::to_string(job.precision)),
      0);
  const bool several = machines.size() > 1;
  std::vector<std::string> header = {"#"};
  if (several) header.push_back("on");
  header.insert(header.end(), {"plan", "step"});
  const bool sources = options.compiled > 0 || !options.layer_times.empty();
  if (sources) header.insert(header.end(), {"layers", "by curves"});
  if (options.links.on) header.emplace_back("by tiers");
  header.insert(header.end(), {"MFU", "GB/rank", "bound by", "$/Mtok"});
  const bool failures = !options.reliability.empty();
  if (failures) header.emplace_back("goodput");
  if (job.tokens > 0) header.insert(header.end(), {"hours", "USD"});
  header.emplace_back("80 % interval");
  TextTable table(header);
  int number = 0;
  for (const Line& line : lines) {
    const planner::Estimate& plan = *line.plan;
    const planner::Interval interval =
        planner::interval_of(tables, line.on->stack, line.on->machine, plan.step_s);
    std::vector<std::string> cells = {fmt::format("{}", ++number)};
    if (several) cells.push_back(fmt::format("{} x {}", line.on->count, line.on->machine.instance));
    const auto price = usd_per_mtok(job, line, plan.step_s);
    cells.insert(cells.end(), {planner::to_string(plan.layout), seconds_text(plan.step_s)});
    if (sources) cells.insert(cells.end(), {std::string(plan.layers), moved(plan)});
    if (options.links.on) cells.push_back(moved_from_tiers(plan));
    cells.insert(cells.end(), {fmt::format("{:.1f}%", 100 * plan.mfu),
                               fmt::format("{:.1f}", plan.memory.total() / kBytesPerGb),
                               std::string(plan.bound_by), price ? fmt::format("{:.3f}", *price) : "?"});
    if (failures) cells.push_back(fmt::format("{:.1f}%", 100 / line.on->stretch()));
    if (job.tokens > 0)
      cells.insert(cells.end(), {hours_text(hours_of(job, plan.step_s * line.on->stretch())),
                                 price ? usd_text(*price * job.tokens / 1e6) : "?"});
    cells.push_back(fmt::format("{} .. {}", seconds_text(interval.low), seconds_text(interval.high)));
    table.add_row(std::move(cells));
  }
  text += table.str();
  if (!lines.empty())
    if (const auto inputs = contributors_of(tables, job, lines.front()); !inputs.empty())
      text += wrapped("Widest contributor to plan 1's interval: " + contributor_text(inputs.front()), 0);
  for (const Planned& each : machines) {
    text += wrapped(
        fmt::format(
            "{} x {}: {} ranks of {:.1f} GB, program {}; {} legal layouts, {} evaluated, {} on the front "
            "of time against memory",
            each.count, each.machine.instance, each.machine.ranks, each.machine.memory_bytes / kBytesPerGb,
            each.stack.name, each.result.legal, each.result.evaluated, each.result.front.size()),
        0);
    text += wrapped(price_line(each, options), 0);
    if (each.goodput)
      text += wrapped(
          fmt::format("Failures as {}'s: one every {:.2f} h, goodput {:.1f} % ({:.1f} to {:.1f}); hours and "
                      "dollars include them, steps and MFU do not. Assumed: {}",
                      options.reliability, each.mttf_h, 100 * each.goodput->useful.value,
                      100 * each.goodput->useful.low, 100 * each.goodput->useful.high,
                      fmt::join(each.assumed, "; ")),
          0);
    if (each.recost) text += wrapped(recost_line(each, !options.layer_times.empty()), 0);
    if (!each.recost && options.compiled > 0 && options.layer_times.empty())
      text += wrapped(fmt::format("Layers of {} by curves: OpenTrn compiles for NeuronCores alone",
                                  each.machine.instance),
                      0);
    if (each.on_links) text += wrapped(links_line(each), 0);
    const planner::Interval interval = planner::interval_of(tables, each.stack, each.machine, 1);
    if (!interval.measured)
      text += wrapped(fmt::format("No training on {} was ever published: the interval is Trn1's, widened",
                                  each.machine.chip),
                      0);
  }
  return text;
}

std::string plan_explained(const arch::Tables& tables, const planner::Job& job, const Line& line,
                           int number) {
  const planner::Estimate& plan = *line.plan;
  std::string text = fmt::format("\nPlan {}, {}:\n", number, planner::to_string(plan.layout));
  for (const auto& [name, value] : time_causes(plan.time))
    if (value > 0)
      text += fmt::format("  {:<12}{:>12}{:>7.1f}%\n", name, seconds_text(value), 100 * value / plan.step_s);
  text += fmt::format("A rank of the {} stage, the fullest:\n", plan.memory.stage);
  for (const auto& [name, value] : memory_causes(plan.memory))
    if (value > 0) text += fmt::format("  {:<12}{:>9.2f} GB\n", name, value / kBytesPerGb);
  text += fmt::format("  {:<12}{:>9.2f} GB of {:.2f}\n", "all", plan.memory.total() / kBytesPerGb,
                      line.on->machine.memory_bytes / kBytesPerGb);
  if (line.on->result.nearest) {
    const planner::Estimate& nearest = *line.on->result.nearest;
    const Causes causes = memory_causes(nearest.memory);
    const auto largest = std::ranges::max_element(causes, {}, [](const auto& cause) { return cause.second; });
    text += wrapped(
        fmt::format(
            "The nearest plan that does not fit: {}, {:.2f} GB, of which {} are {:.2f}; it would take {}",
            planner::to_string(nearest.layout), nearest.memory.total() / kBytesPerGb, largest->first,
            largest->second / kBytesPerGb, seconds_text(nearest.step_s)),
        0);
  }
  text += "Its interval rests on, each moved alone:\n";
  constexpr size_t kShown = 6;
  const auto inputs = contributors_of(tables, job, line);
  for (size_t i = 0; i < std::min(kShown, inputs.size()); ++i)
    text += wrapped(contributor_text(inputs[i]), 2);
  text += "Rests on:\n";
  for (const std::string& key : line.on->machine.basis) {
    const arch::Fact& fact = tables.facts().at(key);
    text += wrapped(fmt::format("{} = {} ({}: {})", key, arch::to_string(fact.value),
                                arch::to_string(fact.confidence), fact.source),
                    2);
  }
  return text;
}

std::string plan_json(const arch::Tables& tables, const planner::Job& job, const PlanOptions& options,
                      const std::vector<Planned>& machines, const std::vector<Line>& lines) {
  nlohmann::ordered_json plans = nlohmann::ordered_json::array();
  for (const Line& line : lines) {
    const planner::Estimate& plan = *line.plan;
    const planner::Interval interval =
        planner::interval_of(tables, line.on->stack, line.on->machine, plan.step_s);
    const planner::Interval clock = clock_interval(tables, *line.on, plan.step_s);
    const double clock_s = plan.step_s * line.on->stretch();
    const std::string source = fmt::format("planner, program {}; 80 % interval of {}", line.on->stack.name,
                                           interval.measured ? "its residuals" : "Trn1's residuals, widened");
    nlohmann::ordered_json each = {{"instance", line.on->machine.instance},
                                   {"count", line.on->count},
                                   {"ranks", line.on->machine.ranks},
                                   {"layout", layout_json(plan.layout)}};
    each["layers"] = layers_text(plan);
    if (plan.curves_s) {
      each["step_by_curves_s"] = *plan.curves_s;
      each["moved"] = planner::has_moved(plan);
    }
    if (plan.tiers_s) each["step_by_tiers_s"] = *plan.tiers_s;
    each["step_s"] = value_json(plan.step_s, interval.low, interval.high, source);
    each["mfu"] = value_json(plan.mfu, plan.mfu * plan.step_s / interval.high,
                             plan.mfu * plan.step_s / interval.low, source);
    const double memory = plan.memory.total();
    each["memory_bytes"] = value_json(memory, memory * 0.85, memory * 1.15, "planner; +-15 % assumed");
    each["memory_limit_bytes"] = line.on->machine.memory_bytes;
    for (const auto& [name, value] : memory_causes(plan.memory)) each["memory_by_cause"][name] = value;
    for (const auto& [name, value] : time_causes(plan.time)) each["seconds_by_cause"][name] = value;
    each["bound_by"] = plan.bound_by;
    if (const auto price = usd_per_mtok(job, line, plan.step_s))
      each["usd_per_million_tokens"] =
          value_json(*price, *price * clock.low / clock_s, *price * clock.high / clock_s,
                     fmt::format("{} {}", line.on->rate->source, line.on->rate->date));
    else
      each["usd_per_million_tokens"] = nullptr;
    if (job.tokens > 0)
      each["hours"] =
          value_json(hours_of(job, clock_s), hours_of(job, clock.low), hours_of(job, clock.high), source);
    if (const auto price = usd_per_mtok(job, line, plan.step_s); price && job.tokens > 0) {
      const double usd = *price * job.tokens / 1e6;
      each["usd"] = value_json(usd, usd * clock.low / clock_s, usd * clock.high / clock_s, source);
    }
    if (line.on->goodput) {
      const planner::Between& share = line.on->goodput->useful;
      each["goodput"] = value_json(share.value, share.low, share.high, "failures as " + options.reliability);
    }
    each["interval_by_input"] = contributors_json(contributors_of(tables, job, line));
    plans.push_back(std::move(each));
  }
  nlohmann::ordered_json on = nlohmann::ordered_json::array();
  for (const Planned& each : machines) {
    nlohmann::ordered_json machine = {
        {"instance", each.machine.instance},  {"count", each.count},
        {"chip", each.machine.chip},          {"legal", each.result.legal},
        {"evaluated", each.result.evaluated}, {"front", each.result.front.size()},
        {"price", price_line(each, options)}};
    if (each.recost)
      machine["compiled"] = {{"plans", each.recost->plans},
                             {"moved", each.recost->moved},
                             {"programs", each.programs},
                             {"refused", each.recost->refused}};
    if (each.on_links) {
      const planner::Links& links = *each.on_links->links;
      machine["links"] = {{"plans", each.on_links->plans},
                          {"collectives", links.simulated()},
                          {"instances_written_out", links.units_written()},
                          {"transfers_written_out", links.written()},
                          {"classes", links.classes()},
                          {"assumed", network_of(static_cast<int>(each.count), links.cluster())},
                          {"refused", each.on_links->refused}};
    }
    if (each.result.nearest)
      machine["nearest_that_does_not_fit"] = {{"layout", layout_json(each.result.nearest->layout)},
                                              {"memory_bytes", each.result.nearest->memory.total()}};
    on.push_back(std::move(machine));
  }
  return nlohmann::ordered_json{{"schema", 1},
                                {"model", job.model.name},
                                {"stored_as", job.model.stored_as},
                                {"parameters", job.model.parameters()},
                                {"seq", job.seq},
                                {"global_batch", job.global_batch},
                                {"precision", planner::to_string(job.precision)},
                                {"machines", std::move(on)},
                                {"plans", std::move(plans)}}
      .dump(2);
}

}  // namespace opentrn::cli
