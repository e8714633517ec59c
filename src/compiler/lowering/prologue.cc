#include "compiler/lowering/prologue.h"

#include <algorithm>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/lowering.h"

namespace opentrn::compiler {

namespace {

bool is_full(const View& view) {
  return std::all_of(view.dims.begin(), view.dims.end(),
                     [](const isa::Dim& dim) { return dim.step != 0 || dim.count == 1; });
}

// From the operand back to what the ops make.
std::vector<OpId> rearrangements(const Function& function, ValueId operand, ValueId base) {
  std::vector<OpId> chain;
  while (operand != base) {
    chain.push_back(function.value(operand).op);
    operand = function.op(chain.back()).operands[0];
  }
  return chain;
}

}  // namespace

Prologue::Prologue(Lowering& lowering, std::span<const OpId> ops, OpId consumer, size_t operand)
    : lowering_(lowering), ops_(ops.begin(), ops.end()), consumer_(consumer) {
  const Function& function = lowering.function();
  const ValueId base = function.op(ops_.back()).results[0];
  const auto chain = rearrangements(function, function.op(consumer).operands[operand], base);
  for (const OpId id : ops_)
    for (const ValueId value : function.op(id).operands) {
      const OpId made = function.value(value).op;
      const bool inside = made != graph::kNoOp && std::find(ops_.begin(), ops_.end(), made) != ops_.end();
      if (inside || splat_of(function, value) ||
          std::find(values_.begin(), values_.end(), value) != values_.end())
        continue;
      View view = lowering.view(value);
      if (view.dims.empty())  // select's predicate, clamp's bounds
        for (const int64_t dim : function.type(base).dims()) view.dims.push_back({0, dim});
      for (size_t i = chain.size(); i-- > 0;) {
        const Op& op = function.op(chain[i]);
        const auto made_of = Lowering::rearranged(function, op, 0, view);
        view = made_of ? *made_of : lowering.reshaped_or_copied(view, function.type(op.results[0]).dims());
      }
      values_.push_back(value);
      views_.push_back(view);
    }
  const auto full = std::find_if(views_.begin(), views_.end(), is_full);
  OPENTRN_CHECK(full != views_.end(), "a prologue without an operand that has every element");
  main_ = static_cast<size_t>(full - views_.begin());
}

bool Prologue::all_full() const { return std::all_of(views_.begin(), views_.end(), is_full); }

Tile Prologue::compute(std::span<const Matrix> inputs, const Rectangle& at, const std::optional<Tile>& into) {
  lowering_.begin_op(ops_.front());
  std::vector<Loaded> loaded;
  for (size_t i = 0; i < inputs.size(); ++i) loaded.push_back(load(i, inputs[i], at));
  return run(loaded, at.rows, at.columns, into);
}

Tile Prologue::compute(std::span<const Tile> inputs, const std::optional<Tile>& into) {
  std::vector<Loaded> loaded;
  for (const Tile& tile : inputs) loaded.push_back({tile, false});
  const Tile& shape = inputs.front();
  return run(loaded, shape.rows, shape.columns, into);
}

Prologue::Loaded Prologue::load(size_t input, const Matrix& matrix, const Rectangle& at) {
  Emitter& emitter = lowering_.emitter();
  const bool column = matrix.same_in_every_column() && at.columns > 1, row = matrix.same_in_every_row();
  const auto fetch = [&] {
    return Loaded{matrix.fetch(emitter, at.row_begin, at.rows, column ? 0 : at.column_begin,
                               column ? 1 : at.columns, "load"),
                  column};
  };
  if (!column && !row) return fetch();
  // Also by its size, which the last block's may differ in.
  const auto key = std::tuple(input, row ? -at.rows : at.row_begin, column ? -1 : at.column_begin);
  const auto found = held_.find(key);
  if (found != held_.end() && found->second.tile.rows == at.rows &&
      (column || found->second.tile.columns == at.columns))
    return found->second;
  return held_.insert_or_assign(key, fetch()).first->second;
}

Tile Prologue::run(std::span<const Loaded> inputs, int64_t rows, int64_t columns,
                   const std::optional<Tile>& into) {
  const Function& function = lowering_.function();
  Emitter& emitter = lowering_.emitter();
  std::map<ValueId, Term> terms;
  for (size_t i = 0; i < inputs.size(); ++i)
    terms[values_[i]] = {.element = function.type(values_[i]).element(),
                         .splat = {},
                         .tile = inputs[i].tile,
                         .column = inputs[i].column};
  for (const OpId id : ops_) {
    const Op& op = function.op(id);
    lowering_.begin_op(id);
    std::vector<Term> operands;
    for (const ValueId value : op.operands) {
      const auto number = splat_of(function, value);
      operands.push_back(
          number
              ? Term{.element = function.type(value).element(), .splat = number, .tile = {}, .column = false}
              : terms.at(value));
    }
    terms[op.results[0]] = emit_elementwise(emitter, function, op, operands, rows, columns,
                                            id == ops_.back() ? into : std::nullopt);
  }
  Tile result = terms.at(function.op(ops_.back()).results[0]).tile;
  lowering_.begin_op(consumer_);
  if (into && (result.tensor != into->tensor || result.offset != into->offset)) {
    emitter.tensor_copy(*into, result);
    result = *into;
  }
  return result;
}

}  // namespace opentrn::compiler
