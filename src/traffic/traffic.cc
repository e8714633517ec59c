#include "traffic/traffic.h"

#include <algorithm>

#include <fmt/format.h>

#include "fabric/text.h"

namespace opentrn::traffic {

namespace {

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

}  // namespace

double Collective::first_arrival_ns() const {
  return arrived_ns.empty() ? 0 : *std::min_element(arrived_ns.begin(), arrived_ns.end());
}
double Collective::start_ns() const { return largest(arrived_ns); }
double Collective::end_ns() const { return largest(ended_ns); }

int Collective::slowest() const {
  if (arrived_ns.empty()) return -1;
  return group[static_cast<size_t>(std::max_element(arrived_ns.begin(), arrived_ns.end()) -
                                   arrived_ns.begin())];
}

double Collective::algorithm_gb_s() const {
  const double ns = end_ns() - start_ns();
  return ns > 0 ? static_cast<double>(bytes) / ns : 0;
}
double Collective::bus_gb_s() const { return algorithm_gb_s() * bus_factor; }

std::string Traffic::verdict() const {
  if (collectives.empty()) return "no collectives";
  std::string text =
      fmt::format("{:.1f} of {:.1f} us are collectives that nothing hides ({:.0f} %)", exposed_ns / 1e3,
                  total_ns / 1e3, total_ns > 0 ? 100 * exposed_ns / total_ns : 0);
  double waiting = 0;
  for (const Rank& rank : ranks) waiting = std::max(waiting, rank.waiting_ns);
  if (waiting > 0) text += fmt::format(", up to {:.1f} us of them waits for later ranks", waiting / 1e3);
  if (!links.empty())
    text += fmt::format("; busiest link: {} {}, {:.0f} % while collectives are under way", links[0].kind,
                        links[0].name, links[0].percent);
  return text;
}

// -- links

LinkMeter::LinkMeter(const fabric::Platform& platform, int64_t total_ps)
    : platform_(platform),
      total_ps_(std::max<int64_t>(1, total_ps)),
      bytes_(platform.network().links.size()),
      parts_(bytes_.size()) {}

void LinkMeter::add(std::span<const collectives::Run> runs, std::span<const collectives::RunTime> times,
                    int64_t offset_ps) {
  const collectives::TimingGraph graph = collectives::timing_graph(platform_, runs);
  size_t next = 0;
  for (const collectives::RunTime& time : times)
    for (const auto& steps : time.steps)
      for (const collectives::StepTime& step : steps) {
        const collectives::TimedStep& of = graph.steps[next++];
        if (of.bytes == 0) continue;
        for (const fabric::Hop& hop : graph.hops_of(of.way))
          add_bytes(hop.link, offset_ps + std::min(step.end_ps, step.start_ps + of.begin_ps),
                    offset_ps + step.end_ps, static_cast<double>(of.bytes) * hop.share / fabric::kWholeShare);
      }
}

// As if they passed at one rate.
void LinkMeter::add_bytes(int32_t link, int64_t start_ps, int64_t end_ps, double bytes) {
  bytes_[static_cast<size_t>(link)] += bytes;
  auto& parts = parts_[static_cast<size_t>(link)];
  parts.resize(kParts);
  const double per_part = static_cast<double>(total_ps_) / kParts;
  const double from = static_cast<double>(start_ps), to = std::max(from + 1, static_cast<double>(end_ps));
  const auto part_at = [&](double ps) { return std::clamp(static_cast<int>(ps / per_part), 0, kParts - 1); };
  for (int part = part_at(from); part <= part_at(to); ++part) {
    const double inside = std::min(to, (part + 1) * per_part) - std::max(from, part * per_part);
    if (inside > 0) parts[static_cast<size_t>(part)] += bytes * inside / (to - from);
  }
}

void LinkMeter::fill(Traffic& traffic, double under_way_ns, size_t most) const {
  const fabric::Network& network = platform_.network();
  const double part_s = static_cast<double>(total_ps_) / kParts / 1e12;
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (bytes_[i] <= 0 || network.links[i].bytes_per_s <= 0) continue;
    const fabric::Link& link = network.links[i];
    Link& made = traffic.links.emplace_back();
    const std::string& from = network.nodes[static_cast<size_t>(link.from)].name;
    const std::string& to = network.nodes[static_cast<size_t>(link.to)].name;
    made.name = link.from == link.to ? from : from + " -> " + to;
    made.kind = fabric::name_of(link.kind);
    const auto rate = static_cast<double>(link.bytes_per_s);
    made.gb_s = rate / 1e9;
    made.bytes = static_cast<int64_t>(bytes_[i]);
    if (under_way_ns > 0) made.percent = 100 * bytes_[i] / (rate * under_way_ns / 1e9);
    for (const double bytes : parts_[i])
      made.percent_over_time.push_back(static_cast<float>(100 * bytes / (rate * part_s)));
  }
  traffic.links_used = static_cast<int64_t>(traffic.links.size());
  std::ranges::stable_sort(traffic.links, std::ranges::greater{}, &Link::percent);
  if (traffic.links.size() > most) traffic.links.resize(most);
}

// -- intervals

std::vector<Interval> merged(std::vector<Interval> intervals, double gap_ns) {
  std::ranges::sort(intervals, {}, &Interval::start_ns);
  std::vector<Interval> out;
  for (const Interval& one : intervals) {
    if (one.end_ns <= one.start_ns) continue;
    if (!out.empty() && one.start_ns <= out.back().end_ns + gap_ns)
      out.back().end_ns = std::max(out.back().end_ns, one.end_ns);
    else
      out.push_back(one);
  }
  return out;
}

double covered_ns(std::vector<Interval> intervals) {
  double sum = 0;
  for (const Interval& one : merged(std::move(intervals))) sum += one.end_ns - one.start_ns;
  return sum;
}

std::vector<Interval> without(std::span<const Interval> all, std::span<const Interval> but) {
  std::vector<Interval> out;
  size_t first = 0;
  for (const Interval& one : all) {
    double at = one.start_ns;
    while (first < but.size() && but[first].end_ns <= at) ++first;
    for (size_t i = first; i < but.size() && but[i].start_ns < one.end_ns; ++i) {
      if (but[i].start_ns > at) out.push_back({at, but[i].start_ns});
      at = std::max(at, but[i].end_ns);
    }
    if (at < one.end_ns) out.push_back({at, one.end_ns});
  }
  return out;
}

}  // namespace opentrn::traffic
