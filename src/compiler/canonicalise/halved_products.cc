// Products of which one half of the features gates the other, as two products:
//
//   y = dot_general(x, w) + b;  f(y[:, 0:n]) * g(y[:, n:2n])   becomes
//   f(dot_general(x, w[:, 0:n]) + b[0:n]) * g(dot_general(x, w[:, n:2n]) + b[n:2n])
//
// Networks keep the weights of a gated feed-forward layer (GEGLU, SwiGLU) in one tensor. What is computed of
// a product's sums element by element is part of its kernel, but where it takes two columns that lie apart,
// all sums go through memory first. Every element stays the same sum in the same order of its contraction.
#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

// Of a product with fewer rows the weights are what is moved, not the sums.
constexpr int64_t kRowsMin = 64;

class Halver {
 public:
  explicit Halver(Function& function) : function_(function) {}

  int64_t run() {
    find_users();
    std::vector<OpId> products;
    graph::walk(function_, function_.body(), [&](OpId id) {
      if (function_.op(id).kind == OpKind::dot_general_) products.push_back(id);
    });
    int64_t halved = 0;
    for (const OpId product : products) halved += take(product);
    return halved;
  }

 private:
  // From a product to its halves: the ops that are done to all features alike, and the two slices.
  struct Chain {
    std::vector<OpId> ops;  // the product first
    OpId halves[2];
  };

  void find_users() {
    users_.assign(function_.value_count(), {});
    graph::walk(function_, function_.body(), [&](OpId id) {
      for (const ValueId value : function_.op(id).operands) users_[index_of(value)].push_back(id);
    });
  }

  const graph::Type& type(ValueId value) const { return function_.type(value); }
  ValueId result(OpId id) const { return function_.op(id).results[0]; }
  bool is_plain(ValueId value) const {
    return type(value).is_tensor() && type(value).is_static() && !type(value).quantization();
  }

  // A product without batches, of many rows, by a matrix.
  bool is_wide(const Op& op) const {
    if (!is_plain(op.operands[0]) || !is_plain(op.operands[1]) || !is_plain(op.results[0])) return false;
    if (op.has(Attr::lhs_batching_dimensions) && !op.integers(Attr::lhs_batching_dimensions).empty())
      return false;
    const graph::Type& sums = type(op.results[0]);
    return type(op.operands[1]).rank() == 2 &&
           op.integers_or(Attr::rhs_contracting_dimensions, 0, 0).size() == 1 && sums.rank() >= 1 &&
           sums.dims().back() % 2 == 0 && sums.dims().back() > 0 &&
           sums.element_count() / sums.dims().back() >= kRowsMin;
  }

  bool is_elementwise(OpId id) const {
    const Op& op = function_.op(id);
    return op.results.size() == 1 && op.regions.empty() && op.kind != OpKind::broadcast_in_dim_ &&
           has_elementwise(function_, op);
  }

  // Which half of the last dimension a slice takes; nullopt for any other.
  std::optional<int> half_of(OpId id) const {
    const Op& op = function_.op(id);
    if (op.kind != OpKind::slice_) return std::nullopt;
    const auto dims = type(op.operands[0]).dims();
    const auto starts = op.integers(Attr::start_indices), limits = op.integers(Attr::limit_indices),
               strides = op.integers(Attr::strides);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (strides[d] != 1) return std::nullopt;
      if (d + 1 < dims.size() && (starts[d] != 0 || limits[d] != dims[d])) return std::nullopt;
    }
    const int64_t half = dims.back() / 2;
    if (limits.back() - starts.back() != half || starts.back() % half != 0) return std::nullopt;
    return static_cast<int>(starts.back() / half);
  }

  std::optional<Chain> chain_of(OpId product) const {
    Chain chain{{product}, {}};
    const BlockId block = function_.op(product).block;
    for (;;) {
      const auto& users = users_[index_of(result(chain.ops.back()))];
      if (users.size() == 2 && users[0] != users[1]) {
        for (const OpId user : users) {
          const auto half = half_of(user);
          if (!half || function_.op(user).block != block) return std::nullopt;
          chain.halves[*half] = user;
        }
        const bool both = half_of(users[0]) != half_of(users[1]);
        return both && is_computed_of(chain.halves[0]) && is_computed_of(chain.halves[1])
                   ? std::optional(chain)
                   : std::nullopt;
      }
      if (users.size() != 1 || function_.op(users[0]).block != block || !is_elementwise(users[0]) ||
          !is_plain(result(users[0])) || type(result(users[0])).dims_vector() != dims_of(product))
        return std::nullopt;
      chain.ops.push_back(users[0]);
    }
  }

  std::vector<int64_t> dims_of(OpId id) const { return type(result(id)).dims_vector(); }

  // Only element by element: keys and values are halves, too, and gain nothing.
  bool is_computed_of(OpId half) const {
    const auto& users = users_[index_of(result(half))];
    return !users.empty() && std::ranges::all_of(users, [&](OpId user) { return is_elementwise(user); });
  }

  int64_t take(OpId product) {
    if (!is_wide(function_.op(product))) return 0;
    const auto chain = chain_of(product);
    if (!chain) return 0;
    for (int half = 0; half < 2; ++half) {
      const BlockId block = function_.op(product).block;
      const auto& ops = function_.block(block).ops;
      // All that the chain reads is made before the first of its slices.
      place_ = static_cast<size_t>(
          std::ranges::find_if(ops,
                               [&](OpId id) { return id == chain->halves[0] || id == chain->halves[1]; }) -
          ops.begin());
      function_.replace_uses(result(chain->halves[half]), halved(block, *chain, half));
    }
    find_users();
    return 1;
  }

  ValueId halved(BlockId block, const Chain& chain, int half) {
    ValueId made{};
    for (size_t i = 0; i < chain.ops.size(); ++i) {
      const Op op = function_.op(chain.ops[i]);
      std::vector<ValueId> operands = op.operands;
      if (i == 0) {
        const int free = op.integers(Attr::rhs_contracting_dimensions)[0] == 0 ? 1 : 0;
        operands[1] = part(block, op, operands[1], free, half);
      } else {
        for (ValueId& operand : operands) {
          if (operand == result(chain.ops[i - 1]))
            operand = made;
          else if (type(operand).rank() > 0)
            operand = part_of_all(block, op, operand, half);
        }
      }
      std::vector<int64_t> dims = dims_of(chain.ops[i]);
      dims.back() /= 2;
      made = insert(block, op, op.kind, std::move(operands), type(result(chain.ops[i])).with_dims(dims));
      Op& copy = function_.op(function_.value(made).op);
      copy.attributes = op.attributes;
      copy.extra = op.extra;
    }
    return made;
  }

  // A half of an operand that has all features: of a vector that is repeated, before it is.
  ValueId part_of_all(BlockId block, const Op& like, ValueId value, int half) {
    const OpId id = function_.value(value).op;
    const int last = type(value).rank() - 1;
    if (id == graph::kNoOp || function_.op(id).kind != OpKind::broadcast_in_dim_)
      return part(block, like, value, last, half);
    const Op wide = function_.op(id);
    const auto places = wide.integers(Attr::broadcast_dimensions);
    ValueId narrow = wide.operands[0];
    if (!places.empty() && places.back() == last && type(narrow).dims().back() > 1)
      narrow = part(block, like, narrow, type(narrow).rank() - 1, half);
    std::vector<int64_t> dims = type(value).dims_vector();
    dims.back() /= 2;
    const ValueId made =
        insert(block, like, OpKind::broadcast_in_dim_, {narrow}, type(value).with_dims(dims));
    function_.op(function_.value(made).op).attributes = wide.attributes;
    return made;
  }

  ValueId part(BlockId block, const Op& like, ValueId value, int dim, int half) {
    std::vector<int64_t> limits = type(value).dims_vector(), sizes = limits;
    std::vector<int64_t> starts(limits.size(), 0), strides(limits.size(), 1);
    const auto at = static_cast<size_t>(dim);
    sizes[at] /= 2;
    starts[at] = half * sizes[at];
    limits[at] = starts[at] + sizes[at];
    const ValueId made = insert(block, like, OpKind::slice_, {value}, type(value).with_dims(sizes));
    Op& slice = function_.op(function_.value(made).op);
    slice.set(Attr::start_indices, starts);
    slice.set(Attr::limit_indices, limits);
    slice.set(Attr::strides, strides);
    return made;
  }

  ValueId insert(BlockId block, const Op& like, OpKind kind, std::vector<ValueId> operands,
                 graph::Type made) {
    const OpId id =
        function_.insert(block, place_++, kind, std::move(operands), {std::move(made)}, like.location);
    return function_.op(id).results[0];
  }

  Function& function_;
  std::vector<std::vector<OpId>> users_;
  size_t place_ = 0;
};

}  // namespace

int64_t halve_products(Function& function) { return Halver(function).run(); }

}  // namespace opentrn::compiler
