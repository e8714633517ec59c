// A function of several parts of one small tensor, as parts of the function of the stretch that they lie in:
//
//   logistic(x[:, 0:h]), logistic(x[:, h:2h]), logistic(x[:, 3h:4h])   become   parts of logistic(x[:, 0:4h])
//
// The gates of recurrent cells are such parts. An instruction takes as long to begin as hundreds of columns
// pass, and the Scalar engine loads a table whenever the function changes, so that one instruction for all
// costs less, also where it computes columns between the parts that nobody reads. Every element is the same
// function of the same number.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {

namespace {

// One tile, and columns that pass in less time than an instruction takes to begin: 222 cycles of the Scalar
// engine (activation_sbuf_issue_cycles of arch/tables) and what other engines wait for it. Ours.
constexpr int64_t kRowsMax = 128, kColumnsMax = 1024, kUnreadColumnsMax = 256;

bool is_function_with_a_table(OpKind kind) {
  switch (kind) {
    case OpKind::logistic_:
    case OpKind::tanh_:
    case OpKind::exponential_: return true;
    default: return false;
  }
}

struct Stretch {
  OpId op;
  int64_t begin, end;  // of the last dimension
};

class FunctionJoiner {
 public:
  explicit FunctionJoiner(Function& function) : function_(function) {}

  int64_t run() {
    int64_t joined = 0;
    for (size_t number = 0; number < function_.block_count(); ++number) {
      const BlockId block{static_cast<uint32_t>(number)};
      std::map<std::tuple<ValueId, OpKind, graph::ElementType>, std::vector<Stretch>> groups;
      for (const OpId id : function_.block(block).ops)
        if (const auto part = part_of(id)) groups[key_of(id)].push_back(*part);
      for (const auto& [key, parts] : groups) joined += join(block, std::get<ValueId>(key), parts);
    }
    return joined;
  }

 private:
  const graph::Type& type(ValueId value) const { return function_.type(value); }
  const Op& maker(ValueId value) const { return function_.op(function_.value(value).op); }
  std::tuple<ValueId, OpKind, graph::ElementType> key_of(OpId id) const {
    const Op& op = function_.op(id);
    return {maker(op.operands[0]).operands[0], op.kind, type(op.results[0]).element()};
  }

  // The function of a stretch of the last dimension, all of the others.
  std::optional<Stretch> part_of(OpId id) const {
    const Op& op = function_.op(id);
    if (!is_function_with_a_table(op.kind) || function_.value(op.operands[0]).op == graph::kNoOp)
      return std::nullopt;
    const Op& slice = maker(op.operands[0]);
    if (slice.kind != OpKind::slice_) return std::nullopt;
    const graph::Type &whole = type(slice.operands[0]), &sliced = type(slice.results[0]);
    if (!whole.is_static() || whole.quantization() || whole.rank() == 0) return std::nullopt;
    const int last = whole.rank() - 1;
    int64_t rows = 1;
    for (int d = 0; d < last; ++d) {
      if (whole.dim(d) != sliced.dim(d)) return std::nullopt;
      rows *= whole.dim(d);
    }
    const auto at = static_cast<size_t>(last);
    const int64_t begin = slice.integers(Attr::start_indices)[at],
                  end = slice.integers(Attr::limit_indices)[at];
    if (rows > kRowsMax || slice.integers(Attr::strides)[at] != 1 || begin == end) return std::nullopt;
    return Stretch{id, begin, end};
  }

  int64_t join(BlockId block, ValueId whole, const std::vector<Stretch>& parts) {
    int64_t begin = parts.front().begin, end = parts.front().end, read = 0;
    for (const Stretch& part : parts) {
      begin = std::min(begin, part.begin);
      end = std::max(end, part.end);
      read += part.end - part.begin;
    }
    // Parts that lie upon each other are read twice; equal ones are one op already.
    if (parts.size() < 2 || end - begin > kColumnsMax || end - begin - read > kUnreadColumnsMax) return 0;
    const auto& ops = function_.block(block).ops;
    size_t at = static_cast<size_t>(std::find(ops.begin(), ops.end(), parts.front().op) - ops.begin());
    const Op model = function_.op(parts.front().op);
    const ValueId stretch = slice(block, at, whole, begin, end, model.location);
    const graph::Type made = type(model.results[0]).with_dims(type(stretch).dims_vector());
    const OpId joined = function_.insert(block, at++, model.kind, {stretch}, {made}, model.location);
    const ValueId all = function_.op(joined).results[0];
    for (const Stretch& part : parts) {
      const ValueId now =
          slice(block, at, all, part.begin - begin, part.end - begin, function_.op(part.op).location);
      function_.replace_uses(function_.op(part.op).results[0], now);
    }
    return static_cast<int64_t>(parts.size());
  }

  // At `at`, which moves behind it. Nothing is made where it is all of the value.
  ValueId slice(BlockId block, size_t& at, ValueId of, int64_t begin, int64_t end,
                graph::LocationId location) {
    const graph::Type whole = type(of);
    if (begin == 0 && end == whole.dims().back()) return of;
    std::vector<int64_t> dims = whole.dims_vector(), starts(dims.size(), 0), limits = dims;
    starts.back() = begin;
    limits.back() = end;
    dims.back() = end - begin;
    const OpId id = function_.insert(block, at++, OpKind::slice_, {of}, {whole.with_dims(dims)}, location);
    Op& made = function_.op(id);
    made.set(Attr::start_indices, starts);
    made.set(Attr::limit_indices, limits);
    made.set(Attr::strides, std::vector<int64_t>(dims.size(), 1));
    return made.results[0];
  }

  Function& function_;
};

}  // namespace

int64_t join_functions(Function& function) { return FunctionJoiner(function).run(); }

}  // namespace opentrn::compiler
