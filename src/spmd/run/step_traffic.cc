#include "spmd/run/step_traffic.h"

#include <algorithm>
#include <map>

#include "arch/evidence.h"
#include "collectives/summary.h"
#include "spmd/run/step_time.h"

namespace opentrn::spmd {

namespace {

using runtime::Settings;
using RendezvousOp = ParallelProgram::Collective;
using traffic::Interval;

constexpr double kPsPerNs = 1e3;
// Of plans, whose way over the links is followed: enough for a picture, and no wait.
constexpr size_t kStepsMax = 1'000'000;
constexpr double kDrawn = 1000;  // intervals that a picture tells apart, about

class Teller {
 public:
  Teller(const ParallelProgram& program, const std::string& name, const Settings& settings, double total_ns)
      : devices_(static_cast<int>(program.devices())),
        settings_(settings),
        tables_(arch::default_tables()),
        platform_(platform_of(program, settings)),
        meter_(platform_, static_cast<int64_t>(total_ns * kPsPerNs)) {
    out_.title = name;
    out_.machine = platform_.name();
    out_.total_ns = total_ns;
  }

  // Stages that begin at `offset_ns`; what they are in runs `repeats` times.
  void add(const StageTimes& times, double offset_ns, double repeats) {
    for (size_t i = 0; i < times.stages.size(); ++i) {
      const ParallelProgram::Stage& stage = times.stages[i];
      const StepTime& when = times.schedule.steps[i];
      if (stage.program) add_part(when, offset_ns);
      if (stage.collective && !stage.collective->is_inside_logical_core && when.end_ns > when.start_ns)
        add_collective(*stage.collective, offset_ns + when.start_ns, offset_ns + when.end_ns, repeats);
      double begin_ns = offset_ns + when.start_ns;
      for (const StageTimes::Region& region : times.regions[i]) {
        add(region.times, begin_ns, repeats * region.iterations);
        begin_ns += region.times.end_ns * region.iterations;
      }
    }
  }

  std::optional<traffic::Traffic> finish(const StageTimes& times) {
    if (out_.collectives.empty()) return std::nullopt;
    traffic::Rank& device = out_.ranks.emplace_back();
    device.name = "each device";
    device.total_ns = out_.total_ns;
    device.collectives_ns = out_.collectives_ns = times.collectives_ns;
    device.exposed_ns = out_.exposed_ns = times.exposed_ns;
    device.compute = traffic::merged(std::move(work_), out_.total_ns / kDrawn);
    out_.ranks_note = "all devices run the same parts for the same time: device 0 is shown for all";
    meter_.fill(out_, traffic::covered_ns(std::move(under_way_)));
    if (left_out_ > 0)
      out_.assumptions.push_back(fmt::format(
          "links: of {} collectives in large plans the way over the links was not followed", left_out_));
    std::ranges::stable_sort(out_.collectives, {}, &traffic::Collective::start_ns);
    out_.band =
        arch::to_text(arch::band(tables_, {.generation = platform_.generation(), .collective = true}));
    out_.basis = collectives::basis_of(tables_, platform_);
    return std::move(out_);
  }

 private:
  struct Known {
    std::vector<collectives::Job> jobs;
    collectives::Predictions predictions;
    std::vector<collectives::Run> runs;
    std::vector<collectives::RunTime> times;
    size_t steps = 0;
  };

  // Its own time goes on between two knots, or it waits.
  void add_part(const StepTime& when, double offset_ns) {
    for (size_t i = 1; i < when.knots.size(); ++i)
      if (when.knots[i].part_ns > when.knots[i - 1].part_ns)
        work_.push_back({offset_ns + when.knots[i - 1].ns, offset_ns + when.knots[i].ns});
  }

  void add_collective(const RendezvousOp& collective, double start_ns, double end_ns, double repeats) {
    const Known& known = known_once(collective);
    if (known.jobs.empty()) return;
    // The group of device 0, or the first.
    const auto of_device_0 = std::ranges::find_if(
        collective.groups, [](const auto& group) { return std::ranges::find(group, 0) != group.end(); });
    const bool permutes = collective.kind == collectives::Kind::kPermute;
    traffic::Collective& made = out_.collectives.emplace_back();
    made.name = collective.name;
    made.algorithm = known.predictions.jobs[0].algorithm;
    made.why = known.predictions.jobs[0].why;
    const collectives::Request& request = known.jobs[0].request;
    if (permutes || of_device_0 == collective.groups.end())
      for (int rank = 0; rank < request.ranks; ++rank) made.group.push_back(rank);
    else
      made.group.assign(of_device_0->begin(), of_device_0->end());
    made.bytes = request.bytes * (request.kind == collectives::Kind::kAllGather ? request.ranks : 1);
    made.bus_factor = collectives::bus_factor(request.kind, request.ranks);
    made.triggered_ns.assign(made.group.size(), start_ns);
    made.arrived_ns = made.triggered_ns;
    made.ended_ns.assign(made.group.size(), end_ns);
    made.times = repeats;
    under_way_.push_back({start_ns, end_ns});
    if (steps_ + known.steps > kStepsMax) {
      ++left_out_;
      return;
    }
    steps_ += known.steps;
    meter_.add(known.runs, known.times, static_cast<int64_t>(start_ns * kPsPerNs));
  }

  const Known& known_once(const RendezvousOp& collective) {
    const auto [found, fresh] = known_.try_emplace(collective);
    Known& known = found->second;
    if (!fresh) return known;
    const auto cores = collectives::place_ranks(platform_, devices_, settings_.physical_cores_per_core, 0);
    known.jobs = jobs_of(collective, cores);
    known.predictions = collectives::predict(tables_, platform_, known.jobs);
    for (size_t i = 0; i < known.jobs.size(); ++i) {
      collectives::Prediction& made = known.predictions.jobs[i];
      known.runs.push_back({&made.plan,
                            collectives::costs_of(tables_, platform_.generation(), made.algorithm),
                            known.jobs[i].cores,
                            {},
                            0});
      known.steps += made.plan.step_count();
      known.times.push_back(made.time);
    }
    return known;
  }

  int devices_;
  const Settings& settings_;
  const arch::Tables& tables_;
  const fabric::Platform platform_;
  traffic::LinkMeter meter_;
  traffic::Traffic out_;
  std::map<RendezvousOp, Known> known_;
  std::vector<Interval> work_, under_way_;
  size_t steps_ = 0;
  int left_out_ = 0;
};

}  // namespace

std::optional<traffic::Traffic> traffic_of(const ParallelProgram& program, const std::string& name,
                                           const Settings& settings) {
  const StageTimes times = stage_times(program, settings);
  if (times.collectives_ns <= 0) return std::nullopt;
  Teller teller(program, name, settings, times.end_ns);
  teller.add(times, 0, 1);
  return teller.finish(times);
}

}  // namespace opentrn::spmd
