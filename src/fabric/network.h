// Nodes and directed links: what bytes between NeuronCores pass over, whatever a collective makes of it.
//
// Everything that has a rate which several transfers share is a link: a NeuronLink port, the way across a
// chip, a PCIe lane group, a NeuronSwitch port, an EFA adapter, and also the DMA rings that move the bytes
// and the HBM stack that they come from. A path names the links that it loads, with the share of its bytes
// that each carries: ties between equally short ways are split.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opentrn::fabric {

using NodeId = int32_t;
using LinkId = int32_t;

enum class LinkClass : uint8_t {
  kOnChip,
  kNeuronLink,
  kUltraServer,  // between the instances of an UltraServer
  kPcie,
  kSwitch,  // to and from a NeuronSwitch
  kEfa,
  kSpine,  // above the EFA adapters of a server
  kCore,   // above the switches of a pod
  kDmaRings,
  kHbm,
};

struct Link {
  NodeId from = 0, to = 0;  // of kDmaRings and kHbm the same
  int64_t bytes_per_s = 0;  // 0: the link is down
  int64_t latency_ps = 0;
  LinkClass kind = LinkClass::kNeuronLink;
};

// A path's whole traffic is `kWholeShare`; a link that every byte crosses has that share. 5040 divides by
// every number to 10, so that splits are exact.
inline constexpr int32_t kWholeShare = 5040;

struct Hop {
  LinkId link = 0;
  int32_t share = kWholeShare;  // may be more: a reduction reads and writes an HBM stack several times
  friend bool operator==(const Hop&, const Hop&) = default;
};

// One of the ways that a path splits into: links in the order in which bytes cross them.
struct Route {
  std::vector<LinkId> links;
  int32_t share = kWholeShare;
};

struct Path {
  std::vector<Hop> hops;
  int64_t latency_ps = 0;  // of the longest of the ways that it splits into
};

struct Node {
  std::string name;  // "server 0 chip 3 seng 1"; for people
};

struct Network {
  std::vector<Node> nodes;
  std::vector<Link> links;
};

}  // namespace opentrn::fabric
