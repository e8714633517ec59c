#include "fabric/alike_flows.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/interrupt.h"
#include "fabric/flow_work.h"

namespace opentrn::fabric {

namespace {

constexpr int32_t kNobody = -1;

// A flow of a shape, with hops over links as the component numbers them.
struct Member {
  Wide left = 0;  // at `since_ps`
  int64_t since_ps = 0, end_ps = INT64_MAX, rate = 0;
  int64_t bytes = 0, bytes_per_s_max = kNoLimit, multiplicity = 1;
  int32_t weight = 1, priority = 0;
  int32_t first_hop = 0, hops = 0;
};

// What components that are alike are at a moment.
struct Shape {
  std::vector<Member> members;
  std::vector<Hop> hops;
  std::vector<int64_t> rates;  // of its links
  int64_t end_ps = INT64_MAX;  // when the first of its members end
  std::vector<int32_t> ending;
  std::vector<int32_t> components;  // those that were put in it
  int32_t users = 0;                // those that are in it
  uint32_t generation = 0;          // of the number's use

  std::span<const Hop> hops_of(const Member& m) const {
    return std::span(hops).subspan(static_cast<size_t>(m.first_hop), static_cast<size_t>(m.hops));
  }
};

struct Component {
  int32_t shape = kNobody;
  bool has_ended = false;                     // the first of its members, which have been told
  int32_t cluster = kNobody, next = kNobody;  // of those that are solved together
  int32_t first_link = 0;                     // its links' numbers there begin here
  std::vector<FlowId> flows;                  // as its shape has them
  std::vector<LinkId> links;
};

// Of a link: the component that it is in, its number there, and the bytes times load of all flows until now.
// Not in a component but in a cluster: kInCluster less its number.
constexpr int32_t kInCluster = -2;
struct LinkPlace {
  int32_t component = kNobody, number = 0;
  Wide promised = 0;
};

struct Start {
  Member flow;
  FlowId id = 0;
  int32_t next = kNobody;
};

struct NewLink {
  LinkId link = 0;
  int32_t next = kNobody;
};

struct List {
  int32_t first = kNobody, last = kNobody;
};

// Components, starts and free links that share links from now on.
struct Joined {
  int32_t parent = kNobody;  // itself, or the one that has taken it in
  List components, starts, links;
};

// What a cluster becomes. Numbers are of its flows and links: those of its components, then the new ones.
struct Part {
  int32_t shape = kNobody;
  std::vector<int32_t> flows, links;
};
struct Outcome {
  std::vector<Part> parts;
  bool stays = false;  // the one component goes on, with its links and the new ones
};

struct KeyHash {
  size_t operator()(const std::vector<int64_t>& key) const {
    uint64_t hash = key.size();
    for (const int64_t value : key) {
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

template <typename T>
T& at(std::vector<T>& list, int32_t i) {
  return list[static_cast<size_t>(i)];
}

template <typename T>
void append(std::vector<T>& items, List& list, int32_t item) {
  (list.first == kNobody ? list.first : at(items, list.last).next) = item;
  list.last = item;
}

template <typename T>
void append_all(std::vector<T>& items, List& list, const List& more) {
  if (more.first == kNobody) return;
  (list.first == kNobody ? list.first : at(items, list.last).next) = more.first;
  list.last = more.last;
}

int32_t root_of(std::vector<int32_t>& parents, int32_t i) {
  while (at(parents, i) != i) i = at(parents, i) = at(parents, at(parents, i));
  return i;
}

}  // namespace

struct AlikeFlows::State {
  explicit State(const Network& of) : network(of), places(of.links.size()) {}

  FlowId start(const Flow& from) {
    const FlowId id = flows++;
    if (from.bytes == 0 || (from.hops.empty() && from.bytes_per_s_max == kNoLimit)) {
      at_once.push_back(id);
      return id;
    }
    Start start;
    start.id = id;
    Member& f = start.flow;
    f.left = work_of(from.bytes);
    f.since_ps = now_ps;
    f.bytes = from.bytes;
    f.bytes_per_s_max = from.bytes_per_s_max;
    f.multiplicity = from.multiplicity;
    f.weight = from.weight;
    f.priority = from.priority;
    f.first_hop = static_cast<int32_t>(start_hops.size());
    f.hops = static_cast<int32_t>(from.hops.size());
    start_hops.insert(start_hops.end(), from.hops.begin(), from.hops.end());
    starts.push_back(start);
    return id;
  }

  std::span<const Hop> hops_of(const Start& start) const {
    return std::span(start_hops)
        .subspan(static_cast<size_t>(start.flow.first_hop), static_cast<size_t>(start.flow.hops));
  }
  LinkPlace& place(LinkId link) { return at(places, link); }

  // -- what is solved together -----------------------------------------------------------------------------
  int32_t find(int32_t cluster) {
    while (at(clusters, cluster).parent != cluster)
      cluster = at(clusters, cluster).parent = at(clusters, at(clusters, cluster).parent).parent;
    return cluster;
  }

  int32_t add_cluster() {
    const auto number = static_cast<int32_t>(clusters.size());
    clusters.push_back({number, {}, {}, {}});
    return number;
  }

  int32_t cluster_of(int32_t component) {
    Component& c = at(components, component);
    if (c.cluster != kNobody) return find(c.cluster);
    c.cluster = add_cluster();
    c.next = kNobody;
    append(components, at(clusters, c.cluster).components, component);
    return c.cluster;
  }

  // The older one takes the other in: where all happens in the same order, numbers are the same.
  int32_t unite(int32_t a, int32_t b) {
    if (a == b) return a;
    if (b < a) std::swap(a, b);
    Joined &into = at(clusters, a), &from = at(clusters, b);
    append_all(components, into.components, from.components);
    append_all(starts, into.starts, from.starts);
    append_all(new_links, into.links, from.links);
    from.parent = a;
    return a;
  }

  void join(int32_t number) {
    Start& start = at(starts, number);
    int32_t own = kNobody;
    for (const Hop& hop : hops_of(start)) {
      LinkPlace& p = place(hop.link);
      p.promised += Wide{start.flow.bytes} * hop.share * start.flow.multiplicity;
      if (p.component == kNobody) continue;
      const int32_t met = p.component >= 0 ? cluster_of(p.component) : find(kInCluster - p.component);
      own = own == kNobody ? met : unite(own, met);
    }
    if (own == kNobody) own = add_cluster();
    for (const Hop& hop : hops_of(start)) {
      if (place(hop.link).component != kNobody) continue;
      place(hop.link).component = kInCluster - own;
      new_links.push_back({hop.link, kNobody});
      append(new_links, at(clusters, own).links, static_cast<int32_t>(new_links.size()) - 1);
    }
    append(starts, at(clusters, own).starts, number);
  }

  void solve() {
    if (touched.empty() && starts.empty()) return;
    for (const int32_t component : touched) cluster_of(component);
    for (size_t i = 0; i < starts.size(); ++i) {
      interrupt::poll();
      join(static_cast<int32_t>(i));
    }
    for (size_t i = 0; i < clusters.size(); ++i)
      if (clusters[i].parent == static_cast<int32_t>(i)) {
        interrupt::poll();
        go_on(clusters[i]);
      }
    touched.clear();
    starts.clear();
    start_hops.clear();
    new_links.clear();
    clusters.clear();
    known.clear();
    outcomes.clear();
    last_key.clear();
  }

  // -- from one state to the next --------------------------------------------------------------------------
  void go_on(const Joined& cluster) {
    number_links(cluster);
    write_key(cluster);
    if (key != last_key) {
      const auto [found, is_new] = known.try_emplace(key, static_cast<int32_t>(outcomes.size()));
      if (is_new) outcomes.push_back(solved_cluster(cluster));
      last_outcome = found->second;
      last_key = key;
      if (!is_new) count_spared(cluster);
    } else {
      count_spared(cluster);
    }
    const Outcome& outcome = at(outcomes, last_outcome);
    if (outcome.stays)
      grow(at(components, cluster.components.first), cluster, outcome.parts[0]);
    else
      replace(cluster, outcome);
  }

  template <typename Visit>
  void for_components(const Joined& cluster, const Visit& visit) {
    for (int32_t c = cluster.components.first; c != kNobody;) {
      const int32_t next = at(components, c).next;
      visit(at(components, c));
      c = next;
    }
  }
  template <typename Visit>
  void for_starts(const Joined& cluster, const Visit& visit) {
    for (int32_t s = cluster.starts.first; s != kNobody; s = at(starts, s).next) visit(at(starts, s));
  }
  template <typename Visit>
  void for_new_links(const Joined& cluster, const Visit& visit) {
    for (int32_t l = cluster.links.first; l != kNobody; l = at(new_links, l).next)
      visit(at(new_links, l).link);
  }

  void count_spared(const Joined& cluster) {
    for_components(cluster,
                   [&](const Component& c) { flows_spared += static_cast<int64_t>(c.flows.size()); });
    for_starts(cluster, [&](const Start&) { ++flows_spared; });
  }

  void number_links(const Joined& cluster) {
    int32_t links = 0;
    for_components(cluster, [&](Component& c) {
      c.first_link = links;
      links += static_cast<int32_t>(c.links.size());
    });
    for_new_links(cluster, [&](LinkId link) { place(link).number = links++; });
  }

  int32_t number_of(LinkId link) {
    const LinkPlace& p = place(link);
    return p.component >= 0 ? at(components, p.component).first_link + p.number : p.number;
  }

  // All that what comes of a cluster depends on.
  void write_key(const Joined& cluster) {
    key.clear();
    for_components(cluster, [&](const Component& c) { key.push_back(int64_t{c.shape} * 2 + c.has_ended); });
    key.push_back(kNobody);
    for_new_links(cluster,
                  [&](LinkId link) { key.push_back(network.links[static_cast<size_t>(link)].bytes_per_s); });
    key.push_back(kNobody);
    for_starts(cluster, [&](const Start& start) {
      const Member& f = start.flow;
      for (const int64_t value : {f.bytes, f.bytes_per_s_max, f.multiplicity, int64_t{f.weight},
                                  int64_t{f.priority}, int64_t{f.hops}})
        key.push_back(value);
      for (const Hop& hop : hops_of(start))
        key.push_back((int64_t{number_of(hop.link)} << 32) | static_cast<uint32_t>(hop.share));
    });
  }

  Outcome solved_cluster(const Joined& cluster) {
    Shape all;
    std::vector<int32_t> numbers;  // [member]: of the flow in the cluster
    int32_t flow = 0, count = 0;
    const auto add = [&](Member member, std::span<const Hop> hops, const auto& number) {
      member.first_hop = static_cast<int32_t>(all.hops.size());
      for (const Hop& hop : hops) all.hops.push_back({number(hop.link), hop.share});
      all.members.push_back(member);
      numbers.push_back(flow);
    };
    for_components(cluster, [&](const Component& c) {
      ++count;
      const Shape& shape = at(shapes, c.shape);
      all.rates.insert(all.rates.end(), shape.rates.begin(), shape.rates.end());
      for (const Member& member : shape.members) {
        const bool is_over = c.has_ended && member.end_ps == shape.end_ps;
        if (!is_over) add(member, shape.hops_of(member), [&](LinkId link) { return c.first_link + link; });
        ++flow;
      }
    });
    for_new_links(cluster, [&](LinkId link) {
      all.rates.push_back(network.links[static_cast<size_t>(link)].bytes_per_s);
    });
    for_starts(cluster, [&](const Start& start) {
      add(start.flow, hops_of(start), [&](LinkId link) { return number_of(link); });
      ++flow;
    });
    give_rates(all);
    return parts_of(std::move(all), numbers, count == 1);
  }

  void give_rates(Shape& shape) {
    Network links;
    for (const int64_t rate : shape.rates) links.links.push_back({0, 0, rate, 0, LinkClass::kNeuronLink});
    Flows solution(links);
    Flow flow;
    flow.bytes = 1;  // as no time passes, all the same
    for (const Member& m : shape.members) {
      const auto hops = shape.hops_of(m);
      flow.hops.assign(hops.begin(), hops.end());
      flow.bytes_per_s_max = m.bytes_per_s_max;
      flow.priority = m.priority;
      flow.multiplicity = m.multiplicity;
      flow.weight = m.weight;
      solution.start(0, flow);
    }
    FlowId id = 0;
    for (Member& m : shape.members) {
      m.left -= Wide{m.rate} * (now_ps - m.since_ps);
      m.since_ps = now_ps;
      m.rate = solution.rate_units(id++);
      m.end_ps = end_of_work(m.left, m.rate, now_ps);
    }
    flows_solved += id;
  }

  // Those that share links, each as a shape. Links that nothing crosses any more are left out, except where
  // all stays as it was and they are few.
  Outcome parts_of(Shape all, const std::vector<int32_t>& numbers, bool is_one) {
    std::vector<int32_t> part_of(all.rates.size());
    std::iota(part_of.begin(), part_of.end(), 0);
    std::vector<bool> is_used(all.rates.size(), false);
    for (const Member& m : all.members)
      for (const Hop& hop : all.hops_of(m)) {
        is_used[static_cast<size_t>(hop.link)] = true;
        at(part_of, root_of(part_of, hop.link)) = root_of(part_of, all.hops_of(m)[0].link);
      }
    Outcome out;
    std::vector<std::vector<int32_t>> members;
    std::vector<int32_t> part_at(all.rates.size(), kNobody);  // [root]
    for (size_t i = 0; i < all.members.size(); ++i) {
      const auto hops = all.hops_of(all.members[i]);
      auto part = static_cast<int32_t>(out.parts.size());
      if (!hops.empty()) {
        int32_t& of_root = at(part_at, root_of(part_of, hops[0].link));
        if (of_root == kNobody) of_root = part;
        part = of_root;
      }
      if (part == static_cast<int32_t>(out.parts.size())) {
        out.parts.emplace_back();
        members.emplace_back();
      }
      at(members, part).push_back(static_cast<int32_t>(i));
      at(out.parts, part).flows.push_back(numbers[i]);
    }
    const auto used = std::count(is_used.begin(), is_used.end(), true);
    out.stays = is_one && out.parts.size() == 1 && static_cast<size_t>(used) * 2 >= is_used.size();
    if (out.stays) {
      out.parts[0].shape = add_shape(std::move(all));
      return out;
    }
    for (size_t link = 0; link < is_used.size(); ++link)
      if (is_used[link])
        at(out.parts, at(part_at, root_of(part_of, static_cast<int32_t>(link))))
            .links.push_back(static_cast<int32_t>(link));
    std::vector<int32_t> renumbered(is_used.size(), kNobody);
    for (size_t i = 0; i < out.parts.size(); ++i)
      out.parts[i].shape = add_shape(cut_out(all, members[i], out.parts[i].links, renumbered));
    return out;
  }

  static Shape cut_out(const Shape& all, const std::vector<int32_t>& members,
                       const std::vector<int32_t>& links, std::vector<int32_t>& renumbered) {
    Shape out;
    for (const int32_t link : links) {
      at(renumbered, link) = static_cast<int32_t>(out.rates.size());
      out.rates.push_back(all.rates[static_cast<size_t>(link)]);
    }
    for (const int32_t number : members) {
      const Member& m = all.members[static_cast<size_t>(number)];
      out.members.push_back(m);
      out.members.back().first_hop = static_cast<int32_t>(out.hops.size());
      for (const Hop& hop : all.hops_of(m)) out.hops.push_back({at(renumbered, hop.link), hop.share});
    }
    return out;
  }

  int32_t add_shape(Shape shape) {
    for (const Member& m : shape.members) shape.end_ps = std::min(shape.end_ps, m.end_ps);
    for (size_t i = 0; i < shape.members.size(); ++i)
      if (shape.members[i].end_ps == shape.end_ps) shape.ending.push_back(static_cast<int32_t>(i));
    int32_t number = static_cast<int32_t>(shapes.size());
    if (free_shapes.empty()) {
      shapes.emplace_back();
    } else {
      number = free_shapes.back();
      free_shapes.pop_back();
    }
    shape.generation = at(shapes, number).generation + 1;
    if (shape.end_ps != INT64_MAX) ends.push({shape.end_ps, number, shape.generation});
    at(shapes, number) = std::move(shape);
    return number;
  }

  // -- what becomes of components
  // ----------------------------------------------------------------------------
  void enter(Component& c, int32_t shape) {
    c.shape = shape;
    c.has_ended = false;
    c.cluster = kNobody;
    at(shapes, shape).components.push_back(static_cast<int32_t>(&c - components.data()));
    ++at(shapes, shape).users;
  }

  void leave(Component& c) {
    Shape& shape = at(shapes, c.shape);
    if (--shape.users == 0) {
      free_shapes.push_back(c.shape);
      shape = Shape{.generation = shape.generation};
    }
    c.shape = kNobody;
  }

  void grow(Component& c, const Joined& cluster, const Part& part) {
    const auto before = static_cast<int32_t>(c.flows.size());
    size_t stay = 0;
    while (stay < part.flows.size() && part.flows[stay] < before) {
      c.flows[stay] = at(c.flows, part.flows[stay]);  // numbers rise
      ++stay;
    }
    c.flows.resize(stay);
    for_starts(cluster, [&](const Start& start) { c.flows.push_back(start.id); });
    const auto number = static_cast<int32_t>(&c - components.data());
    for_new_links(cluster, [&](LinkId link) {
      place(link).component = number;  // and has its number in the cluster
      c.links.push_back(link);
    });
    leave(c);
    enter(c, part.shape);
  }

  void replace(const Joined& cluster, const Outcome& outcome) {
    ids.clear();
    links.clear();
    for_components(cluster, [&](Component& c) {
      ids.insert(ids.end(), c.flows.begin(), c.flows.end());
      links.insert(links.end(), c.links.begin(), c.links.end());
      leave(c);
      free_components.push_back(static_cast<int32_t>(&c - components.data()));
    });
    for_starts(cluster, [&](const Start& start) { ids.push_back(start.id); });
    for_new_links(cluster, [&](LinkId link) { links.push_back(link); });
    for (const LinkId link : links) place(link).component = kNobody;
    for (const Part& part : outcome.parts) {
      const int32_t number = take_component();
      Component& c = at(components, number);
      c.flows.clear();
      c.links.clear();
      for (const int32_t flow : part.flows) c.flows.push_back(at(ids, flow));
      for (const int32_t link : part.links) {
        LinkPlace& p = place(at(links, link));
        p.component = number;
        p.number = static_cast<int32_t>(c.links.size());
        c.links.push_back(at(links, link));
      }
      enter(c, part.shape);
    }
  }

  int32_t take_component() {
    if (free_components.empty()) {
      components.emplace_back();
      return static_cast<int32_t>(components.size()) - 1;
    }
    const int32_t number = free_components.back();
    free_components.pop_back();
    return number;
  }

  // -- time
  // --------------------------------------------------------------------------------------------------
  bool holds(const std::tuple<int64_t, int32_t, uint32_t>& end) {
    const auto& [at_ps, shape, generation] = end;
    return at(shapes, shape).generation == generation && at(shapes, shape).users > 0;
  }

  int64_t next_end() {
    solve();
    if (!at_once.empty()) return now_ps;
    while (!ends.empty() && !holds(ends.top())) ends.pop();
    return ends.empty() ? INT64_MAX : std::get<0>(ends.top());
  }

  void advance(int64_t at_ps) {
    now_ps = at_ps;
    ended.clear();
    ended.swap(at_once);
    for (; !ends.empty() && std::get<0>(ends.top()) <= at_ps; ends.pop()) {
      if (!holds(ends.top())) continue;
      const int32_t number = std::get<1>(ends.top());
      for (const int32_t component : at(shapes, number).components) {
        Component& c = at(components, component);
        if (c.shape != number) continue;
        c.has_ended = true;
        touched.push_back(component);
        for (const int32_t flow : at(shapes, number).ending) ended.push_back(at(c.flows, flow));
      }
    }
    if (!std::is_sorted(ended.begin(), ended.end())) std::sort(ended.begin(), ended.end());
  }

  int64_t carried(LinkId id) {
    solve();
    const LinkPlace& p = place(id);
    Wide sum = p.promised;
    if (p.component >= 0) {
      const Component& c = at(components, p.component);
      const Shape& shape = at(shapes, c.shape);
      for (const Member& m : shape.members)
        for (const Hop& hop : shape.hops_of(m))
          if (hop.link == p.number) {
            const Wide left = std::max<Wide>(0, m.left - Wide{m.rate} * (now_ps - m.since_ps));
            const Wide there = (work_of(m.bytes) - left) / work_of(1);
            sum -= (m.bytes - there) * hop.share * m.multiplicity;
          }
    }
    return static_cast<int64_t>(sum / kWholeShare);
  }

  const Network network;
  int64_t now_ps = 0;
  FlowId flows = 0;
  int64_t flows_solved = 0, flows_spared = 0;
  std::vector<LinkPlace> places;
  std::vector<Component> components;
  std::vector<Shape> shapes;
  std::vector<int32_t> free_components, free_shapes;
  std::priority_queue<std::tuple<int64_t, int32_t, uint32_t>,
                      std::vector<std::tuple<int64_t, int32_t, uint32_t>>, std::greater<>>
      ends;  // when, shape, its generation
  // Since the last solution: what has ended and started.
  std::vector<int32_t> touched;
  std::vector<Start> starts;
  std::vector<Hop> start_hops;
  std::vector<FlowId> at_once, ended;
  // While solving.
  std::vector<Joined> clusters;
  std::vector<NewLink> new_links;
  std::vector<int64_t> key, last_key;
  int32_t last_outcome = 0;
  std::unordered_map<std::vector<int64_t>, int32_t, KeyHash> known;  // key -> outcome
  std::vector<Outcome> outcomes;
  std::vector<FlowId> ids;
  std::vector<LinkId> links;
};

AlikeFlows::AlikeFlows(const Network& network) : state_(std::make_unique<State>(network)) {}
AlikeFlows::~AlikeFlows() = default;

FlowId AlikeFlows::start(int64_t at_ps, const Flow& flow) {
  State& s = *state_;
  go_on_to_start(s, at_ps);
  return s.start(flow);
}

int64_t AlikeFlows::now() const { return state_->now_ps; }
int64_t AlikeFlows::next_end() { return state_->next_end(); }

std::span<const FlowId> AlikeFlows::advance(int64_t at_ps) {
  State& s = *state_;
  expect_advance(s, at_ps);
  s.advance(at_ps);
  return s.ended;
}

int64_t AlikeFlows::carried(LinkId link) const { return state_->carried(link); }
int64_t AlikeFlows::solved() const { return state_->flows_solved; }
int64_t AlikeFlows::spared() const { return state_->flows_spared; }

bool AlikeFlows::pays() const {
  constexpr int64_t kTried = 60'000, kPart = 2;
  return state_->flows_solved < kTried + state_->flows_spared / kPart;
}

}  // namespace opentrn::fabric
