#include "planner/compiled/compiled_layers.h"

#include <algorithm>
#include <cmath>

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
    case Part::kAttention:
      return (piece.backward ? 10 : 4) * d(piece.rows) * d(piece.keys) * d(piece.features) * d(piece.heads);
    case Part::kOutput: return (piece.backward ? 6 : 2) * d(piece.rows) * d(piece.hidden) * d(piece.inner);
    case Part::kDecode: return 0;
    // A row takes about as long as its way to memory and back.
    case Part::kEmbedding: return 2e8 * d(piece.rows);
    case Part::kOptimizer: return 2e4 * d(piece.rows) * d(piece.hidden);
  }
  OPENTRN_CHECK(false, "a part without work");
}

// Time of a piece whose `size` (rows or heads) may be large: the line through two that are small enough.
double along(PieceTimes& times, Piece piece, int64_t Piece::*size, int64_t least) {
  const int64_t wanted = piece.*size;
  const double each = work_of(piece) / double(wanted);
  int64_t most = std::max<int64_t>(least, static_cast<int64_t>(kWorkMost / each));
  most = static_cast<int64_t>(std::pow(2.0, std::floor(std::log2(double(most)))));
  if (wanted <= 2 * most) return times.seconds(piece);
  piece.*size = most;
  const double first = times.seconds(piece);
  piece.*size = 2 * most;
  const double second = times.seconds(piece);
  return second + (second - first) / double(most) * double(wanted - 2 * most);
}

double rows_of(PieceTimes& times, const Piece& piece) {
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
  if (model.experts > 0) return "blocks with experts are not compiled";
  if (model.streams > 1) return "blocks of two streams are not compiled";
  if (model.latent()) return "latent attention is not compiled";
  if (model.window_layers > 0) return "sliding-window attention is not compiled";
  if (precision == Precision::kFp8) return "float8 is not compiled";
  return {};
}

namespace {

// The pieces of a block for so many tokens, on one core.
struct Pieces {
  Piece norms, products, attention, output;
};

Pieces pieces_of(const Model& model, Precision precision, const Share& share, int64_t rows) {
  Pieces pieces;
  Piece base;
  base.hidden = model.hidden;
  base.wide = precision == Precision::kFp32;
  pieces.products = base;
  pieces.products.part = Part::kProducts;
  pieces.products.rows = rows;
  pieces.products.queries = share.heads * model.head_dim;
  pieces.products.key_values = share.kv_heads * model.head_dim;
  pieces.products.inner = share.ffn;
  pieces.products.gated = model.gated;
  pieces.products.features = model.positions > 0 || !model.causal ? 0 : model.head_dim;
  base.root_mean_square = !model.biases;
  pieces.norms = pieces.output = base;
  pieces.norms.part = Part::kNorms;
  pieces.norms.rows = rows;
  pieces.output.part = Part::kOutput;
  pieces.output.rows = rows;
  pieces.output.inner = share.vocabulary;
  pieces.attention.part = Part::kAttention;
  pieces.attention.wide = base.wide;
  pieces.attention.features = model.head_dim;
  return pieces;
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
  const auto rows = static_cast<int64_t>(layout.micro_batch * job.seq / layout.cp);
  const Share share = share_of(model, parts);
  Pieces pieces = pieces_of(model, job.precision, share, rows);
  pieces.norms.rows = part_of(rows, machine.cores_per_rank * (layout.sp ? layout.tp : 1));
  pieces.attention.rows = static_cast<int64_t>(job.seq) / layout.cp;
  pieces.attention.keys = static_cast<int64_t>(job.seq);
  pieces.attention.heads = share.heads * layout.micro_batch;
  pieces.attention.causal = model.causal && layout.cp == 1;
  pieces.output.backward = true;
  Piece embedding;
  embedding.part = Part::kEmbedding;
  embedding.rows = rows;
  embedding.inner = static_cast<int64_t>(model.vocabulary);
  embedding.hidden = part_of(model.hidden, parts);
  Piece optimizer;
  optimizer.part = Part::kOptimizer;
  optimizer.rows = optimizer.hidden = 1024;
  optimizer.wide = embedding.wide = job.precision == Precision::kFp32;
  try {
    PieceTimes& times = times_of(machine);
    const double ring = model.causal && layout.cp > 1 ? 0.5 : 1;
    LayerTimes out;
    for (const bool backward : {false, true}) {
      pieces.norms.backward = pieces.products.backward = pieces.attention.backward = backward;
      const double inside = ring * along(times, pieces.attention, &Piece::heads, 1);
      const double all = rows_of(times, pieces.norms) + rows_of(times, pieces.products) + inside;
      (backward ? out.block.backward : out.block.forward) = all;
    }
    // Of a backward pass through products, one half is the weights' gradients.
    out.block.weights = rows_of(times, pieces.products) / 2;
    // The backward pass computes attention's weights again: nothing is left for selective recomputation.
    out.block.attention_inside = 0;
    out.output_s = rows_of(times, pieces.output);
    if (model.vocabulary > 0) out.embedding_s = rows_of(times, embedding);
    out.optimizer_s_of_parameter = times.seconds(optimizer) / (1024.0 * 1024.0 * machine.cores_per_rank);
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
  const Share share = share_of(model, int64_t{tp} * machine.cores_per_rank);
  const int64_t rows = step.sequences * step.tokens;
  Pieces pieces = pieces_of(model, precision, share, rows);
  pieces.output.rows = step.sequences;
  try {
    PieceTimes& times = times_of(machine);
    ServeTimes out;
    out.output_s = times.seconds(pieces.output);
    if (step.tokens > 1) {
      pieces.norms.rows = part_of(rows, machine.cores_per_rank);
      pieces.attention.rows = step.tokens;
      pieces.attention.keys = step.context;
      pieces.attention.heads = share.heads * step.sequences;
      pieces.attention.causal = model.causal && step.tokens == step.context;
      out.block_s = rows_of(times, pieces.norms) + rows_of(times, pieces.products) +
                    along(times, pieces.attention, &Piece::heads, 1);
      return out;
    }
    Piece decode = pieces.norms;
    decode.part = Part::kDecode;
    decode.rows = step.sequences;
    decode.keys = step.context;
    decode.kv_heads = share.kv_heads;
    decode.heads = part_of(share.heads, share.kv_heads) * share.kv_heads;
    decode.features = model.head_dim;
    decode.inner = share.ffn;
    decode.gated = model.gated;
    out.block_s = times.seconds(decode);
    return out;
  } catch (const Fault& fault) {
    if (fault.kind() == FaultKind::kInternal) throw;
    why = fault.message();
    return std::nullopt;
  }
}

}  // namespace opentrn::planner::compiled
