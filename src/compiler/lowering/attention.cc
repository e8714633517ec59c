// softmax(scale * Q K^T + masks) V (analysis/attention_op.h), without writing the scores to memory.
//
//   for each outer batch and head, as many queries as have room for sums, and a section of keys
//     K transposed [d, k], 128 features at a time, and V [k, e] in SBUF
//     for each 128 queries, and each 2048 keys of the section that they can see
//       S = Q K^T in PSUM                                  Tensor
//       X = scale S, m = max over keys of X so far         Vector, in one pass
//       P = exp(X - m), l = sums of its rows               Scalar
//       P transposed, 128 keys at a time                   Tensor, copied out by Vector and Scalar in turn
//       O = P V in PSUM                                    Tensor
//       with more than one block of keys: earlier sums are scaled to the new maximum
//     O / l
//
// With a sink, every query begins with m = sink, l = 1, O = 0. With a soft cap, Scalar and Vector make a
// bounded number of each score first (attention_kernel.h).
//
// One section has all keys, and all queries are taken at once, up to kAttentionKeyBytes. With more, what the
// queries have summed up stays in SBUF from section to section (kAttentionSumBytes), and K and V are read
// again for each such group of queries: of 128 features, 4 MiB of transfers for 17 GFLOP of products.
//
// The scores of the next two blocks are begun before the transposes of this one, so that no engine waits.
// With a diagonal, keys that no query of the block sees are never touched, and a constant corner masks the
// last 128.
//
// PSUM: four banks for scores, three in halves for transposes, one in quarters for results.
#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "compiler/analysis/attention_op.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/attention_kernel.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/tiling.h"

namespace opentrn::compiler {

namespace {

// Scores, weights and transposed weights of up to four blocks are in SBUF at once; fp32 ones are shorter.
constexpr int64_t kBlockKeys = 2048;
constexpr int64_t kScoreBanks = 4, kTransposeBank = 4, kTransposeHalves = 6, kResultBank = 7;
// Scores that one instruction scales: two banks, while the products fill the other two.
constexpr int64_t kScoreColumns = 2 * kPsumBankColumns;
constexpr int64_t kHalfBankBytes = 1024;
// Bytes of a partition for the rows of several heads of one operand, loaded together.
constexpr int64_t kRowsBytes = 12 * 1024;
// Bytes of a partition that one transfer of rows brings where 128 of them have fewer. A transfer takes
// 600 ns at least (dma_transfer_min_ns of the tables), in which an engine moves 1.3 KiB for each of its eight
// partitions; more would only let the first keys wait for the last ones.
constexpr int64_t kAttentionTransferBytes = 4 * 1024;
constexpr int64_t kMaskBytes = 32 * 1024;
constexpr int64_t kTogether = 4 * kPartitions;  // queries that are transposed together
// Blocks whose scores are begun before the first of them is summed up: enough to hide that each engine waits
// for the one before it, which takes longer than the work where there are few keys.
size_t blocks_ahead(int64_t keys) { return keys <= kPsumBankColumns ? 6 : keys <= kBlockKeys / 2 ? 4 : 2; }
// Copies out of PSUM: of each four, Vector does one and Scalar three, which leaves both with the same work.
constexpr bool kCopiedByVector[] = {true, false, false, false};

class AttentionKernel : private AttentionKernelBase {
 public:
  AttentionKernel(Lowering& lowering, const Op& op)
      : AttentionKernelBase(lowering, op), loaded_masks_(masks_.size()) {
    if (attention_.sink) sink_.emplace(lowering_.view(*attention_.sink), outer_rank_);
  }

  void run() {
    if (out_.element_count() == 0 || keys_ == 0) return;
    reserve_result(batches_ == 1 || queries_ % kPartitions == 0 || queries_ == 64 || queries_ == 32);
    if (attention_.corner) corner_ = loaded_corner();
    section_keys_ = std::min(keys_, attention_section_keys(size_bytes(dtype_)));
    for (int64_t batch = 0; batch < batches_; ++batch) {
      batch_ = batch;
      for (LoadedMask& mask : loaded_masks_) mask.clear();
      std::swap(rows_, next_rows_);
      next_rows_.clear();
      k_place_.reset();
      v_place_.reset();
      for (int64_t head = 0; head < heads_; ++head) {
        this->head(head);
        // Loads of the next batch wait for nobody; stores of this one would hold them up.
        if (head == 0 && batch + 1 < batches_) load_rows_of(batch + 1);
      }
    }
    finish();
  }

 private:
  using LoadedMask = std::map<std::pair<int64_t, int64_t>, Tile>;  // by element offset and width

  // What blocks of keys so far gave.
  struct Running {
    Tile shift, sum, result;  // shift: -m
  };

  // 128 queries of a head against a block of keys.
  struct Job {
    int64_t batch = 0, head = 0, query = 0, rows = 0, key = 0, keys = 0;
    bool first = false, last = false;
    Tile weights;                  // P [rows, keys]
    std::vector<Tile> transposed;  // P^T by 128 keys
    std::vector<Tile> values;      // V by 128 keys
    Tile sum;                      // l of this block
    std::optional<Tile> rescale;   // of what earlier blocks gave
    std::shared_ptr<Running> running;
  };

  // -- operands
  Tile loaded_corner() {
    const Matrix matrix(lowering_.view(*attention_.corner), 1);
    return matrix.fetch(emitter_, 0, kPartitions, 0, kPartitions, "corner");
  }

  // Rows that are loaded already: by tensor, first element and first row.
  using Rows = std::map<std::tuple<isa::TensorId, int64_t, int64_t>, Tile>;

  // Up to 128 rows of the head. Heads that lie side by side are loaded together, as long runs.
  Tile rows_of(const AttentionOperand& input, int64_t head, int64_t row, int64_t count) {
    const Matrix alone = input.head_rows(batch_, head);
    // The product with the weights contracts values from the first partition on.
    const bool first_partition = &input == &v_;
    if (const auto kept = alone.kept(emitter_, row, count, 0, input.columns.count, first_partition))
      return *kept;
    if (first_partition && alone.kept(emitter_, row, count, 0, input.columns.count, false)) {
      const Tile moved = emitter_.sbuf(count, input.columns.count, alone.dtype(), "values");
      alone.load(emitter_, moved, row, 0);
      return moved;
    }
    if (const auto shared = shared_rows(input, batch_, head, row, count, rows_)) return *shared;
    const int64_t first = input.of_batch(batch_).offset + input.head_offset(head);
    // A head's rows are read once, in order.
    if (!head_rows_.contains({input.base.tensor, first, row})) head_rows_.clear();
    return loaded_rows(alone, input, first, row, count, head_rows_);
  }

  // Rows of `matrix`, of which `loaded` may hold them: as many blocks of 128 as one transfer brings, from the
  // `row` that was asked for.
  Tile loaded_rows(const Matrix& matrix, const AttentionOperand& input, int64_t first, int64_t row,
                   int64_t count, Rows& loaded) {
    const auto key = [&](int64_t r) { return std::make_tuple(input.base.tensor, first, r); };
    if (const auto found = loaded.find(key(row)); found != loaded.end() && found->second.rows == count)
      return found->second;
    const int64_t width = matrix.columns();
    const int64_t blocks = count < kPartitions || !matrix.columns_are_runs()
                               ? 1
                               : std::min(tiles(kAttentionTransferBytes, width * size_bytes(matrix.dtype())),
                                          (input.rows.count - row) / kPartitions);
    if (blocks > 1) {
      const Tile all = emitter_.sbuf(kPartitions, blocks * width, matrix.dtype(), "rows");
      if (matrix.load_blocks(emitter_, all, row, 0, width)) {
        for (int64_t i = 0; i < blocks; ++i)
          loaded.insert_or_assign(key(row + i * kPartitions), all.column_range(i * width, width));
        return loaded.at(key(row));
      }
    }
    return loaded.insert_or_assign(key(row), matrix.fetch(emitter_, row, count, 0, width, "rows"))
        .first->second;
  }

  // Rows of one batch that another transfer brought with those of its neighbours.
  std::optional<Tile> row_of_neighbours(const AttentionOperand& input, int64_t first, int64_t row) const {
    const auto found = neighbours_.find({input.base.tensor, first, row});
    return found == neighbours_.end() ? std::nullopt : std::optional<Tile>(found->second);
  }

  // Batches of so few rows that a transfer for each would take longer than the work on it: as many at once as
  // have room. Those of the transfer before may still be in use.
  void load_neighbours(const AttentionOperand& input, const Matrix& rows, int64_t first, int64_t batch) {
    if (input.outer.size() != 1 || input.outer[0].step == 0 || rows.rows() > kPartitions ||
        row_of_neighbours(input, first, 0))
      return;
    const int64_t width = rows.columns(), bytes = width * size_bytes(rows.dtype());
    const int64_t count = std::min(kRowsBytes / bytes, batches_ - batch), step = input.outer[0].step;
    if (count < 2) return;
    const Tile all = emitter_.sbuf(rows.rows(), count * width, rows.dtype(), "rows");
    rows.beside({step, count}).load(emitter_, all, 0, 0);
    std::erase_if(neighbours_, [&](const auto& entry) {
      const auto& [tensor, offset, row] = entry.first;
      return tensor == input.base.tensor && offset < first - step;
    });
    for (int64_t i = 0; i < count; ++i)
      neighbours_.insert_or_assign({input.base.tensor, first + i * step, 0},
                                   all.column_range(i * width, width));
  }

  // The head's columns of rows that are loaded for several heads; nullopt where heads do not lie side by
  // side.
  std::optional<Tile> shared_rows(const AttentionOperand& input, int64_t batch, int64_t head, int64_t row,
                                  int64_t count, Rows& loaded) {
    const View base = input.of_batch(batch);
    const int64_t offset = input.head_offset(head), width = input.columns.count;
    const int64_t run = input.rows.step > 0 ? input.rows.step : width;
    const int64_t bytes = tiles(input.rows.count, kPartitions) * width * size_bytes(input.base.dtype);
    const int64_t together = std::max<int64_t>(1, std::min(run / width, kRowsBytes / bytes));
    const bool side_by_side = input.columns.step == 1 && offset % width == 0 && offset < run &&
                              combinations(input.heads) > 1 && input.rows.step % width == 0;
    if (!side_by_side || together == 1) return std::nullopt;
    const int64_t first = offset / width / together * together;
    const int64_t heads_there = std::min(together, heads_width(input) / width - first);
    View start = base;
    start.offset += first * width;
    const Matrix matrix(start, {input.rows}, {{1, heads_there * width}});
    if (heads_there * width == run) load_neighbours(input, matrix, start.offset, batch);
    if (const auto rows = row_of_neighbours(input, start.offset, row))
      return rows->column_range(offset - first * width, width);
    return loaded_rows(matrix, input, start.offset, row, count, loaded)
        .column_range(offset - first * width, width);
  }

  void load_rows_of(int64_t batch) {
    for (const AttentionOperand* input : {&k_, &q_, &v_}) {
      if (resident_transposed(*input, batch, 0, 0, input->rows.count)) continue;
      for (int64_t row = 0; row < input->rows.count; row += kPartitions) {
        const int64_t count = std::min(kPartitions, input->rows.count - row);
        const Matrix alone = input->head_rows(batch, 0);
        if (!alone.kept(emitter_, row, count, 0, input->columns.count, false))
          shared_rows(*input, batch, 0, row, count, next_rows_);
      }
    }
  }

  // Elements from the first head's beginning to the last one's end.
  static int64_t heads_width(const AttentionOperand& input) {
    int64_t last = 0;
    for (const isa::Dim& dim : input.heads) last += (dim.count - 1) * dim.step;
    return last + input.columns.count;
  }

  Tile half_bank(int64_t rows, int64_t columns, DType dtype) {
    const int64_t half = next_half_;
    next_half_ = (next_half_ + 1) % kTransposeHalves;
    return emitter_.psum_at(kTransposeBank, half * kHalfBankBytes, rows, columns, dtype, "transposed");
  }

  void copy_out(const Tile& dst, const Tile& src) {
    const bool by_vector = kCopiedByVector[copies_++ % std::size(kCopiedByVector)];
    emitter_.tensor_copy(dst, src, by_vector ? isa::Engine::kVector : isa::Engine::kScalar);
  }

  // Tiles of up to 128 rows, one below the other, transposed into `dst` [columns, rows of all]. Parts that
  // fit half a bank are copied out at once.
  void turn(const Tile& dst, const std::vector<Tile>& parts) {
    const int64_t at_once = kHalfBankBytes / size_bytes(dst.dtype) / kPartitions;
    int64_t column = 0;
    for (size_t i = 0; i < parts.size(); i += static_cast<size_t>(at_once)) {
      const size_t end = std::min(parts.size(), i + static_cast<size_t>(at_once));
      int64_t width = 0;
      for (size_t p = i; p < end; ++p) width += parts[p].rows;
      const Tile transposed = half_bank(dst.rows, width, dst.dtype);
      int64_t at = 0;
      for (size_t p = i; p < end; ++p) {
        emitter_.transpose(transposed.column_range(at, parts[p].rows), parts[p]);
        at += parts[p].rows;
      }
      copy_out(dst.column_range(column, width), transposed);
      column += width;
    }
  }

  // Features over partitions: [up to 128 features, rows] each.
  using Panel = std::vector<Tile>;

  static Panel columns_of(const Panel& panel, int64_t first, int64_t count) {
    Panel result;
    for (const Tile& tile : panel) result.push_back(tile.column_range(first, count));
    return result;
  }

  // Where a product has left features over partitions already.
  std::optional<Panel> resident_transposed(const AttentionOperand& input, int64_t batch, int64_t head,
                                           int64_t row, int64_t count) {
    if (!emitter_.residency().is_by_columns(input.base.tensor)) return std::nullopt;
    const Matrix turned = input.head_rows(batch, head).transposed();
    Panel panel;
    for (const auto& [first, width] : feature_parts(input.columns.count)) {
      const auto part = turned.kept(emitter_, first, width, row, count, /*first_partition=*/false);
      if (!part) return std::nullopt;
      panel.push_back(*part);
    }
    return panel;
  }

  // Both operands of a product lie on the same partitions.
  Panel beside_keys(Panel queries) {
    const auto partition = [](const Tile& tile) { return tile.offset / tile.row_elements; };
    for (size_t i = 0; i < queries.size(); ++i) {
      if (partition(queries[i]) == partition(keys_panel_[i])) continue;
      const Tile moved = emitter_.sbuf(queries[i].rows, queries[i].columns, queries[i].dtype, "queries");
      emitter_.tensor_copy(moved, queries[i]);
      queries[i] = moved;
    }
    return queries;
  }

  // Rows from `row`.
  Panel transposed_rows(const AttentionOperand& input, int64_t head, int64_t row, int64_t count,
                        const char* name) {
    if (auto kept = resident_transposed(input, batch_, head, row, count)) return *std::move(kept);
    const auto features = feature_parts(input.columns.count);
    Panel panel;
    if (input.rows.step == 1 && input.columns.step != 1) {  // as it lies
      View one = input.of_batch(batch_);
      one.offset += input.head_offset(head);
      const Matrix lies(one, {input.columns}, {input.rows});
      for (const auto& [first, width] : features)
        panel.push_back(lies.fetch(emitter_, first, width, row, count, name));
      return panel;
    }
    std::vector<Tile> rows;
    for (int64_t r = 0; r < count; r += kPartitions)
      rows.push_back(rows_of(input, head, row + r, std::min(kPartitions, count - r)));
    for (const auto& [first, width] : features) {
      std::vector<Tile> parts;
      for (const Tile& tile : rows) parts.push_back(tile.column_range(first, width));
      turn(panel.emplace_back(emitter_.sbuf(width, count, input.base.dtype, name)), parts);
    }
    return panel;
  }

  // V of the section, by 128 keys.
  std::vector<Tile> value_tiles(int64_t head) {
    std::vector<Tile> result;
    const bool columns_apart = v_.columns.step != 1 && v_.rows.step == 1 && values_ <= kPartitions;
    const int64_t end = std::min(keys_, section_ + section_keys_);
    for (int64_t key = section_; key < end; key += kPartitions) {
      const int64_t count = std::min(kPartitions, end - key);
      if (!columns_apart) {
        result.push_back(rows_of(v_, head, key, count));
        continue;
      }
      View one = v_.of_batch(batch_);
      one.offset += v_.head_offset(head);
      const Matrix columns_by_keys(one, {v_.columns}, {v_.rows});
      const Tile tile = emitter_.sbuf(count, values_, dtype_, "values");
      turn(tile, {columns_by_keys.fetch(emitter_, 0, values_, key, count, "values_rows")});
      result.push_back(tile);
    }
    return result;
  }

  // -- the order of work
  void head(int64_t head) {
    const int64_t sums = values_ * static_cast<int64_t>(sizeof(float));
    const int64_t group = section_keys_ == keys_
                              ? queries_
                              : std::max<int64_t>(kTogether, kAttentionSumBytes / sums * kPartitions);
    for (int64_t first = 0; first < queries_; first += group) {
      const int64_t count = std::min(group, queries_ - first);
      running_.clear();
      for (section_ = 0; section_ < keys_seen(first + count); section_ += section_keys_)
        section(head, first, count);
    }
  }

  // By the queries in front of `end`.
  int64_t keys_seen(int64_t end) const {
    return attention_.diagonal ? std::min(keys_, end + *attention_.diagonal) : keys_;
  }

  // A section's keys for some queries of a head.
  void section(int64_t head, int64_t first, int64_t count) {
    const std::pair place{k_.head_offset(head), section_};
    if (k_place_ != place)
      keys_panel_ = transposed_rows(k_, head, section_, std::min(section_keys_, keys_ - section_), "keys");
    k_place_ = place;
    // A panel of queries is transposed together.
    for (int64_t q = first; q < first + count; q += kTogether) {
      const int64_t width = std::min(kTogether, first + count - q);
      if (keys_seen(q + width) <= section_) continue;
      const Panel panel = beside_keys(transposed_rows(q_, head, q, width, "queries"));
      for (int64_t part = 0; part < width; part += kPartitions)
        queries(head, q + part, columns_of(panel, part, std::min(kPartitions, width - part)));
    }
  }

  // [rows, 1]; loaded once where all queries of a head have the same.
  Tile sinks_of(int64_t head, int64_t query, int64_t rows) {
    const isa::Dim over_rows{sink_->rows.step,
                             sink_->rows.step == 0 ? std::min(kPartitions, queries_) : rows};
    View view = sink_->of_head(batch_, head);
    view.offset += query * over_rows.step;
    if (sink_offset_ != view.offset)
      sink_tile_ =
          Matrix(view, {over_rows}, {sink_->columns}).fetch(emitter_, 0, over_rows.count, 0, 1, "sink");
    sink_offset_ = view.offset;
    return sink_tile_.row_range(0, rows);
  }

  // What 128 queries have before the first key.
  std::shared_ptr<Running> begun(int64_t head, int64_t query, int64_t rows) {
    auto running = std::make_shared<Running>();
    if (!sink_) return running;
    running->shift = column(rows, "shift");
    write_sink(running->shift, sinks_of(head, query, rows), -1.0);
    running->sum = column(rows, "sum");
    emitter_.memset(running->sum, 1.0);
    running->result = column(rows, "joined", values_);
    emitter_.memset(running->result, 0.0);
    return running;
  }

  void queries(int64_t head, int64_t query, const Panel& transposed) {
    const int64_t rows = transposed[0].columns, visible = keys_seen(query + rows);
    const int64_t end = std::min(visible, section_ + section_keys_);
    auto& running = running_[query];
    if (!running) running = begun(head, query, rows);
    const int64_t block = size_bytes(dtype_) == 4 ? kBlockKeys / 2 : kBlockKeys;
    for (int64_t key = section_; key < end; key += block) {
      const int64_t count = std::min(block, end - key);
      Job job{.batch = batch_,
              .head = head,
              .query = query,
              .rows = rows,
              .key = key,
              .keys = count,
              .first = key == 0 && !sink_,
              .last = key + count == visible,
              .weights = {},
              .transposed = {},
              .values = {},
              .sum = {},
              .rescale = {},
              .running = running};
      weigh(job, transposed);
      // After the first scores, which do not need them.
      const std::pair place{v_.head_offset(head), section_};
      if (v_place_ != place) values_tiles_ = value_tiles(head);
      v_place_ = place;
      for (int64_t k = key; k < key + count; k += kPartitions)
        job.values.push_back(values_tiles_[static_cast<size_t>((k - section_) / kPartitions)]);
      weighed_.push_back(std::move(job));
      if (weighed_.size() > blocks_ahead(keys_)) turn_first();
    }
  }

  // Weights are transposed one block ahead of the products that need them.
  void turn_first() {
    turn_weights(weighed_.front());
    std::swap(transposed_, weighed_.front());
    if (weighed_.front().rows > 0) sum_up(weighed_.front());
    weighed_.pop_front();
  }

  void finish() {
    while (!weighed_.empty()) turn_first();
    sum_up(transposed_);
  }

  Tile column(int64_t rows, const char* name, int64_t columns = 1) {
    return emitter_.sbuf(rows, columns, DType::kFloat32, name);
  }

  // S, its maximum, P and the sums of its rows. One pass of Vector takes scores from PSUM, scales them and
  // finds their maximum.
  void weigh(Job& job, const Panel& transposed) {
    const int64_t regions = tiles(job.keys, kScoreColumns);
    const Tile scaled = emitter_.sbuf(job.rows, job.keys, DType::kFloat32, "scaled");
    const Tile shift = column(job.rows, "shift");
    const bool alone = job.first && job.last;
    // A block that is masked as a whole must not make infinity minus infinity of what others hold.
    std::optional<Tile> least;
    if (!alone) {
      least = column(job.rows, "least");
      if (job.first)
        emitter_.memset(*least, -std::numeric_limits<float>::max());
      else
        emitter_.tensor_scalar(AluOp::kMultiply, *least, job.running->shift, -1.0);
    }
    for (int64_t r = 0; r < regions; ++r) {
      const Tile scores = scores_of(job, transposed, r * kScoreColumns);
      const Tile part = masked(job, scores, r * kScoreColumns);
      emitter_.tensor_scalar_max(AluOp::kMultiply, scaled.column_range(r * kScoreColumns, part.columns), part,
                                 scales_late() ? scale_ : 1.0,
                                 {.begins = r == 0,
                                  .first = r == 0 ? least : std::nullopt,
                                  .negated = r + 1 == regions ? std::optional(shift) : std::nullopt});
    }
    if (!job.first) {
      job.rescale = column(job.rows, "rescale");
      emitter_.activation(ActivationFunction::kExp, *job.rescale, job.running->shift, -1.0, shift);
    }
    job.running->shift = shift;
    job.weights = emitter_.sbuf(job.rows, job.keys, dtype_, "weights");
    job.sum = column(job.rows, "sum");
    emitter_.activation_sum(ActivationFunction::kExp, job.weights, scaled, 1.0, shift, /*begins=*/true,
                            job.sum);
  }

  Tile scores_of(const Job& job, const Panel& transposed, int64_t begin) {
    const int64_t width = std::min(kScoreColumns, job.keys - begin);
    const Tile scores = emitter_.psum_at(next_bank_, 0, job.rows, width, DType::kFloat32, "scores");
    next_bank_ = (next_bank_ + kScoreColumns / kPsumBankColumns) % kScoreBanks;
    for (int64_t c = 0; c < width; c += kPsumBankColumns) {
      const int64_t columns = std::min(kPsumBankColumns, width - c);
      for (size_t part = 0; part < transposed.size(); ++part)
        emitter_.matmul(scores.column_range(c, columns), transposed[part],
                        keys_panel_[part].column_range(job.key - section_ + begin + c, columns), part > 0);
    }
    const Tile made = is_capped() ? emitter_.sbuf(job.rows, width, DType::kFloat32, "capped") : scores;
    if (is_capped()) write_capped(made, scores);
    if (attention_.diagonal) mask_corner(job, made, begin);
    return made;
  }

  // Key `query + r + diagonal` is the last one that row r sees: 128 columns from there have the corner's
  // shape.
  void mask_corner(const Job& job, const Tile& scores, int64_t begin) {
    const int64_t corner = job.query + *attention_.diagonal - job.key - begin;
    const int64_t from = std::max<int64_t>(0, corner), to = std::min(scores.columns, corner + kPartitions);
    if (from >= to) return;
    const Tile part = scores.column_range(from, to - from);
    emitter_.tensor_tensor(AluOp::kAdd, part, part,
                           corner_.row_range(0, job.rows).column_range(from - corner, to - from));
  }

  // The scores with every mask, in SBUF, scaled unless that comes late; the scores themselves without masks.
  Tile masked(const Job& job, const Tile& scores, int64_t begin) {
    if (masks_.empty()) return scores;
    const Tile result = emitter_.sbuf(job.rows, scores.columns, DType::kFloat32, "masked");
    const auto tile_of = [&](size_t i) { return mask_tile(i, job, job.key + begin, scores.columns); };
    if (scales_late()) {
      emitter_.memset(result, late_fill());
      emitter_.copy_where(result, scores, tile_of(0));
    } else {
      write_masked(result, scores, tile_of);
    }
    return result;
  }

  Tile mask_tile(size_t index, const Job& job, int64_t key, int64_t width) {
    const Mask& mask = masks_[index];
    LoadedMask& loaded = loaded_masks_[index];
    View view = mask.input.of_batch(batch_);
    view.offset +=
        mask.input.head_offset(job.head) + job.query * mask.input.rows.step + key * mask.input.columns.step;
    const bool keep = tiles(queries_, kPartitions) * keys_ * 4 <= kMaskBytes || mask.input.rows.step == 0;
    const std::pair at{view.offset, width};
    if (const auto found = loaded.find(at); found != loaded.end())
      return found->second.row_range(0, job.rows);
    // Rows that are all alike are loaded for all partitions, so that any query finds them.
    const int64_t rows = mask.input.rows.step == 0 ? std::min(kPartitions, queries_) : job.rows;
    const Matrix matrix(view, {{mask.input.rows.step, rows}}, {{mask.input.columns.step, width}});
    const Tile tile = matrix.fetch(emitter_, 0, rows, 0, width, "mask");
    if (keep) loaded.emplace(at, tile);
    return tile.row_range(0, job.rows);  // the last queries may be fewer
  }

  // P transposed, 128 keys at a time: what the second product holds stationary.
  void turn_weights(Job& job) {
    const int64_t at_once = kHalfBankBytes / size_bytes(dtype_) / kPartitions * kPartitions;
    for (int64_t key = 0; key < job.keys; key += at_once)
      turn_weights(job, key, std::min(at_once, job.keys - key));
  }

  void turn_weights(Job& job, int64_t key, int64_t width) {
    const int64_t blocks = tiles(width, kPartitions), deep = std::min(kPartitions, width);
    const Tile transposed = half_bank(deep, blocks * job.rows, dtype_);
    const Tile panel = emitter_.sbuf(deep, blocks * job.rows, dtype_, "weights_T");
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t rows = std::min(kPartitions, width - i * kPartitions);
      emitter_.transpose(transposed.row_range(0, rows).column_range(i * job.rows, job.rows),
                         job.weights.column_range(key + i * kPartitions, rows));
      job.transposed.push_back(panel.row_range(0, rows).column_range(i * job.rows, job.rows));
    }
    const int64_t whole = width / kPartitions, rest = width - whole * kPartitions;
    if (whole > 0)
      copy_out(panel.column_range(0, whole * job.rows), transposed.column_range(0, whole * job.rows));
    if (rest > 0)
      copy_out(panel.row_range(0, rest).column_range(whole * job.rows, job.rows),
               transposed.row_range(0, rest).column_range(whole * job.rows, job.rows));
  }

  // O, joined with that of earlier blocks.
  void sum_up(const Job& job) {
    const int64_t quarter = next_quarter_;
    const bool whole_bank = values_ > kPsumBankColumns / 4;
    next_quarter_ = (next_quarter_ + 1) % 4;
    const Tile result = emitter_.psum_at(kResultBank, whole_bank ? 0 : quarter * kHalfBankBytes / 2, job.rows,
                                         values_, DType::kFloat32, "result");
    for (size_t i = 0; i < job.transposed.size(); ++i)
      emitter_.matmul(result, job.transposed[i], job.values[i].row_range(0, job.transposed[i].rows), i > 0);
    join(job, result);
  }

  void join(const Job& job, const Tile& result) {
    Tile total = result, sum = job.sum;
    if (!job.first) {
      total = emitter_.sbuf(job.rows, values_, DType::kFloat32, "joined");
      emitter_.scalar_tensor_tensor(AluOp::kMultiply, *job.rescale, AluOp::kAdd, total, job.running->result,
                                    result);
      sum = column(job.rows, "sum");
      emitter_.scalar_tensor_tensor(AluOp::kMultiply, *job.rescale, AluOp::kAdd, sum, job.running->sum,
                                    job.sum);
    } else if (!job.last) {
      total = emitter_.sbuf(job.rows, values_, DType::kFloat32, "joined");
      emitter_.tensor_copy(total, result);
    }
    job.running->result = total;
    job.running->sum = sum;
    if (job.last) store(job.batch, job.head, job.query, total, sum);
  }

  std::vector<LoadedMask> loaded_masks_;
  std::optional<AttentionOperand> sink_;
  std::optional<int64_t> sink_offset_;  // of what sink_tile_ has
  Tile sink_tile_;
  Tile corner_;

  int64_t batch_ = 0;
  Rows rows_, next_rows_;                   // of this batch and the next, for several heads
  Rows head_rows_;                          // of one head, of the transfer before
  Rows neighbours_;                         // of several batches, for all heads
  int64_t section_ = 0, section_keys_ = 0;  // the first key of the section, and how many it has
  // Of the keys and values that are in SBUF: the head's offset and the section's first key.
  std::optional<std::pair<int64_t, int64_t>> k_place_, v_place_;
  std::map<int64_t, std::shared_ptr<Running>> running_;  // of a head's group of queries, by the first of 128
  Panel keys_panel_;
  std::vector<Tile> values_tiles_;
  std::deque<Job> weighed_;  // not transposed yet
  Job transposed_;           // not summed up yet; no rows: there is none
  int64_t next_half_ = 0, next_bank_ = 0, next_quarter_ = 0, copies_ = 0;
};

}  // namespace

bool has_attention(const graph::Function&, const Op& op) { return attention_of(op).has_value(); }

bool lower_attention(Lowering& lowering, const Op& op) {
  if (!attention_of(op)) return false;
  if (lower_decode_attention(lowering, op)) return true;
  AttentionKernel(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
