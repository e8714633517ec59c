// while, if and case: loops and branches of the program, whose bodies are lowered where they stand.
//
// What a while carries lies in fixed places: tiles in SBUF where it is small, HBM otherwise. The results of
// the body are copied there at its end; what the body updates in place (dynamic_slices.cc) already lies
// there. A while that counts (i < n; i + step, as JAX's fori_loop and scan make it) becomes a counted loop
// with i in a register.
//
// A branch is a loop of one or no iteration (docs/decisions/0011). A predicate that is a constant leaves one
// branch.
#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/analysis/counted_loop.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/region.h"

namespace opentrn::compiler {

namespace {

// The body writes a part of its argument where it lies, if it can; such a value stays in HBM.
bool is_updated_in(const Function& function, BlockId body, ValueId argument) {
  for (const OpId id : function.block(body).ops) {
    const Op& op = function.op(id);
    if (op.kind == OpKind::dynamic_update_slice_ && op.operands[0] == argument) return true;
    if (op.kind != OpKind::while_) continue;
    const auto& inner = function.block(op.regions[1]).arguments;
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i] == argument && is_updated_in(function, op.regions[1], inner[i])) return true;
  }
  return false;
}

// What loops keep of the right operands of their products: bytes of a partition.
constexpr int64_t kFactorBytes = 32 << 10, kFactorsBytes = 64 << 10;

// A right operand of a product in the loop, [contracted, free].
bool is_factor_in(const Function& function, const Op& loop, ValueId value) {
  bool found = false;
  for (const BlockId region : loop.regions)
    graph::walk(function, region, [&](OpId id) {
      const Op& op = function.op(id);
      if (op.kind != OpKind::dot_general_ || op.operands[1] != value || function.type(value).rank() != 2)
        return;
      const auto contracted = op.integers_or(Attr::rhs_contracting_dimensions, 0, 0);
      found |= contracted.size() == 1 && contracted[0] == 0;
    });
  return found;
}

bool same_place(const View& a, const View& b) {
  return a.tensor == b.tensor && a.offset == b.offset && a.merged().dims == b.merged().dims;
}

class While {
 public:
  While(Lowering& lowering, const Op& op)
      : lowering_(lowering),
        emitter_(lowering.emitter()),
        function_(lowering.function()),
        op_(op),
        counted_(counted_loop(function_, op)) {}

  void run() {
    lowering_.prepare_captured(op_, true);
    make_places();
    wanted_ = lowering_.captured_tensors(op_);
    for (const auto& place : places_)
      if (place) wanted_.insert(place->tensor);
    keep_factors();
    if (counted_)
      count();
    else
      test();
    for (const isa::TensorId factor : factors_) emitter_.residency().drop(factor);
  }

 private:
  bool is_counter(size_t slot) const { return counted_ && counted_->slot == slot; }

  void make_places() {
    const OpId id = function_.value(op_.results[0]).op;
    const auto& arguments = function_.block(op_.regions[1]).arguments;
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      places_.emplace_back();
      if (is_counter(i)) continue;
      const View start = lowering_.view(op_.operands[i]);
      // A kept tile may be another value's too, so only memory is taken over.
      if (lowering_.plan().may_overwrite(id, i) && !emitter_.residency().holds(start.tensor)) {
        places_[i] = lowering_.take_over(op_.operands[i], op_.results[i]);
        continue;
      }
      places_[i] = lowering_.allocate(op_.results[i]);
      if (!is_updated_in(function_, op_.regions[1], arguments[i])) {
        emitter_.residency().expect_now(places_[i]->tensor);
        lowering_.keep(*places_[i]);
      }
      lowering_.assign(*places_[i], start);
    }
  }

  // Weights of a recurrence are loaded once, not in each iteration.
  void keep_factors() {
    Residency& residency = emitter_.residency();
    int64_t kept = 0;
    for (const ValueId value : captured_by(function_, op_)) {
      if (!is_factor_in(function_, op_, value) || splat_of(function_, value)) continue;
      const View seen = lowering_.view(value);
      const isa::Tensor& tensor = emitter_.program().tensor(seen.tensor);
      const int64_t rows = function_.type(value).dim(0), columns = function_.type(value).dim(1);
      const bool whole = seen.offset == 0 && seen.contiguous() && seen.dtype == tensor.dtype &&
                         rows * columns == tensor.rows * tensor.row_elements;
      const int64_t bytes = (rows + kPartitions - 1) / kPartitions * columns * size_bytes(seen.dtype);
      if (!whole || residency.holds(seen.tensor) || bytes > kFactorBytes || kept + bytes > kFactorsBytes)
        continue;
      residency.expect_now(seen.tensor);
      if (!residency.reserve(seen, rows, columns)) continue;
      kept += bytes;
      factors_.push_back(seen.tensor);
      residency.loaded(seen.tensor);  // first, for what reads memory has what is not stored written there
      const std::vector<int64_t> shape{rows, columns};
      const Matrix from(lowering_.reshaped_or_copied(seen, shape), 1);
      for (int64_t row = 0; row < rows; row += kPartitions) {
        const Tile tile = emitter_.sbuf(std::min(kPartitions, rows - row), columns, seen.dtype, "kept");
        from.load(emitter_, tile, row, 0);
        residency.adopt(seen.tensor, row, tile);
      }
    }
  }

  void count() {
    const size_t slot = counted_->slot;
    const isa::RegisterId counter = emitter_.new_register();
    const auto lower = lowering_.scalar(op_.operands[slot]), upper = lowering_.scalar(counted_->bound);
    const auto end = end_of_count(lower, upper);
    if (end) lowering_.registers().holds(counter, {std::get<int64_t>(lower), *end - counted_->step});
    const isa::RegisterId last = end ? 0 : emitter_.new_register();
    if (!end) emitter_.register_move(last, lower);
    begin_region();
    emitter_.begin_loop(counter, lower, upper, counted_->step);
    lowering_.lower_block(
        op_.regions[1], slot, [&] { give_arguments(op_.regions[1], counter); },
        [&](Lowering::Returned returned) {
          carry(returned);
          if (!end) emitter_.register_alu(AluOp::kAdd, last, counter, counted_->step);
        });
    emitter_.end_loop();
    emitter_.residency().leave_region();
    const auto after = end ? Lowering::Scalar(*end) : Lowering::Scalar(last);
    lowering_.set_scalar(op_.results[slot], after);
    if (lowering_.plan().read_from_memory(op_.results[slot]))
      store_counter(lowering_.allocate(op_.results[slot]), lowering_.registers().in_register(after));
  }

  // What the counter is when the loop has ended, where that is known beforehand.
  std::optional<int64_t> end_of_count(const Lowering::Scalar& lower, const Lowering::Scalar& upper) {
    const auto *first = std::get_if<int64_t>(&lower), *bound = std::get_if<int64_t>(&upper);
    if (!first || !bound) return std::nullopt;
    const int64_t step = counted_->step, trips = std::max<int64_t>(0, (*bound - *first + step - 1) / step);
    const int64_t end = *first + trips * step;
    return end <= std::numeric_limits<int32_t>::max() ? std::optional(end) : std::nullopt;  // else it wraps
  }

  void test() {
    const isa::RegisterId condition = emitter_.new_register();
    begin_region();
    evaluate(condition);
    emitter_.residency().leave_region();
    begin_region();
    emitter_.begin_while(condition);
    lowering_.lower_block(
        op_.regions[1], std::nullopt, [&] { give_arguments(op_.regions[1], std::nullopt); },
        [&](Lowering::Returned returned) { carry(returned); });
    evaluate(condition);
    emitter_.end_loop();
    emitter_.residency().leave_region();
  }

  // In the next iteration the places hold something else than what has been stored before.
  void begin_region() {
    for (const auto& place : places_)
      if (place) emitter_.residency().changed(place->tensor);
    emitter_.residency().enter_region(wanted_);
  }

  void evaluate(isa::RegisterId condition) {
    lowering_.lower_block(
        op_.regions[0], 0, [&] { give_arguments(op_.regions[0], std::nullopt); },
        [&](Lowering::Returned returned) {
          emitter_.register_move(condition, lowering_.scalar(returned[0]));
        });
  }

  void give_arguments(BlockId block, std::optional<isa::RegisterId> counter) {
    const auto& arguments = function_.block(block).arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (places_[i]) {
        lowering_.set_view(arguments[i], *places_[i]);
        continue;
      }
      lowering_.set_scalar(arguments[i], *counter);
      if (lowering_.plan().read_from_memory(arguments[i]))
        store_counter(lowering_.allocate(arguments[i]), *counter);
    }
  }

  void store_counter(const View& place, isa::RegisterId counter) {
    lowering_.keep(place);
    if (const auto tile = emitter_.residency().place(place.tensor, 0, 1))
      emitter_.register_store(*tile, counter);
    else
      emitter_.register_store(place, counter);
    emitter_.residency().changed(place.tensor);
  }

  // All at once: what lies in a place that is about to be written is brought aside first.
  void carry(Lowering::Returned returned) {
    std::vector<std::optional<View>> sources(returned.size());
    for (size_t i = 0; i < returned.size(); ++i)
      if (places_[i]) sources[i] = lowering_.view(returned[i]);
    for (size_t i = 0; i < returned.size(); ++i) {
      if (!places_[i] || same_place(*sources[i], *places_[i])) continue;
      bool endangered = false;
      for (size_t j = 0; j < places_.size(); ++j)
        endangered |=
            places_[j] && places_[j]->tensor == sources[i]->tensor && !same_place(*sources[j], *places_[j]);
      if (!endangered) continue;
      const View aside = emitter_.hbm(function_.type(returned[i]).dims(), sources[i]->dtype, "aside");
      lowering_.keep(aside);
      lowering_.assign(aside, *sources[i]);
      sources[i] = aside;
    }
    for (size_t i = 0; i < returned.size(); ++i)
      if (places_[i] && !same_place(*sources[i], *places_[i])) lowering_.assign(*places_[i], *sources[i]);
  }

  Lowering& lowering_;
  Emitter& emitter_;
  const Function& function_;
  const Op& op_;
  std::optional<CountedLoop> counted_;
  std::vector<std::optional<View>> places_;  // by slot; none for the counter
  std::set<isa::TensorId> wanted_;
  std::vector<isa::TensorId> factors_;
};

class Branch {
 public:
  Branch(Lowering& lowering, const Op& op)
      : lowering_(lowering), emitter_(lowering.emitter()), function_(lowering.function()), op_(op) {}

  void run() {
    const auto asked = lowering_.scalar(op_.operands[0]);
    if (const auto* number = std::get_if<int64_t>(&asked)) return lower(block_of(*number));
    lowering_.prepare_captured(op_, false);
    wanted_ = lowering_.captured_tensors(op_);
    make_places();
    const isa::RegisterId chosen = std::get<isa::RegisterId>(asked);
    // Every test is a comparison, by which the timing model tells a branch from a loop.
    const isa::RegisterId any = emitter_.new_register(), none = emitter_.new_register();
    emitter_.register_move(any, int64_t{0});
    for (size_t i = 0; i + 1 < op_.regions.size(); ++i) {
      const isa::RegisterId test = emitter_.new_register();
      emitter_.register_alu(AluOp::kEqual, test, chosen,
                            op_.kind == OpKind::if_ ? 1 : static_cast<int64_t>(i));
      emitter_.register_alu(AluOp::kBitwiseOr, any, any, test);
      lower_when(test, op_.regions[i]);
    }
    emitter_.register_alu(AluOp::kEqual, none, any, int64_t{0});
    lower_when(none, op_.regions.back());
  }

 private:
  BlockId block_of(int64_t number) const {
    if (op_.kind == OpKind::if_) return op_.regions[number != 0 ? 0 : 1];
    const auto count = static_cast<int64_t>(op_.regions.size());
    return op_.regions[static_cast<size_t>(number >= 0 && number < count ? number : count - 1)];
  }

  void make_places() {
    for (const ValueId result : op_.results) {
      places_.push_back(lowering_.allocate(result));
      lowering_.keep(places_.back());
      wanted_.insert(places_.back().tensor);
    }
  }

  void lower_when(isa::RegisterId test, BlockId block) {
    const isa::RegisterId once = emitter_.new_register();
    emitter_.residency().enter_region(wanted_);
    emitter_.begin_loop(once, int64_t{0}, test, 1);
    lowering_.lower_block(
        block, std::nullopt, [] {}, [&](Lowering::Returned returned) { give(returned); });
    emitter_.end_loop();
    emitter_.residency().leave_region();
  }

  // The only branch there is.
  void lower(BlockId block) {
    make_places();
    emitter_.residency().enter_region(wanted_);
    lowering_.lower_block(
        block, std::nullopt, [] {}, [&](Lowering::Returned returned) { give(returned); });
    emitter_.residency().leave_region();
  }

  void give(Lowering::Returned returned) {
    for (size_t i = 0; i < returned.size(); ++i) lowering_.assign(places_[i], lowering_.view(returned[i]));
  }

  Lowering& lowering_;
  Emitter& emitter_;
  const Function& function_;
  const Op& op_;
  std::vector<View> places_;
  std::set<isa::TensorId> wanted_;
};

}  // namespace

bool has_control_flow(const Function& function, const Op& op) {
  if (op.kind != OpKind::while_ && op.kind != OpKind::if_ && op.kind != OpKind::case_) return false;
  if (op.kind == OpKind::while_ && op.results.empty()) return false;
  return std::all_of(op.results.begin(), op.results.end(), [&](ValueId id) {
    const graph::Type& type = function.type(id);
    return type.is_tensor() && type.is_static() && !type.quantization() && device_dtype(type.element());
  });
}

bool lower_control_flow(Lowering& lowering, const Op& op) {
  if (!has_control_flow(lowering.function(), op)) return false;
  if (op.kind == OpKind::while_)
    While(lowering, op).run();
  else
    Branch(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
