// Normalisations.
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

// A vector of the feature dimension (1) spread over x's rank.
ValueId per_feature(const Emit& e, ValueId vector, int64_t rank) {
  Dims dims(static_cast<size_t>(rank), 1);
  dims[1] = e.dim(vector, 0);
  return e.reshape(vector, dims);
}

struct Moments {
  ValueId centred;
  ValueId mean;
  ValueId inverse_deviation;
};

Moments moments(const Emit& e, ValueId x, const Dims& axes, double epsilon) {
  const ValueId mean = e.mean(x, axes, true);
  const ValueId centred = e.sub(x, mean);
  const ValueId variance = e.mean(e.mul(centred, centred), axes, true);
  return {centred, mean, e.unary(OpKind::rsqrt_, e.add(variance, epsilon))};
}

}  // namespace

void import_batch_normalization(Node& n) {
  const Emit& e = n.emit;
  const ValueId x = n.in(0);
  const int64_t rank = n.rank(0);
  n.check(rank >= 2, "input of rank {}", rank);
  const double epsilon = n.real("epsilon", 1e-5);
  const double momentum = n.real("momentum", 0.9);
  const bool training = n.flag("training_mode", false);
  const ElementType wide = e.element(n.in(3));
  ValueId mean = n.in(3);
  ValueId variance = n.in(4);
  if (training) {
    Dims axes{0};
    for (int64_t i = 2; i < rank; ++i) axes.push_back(i);
    const ValueId xw = e.cast(x, wide);
    const ValueId current = e.mean(xw, axes, true);
    const ValueId centred = e.sub(xw, current);
    const ValueId spread = e.mean(e.mul(centred, centred), axes, false);
    const ValueId flat = e.reshape(current, {e.dim(x, 1)});
    n.set(1, e.add(e.mul(mean, momentum), e.mul(flat, 1 - momentum)));
    n.set(2, e.add(e.mul(variance, momentum), e.mul(spread, 1 - momentum)));
    mean = flat;
    variance = spread;
  } else {
    // Versions before 14 name running statistics as outputs also in inference.
    n.set(1, mean);
    n.set(2, variance);
  }
  const auto spread = [&](ValueId v) { return per_feature(e, v, rank); };
  const ValueId scale =
      e.mul(e.cast(spread(n.in(1)), wide), e.unary(OpKind::rsqrt_, e.add(spread(variance), epsilon)));
  const ValueId y = e.add(e.mul(e.sub(e.cast(x, wide), spread(mean)), scale), e.cast(spread(n.in(2)), wide));
  n.set(0, e.cast(y, e.element(x)));
}

void import_instance_normalization(Node& n) {
  const Emit& e = n.emit;
  const int64_t rank = n.rank(0);
  n.check(rank >= 3, "input of rank {}", rank);
  const Moments m = moments(e, n.in(0), range(2, rank), n.real("epsilon", 1e-5));
  const ValueId unit = e.mul(m.centred, m.inverse_deviation);
  n.set(0, e.add(e.mul(unit, per_feature(e, n.in(1), rank)), per_feature(e, n.in(2), rank)));
}

void import_layer_normalization(Node& n) {
  const Emit& e = n.emit;
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  const ElementType stash = element_type_of(n.integer("stash_type", 1));
  const ElementType narrow = n.element(0);
  const Moments m = moments(e, e.cast(n.in(0), stash), range(axis, n.rank(0)), n.real("epsilon", 1e-5));
  const ValueId unit = e.cast(e.mul(m.centred, m.inverse_deviation), narrow);
  const ValueId scaled = e.mul(unit, n.in(1));
  n.set(0, n.has(2) ? e.add(scaled, n.in(2)) : scaled);
  n.set(1, m.mean);
  n.set(2, m.inverse_deviation);
}

void import_rms_normalization(Node& n) {
  const Emit& e = n.emit;
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  const ElementType stash = element_type_of(n.integer("stash_type", 1));
  const ValueId x = e.cast(n.in(0), stash);
  const ValueId square = e.mean(e.mul(x, x), range(axis, n.rank(0)), true);
  const ValueId scale = e.unary(OpKind::rsqrt_, e.add(square, n.real("epsilon", 1e-5)));
  n.set(0, e.mul(e.cast(e.mul(x, scale), n.element(1)), n.in(1)));
}

void import_group_normalization(Node& n) {
  const Emit& e = n.emit;
  const Dims d = n.dims(0);
  const int64_t groups = n.integer("num_groups", 0);
  n.check(d.size() >= 2 && groups > 0 && d[1] % groups == 0, "{} groups", groups);
  const ElementType narrow = n.element(0);
  const ElementType stash = n.opset() >= 21 ? element_type_of(n.integer("stash_type", 1)) : narrow;
  Dims split{d[0], groups, d[1] / groups};
  split.insert(split.end(), d.begin() + 2, d.end());
  const ValueId x = e.reshape(e.cast(n.in(0), stash), split);
  const Moments m = moments(e, x, range(2, static_cast<int64_t>(split.size())), n.real("epsilon", 1e-5));
  const ValueId unit = e.cast(e.mul(m.centred, m.inverse_deviation), narrow);
  // Scale and bias per group before opset 21, per channel from then on.
  const auto spread = [&](ValueId v) {
    Dims dims(split.size(), 1);
    dims[1] = groups;
    dims[2] = e.dim(v, 0) == groups && n.opset() < 21 ? 1 : d[1] / groups;
    return e.reshape(v, dims);
  };
  n.set(0, e.reshape(e.add(e.mul(unit, spread(n.in(1))), spread(n.in(2))), d));
}

void import_lp_normalization(Node& n) {
  const Emit& e = n.emit;
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  const int64_t p = n.integer("p", 2);
  n.check(p == 1 || p == 2, "p is {}", p);
  const ValueId x = n.in(0);
  const ValueId norm =
      p == 1 ? e.sum(e.unary(OpKind::abs_, x), {axis}, true) : e.sqrt(e.sum(e.mul(x, x), {axis}, true));
  const ValueId zero = e.compare(ComparisonDirection::kEq, norm, 0);
  n.set(0, e.select(zero, e.like(x, 0), e.div(x, norm)));
}

void import_mean_variance_normalization(Node& n) {
  const Emit& e = n.emit;
  const Dims axes = n.axes(n.integers("axes", {0, 2, 3}), n.rank(0));
  const ValueId x = n.in(0);
  const ValueId centred = e.sub(x, e.mean(x, axes, true));
  const ValueId variance = e.mean(e.mul(centred, centred), axes, true);
  n.set(0, e.div(centred, e.add(e.sqrt(variance), 1e-9)));
}

}  // namespace opentrn::import::onnx
