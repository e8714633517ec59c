#include "backend/order.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "backend/collective_order.h"
#include "backend/estimate.h"
#include "backend/start_order.h"
#include "base/interrupt.h"
#include "base/large_pages.h"
#include "cost/bandwidth_slices.h"

namespace opentrn::backend {

namespace {

using isa::Engine;
using isa::InstructionIndex;

constexpr double kSliceNs = 4000;  // how finely DMA bandwidth is shared out; our choice
constexpr InstructionIndex kNoDeadline = std::numeric_limits<InstructionIndex>::max();

// For each instruction the first one that gives its result out of the core, by program order: what waits for
// it, at the end of everything that reads its result. Itself when nothing does.
std::vector<InstructionIndex> find_deadlines(const Dependencies& dependencies, size_t size) {
  std::vector<InstructionIndex> deadlines(size, kNoDeadline);
  for (InstructionIndex i = static_cast<InstructionIndex>(size); i-- > 0;) {
    interrupt::poll();
    if (deadlines[i] == kNoDeadline) deadlines[i] = i;
    for (const Dependency& dependency : dependencies.of(i))
      if (dependency.reads_result)
        deadlines[dependency.producer] = std::min(deadlines[dependency.producer], deadlines[i]);
  }
  return deadlines;
}

class RoughRun {
 public:
  RoughRun(const isa::Program& program, const isa::Kinds& kinds, const std::vector<EngineChoice>& choices,
           const Dependencies& dependencies, const Options& options, const arch::Tables& tables)
      : program_(program),
        kinds_(kinds),
        choices_(choices),
        dependencies_(dependencies),
        estimator_(program, kinds, tables, options.generation),
        dma_(estimator_.dma_bytes_per_ns() / cost::kPsPerNs, cost::to_ps(kSliceNs)),
        start_ns_(program.size()),
        done_ns_(program.size()) {
    find_synchronising(kinds);
    if (options.look_ahead == 0) return;
    if (options.neuronx_cc)
      deadlines_ = find_deadlines(dependencies, program.size());
    else
      find_tables();
  }

  // Of transfers that can start at the same time, the one with the earliest goes first. Engines go by program
  // order.
  InstructionIndex deadline(InstructionIndex i) const {
    return choices_[i].engine == Engine::kDma && !deadlines_.empty() ? deadlines_[i] : i;
  }
  // Transposes and products take turns: a product waits for a transpose, whose result goes through another
  // engine first, while products of the step before run.
  bool alternates(InstructionIndex i) const {
    return !deadlines_.empty() && program_.instruction(i).opcode == isa::Opcode::kNcTranspose;
  }
  // Of an activation whose function must be loaded where another was used before; 0: any will do.
  int table(InstructionIndex i) const { return tables_.empty() ? 0 : tables_[i]; }
  double end_ns() const { return done_ns_.empty() ? 0 : *std::ranges::max_element(done_ns_); }

  const LargeVector<double>& in_program_order() {
    for (InstructionIndex i = 0; i < program_.size(); ++i) {
      interrupt::poll();
      start(i, ready_ns(i));
    }
    return start_ns_;
  }

  // List scheduling: each engine takes the oldest ready instruction among those within `window` of the
  // oldest one not yet started; see alternates() for the exception.
  const LargeVector<double>& with_look_ahead(uint32_t window);

 private:
  double ready_ns(InstructionIndex i) const {
    double ready = 0;
    for (const Dependency& dependency : dependencies_.of(i)) {
      const Engine engine = choices_[i].engine;
      const bool order_only = engine != Engine::kDma && engine == choices_[dependency.producer].engine &&
                              !dependency.reads_result;
      ready = std::max(ready, order_only ? start_ns_[dependency.producer] : done_ns_[dependency.producer]);
    }
    return ready;
  }

  void find_tables() {
    tables_.assign(program_.size(), 0);
    for (InstructionIndex i = 0; i < program_.size(); ++i) {
      const isa::Instruction& in = program_.instruction(i);
      if (const auto function = estimator_.table_of(in)) tables_[i] = 1 + static_cast<int>(*function);
    }
  }

  void find_synchronising(const isa::Kinds& kinds) {
    synchronises_.resize(kinds.count());
    for (uint32_t kind = 0; kind < kinds.count(); ++kind) {
      const isa::Opcode opcode = program_.instruction(kinds.first(kind)).opcode;
      synchronises_[kind] = isa::has(opcode, isa::kSynchronisesCores);
    }
  }

  void start(InstructionIndex i, double ready) {
    const Engine engine = choices_[i].engine;
    const bool synchronises = synchronises_[kinds_.of(i)];
    // Both cores must meet in the same sequence: these keep program order among themselves.
    if (synchronises) ready = std::max(ready, last_synchronisation_ns_);
    if (engine == Engine::kDma) {
      start_ns_[i] = ready;
      const auto bytes = static_cast<int64_t>(estimator_.dma_bytes(i));
      done_ns_[i] = cost::to_ns(dma_.reserve(cost::to_ps(ready), bytes)) + estimator_.dma_latency_ns();
      if (program_.instruction(i).opcode == isa::Opcode::kSendRecv) last_synchronisation_ns_ = start_ns_[i];
      return;
    }
    double& free = free_ns_[static_cast<size_t>(engine)];
    start_ns_[i] = std::max(ready, free);
    free = start_ns_[i] + estimator_.busy_ns(i, engine);
    if (const int wanted = table(i); wanted != 0 && std::exchange(table_, wanted) != wanted)
      free += estimator_.table_load_ns();
    done_ns_[i] = free + estimator_.latency_ns(engine);
    if (synchronises) last_synchronisation_ns_ = start_ns_[i];
  }

  const isa::Program& program_;
  const isa::Kinds& kinds_;
  const std::vector<EngineChoice>& choices_;
  const Dependencies& dependencies_;
  Estimator estimator_;
  cost::BandwidthSlices dma_;
  std::vector<uint8_t> synchronises_;  // by kind: whether cores meet there
  std::array<double, isa::kEngineCount> free_ns_{};
  LargeVector<double> start_ns_, done_ns_;   // by instruction, once it was started
  std::vector<InstructionIndex> deadlines_;  // empty: program order
  std::vector<int> tables_;                  // empty: loads are not counted, and order nothing
  int table_ = 0;                            // that was loaded last
  double last_synchronisation_ns_ = 0;
};

const LargeVector<double>& RoughRun::with_look_ahead(uint32_t window) {
  const uint32_t n = static_cast<uint32_t>(program_.size());
  std::vector<uint32_t> open(n), first_user(n + 1, 0);
  std::vector<uint32_t> users;
  for (InstructionIndex i = 0; i < n; ++i)
    for (const Dependency& dependency : dependencies_.of(i)) ++first_user[dependency.producer + 1], ++open[i];
  std::partial_sum(first_user.begin(), first_user.end(), first_user.begin());
  users.resize(first_user[n]);
  std::vector<uint32_t> fill(first_user.begin(), first_user.end() - 1);
  for (InstructionIndex i = 0; i < n; ++i)
    for (const Dependency& dependency : dependencies_.of(i)) users[fill[dependency.producer]++] = i;

  struct Candidate {
    double ready;
    InstructionIndex deadline, index;
    bool operator>(const Candidate& other) const {
      return std::tuple(ready, deadline, index) > std::tuple(other.ready, other.deadline, other.index);
    }
  };
  using ByReady = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;
  using ByIndex = std::priority_queue<InstructionIndex, std::vector<InstructionIndex>, std::greater<>>;
  struct Queue {
    ByReady waiting;                     // inputs known, by when they are there
    ByIndex ready;                       // inputs there when the engine is free; oldest first
    ByIndex transposes;                  // the same, of those
    std::map<int, ByIndex> activations;  // the same, by their function's table
    bool last_transposed = false;
    bool nothing_ready() const {
      return ready.empty() && transposes.empty() &&
             std::ranges::all_of(activations, [](const auto& of_table) { return of_table.second.empty(); });
    }
    // Of a table that is there if any waits for it, else the oldest.
    ByIndex& oldest(int table) {
      ByIndex* best = ready.empty() ? nullptr : &ready;
      const auto older = [&](ByIndex& other) {
        if (!other.empty() && (!best || other.top() < best->top())) best = &other;
      };
      if (const auto found = activations.find(table); found != activations.end()) older(found->second);
      if (!best)
        for (auto& [number, others] : activations) older(others);
      return *best;
    }
  };
  std::array<Queue, isa::kEngineCount> queues;
  std::vector<bool> started(n, false);
  uint32_t oldest = 0, admitted = 0, left = n;
  const auto wait = [&](InstructionIndex i) {
    queues[static_cast<size_t>(choices_[i].engine)].waiting.push({ready_ns(i), deadline(i), i});
  };
  const auto admit = [&] {
    for (; admitted < n && admitted < oldest + window; ++admitted)
      if (open[admitted] == 0) wait(admitted);
  };
  admit();
  while (left > 0) {
    interrupt::poll();
    // The engine that can start something first.
    int best = -1;
    double best_ns = 0;
    for (int e = 0; e < isa::kEngineCount; ++e) {
      Queue& queue = queues[static_cast<size_t>(e)];
      const bool dma = e == static_cast<int>(Engine::kDma);
      const double free = dma ? 0 : free_ns_[static_cast<size_t>(e)];
      double at = free;
      if (queue.nothing_ready()) {
        if (queue.waiting.empty()) continue;
        at = std::max(free, queue.waiting.top().ready);
      }
      if (best < 0 || at < best_ns) best = e, best_ns = at;
    }
    OPENTRN_CHECK(best >= 0, "{} instructions wait for each other", left);
    Queue& queue = queues[static_cast<size_t>(best)];
    InstructionIndex i = 0;
    if (best == static_cast<int>(Engine::kDma)) {
      i = queue.waiting.top().index;
      queue.waiting.pop();
    } else {
      while (!queue.waiting.empty() && queue.waiting.top().ready <= best_ns) {
        const InstructionIndex next = queue.waiting.top().index;
        ByIndex& to = table(next) ? queue.activations[table(next)] : queue.ready;
        (alternates(next) ? queue.transposes : to).push(next);
        queue.waiting.pop();
      }
      const bool transpose = !queue.transposes.empty() && (queue.ready.empty() || !queue.last_transposed);
      ByIndex& from = transpose ? queue.transposes : queue.oldest(table_);
      queue.last_transposed = transpose;
      i = from.top();
      from.pop();
    }
    start(i, ready_ns(i));
    started[i] = true;
    --left;
    for (uint32_t u = first_user[i]; u < first_user[i + 1]; ++u) {
      const InstructionIndex user = users[u];
      if (--open[user] == 0 && user < admitted) wait(user);
    }
    while (oldest < n && started[oldest]) ++oldest;
    admit();
  }
  return start_ns_;
}

std::vector<InstructionIndex> by_start_and_deadline(const LargeVector<double>& start, const RoughRun& run) {
  std::vector<InstructionIndex> order(start.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {},
                           [&](InstructionIndex i) { return std::pair(start[i], run.deadline(i)); });
  return order;
}

}  // namespace

Order choose_order(const isa::Program& program, const isa::Kinds& kinds,
                   const std::vector<EngineChoice>& choices, const Dependencies& dependencies,
                   const Options& options, const arch::Tables& tables) {
  RoughRun run(program, kinds, choices, dependencies, options, tables);
  const LargeVector<double>& start = options.look_ahead > 0
                                         ? run.with_look_ahead(static_cast<uint32_t>(options.look_ahead))
                                         : run.in_program_order();
  std::vector<InstructionIndex> order =
      options.look_ahead > 0 ? by_start_and_deadline(start, run) : by_start(start, choices);
  keep_collectives_in_order(program, choices, dependencies, options.collectives, options.look_ahead == 0,
                            order);
  return {std::move(order), run.end_ns()};
}

}  // namespace opentrn::backend
