// Row-wise groups: element-wise ops and reductions along rows (plan.h).
//
//   for each block of columns            (one, when a reduction needs whole rows)
//     load what is the same in every row
//     for each 128 rows
//       load, compute op by op, store
// Where a product or a convolution is the group's source, it says in which order tiles come (tile_source.h).
//
// A group without a reduction whose operands are all plain memory is cut into 128 equal rows whatever its
// shape, so that all partitions work. Reductions of more columns than a partition holds go by blocks.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "arch/core_features.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/equal_rows.h"
#include "compiler/lowering/exact_reduction.h"
#include "compiler/lowering/joint_transfers.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/repeated_columns.h"
#include "compiler/lowering/rotated_words.h"
#include "compiler/lowering/row_reduction.h"
#include "compiler/lowering/short_rows.h"
#include "compiler/lowering/slab_reduction.h"
#include "compiler/lowering/spaced_loads.h"
#include "compiler/lowering/step_rules.h"
#include "compiler/lowering/steps.h"
#include "compiler/lowering/tile_in_hand.h"
#include "compiler/lowering/tile_source.h"

namespace opentrn::compiler {

namespace {

// Columns of a group that no reduction holds together: long enough to hide the fixed cost of an
// instruction, short enough for several tiles of several rows in SBUF.
constexpr int64_t kFreeColumns = 2048;
// Columns of a lone reduction's block.
constexpr int64_t kReductionColumns = 8192;

class RowwiseKernel {
 public:
  RowwiseKernel(Lowering& lowering, int index)
      : lowering_(lowering),
        emitter_(lowering.emitter()),
        function_(lowering.function()),
        plan_(lowering.plan()),
        index_(index),
        group_(plan_.groups()[static_cast<size_t>(index)]),
        ops_(group_.ops),
        whole_rows_(group_.whole_rows),
        rows_(group_.rows()),
        columns_(group_.columns()) {}

  void run() {
    find_operands();
    for (const ValueId value : plan_.outputs(index_)) outputs_.emplace(value, matrix_of_output(value));
    if (!group_.split && !keeps_columns() && !has_kept_place()) cut_into_equal_rows();
    if (rows_ * columns_ == 0) return;  // nobody reduces nothing: canonicalise/empty_values.cc
    if (columns_ == group_.columns() && compute_short_rows(lowering_, index_, operands_, outputs_)) return;
    if (can_turn() && keep_transposed()) {
      turn();
      return run_source();
    }
    if (group_.has_source) {
      source_ = make_source();
      if (group_.whole_rows && source_->panels().size() > 1) finish_source();
    }
    if (!source_ && reduced_in_slabs()) return;
    keep_results();
    if (source_) return run_source();
    if (is_lone_reduction() && columns_ > kReductionColumns) return reduce_in_blocks();
    const int64_t most = kFreeColumns / farthest_, block = group_.whole_rows || columns_ <= most
                                                               ? columns_
                                                               : whole_repetitions(operands_, most);
    for (int64_t column = 0; column < columns_; column += block) {
      invariant_.clear();
      for (int64_t row = 0; row < rows_; row += kPartitions) {
        row_begin_ = row;
        row_count_ = std::min(kPartitions, rows_ - row);
        column_begin_ = column;
        column_count_ = std::min(block, columns_ - column);
        goes_by_turns() ? compute_by_turns() : compute_tile();
      }
    }
  }

 private:
  using Key = JointTransfers::Key;

  const Op& source_op() const { return function_.op(group_.ops[0]); }

  std::unique_ptr<TileSource> make_source() {
    ProductForm form{.transposed = transposed_, .group_rows = 0, .transfer_columns = 0};
    if (any_moved(emitter_, operands_) || any_moved(emitter_, outputs_))
      form.transfer_columns = transfer_columns_ = kMovedTransferColumns;
    for (const auto& [value, m] : outputs_)
      if (!transposed_) form.group_rows = lowering_.arrangement_of(value).group_rows;
    switch (source_op().kind) {
      case OpKind::dot_general_: return product_source(lowering_, source_op(), form, group_.prologues);
      case OpKind::composite_: return packed_product_source(lowering_, source_op());
      default: return convolution_source(lowering_, source_op());
    }
  }

  // -- columns over partitions: what products read is made as they read it (arrangements.cc)
  bool by_columns(ValueId value) const {
    return lowering_.arrangement_of(value).by_columns && !lowering_.is_in_place(value);
  }
  bool keeps_columns() const {
    return std::ranges::any_of(outputs_, [&](const auto& output) { return by_columns(output.first); });
  }
  bool is_in_kept_place(ValueId value) const {
    return outputs_.contains(value) && lowering_.is_in_kept_place(value);
  }
  bool has_kept_place() const {
    return std::ranges::any_of(outputs_, [&](const auto& made) { return is_in_kept_place(made.first); });
  }

  // A product without batches and reductions is symmetric. Its left operand should lie as it is needed then;
  // else it would be transposed as often as there are parts of the right one.
  bool can_turn() const {
    if (!group_.has_source || source_op().kind != OpKind::dot_general_ || group_.whole_rows ||
        outputs_.empty() || group_.prologues.contains(0))
      return false;
    if (source_op().has(Attr::lhs_batching_dimensions) &&
        !source_op().integers(Attr::lhs_batching_dimensions).empty())
      return false;
    if (!emitter_.residency().is_by_columns(lowering_.view(source_op().operands[0]).tensor)) return false;
    for (const auto& [value, m] : outputs_)
      if (!by_columns(value)) return false;
    return std::all_of(operands_.begin(), operands_.end(), [&](const auto& operand) {
      const Matrix& m = operand.second;
      return m.same_in_every_row() && (m.same_in_every_column() || m.columns_are_runs());
    });
  }

  bool keep_transposed() {
    for (const auto& [value, m] : outputs_)
      if (!emitter_.residency().reserve(lowering_.view(value), rows_, columns_, {.by_columns = true}))
        return false;
    return true;
  }

  void turn() {
    transposed_ = true;
    std::swap(rows_, columns_);
    for (auto& [key, m] : operands_) m = m.transposed();
    for (auto& [value, m] : outputs_) m = m.transposed();
    source_ = make_source();
  }

  void run_source() {
    std::optional<int64_t> columns_before;
    const int64_t together = transposed_ ? 1 : parts_in_a_transfer(*source_, columns_, whole_rows_);
    int64_t number = 0;
    for (const auto& part : source_->parts()) {
      if (together > 1 && number++ % together == 0) {
        joint_.store(outputs_, row_begin_);
        joint_.begin_parts(part[0].begin, part[0].count, together, columns_);
      }
      source_->begin_rows(part);
      for (const ColumnBlock& panel : source_->panels()) {
        source_->begin_columns(panel);
        // What is the same in every row is so in every part.
        if (columns_before != panel.begin) invariant_.clear();
        columns_before = panel.begin;
        tiles_ = whole_rows_ ? std::vector<ColumnBlock>{panel} : source_->tiles_of(panel);
        for (const RowBlock& rows : part) {
          row_begin_ = rows.begin;
          row_count_ = rows.count;
          for (auto from = tiles_.cbegin(); from != tiles_.cend(); from = run_transfer(from)) {
          }
        }
      }
    }
    if (together > 1) joint_.store(outputs_, row_begin_);
  }

  // Tiles from this one on whose columns move together; the first one behind them.
  std::vector<ColumnBlock>::const_iterator run_transfer(std::vector<ColumnBlock>::const_iterator from) {
    ColumnBlock columns = *from;
    auto to = from + 1;
    while (!transposed_ && to != tiles_.cend() && to->begin == columns.begin + columns.count &&
           columns.count < transfer_columns_)
      columns.count += to++->count;
    joint_.begin_columns(columns);
    for (auto tile = from; tile != to; ++tile) {
      column_begin_ = tile->begin;
      column_count_ = tile->count;
      compute_tile();
    }
    if (!joint_.joins_parts()) joint_.store(outputs_, row_begin_);
    return to;
  }
  Rectangle here() const { return {row_begin_, row_count_, column_begin_, column_count_}; }
  bool stores_together(ValueId value, const Matrix& m) const {
    return source_ && joint_.joins_store(value, m, here());
  }

  // Reductions need whole rows, and the source makes its columns panel by panel: all of its result first.
  void finish_source() {
    const ValueId value = source_op().results[0];
    if (!outputs_.contains(value)) outputs_.emplace(value, matrix_of_output(value));
    const std::map<ValueId, Matrix> outputs = std::exchange(outputs_, {{value, outputs_.at(value)}});
    keep_results();
    const std::vector<OpId> ops = std::exchange(ops_, {group_.ops[0]});
    const bool whole_rows = std::exchange(whole_rows_, false);
    run_source();
    ops_ = ops;
    whole_rows_ = whole_rows;
    outputs_ = outputs;
    outputs_.erase(value);
    operands_.try_emplace({value, false}, matrix_of_operand(value, false));
    source_.reset();
  }

  Matrix matrix(const View& view, bool is_column) const {
    if (is_column) return {view, view.dims, {}};
    View ordered = view;
    if (!group_.permutation.empty())
      for (size_t i = 0; i < view.dims.size(); ++i)
        ordered.dims[i] = view.dims[static_cast<size_t>(group_.permutation[i])];
    return {ordered, group_.row_rank()};
  }

  // A scalar operand (select's predicate, clamp's bounds) stands for every element.
  Matrix matrix_of_operand(ValueId value, bool is_column) {
    View view = lowering_.view(value);
    if (view.dims.empty()) {
      const auto rank = is_column ? static_cast<size_t>(group_.row_rank()) : group_.shape.size();
      for (size_t d = 0; d < rank; ++d) view.dims.push_back({0, group_.shape[d]});
    }
    return matrix(view, is_column);
  }

  Matrix matrix_of_output(ValueId value) {
    return matrix(lowering_.place_of(value), plan_.seen_inside(index_, value)->form == Form::kColumn);
  }

  void find_operands() {
    for (const OpId id : group_.ops) {
      const Op& op = function_.op(id);
      if (group_.has_source && id == group_.ops[0]) continue;
      const bool column_op =
          op.kind != OpKind::reduce_ && plan_.seen_inside(index_, op.results[0])->form == Form::kColumn;
      const size_t count = op.kind == OpKind::reduce_ ? 1 : op.operands.size();
      for (size_t i = 0; i < count; ++i) {
        const ValueId operand = op.operands[i];
        if (plan_.seen_inside(index_, operand) || splat_of(function_, operand)) continue;
        operands_.try_emplace({operand, column_op}, matrix_of_operand(operand, column_op));
      }
    }
  }

  // Without a reduction any cut of the elements is as good as another.
  void cut_into_equal_rows() {
    const auto rows = equal_rows(lowering_, index_, operands_, std::ssize(outputs_), kFreeColumns);
    if (!rows) return;
    columns_ = rows_ * columns_ / *rows;
    rows_ = *rows;
    for (auto& [key, m] : operands_) {
      farthest_ = std::max(farthest_, spacing_of(m));
      m = in_equal_rows(m, rows_, columns_);
    }
    for (auto& [value, m] : outputs_) m = in_equal_rows(m, rows_, columns_);
  }

  bool is_lone_reduction() const {
    return group_.ops.size() == 1 && source_op().kind == OpKind::reduce_ &&
           graph::is_float(function_.type(source_op().results[0]).element());
  }

  Tile load(const Matrix& m, bool narrow, int64_t row_begin, int64_t row_count) {
    return lowering_.fetch(m, row_begin, row_count, narrow ? 0 : column_begin_, narrow ? 1 : column_count_);
  }

  void keep_results() {
    if (!group_.permutation.empty() || (!group_.split && columns_ > kFreeColumns)) return;
    if (source_ && !source_->keepable()) return;
    for (const auto& [value, m] : outputs_) {
      if (lowering_.is_in_place(value)) continue;
      const View whole = lowering_.view(value);
      Arrangement arrangement = lowering_.arrangement_of(value);
      if (m.columns() == 1 || (source_ && !has_whole_panels(*source_, columns_)))
        arrangement.by_columns = false;
      emitter_.residency().reserve(whole, rows_, whole.element_count() / rows_, arrangement);
    }
  }

  // Where this tile of a kept value goes; nullopt when the value is not kept, or a whole block can be
  // adopted.
  std::optional<Tile> resident_place(ValueId value, bool narrow) {
    Residency& residency = emitter_.residency();
    const isa::TensorId tensor = lowering_.view(value).tensor;
    if (!residency.holds(tensor)) return std::nullopt;
    if (transposed_)
      return residency.place_transposed(tensor, row_begin_, row_count_, column_begin_, column_count_);
    const auto place = residency.place(tensor, row_begin_, row_count_);
    OPENTRN_CHECK(place.has_value(), "a block of rows of a kept value has no place");
    return narrow ? *place : place->column_range(column_begin_, column_count_);
  }

  void store(ValueId value, const Matrix& m, const Tile& tile) {
    Residency& residency = emitter_.residency();
    const bool narrow = m.columns() == 1;
    const isa::TensorId tensor = lowering_.view(value).tensor;
    if (residency.is_by_columns(tensor) && !transposed_) {
      const bool plain = tile.dtype == m.dtype() && tile.space == isa::MemorySpace::kSbuf &&
                         tile.column_step == 1 && tile.runs == 1;
      return residency.turn_in(tensor, row_begin_, column_begin_,
                               plain ? tile : copied(emitter_, tile, m.dtype()));
    }
    if (residency.holds(tensor)) {
      if (!is_in_kept_place(value) && residency.adopt(tensor, row_begin_, tile)) return;
      put(*resident_place(value, narrow), tile);
      if (is_in_kept_place(value)) residency.changed(tensor);
      return;
    }
    if (!narrow && stores_together(value, m)) return put(joint_.stored(value, m, here()), tile);
    m.store(emitter_, in_sbuf(emitter_, tile, m.dtype()), row_begin_, narrow ? 0 : column_begin_);
  }

  void put(const Tile& place, const Tile& tile) {
    if (place.tensor != tile.tensor || place.offset != tile.offset) emitter_.tensor_copy(place, tile);
  }

  // -- values
  Term operand(ValueId value, bool column_op) {
    const graph::ElementType element = function_.type(value).element();
    if (const auto number = splat_of(function_, value)) return {.element = element, .splat = number};
    if (const auto seen = plan_.seen_inside(index_, value)) {
      if (waiting_.contains(seen->base)) finish_steps(seen->base);
      return {.element = element, .tile = terms_.at(seen->base).tile, .column = seen->form == Form::kColumn};
    }
    return {.element = element, .tile = loaded(value, column_op), .column = column_op || narrow_};
  }

  Tile loaded(ValueId value, bool column_op) {
    const Key key{value, column_op};
    const Matrix& m = operands_.at(key);
    narrow_ = column_op || (m.same_in_every_column() && column_count_ > 1);
    if (m.same_in_every_row()) {
      auto found = invariant_.find({key, column_begin_});
      if (found == invariant_.end()) {
        const int64_t rows = std::min(kPartitions, rows_);
        auto tile = spaced_columns(lowering_, value, m, rows, column_begin_, column_count_);
        if (!tile) tile = repeated(value, m, 0, rows);
        if (!tile) tile = load(m, narrow_, 0, rows);
        found = invariant_.emplace(std::pair(key, column_begin_), *tile).first;
      }
      return found->second.row_range(0, row_count_);
    }
    // A transposed group of one column, too, has one number per row.
    const bool number = narrow_ || (columns_ == 1 && m.all().contiguous());
    if (number && transposed_ && !m.same_in_every_row() && rows_ % kPartitions == 0 && !column_op &&
        rows_ / kPartitions <= kPartitions) {
      auto found = per_row_.find(key);
      if (found == per_row_.end())
        found = per_row_.emplace(key, load_transposed(emitter_, m.all(), rows_ / kPartitions)).first;
      return found->second.column_range(row_begin_ / kPartitions, 1);
    }
    if (narrow_ && source_) {
      const auto [found, is_new] = narrow_tiles_.try_emplace({key, row_begin_});
      if (is_new) found->second = load(m, true, row_begin_, row_count_);
      return found->second;
    }
    if (const auto period = period_of_rows(m)) {
      const auto [found, is_new] = repeated_.try_emplace({key, row_begin_ % *period});
      if (is_new) found->second = load(m, narrow_, row_begin_, row_count_);
      return found->second;
    }
    if (const auto found = loads_.find(key); found != loads_.end()) return found->second;
    auto tile = repeated(value, m, row_begin_, row_count_);
    if (!tile && source_ && !narrow_ && joint_.joins(m, here())) return joint_.loaded(key, m, here());
    if (!tile) tile = spaced_.loaded(m, here());
    return loads_.emplace(key, tile ? *tile : load(m, narrow_, row_begin_, row_count_)).first->second;
  }

  // Whole numbers, and what is reduced, are expected in all columns.
  std::optional<Tile> repeated(ValueId value, const Matrix& m, int64_t row_begin, int64_t row_count) {
    if (narrow_ || transposed_) return std::nullopt;
    const bool as_it_is = graph::is_float(function_.type(value).element()) && !users_.reduces(value, ops_);
    return load_repeated(lowering_, m, {row_begin, row_count, column_begin_, column_count_}, as_it_is);
  }

  std::optional<int64_t> period_of_rows(const Matrix& m) const {
    if (row_begin_ % kPartitions != 0 || row_count_ != kPartitions || column_count_ != columns_)
      return std::nullopt;
    return compiler::period_of_rows(m, rows_, (narrow_ ? 1 : columns_) * size_bytes(m.dtype()));
  }

  // The sums where they are, as long as they have the type of the result; else in SBUF, rounded to it.
  Tile source_tile(const ValueId value) {
    const DType dtype = *device_dtype(function_.type(value).element());
    if (source_->tiles_of({column_begin_, column_count_}).size() == 1) {
      const auto place = place_in_parts(value);
      if (place && ops_.size() == 1) {
        emitter_.tensor_copy(*place, source_->sums({row_begin_, row_count_}, {column_begin_, column_count_}));
        return *place;
      }
      const Tile sums = source_->sums({row_begin_, row_count_}, {column_begin_, column_count_});
      if (dtype == DType::kFloat32) return sums;
      return in_sbuf(emitter_, sums, dtype);
    }
    const Tile all = emitter_.sbuf(row_count_, column_count_, dtype, "sums");
    for (const ColumnBlock& tile : source_->tiles_of({column_begin_, column_count_}))
      emitter_.tensor_copy(all.column_range(tile.begin - column_begin_, tile.count),
                           source_->sums({row_begin_, row_count_}, tile));
    return all;
  }

  Term source_term(const Op& op) {
    const ValueId value = op.results[0];
    return {.element = function_.type(value).element(),
            .tile = source_ ? source_tile(value)
                            : load(operands_.at({value, false}), false, row_begin_, row_count_)};
  }

  Term operand_for(const Op& op, ValueId value, bool column_op) {
    Term term = operand(value, column_op);
    const bool reads_twice = std::count(op.operands.begin(), op.operands.end(), value) > 1;
    if (!term.splat && term.tile.space == isa::MemorySpace::kPsum && (!reads_sums(op.kind) || reads_twice)) {
      term.tile = in_sbuf(emitter_, term.tile, DType::kFloat32);
      terms_.at(plan_.seen_inside(index_, value)->base).tile = term.tile;
    }
    return term;
  }

  // -- ops that wait for the next one (steps.h): the one that reads a value which nobody outside reads
  const Op* only_user(ValueId value) const { return users_.only(value, ops_, outputs_.contains(value)); }

  // Whether the select's last operand is a tile that an op of the group made for it alone.
  bool is_last_read(const Op& select, const Term& term) const {
    const auto seen = plan_.seen_inside(index_, select.operands[2]);
    if (!seen || term.splat || only_user(seen->base) != &select) return false;
    const OpId maker = function_.value(seen->base).op;
    const bool narrow = rules().is_column(select.results[0]);
    const Tile like{.dtype = *device_dtype(function_.type(select.results[0]).element()),
                    .rows = row_count_,
                    .columns = narrow ? 1 : column_count_};
    return maker != graph::kNoOp && term.column == narrow &&
           makes_own_tile(function_.op(maker), term.tile, like);
  }

  StepRules rules() const { return {function_, plan_, index_, operands_, column_count_ == 1}; }

  // The op on what one step before it makes of one of its operands: (data op0 scalar) op1 tensor.
  bool as_step_and_tensor(const Op& op) {
    if (!rules().joins_tensors(op)) return false;
    for (const size_t place : {0, 1}) {
      const auto seen = plan_.seen_inside(index_, op.operands[place]);
      const auto before = seen ? waiting_.find(seen->base) : waiting_.end();
      if (before == waiting_.end() || before->second.steps.size() != 1 || before->second.then) continue;
      const Steps steps = before->second;
      const Tile tensor = operand_for(op, op.operands[1 - place], false).tile;
      // An instruction reads PSUM by one operand.
      if (steps.data.space == isa::MemorySpace::kPsum && tensor.space == isa::MemorySpace::kPsum)
        return false;
      waiting_.erase(seen->base);
      const ValueId result = op.results[0];
      const auto kept = place_in_parts(result);
      const Tile dst = kept ? *kept : emitter_.sbuf(row_count_, column_count_, DType::kFloat32, "joined");
      emitter_.scalar_tensor_tensor(steps.steps[0].op, steps.steps[0].scalar, alu_of_step(op.kind), dst,
                                    steps.data, tensor, /*reverse1=*/place == 1);
      terms_[result] = {.element = graph::ElementType::kF32, .splat = {}, .tile = dst, .column = false};
      if (const auto output = outputs_.find(result); output != outputs_.end())
        store(result, output->second, dst);
      return true;
    }
    return false;
  }

  // Whether the op's result can wait for its only user.
  bool can_wait(const Op& op, size_t steps) const {
    return only_user(op.results[0]) && rules().waits_for(op, *only_user(op.results[0]), steps);
  }

  // The op as a step on what waits before it. False when it is none.
  bool as_step(const Op& op) {
    const auto place = rules().place_of_scalar(op);
    if (!place) return false;
    const ValueId full = op.operands[1 - *place];
    const auto seen = plan_.seen_inside(index_, full);
    Steps steps;
    if (const auto before = seen ? waiting_.find(seen->base) : waiting_.end(); before != waiting_.end()) {
      steps = before->second;
      waiting_.erase(before);
    } else {
      steps.data = operand(full, rules().is_column(op.results[0])).tile;
    }
    const Term scalar = operand(op.operands[*place], rules().is_column(op.results[0]));
    steps.steps.push_back({alu_of_step(op.kind), scalar_of(scalar)});
    waiting_[op.results[0]] = steps;
    if (!can_wait(op, steps.steps.size())) finish_steps(op.results[0]);
    return true;
  }

  // One function of the Scalar engine, which adds or multiplies what waits before it itself.
  bool as_activation(const Op& op) {
    const auto function = activation_function(op);
    if (!function || !rules().is_f32(op.results[0]) || !rules().is_f32(op.operands[0])) return false;
    const bool narrow = rules().is_column(op.results[0]);
    if (!narrow && column_count_ == 1) return false;
    const auto seen = plan_.seen_inside(index_, op.operands[0]);
    const auto before = seen ? waiting_.find(seen->base) : waiting_.end();
    Steps steps;
    if (before != waiting_.end() && can_activate(before->second)) {
      steps = before->second;
      waiting_.erase(before);
    } else {
      const Term data = operand_for(op, op.operands[0], narrow);
      if (data.splat || data.column != narrow) return false;
      steps.data = data.tile;
    }
    steps.then = function;
    waiting_[op.results[0]] = steps;
    if (const Op* user = only_user(op.results[0]); user && rules().is_rounding(*user)) return true;
    finish_steps(op.results[0]);
    if (rows_ <= kPartitions) load_next_table(emitter_, function_, ops_, op, terms_.at(op.results[0]).tile);
    return true;
  }

  // A number in each row, of 32 bits also where it is read through a conversion.
  Scalar scalar_of(const Term& term) {
    if (term.splat) return *term.splat;
    const Tile column = term.tile.column_range(0, 1);
    return size_bytes(column.dtype) == 4 ? column : copied(emitter_, column, DType::kFloat32);
  }

  // A conversion ends what waits before it.
  bool as_rounding(const Op& op) {
    const auto seen = plan_.seen_inside(index_, op.operands[0]);
    if (!seen || !rules().is_rounding(op)) return false;
    const auto before = waiting_.find(seen->base);
    if (before == waiting_.end()) return false;
    const Steps steps = before->second;
    waiting_.erase(before);
    finish_steps(op.results[0], steps);
    return true;
  }

  void finish_steps(ValueId value) { finish_steps(value, waiting_.extract(value).mapped()); }
  void finish_steps(ValueId value, const Steps& steps) {
    const graph::ElementType element = function_.type(value).element();
    const bool narrow = rules().is_column(value);
    const auto place = narrow                    ? std::nullopt
                       : is_in_kept_place(value) ? place_beside(value, operands_of(steps))
                                                 : place_of(value, {});
    const Tile dst =
        place ? *place
              : emitter_.sbuf(row_count_, narrow ? 1 : column_count_, *device_dtype(element), "steps");
    emit_steps(emitter_, dst, steps);
    terms_[value] = {.element = element, .splat = {}, .tile = dst, .column = narrow};
    if (const auto output = outputs_.find(value); output != outputs_.end()) store(value, output->second, dst);
  }

  // Both shifts of a rotation are done where they are joined.
  bool waits_for_rotation(const Op& op) const {
    const Op* user = only_user(op.results[0]);
    return user && rotation_in(*user);
  }
  std::optional<Rotation> rotation_in(const Op& op) const {
    const auto rotation = rotation_of(function_, op);
    const auto is_full = [&](ValueId half) { return only_user(half) == &op && !rules().is_column(half); };
    constexpr int64_t kColumnsMin = 64;  // of shorter rows one engine more costs what it saves
    const bool shares = rotation && column_count_ >= kColumnsMin && std::ranges::all_of(op.operands, is_full);
    return shares ? rotation : std::nullopt;
  }
  bool as_rotation(const Op& op) {
    const auto rotation = rotation_in(op);
    if (!rotation) return false;
    const ValueId result = op.results[0];
    const Term word = operand(rotation->word, false);
    const Tile all = word.column ? word.tile.repeated(column_count_) : word.tile;
    const auto place = place_of(result, std::array{word});
    const DType dtype = wide_integer(function_.type(result).element());
    const Tile dst = place ? *place : emitter_.sbuf(row_count_, column_count_, dtype, "rotated");
    rotated_.emit(dst, all.as(dtype), rotation->left);
    terms_[result] = {.element = function_.type(result).element(), .splat = {}, .tile = dst, .column = false};
    if (const auto output = outputs_.find(result); output != outputs_.end())
      store(result, output->second, dst);
    return true;
  }

  // The same tile under another name, where nobody outside reads it.
  bool as_same_bits(const Op& op) {
    if (!rules().keeps_words(op) || outputs_.contains(op.results[0])) return false;
    const bool narrow = rules().is_column(op.results[0]);
    Term term = operand_for(op, op.operands[0], narrow);
    if (term.splat || term.column != narrow) return false;
    term.element = function_.type(op.results[0]).element();
    term.tile = term.tile.as(*device_dtype(term.element));
    terms_[op.results[0]] = term;
    return true;
  }

  // A word that one operator on bits alone reads: two operands from SBUF take twice as long as one from PSUM.
  bool goes_to_psum(ValueId value) const {
    constexpr int64_t kColumnsMin = 64, kColumnsMax = 2048;
    if (group_.has_source || column_count_ < kColumnsMin || column_count_ > kColumnsMax) return false;
    const auto may = [&](ValueId word) { return rules().makes_word(word) && only_user(word); };
    const Op* user = may(value) ? only_user(value) : nullptr;
    if (!user || !rules().joins_words(*user)) return false;
    return user->operands[0] == value || !may(user->operands[0]);
  }
  bool holds_word() const { return word_ && !terms_.contains(only_user(*word_)->results[0]); }
  std::optional<Tile> place_of(ValueId value, std::span<const Term> operands) {
    if (is_in_kept_place(value)) return place_beside(value, operands);
    if (const auto place = place_in_parts(value); place || !goes_to_psum(value)) return place;
    const bool there = std::ranges::any_of(
        operands, [](const Term& term) { return !term.splat && term.tile.space == isa::MemorySpace::kPsum; });
    // The tile has room there for one word.
    if (!there && holds_word()) return std::nullopt;
    if (!words_) words_ = emitter_.psum_banks(row_count_, column_count_, "words");
    word_ = value;
    return words_->as(wide_integer(function_.type(value).element()));
  }

  // Both words of an operator on bits are in SBUF, in a group that goes over several engines: the Scalar
  // engine puts one into PSUM, where that engine copies bits as they are.
  bool reads_words_twice(const Op& op, std::span<const Term> operands) const {
    const auto in_sbuf = [](const Term& term) { return term.tile.space == isa::MemorySpace::kSbuf; };
    return by_turns_ && rules().joins_words(op) && std::ranges::all_of(operands, in_sbuf) && !holds_word() &&
           arch::core_features(emitter_.generation()).scalar_copies;
  }
  Tile word_in_psum(const Tile& word) {
    if (!words_) words_ = emitter_.psum_banks(row_count_, column_count_, "words");
    const Tile copy = words_->as(word.dtype);
    emitter_.tensor_copy(copy, word, isa::Engine::kScalar);
    return copy;
  }

  // Its own place, unless an operand lies there: an op may take several instructions.
  std::optional<Tile> place_beside(ValueId value, std::span<const Term> operands) {
    const auto place = resident_place(value, /*narrow=*/false);
    const auto is_there = [&](const Term& term) { return !term.splat && term.tile.tensor == place->tensor; };
    return std::ranges::any_of(operands, is_there) ? std::nullopt : place;
  }

  // Where part of the columns of a kept value go at once.
  std::optional<Tile> place_in_parts(ValueId value) {
    if (!source_ || !outputs_.contains(value)) return std::nullopt;
    const isa::TensorId tensor = lowering_.view(value).tensor;
    if (!emitter_.residency().holds(tensor) && !emitter_.residency().is_by_columns(tensor) &&
        outputs_.at(value).columns() > 1 && stores_together(value, outputs_.at(value)))
      return joint_.stored(value, outputs_.at(value), here());
    if (!transposed_ &&
        (column_count_ == columns_ || emitter_.residency().is_by_columns(lowering_.view(value).tensor)))
      return std::nullopt;
    return resident_place(value, /*narrow=*/false);
  }

  void compute_tile() {
    hold({});
    for (const OpId id : ops_) compute(id);
  }

  // Gives what was held.
  TileInHand hold(TileInHand tile) {
    if (tile.column_count > 0) column_begin_ = tile.column_begin, column_count_ = tile.column_count;
    std::swap(terms_, tile.terms);
    std::swap(waiting_, tile.waiting);
    std::swap(loads_, tile.loads);
    std::swap(words_, tile.words);
    std::swap(word_, tile.word);
    return tile;
  }

  // A rotation goes over several engines, each of which waits for another: halves of the tile are computed in
  // turn, op by op, the second one round of a cipher behind the first.
  bool goes_by_turns() const {
    return column_count_ >= 2 * kPsumBankColumns && !group_.has_source && !group_.whole_rows &&
           std::ranges::any_of(ops_, [&](OpId id) { return rotation_in(function_.op(id)).has_value(); });
  }
  void compute_by_turns() {
    by_turns_ = true;
    constexpr size_t kBehind = 5;  // an addition, two shifts, two operators on bits
    const int64_t half = column_count_ / 2;
    std::array<TileInHand, 2> tiles{
        TileInHand{.column_begin = column_begin_, .column_count = half},
        {.column_begin = column_begin_ + half, .column_count = column_count_ - half}};
    for (size_t step = 0; step < ops_.size() + kBehind; ++step)
      for (size_t tile = 0; tile < tiles.size(); ++tile) {
        const size_t at = step - tile * kBehind;
        if (at >= ops_.size()) continue;  // also of numbers below 0
        TileInHand held = hold(std::move(tiles[tile]));
        compute(ops_[at]);
        tiles[tile] = hold(std::move(held));
      }
    by_turns_ = false;
  }

  void compute(OpId id) {
    const Op& op = function_.op(id);
    lowering_.begin_op(id);
    const ValueId result = op.results[0];
    const auto output = outputs_.find(result);
    Term term;
    if (group_.has_source && id == group_.ops[0]) {
      term = source_term(op);
      if (!source_) {
        terms_[result] = term;
        return;
      }
    } else if (op.kind == OpKind::reduce_) {
      term = reduce_rows(
          emitter_, function_, op,
          all_columns(emitter_, operand_for(op, op.operands[0], false), row_count_, column_count_));
    } else {
      if (waits_for_rotation(op) || as_rotation(op) || as_rounding(op) || as_step(op) ||
          as_step_and_tensor(op) || as_activation(op) || as_same_bits(op))
        return;
      const bool column_op = plan_.seen_inside(index_, result)->form == Form::kColumn;
      std::vector<Term> operands;
      for (const ValueId value : op.operands) operands.push_back(operand_for(op, value, column_op));
      if (reads_words_twice(op, operands)) operands[0].tile = word_in_psum(operands[0].tile);
      if (op.kind == OpKind::select_) operands[2].is_last_read = is_last_read(op, operands[2]);
      const auto into = column_op ? std::nullopt : place_of(result, operands);
      const int64_t columns = column_op ? 1 : column_count_;
      term = emit_elementwise(emitter_, function_, op, operands, row_count_, columns, into);
      term.column = column_op;
    }
    if (output != outputs_.end()) store(result, output->second, term.tile);
    terms_[result] = term;
  }

  bool reduced_in_slabs() {
    const Op& op = source_op();
    return group_.ops.size() == 1 && op.kind == OpKind::reduce_ && !splat_of(function_, op.operands[0]) &&
           reduce_slabs(emitter_, slab_op(function_, op), operands_.at({op.operands[0], false}),
                        outputs_.at(op.results[0]));
  }

  void reduce_in_blocks() {
    const Op& op = function_.op(group_.ops[0]);
    for (int64_t row = 0; row < rows_; row += kPartitions) {
      row_begin_ = row;
      row_count_ = std::min(kPartitions, rows_ - row);
      const auto columns_from = [&](int64_t begin) {
        column_begin_ = begin;
        column_count_ = std::min(kReductionColumns, columns_ - begin);
        loads_.clear();
        invariant_.clear();
        return all_columns(emitter_, operand(op.operands[0], false), row_count_, column_count_);
      };
      const Matrix& target = outputs_.at(op.results[0]);
      const Tile total = reduce_parts(emitter_, function_, op, columns_, kReductionColumns, columns_from);
      const Tile rounded = emitter_.sbuf(row_count_, 1, target.dtype(), "reduce");
      emitter_.tensor_copy(rounded, total);
      store(op.results[0], target, rounded);
    }
  }

  Lowering& lowering_;
  Emitter& emitter_;
  const graph::Function& function_;
  const Plan& plan_;
  int index_;
  const Group& group_;
  std::vector<OpId> ops_;  // of the group, as long as all are computed together
  bool whole_rows_;
  int64_t rows_, columns_, transfer_columns_ = kTransferColumns;
  bool transposed_ = false;  // rows are the group's columns
  std::unique_ptr<TileSource> source_;
  std::vector<ColumnBlock> tiles_;  // of the panel

  std::map<Key, Matrix> operands_;
  std::map<std::pair<Key, int64_t>, Tile> repeated_;  // whose rows come again; by the first of them
  std::map<ValueId, Matrix> outputs_;

  int64_t row_begin_ = 0, row_count_ = 0, column_begin_ = 0, column_count_ = 0;
  bool narrow_ = false;  // the last load was one column that stands for all
  std::map<Key, Tile> loads_;
  int64_t farthest_ = 1;  // of elements of an operand that lie apart
  SpacedLoads spaced_{lowering_};
  JointTransfers joint_{emitter_};
  std::map<std::pair<Key, int64_t>, Tile> invariant_;     // the same in every row; by first column
  std::map<std::pair<Key, int64_t>, Tile> narrow_tiles_;  // the same in every column; by first row
  std::map<Key, Tile> per_row_;                           // of a transposed group: load_transposed()
  std::map<ValueId, Term> terms_;
  GroupUsers users_{function_, plan_, index_};
  std::map<ValueId, Steps> waiting_;
  std::optional<Tile> words_;    // in PSUM: the tile's one word there
  std::optional<ValueId> word_;  // that it is
  bool by_turns_ = false;
  RotatedWords rotated_{emitter_};
};

}  // namespace

void lower_rowwise(Lowering& lowering, int group) { RowwiseKernel(lowering, group).run(); }

}  // namespace opentrn::compiler
