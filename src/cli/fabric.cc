// opentrn fabric: what joins the chips of a machine, whether it is sound, and how long collectives take on
// it.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/band.h"
#include "cli/cluster_options.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/fabric_cluster.h"
#include "cli/fabric_export.h"
#include "cli/fabric_job.h"
#include "cli/fabric_operation.h"
#include "cli/fabric_traffic.h"
#include "cli/machine_options.h"
#include "cli/nccom_options.h"
#include "cli/text_table.h"
#include "cli/validators.h"
#include "collectives/msccl.h"
#include "collectives/summary.h"
#include "collectives/verify.h"
#include "fabric/text.h"
#include "fabric/verify.h"
#include "numerics/dtype.h"

namespace opentrn::cli {
namespace {

struct FabricOptions {
  MachineOptions machine;
  TableOptions tables;
  bool json = false;
  std::string operation = "all_reduce", datatype = "bf16", algorithm, html, perfetto, msccl;
  std::vector<std::string> sizes = {"1kb", "64kb", "1MB", "16MB", "256MB"};
  int ranks = 0, group = 0;
};

struct Machine {
  Machine(const FabricOptions& options, const arch::Tables& tables)
      : platform(options.machine.platform(tables)),
        lnc(options.machine.cores_per_rank(tables, platform)),
        ranks(collectives::place_ranks(platform, options.ranks ? options.ranks : platform.cores() / lnc, lnc,
                                       platform.servers())) {}

  fabric::Platform platform;
  int lnc;
  collectives::RankCores ranks;
};

collectives::SizedJob job_of(const FabricOptions& options) {
  return {fabric_operation(options.operation).kind, nccom::dtype_of(options.datatype), 0, options.group,
          options.algorithm};
}

nlohmann::ordered_json summary_json(const collectives::Summary& line) {
  return {{"bytes", line.bytes},
          {"us", line.us},
          {"algorithm", line.algorithm},
          {"why", line.why},
          {"algorithm_gb_s", line.algorithm_gb_s},
          {"bus_gb_s", line.bus_gb_s},
          {"busiest", line.busiest},
          {"busiest_share", line.busiest_share}};
}

// A section of the page for each size; the events of all sizes one after the other.
void write_pictures(const FabricOptions& options, const arch::Tables& tables, const Machine& machine,
                    const std::vector<PredictedSize>& sizes) {
  std::vector<const PredictedSize*> all;
  std::vector<traffic::Traffic> sections;
  for (const PredictedSize& one : sizes) {
    all.push_back(&one);
    if (!options.html.empty())
      sections.push_back(traffic_of(tables, machine.platform, {&one}, options.datatype));
  }
  if (!options.html.empty())
    write_fabric_page(
        options.html,
        fmt::format("{} on {}", fabric_operation(options.operation).name, machine.platform.name()), sections);
  if (!options.perfetto.empty())
    write_fabric_events(options.perfetto, traffic_of(tables, machine.platform, all, options.datatype));
}

void print_prediction(const FabricOptions& options, std::ostream& out) {
  const auto tables = options.tables.load();
  const Machine machine(options, *tables);
  collectives::SizedJob job = job_of(options);
  std::vector<collectives::Summary> lines;
  std::vector<PredictedSize> kept;  // of which pictures are made
  const bool draws = !options.html.empty() || !options.perfetto.empty();
  for (const std::string& size : options.sizes) {
    job.bytes = nccom::bytes_of(size, "--bytes");
    PredictedSize one{jobs_of(machine.ranks, job), {}};
    one.predictions = predict(*tables, machine.platform, one.jobs);
    lines.push_back(summary_of(machine.platform, one.jobs, one.predictions));
    if (draws) kept.push_back(std::move(one));
  }
  if (draws) write_pictures(options, *tables, machine, kept);
  const int ranks = static_cast<int>(machine.ranks.size()), group = options.group ? options.group : ranks;
  const arch::Band error_band =
      arch::band(*tables, {.generation = machine.platform.generation(), .collective = true});
  if (options.json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& line : lines) list.push_back(summary_json(line));
    out << nlohmann::ordered_json{{"machine", machine.platform.name()},
                                  {"nodes", options.machine.nodes},
                                  {"ranks", ranks},
                                  {"group", group},
                                  {"cores_per_rank", machine.lnc},
                                  {"operation", fabric_operation(options.operation).name},
                                  {"datatype", options.datatype},
                                  {"band", band_json(error_band)},
                                  {"times", std::move(list)}}
               .dump(2)
        << "\n";
    return;
  }
  TextTable table({"bytes", "us", "algorithm", "algbw GB/s", "busbw GB/s", "busiest links", "busy"});
  for (const auto& line : lines)
    table.add_row({fmt::format("{}", line.bytes), fmt::format("{:.1f}", line.us), line.algorithm,
                   fmt::format("{:.2f}", line.algorithm_gb_s), fmt::format("{:.2f}", line.bus_gb_s),
                   line.busiest, fmt::format("{:.0f}%", 100 * line.busiest_share)});
  out << fmt::format("{} over {} ranks of {} physical core{}{}, {} x {}\n",
                     fabric_operation(options.operation).name, group, machine.lnc,
                     machine.lnc == 1 ? "" : "s",
                     group == ranks ? "" : fmt::format(", {} groups at once", ranks / group),
                     options.machine.nodes, machine.platform.name())
      << table.str() << wrapped(arch::to_text(error_band), 0);
  const bool has_hierarchies =
      std::ranges::any_of(lines, [](const auto& line) { return line.algorithm == "hier"; });
  if (has_hierarchies && machine.platform.alike_instances() > 1)
    out << wrapped(fmt::format("Assumed: {}", kInstancesAssumed), 0);
  out << "What this rests on, by confidence:\n";
  for (const std::string& line : collectives::basis_of(*tables, machine.platform)) out << wrapped(line, 2);
}

void print_findings(const FabricOptions& options, std::ostream& out) {
  const auto tables = options.tables.load();
  const fabric::Platform platform = options.machine.platform(*tables);
  const std::vector<std::string> findings = fabric::verify(platform);
  for (const std::string& finding : findings) out << finding << "\n";
  if (!findings.empty())
    throw Fault(FaultKind::kInternal, "fabric.verify",
                fmt::format("{} findings about {}", findings.size(), platform.name()));
  out << fmt::format("{}: {} nodes, {} links, {} cores: every core reaches every other, and all rates hold\n",
                     platform.name(), platform.network().nodes.size(), platform.network().links.size(),
                     platform.cores());
}

// Of a program of MSCCL, which says itself what it computes.
void print_proof(const std::string& path, std::ostream& out) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file)
    throw Fault(FaultKind::kInput, "fabric.file", fmt::format("{} cannot be read", path),
                "the path of a file");
  const collectives::Plan plan = collectives::plan_of_msccl(text);
  const std::vector<collectives::Finding> findings = verify(plan);
  for (const collectives::Finding& finding : findings) out << finding.label << ": " << finding.text << "\n";
  if (!findings.empty())
    throw Fault(FaultKind::kInput, "collectives.msccl",
                fmt::format("{} findings about {}", findings.size(), path),
                "see the steps that the findings name");
  out << fmt::format("{}: {} over {} ranks, {} steps: proved\n", path, name_of(plan.request.kind),
                     plan.request.ranks, plan.step_count());
}

}  // namespace

void add_fabric(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<FabricOptions>();
  CLI::App* command = app.add_subcommand("fabric", "The links between chips, and collectives over them");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* text) {
    CLI::App* sub = command->add_subcommand(name, text);
    options->machine.add_to(*sub);
    options->tables.add_to(*sub);
    return sub;
  };
  CLI::App* show = add("show", "Print chips, links, rates and latencies with their sources");
  show->add_flag("--json", options->json, "Print JSON: every node and link");
  const char* const links_alone = "only for ranks, and these are the links of chips";
  show->callback([options, show, links_alone, &out] {
    refuse_given(*show, {"--lnc"}, links_alone);
    const auto tables = options->tables.load();
    const fabric::Platform platform = options->machine.platform(*tables);
    out << (options->json ? fabric::show_json(platform).dump(2) + "\n"
                          : wrapped_lines(fabric::show(platform)));
  });
  CLI::App* verify = add("verify", "Check that all cores reach each other and that no rate is exceeded");
  verify->add_option("--msccl", options->msccl,
                     "Prove this XML program of MSCCL-tools instead: what it computes, races, deadlocks");
  verify->callback([options, verify, links_alone, &out] {
    refuse_given(*verify, {"--lnc"}, links_alone);
    if (!options->msccl.empty()) {
      refuse_given(*verify, {"--instance", "--nnodes", "--set", "--tables"},
                   "not of a program, which knows no links");
      return print_proof(options->msccl, out);
    }
    print_findings(*options, out);
  });
  CLI::App* predict = add("predict", "Predict the time of a collective, its algorithm and its bottleneck");
  predict->add_option("operation", options->operation, kFabricOperations);
  predict->add_option("-r,--ranks", options->ranks, "Ranks (default: all of the machine)")
      ->check(whole_within(1, 1 << 20));
  predict
      ->add_option("--group", options->group, "Ranks in a group; all groups run at once (default: one group)")
      ->check(whole_within(1, 1 << 20));
  predict->add_option("--bytes", options->sizes, "Sizes, as of nccom-test: 1kb 1MB 1gb")->expected(1, 1000);
  predict->add_option("-d,--datatype", options->datatype, "Type of the elements (default: bf16)");
  predict->add_option("--algorithm", options->algorithm,
                      "Use this algorithm instead of the one that AWS's rules choose");
  predict->add_option("--html", options->html, "Also write a page: ranks and links over time, for each size");
  predict->add_option("--perfetto", options->perfetto,
                      "Also write events for ui.perfetto.dev, the sizes one after the other");
  predict->add_flag("--json", options->json, "Print JSON");
  predict->callback([options, &out] { print_prediction(*options, out); });
  add_fabric_cluster(*command, out);
  add_fabric_export(*command, out);
  add_fabric_job(*command, out);
}

}  // namespace opentrn::cli
