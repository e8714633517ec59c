#include "fabric/flows.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "base/fault.h"
#include "base/interrupt.h"
#include "fabric/flow_work.h"

namespace opentrn::fabric {

namespace {

constexpr int64_t kRateMax = kBytesPerSecondMax << kRateBits;
constexpr int32_t kNone = -1;
constexpr int64_t kNew = INT64_MAX;   // the level of a flow that has had no rate yet
constexpr int64_t kOpen = INT64_MAX;  // the level of a link that holds nobody back

// A hop of a running flow.
struct HopEntry {
  LinkId link = 0;
  int32_t at = 0;    // in the list of its link
  int64_t load = 0;  // share times multiplicity: what the link carries per unit of the flow's rate
};

struct Running {
  FlowId id = kNone;
  int32_t first_hop = 0, hops = 0;
  int32_t weight = 1;
  int64_t limit = kRateMax;
  int64_t bound = 0;  // what its links and its limit allow it at most
  int64_t rate = 0;
  int64_t bytes = 0;
  Wide left = 0;  // at `since_ps`
  int64_t since_ps = 0, end_ps = INT64_MAX;
  int64_t rate_before = 0, level_before = kNew;  // this solution
  bool frozen = false;
};

// What is looked at for each flow on a link, again and again: close together, apart from the rest of it.
struct Mark {
  int64_t level = kNew;  // at which it stopped growing, per unit of its weight
  int32_t priority = 0;
  uint32_t seen = 0;
};

struct OnLink {
  int32_t flow = 0, hop = 0;
};

// Of a link; as Mark, apart from the rest.
struct LinkMark {
  uint32_t seen = 0;
  bool can_be_full = false;  // when it was last looked at
};
struct LinkSums {
  Wide used = 0;  // now: rate times load
  // While solving:
  Wide free = 0;    // capacity in rate times load
  Wide wanted = 0;  // loads by weight of the flows that still grow
};

struct LinkState {
  int64_t capacity = 0;  // rate units
  std::vector<OnLink> on;
  uint32_t asked = 0;
  bool changed = false, freed = false;  // since the last solution
  // At which all flows that this link holds back have stopped, where priorities are all the same.
  int64_t level = kOpen, next_level = kOpen;
  Wide bounds = 0;   // of its flows, by load: whether it can be full
  Wide carried = 0;  // bytes times load, of flows that have ended
};

struct End {
  int64_t at_ps;
  FlowId id;
  bool operator>(const End& other) const {
    return at_ps != other.at_ps ? at_ps > other.at_ps : id > other.id;
  }
};

struct Level {
  int64_t level;
  int32_t of;  // link or slot
};
constexpr auto kHigher = [](const Level& a, const Level& b) {
  return a.level != b.level ? a.level > b.level : a.of > b.of;
};

}  // namespace

struct Flows::State {
  explicit State(const Network& network)
      : links(network.links.size()), link_marks(links.size()), link_sums(links.size()) {
    for (size_t i = 0; i < links.size(); ++i) {
      check_rate(network.links[i].bytes_per_s);
      links[i].capacity = network.links[i].bytes_per_s << kRateBits;
    }
  }

  static void check_rate(int64_t bytes_per_s) {
    OPENTRN_CHECK(bytes_per_s >= 0 && bytes_per_s <= kBytesPerSecondMax, "a link of {} bytes per second",
                  bytes_per_s);
  }

  LinkState& link(LinkId id) { return links[static_cast<size_t>(id)]; }
  LinkMark& link_mark(LinkId id) { return link_marks[static_cast<size_t>(id)]; }
  LinkSums& sums(LinkId id) { return link_sums[static_cast<size_t>(id)]; }
  Running& flow(int32_t slot) { return flows[static_cast<size_t>(slot)]; }
  Mark& mark(int32_t slot) { return marks[static_cast<size_t>(slot)]; }
  HopEntry& hop(int32_t at) { return hops[static_cast<size_t>(at)]; }
  std::span<HopEntry> hops_of(const Running& f) {
    return {hops.data() + f.first_hop, static_cast<size_t>(f.hops)};
  }

  // -- flows and links ---------------------------------------------------------------------------------
  int32_t hop_block(size_t count) {
    if (count < free_blocks.size() && !free_blocks[count].empty()) {
      const int32_t first = free_blocks[count].back();
      free_blocks[count].pop_back();
      return first;
    }
    const size_t first = hops.size();
    hops.resize(first + count);
    return static_cast<int32_t>(first);
  }

  int64_t bound_of(const Running& f) {
    int64_t bound = f.limit;
    for (const HopEntry& h : hops_of(f)) {
      const Wide alone = Wide{link(h.link).capacity} * kWholeShare / h.load;
      if (alone < bound) bound = static_cast<int64_t>(alone);
    }
    return bound;
  }

  // A unit of its weight above the bound: with that to spare, a link is never among those with the lowest
  // level, not even by rounding, so that leaving it out changes nothing.
  void count_bound(const Running& f, int sign) {
    for (const HopEntry& h : hops_of(f)) {
      link(h.link).bounds += sign * (Wide{f.bound} + f.weight) * h.load;
      change(h.link);
    }
  }

  void change(LinkId id) {
    if (link(id).changed) return;
    link(id).changed = true;
    changed_links.push_back(id);
  }

  void attach(int32_t slot, const Flow& from) {
    interrupt::poll();
    Running& f = flow(slot);
    f.hops = static_cast<int32_t>(from.hops.size());
    f.first_hop = hop_block(from.hops.size());
    for (int32_t i = 0; i < f.hops; ++i) {
      const Hop& wanted = from.hops[static_cast<size_t>(i)];
      OPENTRN_CHECK(wanted.share > 0, "a hop with a share of {}", wanted.share);
      HopEntry& h = hop(f.first_hop + i);
      LinkState& l = link(wanted.link);
      h = {wanted.link, static_cast<int32_t>(l.on.size()), int64_t{wanted.share} * from.multiplicity};
      l.on.push_back({slot, f.first_hop + i});
    }
    f.bound = bound_of(f);
    count_bound(f, +1);
    new_flows.push_back(f.id);
    const int priority = mark(slot).priority;
    if (only_priority == kNoPriority) only_priority = priority;
    has_one_class &= priority == only_priority;
  }

  void detach(int32_t slot) {
    Running& f = flow(slot);
    ++ended_since;
    count_bound(f, -1);
    lower_threshold(mark(slot).priority, mark(slot).level);
    for (int32_t i = f.first_hop; i < f.first_hop + f.hops; ++i) {
      const HopEntry& h = hop(i);
      LinkState& l = link(h.link);
      l.freed = true;
      l.carried += Wide{f.bytes} * h.load;
      sums(h.link).used -= Wide{f.rate} * h.load;
      const OnLink last = l.on.back();
      l.on[static_cast<size_t>(h.at)] = last;
      hop(last.hop).at = h.at;
      l.on.pop_back();
    }
    const size_t count = static_cast<size_t>(f.hops);
    if (count > 0) {
      if (free_blocks.size() <= count) free_blocks.resize(count + 1);
      free_blocks[count].push_back(f.first_hop);
    }
    slot_of[static_cast<size_t>(f.id)] = kNone;
    f = Running{};
    mark(slot) = {kNew, 0, 0};
    free_slots.push_back(slot);
  }

  FlowId start(const Flow& from) {
    OPENTRN_CHECK(from.multiplicity > 0 && from.weight > 0 && from.bytes >= 0,
                  "a flow of {} bytes, multiplicity {}, weight {}", from.bytes, from.multiplicity,
                  from.weight);
    const FlowId id = static_cast<FlowId>(slot_of.size());
    int32_t slot = kNone;
    if (free_slots.empty()) {
      slot = static_cast<int32_t>(flows.size());
      flows.emplace_back();
      marks.emplace_back();
    } else {
      slot = free_slots.back();
      free_slots.pop_back();
    }
    slot_of.push_back(slot);
    Running& f = flow(slot);
    f.id = id;
    f.weight = from.weight;
    mark(slot) = {kNew, from.priority, 0};
    f.limit = from.bytes_per_s_max >= kBytesPerSecondMax ? kRateMax : from.bytes_per_s_max << kRateBits;
    f.bytes = from.bytes;
    f.left = work_of(from.bytes);
    f.since_ps = now_ps;
    // What needs no time takes nothing from others.
    if (from.bytes == 0 || (from.hops.empty() && from.bytes_per_s_max == kNoLimit)) {
      f.end_ps = now_ps;
      ends.push({now_ps, id});
      return id;
    }
    attach(slot, from);
    return id;
  }

  // -- the part that changes -----------------------------------------------------------------------------
  // All flows of a class grow alike until a link of theirs is full. What stops at a level below that at which
  // a change can first be felt stops there with or without it: where an ended flow had stopped, or where a
  // link of a new one can first be full. Below that threshold flows keep their rates.
  void lower_threshold(int priority, int64_t level) {
    if (std::pair(priority, level) < threshold) threshold = {priority, level};
  }
  bool keeps_rate(const Mark& m) const {
    return m.level != kNew && std::pair(m.priority, m.level) < threshold;
  }

  // No level at which the link is full is below this, if all new flows of the class are on it: those that
  // would stop before count with their rates. Each round counts more of them so.
  int64_t least_level(LinkId id, int priority) {
    constexpr int kRounds = 6;
    const LinkState& l = link(id);
    int64_t level = 0;
    for (int i = 0; i < kRounds; ++i) {
      Wide free = Wide{l.capacity} * kWholeShare, growing = 0;
      for (const OnLink& on : l.on) {
        const Mark& m = mark(on.flow);
        if (m.priority > priority) continue;
        if (m.level != kNew && (m.priority < priority || m.level < level))
          free -= Wide{flow(on.flow).rate} * hop(on.hop).load;
        else
          growing += Wide{flow(on.flow).weight} * hop(on.hop).load;
      }
      const Wide next = growing > 0 ? free / growing : Wide{kRateMax};
      if (next <= level) break;
      level = next > kRateMax ? kRateMax : static_cast<int64_t>(next);
    }
    return level;
  }

  void find_threshold() {
    int first = INT32_MAX, last = INT32_MIN;
    for (FlowId id : new_flows)
      if (const int32_t slot = slot_of[static_cast<size_t>(id)]; slot != kNone) {
        first = std::min(first, mark(slot).priority);
        last = std::max(last, mark(slot).priority);
      }
    if (first == INT32_MAX) return;
    if (first != last || is_much(new_flows.size())) return lower_threshold(first, 0);
    for (FlowId id : new_flows) {
      const int32_t slot = slot_of[static_cast<size_t>(id)];
      if (slot == kNone) continue;
      for (const HopEntry& h : hops_of(flow(slot))) {
        LinkState& l = link(h.link);
        if (!link_mark(h.link).can_be_full || l.asked == round) continue;
        l.asked = round;
        lower_threshold(first, least_level(h.link, first));
      }
    }
  }

  void take_flow(int32_t slot) {
    interrupt::poll();
    Mark& m = mark(slot);
    if (m.seen == round || keeps_rate(m)) return;
    m.seen = round;
    part_flows.push_back(slot);
    for (const HopEntry& h : hops_of(flow(slot))) take_link(h.link);
  }

  void take_link(LinkId id) {
    LinkMark& m = link_mark(id);
    if (!m.can_be_full || m.seen == round) return;
    m.seen = round;
    part_links.push_back(id);
  }

  void take_flows_on(LinkId id) {
    for (const OnLink& on : link(id).on) take_flow(on.flow);
  }

  void look_at_changes() {
    ++round;
    relieved.clear();
    for (LinkId id : changed_links) {
      LinkState& l = link(id);
      const bool before = link_mark(id).can_be_full, now = l.bounds > Wide{l.capacity} * kWholeShare;
      link_mark(id).can_be_full = now;
      l.changed = l.freed = false;
      if (!now) l.level = kOpen;
      if (before && !now) relieved.push_back(id);
    }
    find_threshold();
  }

  // Parts that share no link are solved one after the other: what is looked at again and again stays small.
  void solve_parts() {
    const auto solve_from = [&](auto take) {
      part_flows.clear();
      part_links.clear();
      take();
      // part_links grows while it is walked.
      for (size_t i = 0; i < part_links.size(); ++i) take_flows_on(part_links[i]);
      if (part_flows.empty() && part_links.empty()) return;
      flows_solved += static_cast<int64_t>(part_flows.size());
      solve_part();
      if (has_one_class)
        for (LinkId id : part_links) link(id).level = full_at(id);
    };
    for (LinkId id : changed_links) solve_from([&] { take_link(id); });
    for (LinkId id : relieved)
      for (const OnLink& on : link(id).on) solve_from([&] { take_flow(on.flow); });
    for (FlowId id : new_flows)
      if (const int32_t slot = slot_of[static_cast<size_t>(id)]; slot != kNone)
        solve_from([&] { take_flow(slot); });
    changed_links.clear();
    new_flows.clear();
    threshold = kNoThreshold;
  }

  // -- the part that changes, where priorities are all the same --------------------------------------------
  // An allocation is max-min fair when every flow is at its limit, or on a full link on which none has a
  // higher level. So the flows on changed links are solved first, with the rates of all others as they are.
  // Then those others are taken in that have a higher level than a link was full at, and those that a link
  // held back that is full no longer, or later; until there are none. Levels are the same quotients as in a
  // solution of all. False, with nothing changed, where that would become much of what is under way.
  bool solve_locally() {
    ++round;
    is_local = true;
    part_flows.clear();
    part_links.clear();
    checked.clear();
    could_be_full.clear();
    for (LinkId id : changed_links) {
      LinkState& l = link(id);
      could_be_full.push_back(link_mark(id).can_be_full);
      link_mark(id).can_be_full = l.bounds > Wide{l.capacity} * kWholeShare;
      if (l.level == kOpen) continue;
      include_held_by(l);
      if (l.freed) check_later(id);
    }
    for (FlowId id : new_flows)
      if (const int32_t slot = slot_of[static_cast<size_t>(id)]; slot != kNone) include(slot);
    solving_priority = only_priority;
    size_t solved_part = 0;
    for (int turn = 0; turn == 0 || solved_part < part_flows.size(); ++turn) {
      interrupt::poll();
      if (turn == kTurnsMax || is_much(part_flows.size())) return undo();
      if (solved_part < part_flows.size()) solve_part_of_one_class();
      solved_part = part_flows.size();
      check_links();
    }
    for (LinkId id : checked) link(id).level = link(id).next_level;
    for (LinkId id : changed_links) link(id).changed = link(id).freed = false;
    for (int32_t slot : part_flows) settle(flow(slot));
    changed_links.clear();
    new_flows.clear();
    threshold = kNoThreshold;
    is_local = false;
    return true;
  }

  static constexpr int kTurnsMax = 6;
  bool is_much(size_t part) const {
    constexpr size_t kFew = 24, kPart = 4;
    return part > kFew && part * kPart > flows.size() - free_slots.size();
  }

  bool undo() {
    for (int32_t slot : part_flows) {
      Running& f = flow(slot);
      f.rate = f.rate_before;
      mark(slot).level = f.level_before;
    }
    for (size_t i = 0; i < changed_links.size(); ++i)
      link_mark(changed_links[i]).can_be_full = could_be_full[i];
    is_local = false;
    return false;
  }

  void solve_part_of_one_class() {
    flows_solved += static_cast<int64_t>(part_flows.size());
    begin_part();
    solve_class(only_priority);
    for (int32_t slot : part_flows) flow(slot).frozen = false;
  }

  void include(int32_t slot) {
    Mark& m = mark(slot);
    if (m.seen == round) return;
    m.seen = round;
    part_flows.push_back(slot);
    Running& f = flow(slot);
    f.rate_before = f.rate;
    f.level_before = m.level;
    f.left -= Wide{f.rate} * (now_ps - f.since_ps);
    f.since_ps = now_ps;
    for (const HopEntry& h : hops_of(f)) take_link(h.link);
  }
  void include_held_by(const LinkState& l) {
    for (const OnLink& on : l.on)
      if (mark(on.flow).level == l.level) include(on.flow);
  }

  void check_later(LinkId id) {
    if (link(id).asked == round) return;
    link(id).asked = round;
    checked.push_back(id);
  }

  void check_links() {
    for (int32_t slot : part_flows)
      if (mark(slot).level != flow(slot).level_before)
        for (const HopEntry& h : hops_of(flow(slot)))
          if (link_mark(h.link).can_be_full) check_later(h.link);
    for (LinkId id : checked) {
      LinkState& l = link(id);
      l.next_level = full_at(id);
      if (l.next_level > l.level) include_held_by(l);  // they may have more now
    }
    for (int32_t slot : too_fast) include(slot);
    too_fast.clear();
  }

  // The level of those with the highest one, if they fill the link.
  int64_t full_at(LinkId id) {
    LinkState& l = link(id);
    if (!link_mark(id).can_be_full) return kOpen;
    int64_t top = -1;
    Wide used = 0, growing = 0;  // of those with the highest level
    for (const OnLink& on : l.on) {
      const int64_t level = mark(on.flow).level;
      if (level < top) continue;
      if (level > top) top = level, used = 0, growing = 0;
      used += Wide{flow(on.flow).rate} * hop(on.hop).load;
      growing += Wide{flow(on.flow).weight} * hop(on.hop).load;
    }
    if (top < 0) return kOpen;
    const Wide free =
        link_mark(id).seen == round ? sums(id).free : Wide{l.capacity} * kWholeShare - sums(id).used;
    return free + used < (Wide{top} + 1) * growing ? top : kOpen;
  }

  void settle(Running& f) {
    if (f.rate == f.rate_before) return;
    for (const HopEntry& h : hops_of(f)) sums(h.link).used += Wide{f.rate - f.rate_before} * h.load;
    f.end_ps = end_of(f);
    if (f.end_ps != INT64_MAX) ends.push({f.end_ps, f.id});
  }

  // -- solving it ------------------------------------------------------------------------------------------
  // The rate per unit of weight at which the link is full if all that still grows on it grows alike.
  int64_t level_of(const LinkSums& l) const {
    // Below nothing where flows that keep their rates until they are looked at have more than is left.
    const Wide level = l.free < 0 ? Wide{0} : l.free / l.wanted;
    return level > kRateMax ? kRateMax : static_cast<int64_t>(level);
  }

  // What the flows of the part may have of its links, and want where they are all of one class. While a part
  // is solved locally, what links carry is that of before.
  void begin_part() {
    for (LinkId id : part_links) {
      LinkSums& l = sums(id);
      l.free = Wide{link(id).capacity} * kWholeShare - l.used;
      l.wanted = 0;
    }
    for (int32_t slot : part_flows) {
      const Running& f = flow(slot);
      const Wide rate = is_local ? f.rate_before : f.rate, weight = f.weight;
      for (const HopEntry& h : hops_of(f)) {
        if (link_mark(h.link).seen != round) continue;
        LinkSums& l = sums(h.link);
        l.free += rate * h.load;
        l.wanted += weight * h.load;
      }
    }
  }

  void solve_part() {
    begin_part();
    classes.clear();
    for (int32_t slot : part_flows) classes.push_back(mark(slot).priority);
    std::sort(classes.begin(), classes.end());
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    for (int priority : classes) {
      solving_priority = priority;
      if (classes.size() > 1) count_wanted(priority);
      solve_class(priority);
    }
    for (int32_t slot : part_flows) flow(slot).frozen = false;
  }

  void count_wanted(int priority) {
    for (LinkId id : part_links) sums(id).wanted = 0;
    for (int32_t slot : part_flows)
      if (mark(slot).priority == priority)
        for (const HopEntry& h : hops_of(flow(slot)))
          if (link_mark(h.link).seen == round) sums(h.link).wanted += Wide{flow(slot).weight} * h.load;
  }

  void solve_class(int priority) {
    interrupt::poll();
    limits.clear();
    size_t growing = 0;
    for (int32_t slot : part_flows) {
      const Running& f = flow(slot);
      if (mark(slot).priority != priority) continue;
      ++growing;
      if (f.bound == f.limit) limits.push_back({f.limit / f.weight, slot});
    }
    std::sort(limits.begin(), limits.end(), [](const Level& a, const Level& b) { return kHigher(b, a); });
    levels.clear();
    for (LinkId id : part_links)
      if (sums(id).wanted > 0) levels.push_back({level_of(sums(id)), id});
    std::make_heap(levels.begin(), levels.end(), kHigher);
    size_t next_limit = 0;
    while (growing > 0) {
      interrupt::poll();
      while (next_limit < limits.size() && flow(limits[next_limit].of).frozen) ++next_limit;
      refresh_top();
      int64_t level = INT64_MAX;
      if (!levels.empty()) level = levels.front().level;
      if (next_limit < limits.size()) level = std::min(level, limits[next_limit].level);
      OPENTRN_CHECK(level != INT64_MAX, "{} flows have neither a full link nor a limit", growing);
      growing -= freeze_at(level, next_limit);
    }
  }

  // Levels only rise as others freeze, so what is on top is looked at again until it is what it says.
  void refresh_top() {
    while (!levels.empty()) {
      const Level top = levels.front();
      const LinkSums& l = sums(top.of);
      if (l.wanted > 0 && level_of(l) == top.level) return;
      std::pop_heap(levels.begin(), levels.end(), kHigher);
      if (l.wanted > 0) {
        levels.back().level = level_of(l);
        std::push_heap(levels.begin(), levels.end(), kHigher);
      } else {
        levels.pop_back();
      }
    }
  }

  // Freezes all that ends at this level at once, before any link is updated: with one link after the other,
  // what rounding leaves over would go to whichever comes last.
  size_t freeze_at(int64_t level, size_t& next_limit) {
    frozen_now.clear();
    const auto freeze = [&](int32_t slot) {
      Running& f = flow(slot);
      if (f.frozen) return;
      f.frozen = true;
      frozen_now.push_back(slot);
    };
    for (refresh_top(); !levels.empty() && levels.front().level == level; refresh_top()) {
      const LinkId id = levels.front().of;
      std::pop_heap(levels.begin(), levels.end(), kHigher);
      levels.pop_back();
      for (const OnLink& on : link(id).on) {
        const Mark& m = mark(on.flow);
        if (m.seen == round) {
          if (m.priority == solving_priority) freeze(on.flow);
        } else if (is_local && m.level > level) {
          too_fast.push_back(on.flow);
        }
      }
    }
    for (; next_limit < limits.size() && limits[next_limit].level == level; ++next_limit)
      freeze(limits[next_limit].of);
    for (int32_t slot : frozen_now) {
      interrupt::poll();
      Running& f = flow(slot);
      const int64_t rate = static_cast<int64_t>(std::min(Wide{level} * f.weight, Wide{f.bound}));
      if (is_local)
        f.rate = rate;  // settle() does the rest
      else
        set_flow_rate(f, rate);
      mark(slot).level = level;
      for (const HopEntry& h : hops_of(f)) {
        if (link_mark(h.link).seen != round) continue;
        LinkSums& l = sums(h.link);
        l.free -= Wide{rate} * h.load;
        l.wanted -= Wide{f.weight} * h.load;
      }
    }
    return frozen_now.size();
  }

  void set_flow_rate(Running& f, int64_t rate) {
    if (f.rate == rate) return;
    for (const HopEntry& h : hops_of(f)) sums(h.link).used += Wide{rate - f.rate} * h.load;
    f.left -= Wide{f.rate} * (now_ps - f.since_ps);
    f.since_ps = now_ps;
    f.rate = rate;
    f.end_ps = end_of(f);
    if (f.end_ps != INT64_MAX) ends.push({f.end_ps, f.id});
  }

  static int64_t end_of(const Running& f) { return end_of_work(f.left, f.rate, f.since_ps); }

  void solve() {
    if (changed_links.empty() && new_flows.empty()) return;
    const size_t changes = new_flows.size() + std::exchange(ended_since, 0);
    if (has_one_class && changes < 2048 && !is_much(changes) && solve_locally()) return;
    look_at_changes();
    solve_parts();
  }

  int64_t next_end() {
    solve();
    while (!ends.empty()) {
      const End& top = ends.top();
      const int32_t slot = slot_of[static_cast<size_t>(top.id)];
      if (slot != kNone && flow(slot).end_ps == top.at_ps) return top.at_ps;
      ends.pop();
    }
    return INT64_MAX;
  }

  int64_t now_ps = 0;
  int64_t flows_solved = 0;
  int solving_priority = 0;
  std::vector<LinkState> links;
  std::vector<LinkMark> link_marks;  // as links
  std::vector<LinkSums> link_sums;
  std::vector<Running> flows;
  std::vector<Mark> marks;  // by slot, as flows
  std::vector<HopEntry> hops;
  std::vector<std::vector<int32_t>> free_blocks;  // by size
  std::vector<int32_t> free_slots;
  std::vector<int32_t> slot_of;  // by FlowId
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;

  static constexpr std::pair<int, int64_t> kNoThreshold{INT32_MAX, INT64_MAX};
  std::pair<int, int64_t> threshold = kNoThreshold;  // priority, level
  std::vector<LinkId> changed_links;
  std::vector<FlowId> new_flows;
  size_t ended_since = 0;  // the last solution
  uint32_t round = 0;
  static constexpr int kNoPriority = INT32_MIN;
  int only_priority = kNoPriority;  // of all flows until now
  bool has_one_class = true;        // and links have had one rate
  bool is_local = false;            // solve_locally() is at work
  std::vector<LinkId> checked;
  std::vector<bool> could_be_full;  // of the changed links
  std::vector<int32_t> too_fast;    // have a higher level than a link of theirs allows
  std::vector<int32_t> part_flows;
  std::vector<LinkId> part_links, relieved;
  std::vector<int> classes;
  std::vector<Level> levels, limits;
  std::vector<int32_t> frozen_now;
  std::vector<FlowId> ended;
};

Flows::Flows(const Network& network) : state_(std::make_unique<State>(network)) {}
Flows::Flows(const Flows& other) : state_(std::make_unique<State>(*other.state_)) {}
Flows::~Flows() = default;

FlowId Flows::start(int64_t at_ps, Flow flow) {
  State& s = *state_;
  go_on_to_start(s, at_ps);
  return s.start(flow);
}

int64_t Flows::now() const { return state_->now_ps; }
int64_t Flows::next_end() { return state_->next_end(); }
int64_t Flows::solved() const { return state_->flows_solved; }

std::span<const FlowId> Flows::advance(int64_t at_ps) {
  State& s = *state_;
  expect_advance(s, at_ps);
  s.now_ps = at_ps;
  s.ended.clear();
  while (!s.ends.empty() && s.ends.top().at_ps <= at_ps) {
    const End end = s.ends.top();
    s.ends.pop();
    const int32_t slot = s.slot_of[static_cast<size_t>(end.id)];
    if (slot == kNone || s.flow(slot).end_ps != end.at_ps) continue;
    s.detach(slot);
    s.ended.push_back(end.id);
  }
  return s.ended;
}

int64_t Flows::rate_units(FlowId id) {
  State& s = *state_;
  s.solve();
  const int32_t slot = s.slot_of.at(static_cast<size_t>(id));
  return slot == kNone ? 0 : s.flow(slot).rate;
}

int64_t Flows::rate(FlowId id) { return rate_units(id) >> kRateBits; }

double Flows::exact_rate(FlowId id) { return std::ldexp(static_cast<double>(rate_units(id)), -kRateBits); }

void Flows::set_rate(LinkId id, int64_t bytes_per_s) {
  State& s = *state_;
  State::check_rate(bytes_per_s);
  LinkState& l = s.link(id);
  const int64_t capacity = bytes_per_s << kRateBits;
  if (capacity == l.capacity) return;
  s.solve();
  s.has_one_class = false;
  for (const OnLink& on : l.on) s.count_bound(s.flow(on.flow), -1);
  l.capacity = capacity;
  s.lower_threshold(INT32_MIN, 0);
  for (const OnLink& on : l.on) {
    Running& f = s.flow(on.flow);
    f.bound = s.bound_of(f);
    s.count_bound(f, +1);
    s.new_flows.push_back(f.id);
  }
}

int64_t Flows::carried(LinkId id) const {
  State& s = *state_;
  const LinkState& l = s.link(id);
  Wide sum = l.carried;
  for (const OnLink& on : l.on) {
    const HopEntry& h = s.hop(on.hop);
    const Running& f = s.flow(on.flow);
    const Wide left = std::max<Wide>(0, f.left - Wide{f.rate} * (s.now_ps - f.since_ps));
    sum += (work_of(f.bytes) - left) / work_of(1) * h.load;
  }
  return static_cast<int64_t>(sum / kWholeShare);
}

}  // namespace opentrn::fabric
