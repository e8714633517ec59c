#include "fabric/packets.h"

#include <algorithm>
#include <queue>

#include "base/fault.h"

namespace opentrn::fabric {

namespace {

constexpr int64_t kPsOfOneSecond = 1'000'000'000'000;

// The packets of one flow that wait for one link of one of its routes.
struct Queue {
  int32_t flow = 0, route = 0, hop = 0;
  int64_t waiting = 0;   // have arrived
  int64_t reserved = 0;  // are on their way here
};

// The queues of one flow at one link: the flow has one turn, whatever its routes.
struct Turn {
  int32_t flow = 0;
  std::vector<int32_t> queues;
  size_t next = 0;
};

struct Port {
  std::vector<Turn> turns;
  size_t next = 0;
  int32_t sending = -1;  // queue
};

struct Source {
  std::vector<int64_t> left;  // packets not yet sent, by route
  std::vector<int64_t> sent;
  int64_t arriving = 0;               // packets that have not arrived
  std::vector<int32_t> first_queues;  // by route
};

struct Event {
  int64_t at_ps;
  int64_t order;
  LinkId link;   // ends a packet; or
  int32_t flow;  // starts, where `link` is -1
  bool operator>(const Event& other) const {
    return at_ps != other.at_ps ? at_ps > other.at_ps : order > other.order;
  }
};

class Simulation {
 public:
  Simulation(const Network& network, std::span<const PacketFlow> flows, const PacketOptions& options)
      : network_(network),
        flows_(flows),
        options_(options),
        ports_(network.links.size()),
        ends_(flows.size()) {
    for (size_t i = 0; i < flows.size(); ++i) add(static_cast<int32_t>(i));
  }

  std::vector<int64_t> run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ps_ = event.at_ps;
      if (event.link < 0)
        begin(event.flow);
      else
        arrive(event.link);
    }
    for (size_t i = 0; i < flows_.size(); ++i)
      OPENTRN_CHECK(sources_[i].arriving == 0, "flow {} has packets that never arrive", i);
    return std::move(ends_);
  }

 private:
  Port& port(LinkId link) { return ports_[static_cast<size_t>(link)]; }
  Queue& queue(int32_t at) { return queues_[static_cast<size_t>(at)]; }
  Source& source(int32_t flow) { return sources_[static_cast<size_t>(flow)]; }
  const Route& route_of(const Queue& q) const {
    return flows_[static_cast<size_t>(q.flow)].routes[static_cast<size_t>(q.route)];
  }
  bool is_last(const Queue& q) const { return q.hop + 1 == static_cast<int32_t>(route_of(q).links.size()); }

  void add(int32_t flow) {
    const PacketFlow& f = flows_[static_cast<size_t>(flow)];
    Source source;
    for (size_t r = 0; r < f.routes.size(); ++r) {
      const int64_t bytes = f.bytes * f.routes[r].share / kWholeShare;
      source.left.push_back((bytes + options_.packet_bytes - 1) / options_.packet_bytes);
      source.sent.push_back(0);
      source.arriving += source.left.back();
      for (size_t hop = 0; hop < f.routes[r].links.size(); ++hop) {
        const int32_t at = static_cast<int32_t>(queues_.size());
        if (hop == 0) source.first_queues.push_back(at);
        queues_.push_back({flow, static_cast<int32_t>(r), static_cast<int32_t>(hop), 0, 0});
        std::vector<Turn>& turns = port(f.routes[r].links[hop]).turns;
        const auto own =
            std::find_if(turns.begin(), turns.end(), [&](const Turn& t) { return t.flow == flow; });
        if (own == turns.end())
          turns.push_back({flow, {at}, 0});
        else
          own->queues.push_back(at);
      }
    }
    sources_.push_back(std::move(source));
    events_.push({f.start_ps, order_++, -1, flow});
  }

  void begin(int32_t flow) {
    for (int32_t at : source(flow).first_queues) {
      Queue& q = queue(at);
      q.waiting = source(flow).left[static_cast<size_t>(q.route)];
    }
    send_from(flow);
    if (source(flow).arriving == 0) ends_[static_cast<size_t>(flow)] = now_ps_;
  }

  void send_from(int32_t flow) {
    for (int32_t at : source(flow).first_queues) send(route_of(queue(at)).links[0]);
  }

  bool may_send(int32_t at) {
    const Queue& q = queue(at);
    if (q.waiting == 0) return false;
    if (q.hop == 0) {
      // Routes keep step: no packet is sent on one while another is more than a packet behind its share.
      const Source& s = source(q.flow);
      const std::vector<Route>& routes = flows_[static_cast<size_t>(q.flow)].routes;
      const size_t own = static_cast<size_t>(q.route);
      for (size_t r = 0; r < routes.size(); ++r)
        if (s.left[r] > 0 && s.sent[own] * routes[r].share > (s.sent[r] + 1) * routes[own].share)
          return false;
    }
    if (is_last(q)) return true;
    const Queue& next = queue(at + 1);
    return next.waiting + next.reserved < options_.room;
  }

  // Sends the next packet whose turn it is, if the link is free.
  void send(LinkId link) {
    Port& p = port(link);
    if (p.sending >= 0) return;
    for (size_t i = 0; i < p.turns.size(); ++i) {
      Turn& turn = p.turns[(p.next + i) % p.turns.size()];
      for (size_t k = 0; k < turn.queues.size(); ++k) {
        const int32_t at = turn.queues[(turn.next + k) % turn.queues.size()];
        if (!may_send(at)) continue;
        p.next = (p.next + i + 1) % p.turns.size();
        turn.next = (turn.next + k + 1) % turn.queues.size();
        start(link, at);
        return;
      }
    }
  }

  void start(LinkId link, int32_t at) {
    Queue& q = queue(at);
    --q.waiting;
    if (q.hop == 0) {
      --source(q.flow).left[static_cast<size_t>(q.route)];
      ++source(q.flow).sent[static_cast<size_t>(q.route)];
    }
    if (!is_last(q)) ++queue(at + 1).reserved;
    port(link).sending = at;
    const int64_t rate = network_.links[static_cast<size_t>(link)].bytes_per_s;
    OPENTRN_CHECK(rate > 0, "a packet for link {}, which is down", link);
    const auto ps = static_cast<int64_t>(static_cast<long double>(options_.packet_bytes) * kPsOfOneSecond /
                                         static_cast<long double>(rate));
    events_.push({now_ps_ + ps, order_++, link, -1});
    // The room that it leaves lets the link before send.
    if (q.hop > 0)
      send(route_of(q).links[static_cast<size_t>(q.hop - 1)]);
    else
      send_from(q.flow);
  }

  void arrive(LinkId link) {
    const int32_t at = port(link).sending;
    port(link).sending = -1;
    const Queue q = queue(at);
    if (is_last(q)) {
      if (--source(q.flow).arriving == 0) ends_[static_cast<size_t>(q.flow)] = now_ps_;
    } else {
      Queue& next = queue(at + 1);
      --next.reserved;
      ++next.waiting;
      send(route_of(q).links[static_cast<size_t>(q.hop + 1)]);
    }
    send(link);
  }

  const Network& network_;
  std::span<const PacketFlow> flows_;
  PacketOptions options_;
  std::vector<Port> ports_;
  std::vector<Queue> queues_;  // of a route in the order of its hops
  std::vector<Source> sources_;
  std::vector<int64_t> ends_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t now_ps_ = 0, order_ = 0;
};

}  // namespace

std::vector<int64_t> packet_ends_ps(const Network& network, std::span<const PacketFlow> flows,
                                    const PacketOptions& options) {
  return Simulation(network, flows, options).run();
}

}  // namespace opentrn::fabric
