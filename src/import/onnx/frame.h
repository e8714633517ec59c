// Where an import stands: names and what they stand for, and the nodes that are still to do. It is a value:
// a stage of a model keeps one to go on from (stages.h), once for each answer that data give.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/module.h"
#include "import/onnx/proto.h"

namespace opentrn::import::onnx {

using Bindings = std::map<std::string, AttributeValue, std::less<>>;

// A name in a frame.
struct Name {
  int frame = -1;
  std::string name;
};

// Names of one graph, or of one function's body; a subgraph sees those of the graph around it, a function
// does not. No value: a later stage makes it.
struct Frame {
  int parent = -1;  // number of the frame around it
  std::map<std::string, std::optional<graph::ValueId>, std::less<>> values;
  std::map<std::string, std::vector<Name>, std::less<>> sequences;  // their elements (sequence.cc)
  const OpsetVersions* opsets = nullptr;
  // Inputs that the call of a function leaves out, and optional values that hold nothing.
  std::set<std::string, std::less<>> left_out;
  // Inside a function: the attributes of the call, then the function's defaults.
  std::shared_ptr<const Bindings> bindings;
  int depth = 0;
};

// A Loop or Scan that is written out, iteration by iteration, because shapes change from one to the next.
struct Unrolled {
  int64_t iteration = 0, count = 0;
  std::optional<Name> condition;  // whether this iteration runs; nothing: it does
  std::vector<Name> states;
  std::vector<std::vector<Name>> scanned;  // for each scanned output the slices so far
  std::vector<int64_t> axes;  // of a Scan: where they are stacked, in place of the first dimension
};

// What is to be done, in order.
struct Item {
  enum class Kind : uint8_t {
    kNode,
    kBind,  // `to` stands for what `from` does
    kLoop,  // the next iteration of the Loop `node`, or its end, or that of a Scan
  };
  Kind kind = Kind::kNode;
  const NodeProto* node = nullptr;
  int frame = 0;
  Name from, to;
  std::shared_ptr<const Unrolled> loop;
  // Names of the rows that the node counted in the stage before (Node::cut); hidden ones, in `frame`.
  std::vector<std::string> cut;
};

inline Item node_item(const NodeProto& node, int frame) {
  Item item;
  item.node = &node;
  item.frame = frame;
  return item;
}

inline Item bind_item(Name from, Name to) {
  Item item;
  item.kind = Item::Kind::kBind;
  item.from = std::move(from);
  item.to = std::move(to);
  return item;
}

inline Item loop_item(const NodeProto& node, int frame, Unrolled loop) {
  Item item = node_item(node, frame);
  item.kind = Item::Kind::kLoop;
  item.loop = std::make_shared<const Unrolled>(std::move(loop));
  return item;
}

struct Progress {
  std::deque<Frame> frames;  // references stay while more are added
  std::vector<Item> left;
  size_t cuts = 0;     // how many hidden names there are
  uint32_t draws = 0;  // how many nodes have drawn random numbers
};

}  // namespace opentrn::import::onnx
