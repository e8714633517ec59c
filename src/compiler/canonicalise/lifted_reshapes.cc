// A reshape of what is computed element by element moves in front of it where rows are too long for one
// kernel to hold, as in a norm of groups of channels:
//
//   r = reshape(x); y = (r - broadcast(mean)) * broadcast(scale); reshape(y) * weights
//   becomes
//   y = (x - broadcast(mean')) * broadcast(scale'); y * weights
//
// so that one kernel reads x and writes the result. In the order of r the first kernel would write y and the
// second read it. A reduction whose rows were cut into pieces (expand/reductions.cc) reads pieces of x so,
// and computes what it reduces as it reads.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/rewrite/rewrite.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kLiftedElementsMin = 1 << 16;  // smaller values stay in SBUF
constexpr int64_t kHeldColumns = 8192;           // shorter rows are reduced and read again in one kernel
constexpr int64_t kPlacedMax = 1 << 16;          // elements of what is made of a broadcast's operand
constexpr int kLiftedDepthMax = 16;

int64_t elements_of_dims(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

bool computes_elements(const Op& op) {
  if (op.results.size() != 1 || !op.regions.empty()) return false;
  const OpClass op_class = graph::definition(op.kind).op_class;
  return op_class == OpClass::kUnaryElementwise || op_class == OpClass::kBinaryElementwise ||
         op.kind == OpKind::convert_;
}

// How a broadcast gives another shape of as many elements: its operand as [kept], spread to `grown` along new
// dimensions, seen as `placed`, which lies along dimensions `at` of the result.
struct Spread {
  Dims kept, grown, grown_at, placed, at;

  // Dimensions [from, to) of the result hold `count` kept elements, all of them, or none: at one end of
  // those.
  bool add(int64_t count, bool is_prefix, const Dims& dims, size_t from, size_t to) {
    if (count == 1) return true;
    size_t begin = from, end = from;
    int64_t held = 1;
    if (is_prefix) {
      while (end < to && held < count) held *= dims[end++];
    } else {
      begin = end = to;
      while (begin > from && held < count) held *= dims[--begin];
    }
    if (held % count != 0) return false;
    kept.push_back(count);
    if (!is_prefix) grown.push_back(held / count);
    grown_at.push_back(static_cast<int64_t>(grown.size()));
    grown.push_back(count);
    if (is_prefix) grown.push_back(held / count);
    for (size_t d = begin; d < end; ++d) {
      placed.push_back(dims[d]);
      at.push_back(static_cast<int64_t>(d));
    }
    return true;
  }
};

// Of dimensions [from, to) of a broadcast, those that are its operand's: at the beginning or at the end of
// them, dimensions of one element aside.
struct KeptPart {
  int64_t count = 1;
  bool is_prefix = true;
};

std::optional<KeptPart> kept_part(const Dims& dims, const std::vector<bool>& is_kept, size_t from,
                                  size_t to) {
  KeptPart part;
  int changes = 0;
  std::optional<bool> last;
  for (size_t d = from; d < to; ++d) {
    if (dims[d] == 1) continue;
    if (!last) part.is_prefix = is_kept[d];
    changes += last && *last != is_kept[d] ? 1 : 0;
    last = is_kept[d];
    if (is_kept[d]) part.count *= dims[d];
  }
  return changes <= 1 ? std::optional(part) : std::nullopt;
}

std::optional<Spread> spread_as(const Function& function, const Op& broadcast, const Dims& target) {
  const Type &operand = function.type(broadcast.operands[0]), &type = function.type(broadcast.results[0]);
  const Dims dims(type.dims().begin(), type.dims().end()),
      places = dims_of(broadcast, Attr::broadcast_dimensions);
  if (!std::ranges::is_sorted(places)) return std::nullopt;
  std::vector<bool> is_kept(dims.size());
  for (size_t i = 0; i < places.size(); ++i)
    is_kept[static_cast<size_t>(places[i])] = operand.dim(static_cast<int>(i)) > 1;
  Spread spread;
  // The shortest runs of dimensions of both that have as many elements.
  for (size_t i = 0, j = 0; i < dims.size() || j < target.size();) {
    const size_t from = i, to = j;
    int64_t here = i < dims.size() ? dims[i++] : 1, there = j < target.size() ? target[j++] : 1;
    while (here != there) {
      if (here < there && i < dims.size())
        here *= dims[i++];
      else if (there < here && j < target.size())
        there *= target[j++];
      else
        return std::nullopt;
    }
    const auto part = kept_part(dims, is_kept, from, i);
    if (!part || !spread.add(part->count, part->is_prefix, target, to, j)) return std::nullopt;
  }
  return elements_of_dims(spread.placed) <= kPlacedMax ? std::optional(spread) : std::nullopt;
}

class Lifting {
 public:
  explicit Lifting(const Function& function) : function_(function), readers_(function.value_count()) {
    graph::walk(function, function.body(), [&](OpId id) {
      for (const ValueId value : function.op(id).operands) readers_[index_of(value)].push_back(id);
    });
  }

  int64_t lifted() const { return lifted_; }

  bool is_needed() {
    bool found = false;
    graph::walk(function_, function_.body(), [&](OpId id) {
      const Op& op = function_.op(id);
      found = found || (op.kind == OpKind::reshape_ && is_lifted(op));
    });
    return found;
  }

  std::optional<std::vector<ValueId>> operator()(Builder& builder, const Op& op,
                                                 std::span<const ValueId> operands) {
    for (size_t i = 0; i < operands.size(); ++i) to_[op.operands[i]] = operands[i];
    if (op.kind != OpKind::reshape_ || !is_lifted(op)) return std::nullopt;
    ++lifted_;
    const auto dims = function_.type(op.results[0]).dims();
    made_.clear();
    return std::vector{made(builder, op.operands[0], {dims.begin(), dims.end()})};
  }

 private:
  // What an operand becomes; kNone: it cannot be had in another shape without a copy.
  enum class Part : uint8_t { kNone, kLeaf, kComputed };
  struct Seen {
    Part part = Part::kNone;
    bool has_long_rows = false;  // numbers of rows that no kernel holds
  };

  bool is_lifted(const Op& reshape) {
    const Type& type = function_.type(reshape.results[0]);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || !graph::is_float(type.element()) ||
        type.element_count() < kLiftedElementsMin)
      return false;
    target_ = Dims(type.dims().begin(), type.dims().end());
    block_ = reshape.block;
    seen_.clear();
    const Seen seen = look_at(reshape.operands[0], 0);
    const auto& readers = readers_[index_of(reshape.results[0])];
    const auto is = [&](bool (*what)(const Op&)) {
      return [this, what](OpId id) { return what(function_.op(id)); };
    };
    const auto reduces = [](const Op& op) { return op.kind == OpKind::reduce_; };
    return seen.part == Part::kComputed && !readers.empty() &&
           (seen.has_long_rows ? std::ranges::any_of(readers, is(computes_elements)) ||
                                     std::ranges::all_of(readers, is(reduces))
                               : std::ranges::all_of(readers, is(reduces)));
  }

  Seen look_at(ValueId value, int depth) {
    if (const auto found = seen_.find(value); found != seen_.end()) return found->second;
    return seen_[value] = looked_at(value, depth);
  }

  Seen looked_at(ValueId value, int depth) {
    const Op* op = maker(function_, value);
    if (!op || op->kind == OpKind::reshape_ || splat_of(function_, value)) return {Part::kLeaf, false};
    const bool is_read_again = readers_[index_of(value)].size() > 1;
    const Seen whole{is_read_again ? Part::kLeaf : Part::kNone, false};
    if (op->block != block_ || depth > kLiftedDepthMax) return whole;
    if (op->kind == OpKind::broadcast_in_dim_) {
      if (!spread_as(function_, *op, target_)) return whole;
      const int64_t each =
          function_.type(value).element_count() / function_.type(op->operands[0]).element_count();
      return {Part::kComputed, each > kHeldColumns};
    }
    if (!computes_elements(*op)) return whole;
    bool has_long_rows = false;
    for (const ValueId operand : op->operands) {
      const Seen seen = look_at(operand, depth + 1);
      if (seen.part == Part::kNone) return whole;
      has_long_rows |= seen.has_long_rows;
    }
    // What others read too is there anyway; what depends on sums over rows is made again.
    if (is_read_again && !has_long_rows && depth > 0) return whole;
    return {Part::kComputed, has_long_rows};
  }

  ValueId made(Builder& builder, ValueId value, const Dims& dims) {
    if (const auto found = made_.find(value); found != made_.end()) return found->second;
    return made_[value] = newly_made(builder, value, dims);
  }

  ValueId newly_made(Builder& builder, ValueId value, const Dims& dims) {
    const Type type = function_.type(value).with_dims(dims);
    if (const auto number = splat_of(function_, value)) return builder.splat(type, *number);
    const Op* op = maker(function_, value);
    if (seen_.at(value).part == Part::kLeaf) {
      const bool is_reshape = op && op->kind == OpKind::reshape_;
      const ValueId from = is_reshape ? op->operands[0] : value;
      const auto known = function_.type(from).dims();
      return std::ranges::equal(known, dims) ? to_.at(from) : builder.reshape(to_.at(from), dims);
    }
    if (op->kind == OpKind::broadcast_in_dim_) {
      const Spread spread = *spread_as(function_, *op, dims);
      ValueId number = builder.reshape(to_.at(op->operands[0]), spread.kept);
      number = builder.broadcast_in_dim(number, spread.grown, spread.grown_at);
      return builder.broadcast_in_dim(builder.reshape(number, spread.placed), dims, spread.at);
    }
    std::vector<ValueId> operands;
    for (const ValueId operand : op->operands) operands.push_back(made(builder, operand, dims));
    return builder.add(op->kind, std::move(operands), {op->attributes.begin(), op->attributes.end()}, {type});
  }

  const Function& function_;
  std::vector<std::vector<OpId>> readers_;
  std::map<ValueId, ValueId> to_;  // in the new function
  std::map<ValueId, Seen> seen_;
  std::map<ValueId, ValueId> made_;
  Dims target_;
  BlockId block_{};
  int64_t lifted_ = 0;
};

}  // namespace

int64_t lift_reshapes(Function& function) {
  Lifting lifting(function);
  if (!lifting.is_needed()) return 0;  // a copy of a large function takes long
  Function made = rewritten(function, std::ref(lifting));
  if (lifting.lifted() > 0) function = std::move(made);
  return lifting.lifted();
}

}  // namespace opentrn::compiler
