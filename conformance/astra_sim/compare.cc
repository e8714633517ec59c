// Collectives by OpenTrn's plans over the links of ASTRA-sim's analytical network, and over OpenTrn's:
// compare CASES SEED LARGEST
//
// ASTRA-sim's network moves a chunk over one link at a time, first come first served; OpenTrn shares links
// out while transfers are under way. Both say the same where each transfer crosses one link and has it alone:
// rings on a ring, meshes and all-to-alls where every pair has a link. A step starts when what the plan has
// it wait for has arrived. ASTRA-sim counts whole nanoseconds and cuts off what is left of a transfer, so
// times may differ by one for each transfer of the longest chain.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "astra-network-analytical/common/EventQueue.h"
#include "astra-network-analytical/congestion_aware/Chunk.h"
#include "astra-network-analytical/congestion_aware/FullyConnected.h"
#include "astra-network-analytical/congestion_aware/Ring.h"
#include "collectives/algorithms.h"
#include "collectives/layout.h"
#include "collectives/timing_graph.h"

namespace {

namespace astra = NetworkAnalyticalCongestionAware;
using namespace opentrn;
using namespace opentrn::collectives;

constexpr double kBytesPerGb = 1 << 30;  // ASTRA-sim's
constexpr int64_t kPsPerNs = 1000;

struct Case {
  std::string algorithm;
  Request request;
  int64_t gb_s = 1, latency_ns = 0;
  bool is_ring() const { return algorithm == "ring"; }
};

// The steps of a plan, numbered rank by rank, and what each waits for.
struct Graph {
  struct Node {
    int from = 0, to = 0;
    int64_t bytes = 0;
    std::vector<int> before;
  };
  std::vector<Node> nodes;
  int longest = 0;  // transfers one behind the other

  explicit Graph(const Plan& plan) {
    std::vector<int> first;
    int count = 0;
    for (const auto& steps : plan.steps) {
      first.push_back(count);
      count += static_cast<int>(steps.size());
    }
    for (size_t rank = 0; rank < plan.steps.size(); ++rank) {
      std::vector<int> last(static_cast<size_t>(plan.channels), -1);
      for (const Step& step : plan.steps[rank]) {
        Node node{static_cast<int>(rank), step.peer, step.bytes, {}};
        for (const StepRef& wait : plan.waits(static_cast<int>(rank), step))
          node.before.push_back(first[static_cast<size_t>(wait.rank)] + wait.step);
        int& before = last[static_cast<size_t>(step.channel)];
        if (before >= 0) node.before.push_back(before);
        before = static_cast<int>(nodes.size());
        nodes.push_back(std::move(node));
      }
    }
    std::vector<int> depth(nodes.size(), -1);
    for (size_t i = 0; i < nodes.size(); ++i)
      longest = std::max(longest, depth_of(static_cast<int>(i), depth));
  }

 private:
  int depth_of(int start, std::vector<int>& depth) const {
    std::vector<int> open{start};
    while (!open.empty()) {
      const auto at = static_cast<size_t>(open.back());
      int most = 0;
      bool known = true;
      for (const int before : nodes[at].before) {
        const int of = depth[static_cast<size_t>(before)];
        if (of < 0) open.push_back(before);
        known &= of >= 0;
        most = std::max(most, of);
      }
      if (!known) continue;
      depth[at] = most + (nodes[at].from == nodes[at].to ? 0 : 1);
      open.pop_back();
    }
    return depth[static_cast<size_t>(start)];
  }
};

class OnAstra {
 public:
  OnAstra(const Case& given, const Graph& graph) : graph_(graph) {
    queue_ = std::make_shared<NetworkAnalytical::EventQueue>();
    astra::Topology::set_event_queue(queue_);
    const int ranks = given.request.ranks;
    const auto gb_s = static_cast<double>(given.gb_s), latency = static_cast<double>(given.latency_ns);
    if (given.is_ring())
      topology_ = std::make_unique<astra::Ring>(ranks, gb_s, latency, true);
    else
      topology_ = std::make_unique<astra::FullyConnected>(ranks, gb_s, latency);
    missing_.resize(graph.nodes.size());
    after_.resize(graph.nodes.size());
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      arguments_.push_back({this, static_cast<int>(i)});
      missing_[i] = static_cast<int>(graph.nodes[i].before.size());
      for (const int before : graph.nodes[i].before)
        after_[static_cast<size_t>(before)].push_back(static_cast<int>(i));
    }
  }
  int64_t end_ns() {
    for (size_t i = 0; i < missing_.size(); ++i)
      if (graph_.nodes[i].before.empty()) start(static_cast<int>(i));
    while (!queue_->finished()) queue_->proceed();
    return ended_ == static_cast<int64_t>(missing_.size()) ? end_ns_ : -1;
  }

 private:
  struct Argument {
    OnAstra* self;
    int node;
  };
  void start(int node) {
    const Graph::Node& step = graph_.nodes[static_cast<size_t>(node)];
    if (step.from == step.to || step.bytes == 0) return end(node);  // within a rank: no link
    topology_->send(std::make_unique<astra::Chunk>(
        static_cast<uint64_t>(step.bytes), topology_->route(step.from, step.to),
        [](void* argument) {
          const auto* arrived = static_cast<Argument*>(argument);
          arrived->self->end(arrived->node);
        },
        &arguments_[static_cast<size_t>(node)]));
  }
  void end(int node) {
    ++ended_;
    end_ns_ = static_cast<int64_t>(queue_->get_current_time());
    for (const int after : after_[static_cast<size_t>(node)])
      if (--missing_[static_cast<size_t>(after)] == 0) start(after);
  }

  const Graph& graph_;
  std::shared_ptr<NetworkAnalytical::EventQueue> queue_;
  std::unique_ptr<astra::Topology> topology_;
  std::vector<Argument> arguments_;
  std::vector<int> missing_;
  std::vector<std::vector<int>> after_;
  int64_t ended_ = 0, end_ns_ = 0;
};

// The same by OpenTrn, which may fold what is equal.
int64_t end_ps(const Case& given, const Graph& graph) {
  TimingGraph timing;
  const int ranks = given.request.ranks;
  const auto rate = std::llround(static_cast<double>(given.gb_s) * kBytesPerGb);
  std::vector<int32_t> ways(static_cast<size_t>(ranks) * static_cast<size_t>(ranks), -1);
  timing.ranks = ranks;
  const int32_t local = timing.add_way({}, 0);
  for (const Graph::Node& node : graph.nodes) {
    TimedStep step;
    step.rank = node.from;
    step.way = local;
    if (node.from != node.to && node.bytes > 0) {
      step.bytes = node.bytes;
      int32_t& way =
          ways[static_cast<size_t>(node.from) * static_cast<size_t>(ranks) + static_cast<size_t>(node.to)];
      if (way < 0) {
        const fabric::Hop hop{static_cast<fabric::LinkId>(timing.network.links.size())};
        timing.network.links.push_back({0, 1, rate, 0});
        way = timing.add_way({&hop, 1}, given.latency_ns * kPsPerNs);
      }
      step.way = way;
    }
    timing.steps.push_back(step);
    for (const int before : node.before) timing.waits.items.push_back(before);
    timing.waits.close();
  }
  timing.network.nodes.resize(2);
  int64_t end = 0;
  const auto classes = classes_of(timing);
  const GraphTimes times = simulate(classes ? classes->quotient : timing);
  for (const StepTime& step : times.steps) end = std::max(end, step.end_ps);
  return end;
}

Case random_case(unsigned seed, int largest) {
  std::mt19937 random(seed);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Case out;
  constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll};
  out.request.kind = kKinds[draw(0, 3)];
  out.algorithm = out.request.kind == Kind::kAllToAll ? "all_to_all" : draw(0, 1) ? "ring" : "mesh";
  out.request.ranks = static_cast<int>(draw(2, out.is_ring() ? largest : std::min(largest, 64)));
  out.request.bytes = out.request.ranks * draw(1, 1 << 20) * 4;
  out.request.dtype = DType::kFloat32;
  out.gb_s = draw(1, 400);
  out.latency_ns = draw(1, 5000);
  return out;
}

double seconds_of(const auto& function) {
  const auto begin = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 200, largest = argc > 3 ? std::atoi(argv[3]) : 128;
  const unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  int passed = 0;
  double worst = 0, ours_s = 0, theirs_s = 0;
  int64_t steps = 0;
  for (int i = 0; i < cases; ++i) {
    const Case given = random_case(seed + static_cast<unsigned>(i), largest);
    const Graph graph(make_plan(given.algorithm, given.request, simple_layout(given.request.ranks)));
    int64_t theirs_ns = 0, ours_ps = 0;
    theirs_s += seconds_of([&] { theirs_ns = OnAstra(given, graph).end_ns(); });
    ours_s += seconds_of([&] { ours_ps = end_ps(given, graph); });
    const double ours_ns = static_cast<double>(ours_ps) / static_cast<double>(kPsPerNs);
    const double off_ns = ours_ns - static_cast<double>(theirs_ns);
    const bool agrees = theirs_ns > 0 && off_ns > -1 && off_ns < graph.longest + 1;
    passed += agrees ? 1 : 0;
    worst = std::max(worst, std::abs(off_ns) / ours_ns);
    steps += static_cast<int64_t>(graph.nodes.size());
    if (!agrees)
      std::printf("case %u: %s of %d ranks, %lld B: %.3f ns, ASTRA-sim %lld ns, %d transfers in a chain\n",
                  seed + static_cast<unsigned>(i), given.algorithm.c_str(), given.request.ranks,
                  static_cast<long long>(given.request.bytes), ours_ns, static_cast<long long>(theirs_ns),
                  graph.longest);
  }
  std::printf("%lld steps: %.2f s, ASTRA-sim's network %.2f s; times at most %.1e apart\n",
              static_cast<long long>(steps), ours_s, theirs_s, worst);
  std::printf("%d passed, %d failed, 0 skipped\n", passed, cases - passed);
  return passed == cases ? 0 : 1;
}
