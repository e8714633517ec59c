// select_and_scatter (the gradient of max-pooling) as ops on whole tensors. Which place of its window each
// source element belongs to is found place by place, and what each place gets is spread to where its windows
// have it.
//
// With a stride s the padded operand is taken apart by what places leave when they are divided by s: what all
// windows have at one place is then a box of neighbours. Sums are made in that form, and put together once.
// What is combined otherwise goes between zeros, place by place.
#include <map>
#include <optional>
#include <utility>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/window_attributes.h"
#include "compiler/rewrite/expression.h"
#include "compiler/rewrite/inline_region.h"

namespace opentrn::compiler {

namespace {

// Places of a window, which are gone through one by one.
constexpr int64_t kWindowPlacesMax = 256;

bool takes_select_and_scatter(const Function& function, const Op& op) {
  const auto fits = [&](ValueId id) {
    const Type& type = function.type(id);
    return type.is_tensor() && type.is_static() && !type.quantization() && type.element_count() > 0 &&
           device_dtype(type.element());
  };
  return std::ranges::all_of(op.operands, fits) && std::ranges::all_of(op.results, fits) &&
         Windows(function, op).places() <= kWindowPlacesMax && can_inline_region(function, op.regions[0]) &&
         can_inline_region(function, op.regions[1]);
}

// A padded tensor by windows of a stride: [what is left in each dimension..., how often the stride...].
class Phases {
 public:
  Phases(Builder& builder, const Windows& windows, const Dims& shape, const Dims& count)
      : builder_(builder), windows_(windows), shape_(shape), count_(count) {
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t covered = (count[d] - 1) * windows.stride[d] + windows.size[d];
      turns_.push_back((covered + windows.stride[d] - 1) / windows.stride[d]);
    }
  }

  // The phases of `value`, with `filling` around it.
  ValueId taken_apart(ValueId value, ValueId filling) {
    Dims low = windows_.low, high, split, order;
    for (size_t d = 0; d < shape_.size(); ++d) {
      high.push_back(turns_[d] * windows_.stride[d] - shape_[d] - low[d]);
      split.insert(split.end(), {turns_[d], windows_.stride[d]});
    }
    const auto rank = static_cast<int64_t>(shape_.size());
    for (int64_t d = 0; d < rank; ++d) order.push_back(2 * d + 1);
    for (int64_t d = 0; d < rank; ++d) order.push_back(2 * d);
    const ValueId all = padded(builder_, value, filling, low, high, Dims(shape_.size(), 0));
    return builder_.transpose(builder_.reshape(all, split), order);
  }

  // What all windows have at the place that lies `offset` in them.
  ValueId part(ValueId phases, const Dims& offset) {
    Dims begin, end;
    for (size_t d = 0; d < offset.size(); ++d) begin.push_back(offset[d] % windows_.stride[d]);
    for (const int64_t left : begin) end.push_back(left + 1);
    for (size_t d = 0; d < offset.size(); ++d) {
      begin.push_back(offset[d] / windows_.stride[d]);
      end.push_back(begin.back() + count_[d]);
    }
    return builder_.reshape(builder_.slice(phases, begin, end), count_);
  }

  // Adds what windows give at the place that lies `offset` in them.
  void add(const Dims& offset, const Expr& given) {
    Dims left, low, high;
    for (size_t d = 0; d < offset.size(); ++d) {
      left.push_back(offset[d] % windows_.stride[d]);
      low.push_back(offset[d] / windows_.stride[d]);
      high.push_back(turns_[d] - count_[d] - low.back());
    }
    const ValueId zero = builder_.splat(given.type().with_dims({}), 0);
    const Expr moved(builder_, padded(builder_, given.id(), zero, low, high, Dims(offset.size(), 0)));
    const auto found = sums_.find(left);
    if (found == sums_.end())
      sums_.emplace(left, moved);
    else
      found->second = found->second + moved;
  }

  // The sums as one tensor, without the padding.
  ValueId put_together(const Type& result) {
    Dims one = turns_, order, whole, none(shape_.size(), 0), low, high;
    one.insert(one.begin(), 1);
    std::vector<ValueId> parts;
    Dims left(shape_.size(), 0);
    for (bool is_left = true; is_left; is_left = next(left)) {
      const auto found = sums_.find(left);
      parts.push_back(found == sums_.end() ? builder_.splat(result.with_dims(one), 0)
                                           : builder_.reshape(found->second.id(), one));
    }
    const auto rank = static_cast<int64_t>(shape_.size());
    Dims split = windows_.stride;
    split.insert(split.end(), turns_.begin(), turns_.end());
    for (int64_t d = 0; d < rank; ++d) {
      const auto at = static_cast<size_t>(d);
      order.insert(order.end(), {rank + d, d});
      whole.push_back(turns_[at] * windows_.stride[at]);
      low.push_back(-windows_.low[at]);
      high.push_back(shape_[at] + windows_.low[at] - whole.back());
    }
    const ValueId all = parts.size() == 1 ? parts[0]
                                          : builder_.add(OpKind::concatenate_, std::move(parts),
                                                         {{Attr::dimension, Attribute(int64_t{0})}});
    const ValueId plane = builder_.reshape(builder_.transpose(builder_.reshape(all, split), order), whole);
    return padded(builder_, plane, builder_.splat(result.with_dims({}), 0), low, high, none);
  }

 private:
  // The remainders after these, the last dimension fastest.
  bool next(Dims& left) const {
    for (size_t d = left.size(); d-- > 0;) {
      if (++left[d] < windows_.stride[d]) return true;
      left[d] = 0;
    }
    return false;
  }

  Builder& builder_;
  const Windows& windows_;
  const Dims &shape_, &count_;
  Dims turns_;
  std::map<Dims, Expr> sums_;
};

class SelectAndScatter {
 public:
  SelectAndScatter(Builder& builder, const Function& function, const Op& op,
                   std::span<const ValueId> operands)
      : builder_(builder),
        function_(function),
        op_(op),
        operands_(operands),
        windows_(function, op),
        shape_(function.type(op.operands[0]).dims_vector()),
        source_shape_(function.type(op.operands[1]).dims_vector()) {}

  std::vector<ValueId> run() {
    choose();
    return {adds() ? summed() : one_by_one()};
  }

 private:
  bool adds() const {
    const graph::Block& body = function_.block(op_.regions[1]);
    if (body.ops.size() != 2) return false;
    const Op& sum = function_.op(body.ops[0]);
    return sum.kind == OpKind::add_ && sum.operands[0] != sum.operands[1] &&
           std::ranges::all_of(sum.operands, [&](ValueId value) {
             return std::ranges::find(body.arguments, value) != body.arguments.end();
           });
  }

  // The last place comes first: of two windows that share an element, the earlier one has it at the later
  // place, and it goes first.
  ValueId summed() {
    Phases phases(builder_, windows_, shape_, source_shape_);
    const Expr source(builder_, operands_[1]);
    for (int64_t place = windows_.places(); place-- > 0;)
      phases.add(offset_of(place),
                 select(Expr(builder_, *chosen_) == number(place), source, source.number(0)));
    const Expr total(builder_, phases.put_together(function_.type(op_.results[0])));
    const auto initial = splat_of(function_, op_.operands[2]);
    if (initial && *initial == 0) return total.id();
    return (Expr(builder_, builder_.broadcast_in_dim(operands_[2], shape_, {})) + total).id();
  }

  ValueId one_by_one() {
    ValueId result = builder_.broadcast_in_dim(operands_[2], shape_, {});
    const ValueId no = builder_.splat(truth().with_dims({}), 0.0);
    for (int64_t place = windows_.places(); place-- > 0;) {
      Dims low = offset_of(place), high(low.size()), interior(low.size());
      for (size_t d = 0; d < low.size(); ++d) {
        low[d] -= windows_.low[d];
        interior[d] = windows_.stride[d] - 1;
        high[d] = shape_[d] - low[d] - ((source_shape_[d] - 1) * windows_.stride[d] + 1);
      }
      const Expr hit = Expr(builder_, *chosen_) == number(place);
      const ValueId hits = padded(builder_, hit.id(), no, low, high, interior);
      const ValueId source = padded(builder_, operands_[1], operands_[2], low, high, interior);
      const std::vector<ValueId> pair{result, source};
      const ValueId met = inline_region(builder_, function_, op_.regions[1], pair, shape_)[0];
      result = builder_.add(OpKind::select_, {hits, met, result});
    }
    return result;
  }

  Type truth() const { return Type::tensor(ElementType::kI1, source_shape_); }
  Expr number(int64_t value) {
    return {builder_,
            builder_.splat(Type::tensor(ElementType::kI32, source_shape_), static_cast<double>(value))};
  }

  Dims offset_of(int64_t place) const {
    Dims offset(windows_.size.size());
    for (size_t d = offset.size(); d-- > 0;) {
      offset[d] = place % windows_.size[d];
      place /= windows_.size[d];
    }
    return offset;
  }

  bool has_padding() const {
    for (size_t d = 0; d < shape_.size(); ++d)
      if (windows_.low[d] > 0 ||
          (source_shape_[d] - 1) * windows_.stride[d] + windows_.size[d] > shape_[d] + windows_.low[d])
        return true;
    return false;
  }

  void choose() {
    const bool some_are_outside = has_padding();
    Phases phases(builder_, windows_, shape_, source_shape_);
    const ValueId everything =
        phases.taken_apart(operands_[0], builder_.splat(function_.type(op_.operands[0]).with_dims({}), 0.0));
    std::optional<ValueId> real;
    if (some_are_outside)
      real = phases.taken_apart(builder_.splat(Type::tensor(ElementType::kI1, shape_), 1.0),
                                builder_.splat(truth().with_dims({}), 0.0));
    std::optional<ValueId> best;
    for (int64_t place = 0; place < windows_.places(); ++place) {
      const Dims offset = offset_of(place);
      const ValueId value = phases.part(everything, offset);
      const auto exists = real ? std::optional(Expr(builder_, phases.part(*real, offset))) : std::nullopt;
      if (!best) {
        best = value;
        chosen_ = exists ? select(*exists, number(0), number(-1)).id() : number(0).id();
        continue;
      }
      const std::vector<ValueId> pair{*best, value};
      const Expr stays(builder_, inline_region(builder_, function_, op_.regions[0], pair, source_shape_)[0]);
      const Expr chosen(builder_, *chosen_);
      const Expr takes = exists ? *exists & ~(stays & (chosen >= 0)) : ~stays;
      best = select(takes, Expr(builder_, value), Expr(builder_, *best)).id();
      chosen_ = select(takes, number(place), chosen).id();
    }
  }

  Builder& builder_;
  const Function& function_;
  const Op& op_;
  std::span<const ValueId> operands_;
  Windows windows_;
  Dims shape_, source_shape_;
  std::optional<ValueId>
      chosen_;  // by source element: the place in its window, -1 where the window is all padding
};

std::vector<ValueId> select_and_scatter(Builder& builder, const Function& function, const Op& op,
                                        std::span<const ValueId> operands) {
  return SelectAndScatter(builder, function, op, operands).run();
}

constexpr Expansion kSelectWindows[] = {
    {OpKind::select_and_scatter_, takes_select_and_scatter, select_and_scatter}};

}  // namespace

std::span<const Expansion> select_window_expansions() { return kSelectWindows; }

}  // namespace opentrn::compiler
