// opentrn fabric cluster: how long a collective takes on thousands of machines that do the same.
#include "cli/fabric_cluster.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/host_memory.h"
#include "cli/band.h"
#include "cli/cluster_options.h"
#include "cli/fabric_operation.h"
#include "cli/nccom_options.h"
#include "cli/text_table.h"
#include "cli/validators.h"
#include "collectives/cluster.h"

namespace opentrn::cli {
namespace {

struct FabricClusterOptions {
  ClusterOptions cluster;
  std::string operation = "all_reduce", within, levels;
  std::vector<std::string> sizes = {"1MB", "64MB", "1gb"};
  int pipeline = 3;
};

collectives::ClusterJob job_of(const FabricClusterOptions& options, const ClusterUnit& unit) {
  collectives::ClusterJob job;
  job.machine = unit.name;
  job.units = options.cluster.machine.nodes;
  job.cores_per_rank = unit.cores_per_rank;
  job.cluster = options.cluster.cluster();
  job.kind = fabric_operation(options.operation).kind;
  job.dtype = nccom::dtype_of(options.cluster.datatype);
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
           levels[end].between_pods == levels[i].between_pods &&
           (levels[end].instance > 0) == (levels[i].instance > 0))
      ++end;
    parts.push_back(fmt::format("{} of {}{}", end > i + 1 ? "rdh" : levels[i].algorithm,
                                end > i + 1 ? 1 << (end - i) : levels[i].size,
                                levels[i].between_pods   ? " (between pods)"
                                : levels[i].instance > 0 ? " (instances of an UltraServer)"
                                                         : ""));
    i = end;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool goes_by_instances(const collectives::ClusterSummary& line) {
  return !line.levels.empty() && line.levels[0].instance > 0;
}

std::string way_of(const collectives::ClusterSummary& line) {
  if (line.summary.algorithm == "mesh") return "every rank to every other at once";
  const bool by_instances = goes_by_instances(line);
  return fmt::format("hier, {} within {}, then {}", line.within, by_instances ? "an instance" : "a unit",
                     text_of(line.levels));
}

nlohmann::ordered_json cluster_json(const collectives::ClusterSummary& line) {
  auto levels = nlohmann::ordered_json::array();
  for (const collectives::Level& level : line.levels) {
    levels.push_back(
        {{"size", level.size}, {"algorithm", level.algorithm}, {"between_pods", level.between_pods}});
    if (level.instance > 0) levels.back()["between_instances"] = true;
  }
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

void print_cluster(const FabricClusterOptions& options, std::ostream& out) {
  constexpr size_t kHeapBytes = size_t{64} << 20;  // most of what a cluster of 100,000 chips takes
  grow_heap_in_huge_pages(kHeapBytes);
  const auto tables = options.cluster.tables.load();
  const ClusterUnit unit = options.cluster.unit(*tables);
  collectives::ClusterJob job = job_of(options, unit);
  std::vector<collectives::ClusterSummary> lines;
  for (const std::string& size : options.sizes) {
    job.bytes = nccom::bytes_of(size, "--bytes");
    lines.push_back(cluster_summary(*tables, job, options.cluster.extent()));
  }
  const int ranks = lines.empty() ? 0 : lines[0].ranks;
  const arch::Band error_band =
      arch::band(*tables, {.generation = tables->resolve_target(unit.name), .collective = true});
  std::string assumed = network_of(job.units, job.cluster);
  if (std::ranges::any_of(lines, goes_by_instances)) assumed += fmt::format("; {}", kInstancesAssumed);
  if (options.cluster.json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& line : lines) list.push_back(cluster_json(line));
    out << nlohmann::ordered_json{{"machine", unit.name},
                                  {"units", job.units},
                                  {"chips", int64_t{unit.chips} * job.units},
                                  {"ranks", ranks},
                                  {"cores_per_rank", unit.cores_per_rank},
                                  {"operation", fabric_operation(options.operation).name},
                                  {"datatype", options.cluster.datatype},
                                  {"band", band_json(error_band)},
                                  {"assumed", assumed},
                                  {"times", std::move(list)}}
               .dump(2)
        << "\n";
    return;
  }
  out << fmt::format("{} over {} ranks of {} physical core{}, {} chips: {} x {}\n",
                     fabric_operation(options.operation).name, ranks, unit.cores_per_rank,
                     unit.cores_per_rank == 1 ? "" : "s", int64_t{unit.chips} * job.units, job.units,
                     unit.name);
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
      out << wrapped(fmt::format("{} B: {}", lines[i].summary.bytes, way_of(lines[i])), 0);
  out << wrapped(arch::to_text(error_band), 0) << wrapped("Assumed: " + assumed, 0);
}

}  // namespace

void add_fabric_cluster(CLI::App& fabric, std::ostream& out) {
  auto options = std::make_shared<FabricClusterOptions>();
  CLI::App* command = fabric.add_subcommand(
      "cluster", "How long a collective takes on thousands of machines: one stands for all, exactly");
  options->cluster.add_to(*command);
  command->add_option("operation", options->operation,
                      "all_reduce, all_gather, reduce_scatter or all_to_all");
  command
      ->add_option("--bytes", options->sizes, "Sizes: 1kb 1MB 1gb; rounded up to equal parts for all ranks")
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
      ->check(whole_within(1, 3));
  command->callback([options, &out] { print_cluster(*options, out); });
}

}  // namespace opentrn::cli
