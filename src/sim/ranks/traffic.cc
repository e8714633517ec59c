#include "sim/ranks/traffic.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/evidence.h"
#include "collectives/summary.h"
#include "isa/opcode.h"

namespace opentrn::sim::ranks {

namespace {

using traffic::Interval;

constexpr double kPsPerNs = 1e3;
constexpr double kDrawn = 1000;  // intervals of a rank that a picture tells apart, about

std::vector<double> in_ns(const std::vector<Ps>& times) {
  std::vector<double> ns;
  for (const Ps at : times) ns.push_back(static_cast<double>(at) / kPsPerNs);
  return ns;
}

// When engines compute and transfers of the program are under way; loops that were not stepped, too.
std::vector<Interval> work_of(const trace::Trace& trace) {
  std::vector<Interval> work;
  for (const trace::Event& event : trace.events) {
    const trace::TrackKind kind = trace.tracks[event.track].kind;
    const bool transfer = kind == trace::TrackKind::kDmaQueue;
    const bool is_trigger = kind == trace::TrackKind::kEngine && event.opcode == isa::Opcode::kDmaCopy;
    if (transfer) work.push_back({event.start_ns, event.end_ns});
    if (kind == trace::TrackKind::kEngine && !is_trigger)
      work.push_back({event.start_ns, event.start_ns + event.busy_ns});
  }
  for (const trace::Iteration& iteration : trace.iterations)
    if (iteration.skipped > 0) work.push_back({iteration.end_ns, iteration.skipped_end_ns()});
  return traffic::merged(std::move(work));
}

int64_t size_of(const collectives::Request& request) {
  int64_t bytes = 0;
  for (int rank = 0; rank < request.ranks; ++rank)
    bytes =
        std::max({bytes, collectives::input_bytes(request, rank), collectives::output_bytes(request, rank)});
  return bytes;
}

double sum(const std::vector<Interval>& intervals) {
  double ns = 0;
  for (const Interval& one : intervals) ns += one.end_ns - one.start_ns;
  return ns;
}

// The part of `all` that lies in `within`; both merged.
std::vector<Interval> inside(const std::vector<Interval>& all, const std::vector<Interval>& within) {
  return traffic::without(all, traffic::without(all, within));
}

}  // namespace

traffic::Traffic traffic_of(const arch::Tables& tables, const fabric::Platform& platform,
                            std::span<const Collective> collectives, std::span<const std::string> names,
                            std::span<const std::string> places, const Result& result,
                            std::span<const trace::Trace* const> traces) {
  traffic::Traffic out;
  out.machine = platform.name();
  out.title = traces.empty() ? "" : traces[0]->program;
  for (const timing::TimingResult& rank : result.ranks) out.total_ns = std::max(out.total_ns, rank.total_ns);
  traffic::LinkMeter meter(platform, static_cast<int64_t>(out.total_ns * kPsPerNs));
  std::vector<std::vector<Interval>> under_way(result.ranks.size()), waiting(result.ranks.size());
  std::vector<Interval> flowing;
  for (size_t i = 0; i < collectives.size(); ++i) {
    const CollectiveTimes& times = result.collectives[i];
    meter.add(times.runs, times.times, 0);
    traffic::Collective& made = out.collectives.emplace_back();
    made.name = names[i];
    made.where = places[i];
    made.algorithm = times.algorithms.at(0);
    made.why = times.why.at(0);
    made.group = collectives[i].group;
    for (const collectives::Request& request : collectives[i].requests) made.bytes += size_of(request);
    made.bus_factor =
        collectives::bus_factor(collectives[i].requests[0].kind, collectives[i].requests[0].ranks);
    made.triggered_ns = in_ns(times.triggered);
    made.arrived_ns = in_ns(times.arrived);
    made.ended_ns = in_ns(times.ended);
    for (size_t m = 0; m < made.group.size(); ++m) {
      const auto rank = static_cast<size_t>(made.group[m]);
      under_way[rank].push_back({made.triggered_ns[m], made.ended_ns[m]});
      waiting[rank].push_back({made.arrived_ns[m], made.start_ns()});
    }
    flowing.push_back({made.start_ns(), made.end_ns()});
  }
  for (size_t r = 0; r < result.ranks.size(); ++r) {
    traffic::Rank& rank = out.ranks.emplace_back();
    rank.name = fmt::format("rank {}", r);
    rank.total_ns = result.ranks[r].total_ns;
    const std::vector<Interval> work = work_of(*traces[r]);
    const std::vector<Interval> all = traffic::merged(std::move(under_way[r]));
    const std::vector<Interval> exposed = traffic::without(all, work);
    rank.collectives_ns = sum(all);
    rank.exposed_ns = sum(exposed);
    rank.waiting_ns = sum(inside(exposed, traffic::merged(std::move(waiting[r]))));
    rank.compute = traffic::merged(work, out.total_ns / kDrawn);
    out.exposed_ns = std::max(out.exposed_ns, rank.exposed_ns);
  }
  flowing = traffic::merged(std::move(flowing));
  out.collectives_ns = sum(flowing);
  meter.fill(out, out.collectives_ns);
  std::ranges::stable_sort(out.collectives, {}, &traffic::Collective::start_ns);
  out.band = arch::to_text(arch::band(tables, {.generation = platform.generation(), .collective = true}));
  out.basis = collectives::basis_of(tables, platform);
  return out;
}

}  // namespace opentrn::sim::ranks
