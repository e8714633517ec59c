#include "planner/compiled/block_pieces.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/fault.h"

namespace opentrn::planner::compiled {

int64_t part_of(int64_t whole, int64_t parts) { return (whole + parts - 1) / parts; }

Share share_of(const Model& model, int64_t parts) {
  Share share{part_of(model.heads, parts), part_of(model.kv_heads, parts), part_of(model.ffn, parts),
              part_of(static_cast<int64_t>(model.labels()), parts)};
  share.queries = share.mixed = share.heads * model.head_dim;
  share.key_values = share.kv_heads * model.head_dim;
  if (model.latent()) {
    share.kv_heads = share.heads;
    share.queries = share.heads * (model.nope_dim + model.rope_dim);
    share.key_values = share.heads * (model.nope_dim + model.value_dim);
    share.mixed = share.heads * model.value_dim;
  }
  return share;
}

namespace {

// Heads of keys that queries of a rank meet: of the rank that meets most.
int64_t met_heads(const Model& model, int64_t ranks) {
  const int64_t own = model.heads / ranks, each = model.heads / model.kv_heads;
  int64_t most = 0;
  for (int64_t rank = 0; rank < ranks; ++rank)
    most = std::max(most, ((rank + 1) * own - 1) / each - rank * own / each + 1);
  return most;
}

}  // namespace

int64_t kept_key_columns(const Model& model, const BlockSizes& sizes) {
  if (model.kv_heads % (sizes.parts / sizes.cores) == 0) return share_of(model, sizes).key_values;
  return part_of(int64_t{model.kv_heads} * model.head_dim, sizes.cores);
}

Share share_of(const Model& model, const BlockSizes& sizes) {
  Share share = share_of(model, sizes.parts);
  if (model.latent() && sizes.by_rows) {  // all heads of the rank, and a part of each weight to update
    const Share rank = share_of(model, sizes.parts / sizes.cores);
    share.heads = share.kv_heads = rank.heads;
    share.queries = part_of(rank.queries, sizes.cores);
    share.key_values = part_of(rank.key_values, sizes.cores);
    share.mixed = part_of(rank.mixed, sizes.cores);
  }
  if (model.latent()) return share;
  // Of a rank's heads of keys whose queries other ranks have too, both cores make all.
  const int64_t ranks = sizes.parts / sizes.cores;
  const bool are_shared = model.kv_heads % ranks != 0 && model.heads % ranks == 0;
  if (sizes.cores == 1 ? model.heads % sizes.parts == 0 : are_shared) {
    share.kv_heads = met_heads(model, ranks);
    share.key_values = share.kv_heads * model.head_dim;
  }
  if (!sizes.by_rows) return share;
  const Share rank = share_of(model, ranks);
  share.heads = rank.heads;
  share.kv_heads = are_shared ? met_heads(model, ranks) : rank.kv_heads;
  share.queries = part_of(rank.queries, sizes.cores);
  share.key_values = part_of(rank.key_values, sizes.cores);
  share.mixed = part_of(rank.mixed, sizes.cores);
  return share;
}

void set_latent(Piece& piece, const Model& model) {
  piece.query_rank = model.query_rank;
  piece.kv_rank = model.kv_rank;
  piece.rope = model.rope_dim;
}

std::vector<WeightSize> attention_weights(const Model& model, const BlockSizes& sizes) {
  const Share share = share_of(model, sizes);
  const int64_t hidden = model.hidden;
  if (!model.latent()) {
    // Cores with rows have gradients of half of what projections read, of all columns.
    const int64_t parts = sizes.by_rows ? sizes.cores : 1, rows = part_of(hidden, parts);
    const int64_t shared = parts * kept_key_columns(model, sizes), queries = parts * share.queries;
    return {{share.mixed, hidden, true}, {rows, queries}, {rows, shared}, {rows, shared}};
  }
  std::vector<WeightSize> weights{{share.mixed, hidden, true},
                                  {model.kv_rank, share.key_values},
                                  {hidden, part_of(model.kv_rank + model.rope_dim, sizes.cores)},
                                  {model.query_rank > 0 ? model.query_rank : hidden, share.queries}};
  if (model.query_rank > 0) weights.push_back({hidden, part_of(model.query_rank, sizes.cores)});
  return weights;
}

namespace {

// Multiplications of a token by attention's projections and its output layer, of a core.
double projected(const Piece& piece) {
  const auto d = [](int64_t value) { return double(value); };
  if (piece.kv_rank == 0)
    return d(piece.hidden) * d(piece.features) * (2 * d(piece.heads) + 2 * d(piece.kv_heads));
  const double values = d(piece.values > 0 ? piece.values : piece.features), hidden = d(piece.hidden);
  const double of_queries = piece.query_rank > 0 ? d(piece.query_rank) : hidden;
  const double down = piece.compressed ? 0 : d(piece.query_rank + piece.kv_rank + piece.rope);
  return hidden * down +
         d(piece.heads) * (of_queries * d(piece.features) +
                           d(piece.kv_rank) * (d(piece.features - piece.rope) + values) + values * hidden);
}

}  // namespace

// FLOP, as the products' time has them.
double work_of(const Piece& piece) {
  const auto d = [](int64_t value) { return double(value); };
  switch (piece.part) {
    // Vectors are about a hundredth as fast as products.
    case Part::kNorms: return 100 * 40 * d(piece.rows) * d(piece.hidden);
    case Part::kProducts:
      return (piece.backward ? 4 : 2) * d(piece.rows) * d(piece.hidden) *
             (2 * d(piece.queries) + 2 * d(piece.key_values) + (piece.gated ? 3 : 2) * d(piece.inner));
    case Part::kMlp:
      return (piece.backward ? 4 : 2) * d(piece.rows) * d(piece.hidden) * (piece.gated ? 3 : 2) *
             d(piece.inner);
    case Part::kLinear: return (piece.backward ? 4 : 2) * d(piece.rows) * d(piece.hidden) * d(piece.inner);
    case Part::kAttention:
      return (piece.backward ? 10 : 4) * d(piece.rows) * d(piece.keys) * d(piece.features) * d(piece.heads);
    case Part::kOutput: return (piece.backward ? 6 : 2) * d(piece.rows) * d(piece.hidden) * d(piece.inner);
    case Part::kDecode: return 0;
    case Part::kAttentionHalf:
    case Part::kBehindKeys:
      return (piece.backward ? 4 : 2) * d(piece.rows) * projected(piece) +
             (piece.backward ? 10 : 4) * d(piece.rows) * d(piece.window > 0 ? 2 * piece.window : piece.keys) *
                 d(piece.features) * d(piece.heads);
    case Part::kCompress:
      return (piece.backward ? 4 : 2) * d(piece.rows) * d(piece.hidden) *
             d(piece.query_rank + piece.kv_rank + piece.rope);
    case Part::kBeforeKeys:
      return (piece.backward ? 4 : 2) * d(piece.rows) * d(piece.hidden) * d(piece.features) *
             (d(piece.heads) + 2 * d(piece.kv_heads));
    case Part::kMlpHalf:
      return (piece.backward ? 4 : 2) * d(piece.rows) * d(piece.hidden) * (piece.gated ? 3 : 2) *
             d(piece.inner);
    case Part::kNorm: return 100 * 20 * d(piece.rows) * d(piece.hidden);
    case Part::kLogits: return 2 * d(piece.rows) * d(piece.hidden) * d(piece.inner);
    case Part::kShares: return 100 * 10 * d(piece.rows) * d(piece.inner);
    case Part::kLogitsBackward: return 4 * d(piece.rows) * d(piece.hidden) * d(piece.inner);
    // A row takes about as long as its way to memory and back.
    case Part::kEmbedding: return 2e7 * d(piece.rows);
    case Part::kPatches: return 2 * d(piece.rows) * d(piece.hidden) * d(piece.inner);
    case Part::kOptimizer: return 2e4 * d(piece.rows) * d(piece.hidden);
    case Part::kSum: return 1e3 * d(piece.heads) * d(piece.rows) * d(piece.hidden);
    case Part::kExperts:
      return (piece.backward ? 4 : 2) * d(piece.experts) * d(piece.rows) * d(piece.hidden) *
             (piece.gated ? 3 : 2) * d(piece.inner);
    // Rows that are gathered, a choice at a time; places are counted by a product.
    case Part::kRoute:
    case Part::kCounts:
    case Part::kPlaces:
    case Part::kCombine:
      return 100 * 10 * d(piece.rows) * d(piece.hidden) * d(piece.chosen) +
             2 * d(piece.rows) * d(piece.experts) * (d(piece.hidden) + d(piece.keys)) +
             (piece.backward ? 4 : 2) * d(piece.rows) * d(piece.hidden) * (piece.gated ? 3 : 2) *
                 d(piece.shared);
    case Part::kMixture: {
      Piece route = piece, experts = piece;
      route.part = Part::kRoute;
      experts.part = Part::kExperts;
      experts.rows = piece.rows / piece.keys * piece.capacity;
      return 2 * work_of(route) + work_of(experts);
    }
    case Part::kJointAttention:
      return (piece.backward ? 4 : 2) * d(piece.rows) * projected(piece) +
             (piece.backward ? 10 : 4) * d(piece.rows) * d(piece.keys) * d(piece.features) * d(piece.heads);
    case Part::kJointMlp:
      return (piece.backward ? 4 : 2) * d(piece.rows) * d(piece.hidden) * 2 * d(piece.inner);
    case Part::kJointNorm: return 100 * 30 * d(piece.rows) * d(piece.hidden);
    case Part::kJointStart:
      return 2 * d(piece.rows) * d(piece.hidden) * d(std::max(piece.inner, piece.key_values));
    case Part::kVelocity: return 6 * d(piece.rows) * d(piece.hidden) * d(piece.inner);
    case Part::kFetch:
    case Part::kKeep: return 100 * 4 * d(piece.rows) * d(piece.hidden) * d(piece.heads);
    case Part::kLoopTest: return 0;
  }
  OPENTRN_CHECK(false, "a part without work");
}

namespace {

Piece base_of(const Model& model, Precision precision, Part part, int64_t rows) {
  Piece piece;
  piece.part = part;
  piece.hidden = model.hidden;
  piece.rows = rows;
  piece.wide = precision == Precision::kFp32;
  return piece;
}

Piece linear_of(const Model& model, Precision precision, int64_t rows, int64_t in, int64_t out) {
  Piece piece = base_of(model, precision, Part::kLinear, rows);
  piece.hidden = in;
  piece.inner = out;
  return piece;
}

Piece mlp_of(const Model& model, Precision precision, int64_t rows, int64_t inner) {
  Piece piece = base_of(model, precision, Part::kMlp, rows);
  piece.inner = inner;
  piece.gated = model.gated;
  return piece;
}

}  // namespace

Piece norms_of(const Model& model, Precision precision, int64_t rows) {
  Piece piece = base_of(model, precision, Part::kNorms, rows);
  piece.root_mean_square = !model.layer_norms();
  piece.biased = model.biases;
  return piece;
}

Piece output_of(const Model& model, Precision precision, int64_t rows, int64_t parts) {
  Piece piece = norms_of(model, precision, rows);
  piece.part = Part::kOutput;
  piece.inner = share_of(model, parts).vocabulary;
  return piece;
}

namespace {

// Projections to queries, keys and values, attention's output layer, and an MLP of `inner`, 0: none.
Piece products_of(const Model& model, Precision precision, int64_t rows, int64_t parts, int64_t inner) {
  const Share share = share_of(model, parts);
  Piece piece = base_of(model, precision, Part::kProducts, rows);
  piece.queries = share.heads * model.head_dim;
  piece.key_values = share.kv_heads * model.head_dim;
  piece.inner = inner;
  piece.gated = inner > 0 && model.gated;
  piece.features = model.positions > 0 || !model.causal ? 0 : model.head_dim;
  return piece;
}

Piece attention_of(const Model& model, Precision precision, const BlockSizes& sizes) {
  Piece piece = base_of(model, precision, Part::kAttention, sizes.queries);
  piece.hidden = 0;
  piece.keys = sizes.keys;
  piece.heads = share_of(model, sizes.parts).heads * sizes.micro_batch;
  piece.causal = sizes.causal;
  piece.features = model.latent() ? model.nope_dim + model.rope_dim : model.head_dim;
  if (model.latent() && model.value_dim != piece.features) piece.values = model.value_dim;
  return piece;
}

}  // namespace

// Of the layers, those whose attention sees a window of what came before, where that is less than all.
double windowed(const Model& model, int64_t keys) {
  return model.layers > 0 && model.window > 0 && model.window < keys
             ? double(model.window_layers) / model.layers
             : 0;
}

namespace {

// Attention of a layer with a window in blocks as long as it: each sees itself and the one before, all of
// both, as the mask's corners lie in blocks that are computed whole.
Piece window_of(const Model& model, Piece attention) {
  const int64_t block = std::min<int64_t>(model.window, attention.rows);
  attention.heads *= part_of(attention.rows, block);
  attention.rows = block;
  attention.keys = std::min(attention.keys, block + model.window);
  attention.causal = false;
  return attention;
}

void add_attention(std::vector<Counted>& pieces, const Model& model, Precision precision,
                   const BlockSizes& sizes) {
  const double share = windowed(model, sizes.keys);
  const Piece whole = attention_of(model, precision, sizes);
  if (share < 1) pieces.push_back({whole, 1 - share});
  if (share > 0) pieces.push_back({window_of(model, whole), share});
}

// Queries, keys and values by way of their compressed forms, which every rank computes whole.
void add_latent(std::vector<Counted>& pieces, const Model& model, Precision precision,
                const BlockSizes& sizes) {
  const int64_t heads = share_of(model, sizes.parts).heads;
  const auto linear = [&](int64_t in, int64_t out) {
    pieces.push_back({linear_of(model, precision, sizes.rows, in, out)});
  };
  const int64_t queries = heads * (model.nope_dim + model.rope_dim);
  if (model.query_rank > 0) {
    linear(model.hidden, model.query_rank);
    linear(model.query_rank, queries);
  } else {
    linear(model.hidden, queries);
  }
  linear(model.hidden, model.kv_rank + model.rope_dim);
  linear(model.kv_rank, heads * (model.nope_dim + model.value_dim));
  linear(heads * model.value_dim, model.hidden);
}

}  // namespace

// The router, the rank's experts with as many tokens as an even spread gives each, and the shared ones.
void add_experts(std::vector<Counted>& pieces, const Model& model, Precision precision,
                 const BlockSizes& sizes) {
  const auto each = static_cast<int64_t>(
      std::max(1.0, std::ceil(double(sizes.rows) * model.active_experts / sizes.local_experts)));
  pieces.push_back({linear_of(model, precision, sizes.rows, model.hidden, model.experts)});
  pieces.push_back(
      {mlp_of(model, precision, each, part_of(model.expert_ffn, sizes.parts)), sizes.local_experts});
  if (model.shared_ffn > 0)
    pieces.push_back({mlp_of(model, precision, sizes.rows, part_of(model.shared_ffn, sizes.parts))});
}

namespace {

// What a backward piece updates beside its own work: the weights whose gradients came before it.
void set_updates_of_experts(Piece& piece, const Model& model, const BlockSizes& sizes) {
  piece.updated.inner = part_of(model.expert_ffn, sizes.parts);
  piece.updated.experts = model.experts / sizes.ep;
  piece.updated.shared = part_of(model.shared_ffn, sizes.parts);
  piece.updated.gated = model.gated;
  piece.updated.ranks = sizes.update_ranks / sizes.ep;
}

void set_updates_of_mlp(Piece& piece, const Model& model, const BlockSizes& sizes) {
  // Where tokens come back from other ranks or cores, experts are updated behind that.
  if (sizes.mixes && (sizes.ep > 1 || sizes.cores > 1)) return;
  if (sizes.mixes) return set_updates_of_experts(piece, model, sizes);
  piece.updated.inner = share_of(model, sizes.parts).ffn;
  piece.updated.gated = model.gated;
  piece.updated.ranks = sizes.update_ranks;
}

void set_updates_of_attention(Piece& piece, const Model& model, const BlockSizes& sizes) {
  const Share share = share_of(model, sizes);
  Updated& to = piece.updated;
  to.queries = share.queries;
  to.key_values = share.key_values;
  to.ranks = sizes.update_ranks;
  to.halves = sizes.by_rows && !model.latent();
  if (!model.latent()) return;
  to.query_rank = model.query_rank;
  to.kv_rank = model.kv_rank;
  to.rope = model.rope_dim;
  to.compressed = sizes.compresses;
  to.values = share.mixed;
}

}  // namespace

ExpertPieces expert_pieces(const Model& model, Precision precision, const BlockSizes& sizes) {
  Piece combine = base_of(model, precision, Part::kCombine, part_of(sizes.rows, sizes.cores));
  // Ranks that share a sequence have a run of its tokens each, of which experts take so many.
  combine.keys = sizes.queries;
  combine.experts = model.experts;
  combine.chosen = model.active_experts;
  combine.capacity = model.expert_capacity(double(sizes.queries));
  combine.halves = sizes.cores > 1;
  combine.biased = model.biases;
  if (!combine.halves) combine.shared = part_of(model.shared_ffn, sizes.parts);
  combine.gated = combine.shared > 0 && model.gated;
  // Sequences are cut over the cores, or else tokens of each.
  if (combine.halves && sizes.micro_batch % sizes.cores != 0) combine.context = sizes.cores;
  Piece route = combine;
  route.part = Part::kRoute;
  route.root_mean_square = !model.layer_norms();
  route.normed = sizes.norms_own_rows();
  route.chunks = sizes.chunks;
  Piece experts = base_of(model, precision, Part::kExperts, 0);
  experts.experts = model.experts / sizes.ep;
  experts.rows = sizes.ep * sizes.rows / sizes.queries * combine.capacity;
  experts.inner = part_of(model.expert_ffn, sizes.parts);
  experts.gated = model.gated;
  experts.biased = model.biases;
  experts.chunks = sizes.chunks;
  if (sizes.updates) set_updates_of_experts(route, model, sizes);
  if (sizes.updates && !sizes.norms_alone()) set_updates_of_attention(combine, model, sizes);
  ExpertPieces made{route, experts, combine};
  if (!combine.halves) return made;
  if (model.shared_ffn > 0) {
    made.shared = mlp_of(model, precision, sizes.rows, part_of(model.shared_ffn, sizes.parts));
    made.shared->part = Part::kMlpHalf;
    made.shared->chunks = sizes.chunks;
  }
  Piece piece = route;
  piece.updated = {};
  piece.normed = piece.root_mean_square = false;
  for (const Part part : {Part::kCounts, Part::kPlaces}) {
    piece.part = part;
    if (part == Part::kPlaces || piece.context > 0) made.behind_route.push_back(piece);
  }
  return made;
}

Piece without_shared(Piece piece) {
  piece.shared = 0;
  piece.gated = false;
  piece.updated = {};
  return piece;
}

std::optional<Piece> mixture_of(const Model& model, Precision precision, const BlockSizes& sizes) {
  if (sizes.ep > 1 || sizes.cores > 1) return std::nullopt;
  const ExpertPieces made = expert_pieces(model, precision, sizes);
  Piece piece = made.route;
  piece.part = Part::kMixture;
  piece.inner = made.experts.inner;
  piece.gated = model.gated;
  piece.updated = made.combine.updated;
  return piece;
}

bool experts_are_whole(const Model& model, Precision precision, const BlockSizes& sizes) {
  const bool has_halves =
      sizes.cores == 2 && sizes.context == 1 && sizes.keys % 2 == 0 && model.hidden % 2 == 0;
  if (model.expert_layers() == 0 || (model.latent() && !is_whole(model, precision, sizes)) || !model.causal ||
      (sizes.cores > 1 && !has_halves) || sizes.rows % sizes.queries != 0 || model.experts % sizes.ep != 0 ||
      model.expert_ffn % sizes.parts != 0 || model.shared_ffn % sizes.parts != 0)
    return false;
  const ExpertPieces made = expert_pieces(model, precision, sizes);
  return std::ranges::all_of(std::vector{made.route, made.experts, made.combine}, [](Piece each) {
    each.backward = true;
    return work_of(each) <= 2 * kWorkMost;
  });
}

// A decode step of latent attention, which reads the compressed keys and values as they lie: queries are
// taken into their space and results back out of it by the matrices that else would make keys and values of
// them (DeepSeek-V2, 2.1.2). Heads of a sequence share what is compressed, as queries of one head share its
// keys. The products by head have as many operations and weights as one of a head's rows by all heads'
// columns.
std::vector<Counted> latent_decode(const Model& model, Precision precision, const BlockSizes& sizes,
                                   bool with_experts) {
  const int64_t heads = share_of(model, sizes.parts).heads, rows = sizes.rows;
  std::vector<Counted> pieces{{norms_of(model, precision, rows)}};
  const auto linear = [&](int64_t in, int64_t out) {
    pieces.push_back({linear_of(model, precision, rows, in, out)});
  };
  const int64_t queries = heads * (model.nope_dim + model.rope_dim);
  if (model.query_rank > 0) linear(model.hidden, model.query_rank);
  linear(model.query_rank > 0 ? model.query_rank : model.hidden, queries);
  linear(model.hidden, model.kv_rank + model.rope_dim);
  linear(model.nope_dim, heads * model.kv_rank);
  Piece attention = base_of(model, precision, Part::kAttention, heads);
  attention.hidden = 0;
  attention.keys = sizes.keys;
  attention.heads = rows;
  attention.features = model.kv_rank + model.rope_dim;
  attention.values = model.kv_rank;
  pieces.push_back({attention});
  linear(model.kv_rank, heads * model.value_dim);
  linear(heads * model.value_dim, model.hidden);
  const int64_t inner = share_of(model, sizes.parts).ffn;
  if (!with_experts && inner > 0) pieces.push_back({mlp_of(model, precision, rows, inner)});
  if (with_experts) add_experts(pieces, model, precision, sizes);
  return pieces;
}

namespace {
// Both parts of attention whose ranks, or cores, meet for keys and values.
std::vector<Piece> around_keys(Piece piece, const BlockSizes& sizes) {
  if (sizes.context > 1) piece.context = sizes.context;
  Piece behind = piece;
  piece.part = Part::kBeforeKeys;
  behind.part = Part::kBehindKeys;
  behind.normed = false;
  behind.updated = {};
  return {piece, behind};
}

// Latent attention of a core's heads behind what the cores of its rank compress, each of half the tokens.
std::vector<Piece> around_compressed(const Model& model, Piece piece, const BlockSizes& sizes) {
  piece.normed = false;
  piece.compressed = true;
  Piece compress = norms_of(model, Precision::kBf16, part_of(sizes.rows, sizes.cores));
  compress.wide = piece.wide;
  compress.part = Part::kCompress;
  compress.keys = part_of(sizes.rows, sizes.cores);
  compress.chunks = sizes.chunks;
  compress.normed = sizes.norms_own_rows();
  set_latent(compress, model);
  if (sizes.updates && compress.normed) set_updates_of_mlp(compress, model, sizes);
  return {compress, piece};
}

}  // namespace

namespace {

Piece of_streams(const Model& model, Precision precision, const BlockSizes& sizes, Part part) {
  Piece piece = base_of(model, precision, part, sizes.rows);
  piece.keys = sizes.keys;
  piece.text = model.text_tokens;
  piece.biased = true;
  return piece;
}

}  // namespace

StreamPieces stream_pieces(const Model& model, Precision precision, const BlockSizes& sizes) {
  const int64_t parts = sizes.parts, h = model.hidden;
  StreamPieces made;
  made.start = of_streams(model, precision, sizes, Part::kJointStart);
  made.start.inner = model.patch_features;
  made.start.key_values = model.text_features;
  made.start.hidden = part_of(h, parts);
  made.start.selects = sizes.adds;
  made.velocity = of_streams(model, precision, sizes, Part::kVelocity);
  made.velocity.inner = part_of(model.patch_features, parts);
  const auto linear = [&](int64_t in, int64_t out) {
    return linear_of(model, precision, sizes.micro_batch, in, out);
  };
  constexpr int64_t kFrequencies = 256;
  made.time = {linear(kFrequencies, part_of(h, parts)), linear(model.pooled_features, part_of(h, parts)),
               linear(part_of(h, parts), h), linear(part_of(h, parts), h)};
  made.modulation = linear(h, part_of(12 * h, parts));
  made.last_modulation = linear(h, part_of(2 * h, parts));
  return made;
}

std::vector<Piece> attention_half(const Model& model, Precision precision, const BlockSizes& sizes) {
  if (model.streams > 1) {
    Piece piece = of_streams(model, precision, sizes, Part::kJointAttention);
    piece.heads = piece.kv_heads = share_of(model, sizes).heads;
    piece.features = model.head_dim;
    piece.normed = !sizes.norms_alone();
    if (sizes.by_rows && sizes.has_own_sequences()) {
      piece.rows = part_of(sizes.rows, sizes.cores);
      piece.halves = true;
    }
    if (sizes.updates && piece.normed) set_updates_of_mlp(piece, model, sizes);
    return {piece};
  }
  const Share share = share_of(model, sizes);
  Piece piece = norms_of(model, precision, sizes.rows);
  piece.part = Part::kAttentionHalf;
  piece.keys = sizes.keys;
  piece.heads = share.heads;
  piece.kv_heads = share.kv_heads;
  piece.features = model.latent() ? model.nope_dim + model.rope_dim : model.head_dim;
  if (model.latent()) set_latent(piece, model);
  if (model.latent() && model.value_dim != piece.features) piece.values = model.value_dim;
  piece.chunks = sizes.chunks;
  piece.causal = model.causal && (sizes.causal || sizes.context > 1);
  if (!model.latent() && model.kv_heads % (sizes.parts / sizes.cores) != 0 && share.kv_heads > 1)
    piece.shared = model.heads / model.kv_heads;
  piece.rotary = model.positions == 0 && model.causal;
  if (sizes.in_window) piece.window = model.window;
  piece.normed = !sizes.norms_alone();
  if (sizes.compresses) return around_compressed(model, piece, sizes);
  if (!sizes.by_rows) {
    if (sizes.updates && piece.normed) set_updates_of_mlp(piece, model, sizes);
    return sizes.context > 1 ? around_keys(piece, sizes) : std::vector<Piece>{piece};
  }
  piece.rows = part_of(sizes.rows, sizes.cores);
  piece.halves = true;
  // Of what ranks have gathered a core takes its part of each sequence; whole sequences cores exchange
  // before.
  piece.selects = !piece.normed && !(sizes.has_own_sequences() && sizes.context == 1);
  if (sizes.updates && piece.normed) set_updates_of_attention(piece, model, sizes);
  if (sizes.has_own_sequences() && sizes.context == 1) return {piece};
  return around_keys(piece, sizes);
}

Piece mlp_half(const Model& model, Precision precision, const BlockSizes& sizes) {
  if (model.streams > 1) {
    Piece piece = of_streams(model, precision, sizes, Part::kJointMlp);
    piece.inner = share_of(model, sizes.parts).ffn;
    piece.normed = sizes.norms_all_rows();
    if (sizes.updates && sizes.norms_all_rows()) set_updates_of_attention(piece, model, sizes);
    return piece;
  }
  Piece piece = mlp_of(model, precision, sizes.rows, share_of(model, sizes.parts).ffn);
  piece.part = Part::kMlpHalf;
  piece.chunks = sizes.chunks;
  piece.root_mean_square = !model.layer_norms();
  piece.biased = model.biases;
  piece.normed = sizes.norms_all_rows();
  if (sizes.updates && sizes.norms_all_rows()) set_updates_of_attention(piece, model, sizes);
  return piece;
}

Piece norm_of(const Model& model, Precision precision, const BlockSizes& sizes) {
  if (model.streams > 1 && !sizes.norms_all_rows()) {
    Piece piece = of_streams(model, precision, sizes, Part::kJointNorm);
    if (sizes.has_own_sequences())
      piece.rows = sizes.normed_rows;
    else
      piece.selects = true;  // halves of both streams
    return piece;
  }
  Piece piece = norms_of(model, precision, sizes.norm_rows());
  piece.part = Part::kNorm;
  return piece;
}

// Of norms that stand alone, the one behind a half's backward piece updates the weights of that half.
Piece norm_behind(const Model& model, Precision precision, const BlockSizes& sizes, bool mlp) {
  Piece piece = norm_of(model, precision, sizes);
  if (!sizes.updates) return piece;
  mlp ? set_updates_of_mlp(piece, model, sizes) : set_updates_of_attention(piece, model, sizes);
  return piece;
}

bool has_whole_windows(const Model& model, const BlockSizes& sizes) {
  // Cores with halves of each sequence have whole blocks.
  const bool has_halves = sizes.by_rows && !sizes.has_own_sequences();
  return windowed(model, sizes.keys) > 0 && sizes.context == 1 && !model.latent() &&
         (!has_halves || sizes.keys % (sizes.cores * model.window) == 0);
}

bool is_whole(const Model& model, Precision precision, const BlockSizes& sizes) {
  if (sizes.queries * sizes.context != sizes.keys) return false;
  // Of two streams no rank has a part of the tokens; cores have sequences, or halves of both streams.
  if (model.streams > 1 && (sizes.context > 1 || sizes.normed_rows != part_of(sizes.rows, sizes.cores)))
    return false;
  double work = 0;
  for (Piece piece : attention_half(model, precision, sizes)) {
    if (piece.kv_heads > 0 && piece.shared == 0 && piece.heads % piece.kv_heads != 0) return false;
    piece.backward = true;
    work += work_of(piece);
  }
  return sizes.rows % sizes.queries == 0 && work <= 2 * kWorkMost;
}

// A training block, cut where its rank meets others.
std::vector<Counted> halves_of(const Model& model, Precision precision, const BlockSizes& sizes,
                               bool with_experts) {
  std::vector<Counted> pieces;
  double norms = 0;
  const bool whole_experts = with_experts && experts_are_whole(model, precision, sizes);
  if (whole_experts ? !sizes.norms_own_rows() : !sizes.norms_all_rows())
    pieces.push_back({norm_behind(model, precision, sizes, true)});
  if (sizes.norms_alone()) pieces.push_back({norm_behind(model, precision, sizes, false)});
  // Layers whose attention sees a window, and attention that is too large, are cut further.
  BlockSizes in_window = sizes;
  in_window.in_window = has_whole_windows(model, sizes);
  const bool has_window = in_window.in_window && is_whole(model, precision, in_window);
  if (has_window)
    for (const Piece& piece : attention_half(model, precision, in_window))
      pieces.push_back({piece, windowed(model, sizes.keys)});
  const double window = has_window ? 0 : windowed(model, sizes.keys);
  const double rest = has_window ? 1 - windowed(model, sizes.keys) : 1;
  const double whole = is_whole(model, precision, sizes) ? rest - window : 0;
  if (whole > 0)
    for (const Piece& piece : attention_half(model, precision, sizes)) pieces.push_back({piece, whole});
  if (whole < rest) {
    if (whole > 0)
      pieces.push_back({window_of(model, attention_of(model, precision, sizes)), window});
    else if (has_window)
      pieces.push_back({attention_of(model, precision, sizes), rest});
    else
      add_attention(pieces, model, precision, sizes);
    pieces.push_back({products_of(model, precision, sizes.rows, sizes.parts, 0), rest - whole});
    if (sizes.norms_all_rows()) norms += rest - whole;
  }
  if (const auto mixture = whole_experts ? mixture_of(model, precision, sizes) : std::nullopt) {
    pieces.push_back({*mixture});
  } else if (whole_experts) {
    const ExpertPieces made = expert_pieces(model, precision, sizes);
    for (const Piece& each : {made.route, made.experts, made.combine}) pieces.push_back({each});
    for (const Piece& each : made.behind_route) pieces.push_back({each});
    if (made.shared) pieces.push_back({*made.shared});
  } else if (with_experts) {
    add_experts(pieces, model, precision, sizes);
    if (sizes.norms_all_rows()) ++norms;
  } else {
    pieces.push_back({mlp_half(model, precision, sizes)});
  }
  if (norms > 0) pieces.push_back({norm_of(model, precision, sizes), norms});
  return pieces;
}

std::vector<Counted> pieces_of(const Model& model, Precision precision, const BlockSizes& sizes,
                               bool with_experts) {
  std::vector<Counted> pieces{{norms_of(model, precision, sizes.normed_rows)}};
  add_attention(pieces, model, precision, sizes);
  const int64_t inner = with_experts ? 0 : share_of(model, sizes.parts).ffn;
  if (model.latent()) {
    add_latent(pieces, model, precision, sizes);
    if (inner > 0) pieces.push_back({mlp_of(model, precision, sizes.rows, inner)});
  } else if (model.streams > 1) {
    // Text and image have weights of their own, and scales and shifts by the time step.
    const int64_t seq = std::max<int64_t>(1, sizes.keys);
    const int64_t text = std::clamp<int64_t>(sizes.rows * model.text_tokens / seq, 1, sizes.rows - 1);
    for (const int64_t rows : {sizes.rows - text, text}) {
      pieces.push_back({products_of(model, precision, rows, sizes.parts, inner)});
      pieces.push_back({linear_of(model, precision, sizes.micro_batch, model.hidden,
                                  part_of(6 * int64_t{model.hidden}, sizes.parts))});
    }
  } else {
    pieces.push_back({products_of(model, precision, sizes.rows, sizes.parts, inner)});
  }
  if (with_experts) add_experts(pieces, model, precision, sizes);
  return pieces;
}

}  // namespace opentrn::planner::compiled
