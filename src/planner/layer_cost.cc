#include "planner/layer_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "planner/memory.h"
#include "planner/recompute.h"

namespace opentrn::planner {
namespace {

// Tiles of a GPU's matrix kernels, and the share of the best kernel's rate that they reach when all of their
// waves are full: smaller ones read their operands more often.
struct Tile {
  double m, n, share;
};
constexpr std::array<Tile, 5> kTiles = {
    {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.93}, {128, 64, 0.78}, {64, 64, 0.56}}};
constexpr double kPrologue = 96;  // steps of k that a tile's pipeline takes to fill and to write its result

double up(double value, double multiple) { return std::ceil(value / multiple) * multiple; }

// Kernels load 16 bytes at a time, and whole lines of 128 where a row's length allows it.
double alignment_share(double dimension) {
  const auto whole = static_cast<int64_t>(dimension);
  if (whole % 64 == 0) return 1;
  if (whole % 32 == 0) return 0.90;
  if (whole % 16 == 0) return 0.80;
  if (whole % 8 == 0) return 0.62;
  return 0.35;
}

double gpu_product_s(const Rates& rates, double rate, double m, double n, double k, double count) {
  double best = INFINITY;
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(m / tile.m) * std::ceil(n / tile.n) * count;
    double steps = k, waves = std::ceil(tiles / rates.units);
    if (tiles * 2 <= rates.units && k >= 1024) {  // k is split where tiles alone leave units idle
      const double split = std::min(std::floor(rates.units / tiles), std::floor(k / 512));
      steps = k / std::max(1.0, split);
      waves = 1;
    }
    best =
        std::min(best, waves * rates.units * tile.m * tile.n * 2 * (steps + kPrologue) / (rate * tile.share));
  }
  return best / std::min(alignment_share(n), alignment_share(k));
}

}  // namespace

double product_compute_s(const Rates& rates, Precision precision, double m, double n, double k,
                         double count) {
  if (m <= 0 || n <= 0 || k <= 0 || count <= 0) return 0;
  const double rate = rates.matmul[static_cast<int>(precision)];
  return rates.units > 1 ? gpu_product_s(rates, rate, m, n, k, count)
                         : count * 2 * up(m, rates.pad) * up(n, rates.pad) * up(k, rates.pad) / rate;
}

double product_s(const Rates& rates, Precision precision, double m, double n, double k, double count) {
  if (m <= 0 || n <= 0 || k <= 0 || count <= 0) return 0;
  const double element = precision == Precision::kFp32 ? 4 : 2;
  const double moved = count * (m * k + k * n + m * n) * element / rates.memory_bytes_s;
  return std::max(product_compute_s(rates, precision, m, n, k, count), moved);
}

namespace {

// Of a sequence's positions, those that hold tokens, and of its pairs of positions. The lengths are those of
// BERT's corpus: "in excess of 50 %" of the positions at 512 are padding (arXiv:2107.02027), which lengths
// that end at any token with the same probability have at a mean of 320; at 128 a sixth is padding then.
struct Filled {
  double tokens = 1, pairs = 1;
};

Filled filled(const Model& model, const Stack& stack, double seq) {
  if (!stack.unpads || model.causal) return {};
  constexpr double kMean = 320;
  const double x = seq / kMean, past = std::exp(-x);
  return {(1 - past) / x, 2 * (1 - past * (1 + x)) / (x * x)};
}

// A linear layer forward, and its two products backward.
struct Linear {
  double forward = 0, backward = 0;
  double weights = 0;  // of backward: the weights' gradients
};

Linear linear_s(const Job& job, const Rates& rates, double tokens, double in, double out, double count = 1) {
  const double weights = product_s(rates, job.precision, in, out, tokens, count);
  return {product_s(rates, job.precision, tokens, out, in, count),
          product_s(rates, job.precision, tokens, in, out, count) + weights, weights};
}

// Keys that a query meets in the mean where `window` of them are in sight: of a causal product those in front
// of it. The last rank of an unbalanced ring has the queries that meet most.
double attended_keys(const Job& job, const Stack& stack, const Layout& layout, double window) {
  const double seq = job.seq, seen = std::min(seq, window);
  if (!job.model.causal) return seen;
  const double first = stack.balances_context ? 0 : seq - seq / layout.cp;
  const double filling = std::max(0.0, seen - first);  // queries that meet all keys in front of them
  return ((seen + first) / 2 * filling + seen * (seq - first - filling)) / (seq - first);
}

// Attention's two products and its softmax.
Linear attention_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout) {
  const Model& model = job.model;
  const Rates& rates = machine.rates;
  const double heads = std::max(1.0, double(model.heads) / layout.tp), queries = job.seq / layout.cp;
  const double key = model.latent() ? model.nope_dim + model.rope_dim : model.head_dim;
  const double value = model.latent() ? model.value_dim : model.head_dim;
  const double pairs = filled(model, stack, job.seq).pairs;
  const double windowed = model.layers > 0 ? double(model.window_layers) / model.layers : 0;
  if (stack.flash) {
    const double keys = (1 - windowed) * attended_keys(job, stack, layout, job.seq) +
                        windowed * attended_keys(job, stack, layout, model.window);
    const double flops = 2.0 * layout.micro_batch * heads * queries * keys * (key + value) * pairs;
    // A head of 64 leaves half of a tile's columns.
    const double slow = stack.flash_share * (key < 128 && machine.kind == Kind::kGpu ? 0.8 : 1);
    return {flops / (rates.flash_forward * slow), 2.5 * flops / (rates.flash_backward * slow)};
  }
  // Scores go through memory: written, masked and normalised, dropped, read again.
  const double keys = (1 - windowed) * job.seq + windowed * std::min(job.seq, double(model.window));
  const double count = layout.micro_batch * heads;
  const double scores = count * queries * keys;
  const Precision precision = job.precision == Precision::kFp8 ? Precision::kBf16 : job.precision;
  const double element = precision == Precision::kFp32 ? 4 : 2;
  double forward = product_s(rates, precision, queries, keys, key, count) +
                   product_s(rates, precision, queries, value, keys, count);
  // Batches of products read queries and keys in strides of a head. Where those are no whole 16 bytes, the
  // libraries of GPUs take kernels without matrix units.
  const bool whole = std::fmod(key * element, 16) == 0 && std::fmod(value * element, 16) == 0;
  if (machine.kind == Kind::kGpu && !whole)
    forward = std::max(forward, scores * 2 * (key + value) / rates.vector);
  const double passes = model.dropout || stack.counts_passes ? stack.score_passes : 2;
  const double softmax = scores * element * passes / rates.memory_bytes_s;
  return {forward + softmax, 2 * forward + 1.2 * softmax};
}

// Bytes that norms, residuals, activations and rotations move forward, of one token on one rank.
double elementwise_bytes(const Model& model, const Layout& layout, double ffn_per_rank, double element) {
  const double replicated = layout.sp ? double(model.hidden) / layout.tp : model.hidden;
  const double norms = 2 * 2 * element;                                  // two norms read and write
  const double residuals = 2 * (3 * element + (model.dropout ? 1 : 0));  // two sums read two, write one
  const double key_heads = std::max<double>(layout.tp, model.kv_heads);  // of all ranks together
  const double qkv = 2 * element * (model.heads + 2 * key_heads) * model.head_dim / layout.tp;
  const double activation = element * ffn_per_rank * (model.gated ? 3 : 2);
  return replicated * (norms + residuals) + qkv + activation;
}

void add_linear(Linear& sum, const Linear& linear) {
  sum.forward += linear.forward;
  sum.backward += linear.backward;
  sum.weights += linear.weights;
}

// A block's products: those of queries, keys and values, attention's output layer, the MLP's first and last.
struct Products {
  Linear projections, out, in, down;
  Linear all() const {
    Linear sum = projections;
    for (const Linear& each : {out, in, down}) add_linear(sum, each);
    return sum;
  }
};

// A layer that every stream of a model has of its own, for its share of the tokens.
Linear streams_s(const Job& job, const Rates& rates, double tokens, double in, double out) {
  if (job.model.streams == 1) return linear_s(job, rates, tokens, in, out);
  const double text = std::min(tokens, tokens * job.model.text_tokens / job.seq);
  Linear both = linear_s(job, rates, tokens - text, in, out);
  const Linear second = linear_s(job, rates, text, in, out);
  both.forward += second.forward;
  both.backward += second.backward;
  both.weights += second.weights;
  return both;
}

void add_projections(Products& products, const Job& job, const Rates& rates, const Layout& layout,
                     double tokens) {
  const Model& model = job.model;
  const double tp = layout.tp;
  const auto linear = [&](double in, double out) {
    add_linear(products.projections, streams_s(job, rates, tokens, in, out));
  };
  if (model.latent()) {
    const double query_dim = double(model.heads) * (model.nope_dim + model.rope_dim) / tp;
    if (model.query_rank > 0) {
      linear(model.hidden, model.query_rank);
      linear(model.query_rank, query_dim);
    } else {
      linear(model.hidden, query_dim);
    }
    linear(model.hidden, model.kv_rank + model.rope_dim);
    linear(model.kv_rank, double(model.heads) * (model.nope_dim + model.value_dim) / tp);
    products.out = streams_s(job, rates, tokens, double(model.heads) * model.value_dim / tp, model.hidden);
    return;
  }
  const double kv = std::max(1.0, model.kv_heads / tp) * model.head_dim;
  linear(model.hidden, double(model.heads) * model.head_dim / tp + 2 * kv);
  products.out = streams_s(job, rates, tokens, double(model.heads) * model.head_dim / tp, model.hidden);
}

void add_mlp(Products& products, const Job& job, const Rates& rates, const Layout& layout, double tokens,
             bool with_experts) {
  const Model& model = job.model;
  const double gates = model.gated ? 2 : 1;
  if (!with_experts) {
    products.in = streams_s(job, rates, tokens, model.hidden, gates * model.ffn / layout.tp);
    products.down = streams_s(job, rates, tokens, double(model.ffn) / layout.tp, model.hidden);
    return;
  }
  // Tokens spread evenly: a rank's experts see as many as its own tokens ask for. Experts are cut over tp too
  // where ep does not divide them finer.
  const double local = double(model.experts) / layout.ep;
  const double each = tokens * model.active_experts / local;
  products.in = linear_s(job, rates, each, model.hidden, gates * model.expert_ffn / layout.tp, local);
  products.down = linear_s(job, rates, each, double(model.expert_ffn) / layout.tp, model.hidden, local);
  if (model.shared_ffn > 0) {
    add_linear(products.in, linear_s(job, rates, tokens, model.hidden, gates * model.shared_ffn / layout.tp));
    add_linear(products.down,
               linear_s(job, rates, tokens, double(model.shared_ffn) / layout.tp, model.hidden));
  }
}

// What a block runs forward again where it does not run all: what nothing keeps of its products, attention,
// and all that is bound by memory.
std::optional<double> again_s(const Job& job, const Stack& stack, const Layout& layout,
                              const Products& products, double attention, double moved, bool with_experts) {
  const Model& model = job.model;
  const auto kept = kept_products(layout.recompute, stack, with_experts);
  if (!kept) {
    if (layout.recompute != Recompute::kFull || !stack.skips_last_product || with_experts)
      return std::nullopt;
    return products.all().forward - products.down.forward + attention + moved;
  }
  const HeadWidths widths = head_widths(model, layout.tp);
  const double held =
      (kept->query ? widths.query : 0) + (kept->key ? widths.key : 0) + (kept->value ? widths.value : 0);
  const double gates = model.gated ? 2 : 1;
  const double again_in = 1 - (double(kept->up) + (model.gated ? double(kept->gate) : 0)) / gates;
  double again = products.projections.forward * (1 - held / widths.all()) + moved;
  if (!kept->context) again += attention;
  if (!kept->out) again += products.out.forward;
  again += products.in.forward * again_in;
  if (with_experts && !kept->down) again += products.down.forward;
  return again;
}

}  // namespace

BlockTime block_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
                  bool with_experts) {
  const Model& model = job.model;
  const Rates& rates = machine.rates;
  const double tokens = layout.micro_batch * job.seq / layout.cp * filled(model, stack, job.seq).tokens;
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  Products products;
  add_projections(products, job, rates, layout, tokens);
  add_mlp(products, job, rates, layout, tokens, with_experts);
  const Linear all = products.all();
  BlockTime time;
  const Linear attention = attention_s(job, machine, stack, layout);
  const double width =
      with_experts ? double(model.active_experts) * model.expert_ffn + model.shared_ffn : double(model.ffn);
  // Routing copies each token to its experts and back.
  const double routing = with_experts ? 4.0 * element * model.active_experts * model.hidden : 0;
  const double moved = tokens * (elementwise_bytes(model, layout, width / layout.tp, element) + routing) *
                       stack.elementwise / rates.memory_bytes_s;
  time.forward = (all.forward + attention.forward + moved) / stack.compute_efficiency;
  time.backward = (all.backward + attention.backward + 1.7 * moved) / stack.compute_efficiency;
  time.attention_inside = attention.forward / stack.compute_efficiency;
  time.weights = all.weights / stack.compute_efficiency;
  time.again = again_s(job, stack, layout, products, attention.forward, moved, with_experts);
  if (time.again) *time.again = std::max(*time.again / stack.compute_efficiency, stack.host_block_s);
  if (const auto kept = kept_products(layout.recompute, stack, with_experts); kept && kept->on_host)
    time.kept_bytes =
        layout.micro_batch * job.seq / layout.cp * kept_product_bytes(job, layout, *kept, with_experts);
  time.forward = std::max(time.forward, stack.host_block_s);
  time.backward = std::max(time.backward, 2 * stack.host_block_s);
  return time;
}

double output_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout) {
  const Model& model = job.model;
  const double seen = model.causal ? 1 : stack.output_share;
  const double tokens = layout.micro_batch * job.seq / layout.cp * seen,
               columns = model.vocabulary / layout.tp;
  Job exact = job;
  if (job.precision == Precision::kFp8) exact.precision = Precision::kBf16;  // the output layer stays exact
  const Linear product = linear_s(exact, machine.rates, tokens, model.hidden, columns);
  const double loss = tokens * columns * 24 / machine.rates.memory_bytes_s;  // in float32, several passes
  return (product.forward + product.backward + loss) / stack.compute_efficiency;
}

double embedding_s(const Job& job, const Machine& machine, const Layout& layout) {
  const double tokens = layout.micro_batch * job.seq / layout.cp;
  return tokens * job.model.hidden * 16 / machine.rates.memory_bytes_s;
}

}  // namespace opentrn::planner
