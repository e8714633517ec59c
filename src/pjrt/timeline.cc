#include "pjrt/timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/fault.h"
#include "isa/definitions.h"
#include "pjrt/xspace.h"
#include "spmd/run/step_time.h"
#include "trace/trace.h"

namespace opentrn::pjrt {

using spmd::Cost;
using spmd::StageTimes;

namespace {

// Of all planes together: beyond it runs are told without their instructions. A viewer has enough of it.
constexpr size_t kInstructionsMax = 300'000;

int64_t ps(double ns) { return static_cast<int64_t>(std::llround(ns * 1e3)); }

std::string line_of(const trace::Trace& trace, const trace::Track& track) {
  if (track.kind == trace::TrackKind::kEngine)
    return fmt::format("{} engine{}", isa::name(track.engine),
                       track.core == 0 ? "" : fmt::format(" (core {})", track.core));
  return fmt::format("DMA queue {}", trace.strings[track.name]);
}

std::string_view without_dialect(std::string_view kind) { return kind.substr(kind.find('.') + 1); }

// "dot_general" of "jit(f)/jit(main)/dot_general" or of "stablehlo.dot_general".
std::string_view short_name(const isa::ModelOp& op) {
  const std::string_view path = op.where.function;
  return path.empty() ? without_dialect(op.kind) : path.substr(path.rfind('/') + 1);
}

// Of a part, whose own time stops where it waits for a collective.
struct DeviceClock {
  int64_t from_ps;
  const spmd::StepTime& when;
  int64_t ps_of(double part_ns) const { return from_ps + ps(spmd::time_of(when, part_ns)); }
};

// Planes while they are filled, by core.
class Writer {
 public:
  Writer(const std::string& target, int64_t begin_ns) : target_(target), begin_ns_(begin_ns) {}

  void add_run(const Program& program, int core, int64_t begun_ns) {
    Place place{plane_of(core), &cursor_ps_[core]};
    *place.cursor_ps = std::max(*place.cursor_ps, (begun_ns - begin_ns_) * 1000);
    const int64_t from_ps = *place.cursor_ps;
    const Cost& cost = cost_once(program);
    if (!cost.compute_us) return;
    if (const DeviceProgram* device = program.device_program()) add_part(place, *device, {});
    if (program.parallel()) add_stages(place, program, times_once(program));
    *place.cursor_ps = from_ps + ps(*cost.device_us * 1e3);
    place.plane.add_event("XLA Modules", program.name(), from_ps, *place.cursor_ps - from_ps,
                          {{"fingerprint", std::string_view(program.fingerprint())},
                           {"bound by", std::string_view(cost.bound_by)},
                           {"tensor engine flops", cost.tensor_flops},
                           {"HBM bytes", cost.hbm_bytes},
                           {"instructions", cost.instructions}});
  }

  std::string bytes() {
    std::vector<XPlane> all;
    for (auto& [core, plane] : planes_) {
      // jaxlib keeps planes only, not the message's own warnings.
      for (const std::string& warning : warnings_) plane.add_stat({"warning", std::string_view(warning)});
      all.push_back(std::move(plane));
    }
    return xspace_bytes(all);
  }

 private:
  struct Place {
    XPlane& plane;
    int64_t* cursor_ps;
  };

  // JAX's own conversion for TensorBoard and Perfetto knows GPUs, TPUs and this prefix.
  XPlane& plane_of(int core) {
    const auto found = planes_.find(core);
    if (found != planes_.end()) return found->second;
    XPlane& plane =
        planes_.try_emplace(core, core + 1, fmt::format("/device:CUSTOM:NEURON:{}", core), begin_ns_)
            .first->second;
    const std::string kind = fmt::format("NeuronCore {} of a simulated {}", core, target_);
    plane.add_stat({"device_type_string", std::string_view(kind)});
    return plane;
  }

  const StageTimes& times_once(const Program& program) {
    const auto [found, fresh] = stage_times_.try_emplace(&program);
    if (fresh) found->second = spmd::stage_times(*program.parallel(), program.parallel_settings());
    return found->second;
  }

  const Cost& cost_once(const Program& program) {
    const auto [found, fresh] = costs_.try_emplace(&program);
    if (!fresh) return found->second;
    found->second = program.cost();
    const Cost& cost = found->second;
    if (!cost.compute_us)
      warnings_.insert(fmt::format("no device time for {}: {}", program.name(), cost.why));
    else if (!cost.collectives_us)
      warnings_.insert(
          fmt::format("{}: what its collectives take is not known, and not shown", program.name()));
    return cost;
  }

  // From the place's cursor on, which stays where it is.
  void add_stages(Place& place, const Program& program, const StageTimes& times) {
    for (size_t i = 0; i < times.stages.size(); ++i) {
      const ParallelProgram::Stage& stage = times.stages[i];
      const spmd::StepTime& when = times.schedule.steps[i];
      if (stage.program) add_part(place, *stage.program, when);
      if (stage.collective) add_collective(place, *stage.collective, when);
      int64_t cursor_ps = *place.cursor_ps + ps(when.start_ns);
      Place inner{place.plane, &cursor_ps};
      for (const StageTimes::Region& region : times.regions[i])
        for (auto left = std::llround(region.iterations); left > 0; --left) {
          add_stages(inner, program, region.times);
          cursor_ps += ps(region.times.end_ns);
        }
    }
  }

  void add_part(Place& place, const DeviceProgram& program, const spmd::StepTime& when) {
    const auto [found, fresh] = traces_.try_emplace(&program);
    if (fresh) found->second = program.timeline();
    const trace::Trace& trace = found->second;
    const DeviceClock clock{*place.cursor_ps, when};
    add_ops(place, clock, trace, program.model().origin);
    add_skipped(place, clock, trace);
    if (instructions_ + trace.events.size() <= kInstructionsMax) {
      instructions_ += trace.events.size();
      add_instructions(place, clock, trace, program.model().origin);
    } else {
      warnings_.insert(
          fmt::format("instructions are shown of the first runs only, {} in all", kInstructionsMax));
    }
  }

  // The critical path: every nanosecond belongs to one op.
  static void add_ops(Place& place, const DeviceClock& clock, const trace::Trace& trace,
                      const isa::Origin& origin) {
    const auto op_of = [&](const trace::CriticalSegment& segment) {
      return segment.instruction == trace::kNoIndex ? isa::kNoModelOp : origin.at(segment.instruction).op;
    };
    const auto& path = trace.critical_path;
    for (size_t last = path.size(); last > 0;) {
      const uint32_t op = op_of(path[last - 1]);
      const double start_ns = path[last - 1].start_ns;
      double end_ns = path[last - 1].end_ns;
      for (--last; last > 0 && op_of(path[last - 1]) == op; --last) end_ns = path[last - 1].end_ns;
      if (op == isa::kNoModelOp) continue;
      const isa::ModelOp& of = origin.ops[op];
      const std::string source =
          of.where.known() ? fmt::format("{}:{}", of.where.file, of.where.line) : std::string();
      place.plane.add_event("XLA Ops", short_name(of), clock.ps_of(start_ns),
                            clock.ps_of(end_ns) - clock.ps_of(start_ns),
                            {{"tf_op", std::string_view(of.where.function)},
                             {"hlo_category", std::string_view(of.kind)},
                             {"source", std::string_view(source)},
                             {"flops", of.flops}});
    }
  }

  static void add_skipped(Place& place, const DeviceClock& clock, const trace::Trace& trace) {
    for (const trace::Iteration& iteration : trace.iterations)
      if (iteration.skipped > 0 && iteration.core == 0)
        place.plane.add_event("Iterations not drawn", iteration.skipped_text(), clock.ps_of(iteration.end_ns),
                              clock.ps_of(iteration.skipped_end_ns()) - clock.ps_of(iteration.end_ns), {});
  }

  static void add_instructions(Place& place, const DeviceClock& clock, const trace::Trace& trace,
                               const isa::Origin& origin) {
    for (const trace::Event& event : trace.events) {
      const uint32_t op =
          event.instruction == trace::kNoIndex ? isa::kNoModelOp : origin.at(event.instruction).op;
      std::vector<XPlane::Stat> stats;
      if (op != isa::kNoModelOp) stats.push_back({"tf_op", std::string_view(origin.ops[op].where.function)});
      if (event.bytes > 0) stats.push_back({"bytes", event.bytes});
      if (event.flops > 0) stats.push_back({"flops", event.flops});
      if (event.stall != trace::Stall::kNone) stats.push_back({"waited", trace::name(event.stall)});
      place.plane.add_event(line_of(trace, trace.tracks[event.track]), isa::name(event.opcode),
                            clock.ps_of(event.start_ns),
                            clock.ps_of(event.start_ns + event.busy_ns) - clock.ps_of(event.start_ns), stats);
    }
  }

  static void add_collective(Place& place, const ParallelProgram::Collective& collective,
                             const spmd::StepTime& when) {
    if (when.end_ns <= when.start_ns) return;
    const auto ranks = static_cast<int64_t>(collective.groups.empty() ? 0 : collective.groups[0].size());
    place.plane.add_event("Collectives (estimated)", without_dialect(collective.name),
                          *place.cursor_ps + ps(when.start_ns), ps(when.end_ns - when.start_ns),
                          {{"bytes", static_cast<double>(collective.bytes)}, {"ranks", ranks}});
  }

  std::string target_;
  int64_t begin_ns_;
  std::map<int, XPlane> planes_;
  std::map<int, int64_t> cursor_ps_;
  std::map<const Program*, Cost> costs_;
  std::map<const Program*, StageTimes> stage_times_;
  std::map<const DeviceProgram*, trace::Trace> traces_;
  std::set<std::string> warnings_;
  size_t instructions_ = 0;
};

}  // namespace

Timeline& Timeline::instance() {
  static Timeline& timeline = *new Timeline;
  return timeline;
}

void Timeline::begin() {
  const std::lock_guard lock(mutex_);
  runs_.clear();
  wanted_ = true;
}

void Timeline::add(std::shared_ptr<const Program> program, std::vector<int> cores, int64_t begun_ns) {
  const std::lock_guard lock(mutex_);
  runs_.push_back({std::move(program), std::move(cores), begun_ns});
}

std::string Timeline::xspace() const {
  const std::lock_guard lock(mutex_);
  if (runs_.empty()) return {};
  Writer writer(runs_.front().program->settings().target, runs_.front().begun_ns);
  for (const Run& run : runs_)
    for (const int core : run.cores) writer.add_run(*run.program, core, run.begun_ns);
  return writer.bytes();
}

}  // namespace opentrn::pjrt
