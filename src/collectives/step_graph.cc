#include "collectives/step_graph.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/interrupt.h"

namespace opentrn::collectives {

// Edges while they are found: (node, predecessor).
struct StepGraph::Links {
  std::vector<std::pair<Node, Node>> edges;
  // Of each (plan, rank), the first and last node of each channel.
  struct Ends {
    Node first = kNone, last = kNone;
  };
  std::vector<std::vector<std::unordered_map<int, Ends>>> ends;
};

StepGraph::StepGraph(std::span<const Placed> plans, std::span<const std::vector<int>> issue_order) {
  number(plans);
  link(plans, issue_order);
  sort();
  const auto nodes = level_.size();
  visited_.assign(nodes, 0);
}

void StepGraph::number(std::span<const Placed> plans) {
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    first_.emplace_back();
    for (size_t rank = 0; rank < plans[plan].plan->steps.size(); ++rank) {
      interrupt::poll();
      first_.back().push_back(steps_);
      runs_.push_back({static_cast<int>(plan), {static_cast<int32_t>(rank), 0}});
      run_begin_.push_back(steps_);
      steps_ += static_cast<Node>(plans[plan].plan->steps[rank].size());
    }
  }
}

StepGraph::Place StepGraph::place_of(Node node) const {
  const auto run = static_cast<size_t>(std::ranges::upper_bound(run_begin_, node) - run_begin_.begin()) - 1;
  Place place = runs_[run];
  place.step.step = node - run_begin_[run];
  return place;
}

void StepGraph::link(std::span<const Placed> plans, std::span<const std::vector<int>> issue_order) {
  Links links;
  Node nodes = steps_;
  std::vector<Node> handshakes;
  for (const Placed& placed : plans) handshakes.push_back(placed.handshake ? nodes++ : kNone);
  chain_.assign(static_cast<size_t>(nodes), 0);
  position_.assign(static_cast<size_t>(nodes), 0);

  // Within plans: waits, and the order on each channel.
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    const Plan& one = *plans[plan].plan;
    links.ends.emplace_back(one.steps.size());
    for (size_t rank = 0; rank < one.steps.size(); ++rank)
      for (size_t i = 0; i < one.steps[rank].size(); ++i) {
        const Step& step = one.steps[rank][i];
        const Node node = first_[plan][rank] + static_cast<Node>(i);
        for (const StepRef& wait : one.waits(static_cast<int>(rank), step))
          links.edges.emplace_back(node, node_of(static_cast<int>(plan), wait));
        auto& ends = links.ends[plan][rank][step.channel];
        if (ends.first == kNone) {
          ends.first = node;
          if (handshakes[plan] != kNone) links.edges.emplace_back(node, handshakes[plan]);
        } else {
          links.edges.emplace_back(node, ends.last);
        }
        ends.last = node;
      }
  }

  // Across plans: channels of a global rank go on, and handshakes wait for what was before.
  std::vector<std::map<int, int>> rank_in_plan(plans.size());
  for (size_t plan = 0; plan < plans.size(); ++plan)
    for (size_t rank = 0; rank < plans[plan].ranks.size(); ++rank)
      rank_in_plan[plan][plans[plan].ranks[rank]] = static_cast<int>(rank);
  for (size_t global = 0; global < issue_order.size(); ++global) {
    std::map<int, Node> tails;
    for (const int plan : issue_order[global]) {
      const auto p = static_cast<size_t>(plan);
      const auto rank = static_cast<size_t>(rank_in_plan[p].at(static_cast<int>(global)));
      if (handshakes[p] != kNone)
        for (const auto& [channel, tail] : tails) links.edges.emplace_back(handshakes[p], tail);
      for (const auto& [channel, ends] : links.ends[p][rank]) {
        const auto tail = tails.find(channel);
        if (tail != tails.end()) links.edges.emplace_back(ends.first, tail->second);
        tails[channel] = ends.last;
      }
    }
  }

  // A chain for each channel of each (plan, rank), with positions along it.
  int32_t chains = 0;
  for (size_t plan = 0; plan < plans.size(); ++plan)
    for (size_t rank = 0; rank < plans[plan].plan->steps.size(); ++rank) {
      std::unordered_map<int, std::pair<int32_t, int32_t>> seen;  // channel -> chain, next position
      const auto& steps = plans[plan].plan->steps[rank];
      for (size_t i = 0; i < steps.size(); ++i) {
        const auto [entry, is_new] = seen.try_emplace(steps[i].channel, chains, 0);
        if (is_new) ++chains;
        const auto node = static_cast<size_t>(first_[plan][rank]) + i;
        chain_[node] = entry->second.first;
        position_[node] = entry->second.second++;
      }
    }
  for (const Node handshake : handshakes)
    if (handshake != kNone) chain_[static_cast<size_t>(handshake)] = chains++;
  reached_epoch_.assign(static_cast<size_t>(chains), 0);
  reached_.assign(static_cast<size_t>(chains), -1);

  begin_.assign(static_cast<size_t>(nodes) + 1, 0);
  for (const auto& [node, before] : links.edges) ++begin_[static_cast<size_t>(node) + 1];
  for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  std::vector<int64_t> next(begin_.begin(), begin_.end() - 1);
  edges_.resize(links.edges.size());
  for (const auto& [node, before] : links.edges)
    edges_[static_cast<size_t>(next[static_cast<size_t>(node)]++)] = before;
  level_.assign(static_cast<size_t>(nodes), 0);
}

void StepGraph::sort() {
  const size_t nodes = level_.size();
  std::vector<int64_t> after_begin(nodes + 1, 0);
  for (const Node before : edges_) ++after_begin[static_cast<size_t>(before) + 1];
  for (size_t i = 1; i <= nodes; ++i) after_begin[i] += after_begin[i - 1];
  std::vector<Node> after(edges_.size());
  std::vector<int32_t> missing(nodes);
  std::vector<int64_t> next(after_begin.begin(), after_begin.end() - 1);
  for (size_t node = 0; node < nodes; ++node) {
    missing[node] = static_cast<int32_t>(begin_[node + 1] - begin_[node]);
    for (const Node before : predecessors(static_cast<Node>(node)))
      after[static_cast<size_t>(next[static_cast<size_t>(before)]++)] = static_cast<Node>(node);
    if (missing[node] == 0) order_.push_back(static_cast<Node>(node));
  }
  for (size_t i = 0; i < order_.size(); ++i) {
    interrupt::poll();
    const auto node = static_cast<size_t>(order_[i]);
    for (int64_t edge = after_begin[node]; edge < after_begin[node + 1]; ++edge) {
      const auto later = static_cast<size_t>(after[static_cast<size_t>(edge)]);
      level_[later] = std::max(level_[later], level_[node] + 1);
      if (--missing[later] == 0) order_.push_back(static_cast<Node>(later));
    }
  }
}

std::vector<StepGraph::Node> StepGraph::circle() const {
  std::vector<bool> ends(level_.size(), false);
  for (const Node node : order_) ends[static_cast<size_t>(node)] = true;
  Node node = 0;
  while (ends[static_cast<size_t>(node)]) ++node;
  // A node that never starts waits for another one that never ends: going back comes around.
  std::vector<int32_t> seen(level_.size(), -1);
  std::vector<Node> way;
  while (seen[static_cast<size_t>(node)] < 0) {
    seen[static_cast<size_t>(node)] = static_cast<int32_t>(way.size());
    way.push_back(node);
    for (const Node before : predecessors(node))
      if (!ends[static_cast<size_t>(before)]) {
        node = before;
        break;
      }
  }
  way.erase(way.begin(), way.begin() + seen[static_cast<size_t>(node)]);
  return way;
}

void StepGraph::begin_search(Node after) {
  searched_ = after;
  ++epoch_;
  heap_.clear();
  heap_.emplace_back(level_[static_cast<size_t>(after)], after);
}

bool StepGraph::ends_before(Node before, Node after) {
  if (before == after) return false;
  if (searched_ != after) begin_search(after);
  const auto chain = static_cast<size_t>(chain_[static_cast<size_t>(before)]);
  const int32_t position = position_[static_cast<size_t>(before)],
                level = level_[static_cast<size_t>(before)];
  const auto is_reached = [&] { return reached_epoch_[chain] == epoch_ && reached_[chain] >= position; };
  // Nodes at or below the level of `before` lead to it no more.
  while (!is_reached() && !heap_.empty() && heap_.front().first > level) {
    const Node node = heap_.front().second;
    std::ranges::pop_heap(heap_);
    heap_.pop_back();
    for (const Node next : predecessors(node)) {
      const auto n = static_cast<size_t>(next);
      if (visited_[n] == epoch_) continue;
      visited_[n] = epoch_;
      const auto c = static_cast<size_t>(chain_[n]);
      if (reached_epoch_[c] != epoch_ || reached_[c] < position_[n]) reached_[c] = position_[n];
      reached_epoch_[c] = epoch_;
      heap_.emplace_back(level_[n], next);
      std::ranges::push_heap(heap_);
    }
  }
  return is_reached();
}

}  // namespace opentrn::collectives
