// Where the gathers and scatters of weights of a graph of PyTorch's stand among its layers.
//
// A weight that lies in parts is gathered before the layer that lies so many before the one that reads it,
// and the scatter of a gradient comes so many layers behind the one that makes it. Layers are those of JAX's
// programs (weight_collectives.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace opentrn::spmd {

// A node of a graph, after all those that it reads.
struct TorchNode {
  enum class Kind : uint8_t { kArgument, kCall, kResult };
  Kind kind = Kind::kCall;
  std::string op;              // "aten::mm"; empty of what is no op
  std::vector<size_t> inputs;  // numbers of nodes, each once, in the order in which they are read
  std::string shape;           // of what it makes
};

// How far gathers go to the front and scatters to the back, in layers.
struct TorchLayers {
  size_t early = 0, late = 0;
};

// The order of the nodes, by their numbers, with the collectives of weights moved.
std::vector<size_t> order_of_layers(std::span<const TorchNode> nodes, const TorchLayers& layers);

}  // namespace opentrn::spmd
