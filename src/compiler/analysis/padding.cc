#include "compiler/analysis/padding.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/analysis/graph_names.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

// An axis that carries the dimension: element i of the axis is element (i / inner) % size of it. `inner` is
// not 1 where a reshape has merged the dimension with others.
struct Mark {
  int64_t axis = 0;
  int64_t size = 0;
  int64_t inner = 1;
  bool operator==(const Mark&) const = default;
};
using Marks = std::vector<Mark>;
// Nothing when elements mix.
using Result = std::optional<Marks>;

bool contains(std::span<const int64_t> list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

class Proof {
 public:
  explicit Proof(const graph::Module& module)
      : module_(module), function_(module.entry()), marks_(function_.value_count()) {}

  PaddingProof run(const std::vector<PortAxis>& arguments) {
    for (const PortAxis& at : arguments) {
      const ValueId value = function_.arguments()[at.port];
      marks_[index_of(value)].push_back({at.axis, function_.type(value).dim(static_cast<int>(at.axis)), 1});
    }
    PaddingProof proof;
    for (const graph::OpId id : function_.block(function_.body()).ops) {
      const Op& op = function_.op(id);
      if (op.kind == OpKind::return_ || !is_marked(op)) continue;
      for (const ValueId value : op.results) {
        const Result made = result_of(op, value);
        if (!made) {
          proof.mixing = described(op);
          return proof;
        }
        marks_[index_of(value)] = *made;
      }
    }
    const auto returned = function_.returned();
    for (size_t i = 0; i < returned.size(); ++i)
      for (const Mark& mark : of(returned[i])) {
        if (mark.inner != 1 || function_.type(returned[i]).dim(static_cast<int>(mark.axis)) != mark.size) {
          proof.mixing = fmt::format("result {}, in which the dimension is part of a larger one", i);
          return proof;
        }
        proof.results.push_back({i, mark.axis});
      }
    return proof;
  }

 private:
  const Marks& of(ValueId value) const { return marks_[index_of(value)]; }
  bool is_marked(const Op& op) const {
    return std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) { return !of(v).empty(); });
  }

  std::string described(const Op& op) const {
    const SourceLocation where = module_.source(op.location);
    std::string text(graph::name(op.kind));
    if (!where.function.empty()) return text + " at " + where.function;
    return where.known() ? fmt::format("{} at {}:{}", text, where.file, where.line) : text;
  }

  Result result_of(const Op& op, ValueId value) const {
    switch (op.kind) {
      case OpKind::transpose_: return transposed(op);
      case OpKind::broadcast_in_dim_: return broadcast(op);
      case OpKind::reshape_: return reshaped(op, value);
      case OpKind::dot_general_: return product(op);
      case OpKind::convolution_: return convolution(op);
      case OpKind::gather_: return gathered(op);
      case OpKind::reduce_: return reduced(op);
      case OpKind::reduce_window_: return windowed(op);
      case OpKind::slice_: return sliced(op);
      case OpKind::pad_: return padded(op);
      case OpKind::concatenate_: return unless_on(op, op.integer(Attr::dimension));
      case OpKind::sort_: return unless_on(op, op.integer(Attr::dimension));
      case OpKind::chlo_top_k_: return unless_on(op, function_.type(op.operands[0]).rank() - 1);
      case OpKind::reverse_: {
        for (const int64_t axis : op.integers(Attr::dimensions))
          if (!unless_on(op, axis)) return std::nullopt;
        return together(op);
      }
      case OpKind::select_:
      case OpKind::clamp_:
      case OpKind::optimization_barrier_: return together(op);
      default: break;
    }
    const graph::OpClass op_class = graph::definition(op.kind).op_class;
    const bool elementwise =
        op_class == graph::OpClass::kUnaryElementwise || op_class == graph::OpClass::kBinaryElementwise;
    return elementwise ? together(op) : std::nullopt;
  }

  // Elements meet at equal places only.
  Result together(const Op& op) const {
    Marks marks;
    for (const ValueId operand : op.operands)
      for (const Mark& mark : of(operand))
        if (std::find(marks.begin(), marks.end(), mark) == marks.end()) marks.push_back(mark);
    return marks;
  }

  // The same, when no operand is marked on the axis.
  Result unless_on(const Op& op, int64_t axis) const {
    for (const ValueId operand : op.operands)
      for (const Mark& mark : of(operand))
        if (mark.axis == axis) return std::nullopt;
    return together(op);
  }

  Result transposed(const Op& op) const {
    Marks marks = of(op.operands[0]);
    const auto permutation = op.integers(Attr::permutation);
    for (Mark& mark : marks)
      mark.axis = std::find(permutation.begin(), permutation.end(), mark.axis) - permutation.begin();
    return marks;
  }

  Result broadcast(const Op& op) const {
    Marks marks = of(op.operands[0]);
    for (Mark& mark : marks)
      mark.axis = op.integers(Attr::broadcast_dimensions)[static_cast<size_t>(mark.axis)];
    return marks;
  }

  // The dimension is a factor of the row-major index: it has a stride and a size, and must lie in one axis.
  Result reshaped(const Op& op, ValueId value) const {
    const auto from = function_.type(op.operands[0]).dims(), to = function_.type(value).dims();
    Marks marks;
    for (const Mark& mark : of(op.operands[0])) {
      int64_t stride = mark.inner;
      for (size_t i = static_cast<size_t>(mark.axis) + 1; i < from.size(); ++i) stride *= from[i];
      int64_t below = 1;
      bool found = false;
      for (size_t i = to.size(); i-- > 0 && !found; below *= to[i]) {
        if (to[i] == 1 || stride % below != 0 || stride * mark.size > below * to[i]) continue;
        if ((below * to[i]) % (stride * mark.size) != 0) return std::nullopt;
        marks.push_back({static_cast<int64_t>(i), mark.size, stride / below});
        found = true;
      }
      if (!found) return std::nullopt;
    }
    return marks;
  }

  Result product(const Op& op) const {
    Marks marks;
    for (int side = 0; side < 2; ++side) {
      const auto batch =
          side == 0 ? list(op, Attr::lhs_batching_dimensions) : list(op, Attr::rhs_batching_dimensions);
      const auto contracted =
          side == 0 ? list(op, Attr::lhs_contracting_dimensions) : list(op, Attr::rhs_contracting_dimensions);
      for (Mark mark : of(op.operands[static_cast<size_t>(side)])) {
        if (contains(contracted, mark.axis)) return std::nullopt;
        const auto in_batch = std::find(batch.begin(), batch.end(), mark.axis);
        if (in_batch != batch.end()) {
          mark.axis = in_batch - batch.begin();
        } else {
          // Behind the batch: what is left of the left side, then of the right.
          int64_t place = static_cast<int64_t>(batch.size());
          if (side == 1)
            place += function_.type(op.operands[0]).rank() -
                     static_cast<int64_t>(batch.size() + list(op, Attr::lhs_contracting_dimensions).size());
          for (int64_t axis = 0; axis < mark.axis; ++axis)
            place += !contains(batch, axis) && !contains(contracted, axis);
          mark.axis = place;
        }
        if (std::find(marks.begin(), marks.end(), mark) == marks.end()) marks.push_back(mark);
      }
    }
    return marks;
  }

  static std::span<const int64_t> list(const Op& op, Attr attr) {
    return op.has(attr) ? op.integers(attr) : std::span<const int64_t>{};
  }

  Result convolution(const Op& op) const {
    if (!of(op.operands[1]).empty()) return std::nullopt;
    Marks marks = of(op.operands[0]);
    for (Mark& mark : marks) {
      if (mark.axis != op.integer(Attr::input_batch_dimension)) return std::nullopt;
      if (op.integer_or(Attr::batch_group_count, 1) != 1) return std::nullopt;
      mark.axis = op.integer(Attr::output_batch_dimension);
    }
    return marks;
  }

  // Rows looked up by marked indices; the table itself must not be padded.
  Result gathered(const Op& op) const {
    if (!of(op.operands[0]).empty()) return std::nullopt;
    const auto offsets = list(op, Attr::offset_dims);
    const int64_t vector = op.integer(Attr::index_vector_dim);
    std::vector<int64_t> batch;
    for (int64_t axis = 0; axis < function_.type(op.results[0]).rank(); ++axis)
      if (!contains(offsets, axis)) batch.push_back(axis);
    Marks marks = of(op.operands[1]);
    for (Mark& mark : marks) {
      if (mark.axis == vector) return std::nullopt;
      mark.axis = batch[static_cast<size_t>(mark.axis - (mark.axis > vector))];
    }
    return marks;
  }

  Result reduced(const Op& op) const {
    const auto gone = op.integers(Attr::dimensions);
    Result marks = together(op);
    for (Mark& mark : *marks) {
      if (contains(gone, mark.axis)) return std::nullopt;
      mark.axis -= std::count_if(gone.begin(), gone.end(), [&](int64_t axis) { return axis < mark.axis; });
    }
    return marks;
  }

  Result windowed(const Op& op) const {
    Result marks = together(op);
    for (const Mark& mark : *marks) {
      const auto i = static_cast<size_t>(mark.axis);
      if (op.integers(Attr::window_dimensions)[i] != 1) return std::nullopt;
      if (function_.type(op.results[0]).dim(static_cast<int>(i)) !=
          function_.type(op.operands[0]).dim(static_cast<int>(i)))
        return std::nullopt;
    }
    return marks;
  }

  Result sliced(const Op& op) const {
    const Marks& marks = of(op.operands[0]);
    for (const Mark& mark : marks)
      if (function_.type(op.results[0]).dim(static_cast<int>(mark.axis)) !=
          function_.type(op.operands[0]).dim(static_cast<int>(mark.axis)))
        return std::nullopt;
    return marks;
  }

  Result padded(const Op& op) const {
    if (!of(op.operands[1]).empty()) return std::nullopt;
    const Marks& marks = of(op.operands[0]);
    for (const Mark& mark : marks) {
      const auto i = static_cast<size_t>(mark.axis);
      if (op.integers(Attr::edge_padding_low)[i] != 0 || op.integers(Attr::edge_padding_high)[i] != 0 ||
          op.integers(Attr::interior_padding)[i] != 0)
        return std::nullopt;
    }
    return marks;
  }

  const graph::Module& module_;
  const Function& function_;
  std::vector<Marks> marks_;
};

}  // namespace

namespace {

// Every element of `part` is that of `whole` at the same place.
bool is_leading_part(const graph::Literal& part, const graph::Literal& whole) {
  const auto small = part.type().dims(), large = whole.type().dims();
  if (part.type().element() != whole.type().element() || small.size() != large.size()) return false;
  if (std::equal(small.begin(), small.end(), large.begin())) return part == whole;
  for (size_t i = 0; i < small.size(); ++i)
    if (small[i] > large[i]) return false;
  const auto bytes = static_cast<size_t>(graph::storage_bytes(part.type().element()));
  for (int64_t i = 0; i < part.type().element_count(); ++i) {
    int64_t at = 0, left = i, step = 1;
    for (size_t d = small.size(); d-- > 0; left /= small[d], step *= large[d]) at += left % small[d] * step;
    if (!std::equal(part.element(i), part.element(i) + bytes, whole.element(at))) return false;
  }
  return true;
}

}  // namespace

std::string difference_but_for_size(const graph::Module& smaller, const graph::Module& larger) {
  const Function &a = smaller.entry(), &b = larger.entry();
  const auto &first = a.block(a.body()).ops, &second = b.block(b.body()).ops;
  if (first.size() != second.size()) return fmt::format("{} ops become {}", first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    const Op &from = a.op(first[i]), &to = b.op(second[i]);
    if (from.kind != to.kind)
      return fmt::format("op {}, {}, becomes {}", i, graph::name(from.kind), graph::name(to.kind));
    if (from.kind == OpKind::constant_ &&
        !is_leading_part(from.literal(Attr::value), to.literal(Attr::value)))
      return fmt::format("a constant {} depends on the size", a.type(from.results[0]).to_string());
  }
  return {};
}

PaddingProof prove_padding(const graph::Module& module, const std::vector<PortAxis>& arguments) {
  return Proof(module).run(arguments);
}

}  // namespace opentrn::compiler
