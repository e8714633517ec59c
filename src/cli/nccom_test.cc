// opentrn nccom-test: AWS's benchmark of collectives, in simulated time.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/new_file.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/machine_options.h"
#include "cli/nccom_check.h"
#include "cli/nccom_groups.h"
#include "cli/nccom_options.h"
#include "cli/nccom_report.h"
#include "cli/validators.h"
#include "collectives/predict.h"
#include "mpi/world.h"
#include "numerics/dtype.h"

namespace opentrn::cli {
namespace {

using collectives::Kind;
using collectives::Request;
using namespace nccom;                // NOLINT(google-build-using-namespace): this file is its command
__extension__ using Wide = __int128;  // bytes times a proportion may pass 64 bits

struct NccomTestOptions {
  Operation operation;
  MachineOptions machine;
  TableOptions tables;
  int workers = 0;
  std::string check, streams, report, algorithm;
  std::vector<std::string> stats = {"avg"};
  uint64_t seed = 0;
  bool show_algorithm = false, show_sizes = false;
  std::vector<std::string> without_effect;  // options that were given
};

// One size of one stream: its request, and what is printed of it beside the time.
struct Case {
  Request request;
  Row row;
};

// The size that is printed is that of a rank's input for all-reduce, reduce-scatter and what is sent, and of
// the output for all-gather; requests state inputs.
Case case_of(const Operation& operation, int ranks, int64_t size) {
  Case out;
  Request& request = out.request;
  request.kind = kind_of(operation.name);
  request.ranks = ranks;
  request.dtype = dtype_of(operation.datatype);
  const int64_t element = size_bytes(request.dtype);
  const bool scatters = request.kind != Kind::kAllReduce && request.kind != Kind::kPermute;
  // What does not divide is rounded up, as the tool does.
  const int64_t unit = element * (scatters ? ranks : 1);
  const int64_t bytes = (size + unit - 1) / unit * unit;
  out.row.bytes = bytes;
  request.bytes = request.kind == Kind::kAllGather ? bytes / ranks : bytes;
  if (operation.name == "permute") request.pairs = pairs_of(operation, ranks);
  if (operation.name == "sendrecv")  // neighbours exchange
    for (int rank = 0; rank + 1 < ranks; rank += 2) {
      request.pairs.emplace_back(rank, rank + 1);
      request.pairs.emplace_back(rank + 1, rank);
    }
  if (request.kind == Kind::kAllGatherV || request.kind == Kind::kAllToAllV) {
    request.bytes = 0;
    request.counts = counts_of(operation, ranks, bytes / element);
    for (int64_t& count : request.counts) count *= element;
    int64_t most = 0;
    for (int rank = 0; rank < ranks; ++rank) most = std::max(most, output_bytes(request, rank));
    out.row.bytes = most;
  }
  out.row.elements = out.row.bytes / element;
  out.row.type = operation.datatype;
  out.row.input_bytes = input_bytes(request, 0);
  out.row.output_bytes = output_bytes(request, 0);
  return out;
}

class Benchmark {
 public:
  // `world`: the processes that share the ranks; null where this one has all.
  Benchmark(const NccomTestOptions& options, const arch::Tables& tables, mpi::World* world)
      : options_(options),
        world_(world),
        tables_(tables),
        platform_(options.machine.platform(tables)),
        lnc_(options.machine.cores_per_rank(tables, platform_)),
        cores_(collectives::place_ranks(platform_, options.workers, lnc_,
                                        options.machine.nodes * platform_.servers_per_unit())),
        division_(options.workers, world ? world->processes() : 1) {
    streams_ = options.streams.empty() ? std::vector<Operation>{options.operation}
                                       : streams_of(options.streams, options.operation);
  }

  const fabric::Platform& platform() const { return platform_; }
  int lnc() const { return lnc_; }

  struct Table {
    Columns columns;
    std::vector<Row> rows;
  };

  // Times are made, and printed, in one process.
  const mpi::Division& division() const { return division_; }
  bool is_first() const { return !world_ || world_->process() == 0; }

  // All sizes of all streams; a stream that has fewer repeats its last. Rows in the first process only.
  std::vector<Table> run() {
    std::vector<Table> tables;
    std::vector<std::vector<int64_t>> sizes;
    size_t rounds = 0;
    for (const Operation& stream : streams_) {
      groups_.push_back(groups_of(stream, options_.workers));
      const int ranks = static_cast<int>(groups_.back()[0].size());
      tables.push_back(
          {{stream.name, ranks, options_.stats, options_.show_algorithm, options_.show_sizes}, {}});
      sizes.push_back(sizes_of(stream));
      rounds = std::max(rounds, sizes.back().size());
    }
    for (size_t round = 0; round < rounds; ++round) {
      std::vector<int64_t> now;
      for (const auto& list : sizes) now.push_back(list[std::min(round, list.size() - 1)]);
      run_round(now, tables);
    }
    return tables;
  }

 private:
  void run_round(const std::vector<int64_t>& sizes, std::vector<Table>& tables) {
    std::vector<collectives::Job> jobs;
    divisions_.clear();
    std::vector<Case> cases;
    std::vector<size_t> stream_of_job;
    for (size_t stream = 0; stream < streams_.size(); ++stream) {
      cases.push_back(case_of(streams_[stream], tables[stream].columns.ranks, sizes[stream]));
      add_jobs(stream, cases.back().request, jobs);
      stream_of_job.resize(jobs.size(), stream);
    }
    const collectives::Predictions predicted =
        is_first() ? collectives::predict(tables_, platform_, jobs) : plans_of(jobs);
    for (size_t stream = 0; is_first() && stream < streams_.size(); ++stream) {
      Row& row = cases[stream].row;
      int64_t last = 0;
      for (size_t job = 0; job < jobs.size(); ++job) {
        if (stream_of_job[job] != stream) continue;
        row.algorithm = predicted.jobs[job].plan.algorithm;
        last = std::max(last, predicted.jobs[job].time.end_ps());
      }
      row.average_us = static_cast<double>(last) / kPsPerUs / streams_[stream].ops_per_iter;
      row.times_us.assign(options_.stats.size(), row.average_us);
      tables[stream].rows.push_back(row);
    }
    if (!options_.check.empty()) check(predicted, cases, stream_of_job);
  }

  // As predict(), without times.
  collectives::Predictions plans_of(const std::vector<collectives::Job>& jobs) const {
    collectives::Predictions planned;
    if (options_.check.empty()) return planned;
    for (const collectives::Job& job : jobs) planned.jobs.push_back({plan_of(tables_, platform_, job), {}});
    return planned;
  }

  void add_jobs(size_t stream, const Request& request, std::vector<collectives::Job>& jobs) {
    const Operation& operation = streams_[stream];
    for (const std::vector<int>& group : groups_[stream]) {
      collectives::Job job;
      job.request = request;
      for (const int rank : group) job.cores.push_back(cores_[static_cast<size_t>(rank)]);
      const mpi::Division division = division_.of_group(group);
      job.algorithm = options_.algorithm;
      job.repeats = operation.ops_per_iter;
      if (operation.coalesced_cc_size_ratio.empty()) {
        jobs.push_back(std::move(job));
        divisions_.push_back(division);
        continue;
      }
      // Parts of one operation that run beside each other.
      const auto& ratio = operation.coalesced_cc_size_ratio;
      const int64_t whole = std::accumulate(ratio.begin(), ratio.end(), int64_t{0});
      const int64_t unit = int64_t{size_bytes(request.dtype)} * request.ranks;
      for (const int part : ratio) {
        const auto share = static_cast<int64_t>(Wide{request.bytes} * part / whole);
        job.request.bytes = std::max<int64_t>(unit, share / unit * unit);
        jobs.push_back(job);
        divisions_.push_back(division);
      }
    }
  }

  // The plans compute what they should. Each group's: they differ where the groups stand otherwise.
  void check(const collectives::Predictions& predicted, const std::vector<Case>& cases,
             const std::vector<size_t>& stream_of_job) const {
    const Fill fill = options_.check == "all_ones" ? Fill::kOnes : Fill::kRandom;
    for (size_t job = 0; job < predicted.jobs.size(); ++job) {
      std::optional<Processes> processes;
      if (world_) processes.emplace(divisions_[job], *world_);
      const std::string wrong =
          check_values(predicted.jobs[job].plan, fill, options_.seed, processes ? &*processes : nullptr);
      if (!wrong.empty())
        throw Fault(FaultKind::kInternal, "nccom_test.check",
                    fmt::format("{} of {} bytes by {}: {}", streams_[stream_of_job[job]].name,
                                cases[stream_of_job[job]].row.bytes, predicted.jobs[job].algorithm, wrong));
    }
  }

  const NccomTestOptions& options_;
  mpi::World* world_;
  const arch::Tables& tables_;
  fabric::Platform platform_;
  int lnc_;
  collectives::RankCores cores_;
  mpi::Division division_;                // of all workers
  std::vector<mpi::Division> divisions_;  // of the group of each job
  std::vector<Operation> streams_;
  std::vector<Groups> groups_;
};

void check_stats(const std::vector<std::string>& stats) {
  for (const std::string& stat : stats) {
    int percent = 0;
    const bool is_percentile =
        stat.size() > 1 && stat[0] == 'p' &&
        std::all_of(stat.begin() + 1, stat.end(), [](unsigned char c) { return std::isdigit(c); });
    if (is_percentile && stat.size() <= 4) percent = std::stoi(stat.substr(1));
    if (stat != "avg" && (percent < 1 || percent > 100))
      throw Fault(FaultKind::kInput, "nccom_test.argument",
                  fmt::format("--stats {}: no such statistic", stat), "avg, or p1 to p100");
  }
}

void write_json(const std::string& path, const std::vector<Benchmark::Table>& tables) {
  auto results = nlohmann::ordered_json::array();
  for (const auto& table : tables)
    for (auto& row : json_of(table.columns, table.rows)) results.push_back(std::move(row));
  const std::string text = nlohmann::ordered_json{{"results", std::move(results)}}.dump(4) + "\n";
  NewFile file(path, "nccom_test.file", "another path");
  file.put(text.data(), text.size());
  file.finish();
}

// Beside the table, which scripts read.
void print_notes(const NccomTestOptions& options, const Benchmark& benchmark, const mpi::World* world) {
  fmt::print(stderr,
             "opentrn: simulated on {} x {}, {} ranks of {} physical core{}; times are the device's\n",
             options.machine.nodes, benchmark.platform().name(), options.workers, benchmark.lnc(),
             benchmark.lnc() == 1 ? "" : "s");
  if (!options.check.empty())
    fmt::print(stderr, "opentrn: the values of every operation were computed and compared: {}\n",
               options.check);
  if (!options.without_effect.empty())
    fmt::print(stderr, "opentrn: of no effect, as simulated operations do not vary: {}\n",
               fmt::join(options.without_effect, " "));
  if (world && options.check.empty())
    fmt::print(stderr, "opentrn: {} processes, of which one works: without --check there are no values\n",
               world->processes());
  if (world && !options.check.empty())
    fmt::print(stderr, "opentrn: values by {} processes over {}\n", world->processes(), world->version());
}

void run_benchmark(NccomTestOptions options, std::ostream& out) {
  options.operation.name = long_name(options.operation.name);
  check_stats(options.stats);
  const auto tables = options.tables.load();
  std::unique_ptr<mpi::World> world;
  if (mpi::is_one_of_several()) world = std::make_unique<mpi::World>();
  Benchmark benchmark(options, *tables, world.get());
  const auto results = benchmark.run();
  if (benchmark.is_first()) {
    for (const auto& table : results) out << table_of(table.columns, table.rows);
    if (!options.report.empty()) write_json(options.report, results);
    print_notes(options, benchmark, world.get());
  }
  if (!world) return;
  // One that still has a collective to do is told who has none.
  agree(*world, benchmark.division(), "the end of nccom-test");
  world->finish();
}

void add_operation_options(CLI::App& command, NccomTestOptions& options) {
  Operation& operation = options.operation;
  command
      .add_option("operation", operation.name,
                  "all_reduce (allr), all_gather (allg), all_gatherv (allgv), "
                  "reduce_scatter (redsct), sendrecv, alltoall, alltoallv or permute")
      ->required();
  command.add_option("-r,--nworkers", options.workers, "Number of ranks")
      ->required()
      ->check(whole_within(1, 1 << 20));
  command.add_option("-b,--minbytes", operation.minbytes, "Smallest size (default: 32M)");
  command.add_option("-e,--maxbytes", operation.maxbytes, "Largest size (default: 32M)");
  command.add_option("-i,--stepbytes", operation.stepbytes,
                     "Step between sizes (default: a tenth of the range)");
  command.add_option("-f,--stepfactor", operation.stepfactor, "Factor between sizes");
  command.add_option("-d,--datatype", operation.datatype,
                     "uint8 int8 fp8 uint16 int16 fp16 bf16 uint32 int32 fp32");
  command
      .add_option("--coalesced-cc-size-ratio", operation.coalesced_cc_size_ratio,
                  "Splits each operation into several concurrent ones, in these proportions")
      ->delimiter(',')
      ->check(whole_within(1, 1 << 20));
  command.add_option("--variable-size-op-metadata", operation.variable_size_op_metadata,
                     "JSON: send counts of alltoallv and all_gatherv");
  command
      .add_option("--data-parallel-dimension", operation.data_parallel_dimension,
                  "Ranks in a group; all groups run at once")
      ->check(whole_within(1, 1 << 20));
  command.add_option("--custom-replica-groups", operation.custom_replica_groups, "JSON: the groups");
  command.add_option("--custom-src-target-pairs", operation.custom_src_target_pairs,
                     "JSON: pairs of a permute");
  command.add_option("--streams-json", options.streams, "JSON: one operation for each stream, all at once");
}

void add_run_options(CLI::App& command, NccomTestOptions& options) {
  command
      .add_option("-c,--check", options.check, "Also computes and compares the values: random or all_ones")
      ->expected(0, 1)
      ->default_str("random")
      ->check(CLI::IsMember({"random", "all_ones"}));
  command.add_option("--seed", options.seed, "Seed of the random values (default: 0)")
      ->check(whole_within(0, INT64_MAX));
  command
      .add_option("-t,--stats", options.stats,
                  "avg, p50, p99, ... : simulated runs do not vary, so all are equal")
      ->expected(1, 16);
  command.add_option("--report-to-json-file", options.report, "Also writes the results to a JSON file");
  command.add_flag("--show-algorithm", options.show_algorithm, "A column with the algorithm");
  command.add_flag("--show-input-output-size", options.show_sizes, "Columns with the bytes of a rank");
  command.add_option("--algorithm", options.algorithm,
                     "Use this algorithm instead of the one that AWS's rules choose");
}

// What has a meaning for measured hardware only: taken, because scripts give it, and said to have no effect.
void add_options_without_effect(CLI::App& command, NccomTestOptions& options) {
  const char* const reason = "No effect: a simulated operation takes the same time whenever it runs";
  for (const char* name : {"-n,--iters", "-w,--warmup_iters,--warmup-iters", "-I,--neff_iters,--neff-iters",
                           "-W,--neff_warmup_iters,--neff-warmup-iters", "--data-collector-port"})
    command
        .add_option_function<int>(
            name, [&options, name](int) { options.without_effect.emplace_back(name); }, reason)
        ->check(whole_within(0, 1 << 30));
  for (const char* name : {"--non-interactive", "--debug", "--vcpu-pin-mode"})
    command.add_flag_function(
        name, [&options, name](int64_t) { options.without_effect.emplace_back(name); }, reason);
}

// What was given and would change nothing. The operations of streams take what is beside them as their
// defaults.
void refuse_without_effect(const CLI::App& command, const NccomTestOptions& options) {
  const std::string name = long_name(options.operation.name);
  if (options.streams.empty() && name != "alltoallv" && name != "all_gatherv")
    refuse_given(command, {"--variable-size-op-metadata"}, "of alltoallv and all_gatherv");
  if (options.streams.empty() && name != "permute")
    refuse_given(command, {"--custom-src-target-pairs"}, "of permute");
  if (options.check != "random") refuse_given(command, {"--seed"}, "of the random values of --check");
}

}  // namespace

void add_nccom_test(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<NccomTestOptions>();
  CLI::App* command = app.add_subcommand(
      "nccom-test", "Time and check collectives among simulated NeuronCores, with the options of AWS's tool");
  add_operation_options(*command, *options);
  add_run_options(*command, *options);
  options->machine.add_to(*command);
  options->tables.add_to(*command);
  add_options_without_effect(*command, *options);
  command->callback([options, command, &out] {
    refuse_without_effect(*command, *options);
    run_benchmark(*options, out);
  });
}

}  // namespace opentrn::cli
