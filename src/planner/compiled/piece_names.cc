// What a piece is called in the cache of times: its part, and every field that is not 0.
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "planner/compiled/piece_graph.h"

namespace opentrn::planner::compiled {
namespace {

std::string_view name_of(Part part) {
  switch (part) {
    case Part::kNorms: return "norms";
    case Part::kProducts: return "products";
    case Part::kAttention: return "attention";
    case Part::kOutput: return "output";
    case Part::kDecode: return "decode";
    case Part::kEmbedding: return "embedding";
    case Part::kPatches: return "patches";
    case Part::kOptimizer: return "optimizer";
    case Part::kSum: return "sum";
    case Part::kMlp: return "mlp";
    case Part::kLinear: return "linear";
    case Part::kAttentionHalf: return "attention_half";
    case Part::kCompress: return "compress";
    case Part::kBeforeKeys: return "before_keys";
    case Part::kBehindKeys: return "behind_keys";
    case Part::kMlpHalf: return "mlp_half";
    case Part::kNorm: return "norm";
    case Part::kLogits: return "logits";
    case Part::kShares: return "shares";
    case Part::kLogitsBackward: return "logits_backward";
    case Part::kRoute: return "route";
    case Part::kExperts: return "experts";
    case Part::kCombine: return "combine";
    case Part::kMixture: return "mixture";
    case Part::kCounts: return "counts";
    case Part::kPlaces: return "places";
    case Part::kFetch: return "fetch";
    case Part::kKeep: return "keep";
    case Part::kLoopTest: return "loop_test";
    case Part::kJointAttention: return "joint_attention";
    case Part::kJointMlp: return "joint_mlp";
    case Part::kJointNorm: return "joint_norm";
    case Part::kJointStart: return "joint_start";
    case Part::kVelocity: return "velocity";
  }
  OPENTRN_CHECK(false, "a part without a name");
}

std::string name_of(const Updated& updated) {
  if (!updated.any()) return {};
  std::string text = " updates";
  const std::pair<const char*, int64_t> sizes[] = {{"inner", updated.inner},
                                                   {"experts", updated.experts},
                                                   {"shared", updated.shared},
                                                   {"gated", int64_t{updated.gated}},
                                                   {"queries", updated.queries},
                                                   {"key_values", updated.key_values},
                                                   {"query_rank", updated.query_rank},
                                                   {"kv_rank", updated.kv_rank},
                                                   {"rope", updated.rope},
                                                   {"values", updated.values},
                                                   {"compressed", updated.compressed},
                                                   {"halves", updated.halves},
                                                   {"vocabulary", updated.vocabulary},
                                                   {"ranks", updated.ranks}};
  for (const auto& [name, size] : sizes)
    if (size > 0) text += fmt::format(" {} {}", name, size);
  return text;
}

}  // namespace

std::string to_string(const Piece& piece) {
  std::string text = fmt::format("{} {}", name_of(piece.part), piece.backward ? "backward" : "forward");
  const std::pair<const char*, int64_t> sizes[] = {{"rows", piece.rows},
                                                   {"keys", piece.keys},
                                                   {"heads", piece.heads},
                                                   {"kv_heads", piece.kv_heads},
                                                   {"features", piece.features},
                                                   {"values", piece.values},
                                                   {"hidden", piece.hidden},
                                                   {"queries", piece.queries},
                                                   {"key_values", piece.key_values},
                                                   {"inner", piece.inner},
                                                   {"experts", piece.experts},
                                                   {"chosen", piece.chosen},
                                                   {"capacity", piece.capacity},
                                                   {"context", piece.context},
                                                   {"shared", piece.shared},
                                                   {"text", piece.text},
                                                   {"window", piece.window},
                                                   {"chunks", piece.chunks},
                                                   {"query_rank", piece.query_rank},
                                                   {"kv_rank", piece.kv_rank},
                                                   {"rope", piece.rope}};
  for (const auto& [name, size] : sizes)
    if (size > 0) text += fmt::format(" {} {}", name, size);
  const std::pair<const char*, bool> flags[] = {
      {"gated", piece.gated},   {"rms", piece.root_mean_square},  {"causal", piece.causal},
      {"f32", piece.wide},      {"rotary", piece.rotary},         {"normed", piece.normed},
      {"turned", piece.turned}, {"halves", piece.halves},         {"adds", piece.adds},
      {"again", piece.again},   {"selects", piece.selects},       {"lean", piece.lean},
      {"biased", piece.biased}, {"compressed", piece.compressed}, {"paired", piece.paired}};
  for (const auto& [name, set] : flags)
    if (set) text += fmt::format(" {}", name);
  return text + name_of(piece.updated);
}

}  // namespace opentrn::planner::compiled
