#include "compiler/lowering/rearrange.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

namespace {

// A descriptor of fewer bytes takes a DMA engine many times their time (dma_descriptor_extra_ns).
constexpr int64_t kRearrangedRunBytes = 32;
// Below this a copy is over before its latency is.
constexpr int64_t kRearrangedElements = 8192;
// Of a partition: the rows of a block, once as loaded and once as stored.
constexpr int64_t kRearrangedRowBytes = 8 * 1024;
constexpr int64_t kRepeatedMost = 15;
constexpr int kFreeDims = 3;  // that an engine walks besides the partitions

struct Pair {
  int64_t count, to, from;  // steps in elements
};

// Dimensions of both sides, neighbours that both walk as one made one.
std::vector<Pair> pairs_of(const View& dst, const View& src) {
  std::vector<Pair> pairs;
  for (size_t d = 0; d < dst.dims.size(); ++d) {
    const Pair next{dst.dims[d].count, dst.dims[d].step, src.dims[d].step};
    if (next.count == 1) continue;
    if (!pairs.empty() && pairs.back().to == next.to * next.count &&
        pairs.back().from == next.from * next.count)
      pairs.back() = {pairs.back().count * next.count, next.to, next.from};
    else
      pairs.push_back(next);
  }
  return pairs;
}

int64_t product(const std::vector<Pair>& pairs, size_t begin) {
  return std::accumulate(pairs.begin() + static_cast<std::ptrdiff_t>(begin), pairs.end(), int64_t{1},
                         [](int64_t so_far, const Pair& pair) { return so_far * pair.count; });
}

// A first dimension that is one run of the source is cut, so that its parts go over partitions.
void cut_first(std::vector<Pair>& pairs, int64_t element_bytes) {
  if (pairs.empty() || pairs.size() >= kFreeDims || pairs[0].from != 1) return;
  const int64_t count = pairs[0].count, inner = product(pairs, 1) * element_bytes;
  const int64_t most = std::min(kRearrangedRowBytes / inner,
                                std::max(count / kPartitions, kRearrangedRunBytes / element_bytes));
  for (int64_t part = most; part * element_bytes >= kRearrangedRunBytes && part > 0; --part) {
    if (count % part != 0 || part == count) continue;
    const Pair outer{count / part, pairs[0].to * part, part};
    pairs[0].count = part;
    pairs.insert(pairs.begin(), outer);
    return;
  }
}

// A run of the source that is too long to lie on a partition with what is put between its elements is cut
// too.
void cut_run(std::vector<Pair>& pairs, int64_t element_bytes) {
  const auto run = std::ranges::find(pairs, 1, &Pair::from);
  if (run == pairs.end()) return;
  const int64_t inner = product(pairs, static_cast<size_t>(run - pairs.begin()) + 1) * element_bytes;
  if (run->count * inner <= kRearrangedRowBytes) return;
  for (int64_t part = kRearrangedRowBytes / inner; part * element_bytes >= kRearrangedRunBytes; --part) {
    if (run->count % part != 0) continue;
    const Pair outer{run->count / part, run->to * part, part};
    run->count = part;
    pairs.insert(run, outer);
    return;
  }
}

// How many of the dimensions go over partitions: as few as let the rest fit, so that rows are long, but with
// the source's runs in the rest. Nothing where that does not help.
std::optional<size_t> dims_over_partitions(const std::vector<Pair>& pairs, int64_t element_bytes) {
  if (pairs.size() < 2 || pairs.back().to != 1 || pairs.back().from == 1) return std::nullopt;
  const auto walks = [](const Pair& pair) { return pair.to > 0 && pair.from >= 0; };
  if (!std::ranges::all_of(pairs, walks)) return std::nullopt;
  const auto runs = std::find_if(pairs.begin(), pairs.end(), [](const Pair& pair) { return pair.from == 1; });
  if (runs == pairs.end() || runs->count * element_bytes < kRearrangedRunBytes) return std::nullopt;
  if (product(pairs, 0) < kRearrangedElements) return std::nullopt;
  const auto last = static_cast<size_t>(runs - pairs.begin());
  for (size_t rows = 1; rows <= last; ++rows) {
    if (pairs.size() - rows > kFreeDims) continue;
    if (product(pairs, rows) * element_bytes <= kRearrangedRowBytes) return rows;
  }
  return std::nullopt;
}

void through_sbuf(Emitter& emitter, const View& dst, const View& src, const std::vector<Pair>& pairs,
                  size_t rows) {
  std::vector<isa::Dim> to_rows, from_rows, to_columns, from_columns;
  for (size_t d = 0; d < pairs.size(); ++d) {
    (d < rows ? to_rows : to_columns).push_back({pairs[d].to, pairs[d].count});
    if (d < rows) from_rows.push_back({pairs[d].from, pairs[d].count});
  }
  // Columns in the order of the source, each once, and what one step of each dimension of `dst` is in that
  // order.
  std::vector<size_t> order;
  for (size_t d = rows; d < pairs.size(); ++d)
    if (pairs[d].from > 0) order.push_back(d);
  std::ranges::stable_sort(order, std::greater{}, [&](size_t d) { return pairs[d].from; });
  std::vector<int64_t> step(pairs.size(), 0);
  int64_t columns = 1;
  for (size_t i = order.size(); i-- > 0; columns *= pairs[order[i]].count) step[order[i]] = columns;
  for (const size_t d : order) from_columns.push_back({pairs[d].from, pairs[d].count});
  const Matrix from({src.tensor, src.dtype, src.offset, {}}, from_rows, from_columns),
      to({dst.tensor, dst.dtype, dst.offset, {}}, to_rows, to_columns);
  // The three innermost dimensions of `dst`; single ones where it has fewer.
  Pair seen[kFreeDims] = {{1, 0, 0}, {1, 0, 0}, {1, 0, 0}};
  for (size_t i = 0, d = pairs.size(); d-- > rows; ++i) seen[i] = {pairs[d].count, 0, step[d]};
  for (int64_t row = 0; row < from.rows(); row += kPartitions) {
    const int64_t count = std::min(kPartitions, from.rows() - row);
    const Tile loaded = emitter.sbuf(count, columns, src.dtype, "as_source");
    from.load(emitter, loaded, row, 0);
    const Tile ordered = emitter.sbuf(count, product(pairs, rows), dst.dtype, "as_result");
    emitter.tensor_copy(ordered, loaded.patches(0, seen[2].count, seen[2].from, seen[1].count, seen[1].from,
                                                seen[0].count, seen[0].from));
    to.store(emitter, ordered, row, 0);
  }
}

}  // namespace

void rearrange(Emitter& emitter, const View& dst, const View& src) {
  std::vector<Pair> pairs = pairs_of(dst, src);
  // A few repetitions of each element; many are a range that is filled (transposed_copy.h).
  if (!pairs.empty() && pairs.back().from == 0 && pairs.back().count <= kRepeatedMost)
    cut_first(pairs, size_bytes(src.dtype));
  cut_run(pairs, size_bytes(src.dtype));
  if (const auto rows = dims_over_partitions(pairs, size_bytes(src.dtype)); rows && src.dtype == dst.dtype)
    return through_sbuf(emitter, dst, src, pairs, *rows);
  emitter.copy(dst, src);
}

}  // namespace opentrn::compiler
