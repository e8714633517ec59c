// softmax(scale * Q K^T + masks) V as one op, the scores softly capped where a model wants it, which
// lowering/attention.cc takes whole.
//
// The op is a composite named kAttentionName. Operands: Q [B..., q, d], K [B..., k, d], V [B..., k, e], then
// one per mask, and the sinks. Result: [B0, q, rest of B..., e], which is how models keep it between layers.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/module.h"

namespace opentrn::compiler {

inline constexpr std::string_view kAttentionName = "opentrn.attention";
// What the kernel can hold: features of a head, and of a value.
inline constexpr int64_t kAttentionFeaturesMax = 256;
inline constexpr int64_t kAttentionValuesMax = 512;
// A soft cap of the scores, which are kept to some 1e-7 of it.
inline constexpr double kAttentionCapMax = 128;
// Bytes of one feature's keys that are in SBUF at once; as many again for the values, beside what other
// kernels keep there. More keys come in sections.
inline constexpr int64_t kAttentionKeyBytes = 16 * 1024;
// Of a partition, for sums of queries that wait for the next section of keys.
inline constexpr int64_t kAttentionSumBytes = 16 * 1024;
inline int64_t attention_section_keys(int64_t element_bytes) { return kAttentionKeyBytes / element_bytes; }

struct AttentionOp {
  // Added to the scaled scores, or predicates where scores stay and `fill` elsewhere. In order.
  struct Mask {
    graph::ValueId value;  // [B..., q, k]
    bool is_predicate = false;
    double fill = 0;
  };
  double scale = 1;
  // The scaled scores are cap * tanh(scores / cap), below the masks.
  std::optional<double> cap;
  // Only keys up to query + diagonal count.
  std::optional<int64_t> diagonal;
  std::vector<Mask> masks;
  // A score of each query that takes its part of the softmax and has no value, neither scaled nor masked:
  // [B..., q, 1] fp32.
  std::optional<graph::ValueId> sink;
  // [128, 128] fp32: 0 up to the diagonal, -infinity above it; with `diagonal` only.
  std::optional<graph::ValueId> corner;
};

// Few queries to many keys: keys go over partitions (lowering/attention_decode.cc), and any number of them
// fits.
inline constexpr int64_t kFewQueriesMax = 16;
inline constexpr int64_t kFewQueriesKeysMin = 512;
// fp32 scores of a head in a partition.
inline constexpr int64_t kFewQueriesScoreBytes = 16 * 1024;
bool are_few_queries(int64_t queries, int64_t keys, bool diagonal);
bool takes_few_queries(const graph::Function& function, const graph::Op& op);

// nullopt when the op is none.
std::optional<AttentionOp> attention_of(const graph::Op& op);

}  // namespace opentrn::compiler
