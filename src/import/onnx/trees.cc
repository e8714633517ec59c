// TreeEnsemble: every row walks down every tree at once, by gathers and compares, as many steps as the
// deepest tree has.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "graph/element_value.h"
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

// Each step of the walk is a dozen ops; trees that anybody trains have a few tens of levels.
constexpr int64_t kTreeDepthMax = 1024;

enum Mode : int64_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember, kModes };

// Nodes, then leaves, which lead to themselves.
struct Forest {
  int64_t nodes = 0, leaves = 0;
  Dims features, modes, when_true, when_false, missing_is_true, roots, targets;
  std::vector<double> splits, weights;
  std::vector<std::vector<double>> members;  // of each node of mode kMember
  int64_t depth = 0;

  int64_t size() const { return nodes + leaves; }
};

std::vector<double> reals_of(const Node& n, std::string_view name) {
  const AttributeValue* given = n.attribute(name);
  n.check(given && given->t, "it has no tensor {}", name);
  const Literal literal = n.surroundings().literal(*given->t);
  const ElementType element = literal.type().element();
  n.check(!graph::is_complex(element), "{} holds complex numbers", name);
  std::vector<double> values;
  for (int64_t i = 0; i < literal.type().element_count(); ++i) {
    const std::byte* at = literal.element(static_cast<size_t>(i));
    values.push_back(graph::is_float(element) ? graph::load_real(element, at)
                                              : static_cast<double>(graph::load_integer(element, at)));
  }
  return values;
}

// The sets of numbers, which NaN end, in the order of the nodes that test for them.
void read_members(const Node& n, Forest& f) {
  f.members.resize(static_cast<size_t>(f.nodes));
  if (std::ranges::count(f.modes, kMember) == 0) return;
  const std::vector<double> values = reals_of(n, "membership_values");
  auto next = values.begin();
  for (size_t i = 0; i < static_cast<size_t>(f.nodes); ++i) {
    if (f.modes[i] != kMember) continue;
    const auto end = std::find_if(next, values.end(), [](double value) { return std::isnan(value); });
    n.check(end != values.end(), "membership_values has fewer sets than there are nodes of mode MEMBER");
    f.members[i].assign(next, end);
    next = end + 1;
  }
}

// Also that no tree comes back to a node.
int64_t depth_of(const Node& n, const Forest& f) {
  Dims level = f.roots;
  for (int64_t steps = 0; steps <= std::min(f.nodes, kTreeDepthMax); ++steps) {
    Dims below;
    for (const int64_t at : level) {
      if (at >= f.nodes) continue;
      below.push_back(f.when_true[static_cast<size_t>(at)]);
      below.push_back(f.when_false[static_cast<size_t>(at)]);
    }
    if (below.empty()) return steps;
    std::sort(below.begin(), below.end());
    below.erase(std::unique(below.begin(), below.end()), below.end());
    level = std::move(below);
  }
  n.bad(fmt::format("a tree is deeper than {} nodes, or its nodes go round in a circle",
                    std::min(f.nodes, kTreeDepthMax)));
}

Forest forest_of(const Node& n) {
  Forest f;
  f.features = n.integers("nodes_featureids", {});
  f.nodes = static_cast<int64_t>(f.features.size());
  for (const double mode : reals_of(n, "nodes_modes")) f.modes.push_back(static_cast<int64_t>(mode));
  f.splits = reals_of(n, "nodes_splits");
  f.weights = reals_of(n, "leaf_weights");
  f.leaves = static_cast<int64_t>(f.weights.size());
  f.targets = n.integers("leaf_targetids", {});
  f.roots = n.integers("tree_roots", {});
  f.missing_is_true = n.integers("nodes_missing_value_tracks_true", Dims(f.features.size(), 0));
  const auto each_node = [&](const auto& list, std::string_view name) {
    n.check(list.size() == f.features.size(), "{} has {} entries for {} nodes", name, list.size(), f.nodes);
  };
  each_node(f.modes, "nodes_modes");
  each_node(f.splits, "nodes_splits");
  each_node(f.missing_is_true, "nodes_missing_value_tracks_true");
  n.check(f.targets.size() == f.weights.size(), "{} targets for {} leaves", f.targets.size(), f.leaves);
  n.check(f.nodes > 0 && f.leaves > 0 && !f.roots.empty(), "{} nodes, {} leaves and {} trees", f.nodes,
          f.leaves, f.roots.size());
  const auto branch = [&](std::string_view ids, std::string_view leaf) {
    Dims to = n.integers(ids, {});
    const Dims is_leaf = n.integers(leaf, {});
    each_node(to, ids);
    each_node(is_leaf, leaf);
    for (size_t i = 0; i < to.size(); ++i) {
      const int64_t limit = is_leaf[i] ? f.leaves : f.nodes;
      n.check(0 <= to[i] && to[i] < limit, "{}: node {} leads to {} of {}", ids, i, to[i], limit);
      if (is_leaf[i]) to[i] += f.nodes;
    }
    return to;
  };
  f.when_true = branch("nodes_truenodeids", "nodes_trueleafs");
  f.when_false = branch("nodes_falsenodeids", "nodes_falseleafs");
  for (const int64_t root : f.roots)
    n.check(0 <= root && root < f.nodes, "tree_roots: {} of {} nodes", root, f.nodes);
  for (const int64_t mode : f.modes) n.check(0 <= mode && mode < kModes, "nodes_modes: {}", mode);
  read_members(n, f);
  f.depth = depth_of(n, f);
  return f;
}

// What the trees' walk looks up, by node or leaf.
class Walk {
 public:
  Walk(const Emit& e, const Forest& f, ValueId x) : e_(e), f_(f), x_(x), element_(e.element(x)) {}

  // [rows, trees]: the leaf that each row comes to, counted behind the nodes.
  ValueId leaves() const {
    const auto trees = static_cast<int64_t>(f_.roots.size());
    ValueId at = e_.broadcast_to(e_.integers(f_.roots), {e_.dim(x_, 0), trees});
    for (int64_t step = 0; step < f_.depth; ++step)
      at = e_.select(goes_true(at), looked_up(f_.when_true, at, true), looked_up(f_.when_false, at, true));
    return at;
  }

  // Entries of a list of whole numbers; leaves, of which it has none, have 0 or lead to themselves.
  ValueId looked_up(Dims list, ValueId at, bool to_itself = false) const {
    for (int64_t i = f_.nodes; i < f_.size(); ++i) list.push_back(to_itself ? i : 0);
    return e_.take_along(e_.integers(list), at, 0);
  }

  ValueId looked_up_behind_nodes(const std::vector<double>& list, ValueId at) const {
    std::vector<double> padded(static_cast<size_t>(f_.nodes), 0);
    padded.insert(padded.end(), list.begin(), list.end());
    return e_.take_along(e_.reals(padded, element_, {f_.size()}), at, 0);
  }

 private:
  ValueId goes_true(ValueId at) const {
    const ValueId value = e_.gather_elements(x_, looked_up(f_.features, at), 1);
    std::vector<double> splits = f_.splits;
    splits.resize(static_cast<size_t>(f_.size()), 0);
    const ValueId split = e_.take_along(e_.reals(splits, element_, {f_.size()}), at, 0);
    const ValueId mode = looked_up(f_.modes, at);
    std::optional<ValueId> result;
    for (int64_t m = 0; m < kModes; ++m) {
      if (std::ranges::count(f_.modes, m) == 0) continue;
      const ValueId holds = m == kMember ? is_member(value, at) : compared(m, value, split);
      result = result ? e_.select(e_.compare(ComparisonDirection::kEq, mode, static_cast<double>(m)), holds,
                                  *result)
                      : holds;
    }
    if (std::ranges::count(f_.missing_is_true, 0) == f_.nodes) return *result;
    const ValueId missing = e_.compare(ComparisonDirection::kNe, value, value);
    const ValueId tracks = e_.compare(ComparisonDirection::kNe, looked_up(f_.missing_is_true, at), 0);
    return e_.binary(OpKind::or_, *result, e_.binary(OpKind::and_, missing, tracks));
  }

  ValueId compared(int64_t mode, ValueId value, ValueId split) const {
    constexpr std::array kDirections = {ComparisonDirection::kLe, ComparisonDirection::kLt,
                                        ComparisonDirection::kGe, ComparisonDirection::kGt,
                                        ComparisonDirection::kEq, ComparisonDirection::kNe};
    return e_.compare(kDirections.at(static_cast<size_t>(mode)), value, split);
  }

  // Sets are filled up with NaN, which no value equals.
  ValueId is_member(ValueId value, ValueId at) const {
    size_t widest = 1;
    for (const auto& set : f_.members) widest = std::max(widest, set.size());
    std::vector<double> table(static_cast<size_t>(f_.size()) * widest,
                              std::numeric_limits<double>::quiet_NaN());
    for (size_t i = 0; i < f_.members.size(); ++i)
      std::ranges::copy(f_.members[i], table.begin() + static_cast<int64_t>(i * widest));
    const auto columns = static_cast<int64_t>(widest);
    const ValueId sets = e_.take_along(e_.reals(table, element_, {f_.size(), columns}), at, 0);
    const ValueId same =
        e_.compare(ComparisonDirection::kEq, sets, e_.broadcast_to(e_.unsqueeze(value, 2), e_.dims(sets)));
    return e_.reduce(OpKind::or_, same, {2}, false);
  }

  const Emit& e_;
  const Forest& f_;
  ValueId x_;
  ElementType element_;
};

enum Aggregate : int64_t { kAverage, kSum, kMin, kMax };

// weights and targets [rows, trees] to [rows, n_targets].
ValueId aggregated(const Node& n, ValueId weights, ValueId targets, int64_t how) {
  const Emit& e = n.emit;
  const int64_t count = n.integer("n_targets", 1);
  n.check(0 < count && count < 1 << 24, "n_targets is {}", count);
  const auto limit = [&](double sign) {
    return sign * (e.element(weights) == ElementType::kF64 ? std::numeric_limits<double>::max()
                                                           : std::numeric_limits<float>::max());
  };
  const double absent = how == kMin ? limit(1) : how == kMax ? limit(-1) : 0;
  const OpKind combiner = how == kMin ? OpKind::minimum_ : how == kMax ? OpKind::maximum_ : OpKind::add_;
  const Dims spread = {e.dim(weights, 0), e.dim(weights, 1), count};
  const ValueId mine = e.compare(ComparisonDirection::kEq, e.broadcast_to(e.unsqueeze(targets, 2), spread),
                                 e.iota(ElementType::kI64, spread, 2));
  const ValueId wide = e.broadcast_to(e.unsqueeze(weights, 2), spread);
  ValueId y = e.reduce(combiner, e.select(mine, wide, e.like(wide, absent)), {1}, false);
  // What no leaf is of is 0, as in ONNX Runtime; ONNX does not say.
  if (absent != 0) y = e.select(e.reduce(OpKind::or_, mine, {1}, false), y, e.like(y, 0));
  return how == kAverage ? e.div(y, static_cast<double>(spread[1])) : y;
}

}  // namespace

void import_tree_ensemble(Node& n) {
  const Emit& e = n.emit;
  n.check(n.rank(0) == 2, "its input has {} dimensions, 2 are wanted", n.rank(0));
  const Forest forest = forest_of(n);
  const int64_t columns = e.dim(n.in(0), 1);
  for (const int64_t feature : forest.features)
    n.check(0 <= feature && feature < columns, "nodes_featureids: {} of {} features", feature, columns);
  // Splits and weights have the input's type, of which float16's largest value is no fp32 one.
  const ElementType narrow = n.element(0);
  const ValueId x = narrow == ElementType::kF64 ? n.in(0) : e.cast(n.in(0), ElementType::kF32);
  const Walk walk(e, forest, x);
  const ValueId leaves = walk.leaves();
  std::vector<double> targets(forest.targets.begin(), forest.targets.end());
  const int64_t how = n.integer("aggregate_function", kSum);
  n.check(kAverage <= how && how <= kMax, "aggregate_function is {}", how);
  ValueId y = aggregated(n, walk.looked_up_behind_nodes(forest.weights, leaves),
                         e.cast(walk.looked_up_behind_nodes(targets, leaves), ElementType::kI64), how);
  switch (const int64_t transform = n.integer("post_transform", 0)) {
    case 0: break;
    case 1: y = e.softmax(y, 1); break;
    case 2: y = e.sigmoid(y); break;
    default:
      n.refuse(
          fmt::format("post_transform {}; none (0), softmax (1) and logistic (2) are imported", transform),
          "leave it out, and transform the result behind the model");
  }
  n.set(0, e.cast(y, narrow));
}

}  // namespace opentrn::import::onnx
