// Mixtures of experts of com.microsoft: MoE, and QMoE with weights in few bits.
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

// One product of every expert.
struct Layer {
  // [experts, rows, columns]: as products read them, where files have [experts, columns, rows], so that
  // constants are turned when the model is compiled.
  ValueId weights;
  std::optional<ValueId> bias;  // [experts, columns]
};

// The k likeliest experts of each token, [tokens, k], and their weights.
struct Choice {
  ValueId weight, place;
};

Choice choose(const Node& n, ValueId router) {
  const Emit& e = n.emit;
  const int64_t experts = e.dim(router, 1), k = n.integer("k", 1);
  n.check(0 < k && k <= experts, "k is {} of {} experts", k, experts);
  const auto [value, place] = largest(e, e.softmax(e.cast(router, ElementType::kF32), 1), k);
  const bool sums_to_one = n.flag("normalize_routing_weights", false);
  return {sums_to_one ? e.div(value, e.sum(value, {1}, true)) : value, place};
}

// Each token's weight of each expert, [tokens, experts]: zero of those that it does not take.
ValueId gates(const Emit& e, const Choice& choice, int64_t experts) {
  const Dims d = e.dims(choice.place);
  const ValueId is_taken = e.compare(ComparisonDirection::kEq, e.unsqueeze(choice.place, 2),
                                     e.iota(ElementType::kI64, {d[0], d[1], experts}, 2));
  const ValueId zero = e.full(ElementType::kF32, {1}, 0);
  return e.sum(e.select(is_taken, e.unsqueeze(choice.weight, 2), zero), {1}, false);
}

// x [tokens, rows] through every expert: [tokens, experts, columns].
ValueId through(const Emit& e, ValueId x, const Layer& layer) {
  const ValueId y = e.dot_general(x, layer.weights, {}, {}, {1}, {1});
  return layer.bias ? e.add(y, e.unsqueeze(*layer.bias, 0)) : y;
}

ValueId swiglu(const Node& n, ValueId gate, ValueId linear) {
  const Emit& e = n.emit;
  if (n.attribute("swiglu_limit")) {
    const double limit = n.real("swiglu_limit", 0);
    gate = e.min(gate, limit);
    linear = e.min(e.max(linear, -limit), limit);
  }
  const ValueId part = e.sigmoid(e.mul(gate, n.real("activation_alpha", 1)));
  return e.mul(e.mul(gate, part), e.add(linear, n.real("activation_beta", 0)));
}

// The hidden numbers of every expert, [tokens, experts, inner].
ValueId hidden(const Node& n, ValueId x, const Layer& first, const std::optional<Layer>& third) {
  const Emit& e = n.emit;
  const std::string name = n.string("activation_type", "relu");
  const int64_t fusion = n.integer("swiglu_fusion", 0);
  const ValueId y = through(e, x, first);
  if (name == "swiglu") {
    n.check(fusion == 0 ? third.has_value() : fusion == 1 || fusion == 2,
            "swiglu_fusion is {}, fc3_experts_weights {}", fusion, third ? "given" : "left out");
    if (fusion == 0) return swiglu(n, y, through(e, x, *third));
    const int64_t columns = e.dim(y, 2);
    n.check(columns % 2 == 0, "fc1_experts_weights have {} columns", columns);
    if (fusion == 1) return swiglu(n, e.slice(y, 2, 0, columns, 2), e.slice(y, 2, 1, columns, 2));
    return swiglu(n, e.slice(y, 2, 0, columns / 2), e.slice(y, 2, columns / 2, columns));
  }
  const auto activated = [&]() -> ValueId {
    if (name == "relu") return e.max(y, 0);
    if (name == "gelu") return gelu(e, y, true);
    if (name == "silu") return e.mul(y, e.sigmoid(y));
    n.check(name == "identity", "activation_type is '{}'", name);
    return y;
  };
  return third ? e.mul(activated(), through(e, x, *third)) : activated();
}

struct Layers {
  Layer first, second;
  std::optional<Layer> third;
};

// One expert's part of them.
Layers of_expert(const Emit& e, const Layers& all, ValueId place) {
  const ValueId zero = e.scalar(ElementType::kI64, 0);
  const auto cut = [&](ValueId value) {
    Dims sizes = e.dims(value);
    sizes[0] = 1;
    Values start(sizes.size(), zero);
    start[0] = place;
    return e.dynamic_slice(value, start, sizes);
  };
  const auto layer = [&](const Layer& from) {
    return Layer{cut(from.weights), from.bias ? std::optional(cut(*from.bias)) : std::nullopt};
  };
  return {layer(all.first), layer(all.second), all.third ? std::optional(layer(*all.third)) : std::nullopt};
}

// x [tokens, rows] through experts, weighed by gate [tokens, experts] and summed.
ValueId weighed(const Node& n, ValueId x, ValueId gate, const Layers& layers) {
  const Emit& e = n.emit;
  const ValueId inner = hidden(n, x, layers.first, layers.third);
  n.check(e.dim(inner, 2) == e.dim(layers.second.weights, 1), "{} hidden columns, fc2_experts_weights for {}",
          e.dim(inner, 2), e.dim(layers.second.weights, 1));
  // A token's experts and their columns are summed by one product.
  const ValueId y =
      e.dot_general(e.mul(inner, e.unsqueeze(gate, 2)), layers.second.weights, {}, {}, {1, 2}, {0, 1});
  return layers.second.bias ? e.add(y, e.dot_general(gate, *layers.second.bias, {}, {}, {1}, {0})) : y;
}

// Where tokens take fewer experts than there are, those alone are read; else every token meets every expert.
ValueId mixed(const Node& n, ValueId x, const Choice& choice, const Layers& layers) {
  const Emit& e = n.emit;
  const int64_t tokens = e.dim(choice.place, 0), k = e.dim(choice.place, 1);
  const int64_t experts = e.dim(layers.first.weights, 0);
  if (tokens * k >= experts) return weighed(n, x, e.cast(gates(e, choice, experts), e.element(x)), layers);
  const ValueId weight = e.cast(choice.weight, e.element(x));
  Values rows;
  for (int64_t t = 0; t < tokens; ++t) {
    const ValueId row = e.slice(x, 0, t, t + 1);
    std::optional<ValueId> sum;
    for (int64_t i = 0; i < k; ++i) {
      const auto at = [&](ValueId value) { return e.slice(e.slice(value, 0, t, t + 1), 1, i, i + 1); };
      const Layers own = of_expert(e, layers, e.reshape(at(choice.place), {}));
      const ValueId y = weighed(n, row, at(weight), own);
      sum = sum ? e.add(*sum, y) : y;
    }
    rows.push_back(*sum);
  }
  return rows.size() == 1 ? rows[0] : e.concat(rows, 0);
}

void import_experts(Node& n, ValueId router, const Layers& layers) {
  const Emit& e = n.emit;
  for (const char* name : {"use_sparse_mixer", "swiglu_limit_after_activation"})
    if (n.flag(name, false)) n.refuse(fmt::format("{} is not imported", name));
  const Dims dims = n.dims(0);
  n.check(dims.size() == 2 || dims.size() == 3, "input of rank {}", dims.size());
  const ValueId first = layers.first.weights, second = layers.second.weights;
  n.check(e.rank(router) == 2, "router_probs of rank {}", e.rank(router));
  const int64_t tokens = e.dim(router, 0), experts = e.dim(router, 1);
  n.check(product(dims) == tokens * dims.back() && e.dim(first, 1) == dims.back() &&
              e.dim(first, 0) == experts && e.dim(second, 0) == experts,
          "{} tokens of {} columns, {} experts of {} columns", tokens, dims.back(), e.dim(first, 0),
          e.dim(first, 1));
  const ValueId x = e.reshape(n.in(0), {tokens, dims.back()});
  n.set(0, e.reshape(mixed(n, x, choose(n, router), layers), dims));
}

Layer layer_of(const Node& n, ValueId weights, size_t bias) {
  const Emit& e = n.emit;
  n.check(e.rank(weights) == 3, "weights of experts of rank {}", e.rank(weights));
  return {e.transpose(weights, {0, 2, 1}), n.has(bias) ? std::optional(n.in(bias)) : std::nullopt};
}

// QMoE's weights [experts, columns, bytes] in numbers of the input's type; scales [experts, columns] or
// [experts, columns, blocks], zero points packed as the weights.
ValueId dequantised(const Node& n, size_t weights, size_t scales, size_t zeros, int64_t bits) {
  const Emit& e = n.emit;
  n.check(n.rank(weights) == 3 && n.element(weights) == ElementType::kUI8, "weights of rank {}",
          n.rank(weights));
  const Dims d = n.dims(weights);
  const int64_t rows = d[0] * d[1], numbers = d[2] * 8 / bits;
  const int64_t block = n.integer("block_size", 0) > 0 ? n.integer("block_size", 0) : numbers;
  n.check(block > 0 && numbers % block == 0, "block_size is {} of {} numbers", block, numbers);
  const int64_t blocks = numbers / block;
  n.check(product(n.dims(scales)) == rows * blocks, "{} scales for {} rows of {} blocks",
          product(n.dims(scales)), rows, blocks);
  const ValueId whole = unpacked_bits(e, e.reshape(n.in(weights), {rows, d[2]}), bits, numbers);
  ValueId zero = e.full(ElementType::kF32, {1, 1, 1}, static_cast<double>(1 << (bits - 1)));
  if (n.has(zeros)) {
    const int64_t bytes = (blocks * bits + 7) / 8;
    n.check(product(n.dims(zeros)) == rows * bytes, "{} bytes of zero points for {} rows of {} blocks",
            product(n.dims(zeros)), rows, blocks);
    const ValueId packed = e.reshape(n.in(zeros), {rows, bytes});
    zero = e.reshape(unpacked_bits(e, packed, bits, blocks), {rows, blocks, 1});
  }
  const ValueId scale = e.reshape(e.cast(n.in(scales), ElementType::kF32), {rows, blocks, 1});
  const ValueId made = e.mul(e.sub(e.reshape(whole, {rows, blocks, block}), zero), scale);
  return e.cast(e.reshape(made, {d[0], d[1], numbers}), n.element(0));
}

}  // namespace

// input, router_probs, and for fc1, fc2 and fc3 weights and bias.
void import_moe(Node& n) {
  std::optional<Layer> third;
  if (n.has(6)) third = layer_of(n, n.in(6), 7);
  import_experts(n, n.in(1), {layer_of(n, n.in(2), 3), layer_of(n, n.in(4), 5), third});
}

// input, router_probs, for fc1, fc2 and fc3 weights, scales and bias, then their zero points.
void import_qmoe(Node& n) {
  if (n.string("quant_type", "int") != "int")
    n.refuse(fmt::format("quant_type '{}' is not imported", n.string("quant_type", "int")));
  if (n.flag("weights_prepacked", false)) n.refuse("weights packed for one kernel are not imported");
  for (size_t i = 14; i < n.input_count(); ++i)
    if (n.has(i)) n.refuse("router_weights and scales of activations are not imported");
  const int64_t bits = n.integer("expert_weight_bits", 4);
  const auto layer = [&](size_t weights, size_t zeros, const char* own_bits) {
    const int64_t own = n.integer(own_bits, 0) > 0 ? n.integer(own_bits, 0) : bits;
    n.check(own == 2 || own == 4 || own == 8, "weights have {} bits", own);
    return layer_of(n, dequantised(n, weights, weights + 1, zeros, own), weights + 2);
  };
  std::optional<Layer> third;
  if (n.has(8)) third = layer(8, 13, "fc3_expert_weight_bits");
  import_experts(n, n.in(1),
                 {layer(2, 11, "fc1_expert_weight_bits"), layer(5, 12, "fc2_expert_weight_bits"), third});
}

}  // namespace opentrn::import::onnx
