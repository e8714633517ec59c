#include "decoder/ranks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ranges>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "collectives/arithmetic.h"
#include "compiler/compile.h"
#include "decoder/drawn.h"
#include "decoder/narrow.h"
#include "model/runtime_model.h"

namespace opentrn::decoder {

namespace {

using BufferPtr = std::shared_ptr<sim::Buffer>;

// Of rows or columns: [begin, end), and zeros behind it up to `padded`.
struct Piece {
  int64_t begin, end, padded;
};

BufferPtr zeros(int64_t bytes) {
  BufferPtr buffer = sim::Buffer::allocate(bytes);
  std::memset(buffer->data(), 0, static_cast<size_t>(bytes));
  buffer->mark_all_initialised();
  return buffer;
}

BufferPtr number(int64_t value) {
  BufferPtr buffer = zeros(sizeof(int32_t));
  *reinterpret_cast<int32_t*>(buffer->data()) = static_cast<int32_t>(value);
  return buffer;
}

// A part's rows and columns of a matrix, side by side.
BufferPtr pieces_of(const sim::Buffer& whole, int64_t columns, int64_t element_bytes,
                    const std::vector<Piece>& of_rows, const std::vector<Piece>& of_columns) {
  const auto sum = [](const std::vector<Piece>& pieces) {
    int64_t total = 0;
    for (const Piece& piece : pieces) total += piece.padded;
    return total;
  };
  const int64_t width = sum(of_columns);
  BufferPtr made = zeros(sum(of_rows) * width * element_bytes);
  int64_t row = 0;
  for (const Piece& rows : of_rows) {
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      std::byte* to = made->data() + (row + i - rows.begin) * width * element_bytes;
      const std::byte* from = whole.data() + i * columns * element_bytes;
      for (const Piece& piece : of_columns) {
        std::memcpy(to, from + piece.begin * element_bytes,
                    static_cast<size_t>((piece.end - piece.begin) * element_bytes));
        to += piece.padded * element_bytes;
      }
    }
    row += rows.padded;
  }
  return made;
}

// Whether two layers' parts between sums have one graph.
bool has_same_graph(const Config& config, PartKind kind, int64_t one, int64_t other) {
  if (kind == PartKind::kAttention && (config.is_windowed(one) != config.is_windowed(other) ||
                                       config.is_unturned(one) != config.is_unturned(other)))
    return false;
  if (kind == PartKind::kFeedForward && config.has_experts(one) != config.has_experts(other)) return false;
  const auto narrow = [&](int64_t layer) {
    std::vector<std::string_view> matrices = narrow_matrices(config, layer);
    std::erase_if(matrices, [&](std::string_view part) {
      constexpr std::string_view kOfAttention[] = {"qkv", "q", "q_a", "q_b", "kv_a", "output"};
      const bool is_of_attention = std::ranges::find(kOfAttention, part) != std::end(kOfAttention);
      return is_of_attention != (kind == PartKind::kAttention);
    });
    return matrices;
  };
  return narrow(one) == narrow(other);
}

// What one rank has of each weight.
class Cutter {
 public:
  Cutter(const Config& whole, int64_t ranks, int64_t rank)
      : whole_(whole), part_(part_of(whole, ranks)), ranks_(ranks), rank_(rank) {}

  BufferPtr cut(const Weight& weight, const BufferPtr& from) const {
    std::string name = weight.name.substr(weight.name.rfind('.') + 1);
    const bool is_scale = name.ends_with(kScale);
    if (is_scale) name.resize(name.size() - kScale.size());
    // Of a weight that is as it was, pieces are rows.
    const bool in_blocks = (is_scale || !weight.tensors.empty()) && is_in_blocks(weight, name);
    const int64_t columns = weight.type.dim(weight.type.rank() - 1);
    const int64_t rows = weight.type.rank() == 1 ? 1 : weight.type.dim(0);
    const int64_t bytes = graph::storage_bytes(weight.type.element());
    const std::vector<Piece> all_rows{{0, rows, rows}}, all_columns{{0, columns, columns}};
    const auto by_rows = [&](std::vector<Piece> pieces) {
      if (in_blocks) pieces = of_microscaled(std::move(pieces), is_scale);
      return pieces_of(*from, columns, bytes, pieces, all_columns);
    };
    const auto by_columns = [&](std::vector<Piece> pieces) {
      return pieces_of(*from, columns, bytes, all_rows, pieces);
    };
    if (name == "qkv" || name == "qkv_bias") return by_columns(heads());
    if (name == "q" || name == "q_b") return by_columns({queries()});
    if (name == "key_up") return by_rows({of_heads(whole_.plain_features())});
    if (name == "value_up") return by_rows({of_heads(whole_.value_features)});
    if (name == "sinks") return by_columns({{rank_ * part_.heads, (rank_ + 1) * part_.heads, part_.heads}});
    const bool is_cut_by_rows =
        name == "output" || name == "down" || name == "experts_down" || name == "shared_down";
    const bool is_of_columns = is_scale && !in_blocks;
    if (is_of_columns && is_cut_by_rows) return from;  // all ranks have them
    if (name == "output") return by_rows({of_heads(part_.weighed_features() / part_.heads)});
    if (name == "gate_up") return by_columns(twice(whole_.feed_forward));
    if (name == "up" || name == "up_bias") return by_columns({share(whole_.feed_forward)});
    if (name == "down") return by_rows({share(whole_.feed_forward)});
    if (name == "experts_gate_up" || name == "experts_gate_up_bias")
      return by_columns(twice(whole_.expert_features));
    if (name == "experts_down") return by_rows(of_experts(in_blocks));
    if (name == "shared_gate_up") return by_columns(twice(whole_.shared_features));
    if (name == "shared_down") return by_rows({share(whole_.shared_features)});
    if (name == "head" || name == "head_bias") return by_columns({share(whole_.head_words())});
    // They are added to the sum once.
    const bool is_added = name == "output_bias" || name == "down_bias" || name == "experts_down_bias";
    if (is_added && rank_ > 0) return zeros(from->bytes());
    return from;
  }

 private:
  Piece share(int64_t whole, int64_t first = 0) const {
    const int64_t padded = (whole + ranks_ - 1) / ranks_;
    const int64_t begin = std::min(whole, rank_ * padded), end = std::min(whole, begin + padded);
    return {first + begin, first + end, padded};
  }
  std::vector<Piece> twice(int64_t features) const { return {share(features), share(features, features)}; }
  std::vector<Piece> of_experts(bool in_blocks) const {
    const int64_t features = whole_.expert_features;
    std::vector<Piece> pieces;
    for (int64_t i = 0; i < whole_.experts; ++i)
      pieces.push_back(share(features, i * (in_blocks ? held(features) : features)));
    return pieces;
  }
  int64_t held(int64_t rows) const { return rows_held(whole_.narrow->type, rows); }
  bool is_in_blocks(const Weight& weight, std::string_view part) const {
    const std::string_view name = weight.name;
    return whole_.narrow && is_microscaled(whole_.narrow->type) &&
           is_narrow(whole_, fmt::format("{}{}", name.substr(0, name.rfind('.') + 1), part));
  }
  // Rows as elements of numbers, or of scales, that hold several; those of a part are whole tiles again.
  std::vector<Piece> of_microscaled(std::vector<Piece> pieces, bool is_scale) const {
    const WeightType type = whole_.narrow->type;
    for (Piece& piece : pieces) {
      const int64_t in_one = is_scale ? rows_of_scale(type, piece.padded) : rows_of_number(type);
      piece = {piece.begin / in_one, (piece.end + in_one - 1) / in_one, held(piece.padded) / in_one};
    }
    return pieces;
  }
  Piece of_heads(int64_t features) const {
    const int64_t own = part_.heads * features;
    return {rank_ * own, (rank_ + 1) * own, own};
  }
  Piece queries() const { return of_heads(part_.head_features); }
  // Queries, keys and values; ranks that are more than the heads of keys and values share them.
  std::vector<Piece> heads() const {
    const int64_t own = part_.kv_features();
    const int64_t first = rank_ * whole_.kv_heads / ranks_ * whole_.head_features;
    const int64_t keys = whole_.query_features() + first, values = keys + whole_.kv_features();
    return {queries(), {keys, keys + own, own}, {values, values + own, own}};
  }

  const Config& whole_;
  Config part_;
  int64_t ranks_, rank_;
};

DType exchanged(graph::ElementType element) {
  switch (element) {
    case graph::ElementType::kBF16: return DType::kBFloat16;
    case graph::ElementType::kF16: return DType::kFloat16;
    default: return DType::kFloat32;
  }
}

// Ranks share the rows of some matrices, in whole blocks of numbers that have one scale.
void expect_whole_blocks(const Config& config, int64_t ranks) {
  if (ranks == 1 || !config.narrow || !is_microscaled(config.narrow->type)) return;
  const Config part = part_of(config, ranks);
  const auto expect = [&](int64_t rows, std::string_view matrix, std::string_view of) {
    const int64_t block = rows_of_scale(config.narrow->type, rows);
    const auto is_in_blocks = [&](int64_t layer) {
      const std::vector<std::string_view> narrow = narrow_matrices(config, layer);
      return std::ranges::find(narrow, matrix) != narrow.end();
    };
    if (rows % block == 0 || std::ranges::none_of(std::views::iota(int64_t{0}, config.layers), is_in_blocks))
      return;
    throw Fault(FaultKind::kInput, "decoder.ranks",
                fmt::format("a rank of {} has {} {}, and {} numbers of a microscaled matrix share a scale",
                            ranks, rows, of, block),
                "fewer ranks, or weights of another type");
  };
  expect(part.weighed_features(), "output", "features of heads");
  expect(part.feed_forward, "down", "features between two products");
  if (part.experts == 0) return;
  expect(part.expert_features, "experts_down", "features between two products");
  if (part.shared_features > 0) expect(part.shared_features, "shared_down", "features of the shared expert");
}

}  // namespace

void expect_ranks(const Config& config, int64_t ranks) {
  if (ranks > 1 && config.qk_norm_of_all_heads)
    throw Fault(FaultKind::kNotModelled, "decoder.ranks",
                "ranks of a model whose queries and keys are normed over all heads",
                "one rank; opentrn step-times CONFIG.json --ranks has their time");
  const auto fits = [&](int64_t n) {
    return config.heads % n == 0 && (config.kv_heads % n == 0 || n % config.kv_heads == 0);
  };
  if (ranks >= 1 && ranks <= config.heads && fits(ranks)) return expect_whole_blocks(config, ranks);
  std::vector<int64_t> good;
  for (int64_t n = 1; n <= config.heads; ++n)
    if (fits(n)) good.push_back(n);
  throw Fault(FaultKind::kInput, "decoder.ranks",
              fmt::format("{} ranks cannot share {} heads, and {} of keys and values", ranks, config.heads,
                          config.kv_heads),
              fmt::format("one of {} ranks", fmt::join(good, ", ")));
}

RankWeights cut_weights(const Config& config, graph::ElementType element,
                        const std::vector<BufferPtr>& weights, int64_t ranks) {
  expect_ranks(config, ranks);
  const std::vector<Weight> stated = decoder::weights(config, element);
  OPENTRN_CHECK(stated.size() == weights.size(), "{} weights for {}", weights.size(), stated.size());
  RankWeights cut(static_cast<size_t>(ranks));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Cutter cutter(config, ranks, rank);
    for (size_t i = 0; i < stated.size(); ++i)
      cut[static_cast<size_t>(rank)].emplace(stated[i].name, cutter.cut(stated[i], weights[i]));
  }
  return cut;
}

Ranks::Ranks(const Config& config, const Pool& pool, graph::ElementType element,
             opentrn::Generation generation, std::shared_ptr<const RankWeights> weights)
    : whole_(config),
      part_(part_of(config, static_cast<int64_t>(weights->size()))),
      pool_(pool),
      element_(element),
      generation_(generation),
      weights_(std::move(weights)) {
  const int64_t bytes = pool.slots() * graph::storage_bytes(part_.kv_element(element));
  pools_.resize(weights_->size());
  for (auto& of_rank : pools_)
    for (int64_t i = 0; i < part_.layers; ++i) {
      of_rank.push_back(zeros(bytes * part_.key_pool_features()));
      of_rank.push_back(zeros(bytes * part_.value_pool_features()));
    }
}

int64_t Ranks::pool_bytes() const {
  int64_t bytes = 0;
  for (const auto& of_rank : pools_)
    for (const auto& pool : of_rank) bytes += pool->bytes();
  return bytes;
}

int64_t Ranks::weight_bytes() const {
  int64_t bytes = 0;
  for (const auto& of_rank : *weights_)
    for (const auto& [name, weight] : of_rank) bytes += weight->bytes();
  return bytes;
}

const Ranks::Part& Ranks::part(const Bucket& bucket, PartKind kind, int64_t layer) {
  // The first layer that has the same graph.
  int64_t like = kind == PartKind::kAttention && layer > 0 ? 1 : 0;
  if (kind != PartKind::kLogits)
    while (!has_same_graph(part_, kind, like, layer)) ++like;
  Part& made = parts_[{bucket, kind, like}];
  if (made.model) return made;
  compiler::Options options;
  options.generation = generation_;
  options.donate_inputs = true;
  PartGraph graph = build_part(part_, bucket, pool_, element_, kind, like, whole_);
  auto model = std::make_unique<runtime::Model>(
      model::model_of(compiler::compile(graph.module, options), generation_));
  size_t output = 2;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].kind == PartInput::Kind::kPool)
      OPENTRN_CHECK(model->inputs[i].tensor == model->outputs[output++].tensor, "{} is copied by {}",
                    graph.inputs[i].name, bucket.text());
  made.inputs = std::move(graph.inputs);
  made.model = std::move(model);
  return made;
}

Ranks::Outputs Ranks::run_part(const Bucket& bucket, PartKind kind, int64_t layer, const RankWeights& all,
                               const std::map<std::string, BufferPtr>& step) {
  const Part& of = part(bucket, kind, layer);
  Outputs outputs;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto& weights = all[rank];
    std::vector<BufferPtr> inputs;
    for (const PartInput& input : of.inputs) {
      switch (input.kind) {
        case PartInput::Kind::kStep: inputs.push_back(step.at(input.name)); break;
        case PartInput::Kind::kWeight: inputs.push_back(weights.at(input.name)); break;
        case PartInput::Kind::kLayerWeight:
          inputs.push_back(weights.at(fmt::format("layers.{}.{}", layer - input.in_front, input.name)));
          break;
        case PartInput::Kind::kPool:
          inputs.push_back(pools_[rank][static_cast<size_t>(2 * layer + (input.name == "values"))]);
          break;
        case PartInput::Kind::kColumns:
          inputs.push_back(number(std::clamp<int64_t>(
              whole_.head_words() - static_cast<int64_t>(rank) * part_.head_words(), 0, part_.head_words())));
      }
    }
    outputs.push_back(runtime::execute(*of.model, inputs));
  }
  return outputs;
}

// Of the terms, which are every rank's second result.
std::shared_ptr<sim::Buffer> Ranks::sum_of(const Outputs& outputs) const {
  std::vector<const std::byte*> terms;
  for (const auto& of_rank : outputs) terms.push_back(of_rank[1]->data());
  const BufferPtr& first = outputs[0][1];
  collectives::reduce_elements(collectives::Reduction::kAdd, exchanged(element_), terms, first->data(),
                               static_cast<size_t>(first->bytes()));
  return first;
}

// Columns of the logits; features are the same on all ranks.
std::shared_ptr<sim::Buffer> Ranks::joined(const Outputs& outputs) const {
  if (whole_.pooled) return outputs[0][0];
  constexpr int64_t kBytes = sizeof(float);
  const int64_t width = part_.head_words(), columns = whole_.head_words();
  const int64_t rows = outputs[0][0]->bytes() / (width * kBytes);
  BufferPtr whole = zeros(rows * columns * kBytes);
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    const int64_t first = rank * width, count = std::min(width, columns - first);
    for (int64_t row = 0; row < rows && count > 0; ++row)
      std::memcpy(whole->data() + (row * columns + first) * kBytes,
                  outputs[static_cast<size_t>(rank)][0]->data() + row * width * kBytes,
                  static_cast<size_t>(count * kBytes));
  }
  return whole;
}

// Of each row the largest logit of all ranks, the first of equal ones: what they find out alike from each
// other's tokens and logits.
std::vector<BufferPtr> Ranks::likeliest_of(const Outputs& outputs) const {
  const int64_t rows = outputs[0][0]->bytes() / static_cast<int64_t>(sizeof(int32_t));
  std::vector<BufferPtr> made{zeros(outputs[0][0]->bytes()), zeros(outputs[0][1]->bytes())};
  auto* tokens = reinterpret_cast<int32_t*>(made[0]->data());
  auto* logits = reinterpret_cast<float*>(made[1]->data());
  for (size_t rank = 0; rank < outputs.size(); ++rank) {
    const auto* own = reinterpret_cast<const int32_t*>(outputs[rank][0]->data());
    const auto* values = reinterpret_cast<const float*>(outputs[rank][1]->data());
    const auto first = static_cast<int32_t>(static_cast<int64_t>(rank) * part_.head_words());
    for (int64_t row = 0; row < rows; ++row)
      if (rank == 0 || values[row] > logits[row] || std::isnan(values[row])) {
        tokens[row] = first + own[row];
        logits[row] = values[row];
      }
  }
  return made;
}

// What every rank draws alike from the logits of all.
std::vector<BufferPtr> Ranks::drawn_of(const Bucket& bucket, const Outputs& outputs, BufferPtr sampling) {
  auto& model = draws_[{bucket.results(), bucket.choice}];
  if (!model) {
    compiler::Options options;
    options.generation = generation_;
    const graph::Module module = draw_of(bucket.results(), whole_.head_words(), bucket.choice);
    model =
        std::make_unique<runtime::Model>(model::model_of(compiler::compile(module, options), generation_));
  }
  const std::vector<BufferPtr> inputs{joined(outputs), std::move(sampling)};
  return runtime::execute(*model, inputs);
}

// Which every rank computes alike.
std::vector<BufferPtr> Ranks::with_features(std::vector<BufferPtr> results, const Outputs& outputs) const {
  if (whole_.features) results.push_back(outputs[0].back());
  return results;
}

std::vector<BufferPtr> Ranks::run(const Bucket& bucket, const RankWeights& weights,
                                  std::map<std::string, BufferPtr> step) {
  if (bucket.draws()) {
    Bucket of_logits = bucket;
    of_logits.choice = Choice::kHost;
    const Outputs outputs = outputs_of(of_logits, weights, step);
    return with_features(drawn_of(bucket, outputs, step.at("sampling")), outputs);
  }
  const Outputs outputs = outputs_of(bucket, weights, step);
  return with_features(bucket.chooses() ? likeliest_of(outputs) : std::vector{joined(outputs)}, outputs);
}

Ranks::Outputs Ranks::outputs_of(const Bucket& bucket, const RankWeights& weights,
                                 std::map<std::string, BufferPtr> step) {
  const auto take = [&](const Outputs& outputs) {
    step["x"] = outputs[0][0];  // the same on every rank
    step["sum"] = sum_of(outputs);
  };
  for (int64_t layer = 0; layer < part_.layers; ++layer) {
    take(run_part(bucket, PartKind::kAttention, layer, weights, step));
    step[fmt::format("entering{}", layer)] = step["x"];
    take(run_part(bucket, PartKind::kFeedForward, layer, weights, step));
  }
  return run_part(bucket, PartKind::kLogits, part_.layers - 1, weights, step);
}

}  // namespace opentrn::decoder
