#include "fabric/recurring_flows.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/interrupt.h"
#include "fabric/flow_work.h"

namespace opentrn::fabric {

namespace {

constexpr int32_t kEndOfList = -1;
// Flows that are solved before the question is asked, about 3 ms of work; solving one here is several times
// as dear as a change that Flows is told of, and sparing one as much cheaper.
constexpr int64_t kSolvedInVain = 4096, kSparedForEach = 4;
constexpr size_t kManyUnderWay = 512;

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 32);
}

// Flows that an allocation does not tell apart: all of a flow but its bytes.
struct Kind {
  Flow flow;
  uint64_t hash = 0;
  int32_t next = kEndOfList;  // of the same hash
  int32_t count = 0;          // under way
  int64_t rate = 0;           // of each, in the set that is under way
  Wide ended = 0;             // bytes
  bool is_instant() const {   // it takes nothing from others
    return flow.hops.empty() && flow.bytes_per_s_max == kNoLimit;
  }
};

struct UnderWay {
  FlowId id = 0;
  int32_t kind = 0;
  int64_t bytes = 0, rate = 0;
  Wide left = 0;  // at `since_ps`
  int64_t since_ps = 0, end_ps = INT64_MAX;
};

// Kinds that were under way together, with how many flows of each, and what each of these had.
struct Set {
  struct Part {
    int32_t kind = 0, count = 0;
    int64_t rate = 0;
  };
  std::vector<Part> parts;
  int32_t flows = 0, next = kEndOfList;  // of the same hash
};

bool is_alike(const Flow& a, const Flow& b) {
  return a.hops == b.hops && a.bytes_per_s_max == b.bytes_per_s_max && a.priority == b.priority &&
         a.multiplicity == b.multiplicity && a.weight == b.weight;
}

uint64_t hash_of(const Flow& flow) {
  uint64_t hash = mixed(static_cast<uint64_t>(flow.bytes_per_s_max), static_cast<uint64_t>(flow.priority));
  hash = mixed(hash, static_cast<uint64_t>(flow.multiplicity));
  hash = mixed(hash, static_cast<uint64_t>(flow.weight));
  for (const Hop& hop : flow.hops)
    hash = mixed(hash, (uint64_t{static_cast<uint32_t>(hop.link)} << 32) | static_cast<uint32_t>(hop.share));
  return hash;
}

}  // namespace

struct RecurringFlows::State {
  explicit State(const Network& network)
      : links(network.links), by_ended(links.size()), at_link(links.size(), kEndOfList) {}

  // -- kinds ---------------------------------------------------------------------------------------------
  int32_t kind_of(const Flow& flow) {
    const uint64_t hash = hash_of(flow);
    const auto number = static_cast<int32_t>(kinds.size());
    int32_t& first = kinds_by_hash.try_emplace(hash, number).first->second;
    if (first != number)
      for (int32_t at = first; at != kEndOfList; at = kinds[static_cast<size_t>(at)].next)
        if (is_alike(kinds[static_cast<size_t>(at)].flow, flow)) return at;
    Kind& kind = kinds.emplace_back();
    kind.flow = flow;
    kind.hash = hash;
    if (first != number) kind.next = std::exchange(first, number);
    return number;
  }
  Kind& kind(int32_t number) { return kinds[static_cast<size_t>(number)]; }

  // -- the flows under way -------------------------------------------------------------------------------
  FlowId start(const Flow& flow) {
    OPENTRN_CHECK(flow.multiplicity > 0 && flow.weight > 0 && flow.bytes >= 0,
                  "a flow of {} bytes, multiplicity {}, weight {}", flow.bytes, flow.multiplicity,
                  flow.weight);
    UnderWay& own = under_way.emplace_back();
    own.id = flows_started++;
    own.kind = kind_of(flow);
    own.bytes = flow.bytes;
    own.left = work_of(flow.bytes);
    own.since_ps = now_ps;
    if (flow.bytes == 0 || kind(own.kind).is_instant())
      own.end_ps = next_end_ps = now_ps;
    else
      count(own.kind, +1);
    return own.id;
  }

  void count(int32_t number, int sign) {
    Kind& of = kind(number);
    of.count += sign;
    flows_counted += sign;
    // A sum, so that the order in which flows came does not count.
    key += static_cast<uint64_t>(sign) * mixed(of.hash, 1);
    has_changed = true;
  }

  bool takes_part(const UnderWay& flow) const {
    return flow.bytes > 0 && !kinds[static_cast<size_t>(flow.kind)].is_instant();
  }

  // -- their rates ---------------------------------------------------------------------------------------
  void solve() {
    if (!has_changed) return;
    interrupt::poll();
    has_changed = false;
    if (const Set* met = find())
      take(*met);
    else
      take(add_set());
    next_end_ps = INT64_MAX;
    for (UnderWay& flow : under_way) {
      if (takes_part(flow)) {
        if (const int64_t rate = kind(flow.kind).rate; rate != flow.rate) {
          flow.left -= Wide{flow.rate} * (now_ps - flow.since_ps);
          flow.since_ps = now_ps;
          flow.rate = rate;
          flow.end_ps = end_of_work(flow.left, rate, now_ps);
        }
      }
      next_end_ps = std::min(next_end_ps, flow.end_ps);
    }
  }

  const Set* find() {
    const auto first = sets_by_key.find(key);
    if (first == sets_by_key.end()) return nullptr;
    for (int32_t at = first->second; at != kEndOfList; at = sets[static_cast<size_t>(at)].next) {
      const Set& set = sets[static_cast<size_t>(at)];
      if (set.flows == flows_counted && std::ranges::all_of(set.parts, [&](const Set::Part& part) {
            return kind(part.kind).count == part.count;
          })) {
        flows_spared += flows_counted;
        return &set;
      }
    }
    return nullptr;
  }

  void take(const Set& set) {
    for (const Set::Part& part : set.parts) kind(part.kind).rate = part.rate;
  }

  // Solves the flows under way by themselves, over the links that they cross.
  const Set& add_set() {
    flows_solved += flows_counted;
    Network crossed;
    std::vector<LinkId> used;
    std::vector<int32_t> of_flow;  // kinds
    for (const UnderWay& flow : under_way) {
      if (!takes_part(flow)) continue;
      of_flow.push_back(flow.kind);
      for (const Hop& hop : kind(flow.kind).flow.hops)
        if (int32_t& at = at_link[static_cast<size_t>(hop.link)]; at == kEndOfList) {
          at = static_cast<int32_t>(used.size());
          used.push_back(hop.link);
          crossed.links.push_back(links[static_cast<size_t>(hop.link)]);
        }
    }
    Flows alone(crossed);
    std::vector<std::pair<int32_t, FlowId>> started;  // kind, flow
    Flow own;
    for (const int32_t of : of_flow) {
      own = kind(of).flow;
      own.bytes = 1;
      for (Hop& hop : own.hops) hop.link = at_link[static_cast<size_t>(hop.link)];
      started.emplace_back(of, alone.start(0, own));
    }
    for (const LinkId link : used) at_link[static_cast<size_t>(link)] = kEndOfList;
    Set set;
    set.flows = flows_counted;
    for (const auto& [of, flow] : started) {
      Kind& own = kind(of);
      own.rate = alone.rate_units(flow);
    }
    std::ranges::sort(started);
    for (size_t i = 0; i < started.size(); ++i)
      if (i == 0 || started[i].first != started[i - 1].first)
        set.parts.push_back({started[i].first, kind(started[i].first).count, kind(started[i].first).rate});
    const auto number = static_cast<int32_t>(sets.size());
    const auto [first, is_new] = sets_by_key.try_emplace(key, number);
    if (!is_new) set.next = std::exchange(first->second, number);
    return sets.emplace_back(std::move(set));
  }

  int64_t next_end() {
    solve();
    return next_end_ps;
  }

  void advance(int64_t at_ps) {
    now_ps = at_ps;
    ended.clear();
    if (at_ps < next_end_ps) return;
    next_end_ps = INT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < under_way.size(); ++i) {
      const UnderWay& flow = under_way[i];
      if (flow.end_ps > at_ps) {
        next_end_ps = std::min(next_end_ps, flow.end_ps);
        if (kept != i) under_way[kept] = flow;
        ++kept;
        continue;
      }
      if (takes_part(flow)) {
        count(flow.kind, -1);
        kind(flow.kind).ended += flow.bytes;
        ++flows_ended;
      }
      ended.push_back(flow.id);
    }
    under_way.resize(kept);
  }

  int64_t carried(LinkId link) {
    if (summed != flows_ended) sum_ended();
    Wide sum = by_ended[static_cast<size_t>(link)];
    for (const UnderWay& flow : under_way) {
      if (!takes_part(flow)) continue;
      const Wide left = std::max<Wide>(0, flow.left - Wide{flow.rate} * (now_ps - flow.since_ps));
      const Flow& of = kind(flow.kind).flow;
      for (const Hop& hop : of.hops)
        if (hop.link == link)
          sum += (work_of(flow.bytes) - left) / work_of(1) * (int64_t{hop.share} * of.multiplicity);
    }
    return static_cast<int64_t>(sum / kWholeShare);
  }
  void sum_ended() {
    summed = flows_ended;
    by_ended.assign(links.size(), 0);
    for (const Kind& of : kinds)
      for (const Hop& hop : of.flow.hops)
        by_ended[static_cast<size_t>(hop.link)] += of.ended * (int64_t{hop.share} * of.flow.multiplicity);
  }

  std::vector<Link> links;
  std::vector<Wide> by_ended;  // [link]: bytes times load
  std::vector<Kind> kinds;
  std::unordered_map<uint64_t, int32_t> kinds_by_hash, sets_by_key;  // the newest of each
  std::vector<Set> sets;
  std::vector<UnderWay> under_way;  // in order of their ids
  std::vector<FlowId> ended;
  std::vector<int32_t> at_link;  // of a set that is being solved
  uint64_t key = 0;              // of the flows under way
  int32_t flows_counted = 0;     // that take part
  bool has_changed = false;      // since the last solution
  FlowId flows_started = 0;
  int64_t flows_ended = 0, summed = 0;  // that took part; of these, those that are in `by_ended`
  int64_t now_ps = 0, next_end_ps = INT64_MAX;
  int64_t flows_solved = 0, flows_spared = 0;
};

RecurringFlows::RecurringFlows(const Network& network) : state_(std::make_unique<State>(network)) {}
RecurringFlows::~RecurringFlows() = default;

FlowId RecurringFlows::start(int64_t at_ps, const Flow& flow) {
  go_on_to_start(*state_, at_ps);
  return state_->start(flow);
}
int64_t RecurringFlows::now() const { return state_->now_ps; }
int64_t RecurringFlows::next_end() { return state_->next_end(); }
std::span<const FlowId> RecurringFlows::advance(int64_t at_ps) {
  expect_advance(*state_, at_ps);
  state_->advance(at_ps);
  return state_->ended;
}
int64_t RecurringFlows::carried(LinkId link) const { return state_->carried(link); }
int64_t RecurringFlows::solved() const { return state_->flows_solved; }
int64_t RecurringFlows::spared() const { return state_->flows_spared; }
bool RecurringFlows::pays() const {
  return state_->under_way.size() <= kManyUnderWay &&
         state_->flows_solved <= kSolvedInVain + state_->flows_spared / kSparedForEach;
}

}  // namespace opentrn::fabric
