#include "planner/compiled/compiled_layers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"
#include "planner/compiled/block_pieces.h"
#include "planner/compiled/optimizer_times.h"
#include "planner/compiled/piece_passes.h"
#include "planner/memory.h"
#include "planner/schedule.h"

namespace opentrn::planner::compiled {
CompiledLayers::CompiledLayers(std::optional<std::filesystem::path> folder) : folder_(std::move(folder)) {}

PieceTimes& CompiledLayers::times_of(const Machine& machine, bool paired) {
  auto& made = times_[{*machine.generation, paired}];
  if (!made) made = std::make_unique<PieceTimes>(*machine.generation, folder_, paired);
  return *made;
}

namespace {

bool has_pairs(const Layout& layout) { return layout.pp > 1 && layout.schedule == Schedule::kDualInTicks; }

}  // namespace

// Which programs a plan needs does not depend on how long they take.
void CompiledLayers::prepare(const Job& job, const Machine& machine, const std::vector<Layout>& layouts) {
  if (!not_compiled_because(job.model, job.precision, machine).empty()) return;
  for (const bool paired : {false, true})
    times_of(machine, paired).compile_ahead([&] {
      std::string why;
      for (const Layout& layout : layouts)
        if (has_pairs(layout) == paired) layers(job, machine, layout, why);
    });
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

// Tokens copied to their experts and back: by the memory's rate, in no program.
double routing_s(const Model& model, Precision precision, const Machine& machine, int64_t rows) {
  const double element = precision == Precision::kFp32 ? 4 : 2;
  return 4 * element * model.active_experts * model.hidden * double(rows) /
         (machine.rates.memory_bytes_s / machine.cores_per_rank);
}

// The pass of a piece for the backward pass alone, which does not read what a token gets of its experts.
double again_s(PieceTimes& times, const Piece& piece, const BlockSizes& sizes) {
  if (piece.part == Part::kCombine) return 0;
  if (piece.part == Part::kMlpHalf || piece.part == Part::kJointMlp || piece.part == Part::kRoute ||
      piece.part == Part::kMixture || piece.part == Part::kJointAttention)
    return again_of(times, piece).seconds;
  return attended_again(times, piece, sizes).seconds;
}

// Of a backward pass, the weights' gradients: one half of that through products. The backward pass computes
// attention's weights again: nothing is left for selective recomputation.
double weights_share(Piece piece) {
  switch (piece.part) {
    case Part::kNorms:
    case Part::kNorm:
    case Part::kJointNorm:
    case Part::kRoute:
    case Part::kCounts:
    case Part::kPlaces:
    case Part::kAttention: return 0;
    case Part::kCombine: return piece.shared > 0 ? 0.25 : 0;
    case Part::kAttentionHalf:
    case Part::kBehindKeys: {
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
  const bool is_cut = (model.latent() || model.streams > 1) && !is_whole(model, precision, sizes);
  for (const Counted& each : is_cut ? pieces_of(model, precision, sizes, with_experts)
                                    : halves_of(model, precision, sizes, with_experts)) {
    const bool runs_again = sizes.again && !is_cut &&
                            (each.piece.part == Part::kMixture || each.piece.part == Part::kJointMlp ||
                             (!with_experts && each.piece.part == Part::kMlpHalf));
    const BackwardPasses behind = backward_of(times, model, precision, each.piece, sizes, runs_again);
    const double backward = each.count * (behind.own.seconds + behind.norm.seconds);
    out.forward += each.count * first_pass(times, each.piece, sizes).seconds;
    out.backward += backward;
    out.weights += weights_share(each.piece) * backward;
    if (sizes.again) again += each.count * again_s(times, each.piece, sizes);
  }
  const bool has_all_parts = !is_cut && (!with_experts || experts_are_whole(model, precision, sizes));
  if (sizes.again && has_all_parts) out.again = again;
  if (with_experts && !has_all_parts) {
    const double routing = routing_s(model, precision, machine, sizes.rows);
    out.forward += routing;
    out.backward += routing;
  }
  return out;
}

PieceTime both_ways(PieceTimes& times, const Piece& piece, const BlockSizes& sizes) {
  return time_of(times, piece, false, false) + time_of(times, piece, true, sizes.adds);
}

// What a model of two streams makes of the time before its blocks, and what comes back of that.
StreamPasses stream_passes(PieceTimes& times, const Model& model, Precision precision,
                           const BlockSizes& sizes) {
  const StreamPieces pieces = stream_pieces(model, precision, sizes);
  StreamPasses made;
  for (const Piece& each : pieces.time) {
    made.time.forward = made.time.forward + time_of(times, each, false, false);
    made.time.backward = made.time.backward + time_of(times, each, true, sizes.adds);
  }
  const double layers = model.layers;
  made.modulations = {layers * time_of(times, pieces.modulation, false, false),
                      layers * time_of(times, pieces.modulation, true, sizes.adds)};
  made.last = {time_of(times, pieces.last_modulation, false, false),
               time_of(times, pieces.last_modulation, true, sizes.adds)};
  const double element = precision == Precision::kFp32 ? 4 : 2;
  made.time_bytes = sizes.cores_with_rows() * double(sizes.micro_batch) * model.hidden * element;
  made.made_bytes = 12 * layers * made.time_bytes;
  return made;
}

// Tokens that a loss has: of an image the first.
int64_t loss_rows(const Model& model, const BlockSizes& sizes) {
  return model.of_images() ? sizes.micro_batch : sizes.rows;
}
int64_t loss_keys(const Model& model, const BlockSizes& sizes) {
  return model.of_images() ? 1 : sizes.queries;
}
// Whether the last norm is one of the output layer's piece.
bool loss_is_normed(const Model& model, const BlockSizes& sizes) {
  return model.of_images() || sizes.norms_all_rows();
}

// The output layer and the loss, both ways: cut where ranks that share the vocabulary meet, also where it is
// one rank, as the exported step is.
double output_s(PieceTimes& times, const Model& model, Precision precision, const BlockSizes& sizes) {
  if (model.streams > 1) {
    const StreamPieces made = stream_pieces(model, precision, sizes);
    return seconds_of(times, made.velocity, true, sizes.adds) +
           both_ways(times, made.last_modulation, sizes).seconds;
  }
  Piece piece = output_of(model, precision, loss_rows(model, sizes), sizes.parts * sizes.stages);
  double seconds = 0;
  for (const Part part : {Part::kLogits, Part::kShares, Part::kLogitsBackward}) {
    piece.part = part;
    piece.turned = model.tied && part != Part::kShares;
    piece.backward = part == Part::kLogitsBackward;
    piece.normed = part != Part::kShares && loss_is_normed(model, sizes);
    piece.halves = part != Part::kShares && sizes.cores == 2;
    piece.keys = piece.backward ? loss_keys(model, sizes) : 0;
    piece.adds = piece.backward && sizes.adds;
    seconds += rows_of(times, piece).seconds;
  }
  if (loss_is_normed(model, sizes)) return seconds;
  return seconds + seconds_of(times, norm_of(model, precision, sizes), true, sizes.adds);
}

// Of a block with experts: what stands in place of its MLP.
ExpertPasses expert_passes(PieceTimes& times, const Model& model, Precision precision, const Layout& layout,
                           const BlockSizes& sizes) {
  const auto [route, experts, combine, behind_route, shared] = expert_pieces(model, precision, sizes);
  const auto both = [&](const Piece& piece) {
    return BothWays{first_pass(times, piece, sizes), time_of(times, piece, true, sizes.adds)};
  };
  const double element = precision == Precision::kFp32 ? 4 : 2;
  const int64_t places = model.experts * (sizes.rows / sizes.queries) * route.capacity;
  ExpertPasses made{both(route), both(experts), both(combine), double(places) * model.hidden * element,
                    layout.ep};
  made.router_bytes = double(model.hidden) * model.experts * element;
  made.route_again = again_of(times, route);
  for (const Piece& piece : behind_route)
    (piece.part == Part::kCounts ? made.counts : made.places) = both(piece);
  const int64_t shared_ffn = part_of(model.shared_ffn, sizes.parts) * sizes.cores;
  const double shared_bytes = double(model.hidden) * double(shared_ffn) * element;
  if (shared_ffn > 0) made.shared.weights = {{shared_bytes, 0.33}, {shared_bytes, 0.67}};
  if (shared_ffn > 0 && model.gated) made.shared.weights.push_back({shared_bytes, 0.9});
  if (shared) made.shared_alone = both(*shared);
  if (shared) made.shared_again_alone = again_of(times, *shared);
  if (route.shared > 0) {
    const BothWays of_route = both(without_shared(route)), of_combine = both(without_shared(combine));
    const auto behind = [](const PieceTime& all, const PieceTime& others) {
      return std::max(0.0, 1 - others.seconds / all.seconds);
    };
    made.shared_forward = behind(made.route.forward, of_route.forward);
    made.shared_again = behind(made.route_again, again_of(times, without_shared(route)));
    made.shared_backward = behind(made.combine.backward, of_combine.backward);
  }
  return made;
}

// What comes back to the table that tokens are looked up in, and, where it is the output layer too, the sum
// of both gradients: of the rank's cores, which look up parts of rows, each has a part of the output layer's
// vocabulary unless other ranks exchange those parts.
struct TableGradient {
  PieceTime scattered, sum;
};
TableGradient table_gradient(PieceTimes& times, const Model& model, const Layout& layout,
                             const BlockSizes& sizes, Piece embedding, bool adds) {
  embedding.turned = model.tied && sizes.stages == 1 && (sizes.cores == 1 || layout.tp > 1);
  if (!model.tied || sizes.stages > 1 || embedding.turned) return {time_of(times, embedding, true, adds), {}};
  Piece sum;
  sum.part = Part::kSum;
  sum.wide = embedding.wide;
  sum.rows = part_of(embedding.inner, sizes.cores);
  sum.hidden = model.hidden;
  sum.heads = adds ? 3 : 2;
  return {time_of(times, embedding, true, false), rows_of(times, sum)};
}

// Of a tick's tokens a device has a part of their numbers; it reads what it looked up, or keeps the gradient.
PieceTime looked_up(PieceTimes& times, const Model& model, Precision precision, const BlockSizes& sizes,
                    Part part) {
  Piece piece = norms_of(model, precision, sizes.rows);
  piece.part = part;
  piece.root_mean_square = false;
  piece.hidden = part_of(model.hidden, sizes.parts * sizes.stages);
  piece.heads = 1;
  return rows_of(times, piece);
}

// What a tick and a loss take beside their work: what another stage sent is read or not, and results are
// kept.
void set_ticks(PieceTimes& times, const Model& model, Precision precision, const Layout& layout,
               const BlockSizes& sizes, LayerTimes& out) {
  const auto moved = [&](Part part, int64_t values, bool selects, bool adds) {
    Piece piece = norms_of(model, precision, sizes.normed_rows);
    piece.part = part;
    piece.root_mean_square = false;
    piece.heads = values;
    piece.selects = selects;
    piece.adds = adds;
    return rows_of(times, piece).seconds;
  };
  Piece test;
  test.part = Part::kLoopTest;
  const double test_s = times.seconds(test);
  if (goes_both_ways(layout.schedule)) {
    // In parts of other work: what one more takes. Each block's tokens are kept for its backward pass; those
    // that come from another stage, and gradients, are read or not.
    const auto hosted = [&](Part part, bool selects) {
      return std::max(0.0, moved(part, 2, selects, false) - moved(part, 1, selects, false));
    };
    const double blocks = double(blocks_per_stage(model, layout)) / layout.vpp;
    const double selected = hosted(Part::kFetch, true);
    // A tick forward and one back are one where there is a loss.
    out.tick_s =
        2 * (test_s + selected) + blocks * (hosted(Part::kKeep, false) + hosted(Part::kFetch, false));
    out.output_s += selected - test_s;
    *out.embedding_s += selected;
    return;
  }
  const double parts_s = looked_up(times, model, precision, sizes, Part::kFetch).seconds +
                         looked_up(times, model, precision, sizes, Part::kKeep).seconds;
  // What blocks were given goes to its place and comes back beside their work.
  out.tick_s =
      2 * test_s + parts_s + moved(Part::kKeep, 1, false, true) + 2 * moved(Part::kFetch, 1, true, false);
  out.output_s += test_s + moved(Part::kFetch, 1, true, false) + moved(Part::kKeep, 1, true, false);
}

// Of blocks of which a share has the second one's attention.
HalfPasses mean_of(const HalfPasses& first, const HalfPasses& second, double share) {
  HalfPasses mean = first;
  for (PieceTime HalfPasses::*each :
       {&HalfPasses::forward, &HalfPasses::first, &HalfPasses::backward, &HalfPasses::again,
        &HalfPasses::before_keys, &HalfPasses::before_keys_backward})
    mean.*each = (1 - share) * first.*each + share * second.*each;
  mean.given_at = (1 - share) * first.given_at + share * second.given_at;
  return mean;
}

// What the only micro-batch's weights wait for: their gradients' sums, the optimizer, and what is gathered of
// it.
void set_optimizer_of_one(const Job& job, const Machine& machine, const Layout& layout,
                          const BlockSizes& sizes, const LayerTimes& out, MicroBatchPasses& step) {
  const Model& model = job.model;
  const double element = job.precision == Precision::kFp32 ? 4 : 2, cores = machine.cores_per_rank;
  const bool is_one = job.global_batch <= double(layout.dp) * layout.micro_batch && !layout.offload;
  step.sums = layout.dp * layout.cp > 1 && (sizes.updates || layout.zero >= 3 || is_one);
  if (is_one && out.optimizer_s_of_parameter) {
    constexpr double kReadAndWritten = 28;  // of a parameter: three float32 both ways, gradient and weight
    const double all = layout.zero >= 1 ? model.parameters() / double(sizes.parts) / layout.dp / layout.cp
                                        : parameters_per_rank(model, layout, true, true) / cores;
    const double parameters = sizes.updates ? step.embedding_bytes / element / cores : all;
    step.optimizer = {parameters * *out.optimizer_s_of_parameter * cores, parameters * kReadAndWritten};
  }
}

// Pieces of a step, as its program runs them; `out` is what layers() has found.
MicroBatchPasses passes_of(PieceTimes& times, const Job& job, const Machine& machine, const Layout& layout,
                           const BlockSizes& sizes, const Piece& embedding, const LayerTimes& out) {
  const Model& model = job.model;
  const Share share = share_of(model, sizes);
  const double element = job.precision == Precision::kFp32 ? 4 : 2, h = model.hidden;
  const double cores = machine.cores_per_rank, with_rows = sizes.cores_with_rows();
  const auto bytes = [&](double columns) { return h * columns * cores * element; };
  const double inner = bytes(double(share.ffn));
  std::vector<WeightTensor> attention;
  double of_attention = 0;
  // The output layer's gradient comes before attention's inside, the projections' behind it.
  for (const WeightSize& each : attention_weights(model, sizes)) {
    attention.push_back({double(each.rows) * double(each.columns) * cores * element,
                         attention.empty() ? 0.1 : 0.7 + 0.05 * double(attention.size())});
    of_attention += attention.back().bytes;
  }
  // Text has as many weights as patches.
  const std::vector<WeightTensor> of_patches = attention;
  if (model.streams > 1) attention.insert(attention.end(), of_patches.begin(), of_patches.end());
  const double of_mlp = (model.gated ? 3 : 2) * inner;
  MicroBatchPasses step;
  const auto passes = [&](const std::vector<Piece>& half, std::vector<WeightTensor> weights) {
    const bool mixes = half[0].part == Part::kMixture;
    const bool mlp = mixes || half[0].part == Part::kMlpHalf || half[0].part == Part::kJointMlp;
    HalfPasses made;
    made.mixes = mixes;
    made.forward = time_of(times, half.back(), false, false);
    const BackwardPasses behind =
        backward_of(times, model, job.precision, half.back(), sizes, mlp && sizes.again);
    made.backward = behind.own;
    made.norm_backward = behind.norm;
    made.first = first_pass(times, half.back(), sizes);
    made.again = sizes.again && half.size() == 1 ? attended_again(times, half[0], sizes) : made.forward;
    made.weights = std::move(weights);
    if (sizes.again && (mlp || half[0].part == Part::kJointAttention)) made.again = again_of(times, half[0]);
    if (half.size() > 1) {
      made.before_keys = time_of(times, half[0], false, false);
      made.before_keys_backward = time_of(times, half[0], true, sizes.adds, sizes.updates);
      const int64_t heads = sizes.by_rows ? share.heads : share.kv_heads * sizes.context;
      const int64_t features =
          model.latent() ? model.nope_dim + model.rope_dim + model.value_dim : 2 * model.head_dim;
      made.key_bytes = with_rows * double(heads * sizes.rows * features) * element;
      if (sizes.by_rows && sizes.context > 1) {
        made.key_bytes *= double(share.kv_heads * sizes.context) / double(heads);
        if (sizes.has_own_sequences())
          made.key_bytes /= cores;
        else
          made.head_bytes = double(share.heads * sizes.micro_batch * sizes.keys * features) * element;
      }
      if (sizes.compresses)
        made.key_bytes =
            double(sizes.rows) * double(model.query_rank + model.kv_rank + model.rope_dim) * element;
    }
    if (mlp ? !sizes.norms_all_rows() : sizes.norms_alone()) {
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
  step.layers = blocks_per_stage(model, layout) / layout.vpp;
  step.stages = sizes.stages;
  step.context = sizes.context;
  step.own_sequences = sizes.own_sequences;
  step.by_rows = sizes.by_rows;
  step.compresses = sizes.compresses;
  step.reads_tokens = sizes.compresses && model.query_rank == 0;
  const double in_window = windowed(model, sizes.keys);
  if (in_window < 1) step.attention = passes(attention_half(model, job.precision, sizes), attention);
  if (in_window > 0) {
    BlockSizes near = sizes;
    near.in_window = true;
    const HalfPasses of_near = passes(attention_half(model, job.precision, near), std::move(attention));
    step.attention = in_window < 1 ? mean_of(step.attention, of_near, in_window) : of_near;
  }
  std::vector<WeightTensor> mlp{{inner, 0.33}, {inner, 0.67}};
  if (model.gated) mlp.push_back({inner, 0.9});
  if (model.streams > 1) mlp = {{inner, 0.2}, {inner, 0.4}, {inner, 0.6}, {inner, 0.8}};
  if (model.experts > 0) {
    step.dense = model.dense_layers;
    if (step.dense > 0) step.dense_mlp = passes({mlp_half(model, job.precision, sizes)}, std::move(mlp));
    const auto mixture = mixture_of(model, job.precision, sizes);
    if (!mixture) step.experts = expert_passes(times, model, job.precision, layout, sizes);
    const double of_experts =
        bytes(double(model.experts) / layout.ep * double(part_of(model.expert_ffn, sizes.parts)));
    step.mlp.weights = {{of_experts, 0.33}, {of_experts, 0.67}};
    if (model.gated) step.mlp.weights.push_back({of_experts, 0.9});
    if (mixture) {
      std::vector<WeightTensor> weights = step.mlp.weights;
      weights.push_back({double(model.hidden) * model.experts * element, 0.95});
      if (const double shared = bytes(double(part_of(model.shared_ffn, sizes.parts))); shared > 0)
        for (int i = 0; i < (model.gated ? 3 : 2); ++i) weights.push_back({shared, 1});
      step.mlp = passes({*mixture}, std::move(weights));
    } else if (!sizes.norms_own_rows()) {
      step.mlp.norm = time_of(times, norm_of(model, job.precision, sizes), false, false);
      step.mlp.norm_backward = time_of(times, norm_of(model, job.precision, sizes), true, sizes.adds);
    }
  } else {
    step.mlp = passes({mlp_half(model, job.precision, sizes)}, std::move(mlp));
  }
  if (sizes.stages > 1 && layout.schedule == Schedule::kGPipe) {
    // Tokens are looked up before all ticks: a tick has its part of them.
    step.embedding = looked_up(times, model, job.precision, sizes, Part::kFetch);
    step.embedding_backward = looked_up(times, model, job.precision, sizes, Part::kKeep);
  } else {
    step.embedding = time_of(times, embedding, false, false);
    const TableGradient table = table_gradient(times, model, layout, sizes, embedding, sizes.adds);
    step.embedding_backward = table.scattered;
    step.table_sum = table.sum;
  }
  if (model.streams > 1) {
    step.streams = stream_passes(times, model, job.precision, sizes);
    step.norm = step.mlp.norm;
    step.logits_backward =
        time_of(times, stream_pieces(model, job.precision, sizes).velocity, true, sizes.adds);
    step.activation_bytes = with_rows * double(sizes.rows) * h * element;
    step.embedding_bytes = bytes((model.patch_features + model.text_features) / double(sizes.parts));
    step.output_bytes = bytes(model.patch_features / double(sizes.parts));
    step.modulation_bytes = bytes(12 * h / double(sizes.parts));
    step.recompute = sizes.again;
    set_optimizer_of_one(job, machine, layout, sizes, out, step);
    return step;
  }
  Piece output = output_of(model, job.precision, loss_rows(model, sizes), sizes.parts * sizes.stages);
  output.part = Part::kLogits;
  output.turned = model.tied;
  output.normed = loss_is_normed(model, sizes);
  output.halves = sizes.cores == 2;
  step.logits = rows_of(times, output);
  output.part = Part::kShares;
  output.turned = output.normed = output.halves = false;
  step.shares = rows_of(times, output);
  output.part = Part::kLogitsBackward;
  output.turned = model.tied;
  output.halves = sizes.cores == 2;
  output.backward = true;
  output.normed = loss_is_normed(model, sizes);
  output.keys = loss_keys(model, sizes);
  output.adds = sizes.adds;
  step.logits_backward = rows_of(times, output);
  if (!sizes.norms_all_rows()) {
    step.norm = time_of(times, norm_of(model, job.precision, sizes), false, false);
    step.norm_backward = time_of(times, norm_of(model, job.precision, sizes), true, sizes.adds);
  }
  const auto of_ends = double(sizes.parts * sizes.stages);
  step.embedding_bytes = bytes((model.of_images() ? model.patch_features : model.vocabulary) / of_ends);
  step.position_bytes = bytes(model.positions / double(sizes.parts * sizes.stages));
  step.output_bytes = model.tied ? 0 : bytes(model.labels() / of_ends);
  step.activation_bytes = with_rows * double(sizes.rows) * h * element;
  step.token_bytes = with_rows * double(loss_rows(model, sizes)) * sizeof(float);
  if (model.of_images()) step.class_bytes = with_rows * double(loss_rows(model, sizes)) * h * element;
  step.recompute = sizes.again;
  step.updates = sizes.updates;
  set_optimizer_of_one(job, machine, layout, sizes, out, step);
  return step;
}

// Whether attention is compiled from its norm to its output layer, of all blocks.
bool attention_is_whole(const Model& model, Precision precision, const BlockSizes& sizes) {
  const double share = windowed(model, sizes.keys);
  BlockSizes in_window = sizes;
  in_window.in_window = true;
  return (share == 1 || is_whole(model, precision, sizes)) &&
         (share == 0 || (has_whole_windows(model, sizes) && is_whole(model, precision, in_window)));
}

// Whether a rank has several heads of keys that its two cores do not divide: a core has rows of all its
// heads.
bool has_uneven_keys(const Model& model, int64_t ranks) {
  if (model.latent() || model.kv_heads % ranks != 0) return false;
  const int64_t own = model.kv_heads / ranks;
  return own > 1 && own % 2 != 0;
}

// Whether cores have heads, or rows of attention that is compiled whole.
bool cores_share(const Model& model, Precision precision, const Layout& layout, const BlockSizes& sizes) {
  if (!sizes.by_rows && model.heads % sizes.parts == 0) return true;
  const bool is_even = sizes.queries % sizes.cores == 0 || (layout.cp == 1 && sizes.has_own_sequences());
  return sizes.by_rows && (layout.cp == 1 || !model.latent()) && is_even &&
         attention_is_whole(model, precision, sizes);
}

}  // namespace

namespace {

// A block with experts and an MLP: it works as experts that every token meets do, beside those of some.
Model with_mlp_beside(Model model) {
  model.shared_ffn += model.ffn;
  return model;
}

}  // namespace

std::optional<LayerTimes> CompiledLayers::layers(const Job& job, const Machine& machine, const Layout& layout,
                                                 std::string& why) {
  auto made = layers_of(job, machine, layout, Cores::kRowsOfNorms, why);
  if (machine.cores_per_rank != 2 || job.model.experts > 0) return made;
  const auto add = [&](Cores cores) {
    std::string ignored;
    auto other = layers_of(job, machine, layout, cores, ignored);
    if (!other) return;
    if (made)
      made->other_ways.push_back(std::make_shared<const LayerTimes>(std::move(*other)));
    else
      made = std::move(other);
  };
  if (layout.micro_batch % 2 == 0) add(Cores::kOwnSequences);
  if (!layout.sp && !job.model.latent() && job.model.streams == 1) add(Cores::kWholeNorms);
  return made;
}

std::optional<LayerTimes> CompiledLayers::layers_of(const Job& job, const Machine& of_ranks,
                                                    const Layout& asked, Cores cores, std::string& why) {
  const Model& model = job.model;
  const bool own_sequences = cores == Cores::kOwnSequences;
  Machine machine = of_ranks;  // as pieces have it
  if (own_sequences) machine.cores_per_rank = 1;
  // Of one rank of data parallelism ZeRO leaves all whole.
  Layout layout = asked;
  if (layout.dp * layout.cp == 1) layout.zero = 0;
  why = not_compiled_because(model, job.precision, machine);
  const int64_t parts = int64_t{layout.tp} * machine.cores_per_rank;
  BlockSizes sizes;
  sizes.own_sequences = own_sequences;
  sizes.micro_batch = own_sequences ? layout.micro_batch / 2 : layout.micro_batch;
  sizes.rows = static_cast<int64_t>(double(sizes.micro_batch) * job.seq / layout.cp);
  sizes.normed_rows = part_of(sizes.rows, machine.cores_per_rank * (layout.sp ? layout.tp : 1));
  sizes.queries = static_cast<int64_t>(job.seq) / layout.cp;
  sizes.keys = static_cast<int64_t>(job.seq);
  sizes.causal = model.causal && layout.cp == 1;
  sizes.parts = parts;
  const bool in_ticks = layout.pp > 1 && shares_ends(layout.schedule);
  sizes.stages = in_ticks ? layout.pp : 1;
  sizes.chunks = in_ticks && layout.vpp > 1 ? layout.vpp : 0;
  sizes.cores = machine.cores_per_rank;
  sizes.by_rows = model.heads % layout.tp == 0 && machine.cores_per_rank == 2 &&
                  (model.heads % parts != 0 || has_uneven_keys(model, layout.tp));
  sizes.compresses = model.latent() && !sizes.by_rows && sizes.cores == 2 && layout.cp == 1 &&
                     std::max(model.query_rank, model.kv_rank + model.rope_dim) <= 2 * model.hidden;
  sizes.local_experts = double(model.experts) / layout.ep;
  sizes.ep = layout.ep;
  sizes.context = layout.cp;
  sizes.again = layout.recompute == Recompute::kFull;
  const bool has_whole_norms = cores == Cores::kWholeNorms && !sizes.by_rows;
  if (has_whole_norms) sizes.normed_rows = sizes.rows;
  sizes.again_beside = sizes.again && layout.zero < 3 && layout.cp == 1 && sizes.stages == 1 &&
                       !sizes.norms_alone() && !sizes.halves_tokens();
  if (why.empty() && (model.ffn % parts != 0 || !cores_share(model, job.precision, layout, sizes)))
    why = fmt::format("{} cores do not divide {} heads and a width of {}", parts, model.heads, model.ffn);
  if (why.empty() && (layout.recompute_layers > 0 || kept_products(layout.recompute, {}, false)))
    why = "recomputation of some blocks, or by a policy, is not compiled";
  if (!why.empty()) return std::nullopt;
  const double micro_batches = job.global_batch / (double(layout.dp) * layout.micro_batch);
  sizes.adds = layout.zero < 3 && (in_ticks || micro_batches > 1);
  // The only micro-batch's gradients are complete while its backward pass goes on.
  const bool is_one = micro_batches <= 1 && !in_ticks && layout.pp == 1 && !layout.offload;
  sizes.updates = !sizes.adds && layout.zero == 0 && !layout.offload && layout.pp == 1 &&
                  model.expert_layers() == 0 && model.streams == 1 &&
                  attention_is_whole(model, job.precision, sizes);
  sizes.sums_before_norms = has_whole_norms && !sizes.updates;
  Piece embedding;
  embedding.part = model.of_images() ? Part::kPatches : Part::kEmbedding;
  embedding.rows = sizes.rows;
  embedding.inner = model.of_images() ? model.patch_features : static_cast<int64_t>(model.vocabulary);
  embedding.hidden = part_of(model.hidden, parts * sizes.stages);
  if (!model.of_images()) embedding.values = model.positions;
  embedding.keys = sizes.queries;
  embedding.selects = sizes.adds && !in_ticks;
  const bool at_once = in_ticks && layout.schedule == Schedule::kGPipe;
  if (at_once) embedding.rows *= static_cast<int64_t>(micro_batches);
  embedding.wide = job.precision == Precision::kFp32;
  if (model.streams > 1) embedding = stream_pieces(model, job.precision, sizes).start;
  try {
    PieceTimes& times = times_of(machine, has_pairs(layout));
    LayerTimes out;
    const int both = places_with_both(model, layout);
    if (model.expert_layers() < model.layers && both == 0)
      out.block = block_of(times, model, job.precision, machine, sizes, false);
    if (model.expert_layers() > 0)
      out.expert_block = block_of(times, model, job.precision, machine, sizes, true);
    if (both > 0)
      out.both_block = block_of(times, with_mlp_beside(model), job.precision, machine, sizes, true);
    if (model.has_ends()) out.output_s = output_s(times, model, job.precision, sizes);
    if (model.has_ends()) {
      const TableGradient table =
          table_gradient(times, model, layout, sizes, embedding, sizes.adds && !at_once);
      out.embedding_s =
          (seconds_of(times, embedding, false, false) + table.scattered.seconds + table.sum.seconds) /
          (at_once ? micro_batches : 1);
      if (model.streams > 1)
        *out.embedding_s += stream_passes(times, model, job.precision, sizes).before_blocks().seconds;
    }
    if (in_ticks) set_ticks(times, model, job.precision, layout, sizes, out);
    set_optimizer(times, machine, embedding.wide, out);
    // Stages have their blocks in turn, so that all of them are alike.
    const bool are_alike = model.expert_layers() == 0 || experts_are_whole(model, job.precision, sizes);
    const bool is_program = layout.pp == 1 || (in_ticks && model.patch_features == 0);
    const bool is_known_latent = !model.latent() || is_whole(model, job.precision, sizes);
    if (is_program && are_alike && is_known_latent)
      set_optimizer_by_tensor(times, model, job.precision, machine, layout, sizes, is_one, out);
    out.add_gradients = sizes.adds;
    out.update_blocks = sizes.updates;
    const bool is_known = is_program && layout.shard == 0 && are_alike && model.has_ends() &&
                          attention_is_whole(model, job.precision, sizes);
    if (is_known) {
      // What most of a chunk's blocks wait for.
      Job like = job;
      if (2 * both * layout.vpp >= blocks_per_stage(model, layout)) like.model = with_mlp_beside(model);
      if (both > 0) like.model.dense_layers = 0;
      const MicroBatchPasses passes = passes_of(times, like, machine, layout, sizes, embedding, out);
      if (in_ticks)
        out.ticks = tick_waits(passes, of_ranks, layout, collectives_);
      else
        out.waits = collective_waits(passes, of_ranks, layout, collectives_);
    }
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
    PieceTimes& times = times_of(machine, false);
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
