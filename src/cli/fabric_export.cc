// opentrn fabric export: the plan of a collective in a format of other tools.
#include "cli/fabric_export.h"

#include <memory>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/new_file.h"
#include "cli/command.h"
#include "cli/fabric_operation.h"
#include "cli/machine_options.h"
#include "cli/nccom_options.h"
#include "cli/validators.h"
#include "collectives/messages.h"
#include "collectives/msccl.h"
#include "collectives/predict.h"
#include "collectives/values.h"

namespace opentrn::cli {
namespace {

struct FabricExportOptions {
  MachineOptions machine;
  TableOptions tables;
  std::string operation, datatype = "bf16", algorithm, bytes = "1MB", format, path;
  int ranks = 0;
};

collectives::Planned planned(const FabricExportOptions& options) {
  const auto tables = options.tables.load();
  const fabric::Platform platform = options.machine.platform(*tables);
  const int lnc = options.machine.cores_per_rank(*tables, platform);
  collectives::Job job;
  job.cores = collectives::place_ranks(platform, options.ranks ? options.ranks : platform.cores() / lnc, lnc,
                                       platform.servers());
  job.algorithm = options.algorithm;
  job.request.kind = fabric_operation(options.operation).kind;
  job.request.ranks = static_cast<int>(job.cores.size());
  job.request.dtype = nccom::dtype_of(options.datatype);
  const int64_t size = nccom::bytes_of(options.bytes, "--bytes");
  const int64_t unit = int64_t{size_bytes(job.request.dtype)} * job.request.ranks;
  job.request.bytes = (size + unit - 1) / unit * unit;  // as nccom-test rounds
  if (job.request.kind == collectives::Kind::kAllGather) job.request.bytes /= job.request.ranks;
  return plan_of(*tables, platform, job);
}

void write_file(const std::string& path, const std::string& text) {
  NewFile file(path, "fabric.file", "another path");
  file.put(text.data(), text.size());
  file.finish();
}

void run_export(const FabricExportOptions& options, std::ostream& out) {
  const collectives::Planned made = planned(options);
  collectives::prove(made.plan);
  std::string files = options.path;
  if (options.format == "goal") {
    write_file(options.path, goal_of_plan(made.plan));
  } else if (options.format == "msccl") {
    const collectives::MscclProgram program = msccl_of_plan(made.plan);
    write_file(options.path, program.xml);
    files += fmt::format(", chunks of {} B", program.options.chunk_bytes);
  } else {
    const std::vector<std::string> ranks = chakra_of_plan(made.plan);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      write_file(fmt::format("{}.{}.et", options.path, rank), ranks[rank]);
    files = fmt::format("{}.0.et to {}.{}.et", options.path, options.path, ranks.size() - 1);
  }
  out << fmt::format("{} over {} ranks by {}, {} steps: {}\n", name_of(made.plan.request.kind),
                     made.plan.request.ranks, made.algorithm, made.plan.step_count(), files);
}

}  // namespace

void add_fabric_export(CLI::App& fabric, std::ostream& out) {
  auto options = std::make_shared<FabricExportOptions>();
  CLI::App* command =
      fabric.add_subcommand("export", "The plan of a collective as messages, for other simulators");
  options->machine.add_to(*command);
  options->tables.add_to(*command);
  command->add_option("operation", options->operation, kFabricOperations)->required();
  command->add_option("-r,--ranks", options->ranks, "Ranks (default: all of the machine)")
      ->check(whole_within(1, 1 << 20));
  command->add_option("--bytes", options->bytes, "Size, as nccom-test counts it (default: 1MB)");
  command->add_option("-d,--datatype", options->datatype, "Type of the elements (default: bf16)");
  command->add_option("--algorithm", options->algorithm, "This one, and not the one that AWS's rules choose");
  command
      ->add_option("--format", options->format,
                   "goal: one text for LogGOPSim and ATLAHS; chakra: execution traces, FILE.RANK.et for each "
                   "rank; msccl: the XML of MSCCL-tools")
      ->required()
      ->check(CLI::IsMember({"goal", "chakra", "msccl"}));
  command->add_option("-o,--output", options->path, "The file, or the beginning of the files' names")
      ->required();
  command->callback([options, &out] { run_export(*options, out); });
}

}  // namespace opentrn::cli
