// Rates of random flows on random networks, by OpenTrn and by SimGrid: compare GRAPHS SEED
//
// SimGrid has one simulation per process, so each network has a child. SimGrid does not tell rates: the
// program starts a transfer for each flow, lets simulated time pass, and divides what has moved by it.
// Latencies are 0 and its corrections for TCP are off; what is left of its network model CM02 is max-min
// fairness.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

#include "fabric/flows.h"

namespace {

using opentrn::fabric::Flow;
using opentrn::fabric::FlowId;
using opentrn::fabric::Flows;
using opentrn::fabric::LinkId;
using opentrn::fabric::Network;
namespace sg = simgrid::s4u;

constexpr double kToleranceRelative = 1e-9;
// Long enough that no rounding of what is left of a transfer shows, short enough that none ends.
constexpr double kSeconds = 1;
constexpr int64_t kBytes = 1'000'000'000'000;

struct Case {
  Network network;
  std::vector<Flow> flows;
};

Case random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Case out;
  out.network.nodes.resize(2);
  const int links = draw(2, 60), flows = draw(2, 120);
  for (int i = 0; i < links; ++i)
    out.network.links.push_back({0, 1, int64_t{draw(1, 400)} * 1'000'000'000 + draw(0, 999'999'999), 0});
  for (int i = 0; i < flows; ++i) {
    Flow flow;
    const int hops = draw(1, 6);
    while (static_cast<int>(flow.hops.size()) < hops && static_cast<int>(flow.hops.size()) < links) {
      const LinkId link = draw(0, links - 1);
      bool known = false;
      for (const auto& hop : flow.hops) known |= hop.link == link;
      if (!known) flow.hops.push_back({link});
    }
    flow.bytes = kBytes;
    if (draw(0, 4) == 0) flow.bytes_per_s_max = int64_t{draw(1, 100)} * 100'000'000;
    out.flows.push_back(flow);
  }
  return out;
}

std::vector<double> simgrid_rates(const Case& c) {
  int argc = 4;
  const char* words[] = {"compare", "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
                         "--log=root.threshold:error"};
  std::vector<char*> argv;
  for (const char* word : words) argv.push_back(const_cast<char*>(word));
  argv.push_back(nullptr);
  sg::Engine engine(&argc, argv.data());
  sg::Engine::set_config("maxmin/precision:1e-13");
  sg::NetZone* zone = sg::create_full_zone("all");
  std::vector<sg::LinkInRoute> links;
  for (size_t i = 0; i < c.network.links.size(); ++i)
    links.emplace_back(
        zone->create_link("link" + std::to_string(i), static_cast<double>(c.network.links[i].bytes_per_s))
            ->set_latency(0)
            ->seal());
  std::vector<sg::Host*> from, to;
  for (size_t i = 0; i < c.flows.size(); ++i) {
    from.push_back(zone->create_host("from" + std::to_string(i), 1e9)->seal());
    to.push_back(zone->create_host("to" + std::to_string(i), 1e9)->seal());
    std::vector<sg::LinkInRoute> way;
    for (const auto& hop : c.flows[i].hops) way.push_back(links[static_cast<size_t>(hop.link)]);
    // SimGrid 3.32 takes no rate for a transfer between two hosts: a link of its own holds it.
    if (c.flows[i].bytes_per_s_max != opentrn::fabric::kNoLimit)
      way.emplace_back(
          zone->create_link("limit" + std::to_string(i), static_cast<double>(c.flows[i].bytes_per_s_max))
              ->set_latency(0)
              ->seal());
    zone->add_route(from.back()->get_netpoint(), to.back()->get_netpoint(), nullptr, nullptr, way, false);
  }
  sg::Host* watcher = zone->create_host("watcher", 1e9)->seal();
  zone->seal();
  std::vector<double> rates;
  sg::Actor::create("watcher", watcher, [&] {
    std::vector<sg::CommPtr> transfers;
    for (size_t i = 0; i < c.flows.size(); ++i) {
      sg::CommPtr transfer = sg::Comm::sendto_init(from[i], to[i]);
      transfer->set_payload_size(static_cast<uint64_t>(kBytes));
      transfer->start();
      transfers.push_back(transfer);
    }
    sg::this_actor::sleep_for(kSeconds);
    for (const sg::CommPtr& transfer : transfers)
      rates.push_back((static_cast<double>(kBytes) - transfer->get_remaining()) / kSeconds);
    for (const sg::CommPtr& transfer : transfers) transfer->cancel();
  });
  engine.run_until(2 * kSeconds);
  return rates;
}

// The largest relative difference.
double difference(const Case& c) {
  const std::vector<double> theirs = simgrid_rates(c);
  if (theirs.size() != c.flows.size()) return INFINITY;
  Flows flows(c.network);
  std::vector<FlowId> ids;
  for (const Flow& flow : c.flows) ids.push_back(flows.start(0, flow));
  double worst = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const double ours = flows.exact_rate(ids[i]);
    worst = std::max(worst, std::abs(ours - theirs[i]) / theirs[i]);
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "compare GRAPHS SEED\n"), 2;
  const unsigned graphs = static_cast<unsigned>(std::atoi(argv[1])),
                 seed = static_cast<unsigned>(std::atoi(argv[2]));
  unsigned passed = 0;
  size_t flows = 0;
  double worst = 0;
  for (unsigned i = 0; i < graphs; ++i) {
    const Case c = random_case(seed + i);
    flows += c.flows.size();
    int ends[2];
    if (pipe(ends) != 0) return 2;
    const pid_t child = fork();
    if (child == 0) {
      const double off = difference(c);
      const bool written = write(ends[1], &off, sizeof off) == sizeof off;
      _exit(written ? 0 : 1);
    }
    close(ends[1]);
    double off = INFINITY;
    if (read(ends[0], &off, sizeof off) != sizeof off) off = INFINITY;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    worst = std::max(worst, off);
    if (off <= kToleranceRelative)
      ++passed;
    else
      std::printf("seed %u: off by %g\n", seed + i, off);
  }
  std::printf("largest difference %.3g over %zu flows\n", worst, flows);
  std::printf("%u passed, %u failed, 0 skipped\n", passed, graphs - passed);
  return passed == graphs ? 0 : 1;
}
