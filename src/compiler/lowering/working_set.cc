// What kernels hold in SBUF beside the values that stay there: how much is left for those (residency.h).
//
// Estimates, from the sizes that the kernels choose. Everything that streams is counted twice, since the
// next kernel loads its weights while this one computes.
#include <algorithm>

#include "compiler/analysis/attention_op.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/short_rows.h"
#include "compiler/lowering/tile_source.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kSmallTiles = 8 * 1024;  // numbers per row, biases
constexpr int64_t kTileColumns = 2048;     // of a tile that no reduction holds together (rowwise.cc)
// Values of a group alive at once (plan.cc); fewer where the first is in PSUM and none waits for a whole row.
constexpr int64_t kFullMax = 5, kFullMaxOfSums = 3;

int64_t element_bytes(const Function& function, graph::ValueId value) {
  const auto dtype = device_dtype(function.type(value).element());
  return dtype ? size_bytes(*dtype) : int64_t{sizeof(float)};
}

// Tiles of the ops after the source, two rows of tiles at a time.
int64_t rowwise_bytes(const Function& function, const Group& group) {
  const int64_t tile = has_short_rows(function, group) ? kTileColumns
                       : group.whole_rows              ? group.columns()
                       : group.has_source              ? std::min(kSumColumns, group.columns())
                                                       : std::min(kTileColumns, group.columns());
  int64_t bytes = 0;
  for (const graph::OpId id : group.ops) {
    const Op& op = function.op(id);
    bytes += function.type(op.results[0]).element_count() < group.rows() * group.columns()
                 ? 0
                 : tile * element_bytes(function, op.results[0]);
    // What is loaded beside: residuals.
    if (op.operands.size() > 1) bytes += tile * static_cast<int64_t>(sizeof(float)) / 2;
  }
  const int64_t most = group.has_source && !group.whole_rows ? kFullMaxOfSums : kFullMax;
  return 2 * std::min(bytes, most * tile * static_cast<int64_t>(sizeof(float)));
}

// What is loaded and computed on the way to an operand, twice.
int64_t prologue_bytes(const Function& function, const Group& group) {
  int64_t bytes = 0;
  for (const auto& [operand, ops] : group.prologues)
    for (const graph::OpId id : ops) {
      const Op& op = function.op(id);
      for (const graph::ValueId read : op.operands)
        if (!splat_of(function, read)) bytes += kTileColumns * element_bytes(function, read);
    }
  return 2 * bytes;
}

// Three chunks of keys and of values, as many transposed ones, and what three jobs have of scores and
// weights.
int64_t decode_attention_bytes(const Function& function, const Op& op) {
  constexpr int64_t kChunks = 72 * 1024, kJobs = 3, kHeads = 4;
  const graph::Type &queries = function.type(op.operands[0]), &keys = function.type(op.operands[1]);
  const int64_t scores = queries.dim(queries.rank() - 2) * (keys.dim(keys.rank() - 2) / kPartitions);
  return kChunks + kJobs * kHeads * scores *
                       (static_cast<int64_t>(sizeof(float)) + element_bytes(function, op.operands[2]));
}

int64_t attention_bytes(const Function& function, const Op& op) {
  if (takes_few_queries(function, op)) return decode_attention_bytes(function, op);
  constexpr int64_t kLoadedRows = 24 * 1024, kBlockKeys = 2048, kBlocks = 8;
  const graph::Type& keys = function.type(op.operands[1]);
  const graph::Type& values = function.type(op.operands[2]);
  const int64_t element = element_bytes(function, op.operands[2]), all = keys.dim(keys.rank() - 2);
  const int64_t count = std::min(all, attention_section_keys(element)), width = values.dim(values.rank() - 1);
  const graph::Type& queries = function.type(op.operands[0]);
  const int64_t panels = (queries.dim(queries.rank() - 1) + kPartitions - 1) / kPartitions;
  const int64_t held = 2 * (panels * count + (count + kPartitions - 1) / kPartitions * width) * element;
  const int64_t block = std::min(count, kBlockKeys) * (static_cast<int64_t>(sizeof(float)) + 2 * element);
  const int64_t blocks = count <= kPsumBankColumns ? kBlocks : kBlocks / 2;
  // Those of one group of queries and of the next.
  const int64_t sums = count < all ? 2 * kAttentionSumBytes : 0;
  // Those that a soft cap makes of the scores of a block.
  const int64_t capped = attention_of(op)->cap ? 4 * std::min(count, kBlockKeys) * 4 : 0;
  return kLoadedRows + held + blocks * block + sums + capped;
}

}  // namespace

std::optional<int64_t> working_bytes(const Function& function, const Group& group, const Choices& choices,
                                     Generation generation) {
  const Op& first = function.op(group.ops[0]);
  if (attention_of(first)) return kSmallTiles + attention_bytes(function, first);
  if (!group.rowwise) return std::nullopt;
  int64_t bytes = kSmallTiles + rowwise_bytes(function, group);
  if (!group.has_source) return bytes;
  switch (first.kind) {
    case OpKind::dot_general_:
      return bytes + product_bytes(function, first, choices, generation) + prologue_bytes(function, group);
    case OpKind::composite_: return bytes + packed_product_bytes(function, first);
    default: return bytes + convolution_bytes(function, first);
  }
}

}  // namespace opentrn::compiler
