#include "planner/compiled/optimizer_times.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "planner/compiled/piece_passes.h"
#include "planner/memory.h"
#include "planner/schedule.h"

namespace opentrn::planner::compiled {

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

namespace {

// A tensor of weights that a rank updates: `rows` and `columns` as TP leaves them.
struct UpdatedWeight : WeightSize {
  double count = 1;
  int64_t ep = 1;  // of experts: ranks that have others
};

// Of tensors together, as a rank updates them.
struct UpdateTimes {
  double seconds = 0, parameters = 0;
};

// Tensors of small models end within a few tiles, and copies of short rows are slow: those below the size of
// one program take their own time each, beside others in a program.
void add_update(PieceTimes& times, UpdatedWeight weight, const Layout& layout, bool wide, double large_s,
                UpdateTimes& to) {
  int64_t& cut = weight.cuts_columns ? weight.columns : weight.rows;
  const int64_t ranks = int64_t{layout.dp} * layout.cp / weight.ep;
  if (layout.zero >= 1 && cut % ranks == 0) cut /= ranks;
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

// Tensors of one kind of work, and the piece beside whose backward pass its program updates them (none:
// behind all passes).
struct TensorGroup {
  std::vector<UpdatedWeight> weights;
  std::optional<Piece> host;
  bool is_forward = false;  // of a block that runs again when its gradient is there
  double count = 1;
};

// What the updates of `host` add to it.
double hosted_s(PieceTimes& times, const TensorGroup& group, const BlockSizes& sizes) {
  const Piece& host = *group.host;
  if (group.is_forward) {
    Piece alone = host;
    alone.updated = {};
    return std::max(0.0, times.seconds(host) - times.seconds(alone));
  }
  BlockSizes with = sizes;
  with.updates = true;
  const bool runs_again = sizes.again && (host.part == Part::kMixture || host.part == Part::kMlpHalf ||
                                          host.part == Part::kJointMlp);
  const auto seconds = [&](const Piece& piece) {
    return runs_again ? behind_again(times, piece, with).seconds
                      : seconds_of(times, piece, true, false, true);
  };
  Piece alone = host;
  alone.updated = {};
  return std::max(0.0, seconds(host) - seconds(alone));
}

bool is_small(const TensorGroup& group, const Layout& layout) {
  double work = 0;
  for (const UpdatedWeight& each : group.weights) {
    Piece piece;
    piece.part = Part::kOptimizer;
    piece.rows = each.rows;
    piece.hidden = each.columns;
    work += each.count * work_of(piece);
  }
  const double ranks = layout.zero >= 1 ? double(layout.dp) * layout.cp : 1;
  return work / ranks <= kWorkMost;
}

void add_updates(PieceTimes& times, const TensorGroup& group, const Layout& layout, const BlockSizes& sizes,
                 bool wide, double large_s, UpdateTimes& to) {
  UpdateTimes apart;
  for (const UpdatedWeight& each : group.weights) add_update(times, each, layout, wide, large_s, apart);
  if (group.host && is_small(group, layout)) apart.seconds = hosted_s(times, group, sizes);
  to.seconds += group.count * apart.seconds;
  to.parameters += group.count * apart.parameters;
}

// Which pieces of a block update its attention, and what stands behind that.
struct UpdateHosts {
  std::optional<Piece> attention, rest;
  bool is_forward = false;  // `attention`
};

UpdateHosts hosts_of(const Model& model, Precision precision, const Layout& layout, BlockSizes sizes,
                     bool experts) {
  sizes.updates = true;
  sizes.mixes = experts;
  sizes.update_ranks = layout.zero >= 1 ? int64_t{layout.dp} * layout.cp : 0;
  UpdateHosts hosts;
  for (const Counted& each : halves_of(model, precision, sizes, experts)) {
    if (each.piece.updated.queries > 0) hosts.attention = each.piece;
    if (each.piece.updated.inner > 0) hosts.rest = each.piece;
  }
  // A block that waits for its weights runs again behind the piece above, with what that has left.
  const bool is_late = sizes.again && layout.zero >= 3 && !sizes.norms_alone();
  if (!is_late || !hosts.attention || sizes.context > 1 || sizes.halves_tokens()) return hosts;
  Piece again = attention_half(model, precision, sizes).back();
  again.updated = hosts.attention->updated;
  hosts.attention = again;
  hosts.is_forward = true;
  return hosts;
}

// ... and which one has the output layer's, with nothing of a block above it.
TensorGroup output_group(const Model& model, Precision precision, const Layout& layout,
                         const BlockSizes& sizes, const UpdateHosts& top, UpdatedWeight output) {
  TensorGroup group{{output}};
  group.host = sizes.norms_all_rows() ? top.attention : norm_of(model, precision, sizes);
  group.is_forward = sizes.norms_all_rows() && top.is_forward;
  if (!group.host) return group;
  group.host->updated = {};
  group.host->updated.vocabulary = output.columns;
  group.host->updated.ranks = layout.zero >= 1 ? int64_t{layout.dp} * layout.cp : 0;
  return group;
}

// Of two streams: the products of patches, of text, of the time and of all of the text, of what they make of
// each block's scales, and of the last ones.
void add_stream_ends(const Model& model, int64_t ranks, std::vector<UpdatedWeight>& to) {
  constexpr int64_t kFrequencies = 256;
  const int64_t h = model.hidden, own = part_of(h, ranks);
  for (const int64_t features : {int64_t{model.patch_features}, int64_t{model.text_features}, kFrequencies,
                                 int64_t{model.pooled_features}})
    to.push_back({{features, own}});
  to.push_back({{own, h}, 2});
  to.push_back({{h, part_of(12 * h, ranks)}, double(model.layers)});
  to.push_back({{h, part_of(2 * h, ranks)}});
  to.push_back({{h, part_of(model.patch_features, ranks)}});
}

}  // namespace

void set_optimizer_by_tensor(PieceTimes& times, const Model& model, Precision precision,
                             const Machine& machine, const Layout& layout, const BlockSizes& sizes,
                             bool is_one, LayerTimes& out) {
  const Share share = share_of(model, sizes);
  const bool wide = precision == Precision::kFp32;
  const auto labels = static_cast<int64_t>(model.labels());
  const bool is_joint = model.streams > 1;
  const int64_t table = model.of_images() ? model.patch_features : labels;
  const int64_t of_ends = sizes.parts * sizes.stages;
  // A block of all chunks of a stage is one tensor.
  const int64_t chunks = sizes.stages > 1 ? layout.vpp : 1;
  const double layers = double(blocks_per_stage(model, layout)) / double(chunks);
  const double both = places_with_both(model, layout);
  const double dense = both > 0 ? both : model.experts > 0 ? model.dense_layers : layers;
  const double sparse = both > 0 ? layers : layers - dense;
  const auto hosts = [&](bool experts) {
    return is_one ? hosts_of(model, precision, layout, sizes, experts) : UpdateHosts{};
  };
  const UpdateHosts of_dense = dense > 0 ? hosts(false) : UpdateHosts{},
                    of_sparse = sparse > 0 ? hosts(true) : UpdateHosts{};

  // What each product has beside its weight.
  const auto with_bias = [&](std::vector<UpdatedWeight>& weights, WeightSize size, double count = 1) {
    size.rows *= chunks;
    weights.push_back({size, count});
    if (model.biases) weights.push_back({{chunks, size.columns, size.cuts_columns}, count});
  };
  std::vector<TensorGroup> groups;
  TensorGroup ends{{{{1, model.hidden, true}}}};
  if (table > 0) ends.weights.push_back({{table, part_of(model.hidden, of_ends)}});
  if (is_joint) add_stream_ends(model, of_ends, ends.weights);
  if (model.positions > 0) ends.weights.push_back({{model.positions, part_of(model.hidden, of_ends)}});
  groups.push_back(std::move(ends));
  if (labels > 0 && !model.tied)
    groups.push_back(output_group(model, precision, layout, sizes, sparse > 0 ? of_sparse : of_dense,
                                  {{model.hidden, part_of(labels, of_ends)}}));
  if (!sizes.updates) {
    TensorGroup norms;
    if (!is_joint) with_bias(norms.weights, {1, model.hidden, true}, 2 * layers);
    groups.push_back(std::move(norms));
    for (const auto& [own, count] :
         {std::pair(&of_dense, both > 0 ? 0 : dense), std::pair(&of_sparse, sparse)}) {
      TensorGroup attention{{}, own->attention, own->is_forward, count};
      for (const WeightSize& each : attention_weights(model, sizes))
        with_bias(attention.weights, each, model.streams);
      if (count > 0) groups.push_back(std::move(attention));
    }
  }
  if (!sizes.updates && dense > 0) {
    TensorGroup mlp{{}, of_dense.rest, false, dense};
    with_bias(mlp.weights, {model.hidden, share.ffn}, (model.gated ? 2 : 1) * model.streams);
    with_bias(mlp.weights, {share.ffn, model.hidden, true}, model.streams);
    groups.push_back(std::move(mlp));
  }
  if (sparse > 0) {
    const int64_t local = model.experts / layout.ep, inner = part_of(model.expert_ffn, sizes.parts);
    const double firsts = model.gated ? 2 : 1;
    TensorGroup router{{{{chunks * part_of(model.hidden, sizes.cores), model.experts}}}, {}, false, sparse};
    TensorGroup experts{{{{chunks * local * model.hidden, inner}, firsts, layout.ep},
                         {{chunks * local * inner, model.hidden, true}, 1, layout.ep}},
                        of_sparse.rest,
                        false,
                        sparse};
    if (const int64_t shared_ffn = part_of(model.shared_ffn, sizes.parts); shared_ffn > 0)
      experts.weights.insert(experts.weights.end(), {{{chunks * model.hidden, shared_ffn}, firsts},
                                                     {{chunks * shared_ffn, model.hidden, true}}});
    groups.push_back(std::move(router));
    groups.push_back(std::move(experts));
  }
  UpdateTimes all;
  const double cores = machine.cores_per_rank;
  for (const TensorGroup& each : groups)
    add_updates(times, each, layout, sizes, wide, cores * *out.optimizer_s_of_parameter, all);
  out.optimizer_s_of_parameter = all.seconds / all.parameters / cores;
  out.optimizer_s_of_tensor = 0;
}

}  // namespace opentrn::planner::compiled
