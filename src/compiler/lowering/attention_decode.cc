// Attention of few queries to many keys, the form of a decode step (takes_few_queries of
// analysis/attention_op.h). Keys go over partitions, so that no instruction works on a few long rows:
//
//   for each outer batch, and heads that lie side by side
//     for each chunk of keys: K [128, blocks, d] as it lies, in long runs
//       each block of 128 keys transposed                      Tensor, copied out by Vector and Scalar in
//       turn S = K Q^T, [128 keys, queries]                     Tensor scale and masks, to SBUF [128,
//       queries, blocks]    Vector
//     M = the largest of a query's scores                  Vector along blocks, Tensor and Vector over
//     partitions P = exp(S - M), l = its sums over blocks             Scalar for each chunk of keys: V [128,
//     blocks, e] as it lies
//       O += P V, [queries, e]                             Tensor
//     l summed over partitions by a product with ones      Tensor
//     O / l
//
// All scores of a query are there before the first weight is made, so nothing is scaled again. A sink of each
// query is one more score of the first partition where the largest is found, and one more weight of its sum.
//
// Which 128 keys are a block is free, as long as K, V and the masks agree. In HBM, partition p has keys p n
// to p n + n - 1 of a chunk of n blocks; where K or V are in SBUF already, they lie so with n keys of a row
// there (a gather of runs of n positions), and a block is 128 keys in order where n is 1.
//
// While the scores of one job (a batch's group of heads) are made, the maximum of the job before it is found,
// and the results of the one before that: the Tensor engine waits for neither.
//
// PSUM: banks 0 and 1 for scores, 2 in quarters for what goes over partitions, 4 to 6 in halves for
// transposes, 3 and 7 for results.
#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <optional>

#include "compiler/analysis/attention_op.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/attention_kernel.h"
#include "compiler/lowering/lowering.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kScoresBanks = 2, kAcrossBank = 2, kTransposedBank = 4, kTransposedHalves = 6;
constexpr std::array<int64_t, 2> kResultBanks{3, 7};
constexpr int64_t kHalfBank = 1024, kQuarterBank = 512;
constexpr int64_t kQuarters = 4;
// Bytes of a partition that one transfer of keys or values brings: a mebibyte in all, several times what the
// fixed cost of a transfer is worth (dma_transfer_min_ns of the tables).
constexpr int64_t kChunkBytes = 8 * 1024;

class DecodeAttention : private AttentionKernelBase {
 public:
  DecodeAttention(Lowering& lowering, const Op& op) : AttentionKernelBase(lowering, op) {
    const int64_t of_k = keys_of_row(k_), of_v = keys_of_row(v_), run = std::max(of_k, of_v);
    in_order_ = run == 1;
    if (attention_.sink) sink_.emplace(lowering_.view(*attention_.sink), outer_rank_);
    together_ = heads_together();
    blocks_ = run > 1 ? run : blocks_of_chunk();
  }

  void run() {
    if (out_.element_count() == 0) return;
    reserve_result(batches_ == 1);
    ones_ = emitter_.sbuf(kPartitions, kPartitions, DType::kFloat32, "ones");
    emitter_.memset(ones_, 1.0);
    for (int64_t batch = 0; batch < batches_; ++batch)
      for (int64_t head = 0; head < heads_; head += together_) add(batch, head);
    while (!jobs_.empty()) advance();
  }

 private:
  // Features over partitions: [up to 128 features, rows] each.
  using Panel = std::vector<Tile>;

  // A group of heads of a batch.
  struct Job {
    int64_t batch = 0, head = 0, heads = 0;
    std::vector<Tile> scores, weights;  // of a head: [128, queries * blocks of all chunks]
    Tile factors, sums;                 // [heads * queries, the same], [128, heads * queries]
    bool is_weighed = false;
  };

  int64_t all_blocks() const { return keys_ / kPartitions; }
  int64_t chunks() const { return all_blocks() / blocks_; }

  // Keys in a row of what SBUF keeps; 0: it keeps none.
  int64_t keys_of_row(const AttentionOperand& input) const {
    if (!emitter_.residency().holds(input.base.tensor)) return 0;
    const int64_t columns = emitter_.residency().columns(input.base.tensor), step = input.rows.step;
    const int64_t run = step > 0 && columns % step == 0 ? columns / step : 1;
    return run > 0 && all_blocks() % run == 0 && run * queries_ <= kPsumBankColumns ? run : 1;
  }

  // Heads whose keys, and values, are loaded together; all groups are alike, but for the last.
  int64_t heads_together() const {
    const int64_t most = values_ <= kPartitions ? kQuarters : 1;
    int64_t count = std::min(most, heads_);
    const auto fits = [&](int64_t n) {
      for (int64_t head = 0; head < heads_; head += n) {
        const int64_t here = std::min(n, heads_ - head);
        if (!k_.side_by_side(head, here) || !v_.side_by_side(head, here)) return false;
      }
      return true;
    };
    while (count > 1 && !fits(count)) --count;
    return count;
  }

  // Blocks of 128 keys of one transfer, a divisor of all of them.
  int64_t blocks_of_chunk() const {
    const int64_t width = together_ * std::max(features_, values_) * size_bytes(dtype_);
    int64_t count =
        std::clamp<int64_t>(std::min(kChunkBytes / width, kPsumBankColumns / queries_), 1, all_blocks());
    while (all_blocks() % count != 0) --count;
    return count;
  }

  // -- operands
  // Where partitions and blocks have their keys: dimensions of `count` blocks, `step` elements from key to
  // key.
  isa::Dim over_partitions(int64_t step) const { return {in_order_ ? step : blocks_ * step, kPartitions}; }
  isa::Dim over_blocks(int64_t step, int64_t count) const {
    return {in_order_ ? kPartitions * step : step, count};
  }

  // Keys or values of a chunk, by block and head of the job: [128, columns].
  std::vector<std::vector<Tile>> chunk_of(const AttentionOperand& input, const Job& job, int64_t chunk,
                                          const char* name) {
    std::vector<std::vector<Tile>> parts = resident_chunk_of(input, job, chunk);
    if (!parts.empty()) return parts;
    const int64_t columns = input.columns.count, width = job.heads * columns, step = input.rows.step;
    View view = input.of_head(job.batch, job.head);
    view.offset += chunk * blocks_ * kPartitions * step;
    view.dims = {over_partitions(step), over_blocks(step, blocks_), {input.columns.step, width}};
    const Tile tile = emitter_.sbuf(kPartitions, blocks_ * width, input.base.dtype, name);
    emitter_.load(tile, view);
    for (int64_t block = 0; block < blocks_; ++block)
      for (auto& of_block = parts.emplace_back(); std::ssize(of_block) < job.heads;)
        of_block.push_back(tile.column_range((block * job.heads + std::ssize(of_block)) * columns, columns));
    return parts;
  }

  // Empty unless all of them are in SBUF.
  std::vector<std::vector<Tile>> resident_chunk_of(const AttentionOperand& input, const Job& job,
                                                   int64_t chunk) {
    if (keys_of_row(input) == 0) return {};
    std::vector<std::vector<Tile>> parts;
    for (int64_t block = 0; block < blocks_; ++block) {
      auto& of_block = parts.emplace_back();
      for (int64_t head = job.head; head < job.head + job.heads; ++head) {
        const int64_t step = input.rows.step;
        View first = input.of_head(job.batch, head);
        first.offset += chunk * blocks_ * kPartitions * step + block * over_blocks(step, blocks_).step;
        const auto kept = Matrix(first, {over_partitions(step)}, {input.columns})
                              .kept(emitter_, 0, kPartitions, 0, input.columns.count, true);
        if (!kept) return {};
        of_block.push_back(*kept);
      }
    }
    return parts;
  }

  // Columns apart: rows, which are runs, as columns: [columns, keys of the chunk].
  bool columns_apart(const AttentionOperand& input) const {
    return !in_order_ && keys_of_row(input) == 0 && input.columns.step != 1 && input.rows.step == 1 &&
           input.columns.count <= kPartitions;
  }
  Tile transposed_chunk_of(const AttentionOperand& input, const Job& job, int64_t chunk, const char* name) {
    View view = input.of_head(job.batch, job.head);
    const int64_t count = blocks_ * kPartitions;
    view.offset += chunk * count;
    view.dims = {input.columns, {1, count}};
    const Tile tile = emitter_.sbuf(input.columns.count, count, input.base.dtype, name);
    emitter_.load(tile, view);
    return tile;
  }
  // Of a chunk's keys along columns, those of a block.
  Tile block_of(const Tile& chunk, int64_t block) const {
    return chunk.patch(block, 1, 0, kPartitions, blocks_);
  }

  // The queries of each head of the job. Queries of as many batches as there are partitions for are
  // loaded and transposed together.
  std::vector<Panel> queries_of(const Job& job) {
    const int64_t of_batch = heads_ * queries_, batches = std::max<int64_t>(1, kPartitions / of_batch);
    const bool all_heads = of_batch <= kPartitions && q_.heads.size() <= 1 && q_.outer.size() <= 1;
    const int64_t first = all_heads ? job.batch / batches * batches : job.batch;
    if (all_heads && panel_batch_ != first) {
      const int64_t count = std::min(batches, combinations(q_.outer) - first);
      View view = q_.of_batch(first);
      for (const isa::Dim& dim : q_.outer) view.dims.push_back({dim.step, count});
      view.dims.insert(view.dims.end(), q_.heads.begin(), q_.heads.end());
      view.dims.insert(view.dims.end(), {q_.rows, q_.columns});
      panel_ = transposed_queries(view, count * of_batch);
      panel_batch_ = first;
    }
    std::vector<Panel> result;
    for (int64_t head = job.head; head < job.head + job.heads; ++head) {
      if (all_heads) {
        Panel& of_head = result.emplace_back();
        for (const Tile& part : panel_)
          of_head.push_back(part.column_range((job.batch - first) * of_batch + head * queries_, queries_));
        continue;
      }
      View view = q_.of_head(job.batch, head);
      view.dims = {q_.rows, q_.columns};
      result.push_back(transposed_queries(view, queries_));
    }
    return result;
  }

  Panel transposed_queries(const View& view, int64_t rows) {
    const Tile loaded = emitter_.sbuf(rows, features_, dtype_, "queries");
    emitter_.load(loaded, view);
    return turned_features({loaded}, rows, "queries_T");
  }

  // Tiles [up to 128 rows, features], their rows beside each other.
  Panel turned_features(const std::vector<Tile>& rows, int64_t columns, const char* name) {
    Panel panel;
    for (const auto& [first, width] : feature_parts(features_)) {
      std::vector<Tile> parts;
      for (const Tile& tile : rows) parts.push_back(tile.column_range(first, width));
      turn(panel.emplace_back(emitter_.sbuf(width, columns, dtype_, name)), parts);
    }
    return panel;
  }

  // Tiles of up to 128 columns, transposed beside each other into `dst`.
  void turn(const Tile& dst, const std::vector<Tile>& parts) {
    // Keys in fp8 are widened by a product with the identity.
    const bool widens = parts[0].dtype != dst.dtype;
    const DType between = widens ? DType::kFloat32 : dst.dtype;
    const int64_t at_once = std::max<int64_t>(1, kHalfBank / size_bytes(between) / parts[0].rows);
    int64_t column = 0;
    for (size_t i = 0; i < parts.size(); i += static_cast<size_t>(at_once)) {
      const size_t end = std::min(parts.size(), i + static_cast<size_t>(at_once));
      const int64_t width = static_cast<int64_t>(end - i) * parts[0].rows;
      const Tile transposed =
          emitter_.psum_at(kTransposedBank, next_half_ * kHalfBank, dst.rows, width, between, "transposed");
      next_half_ = (next_half_ + 1) % kTransposedHalves;
      for (size_t p = i; p < end; ++p) {
        const Tile to = transposed.column_range(static_cast<int64_t>(p - i) * parts[0].rows, parts[0].rows);
        if (widens)
          emitter_.matmul(to, parts[p], wide_identity(parts[p].rows), false);
        else
          emitter_.transpose(to, parts[p]);
      }
      copy_out(dst.column_range(column, width), transposed);
      column += width;
    }
  }

  // [rows, rows] in the type of queries.
  Tile wide_identity(int64_t rows) {
    if (!wide_identity_) {
      const Tile ones = emitter_.sbuf(kPartitions, kPartitions, DType::kFloat32, "identity_of_keys");
      emitter_.load(ones, lowering_.constant(square_identity(kPartitions)));
      wide_identity_ = emitter_.sbuf(kPartitions, kPartitions, dtype_, "identity_of_keys");
      emitter_.tensor_copy(*wide_identity_, ones);
    }
    return wide_identity_->row_range(0, rows).column_range(0, rows);
  }

  static graph::Literal square_identity(int64_t size) {
    std::vector<std::byte> bytes(static_cast<size_t>(size * size) * sizeof(float));
    auto* const numbers = reinterpret_cast<float*>(bytes.data());
    for (int64_t i = 0; i < size; ++i) numbers[i * size + i] = 1.0F;
    return {graph::Type::tensor(graph::ElementType::kF32, {size, size}), std::move(bytes)};
  }

  void copy_out(const Tile& dst, const Tile& src) {
    emitter_.tensor_copy(dst, src, copies_++ % 2 == 0 ? isa::Engine::kScalar : isa::Engine::kVector);
  }

  // [128, queries, blocks of all chunks] of a mask, or one query's where all are alike. Kept for all heads
  // that share it.
  const Tile& mask_of(size_t index, const Job& job, int64_t head) {
    const AttentionOperand& input = masks_[index].input;
    const int64_t rows = input.rows.step == 0 ? 1 : queries_;
    const View view = input.of_head(job.batch, head);
    const std::pair at{index, view.offset};
    if (const auto found = loaded_masks_.find(at); found != loaded_masks_.end()) return found->second;
    if (loaded_masks_.size() >= 2 * masks_.size()) loaded_masks_.clear();
    const Tile tile = emitter_.sbuf(kPartitions, rows * all_blocks(), input.base.dtype, "mask");
    for (int64_t row = 0; row < rows; ++row) {
      View of_row = view;
      of_row.offset += row * input.rows.step;
      load_mask(tile.column_range(row * all_blocks(), all_blocks()), of_row, input.columns.step);
    }
    return loaded_masks_.emplace(at, tile).first->second;
  }

  // One query's, [128, blocks of all chunks], of the view's elements `step` apart.
  void load_mask(const Tile& tile, View view, int64_t step) {
    const int64_t chunk = blocks_ * kPartitions;
    if (!in_order_) {
      view.dims = {over_partitions(step), {chunk * step, chunks()}, over_blocks(step, blocks_)};
      return emitter_.load(tile, view);
    }
    // Single elements on each partition are slow to load: rows are loaded and transposed.
    for (int64_t block = 0; block < all_blocks(); block += kPartitions) {
      const int64_t count = std::min(kPartitions, all_blocks() - block);
      const Tile rows = emitter_.sbuf(count, kPartitions, tile.dtype, "mask_rows");
      View part = view;
      part.offset += block * kPartitions * step;
      part.dims = {over_blocks(step, count), over_partitions(step)};
      emitter_.load(rows, part);
      const Tile numbers = emitter_.sbuf(count, kPartitions, DType::kFloat32, "mask_numbers");
      emitter_.tensor_copy(numbers, rows);
      const Tile transposed = across(kPartitions, count, "mask_T");
      emitter_.transpose(transposed, numbers);
      emitter_.tensor_copy(tile.column_range(block, count), transposed);
    }
  }

  // Of the job's queries, [1, heads * queries] in fp32, times `factor`. Loaded once for batches that share
  // them.
  Tile sinks_of(const Job& job, double factor) {
    const Tile row = emitter_.sbuf(1, job.heads * queries_, DType::kFloat32, "sinks");
    for (int64_t i = 0; i < job.heads; ++i) {
      View view = sink_->of_head(job.batch, job.head + i);
      const auto [found, fresh] = loaded_sinks_.try_emplace(view.offset);
      if (fresh) {
        found->second = emitter_.sbuf(1, queries_, sink_->base.dtype, "sinks_of_head");
        view.dims = {{0, 1}, {sink_->rows.step, queries_}};
        emitter_.load(found->second, view);
      }
      write_sink(row.column_range(i * queries_, queries_), found->second, factor);
    }
    return row;
  }

  // -- the order of work
  void add(int64_t batch, int64_t head) {
    Job& job = jobs_.emplace_back();
    job.batch = batch;
    job.head = head;
    job.heads = std::min(together_, heads_ - head);
    advance();
  }

  // jobs_: of the oldest the results are made, of the one after it the weights, of the newest the scores.
  void advance() {
    Job* const newest = jobs_.back().scores.empty() ? &jobs_.back() : nullptr;
    Job* const weighing = weighing_job();
    const std::vector<Panel> queries = newest ? queries_of(*newest) : std::vector<Panel>{};
    for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
      if (newest) score(*newest, queries, chunk);
      if (chunk == 0 && weighing) find_largest(*weighing);
    }
    if (jobs_.front().is_weighed) {
      sum_up(jobs_.front());
      jobs_.pop_front();
    }
    if (weighing) weigh(*weighing);
  }

  Job* weighing_job() {
    for (Job& job : jobs_)
      if (!job.scores.empty() && !job.is_weighed) return &job;
    return nullptr;
  }

  // The scaled and masked scores of a chunk's keys, for all heads of the job.
  void score(Job& job, const std::vector<Panel>& queries, int64_t chunk) {
    if (job.scores.empty())
      for (int64_t i = 0; i < job.heads; ++i)
        job.scores.push_back(emitter_.sbuf(kPartitions, queries_ * all_blocks(), DType::kFloat32, "scores"));
    const bool apart = columns_apart(k_) && job.heads == 1;
    Panel transposed;
    std::vector<std::vector<Tile>> parts;
    if (apart)
      transposed = {transposed_chunk_of(k_, job, chunk, "keys")};
    else
      parts = chunk_of(k_, job, chunk, "keys");
    for (int64_t i = 0; i < job.heads; ++i) {
      const Tile sums =
          emitter_.psum_at(next_scores_, 0, kPartitions, queries_ * blocks_, DType::kFloat32, "sums");
      next_scores_ = (next_scores_ + 1) % kScoresBanks;
      if (!apart) transposed = transposed_head(parts, i);
      for (int64_t block = 0; block < blocks_; ++block)
        for (size_t part = 0; part < transposed.size(); ++part)
          emitter_.matmul(sums.patch(block, 1, 0, queries_, blocks_),
                          apart ? block_of(transposed[part], block)
                                : transposed[part].column_range(block * kPartitions, kPartitions),
                          queries[static_cast<size_t>(i)][part], part > 0);
      take_scores(job, i, chunk, sums);
    }
  }

  // The blocks of 128 keys of one head.
  Panel transposed_head(const std::vector<std::vector<Tile>>& parts, int64_t head) {
    std::vector<Tile> of_head;
    for (const std::vector<Tile>& of_block : parts) of_head.push_back(of_block[static_cast<size_t>(head)]);
    return turned_features(of_head, blocks_ * kPartitions, "keys_T");
  }

  // Columns of all queries at the chunk's blocks: of a tile of all chunks' blocks.
  Tile of_chunk(const Tile& tile, int64_t chunk, int64_t query_step) const {
    return tile.patch(chunk * blocks_, queries_, query_step, blocks_, 1);
  }

  void take_scores(Job& job, int64_t i, int64_t chunk, const Tile& sums) {
    const Tile& scores = job.scores[static_cast<size_t>(i)];
    const Tile here = of_chunk(scores, chunk, all_blocks());
    if (masks_.empty()) return is_capped() ? write_capped(here, sums) : emitter_.tensor_copy(here, sums);
    const Tile made =
        is_capped() ? emitter_.sbuf(kPartitions, sums.columns, DType::kFloat32, "capped") : sums;
    if (is_capped()) write_capped(made, sums);
    if (scales_late()) {
      if (chunk == 0) emitter_.memset(scores, late_fill());
      return emitter_.copy_where(here, made, mask_part(0, job, job.head + i, chunk));
    }
    write_masked(here, made, [&](size_t m) { return mask_part(m, job, job.head + i, chunk); });
  }

  Tile mask_part(size_t index, const Job& job, int64_t head, int64_t chunk) {
    const bool alike = masks_[index].input.rows.step == 0;
    return of_chunk(mask_of(index, job, head), chunk, alike ? 0 : all_blocks());
  }

  Tile query_of(const Tile& tile, int64_t query) const {
    return tile.column_range(query * all_blocks(), all_blocks());
  }

  Tile across(int64_t rows, int64_t columns, const char* name) {
    const int64_t quarter = next_quarter_;
    next_quarter_ = (next_quarter_ + 1) % kQuarters;
    return emitter_.psum_at(kAcrossBank, quarter * kQuarterBank, rows, columns, DType::kFloat32, name);
  }

  // The largest score of each query: over blocks, then, transposed, over partitions.
  void find_largest(Job& job) {
    const int64_t columns = job.heads * queries_;
    const Tile of_partitions = emitter_.sbuf(kPartitions, columns, DType::kFloat32, "largest");
    for (int64_t i = 0; i < job.heads; ++i)
      for (int64_t query = 0; query < queries_; ++query)
        emitter_.reduce(AluOp::kMaximum, of_partitions.column_range(i * queries_ + query, 1),
                        query_of(job.scores[static_cast<size_t>(i)], query));
    if (sink_) {
      const Tile first = of_partitions.row_range(0, 1);
      emitter_.tensor_tensor(AluOp::kMaximum, first, first, sinks_of(job, scales_late() ? 1 / scale_ : 1.0));
    }
    const Tile transposed = across(columns, kPartitions, "largest_T");
    emitter_.transpose(transposed, of_partitions);
    const Tile largest = emitter_.sbuf(columns, 1, DType::kFloat32, "largest_of_all");
    emitter_.reduce(AluOp::kMaximum, largest, transposed);
    // What is infinite would be NaN beside the zeros of the identity.
    const Tile shift = emitter_.sbuf(columns, 1, DType::kFloat32, "shift");
    emitter_.tensor_scalar(AluOp::kMaximum, -kLargest, AluOp::kMultiply, scales_late() ? -scale_ : -1.0,
                           shift, largest);
    job.factors = emitter_.sbuf(columns, columns, DType::kFloat32, "factors");
    emitter_.tensor_scalar(AluOp::kMultiply, job.factors, identity(columns), shift);
  }

  // [size, size], of a constant of the program.
  Tile identity(int64_t size) {
    constexpr int64_t kMost = kQuarters * kFewQueriesMax;
    if (!identity_) {
      identity_ = emitter_.sbuf(kMost, kMost, DType::kFloat32, "identity");
      emitter_.load(*identity_, lowering_.constant(square_identity(kMost)));
    }
    return identity_->row_range(0, size).column_range(0, size);
  }

  // The largest ones on all partitions, the weights and their sums over blocks.
  void weigh(Job& job) {
    const int64_t columns = job.heads * queries_;
    const Tile spread = across(kPartitions, columns, "spread");
    emitter_.matmul(spread, ones_.row_range(0, columns), job.factors, false);
    const Tile shift = emitter_.sbuf(kPartitions, columns, DType::kFloat32, "shift");
    emitter_.tensor_copy(shift, spread);
    job.sums = emitter_.sbuf(kPartitions, columns, DType::kFloat32, "sums");
    for (int64_t i = 0; i < job.heads; ++i) {
      const Tile weights = emitter_.sbuf(kPartitions, queries_ * all_blocks(), dtype_, "weights");
      for (int64_t query = 0; query < queries_; ++query) {
        const int64_t column = i * queries_ + query;
        emitter_.activation_sum(ActivationFunction::kExp, query_of(weights, query),
                                query_of(job.scores[static_cast<size_t>(i)], query),
                                scales_late() ? scale_ : 1.0, shift.column_range(column, 1), true,
                                job.sums.column_range(column, 1));
      }
      job.weights.push_back(weights);
    }
    if (sink_) {
      const Tile first = job.sums.row_range(0, 1),
                 weights = emitter_.sbuf(1, columns, DType::kFloat32, "sinks");
      emitter_.tensor_tensor(AluOp::kAdd, weights, sinks_of(job, 1.0), shift.row_range(0, 1));
      emitter_.activation(ActivationFunction::kExp, weights, weights);
      emitter_.tensor_tensor(AluOp::kAdd, first, first, weights);
    }
    job.is_weighed = true;
  }

  // O and l of all heads of the job.
  void sum_up(const Job& job) {
    const Tile results = emitter_.psum_at(kResultBanks[next_result_], 0, queries_, job.heads * values_,
                                          DType::kFloat32, "results");
    next_result_ = 1 - next_result_;
    for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
      const auto values = columns_apart(v_) && job.heads == 1 ? transposed_values(job, chunk)
                                                              : chunk_of(v_, job, chunk, "values");
      for (int64_t i = 0; i < job.heads; ++i)
        for (int64_t block = 0; block < blocks_; ++block)
          emitter_.matmul(results.column_range(i * values_, values_),
                          weights_at(job, i, chunk * blocks_ + block),
                          values[static_cast<size_t>(block)][static_cast<size_t>(i)], chunk + block > 0);
    }
    const Tile sums = across(queries_, job.heads, "sums");
    for (int64_t i = 0; i < job.heads; ++i)
      emitter_.matmul(sums.column_range(i, 1), job.sums.column_range(i * queries_, queries_),
                      ones_.column_range(0, 1), false);
    const Tile divisors = emitter_.sbuf(queries_, job.heads, DType::kFloat32, "divisors");
    emitter_.tensor_copy(divisors, sums);
    for (int64_t i = 0; i < job.heads; ++i)
      store(job.batch, job.head + i, 0, results.column_range(i * values_, values_),
            divisors.column_range(i, 1));
  }

  // [128, queries] of a block.
  Tile weights_at(const Job& job, int64_t head, int64_t block) const {
    return job.weights[static_cast<size_t>(head)].patch(block, 1, 0, queries_, all_blocks());
  }

  // As chunk_of, of values whose columns lie apart.
  std::vector<std::vector<Tile>> transposed_values(const Job& job, int64_t chunk) {
    const Tile rows = transposed_chunk_of(v_, job, chunk, "values_rows");
    const Tile transposed = emitter_.sbuf(kPartitions, blocks_ * values_, dtype_, "values");
    std::vector<Tile> parts;
    std::vector<std::vector<Tile>> result;
    for (int64_t block = 0; block < blocks_; ++block) {
      parts.push_back(block_of(rows, block));
      result.push_back({transposed.column_range(block * values_, values_)});
    }
    turn(transposed, parts);
    return result;
  }

  static constexpr double kLargest = std::numeric_limits<float>::max();

  bool in_order_ = false;  // blocks are 128 keys in order, as SBUF keeps them
  int64_t together_ = 1, blocks_ = 1;

  Tile ones_{};
  Panel panel_;  // queries of several batches, from this batch on
  int64_t panel_batch_ = -1;
  std::optional<Tile> identity_, wide_identity_;
  std::map<std::pair<size_t, int64_t>, Tile> loaded_masks_;  // by mask and first element
  std::optional<AttentionOperand> sink_;
  std::map<int64_t, Tile> loaded_sinks_;  // of a head, by first element
  std::deque<Job> jobs_;
  int64_t next_half_ = 0, next_scores_ = 0, next_quarter_ = 0, copies_ = 0;
  size_t next_result_ = 0;
};

}  // namespace

// Heads that share keys, which the other kernel turns once, and keys that a product has left transposed.
static bool long_rows_are_better(Lowering& lowering, const Op& op) {
  const View keys = lowering.view(op.operands[1]), values = lowering.view(op.operands[2]);
  const DType queries = lowering.view(op.operands[0]).dtype;
  if (keys.dtype != queries || values.dtype != queries) return false;  // read_narrow_operands() chose
  if (keys.dims.end()[-2].count * size_bytes(keys.dtype) > kAttentionKeyBytes) return false;
  if (lowering.emitter().residency().is_by_columns(keys.tensor)) return true;
  return std::any_of(keys.dims.begin(), keys.dims.end() - 2,
                     [](const isa::Dim& dim) { return dim.step == 0 && dim.count > 1; });
}

bool lower_decode_attention(Lowering& lowering, const Op& op) {
  if (!takes_few_queries(lowering.function(), op) || long_rows_are_better(lowering, op)) return false;
  DecodeAttention(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
