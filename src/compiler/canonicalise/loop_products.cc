// Products in a loop of a slice that the loop takes of a whole tensor, by weights that stay, in front of the
// loop:
//
//   while { dot_general(dynamic_slice(x, i), w) }   becomes   p = dot_general(x, w); while { dynamic_slice(p,
//   i) }
//
// Recurrent layers multiply the input of each step so, as JAX's scan has them. All steps at once keep the
// Tensor engine busy, and the chain of a step is shorter. Every element stays the same sum in the same order
// of its contraction.
#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/analysis/counted_loop.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {

namespace {

// The loop has to take at least one in so many of the rows that are multiplied.
constexpr int64_t kRowsPerRowTaken = 2;

struct Slice {
  OpId op;                             // the dynamic_slice
  std::vector<graph::Type> converted;  // the elements' types behind it, the first one first
};

class ProductHoister {
 public:
  explicit ProductHoister(Function& function) : function_(function) {}

  int64_t run() {
    int64_t hoisted = 0;
    for (const OpId loop : loops_of(function_)) {
      const auto trips = constant_trips(function_, function_.op(loop));
      if (!trips) continue;
      const BlockId body = function_.op(loop).regions[1];
      for (const OpId id : std::vector(function_.block(body).ops))
        if (const auto slice = slice_of(body, id, *trips)) {
          hoist(loop, body, id, *slice);
          ++hoisted;
        }
    }
    return hoisted;
  }

 private:
  const graph::Type& type(ValueId value) const { return function_.type(value); }

  bool is_made_in(ValueId id, BlockId block) const {
    const graph::Value& value = function_.value(id);
    return value.op == graph::kNoOp ? value.block == block : function_.op(value.op).block == block;
  }

  // What the product of `id` multiplies by weights from outside, contracting the last dimension, all of it.
  std::optional<Slice> slice_of(BlockId body, OpId id, int64_t trips) const {
    const Op& op = function_.op(id);
    if (op.kind != OpKind::dot_general_ || is_made_in(op.operands[1], body)) return std::nullopt;
    if (op.has(Attr::lhs_batching_dimensions) && !op.integers(Attr::lhs_batching_dimensions).empty())
      return std::nullopt;
    const auto contracted = op.integers_or(Attr::lhs_contracting_dimensions, 0, 0);
    if (contracted.size() != 1 || contracted[0] != type(op.operands[0]).rank() - 1) return std::nullopt;
    Slice slice{graph::kNoOp, {}};
    ValueId value = op.operands[0];
    for (;;) {
      const OpId made = function_.value(value).op;
      if (made == graph::kNoOp) return std::nullopt;
      const Op& maker = function_.op(made);
      if (maker.kind == OpKind::dynamic_slice_) {
        slice.op = made;
        break;
      }
      if (maker.kind == OpKind::convert_)
        slice.converted.insert(slice.converted.begin(), type(value));
      else if (maker.kind != OpKind::reshape_)
        return std::nullopt;
      value = maker.operands[0];
    }
    const Op& taken = function_.op(slice.op);
    const graph::Type &whole = type(taken.operands[0]), &part = type(taken.results[0]);
    const int64_t terms = type(op.operands[0]).dims().back();
    const bool fits = is_made_in(taken.results[0], body) && !is_made_in(taken.operands[0], body) &&
                      whole.is_static() && type(op.operands[1]).is_static() && whole.rank() > 0 &&
                      whole.dims().back() == terms && part.dims().back() == terms && terms > 0;
    if (!fits || whole.element_count() / terms > kRowsPerRowTaken * trips * (part.element_count() / terms))
      return std::nullopt;
    return slice;
  }

  void hoist(OpId loop, BlockId body, OpId id, const Slice& slice) {
    const Op product = function_.op(id), taken = function_.op(slice.op);
    const BlockId outside = function_.op(loop).block;
    const auto place_in = [&](BlockId block, OpId op) {
      const auto& ops = function_.block(block).ops;
      return static_cast<size_t>(std::find(ops.begin(), ops.end(), op) - ops.begin());
    };
    const auto insert = [&](BlockId block, OpId before, OpKind kind, std::vector<ValueId> operands,
                            graph::Type made) {
      const OpId op = function_.insert(block, place_in(block, before), kind, std::move(operands),
                                       {std::move(made)}, product.location);
      return function_.op(op).results[0];
    };
    ValueId whole = taken.operands[0];
    std::vector<int64_t> dims = type(whole).dims_vector(), sizes = type(taken.results[0]).dims_vector();
    for (const graph::Type& converted : slice.converted)
      whole = insert(outside, loop, OpKind::convert_, {whole}, converted.with_dims(dims));
    const graph::Type result = type(product.results[0]), weights = type(product.operands[1]);
    const int64_t summed = product.integers(Attr::rhs_contracting_dimensions)[0];
    const auto last = static_cast<int64_t>(dims.size()) - 1;
    dims.pop_back();
    sizes.pop_back();
    std::vector<ValueId> places(taken.operands.begin() + 1, taken.operands.end() - 1);
    for (int64_t d = 0; d < weights.rank(); ++d)
      if (d != summed) {
        dims.push_back(weights.dim(static_cast<int>(d)));
        sizes.push_back(dims.back());
        places.push_back(taken.operands.back());  // all of the dimension, wherever it is asked to begin
      }
    const ValueId all =
        insert(outside, loop, OpKind::dot_general_, {whole, product.operands[1]}, result.with_dims(dims));
    Op& made = function_.op(function_.value(all).op);
    made.attributes = product.attributes;
    made.set(Attr::lhs_contracting_dimensions, std::vector<int64_t>{last});
    places.insert(places.begin(), all);
    const ValueId part = insert(body, id, OpKind::dynamic_slice_, places, result.with_dims(sizes));
    function_.op(function_.value(part).op).set(Attr::slice_sizes, sizes);
    Op& old = function_.op(id);
    old.kind = OpKind::reshape_;
    old.operands = {part};
    old.attributes.clear();
  }

  Function& function_;
};

}  // namespace

int64_t hoist_products(Function& function) { return ProductHoister(function).run(); }

}  // namespace opentrn::compiler
