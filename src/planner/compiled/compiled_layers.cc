#include "planner/compiled/compiled_layers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::planner::compiled {
namespace {

// Of one program: above it, two smaller ones give the line. Its compilation takes about a second.
constexpr double kWorkMost = 60e9;
constexpr int64_t kRowsLeast = 128;

// What one of `parts` cores has of a block; what they do not divide is filled up.
struct Share {
  int64_t heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0;
};

int64_t part_of(int64_t whole, int64_t parts) { return (whole + parts - 1) / parts; }

Share share_of(const Model& model, int64_t parts) {
  return {part_of(model.heads, parts), part_of(model.kv_heads, parts), part_of(model.ffn, parts),
          part_of(static_cast<int64_t>(model.vocabulary), parts)};
}

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
      return (piece.backward ? 4 : 2) * d(piece.rows) * d(piece.hidden) * d(piece.features) *
                 (2 * d(piece.heads) + 2 * d(piece.kv_heads)) +
             (piece.backward ? 10 : 4) * d(piece.rows) * d(piece.keys) * d(piece.features) * d(piece.heads);
    case Part::kMlpHalf:
      return (piece.backward ? 4 : 2) * d(piece.rows) * d(piece.hidden) * (piece.gated ? 3 : 2) *
             d(piece.inner);
    case Part::kNorm: return 100 * 20 * d(piece.rows) * d(piece.hidden);
    case Part::kLogits: return 2 * d(piece.rows) * d(piece.hidden) * d(piece.inner);
    case Part::kShares: return 100 * 10 * d(piece.rows) * d(piece.inner);
    case Part::kLogitsBackward: return 4 * d(piece.rows) * d(piece.hidden) * d(piece.inner);
    // A row takes about as long as its way to memory and back.
    case Part::kEmbedding: return 2e8 * d(piece.rows);
    case Part::kOptimizer: return 2e4 * d(piece.rows) * d(piece.hidden);
  }
  OPENTRN_CHECK(false, "a part without work");
}

// Time of a piece whose `size` (rows or heads) may be large: the line through two that are small enough.
PieceTime along(PieceTimes& times, Piece piece, int64_t Piece::*size, int64_t least) {
  const int64_t wanted = piece.*size;
  const double each = work_of(piece) / double(wanted);
  int64_t most = std::max<int64_t>(least, static_cast<int64_t>(kWorkMost / each));
  most = static_cast<int64_t>(std::pow(2.0, std::floor(std::log2(double(most)))));
  if (wanted <= 2 * most) return times.time(piece);
  piece.*size = most;
  const PieceTime first = times.time(piece);
  piece.*size = 2 * most;
  const PieceTime second = times.time(piece);
  return second + double(wanted - 2 * most) / double(most) * (second + -1 * first);
}

PieceTime rows_of(PieceTimes& times, const Piece& piece) {
  return along(times, piece, &Piece::rows, kRowsLeast);
}

}  // namespace

CompiledLayers::CompiledLayers(std::optional<std::filesystem::path> folder) : folder_(std::move(folder)) {}

PieceTimes& CompiledLayers::times_of(const Machine& machine) {
  auto& made = times_[*machine.generation];
  if (!made) made = std::make_unique<PieceTimes>(*machine.generation, folder_);
  return *made;
}

int64_t CompiledLayers::compiled() const {
  int64_t count = 0;
  for (const auto& [generation, times] : times_) count += times->compiled();
  return count;
}

std::string not_compiled_because(const Model& model, Precision precision, const Machine& machine) {
  if (machine.kind != Kind::kNeuron || !machine.generation)
    return fmt::format("OpenTrn's compiler has no code for a {}", machine.chip);
  if (precision == Precision::kFp8) return "float8 is not compiled";
  return {};
}

namespace {

// A piece, and how many of it a block has on one core.
struct Counted {
  Piece piece;
  double count = 1;
};

// What the pieces of a block are made for.
struct BlockSizes {
  int64_t rows = 0;         // tokens of a rank
  int64_t normed_rows = 0;  // of norms and residuals, which sequence parallelism cuts
  int64_t micro_batch = 1;
  int64_t queries = 0, keys = 0;  // attention's positions
  bool causal = false;
  int64_t parts = 1;         // cores that heads and widths are cut over
  double local_experts = 0;  // of a rank
  double attended = 1;       // of attention, by a rank of a ring
  bool adds = false;         // gradients to those of micro-batches before
  bool updates = false;      // weights, beside the backward pass of the only micro-batch
  bool again = false;        // blocks run forward again before their backward pass
  bool norms_all_rows() const { return normed_rows == rows; }
};

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

Piece norms_of(const Model& model, Precision precision, int64_t rows) {
  Piece piece = base_of(model, precision, Part::kNorms, rows);
  piece.root_mean_square = !model.biases;
  return piece;
}

Piece output_of(const Model& model, Precision precision, int64_t rows, int64_t parts) {
  Piece piece = norms_of(model, precision, rows);
  piece.part = Part::kOutput;
  piece.inner = share_of(model, parts).vocabulary;
  return piece;
}

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

// Of the layers, those whose attention sees a window of what came before, where that is less than all.
double windowed(const Model& model, int64_t keys) {
  return model.layers > 0 && model.window > 0 && model.window < keys
             ? double(model.window_layers) / model.layers
             : 0;
}

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
  if (share < 1) pieces.push_back({whole, (1 - share) * sizes.attended});
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

// What a backward piece updates beside its own work: the weights whose gradients came before it.
void set_updates_of_mlp(Piece& piece, const Model& model, const BlockSizes& sizes) {
  piece.inner = share_of(model, sizes.parts).ffn;
  piece.gated = model.gated;
}

void set_updates_of_attention(Piece& piece, const Model& model, const BlockSizes& sizes) {
  const Share share = share_of(model, sizes.parts);
  piece.queries = share.heads * model.head_dim;
  piece.key_values = share.kv_heads * model.head_dim;
}

// From the norm before attention to its output layer.
Piece attention_half(const Model& model, Precision precision, const BlockSizes& sizes) {
  const Share share = share_of(model, sizes.parts);
  Piece piece = norms_of(model, precision, sizes.rows);
  piece.part = Part::kAttentionHalf;
  piece.keys = sizes.keys;
  piece.heads = share.heads;
  piece.kv_heads = share.kv_heads;
  piece.features = model.head_dim;
  piece.causal = sizes.causal;
  piece.rotary = model.positions == 0 && model.causal;
  piece.normed = sizes.norms_all_rows();
  if (sizes.updates && sizes.norms_all_rows()) set_updates_of_mlp(piece, model, sizes);
  return piece;
}

Piece mlp_half(const Model& model, Precision precision, const BlockSizes& sizes) {
  Piece piece = mlp_of(model, precision, sizes.rows, share_of(model, sizes.parts).ffn);
  piece.part = Part::kMlpHalf;
  piece.root_mean_square = !model.biases;
  piece.normed = sizes.norms_all_rows();
  if (sizes.updates && sizes.norms_all_rows()) set_updates_of_attention(piece, model, sizes);
  return piece;
}

Piece norm_of(const Model& model, Precision precision, const BlockSizes& sizes) {
  Piece piece = norms_of(model, precision, sizes.normed_rows);
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

// Whether attention is compiled from its norm to its output layer.
bool is_whole(const Model& model, const Piece& half, const BlockSizes& sizes) {
  Piece backward = half;
  backward.backward = true;
  return !model.latent() && model.streams == 1 && sizes.queries == sizes.keys && sizes.attended == 1 &&
         half.heads % half.kv_heads == 0 && half.rows % half.keys == 0 && work_of(backward) <= 2 * kWorkMost;
}

// A training block, cut where its rank meets others.
std::vector<Counted> halves_of(const Model& model, Precision precision, const BlockSizes& sizes,
                               bool with_experts) {
  std::vector<Counted> pieces;
  const Piece attention = attention_half(model, precision, sizes);
  double norms = 0;
  if (!sizes.norms_all_rows())
    for (const bool mlp : {true, false}) pieces.push_back({norm_behind(model, precision, sizes, mlp)});
  // Layers whose attention sees a window, and attention that is too large, are cut further.
  const double window = windowed(model, sizes.keys);
  const double whole = is_whole(model, attention, sizes) ? 1 - window : 0;
  if (whole > 0) pieces.push_back({attention, whole});
  if (whole < 1) {
    if (whole > 0)
      pieces.push_back({window_of(model, attention_of(model, precision, sizes)), window});
    else
      add_attention(pieces, model, precision, sizes);
    pieces.push_back({products_of(model, precision, sizes.rows, sizes.parts, 0), 1 - whole});
    if (sizes.norms_all_rows()) norms += 1 - whole;
  }
  if (with_experts) {
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

// Tokens copied to their experts and back: by the memory's rate, in no program.
double routing_s(const Model& model, Precision precision, const Machine& machine, int64_t rows) {
  const double element = precision == Precision::kFp32 ? 4 : 2;
  return 4 * element * model.active_experts * model.hidden * double(rows) /
         (machine.rates.memory_bytes_s / machine.cores_per_rank);
}

// `adds`: weights' gradients to those of micro-batches before.
PieceTime time_of(PieceTimes& times, Piece piece, bool backward, bool adds, bool updates = false) {
  piece.backward = backward;
  const bool of_mlp = piece.part != Part::kMlpHalf && piece.inner > 0, of_attention = piece.queries > 0;
  const bool may =
      piece.part == Part::kAttentionHalf || piece.part == Part::kMlpHalf || piece.part == Part::kNorm;
  piece.updates = backward && updates && may && (of_mlp || of_attention);
  if (may && !piece.updates) {
    piece.queries = piece.key_values = 0;
    if (of_mlp) piece.inner = 0;
    if (of_mlp) piece.gated = false;
  }
  piece.adds = backward && adds && piece.part != Part::kNorms && piece.part != Part::kAttention;
  if (piece.part == Part::kAttentionHalf) return times.time(piece);
  return piece.part == Part::kAttention ? along(times, piece, &Piece::heads, 1) : rows_of(times, piece);
}

double seconds_of(PieceTimes& times, const Piece& piece, bool backward, bool adds, bool updates = false) {
  return time_of(times, piece, backward, adds, updates).seconds;
}

// A forward pass of an MLP whose result the backward pass does not read.
PieceTime again_of(PieceTimes& times, Piece piece) {
  piece.again = true;
  return time_of(times, piece, false, false);
}

// Of a backward pass, the weights' gradients: one half of that through products. The backward pass computes
// attention's weights again: nothing is left for selective recomputation.
double weights_share(Piece piece) {
  switch (piece.part) {
    case Part::kNorms:
    case Part::kNorm:
    case Part::kAttention: return 0;
    case Part::kAttentionHalf: {
      piece.backward = true;
      const double all = work_of(piece);
      piece.keys = 0;
      return work_of(piece) / all / 2;
    }
    default: return 0.5;
  }
}

BlockTime block_of(PieceTimes& times, const Model& model, Precision precision, const Machine& machine,
                   const BlockSizes& sizes, bool with_experts) {
  BlockTime out;
  double again = 0;
  const bool is_cut = model.latent() || model.streams > 1;
  for (const Counted& each : is_cut ? pieces_of(model, precision, sizes, with_experts)
                                    : halves_of(model, precision, sizes, with_experts)) {
    const double backward = each.count * seconds_of(times, each.piece, true, sizes.adds, sizes.updates);
    out.forward += each.count * seconds_of(times, each.piece, false, false);
    out.backward += backward;
    out.weights += weights_share(each.piece) * backward;
    if (sizes.again)
      again += each.count * (each.piece.part == Part::kMlpHalf ? again_of(times, each.piece).seconds
                                                               : seconds_of(times, each.piece, false, false));
  }
  if (sizes.again && !is_cut && !with_experts) out.again = again;
  if (with_experts) {
    const double routing = routing_s(model, precision, machine, sizes.rows);
    out.forward += routing;
    out.backward += routing;
  }
  return out;
}

// The output layer and the loss, both ways: cut where ranks that share the vocabulary meet, also where it is
// one rank, as the exported step is.
double output_s(PieceTimes& times, const Model& model, Precision precision, const BlockSizes& sizes) {
  Piece piece = output_of(model, precision, sizes.rows, sizes.parts);
  double seconds = 0;
  for (const Part part : {Part::kLogits, Part::kShares, Part::kLogitsBackward}) {
    piece.part = part;
    piece.backward = part == Part::kLogitsBackward;
    piece.normed = piece.backward && sizes.norms_all_rows();
    piece.adds = piece.backward && sizes.adds;
    seconds += rows_of(times, piece).seconds;
  }
  if (sizes.norms_all_rows()) return seconds;
  return seconds + seconds_of(times, norm_of(model, precision, sizes), true, sizes.adds);
}

// Adam's time by the number of parameters, and what each further tensor of a program takes beside it.
void set_optimizer(PieceTimes& times, const Machine& machine, bool wide, LayerTimes& out) {
  constexpr int64_t kLarge = 1024, kSmall = 128, kColumns = 1024;
  Piece piece;
  piece.part = Part::kOptimizer;
  piece.wide = wide;
  piece.hidden = kColumns;
  const auto seconds = [&](int64_t rows, int64_t tensors) {
    piece.rows = rows;
    piece.heads = tensors;
    return times.seconds(piece);
  };
  const double small = seconds(kSmall, 1);
  const double each = std::max(0.0, seconds(kLarge, 1) - small) / double((kLarge - kSmall) * kColumns);
  out.optimizer_s_of_parameter = each / machine.cores_per_rank;
  out.optimizer_s_of_tensor = std::max(0.0, seconds(kSmall, 2) - small - each * double(kSmall * kColumns));
}

// A tensor of weights that a rank updates: `rows` and `columns` as TP leaves them.
struct Weight {
  int64_t rows = 0, columns = 0;
  bool cuts_columns = false;  // ZeRO cuts those, as TP cuts the rows
  double count = 1;
};

// Of tensors together, as a rank updates them.
struct Updates {
  double seconds = 0, parameters = 0;
};

// Tensors of small models end within a few tiles, and copies of short rows are slow: those below the size of
// one program take their own time each, beside others in a program.
void add_update(PieceTimes& times, Weight weight, const Layout& layout, bool wide, double large_s,
                Updates& to) {
  int64_t& cut = weight.cuts_columns ? weight.columns : weight.rows;
  if (layout.zero >= 1 && cut % layout.dp == 0) cut /= layout.dp;
  const double parameters = double(weight.rows) * double(weight.columns);
  Piece piece;
  piece.part = Part::kOptimizer;
  piece.wide = wide;
  piece.rows = weight.rows;
  piece.hidden = weight.columns;
  double seconds = parameters * large_s;
  if (work_of(piece) <= kWorkMost) {
    piece.heads = 2;
    const double two = times.seconds(piece);
    piece.heads = 1;
    seconds = std::max(0.0, two - times.seconds(piece));
  }
  to.seconds += weight.count * seconds;
  to.parameters += weight.count * parameters;
}

// A parameter's time, of all tensors or of those that the backward passes leave. The cores of a rank update a
// part of each.
void set_optimizer_by_tensor(PieceTimes& times, const Model& model, const Machine& machine,
                             const Layout& layout, const BlockSizes& sizes, bool wide, LayerTimes& out) {
  const Share share = share_of(model, sizes.parts);
  const int64_t queries = share.heads * model.head_dim, shared = share.kv_heads * model.head_dim;
  const auto vocabulary = static_cast<int64_t>(model.vocabulary);
  std::vector<Weight> weights{{1, model.hidden, true}};
  if (vocabulary > 0) weights.push_back({vocabulary, part_of(model.hidden, sizes.parts)});
  if (vocabulary > 0 && !model.tied) weights.push_back({model.hidden, share.vocabulary});
  const double layers = model.layers;
  if (!sizes.updates)
    weights.insert(weights.end(), {{1, model.hidden, true, 2 * layers},
                                   {model.hidden, queries, false, layers},
                                   {model.hidden, shared, false, 2 * layers},
                                   {queries, model.hidden, true, layers},
                                   {model.hidden, share.ffn, false, (model.gated ? 2 : 1) * layers},
                                   {share.ffn, model.hidden, true, layers}});
  Updates all;
  const double cores = machine.cores_per_rank;
  for (const Weight& each : weights)
    add_update(times, each, layout, wide, cores * *out.optimizer_s_of_parameter, all);
  out.optimizer_s_of_parameter = all.seconds / all.parameters / cores;
  out.optimizer_s_of_tensor = 0;
}

// Pieces of a step, as its program runs them; `out` is what layers() has found.
MicroBatchPasses passes_of(PieceTimes& times, const Job& job, const Machine& machine, const Layout& layout,
                           const BlockSizes& sizes, const Piece& embedding, const LayerTimes& out) {
  const Model& model = job.model;
  const Share share = share_of(model, sizes.parts);
  const double element = job.precision == Precision::kFp32 ? 4 : 2, h = model.hidden;
  const double cores = machine.cores_per_rank;
  const auto bytes = [&](double columns) { return h * columns * cores * element; };
  const double queries = bytes(double(share.heads) * model.head_dim),
               shared = bytes(double(share.kv_heads) * model.head_dim), inner = bytes(double(share.ffn));
  const double of_attention = 2 * (queries + shared), of_mlp = (model.gated ? 3 : 2) * inner;
  MicroBatchPasses step;
  const auto passes = [&](const Piece& half, std::vector<WeightTensor> weights) {
    const bool mlp = half.part == Part::kMlpHalf;
    HalfPasses made;
    made.forward = time_of(times, half, false, false);
    made.backward = time_of(times, half, true, sizes.adds, sizes.updates);
    made.again = made.forward;
    made.weights = std::move(weights);
    if (mlp && sizes.again) made.again = again_of(times, half);
    if (!sizes.norms_all_rows()) {
      const Piece norm = norm_behind(model, job.precision, sizes, mlp);
      made.norm = time_of(times, norm, false, false);
      made.norm_backward = time_of(times, norm, true, sizes.adds, sizes.updates);
    }
    // Updates come behind a piece's own work (of the other half, or behind a norm alone of its own), and so
    // does the last gradient that is added up.
    const auto before = [](double behind_s, double all_s) {
      return std::clamp(1 - behind_s / all_s, 0.5, 1.0);
    };
    const double updated = mlp == sizes.norms_all_rows() ? of_attention : of_mlp;
    const double updates_s = sizes.updates ? updated / element * *out.optimizer_s_of_parameter : 0;
    const double added_s = sizes.adds ? 3 * made.weights.back().bytes / machine.rates.memory_bytes_s : 0;
    const bool is_alone = made.norm_backward.seconds > 0;
    made.given_at = before(added_s + (is_alone ? 0 : updates_s), made.backward.seconds);
    if (is_alone) made.normed_at = before(updates_s, made.norm_backward.seconds);
    return made;
  };
  step.layers = model.layers;
  // The output layer's gradient comes before attention's inside, the projections' behind it.
  step.attention = passes(attention_half(model, job.precision, sizes),
                          {{queries, 0.1}, {queries, 0.75}, {shared, 0.8}, {shared, 0.85}});
  std::vector<WeightTensor> mlp{{inner, 0.33}, {inner, 0.67}};
  if (model.gated) mlp.push_back({inner, 0.9});
  step.mlp = passes(mlp_half(model, job.precision, sizes), std::move(mlp));
  step.embedding = time_of(times, embedding, false, false);
  step.embedding_backward = time_of(times, embedding, true, sizes.adds);
  Piece output = output_of(model, job.precision, sizes.rows, sizes.parts);
  output.part = Part::kLogits;
  step.logits = rows_of(times, output);
  output.part = Part::kShares;
  step.shares = rows_of(times, output);
  output.part = Part::kLogitsBackward;
  output.backward = true;
  output.normed = sizes.norms_all_rows();
  output.adds = sizes.adds;
  step.logits_backward = rows_of(times, output);
  if (!sizes.norms_all_rows()) {
    step.norm = time_of(times, norm_of(model, job.precision, sizes), false, false);
    step.norm_backward = time_of(times, norm_of(model, job.precision, sizes), true, sizes.adds);
  }
  step.embedding_bytes = bytes(model.vocabulary / double(sizes.parts));
  step.output_bytes = model.tied ? 0 : step.embedding_bytes;
  step.activation_bytes = double(sizes.rows) * h * element;
  step.token_bytes = double(sizes.rows) * sizeof(float);
  step.recompute = sizes.again;
  step.updates = sizes.updates;
  const bool is_one = job.global_batch <= double(layout.dp) * layout.micro_batch && !layout.offload;
  step.sums = layout.dp > 1 && (sizes.updates || layout.zero >= 3 || (is_one && layout.zero >= 1));
  if (is_one && out.optimizer_s_of_parameter) {
    constexpr double kReadAndWritten = 28;  // of a parameter: three float32 both ways, gradient and weight
    const double all = model.parameters() / double(sizes.parts) / layout.dp;
    const double parameters = sizes.updates ? step.embedding_bytes / element / cores : all;
    step.optimizer = {parameters * *out.optimizer_s_of_parameter * cores, parameters * kReadAndWritten};
  }
  return step;
}

}  // namespace

std::optional<LayerTimes> CompiledLayers::layers(const Job& job, const Machine& machine, const Layout& layout,
                                                 std::string& why) {
  const Model& model = job.model;
  why = not_compiled_because(model, job.precision, machine);
  const int64_t parts = int64_t{layout.tp} * machine.cores_per_rank;
  if (why.empty() && (model.heads % parts != 0 || model.ffn % parts != 0))
    why = fmt::format("{} cores do not divide {} heads and a width of {}", parts, model.heads, model.ffn);
  if (!why.empty()) return std::nullopt;
  BlockSizes sizes;
  sizes.rows = static_cast<int64_t>(layout.micro_batch * job.seq / layout.cp);
  sizes.normed_rows = part_of(sizes.rows, machine.cores_per_rank * (layout.sp ? layout.tp : 1));
  sizes.micro_batch = layout.micro_batch;
  sizes.queries = static_cast<int64_t>(job.seq) / layout.cp;
  sizes.keys = static_cast<int64_t>(job.seq);
  sizes.causal = model.causal && layout.cp == 1;
  sizes.parts = parts;
  sizes.local_experts = double(model.experts) / layout.ep;
  sizes.attended = model.causal && layout.cp > 1 ? 0.5 : 1;
  sizes.again = layout.recompute == Recompute::kFull;
  sizes.adds = layout.zero < 3 && job.global_batch > double(layout.dp) * layout.micro_batch;
  // The only micro-batch's gradients are complete while its backward pass goes on.
  sizes.updates = !sizes.adds && layout.zero == 0 && !layout.offload && layout.pp == 1 &&
                  model.expert_layers() == 0 && windowed(model, sizes.keys) == 0 &&
                  is_whole(model, attention_half(model, job.precision, sizes), sizes);
  Piece embedding;
  embedding.part = Part::kEmbedding;
  embedding.rows = sizes.rows;
  embedding.inner = static_cast<int64_t>(model.vocabulary);
  embedding.hidden = part_of(model.hidden, parts);
  embedding.wide = job.precision == Precision::kFp32;
  try {
    PieceTimes& times = times_of(machine);
    LayerTimes out;
    if (model.expert_layers() < model.layers)
      out.block = block_of(times, model, job.precision, machine, sizes, false);
    if (model.expert_layers() > 0)
      out.expert_block = block_of(times, model, job.precision, machine, sizes, true);
    if (model.vocabulary > 0) out.output_s = output_s(times, model, job.precision, sizes);
    if (model.vocabulary > 0)
      out.embedding_s =
          seconds_of(times, embedding, false, false) + seconds_of(times, embedding, true, sizes.adds);
    set_optimizer(times, machine, embedding.wide, out);
    if (layout.pp == 1 && model.expert_layers() == 0 && !model.latent() && model.streams == 1)
      set_optimizer_by_tensor(times, model, machine, layout, sizes, embedding.wide, out);
    out.add_gradients = sizes.adds;
    out.update_blocks = sizes.updates;
    const bool is_known = layout.pp == 1 && layout.cp == 1 && layout.shard == 0 &&
                          model.expert_layers() == 0 && model.vocabulary > 0 &&
                          windowed(model, sizes.keys) == 0 &&
                          is_whole(model, attention_half(model, job.precision, sizes), sizes);
    if (is_known)
      out.waits = collective_waits(passes_of(times, job, machine, layout, sizes, embedding, out), machine,
                                   layout, collectives_);
    return out;
  } catch (const Fault& fault) {
    if (fault.kind() == FaultKind::kInternal) throw;
    why = fault.message();
    return std::nullopt;
  }
}

std::optional<ServeTimes> CompiledLayers::serve(const Model& model, Precision precision,
                                                const Machine& machine, int tp, const ServeStep& step,
                                                std::string& why) {
  why = not_compiled_because(model, precision, machine);
  if (!why.empty()) return std::nullopt;
  BlockSizes sizes;
  sizes.parts = int64_t{tp} * machine.cores_per_rank;
  sizes.rows = step.sequences * step.tokens;
  sizes.normed_rows = part_of(sizes.rows, machine.cores_per_rank);
  sizes.micro_batch = step.sequences;
  sizes.queries = step.tokens;
  sizes.keys = step.context;
  sizes.causal = model.causal && step.tokens == step.context;
  // Experts are cut over the ranks; a few sequences meet a few of them.
  sizes.local_experts = std::min<double>(model.experts, double(sizes.rows) * model.active_experts);
  const double with_experts = model.layers > 0 ? double(model.expert_layers()) / model.layers : 0;
  try {
    PieceTimes& times = times_of(machine);
    ServeTimes out;
    out.output_s = times.seconds(output_of(model, precision, step.sequences, sizes.parts));
    const auto sum = [&](const std::vector<Counted>& pieces, bool experts) {
      double seconds = experts ? routing_s(model, precision, machine, sizes.rows) : 0;
      for (const Counted& each : pieces) seconds += each.count * seconds_of(times, each.piece, false, false);
      return seconds;
    };
    const auto pass = [&](bool experts) { return sum(pieces_of(model, precision, sizes, experts), experts); };
    const auto decode = [&](bool experts) {
      if (model.latent()) return sum(latent_decode(model, precision, sizes, experts), experts);
      const Share share = share_of(model, sizes.parts);
      Piece piece = norms_of(model, precision, step.sequences);
      piece.part = Part::kDecode;
      piece.keys = step.context;
      piece.kv_heads = share.kv_heads;
      piece.heads = part_of(share.heads, share.kv_heads) * share.kv_heads;
      piece.features = model.head_dim;
      piece.inner = experts ? 0 : share.ffn;
      piece.gated = !experts && model.gated;
      const double in_window = windowed(model, step.context);
      double seconds = in_window < 1 ? (1 - in_window) * times.seconds(piece) : 0;
      if (in_window > 0) {
        piece.keys = model.window;
        seconds += in_window * times.seconds(piece);
      }
      if (!experts) return seconds;
      std::vector<Counted> more;
      add_experts(more, model, precision, sizes);
      for (const Counted& each : more) seconds += each.count * seconds_of(times, each.piece, false, false);
      return seconds + routing_s(model, precision, machine, sizes.rows);
    };
    const auto block = [&](bool experts) { return step.tokens > 1 ? pass(experts) : decode(experts); };
    if (with_experts < 1) out.block_s += (1 - with_experts) * block(false);
    if (with_experts > 0) out.block_s += with_experts * block(true);
    return out;
  } catch (const Fault& fault) {
    if (fault.kind() == FaultKind::kInternal) throw;
    why = fault.message();
    return std::nullopt;
  }
}

}  // namespace opentrn::planner::compiled
