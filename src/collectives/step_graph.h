// The steps of plans as a graph: what must have ended before each starts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/verify.h"

namespace opentrn::collectives {

class StepGraph {
 public:
  using Node = int32_t;
  static constexpr Node kNone = -1;

  // References in the plans are right (check_references() of structure.h), and so are the issue orders.
  StepGraph(std::span<const Placed> plans, std::span<const std::vector<int>> issue_order);

  Node size() const { return static_cast<Node>(level_.size()); }
  // Handshakes are nodes too, behind those of steps.
  bool is_step(Node node) const { return node < steps_; }
  Node node_of(int plan, StepRef step) const {
    return first_[static_cast<size_t>(plan)][static_cast<size_t>(step.rank)] + step.step;
  }
  struct Place {
    int plan = 0;
    StepRef step;
  };
  Place place_of(Node node) const;
  std::span<const Node> predecessors(Node node) const {
    const auto begin = static_cast<size_t>(begin_[static_cast<size_t>(node)]);
    return std::span(edges_).subspan(begin,
                                     static_cast<size_t>(begin_[static_cast<size_t>(node) + 1]) - begin);
  }

  // Every node behind its predecessors; shorter than size() when there is a circle.
  const std::vector<Node>& order() const { return order_; }
  bool has_circle() const { return order_.size() < level_.size(); }
  // Nodes of one circle, each waiting for the next one.
  std::vector<Node> circle() const;

  // Whether `before` has ended when `after` starts, in every run. Cheap for several questions about one
  // `after` in a row.
  bool ends_before(Node before, Node after);

 private:
  struct Links;
  void number(std::span<const Placed> plans);
  void link(std::span<const Placed> plans, std::span<const std::vector<int>> issue_order);
  void sort();
  void begin_search(Node after);

  std::vector<std::vector<Node>> first_;  // [plan][rank] -> its step 0
  std::vector<Place> runs_;               // the first steps of all (plan, rank), in node order
  std::vector<Node> run_begin_;
  Node steps_ = 0;
  std::vector<int64_t> begin_;
  std::vector<Node> edges_;
  std::vector<int32_t> level_;  // the longest way to the node
  std::vector<Node> order_;
  std::vector<int32_t> chain_, position_;  // the channel of each node, and its place on it
  // The search backwards from a node, level by level.
  Node searched_ = kNone;
  int32_t epoch_ = 0;
  std::vector<int32_t> visited_;        // [node] epoch
  std::vector<int32_t> reached_epoch_;  // [chain]
  std::vector<int32_t> reached_;        // [chain] the last position reached
  std::vector<std::pair<int32_t, Node>> heap_;
};

}  // namespace opentrn::collectives
