// Products of parts of one tensor with the same right operand, as one product of all of it:
//
//   dot_general(x[0:1], w), dot_general(x[1:2], w), ...   become   parts of dot_general(x, w)
//
// Loops over time that a framework wrote out multiply each step's input by the same weights. One row at a
// time reads all of the weights for each, on the device and on a host. Every element stays the same sum in
// the same order of its contraction.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {

namespace {

// The parts have to make up at least one in so many of the rows that are multiplied.
constexpr int64_t kRowsPerRowWanted = 2;

// A product of a box of the first `leading` dimensions of `source`, the others being its contraction.
struct Part {
  OpId op;
  ValueId source;
  size_t leading;
  std::vector<int64_t> starts, limits, strides;  // of the leading dimensions
  int64_t rows;
};

std::vector<int64_t> numbers_of(const Op& op, Attr attr) {
  if (!op.has(attr)) return {};
  const auto values = op.integers(attr);
  return {values.begin(), values.end()};
}

bool is_static_tensor(const graph::Type& type) {
  return type.is_tensor() && type.is_static() && !type.quantization();
}

class Joiner {
 public:
  explicit Joiner(Function& function) : function_(function) {}

  int64_t run() {
    int64_t joined = 0;
    for (size_t block = 0; block < function_.block_count(); ++block) {
      const BlockId id{static_cast<uint32_t>(block)};
      std::map<std::tuple<ValueId, ValueId, size_t>, std::vector<Part>> groups;
      for (const OpId op : function_.block(id).ops)
        if (auto part = part_of(op))
          groups[{part->source, function_.op(op).operands[1], part->leading}].push_back(std::move(*part));
      for (auto& [key, parts] : groups) joined += join(id, same_as_first(std::move(parts)));
    }
    return joined;
  }

 private:
  const graph::Type& type(ValueId value) const { return function_.type(value); }
  const Op* maker(ValueId value, OpKind kind) const {
    const OpId id = function_.value(value).op;
    return id != graph::kNoOp && function_.op(id).kind == kind ? &function_.op(id) : nullptr;
  }

  // A product without batches whose left operand's last dimension is contracted with one of the right's.
  std::optional<Part> part_of(OpId id) const {
    const Op& op = function_.op(id);
    if (op.kind != OpKind::dot_general_ || !numbers_of(op, Attr::lhs_batching_dimensions).empty())
      return std::nullopt;
    const auto contracted = numbers_of(op, Attr::lhs_contracting_dimensions);
    const graph::Type& left = type(op.operands[0]);
    if (contracted.size() != 1 || contracted[0] != left.rank() - 1 || !is_static_tensor(left) ||
        !is_static_tensor(type(op.operands[1])))
      return std::nullopt;
    ValueId value = op.operands[0];
    while (const Op* reshape = maker(value, OpKind::reshape_)) value = reshape->operands[0];
    const Op* slice = maker(value, OpKind::slice_);
    if (slice == nullptr || !is_static_tensor(type(slice->operands[0]))) return std::nullopt;
    return box_of(id, *slice, left.dims().back());
  }

  std::optional<Part> box_of(OpId id, const Op& slice, int64_t contraction) const {
    const graph::Type& source = type(slice.operands[0]);
    const graph::Type& sliced = type(slice.results[0]);
    Part part{id, slice.operands[0], static_cast<size_t>(source.rank()), {}, {}, {}, 1};
    int64_t inner = 1;
    while (part.leading > 0 && inner < contraction) {
      const int64_t size = source.dim(static_cast<int>(--part.leading));
      if (size != sliced.dim(static_cast<int>(part.leading))) return std::nullopt;
      inner *= size;
    }
    if (inner != contraction || part.leading == 0) return std::nullopt;
    part.starts = numbers_of(slice, Attr::start_indices);
    part.limits = numbers_of(slice, Attr::limit_indices);
    part.strides = numbers_of(slice, Attr::strides);
    for (std::vector<int64_t>* numbers : {&part.starts, &part.limits, &part.strides})
      numbers->resize(part.leading);
    for (size_t d = 0; d < part.leading; ++d) part.rows *= sliced.dim(static_cast<int>(d));
    return part;
  }

  // Those that multiply as the first of them does, in the order of the block.
  std::vector<Part> same_as_first(std::vector<Part> parts) const {
    const auto says = [&](const Part& part) {
      std::vector<std::pair<Attr, graph::Attribute>> others;
      const Op& op = function_.op(part.op);
      for (const auto& [attr, value] : op.attributes)
        if (attr != Attr::lhs_contracting_dimensions) others.emplace_back(attr, value);
      return std::pair(type(op.results[0]).element(), std::move(others));
    };
    const auto first = says(parts.front());
    std::erase_if(parts, [&](const Part& part) { return says(part) != first; });
    return parts;
  }

  int64_t join(BlockId block, const std::vector<Part>& parts) {
    if (parts.size() < 2) return 0;
    const Part& first = parts.front();
    std::vector<int64_t> dims = type(first.source).dims_vector();
    const int64_t contraction = type(function_.op(first.op).operands[0]).dims().back();
    dims.resize(first.leading);
    int64_t wanted = 0, rows = 1;
    for (const Part& part : parts) wanted += part.rows;
    for (const int64_t dim : dims) rows *= dim;
    if (rows > wanted * kRowsPerRowWanted) return 0;
    const Op model = function_.op(first.op);
    const auto& ops = function_.block(block).ops;
    size_t at = static_cast<size_t>(std::find(ops.begin(), ops.end(), first.op) - ops.begin());
    const auto insert = [&](OpKind kind, std::vector<ValueId> operands, graph::Type made) {
      const OpId id =
          function_.insert(block, at++, kind, std::move(operands), {std::move(made)}, model.location);
      return function_.op(id).results[0];
    };
    dims.push_back(contraction);
    const ValueId left = insert(OpKind::reshape_, {first.source}, type(first.source).with_dims(dims));
    dims.pop_back();
    const graph::Type right = type(model.operands[1]);
    const int64_t summed = model.integers(Attr::rhs_contracting_dimensions)[0];
    for (int64_t d = 0; d < right.rank(); ++d)
      if (d != summed) dims.push_back(right.dim(static_cast<int>(d)));
    const graph::Type result = type(model.results[0]);
    const ValueId product = insert(OpKind::dot_general_, {left, model.operands[1]}, result.with_dims(dims));
    Op& made = function_.op(function_.value(product).op);
    made.attributes = model.attributes;
    made.set(Attr::lhs_contracting_dimensions, std::vector<int64_t>{static_cast<int64_t>(first.leading)});
    for (const Part& part : parts) {
      std::vector<int64_t> starts(dims.size(), 0), limits = dims, strides(dims.size(), 1), sizes = dims;
      for (size_t d = 0; d < part.leading; ++d) {
        starts[d] = part.starts[d];
        limits[d] = part.limits[d];
        strides[d] = part.strides[d];
        sizes[d] = (limits[d] - starts[d] + strides[d] - 1) / strides[d];
      }
      const ValueId rows_of_it = insert(OpKind::slice_, {product}, result.with_dims(sizes));
      Op& slice = function_.op(function_.value(rows_of_it).op);
      slice.set(Attr::start_indices, starts);
      slice.set(Attr::limit_indices, limits);
      slice.set(Attr::strides, strides);
      Op& old = function_.op(part.op);
      old.kind = OpKind::reshape_;
      old.operands = {rows_of_it};
      old.attributes.clear();
    }
    return static_cast<int64_t>(parts.size());
  }

  Function& function_;
};

}  // namespace

int64_t join_products(Function& function) { return Joiner(function).run(); }

}  // namespace opentrn::compiler
