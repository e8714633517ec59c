// The forms in which a run's traffic leaves the program.
#include <algorithm>
#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "traffic/events.h"
#include "traffic/traffic.h"

namespace opentrn::traffic {

namespace {

using Json = nlohmann::ordered_json;

std::string ranks_text(const std::vector<int>& group) {
  std::string text;
  for (size_t i = 0; i < group.size();) {
    size_t end = i + 1;
    while (end < group.size() && group[end] == group[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", group[i]);
    if (end - i > 1) text += fmt::format("-{}", group[end - 1]);
    i = end;
  }
  return text;
}

std::string short_text(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::string bytes_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Json collective_json(const Collective& one) {
  return {{"name", one.name},
          {"algorithm", one.algorithm},
          {"why", one.why},
          {"where", one.where},
          {"group", one.group},
          {"bytes", one.bytes},
          {"stream", one.stream},
          {"times", one.times},
          {"start_ns", one.start_ns()},
          {"end_ns", one.end_ns()},
          {"arrival_spread_ns", one.start_ns() - one.first_arrival_ns()},
          {"slowest_rank", one.slowest()},
          {"algorithm_gb_s", one.algorithm_gb_s()},
          {"bus_gb_s", one.bus_gb_s()},
          {"triggered_ns", one.triggered_ns},
          {"arrived_ns", one.arrived_ns},
          {"ended_ns", one.ended_ns}};
}

Json rank_json(const Rank& rank) {
  Json compute = Json::array();
  for (const Interval& one : rank.compute) compute.push_back({one.start_ns, one.end_ns});
  return {{"name", rank.name},
          {"total_ns", rank.total_ns},
          {"collectives_ns", rank.collectives_ns},
          {"exposed_ns", rank.exposed_ns},
          {"waiting_ns", rank.waiting_ns},
          {"compute", std::move(compute)}};
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class Perfetto {
 public:
  explicit Perfetto(std::ostream& out) : out_(out) {}
  void process(int pid, const std::string& name) {
    line(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", pid,
                     quoted(name)));
  }
  void thread(int pid, int tid, const std::string& name) {
    line(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", pid, tid,
                     quoted(name)));
  }
  void slice(int pid, int tid, double start_ns, double end_ns, const std::string& name, const Json& args) {
    line(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.4f},"dur":{:.4f},"name":{},"args":{}}})", pid,
                     tid, start_ns / 1e3, (end_ns - start_ns) / 1e3, quoted(name), args.dump()));
  }
  void counter(int pid, double ns, const std::string& name, double percent) {
    line(fmt::format(R"({{"ph":"C","pid":{},"ts":{:.4f},"name":{},"args":{{"percent":{:.2f}}}}})", pid,
                     ns / 1e3, quoted(name), percent));
  }

 private:
  void line(const std::string& text) {
    out_ << (first_ ? "" : ",\n") << text;
    first_ = false;
  }
  std::ostream& out_;
  bool first_ = true;
};

// Its processes are numbered from `first` on.
void write_events(const Traffic& t, int first, const std::string& title, Perfetto& perfetto) {
  const int ranks = first, cc_cores = first + 1, links = first + 2;
  perfetto.process(ranks, title + "ranks");
  perfetto.process(cc_cores, title + "collectives (CC-cores)");
  perfetto.process(links, title + "links");
  for (size_t r = 0; r < t.ranks.size(); ++r) {
    perfetto.thread(ranks, static_cast<int>(r), t.ranks[r].name);
    for (const Interval& one : t.ranks[r].compute)
      perfetto.slice(ranks, static_cast<int>(r), one.start_ns, one.end_ns, "compute", Json::object());
  }
  std::vector<bool> named;
  for (const Collective& one : t.collectives)
    for (size_t i = 0; i < one.group.size() && i < one.ended_ns.size(); ++i) {
      const int rank = one.group[i];
      if (static_cast<size_t>(rank) >= t.ranks.size()) continue;  // another stands for it
      named.resize(std::max(named.size(), static_cast<size_t>(rank) + 1));
      if (!named[static_cast<size_t>(rank)]) perfetto.thread(cc_cores, rank, fmt::format("rank {}", rank));
      named[static_cast<size_t>(rank)] = true;
      const Json args{{"algorithm", one.algorithm},
                      {"why", one.why},
                      {"bytes", one.bytes},
                      {"algorithm_gb_s", one.algorithm_gb_s()},
                      {"bus_gb_s", one.bus_gb_s()},
                      {"stream", one.stream},
                      {"cc_trigger_start_delay_ns", one.start_ns() - one.triggered_ns[i]},
                      {"slowest_rank", one.slowest()}};
      if (one.start_ns() > one.arrived_ns[i])
        perfetto.slice(cc_cores, rank, one.arrived_ns[i], one.start_ns(),
                       fmt::format("waits for rank {}", one.slowest()), Json::object());
      perfetto.slice(cc_cores, rank, one.start_ns(), std::max(one.start_ns(), one.ended_ns[i]), one.name,
                     args);
    }
  for (const Link& link : t.links)
    for (size_t part = 0; part < link.percent_over_time.size(); ++part)
      perfetto.counter(links, t.total_ns * static_cast<double>(part) / LinkMeter::kParts,
                       link.kind + " " + link.name, link.percent_over_time[part]);
}

}  // namespace

Json json(const Traffic& t) {
  Json out{{"schema", "opentrn.traffic"},
           {"schema_version", 1},
           {"is_simulation", true},
           {"title", t.title},
           {"machine", t.machine},
           {"total_ns", t.total_ns},
           {"collectives_ns", t.collectives_ns},
           {"exposed_ns", t.exposed_ns},
           {"verdict", t.verdict()},
           {"ranks_note", t.ranks_note}};
  for (const char* key : {"ranks", "collectives", "links"}) out[key] = Json::array();
  for (const Rank& rank : t.ranks) out["ranks"].push_back(rank_json(rank));
  for (const Collective& one : t.collectives) out["collectives"].push_back(collective_json(one));
  for (const Link& link : t.links)
    out["links"].push_back({{"name", link.name},
                            {"kind", link.kind},
                            {"gb_s", link.gb_s},
                            {"bytes", link.bytes},
                            {"percent", link.percent},
                            {"percent_over_time", link.percent_over_time}});
  out["links_used"] = t.links_used;
  out["band"] = t.band;
  out["basis"] = t.basis;
  out["assumptions"] = t.assumptions;
  return out;
}

std::string text(const Traffic& t, size_t most) {
  std::string out = fmt::format("fabric: {} on {}\n  {}\n", t.title, t.machine, t.verdict());
  out += fmt::format("\n  {:<10} {:>11} {:>15} {:>12} {:>17}\n", "", "total us", "collectives us",
                     "exposed us", "waits for ranks us");
  std::vector<const Rank*> ranks;
  for (const Rank& rank : t.ranks) ranks.push_back(&rank);
  std::ranges::stable_sort(ranks, std::ranges::greater{}, [](const Rank* rank) { return rank->exposed_ns; });
  for (size_t i = 0; i < std::min(most, ranks.size()); ++i)
    out += fmt::format("  {:<10} {:>11.2f} {:>15.2f} {:>12.2f} {:>17.2f}\n", ranks[i]->name,
                       ranks[i]->total_ns / 1e3, ranks[i]->collectives_ns / 1e3, ranks[i]->exposed_ns / 1e3,
                       ranks[i]->waiting_ns / 1e3);
  if (ranks.size() > most) out += fmt::format("  ... {} more\n", ranks.size() - most);
  if (!t.ranks_note.empty()) out += fmt::format("  {}\n", t.ranks_note);
  std::vector<const Collective*> longest;
  for (const Collective& one : t.collectives) longest.push_back(&one);
  std::ranges::stable_sort(longest, std::ranges::greater{}, [](const Collective* one) {
    return one->times * (one->end_ns() - one->start_ns());
  });
  if (!longest.empty())
    out += fmt::format("\n  {:<34} {:<10} {:>9} {:>9} {:>9} {:>10} {:>9}  {}\n", "collective", "algorithm",
                       "start us", "us", "spread us", "size", "bus GB/s", "ranks");
  for (size_t i = 0; i < std::min(most, longest.size()); ++i) {
    const Collective& one = *longest[i];
    out += fmt::format("  {:<34} {:<10} {:>9.2f} {:>9.2f} {:>9.2f} {:>10} {:>9.1f}  {}\n",
                       short_text(one.name + (one.times > 1 ? fmt::format(" x{:.0f}", one.times) : ""), 34),
                       short_text(one.algorithm, 10), one.start_ns() / 1e3,
                       (one.end_ns() - one.start_ns()) / 1e3, (one.start_ns() - one.first_arrival_ns()) / 1e3,
                       bytes_text(one.bytes), one.bus_gb_s(), short_text(ranks_text(one.group), 14));
  }
  if (longest.size() > most) out += fmt::format("  ... {} more\n", longest.size() - most);
  if (!t.links.empty())
    out += fmt::format("\n  {:<62} {:<20} {:>6} {:>10} {:>6}\n", "busiest links", "", "GB/s", "carried", "%");
  for (size_t i = 0; i < std::min(most, t.links.size()); ++i)
    out += fmt::format("  {:<62} {:<20} {:>6.0f} {:>10} {:>6.1f}\n", short_text(t.links[i].name, 62),
                       t.links[i].kind, t.links[i].gb_s, bytes_text(t.links[i].bytes), t.links[i].percent);
  if (!t.links.empty())
    out += fmt::format("  ({} links carry something; % of their rate while collectives are under way)\n",
                       t.links_used);
  if (!t.band.empty()) out += fmt::format("\n  collectives: {}\n", t.band);
  for (const std::string& line : t.assumptions) out += fmt::format("  rests on an assumption: {}\n", line);
  return out;
}

void write_perfetto(std::span<const Traffic> all, std::ostream& out) {
  constexpr int kProcesses = 3;  // of each
  out << R"({"displayTimeUnit":"ns","otherData":{"program":)" << quoted(all.empty() ? "" : all[0].title)
      << R"(,"machine":)" << quoted(all.empty() ? "" : all[0].machine)
      << R"(,"is_simulation":"true"},"traceEvents":[)"
      << "\n";
  Perfetto perfetto(out);
  for (size_t i = 0; i < all.size(); ++i)
    write_events(all[i], kProcesses * static_cast<int>(i), all.size() > 1 ? all[i].title + ": " : "",
                 perfetto);
  out << "\n]}\n";
}

void write_perfetto(const Traffic& t, std::ostream& out) { write_perfetto(std::span(&t, 1), out); }

}  // namespace opentrn::traffic
