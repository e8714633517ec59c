// opentrn fabric job: how long a step of a training job takes on thousands of machines that do the same.
#include "cli/fabric_job.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/band.h"
#include "cli/cluster_options.h"
#include "cli/fabric_job_file.h"
#include "cli/nccom_options.h"
#include "cli/text_table.h"
#include "collectives/training.h"
#include "fabric/platform.h"

namespace opentrn::cli {
namespace {

struct FabricJobOptions {
  ClusterOptions cluster;
  std::string file;
};

double ms(int64_t ps) { return static_cast<double>(ps) / kPsPerMs; }
double us(double ps) { return ps / kPsPerUs; }

nlohmann::ordered_json block_json(const collectives::BlockTime& block) {
  return {{"name", block.name},
          {"repeat", block.repeat},
          {"ps", block.ps},
          {"compute_ps", block.compute_ps},
          {"collectives_ps", block.collectives_ps},
          {"exposed_ps", block.exposed_ps}};
}

nlohmann::ordered_json use_json(const collectives::CollectiveUse& use) {
  return {{"name", use.name},       {"over", use.over},
          {"ranks", use.ranks},     {"algorithm", use.algorithm},
          {"why", use.why},         {"bytes", use.bytes},
          {"count", use.count},     {"alone_ps", use.alone_ps},
          {"mean_ps", use.mean_ps}, {"exposed_ps", use.exposed_ps}};
}

void print_text(const collectives::TrainingTime& time, const std::string& machine, std::ostream& out) {
  out << fmt::format(
      "a step of {:.3f} ms on {}\n{:.3f} ms of compute, {:.3f} ms of collectives with none beside\n",
      ms(time.end_ps), machine, ms(time.compute_ps), ms(time.exposed_ps));
  TextTable blocks({"block", "times", "ms", "ms each", "compute", "collectives", "exposed"});
  for (const auto& block : time.blocks)
    blocks.add_row({block.name, fmt::format("{}", block.repeat), fmt::format("{:.3f}", ms(block.end_ps())),
                    fmt::format("{:.3f}", ms(block.ps)), fmt::format("{:.3f}", ms(block.compute_ps)),
                    fmt::format("{:.3f}", ms(block.collectives_ps)),
                    fmt::format("{:.3f}", ms(block.exposed_ps))});
  out << blocks.str();
  TextTable uses(
      {"collective", "over", "ranks", "bytes", "algorithm", "times", "us alone", "us here", "exposed ms"});
  for (const auto& use : time.collectives)
    uses.add_row({use.name, use.over, fmt::format("{}", use.ranks), fmt::format("{}", use.bytes),
                  use.algorithm, fmt::format("{}", use.count),
                  fmt::format("{:.1f}", us(static_cast<double>(use.alone_ps))),
                  fmt::format("{:.1f}", us(use.mean_ps)), fmt::format("{:.3f}", ms(use.exposed_ps))});
  if (time.collectives.empty()) return;
  out << uses.str();
  const bool are_alike = time.units_written == 1;
  out << wrapped(fmt::format("{} transfers of {} were written out, and {} classes of equal ones simulated{}",
                             time.written,
                             are_alike ? "one instance" : fmt::format("all {} instances", time.units_written),
                             time.classes, are_alike ? ": that instance stands for all" : ""),
                 0);
}

void print_job(const FabricJobOptions& options, std::ostream& out) {
  const ClusterOptions& cluster = options.cluster;
  const auto tables = cluster.tables.load();
  const ClusterUnit unit = cluster.unit(*tables);
  collectives::TrainingJob job;
  job.machine = unit.name;
  job.units = cluster.machine.nodes;
  job.cores_per_rank = unit.cores_per_rank;
  job.cluster = cluster.cluster();
  job.dtype = nccom::dtype_of(cluster.datatype);
  read_training_file(options.file, job);
  const collectives::TrainingTime time = training_time(*tables, job, cluster.extent());
  std::string assumed = network_of(job.units, job.cluster);
  const bool has_hierarchies =
      std::ranges::any_of(time.collectives, [](const auto& use) { return use.algorithm == "hier"; });
  if (has_hierarchies && fabric::Platform::make(*tables, unit.name).alike_instances() > 1)
    assumed += fmt::format("; {}", kInstancesAssumed);
  const arch::Band error_band =
      arch::band(*tables, {.generation = tables->resolve_target(unit.name), .collective = true});
  if (cluster.json) {
    auto blocks = nlohmann::ordered_json::array(), uses = blocks;
    for (const auto& block : time.blocks) blocks.push_back(block_json(block));
    for (const auto& use : time.collectives) uses.push_back(use_json(use));
    out << nlohmann::ordered_json{{"machine", unit.name},
                                  {"units", job.units},
                                  {"chips", int64_t{unit.chips} * job.units},
                                  {"ranks", time.ranks},
                                  {"cores_per_rank", unit.cores_per_rank},
                                  {"ps", time.end_ps},
                                  {"compute_ps", time.compute_ps},
                                  {"exposed_ps", time.exposed_ps},
                                  {"band", band_json(error_band)},
                                  {"assumed", assumed},
                                  {"blocks", std::move(blocks)},
                                  {"collectives", std::move(uses)},
                                  {"units_written_out", time.units_written},
                                  {"steps_written_out", time.written},
                                  {"classes", time.classes}}
               .dump(2)
        << "\n";
    return;
  }
  print_text(time,
             fmt::format("{} ranks, {} chips: {} x {}", time.ranks, int64_t{unit.chips} * job.units,
                         job.units, unit.name),
             out);
  out << wrapped("Of collectives: " + arch::to_text(error_band), 0) << wrapped("Assumed: " + assumed, 0);
}

}  // namespace

void add_fabric_job(CLI::App& fabric, std::ostream& out) {
  auto options = std::make_shared<FabricJobOptions>();
  CLI::App* command = fabric.add_subcommand(
      "job",
      "How long a step of a job takes on thousands of machines: compute and collectives, links shared");
  options->cluster.add_to(*command);
  command->add_option("file", options->file, "YAML: the axes of the job, and its blocks of steps")
      ->required();
  command->callback([options, &out] { print_job(*options, out); });
}

}  // namespace opentrn::cli
