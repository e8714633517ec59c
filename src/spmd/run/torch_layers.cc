#include "spmd/run/torch_layers.h"

#include <algorithm>
#include <list>
#include <optional>
#include <set>
#include <string_view>

#include "spmd/run/weight_collectives.h"

namespace opentrn::spmd {

namespace {

constexpr std::string_view kGather = "_c10d_functional::all_gather_into_tensor";
constexpr std::string_view kScatter = "_c10d_functional::reduce_scatter_tensor";
constexpr std::string_view kWait = "_c10d_functional::wait_tensor";
// What makes of a weight no more than its bytes in another place or format.
constexpr std::string_view kMoves[] = {"alias",
                                       "as_strided",
                                       "clone",
                                       "constant_pad_nd",
                                       "detach",
                                       "expand",
                                       "permute",
                                       "reshape",
                                       "select",
                                       "slice",
                                       "split",
                                       "squeeze",
                                       "t",
                                       "_to_copy",
                                       "transpose",
                                       "unsqueeze",
                                       "view",
                                       "_unsafe_view",
                                       "convert_element_type"};
constexpr std::string_view kProducts[] = {"mm",     "addmm",  "bmm",         "baddbmm",
                                          "matmul", "linear", "convolution", "einsum"};

// "mm" of "aten::mm".
std::string_view base_of(std::string_view op) {
  const size_t at = op.find("::");
  return at == std::string_view::npos ? std::string_view{} : op.substr(at + 2);
}

bool is_collective(std::string_view op) { return op.starts_with("_c10d_functional::") && op != kWait; }

bool is_product(std::string_view op) {
  const std::string_view base = base_of(op);
  return std::ranges::find(kProducts, base) != std::end(kProducts) || base.find("attention") != base.npos;
}

// A collective of a weight.
struct Weight {
  size_t node = 0;
  size_t moment = 0;  // the wait for what is gathered; what makes what is scattered
  size_t layer = 0;
};

class Arranger {
 public:
  explicit Arranger(std::span<const TorchNode> nodes) : nodes_(nodes), users_(nodes.size()) {
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (const size_t input : nodes[n].inputs) users_[input].push_back(n);
      places_.push_back(order_.insert(order_.end(), n));
    }
    for (size_t n = 0; n < nodes.size(); ++n)
      if (is_collective(nodes[n].op)) note(n);
    find_layers(gathers_);
    find_layers(scatters_);
  }

  // Gathers go before the first wait of the layer so many before; what they alone need of arguments, too.
  void gather_early(size_t layers) {
    size_t start = 0;  // the last argument, then what was put behind it
    for (size_t n = 0; n < nodes_.size(); ++n)
      if (is_argument(n)) start = n;
    std::set<size_t> moved;
    for (const Weight& weight : gathers_) {
      std::optional<size_t> trigger;
      if (weight.layer >= layers) trigger = first_of(gathers_, weight.layer - layers);
      if (trigger && *trigger > weight.node) {
        move_before(weight.node, places_[*trigger]);
        continue;
      }
      for (const size_t node : with_preparation(weight.node)) {
        if (!moved.insert(node).second) continue;
        move_before(node, trigger ? places_[*trigger] : std::next(places_[start]));
        if (!trigger) start = node;
      }
    }
  }

  // Scatters go behind what makes the first gradient of the layer so many behind; their readers with them.
  void scatter_late(size_t layers) {
    if (scatters_.empty() || layers == 0) return;
    const size_t last = scatters_.back().layer;
    for (size_t i = scatters_.size(); i-- > 0;) {
      const Weight& weight = scatters_[i];
      const size_t trigger = first_of(scatters_, std::min(weight.layer + layers, last));
      std::set<size_t> group = followers(weight.node);
      if (trigger <= weight.node || group.contains(trigger)) continue;
      // They keep their order.
      if (std::ranges::any_of(group, [&](size_t n) { return is_collective(nodes_[n].op); })) continue;
      group.insert(weight.node);
      for (auto node = group.rbegin(); node != group.rend(); ++node)
        move_before(*node, std::next(places_[trigger]));
    }
  }

  std::vector<size_t> order() const { return {order_.begin(), order_.end()}; }

 private:
  bool is_argument(size_t node) const { return nodes_[node].kind == TorchNode::Kind::kArgument; }

  bool is_moved_argument(size_t node) const {
    for (; !is_argument(node); node = nodes_[node].inputs[0])
      if (nodes_[node].inputs.empty() ||
          std::ranges::find(kMoves, base_of(nodes_[node].op)) == std::end(kMoves))
        return false;
    return true;
  }

  // All that reads it, and what reads that; not the graph's results.
  std::set<size_t> followers(size_t node) const {
    std::set<size_t> found;
    std::vector<size_t> waiting = users_[node];
    while (!waiting.empty()) {
      const size_t user = waiting.back();
      waiting.pop_back();
      if (nodes_[user].kind == TorchNode::Kind::kResult || !found.insert(user).second) continue;
      waiting.insert(waiting.end(), users_[user].begin(), users_[user].end());
    }
    return found;
  }

  void note(size_t node) {
    const TorchNode& row = nodes_[node];
    const bool of_weights = std::ranges::all_of(row.inputs, [&](size_t n) { return is_moved_argument(n); });
    if (row.op.starts_with(kGather) && of_weights) {
      const auto wait = std::ranges::find_if(users_[node], [&](size_t n) { return nodes_[n].op == kWait; });
      if (row.op == kGather && wait != users_[node].end()) gathers_.push_back({node, *wait});
      return;
    }
    if (row.op.starts_with(kScatter) &&
        std::ranges::none_of(followers(node), [&](size_t n) { return is_product(nodes_[n].op); })) {
      if (row.op == kScatter) scatters_.push_back({node, row.inputs[0]});
      return;
    }
    others_.push_back(node);
  }

  void find_layers(std::vector<Weight>& weights) const {
    if (weights.empty()) return;
    std::ranges::stable_sort(weights, {}, &Weight::moment);
    const auto meet = std::ranges::count_if(others_, [&](size_t place) {
      return weights.front().moment < place && place < weights.back().moment;
    });
    std::vector<std::string> shapes;
    std::vector<size_t> parts;
    for (const Weight& weight : weights) {
      shapes.push_back(nodes_[weight.node].shape);
      parts.push_back(static_cast<size_t>(
          std::ranges::count_if(others_, [&](size_t place) { return place < weight.moment; })));
    }
    const std::vector<size_t> layers = layers_of(shapes, parts, meet > 1);
    for (size_t i = 0; i < weights.size(); ++i) weights[i].layer = layers[i];
  }

  // The moment of a layer's first weight.
  static size_t first_of(std::span<const Weight> weights, size_t layer) {
    return std::ranges::find(weights, layer, &Weight::layer)->moment;
  }

  // A gather behind what it is made of, from the argument on.
  std::vector<size_t> with_preparation(size_t node) const {
    std::vector<size_t> found;
    for (; !is_argument(node); node = nodes_[node].inputs[0]) found.push_back(node);
    std::ranges::reverse(found);
    return found;
  }

  void move_before(size_t node, std::list<size_t>::iterator place) {
    order_.splice(place, order_, places_[node]);
  }

  std::span<const TorchNode> nodes_;
  std::vector<std::vector<size_t>> users_;
  std::list<size_t> order_;
  std::vector<std::list<size_t>::iterator> places_;  // by node
  std::vector<size_t> others_;                       // collectives of activations
  std::vector<Weight> gathers_, scatters_;
};

}  // namespace

std::vector<size_t> order_of_layers(std::span<const TorchNode> nodes, const TorchLayers& layers) {
  Arranger arranger(nodes);
  arranger.gather_early(layers.early);
  arranger.scatter_late(layers.late);
  return arranger.order();
}

}  // namespace opentrn::spmd
