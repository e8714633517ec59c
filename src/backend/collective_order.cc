#include "backend/collective_order.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

using isa::InstructionIndex;

constexpr uint32_t kNone = 0xFFFFFFFFu;

// Instructions, and behind them a gate for each collective and each rendezvous, in the order of the program:
// a gate opens when everything of it and of the gates before it has been put into the order.
class Graph {
 public:
  Graph(const isa::Program& program, const std::vector<EngineChoice>& choices,
        const Dependencies& dependencies, std::span<const isa::CollectiveCopies> collectives, bool in_order)
      : size_(static_cast<uint32_t>(program.size())),
        gate_(program.size(), kNone),
        synchronises_(program.size()) {
    find_gates(program, choices, collectives);
    for (InstructionIndex i = 0; i < size_; ++i) {
      add_gate_edges(i, dependencies);
      for (const Dependency& dependency : dependencies.of(i)) edges_.emplace_back(dependency.producer, i);
    }
    if (in_order) add_streams(choices);
    for (uint32_t gate = 1; gate < gates_; ++gate) edges_.emplace_back(node_of(gate - 1), node_of(gate));
  }

  // The first that can go, by their places in `order`; gates open at once.
  std::vector<InstructionIndex> sorted(const std::vector<InstructionIndex>& order) const {
    const uint32_t nodes = size_ + gates_;
    std::vector<uint32_t> open(nodes, 0), first_user(nodes + 1, 0), rank(nodes, 0);
    for (const auto& [from, to] : edges_) ++first_user[from + 1], ++open[to];
    std::partial_sum(first_user.begin(), first_user.end(), first_user.begin());
    std::vector<uint32_t> users(edges_.size()), fill(first_user.begin(), first_user.end() - 1);
    for (const auto& [from, to] : edges_) users[fill[from]++] = to;
    for (uint32_t at = 0; at < size_; ++at) rank[order[at]] = at + 1;
    using Candidate = std::pair<uint32_t, uint32_t>;  // rank, node
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> ready;
    for (uint32_t node = 0; node < nodes; ++node)
      if (open[node] == 0) ready.emplace(rank[node], node);
    std::vector<InstructionIndex> sorted;
    sorted.reserve(size_);
    while (!ready.empty()) {
      const uint32_t node = ready.top().second;
      ready.pop();
      if (node < size_) sorted.push_back(node);
      for (uint32_t u = first_user[node]; u < first_user[node + 1]; ++u)
        if (--open[users[u]] == 0) ready.emplace(rank[users[u]], users[u]);
    }
    OPENTRN_CHECK(sorted.size() == size_, "{} instructions wait for each other", size_ - sorted.size());
    return sorted;
  }

 private:
  uint32_t node_of(uint32_t gate) const { return size_ + gate; }

  void find_gates(const isa::Program& program, const std::vector<EngineChoice>& choices,
                  std::span<const isa::CollectiveCopies> collectives) {
    const isa::CollectiveFinder finder(collectives);
    std::vector<uint32_t> gate_of(collectives.size(), kNone);
    for (InstructionIndex i = 0; i < size_; ++i) {
      const isa::Instruction& in = program.instruction(i);
      const int32_t own = finder.of(program, in, choices[i].engine == isa::Engine::kDma);
      synchronises_[i] = isa::has(in.opcode, isa::kSynchronisesCores);
      if (own >= 0) {
        uint32_t& gate = gate_of[static_cast<size_t>(own)];
        if (gate == kNone) gate = gates_++;
        gate_[i] = gate;
      } else if (synchronises_[i]) {
        gate_[i] = gates_++;
      }
    }
  }

  void add_gate_edges(InstructionIndex i, const Dependencies& dependencies) {
    if (gate_[i] != kNone) edges_.emplace_back(i, node_of(gate_[i]));
    uint32_t behind = kNone;  // the last of the gates that `i` must come after
    const auto come_after = [&](uint32_t gate) { behind = behind == kNone ? gate : std::max(behind, gate); };
    if (synchronises_[i] && gate_[i] > 0) come_after(gate_[i] - 1);
    for (const Dependency& dependency : dependencies.of(i)) {
      const uint32_t gate = gate_[dependency.producer];
      if (gate != kNone && gate != gate_[i]) come_after(gate);
    }
    if (behind != kNone) edges_.emplace_back(node_of(behind), i);
  }

  void add_streams(const std::vector<EngineChoice>& choices) {
    std::array<uint32_t, kStreamsMax> last{};
    last.fill(kNone);
    for (InstructionIndex i = 0; i < size_; ++i) {
      const uint8_t stream = stream_of(choices[i]);
      if (is_dma_stream(stream)) continue;
      if (last[stream] != kNone) edges_.emplace_back(last[stream], i);
      last[stream] = i;
    }
  }

  uint32_t size_, gates_ = 0;
  std::vector<uint32_t> gate_;  // by instruction
  std::vector<bool> synchronises_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;  // from, to
};

}  // namespace

void keep_collectives_in_order(const isa::Program& program, const std::vector<EngineChoice>& choices,
                               const Dependencies& dependencies,
                               std::span<const isa::CollectiveCopies> collectives, bool in_order,
                               std::vector<InstructionIndex>& order) {
  if (collectives.empty()) return;
  order = Graph(program, choices, dependencies, collectives, in_order).sorted(order);
}

}  // namespace opentrn::backend
