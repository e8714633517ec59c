// The proof of values and of order: walks the steps once in an order that the graph allows.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/contents.h"
#include "collectives/interval_map.h"
#include "collectives/step_graph.h"

namespace opentrn::collectives {

class DataFlow {
 public:
  // The graph has no circle.
  DataFlow(std::span<const Placed> plans, StepGraph& graph);
  std::vector<Finding> run();

 private:
  using Node = StepGraph::Node;
  struct Segment {
    Content content;
    Node writer = StepGraph::kNone;
    std::vector<Node> readers;  // since the writer
  };
  using Map = IntervalMap<Segment>;

  Map& map_of(int plan, const At& place, int64_t& offset);
  void prepare_memory();
  void step(Node node);
  void read(Node node, int plan, StepRef ref, const At& place, int64_t bytes, IntervalMap<Content>& sum);
  void write(Node node, int plan, StepRef ref, const At& place, int64_t bytes,
             const IntervalMap<Content>& sum);
  void overlaps_itself(int plan, StepRef ref, const Step& step);
  void check_outputs(int plan);
  void check_output(int plan, int rank);
  // Whether `earlier`, which came before in this order, comes before in every order; says a race otherwise.
  bool ordered(Node earlier, Node node, const At& place, int64_t begin, int64_t end, const char* doing);
  bool is_full() const { return findings_.size() >= kFindingsMax; }
  std::string name_of_node(Node node) const;
  bool reduces_into_target(Node node) const;
  std::string plan_prefix(int plan) const;

  std::span<const Placed> plans_;
  StepGraph& graph_;
  ContentSets sets_;
  // [plan][rank][buffer]; scratch of a communicator is shared, see scratch_.
  std::vector<std::vector<std::vector<Map>>> memory_;
  std::map<std::pair<int, int>, Map> scratch_;  // (communicator, global rank)
  std::vector<Finding> findings_;
};

}  // namespace opentrn::collectives
