#include "traffic/events.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"

namespace opentrn::traffic {

namespace {

using Parsed = nlohmann::json;

template <typename T>
void read(const Parsed& from, const char* key, T& to) {
  from.at(key).get_to(to);
}

Collective collective_of(const Parsed& from) {
  Collective out;
  read(from, "name", out.name);
  read(from, "algorithm", out.algorithm);
  read(from, "why", out.why);
  read(from, "where", out.where);
  read(from, "group", out.group);
  read(from, "bytes", out.bytes);
  read(from, "stream", out.stream);
  read(from, "times", out.times);
  read(from, "triggered_ns", out.triggered_ns);
  read(from, "arrived_ns", out.arrived_ns);
  read(from, "ended_ns", out.ended_ns);
  const auto algorithm = from.at("algorithm_gb_s").get<double>(), bus = from.at("bus_gb_s").get<double>();
  if (algorithm > 0) out.bus_factor = bus / algorithm;
  const size_t ranks = out.group.size();
  if (ranks == 0 || out.triggered_ns.size() != ranks || out.arrived_ns.size() != ranks ||
      out.ended_ns.size() != ranks)
    throw Parsed::other_error::create(501, "times of other ranks than those of the group", &from);
  return out;
}

Rank rank_of(const Parsed& from) {
  Rank out;
  read(from, "name", out.name);
  read(from, "total_ns", out.total_ns);
  read(from, "collectives_ns", out.collectives_ns);
  read(from, "exposed_ns", out.exposed_ns);
  read(from, "waiting_ns", out.waiting_ns);
  for (const Parsed& one : from.at("compute"))
    out.compute.push_back({one.at(0).get<double>(), one.at(1).get<double>()});
  return out;
}

Link link_of(const Parsed& from) {
  Link out;
  read(from, "name", out.name);
  read(from, "kind", out.kind);
  read(from, "gb_s", out.gb_s);
  read(from, "bytes", out.bytes);
  read(from, "percent", out.percent);
  read(from, "percent_over_time", out.percent_over_time);
  return out;
}

Traffic traffic_of(const Parsed& from) {
  Traffic out;
  read(from, "title", out.title);
  read(from, "machine", out.machine);
  read(from, "total_ns", out.total_ns);
  read(from, "collectives_ns", out.collectives_ns);
  read(from, "exposed_ns", out.exposed_ns);
  read(from, "ranks_note", out.ranks_note);
  for (const Parsed& one : from.at("ranks")) out.ranks.push_back(rank_of(one));
  for (const Parsed& one : from.at("collectives")) out.collectives.push_back(collective_of(one));
  for (const Parsed& one : from.at("links")) out.links.push_back(link_of(one));
  read(from, "links_used", out.links_used);
  read(from, "band", out.band);
  read(from, "basis", out.basis);
  read(from, "assumptions", out.assumptions);
  return out;
}

}  // namespace

std::vector<Traffic> read_json(const std::string& text) {
  try {
    std::vector<Traffic> all;
    for (const Parsed& one : Parsed::parse(text)) all.push_back(traffic_of(one));
    return all;
  } catch (const Parsed::exception& error) {
    throw Fault(FaultKind::kInput, "traffic.json", fmt::format("no traffic of collectives: {}", error.what()),
                "what this version of OpenTrn wrote");
  }
}

}  // namespace opentrn::traffic
