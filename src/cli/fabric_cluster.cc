// opentrn fabric cluster: how long a collective takes on thousands of machines that do the same.
#include "cli/fabric_cluster.h"

#include <charconv>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "cli/band.h"
#include "cli/command.h"
#include "cli/machine_options.h"
#include "cli/nccom_options.h"
#include "cli/text_table.h"
#include "collectives/cluster.h"

namespace opentrn::cli {
namespace {

struct Options {
  MachineOptions machine;
  TableOptions tables;
  bool json = false, all_units = false, all_steps = false;
  std::string operation = "all_reduce", datatype = "bf16", within, levels;
  std::vector<std::string> sizes = {"1MB", "64MB", "1gb"}, taken;
  int ranks_per_chip = 0, pod = 0, rails = 1, pipeline = 3;
  double oversubscription = 1;
};

struct ClassName {
  const char* name;
  fabric::LinkClass kind;
};
constexpr ClassName kClasses[] = {{"neuronlink", fabric::LinkClass::kNeuronLink},
                                  {"ultraserver", fabric::LinkClass::kUltraServer},
                                  {"switch", fabric::LinkClass::kSwitch},
                                  {"pcie", fabric::LinkClass::kPcie},
                                  {"efa", fabric::LinkClass::kEfa},
                                  {"spine", fabric::LinkClass::kSpine},
                                  {"core", fabric::LinkClass::kCore}};

// "efa=0.25", "core@3=0.5".
fabric::Taken taken_of(const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    throw Fault(FaultKind::kInput, "cli.taken", fmt::format("--taken {}: {}", text, why),
                "such as core=0.3, or efa@17=0.5 for the links of unit 17; the classes are neuronlink, "
                "ultraserver, switch, pcie, efa, spine, core");
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos) refuse("no '='");
  const size_t at = std::min(text.find('@'), equals);
  fabric::Taken taken;
  const auto number = [&](size_t begin, size_t end, auto& value) {
    const auto read = std::from_chars(text.data() + begin, text.data() + end, value);
    if (read.ec != std::errc() || read.ptr != text.data() + end)
      refuse(fmt::format("'{}' is no number", text.substr(begin, end - begin)));
  };
  if (at < equals) number(at + 1, equals, taken.unit);
  if (taken.unit < -1) refuse("units count from 0");
  number(equals + 1, text.size(), taken.share);
  for (const ClassName& one : kClasses)
    if (text.substr(0, at) == one.name) {
      taken.kind = one.kind;
      return taken;
    }
  refuse(fmt::format("there are no links '{}'", text.substr(0, at)));
  return taken;
}

struct Machine {
  std::string name;
  int chips = 0, cores_per_rank = 1;  // chips of a unit
};

Machine machine_of(const Options& options, const arch::Tables& tables) {
  MachineOptions one = options.machine;
  one.nodes = 1;
  const fabric::Platform platform = one.platform(tables);
  Machine machine{platform.name(), platform.servers() * platform.chips_per_server(),
                  one.cores_per_rank(tables, platform)};
  if (options.ranks_per_chip > 0) {
    if (platform.cores_per_chip() % options.ranks_per_chip != 0)
      throw Fault(FaultKind::kInput, "collectives.ranks",
                  fmt::format("{} ranks on the {} cores of a chip", options.ranks_per_chip,
                              platform.cores_per_chip()),
                  "a divisor of the number of cores");
    machine.cores_per_rank = platform.cores_per_chip() / options.ranks_per_chip;
  }
  return machine;
}

collectives::ClusterJob job_of(const Options& options, const Machine& machine) {
  collectives::ClusterJob job;
  job.machine = machine.name;
  job.units = options.machine.nodes;
  job.cores_per_rank = machine.cores_per_rank;
  job.cluster.pod_units = options.pod;
  job.cluster.rails = options.rails;
  job.cluster.oversubscription = options.oversubscription;
  for (const std::string& text : options.taken) job.cluster.taken.push_back(taken_of(text));
  // Without pods each unit is one: what is above it may be oversubscribed, or taken by others.
  bool has_core = options.oversubscription != 1 || options.rails != 1;
  for (const fabric::Taken& taken : job.cluster.taken) has_core |= taken.kind == fabric::LinkClass::kCore;
  if (job.cluster.pod_units == 0 && has_core) job.cluster.pod_units = 1;
  job.kind = nccom::kind_of(nccom::long_name(options.operation));
  job.dtype = nccom::dtype_of(options.datatype);
  job.within = options.within;
  job.levels = options.levels;
  job.pipeline = options.pipeline;
  return job;
}

// Levels of two units behind each other are the halving and doubling of rdh.
std::string text_of(const std::vector<collectives::Level>& levels) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < levels.size();) {
    size_t end = i + 1;
    while (end < levels.size() && levels[i].size == 2 && levels[end].size == 2 &&
           levels[end].between_pods == levels[i].between_pods)
      ++end;
    parts.push_back(fmt::format("{} of {}{}", end > i + 1 ? "rdh" : levels[i].algorithm,
                                end > i + 1 ? 1 << (end - i) : levels[i].size,
                                levels[i].between_pods ? " (between pods)" : ""));
    i = end;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string network_of(const collectives::ClusterJob& job) {
  const fabric::Cluster& cluster = job.cluster;
  std::string out = cluster.pod_units == 0
                        ? "a network above the adapters that does not block"
                        : fmt::format("{} pods of {}, {} rail{} with an oversubscription of {} above them",
                                      job.units / cluster.pod_units, cluster.pod_units, cluster.rails,
                                      cluster.rails == 1 ? "" : "s", cluster.oversubscription);
  for (const fabric::Taken& taken : cluster.taken)
    for (const ClassName& one : kClasses)
      if (one.kind == taken.kind)
        out += fmt::format(", other jobs take {:g} of {}{}", taken.share, one.name,
                           taken.unit < 0 ? "" : fmt::format(" of unit {}", taken.unit));
  return out;
}

nlohmann::ordered_json json_of(const collectives::ClusterSummary& line) {
  auto levels = nlohmann::ordered_json::array();
  for (const collectives::Level& level : line.levels)
    levels.push_back(
        {{"size", level.size}, {"algorithm", level.algorithm}, {"between_pods", level.between_pods}});
  return {{"bytes", line.summary.bytes},
          {"us", line.summary.us},
          {"ps", line.end_ps},
          {"algorithm", line.summary.algorithm},
          {"within", line.within},
          {"levels", std::move(levels)},
          {"algorithm_gb_s", line.summary.algorithm_gb_s},
          {"bus_gb_s", line.summary.bus_gb_s},
          {"busiest", line.summary.busiest},
          {"busiest_share", line.summary.busiest_share},
          {"steps", line.steps},
          {"steps_written_out", line.written},
          {"classes", line.classes}};
}

void print_cluster(const Options& options, std::ostream& out) {
  const auto tables = options.tables.load();
  const Machine machine = machine_of(options, *tables);
  collectives::ClusterJob job = job_of(options, machine);
  const auto extent = options.all_steps   ? collectives::Extent::kAllSteps
                      : options.all_units ? collectives::Extent::kAllUnits
                                          : collectives::Extent::kOneUnit;
  std::vector<collectives::ClusterSummary> lines;
  for (const std::string& size : options.sizes) {
    job.bytes = nccom::bytes_of(size, "--bytes");
    lines.push_back(cluster_summary(*tables, job, extent));
  }
  const int ranks = lines.empty() ? 0 : lines[0].ranks;
  const arch::Band error_band =
      arch::band(*tables, {.generation = tables->resolve_target(machine.name), .collective = true});
  const std::string assumed =
      network_of(job) + "; no public page says how the network above the adapters is built";
  if (options.json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& line : lines) list.push_back(json_of(line));
    out << nlohmann::ordered_json{{"machine", machine.name},
                                  {"units", job.units},
                                  {"chips", int64_t{machine.chips} * job.units},
                                  {"ranks", ranks},
                                  {"cores_per_rank", machine.cores_per_rank},
                                  {"operation", nccom::long_name(options.operation)},
                                  {"datatype", options.datatype},
                                  {"band", band_json(error_band)},
                                  {"assumed", assumed},
                                  {"times", std::move(list)}}
               .dump(2)
        << "\n";
    return;
  }
  out << fmt::format("{} over {} ranks of {} physical core{}, {} chips: {} x {}\n",
                     nccom::long_name(options.operation), ranks, machine.cores_per_rank,
                     machine.cores_per_rank == 1 ? "" : "s", int64_t{machine.chips} * job.units, job.units,
                     machine.name);
  TextTable table({"bytes", "us", "algbw GB/s", "busbw GB/s", "busiest links", "busy", "steps", "classes"});
  for (const auto& line : lines)
    table.add_row({fmt::format("{}", line.summary.bytes), fmt::format("{:.1f}", line.summary.us),
                   fmt::format("{:.2f}", line.summary.algorithm_gb_s),
                   fmt::format("{:.2f}", line.summary.bus_gb_s), line.summary.busiest,
                   fmt::format("{:.0f}%", 100 * line.summary.busiest_share), fmt::format("{}", line.steps),
                   fmt::format("{}", line.classes)});
  out << table.str();
  for (size_t i = 0; i < lines.size(); ++i)
    if (i == 0 || text_of(lines[i].levels) != text_of(lines[i - 1].levels) ||
        lines[i].within != lines[i - 1].within)
      out << wrapped(fmt::format("{} B: hier, {} within a unit, then {}", lines[i].summary.bytes,
                                 lines[i].within, text_of(lines[i].levels)),
                     0);
  out << wrapped(arch::to_text(error_band), 0) << wrapped("Assumed: " + assumed, 0);
}

}  // namespace

void add_fabric_cluster(CLI::App& fabric, std::ostream& out) {
  auto options = std::make_shared<Options>();
  CLI::App* command = fabric.add_subcommand(
      "cluster", "How long a collective takes on thousands of machines: one stands for all, exactly");
  options->machine.add_to(*command);
  options->tables.add_to(*command);
  command->add_option("operation", options->operation, "all_reduce, all_gather or reduce_scatter");
  command
      ->add_option("--bytes", options->sizes, "Sizes: 1kb 1MB 1gb; rounded up to equal parts for all ranks")
      ->expected(1, 1000);
  command->add_option("-d,--datatype", options->datatype, "Type of the elements (default: bf16)");
  command->add_option("--ranks-per-chip", options->ranks_per_chip, "Ranks on each chip (default: by --lnc)")
      ->check(CLI::Range(1, 8));
  command->add_option("--pod", options->pod, "Machines of a pod (default: no pods)")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--rails", options->rails, "Parts of the network above the pods (default: 1)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--oversubscription", options->oversubscription,
                      "Rate of a pod's adapters over that of its links upwards (default: 1; without --pod a "
                      "machine is a pod)");
  command
      ->add_option("--taken", options->taken,
                   "Part of links that other jobs take: core=0.3 efa=0.1, or efa@17=0.5 of machine 17")
      ->expected(1, 1000);
  command->add_option(
      "--within", options->within,
      "Algorithm within a machine: mesh, ring, rdh or kangaring (default: by size and ranks)");
  command->add_option(
      "--levels", options->levels,
      "Levels between machines, pods first: rdh:32,ring:49 (default: by AWS's rules, none above 16 but rdh)");
  command
      ->add_option("--pipeline", options->pipeline,
                   "Parts of an all-reduce whose stages overlap (default: 3)")
      ->check(CLI::Range(1, 3));
  auto* units =
      command->add_flag("--all-units", options->all_units,
                        "Write the plan out for all machines, and fold what is equal (machines that differ)");
  command
      ->add_flag("--all-steps", options->all_steps,
                 "Write the plan out and simulate each step: what the other two are checked against")
      ->excludes(units);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &out] { print_cluster(*options, out); });
}

}  // namespace opentrn::cli
