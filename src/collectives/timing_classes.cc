// Colour refinement of a TimingGraph, and the exact check of what it found.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <span>

#include "base/fault.h"
#include "base/interrupt.h"
#include "collectives/signatures.h"
#include "collectives/timing_graph.h"

namespace opentrn::collectives {

namespace {

class Refinement {
 public:
  explicit Refinement(const TimingGraph& graph) : graph_(graph) {}

  // False when steps wait in a circle.
  bool run() {
    if (!sort()) return false;
    initial();
    // Steps are looked at behind those that they wait for, so links and ranks alone decide what another pass
    // can find: where they stay, it finds the same. What steps there are costs as much as the rest of a pass
    // and is counted when it is over, and after the first, as where nothing is alike nothing will be.
    bool changed = pass();
    steps = number(step_hash_, step);
    while (changed && is_worth_it()) changed = pass();
    steps = number(step_hash_, step);
    return true;
  }
  // Of classes that are nearly as many as the steps nothing comes.
  bool is_worth_it() const {
    constexpr int64_t kWorthIt = 9, kOf = 10;
    return int64_t{steps} * kOf <= static_cast<int64_t>(graph_.steps.size()) * kWorthIt;
  }

  std::vector<int32_t> step, link, rank;
  int32_t steps = 0, links = 0, ranks = 0;

 private:
  bool sort() {
    const size_t count = graph_.steps.size();
    std::vector<int32_t> missing(count);
    order_.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const auto waits = graph_.waits.of(static_cast<int32_t>(i));
      missing[i] = static_cast<int32_t>(waits.size());
      if (waits.empty()) order_.push_back(static_cast<int32_t>(i));
    }
    const Lists followers = graph_.waits.turned();
    for (size_t i = 0; i < order_.size(); ++i)
      for (const int32_t after : followers.of(order_[i]))
        if (--missing[static_cast<size_t>(after)] == 0) order_.push_back(after);
    return order_.size() == count;
  }

  void initial() {
    step_hash_.resize(graph_.steps.size());
    looked_at_.reserve(graph_.steps.size());
    for (const TimedStep& step : graph_.steps) looked_at_.push_back({step.way, step.bursts ? step.rank : -1});
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      const TimedStep& s = graph_.steps[i];
      uint64_t hash = 0;
      for (const int64_t value : {s.bytes, s.begin_ps, s.ready_ps, s.bytes_per_s_max, s.packet_bytes,
                                  s.multiplicity, int64_t{s.at_rank}, int64_t{s.priority}, int64_t{s.kind},
                                  int64_t{s.bursts}, graph_.way_latency_ps[static_cast<size_t>(s.way)]})
        hash = mixed(hash, static_cast<uint64_t>(value));
      step_hash_[i] = hash;
    }
    link_hash_.resize(graph_.network.links.size());
    for (size_t i = 0; i < link_hash_.size(); ++i)
      link_hash_[i] = mixed(static_cast<uint64_t>(graph_.network.links[i].bytes_per_s));
    rank_hash_.assign(static_cast<size_t>(graph_.ranks), 0);
    links = number(link_hash_, link);
    ranks = number(rank_hash_, rank);
  }

  // A step by what it was, its way, its rank and what it waits for; links and ranks by their steps. Whether
  // there are more classes of links or ranks than before.
  bool pass() {
    const int32_t links_before = links, ranks_before = ranks;
    std::vector<uint64_t> way(graph_.way_latency_ps.size());
    for (size_t w = 0; w < way.size(); ++w)
      for (const fabric::Hop& hop : graph_.hops_of(static_cast<int32_t>(w)))
        way[w] += mixed(pair_of(link[static_cast<size_t>(hop.link)], hop.share));
    std::vector<uint64_t> before;
    for (const int32_t at : order_) {
      interrupt::poll();
      const LookedAt& s = looked_at_[static_cast<size_t>(at)];
      uint64_t hash = mixed(step_hash_[static_cast<size_t>(at)], way[static_cast<size_t>(s.way)]);
      if (s.bursts_of >= 0) hash = mixed(hash, static_cast<uint64_t>(rank[static_cast<size_t>(s.bursts_of)]));
      before.clear();
      for (const int32_t wait : graph_.waits.of(at)) before.push_back(step_hash_[static_cast<size_t>(wait)]);
      if (before.size() > 1) {
        std::ranges::sort(before);
        before.erase(std::unique(before.begin(), before.end()), before.end());
      }
      for (const uint64_t one : before) hash = mixed(hash, one);
      step_hash_[static_cast<size_t>(at)] = hash;
    }
    std::ranges::fill(way, 0);
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      const TimedStep& s = graph_.steps[i];
      const uint64_t hash = mixed(step_hash_[i]);
      if (s.bytes > 0) way[static_cast<size_t>(s.way)] += hash * static_cast<uint64_t>(s.multiplicity);
      if (s.bursts) rank_hash_[static_cast<size_t>(s.rank)] += hash * static_cast<uint64_t>(s.at_rank);
    }
    for (size_t w = 0; w < way.size(); ++w)
      for (const fabric::Hop& hop : graph_.hops_of(static_cast<int32_t>(w)))
        link_hash_[static_cast<size_t>(hop.link)] += way[w] * static_cast<uint64_t>(hop.share);
    for (uint64_t& hash : link_hash_) hash = mixed(hash);
    for (uint64_t& hash : rank_hash_) hash = mixed(hash);
    links = number(link_hash_, link);
    ranks = number(rank_hash_, rank);
    return links != links_before || ranks != ranks_before;
  }

  // What a pass needs of a step, close together: it goes from step to step in the order of their waits.
  struct LookedAt {
    int32_t way = 0, bursts_of = -1;  // a rank
  };

  const TimingGraph& graph_;
  std::vector<int32_t> order_;
  std::vector<LookedAt> looked_at_;
  std::vector<uint64_t> step_hash_, link_hash_, rank_hash_;
};

// What each class of steps puts on each class of links, one class of steps behind the other.
struct LoadsOfSteps {
  Counts all;
  std::vector<size_t> first;

  LoadsOfSteps(size_t steps, const std::vector<Counts>& of_links) : first(steps + 1) {
    for (const Counts& of_link : of_links)
      for (const auto& [step, load] : of_link) ++first[static_cast<size_t>(step) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    all.resize(first.back());
    std::vector<size_t> at(first.begin(), first.end() - 1);
    for (size_t link = 0; link < of_links.size(); ++link)
      for (const auto& [step, load] : of_links[link])
        all[at[static_cast<size_t>(step)]++] = {static_cast<int32_t>(link), load};
  }
  std::span<const Counts::value_type> of(size_t step) const {
    return std::span(all).subspan(first[step], first[step + 1] - first[step]);
  }
};

// Holds the classes to their definition, and makes the quotient of what it saw on the way.
class Quotient {
 public:
  Quotient(const TimingGraph& graph, Refinement& found)
      : graph_(graph),
        found_(found),
        first_step_(first_of_each(found.step, found.steps)),
        first_link_(first_of_each(found.link, found.links)) {}

  // False when the partition is not equitable.
  bool check() { return steps_are_alike() && ranks_are_alike() && links_are_alike(); }

  // Nothing when numbers do not fit.
  std::optional<TimingGraph> take() && {
    TimingGraph out;
    for (const int32_t link : first_link_)
      out.network.links.push_back(graph_.network.links[static_cast<size_t>(link)]);
    out.ranks = graph_.ranks;
    const LoadsOfSteps loads(first_step_.size(), link_loads_);
    out.steps.reserve(first_step_.size());
    out.waits.first.reserve(first_step_.size() + 1);
    out.waits.items.reserve(waits_.items.size());
    out.way_first.reserve(first_step_.size() + 1);
    out.way_latency_ps.reserve(first_step_.size());
    out.hops.reserve(loads.all.size());
    std::vector<fabric::Hop> hops;
    for (size_t c = 0; c < first_step_.size(); ++c) {
      interrupt::poll();
      TimedStep step = graph_.steps[static_cast<size_t>(first_step_[c])];
      int64_t common = 0;
      for (const auto& [link, load] : loads.of(c)) common = std::gcd(common, load);
      step.multiplicity = std::max<int64_t>(common, 1);
      hops.clear();
      for (const auto& [link, load] : loads.of(c)) {
        if (load / step.multiplicity > std::numeric_limits<int32_t>::max()) return std::nullopt;
        hops.push_back({link, static_cast<int32_t>(load / step.multiplicity)});
      }
      step.way = out.add_way(hops, graph_.way_latency_ps[static_cast<size_t>(step.way)]);
      if (step.bursts) step.at_rank = at_rank_[c];
      out.steps.push_back(step);
      for (const int32_t before : waits_.of(static_cast<int32_t>(c))) out.waits.items.push_back(before);
      out.waits.close();
    }
    return out;
  }

 private:
  // A number for each way that is told by the classes of its links and its shares of them.
  std::vector<int32_t> kinds_of_ways() const {
    std::map<Counts, int32_t> kinds;
    std::vector<int32_t> kind;
    Counts way;
    for (size_t w = 0; w < graph_.way_latency_ps.size(); ++w) {
      way.clear();
      for (const fabric::Hop& hop : graph_.hops_of(static_cast<int32_t>(w)))
        way.emplace_back(found_.link[static_cast<size_t>(hop.link)], hop.share);
      std::ranges::sort(way);
      kind.push_back(kinds.try_emplace(way, static_cast<int32_t>(kinds.size())).first->second);
    }
    return kind;
  }

  // The classes that the first member of each class waits for.
  void look_at_waits() {
    auto& waits = waits_.items;
    for (const int32_t first : first_step_) {
      const auto own = static_cast<std::ptrdiff_t>(waits.size());
      for (const int32_t before : graph_.waits.of(first))
        waits.push_back(found_.step[static_cast<size_t>(before)]);
      std::sort(waits.begin() + own, waits.end());
      waits.erase(std::unique(waits.begin() + own, waits.end()), waits.end());
      waits_.close();
    }
  }
  // `seen`: for each class, the step that was asked for when it was met last.
  bool waits_as_class(int32_t step, std::span<const int32_t> waits, std::vector<int32_t>& seen) const {
    size_t met = 0;
    for (const int32_t before : graph_.waits.of(step)) {
      const int32_t c = found_.step[static_cast<size_t>(before)];
      int32_t& last = seen[static_cast<size_t>(c)];
      if (last == step) continue;
      last = step;
      if (!std::ranges::binary_search(waits, c)) return false;
      ++met;
    }
    return met == waits.size();
  }

  bool steps_are_alike() {
    look_at_waits();
    const std::vector<int32_t> kind_of_way = kinds_of_ways();
    std::vector<int32_t> seen(first_step_.size(), -1);
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      const auto c = static_cast<size_t>(found_.step[i]);
      const TimedStep &a = graph_.steps[i], &b = graph_.steps[static_cast<size_t>(first_step_[c])];
      interrupt::poll();
      if (a.bytes != b.bytes || a.begin_ps != b.begin_ps || a.ready_ps != b.ready_ps ||
          a.bytes_per_s_max != b.bytes_per_s_max || a.packet_bytes != b.packet_bytes ||
          a.multiplicity != b.multiplicity || a.at_rank != b.at_rank || a.priority != b.priority ||
          a.kind != b.kind || a.bursts != b.bursts ||
          graph_.way_latency_ps[static_cast<size_t>(a.way)] !=
              graph_.way_latency_ps[static_cast<size_t>(b.way)])
        return false;
      if (a.bursts && found_.rank[static_cast<size_t>(a.rank)] != found_.rank[static_cast<size_t>(b.rank)])
        return false;
      if (kind_of_way[static_cast<size_t>(a.way)] != kind_of_way[static_cast<size_t>(b.way)]) return false;
      if (!waits_as_class(static_cast<int32_t>(i), waits_.of(static_cast<int32_t>(c)), seen)) return false;
    }
    return true;
  }

  // Of each key, `see(key, what its steps have of each class)`.
  template <typename Key, typename Value, typename See>
  bool for_each_key(size_t keys, Key key, Value value, See see) {
    std::vector<std::pair<int32_t, int32_t>> pairs;
    pairs.reserve(graph_.steps.size());
    for (size_t i = 0; i < graph_.steps.size(); ++i)
      if (value(graph_.steps[i]) > 0) pairs.emplace_back(key(graph_.steps[i]), static_cast<int32_t>(i));
    const Lists steps = Lists::of_pairs(keys, pairs);
    Summer sums(found_.steps);
    for (size_t k = 0; k < keys; ++k) {
      interrupt::poll();
      for (const int32_t step : steps.of(static_cast<int32_t>(k)))
        sums.add(found_.step[static_cast<size_t>(step)], value(graph_.steps[static_cast<size_t>(step)]));
      if (!see(k, sums)) return false;
      sums.clear();
    }
    return true;
  }

  bool ranks_are_alike() {
    at_rank_.assign(first_step_.size(), 1);
    std::vector<Counts> of_class(static_cast<size_t>(found_.ranks));
    std::vector<bool> seen(of_class.size());
    return for_each_key(
               static_cast<size_t>(graph_.ranks), [](const TimedStep& step) { return step.rank; },
               [](const TimedStep& step) { return step.bursts ? int64_t{step.at_rank} : 0; },
               [&](size_t rank, const Summer& sums) {
                 const auto c = static_cast<size_t>(found_.rank[rank]);
                 if (seen[c]) return sums.equals(of_class[c]);
                 seen[c] = true;
                 sums.read(of_class[c]);
                 return true;
               }) &&
           count_at_first_ranks();
  }

  // Of each class, how many its first member's rank issues.
  bool count_at_first_ranks() {
    std::vector<int64_t> sums(first_step_.size());
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      const TimedStep& step = graph_.steps[i];
      const auto c = static_cast<size_t>(found_.step[i]);
      if (step.bursts && step.rank == graph_.steps[static_cast<size_t>(first_step_[c])].rank)
        sums[c] += step.at_rank;
    }
    for (size_t c = 0; c < sums.size(); ++c)
      if (sums[c] > 0) at_rank_[c] = static_cast<int32_t>(sums[c]);
    return true;
  }

  bool links_are_alike() {
    // What each way carries of each class, then what each link does.
    const size_t ways = graph_.way_latency_ps.size();
    Lists classes;
    std::vector<int64_t> amounts;
    Counts counts;
    for_each_key(
        ways, [](const TimedStep& step) { return step.way; },
        [](const TimedStep& step) { return step.bytes > 0 ? step.multiplicity : 0; },
        [&](size_t, const Summer& sums) {
          sums.read(counts);
          for (const auto& [step, amount] : counts) {
            classes.items.push_back(step);
            amounts.push_back(amount);
          }
          classes.close();
          return true;
        });
    std::vector<std::pair<int32_t, int32_t>> crossed;  // link, way
    for (size_t w = 0; w < ways; ++w)
      for (const fabric::Hop& hop : graph_.hops_of(static_cast<int32_t>(w)))
        crossed.emplace_back(hop.link, static_cast<int32_t>(w));
    const Lists ways_of = Lists::of_pairs(graph_.network.links.size(), crossed);
    link_loads_.resize(first_link_.size());
    Summer sums(found_.steps);
    for (size_t link = 0; link < graph_.network.links.size(); ++link) {
      interrupt::poll();
      for (const int32_t way : ways_of.of(static_cast<int32_t>(link))) {
        int64_t share = 0;
        for (const fabric::Hop& hop : graph_.hops_of(way))
          if (hop.link == static_cast<fabric::LinkId>(link)) share = hop.share;
        for (int64_t i = classes.first[static_cast<size_t>(way)];
             i < classes.first[static_cast<size_t>(way) + 1]; ++i)
          sums.add(classes.items[static_cast<size_t>(i)], amounts[static_cast<size_t>(i)] * share);
      }
      const auto c = static_cast<size_t>(found_.link[link]);
      if (first_link_[c] == static_cast<int32_t>(link))
        sums.read(link_loads_[c]);
      else if (!sums.equals(link_loads_[c]) ||
               graph_.network.links[link].bytes_per_s !=
                   graph_.network.links[static_cast<size_t>(first_link_[c])].bytes_per_s)
        return false;
      sums.clear();
    }
    return true;
  }

  const TimingGraph& graph_;
  const Refinement& found_;
  std::vector<int32_t> first_step_, first_link_;
  Lists waits_;  // [class]
  std::vector<Counts> link_loads_;
  std::vector<int32_t> at_rank_;
};

}  // namespace

std::optional<StepClasses> classes_of(const TimingGraph& graph) {
  Refinement found(graph);
  if (!found.run() || !found.is_worth_it()) return std::nullopt;
  Quotient quotient(graph, found);
  // Refinement went by hashes: two that are equal by chance leave a partition that is none.
  if (!quotient.check()) return std::nullopt;
  auto folded = std::move(quotient).take();
  if (!folded) return std::nullopt;
  return StepClasses{std::move(found.step), std::move(found.link), std::move(*folded)};
}

}  // namespace opentrn::collectives
