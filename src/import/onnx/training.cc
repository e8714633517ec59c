// Optimizer steps of ai.onnx.preview.training: learning rate R, step T, then n each of weights, gradients and
// states.
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

struct Step {
  ValueId rate;
  ValueId count;  // of updates before, as a float of the rate's type
  size_t weights;
};

Step step_of(Node& n, size_t groups) {
  n.check(n.input_count() >= 2 + groups && (n.input_count() - 2) % groups == 0, "{} inputs", n.input_count());
  return {n.in(0), n.emit.cast(n.in(1), n.element(0)), (n.input_count() - 2) / groups};
}

ValueId scalar_as(const Emit& e, ValueId x, ElementType element) { return e.cast(e.reshape(x, {}), element); }

}  // namespace

void import_adagrad(Node& n) {
  const Emit& e = n.emit;
  const Step s = step_of(n, 3);
  const ValueId rate = e.div(s.rate, e.add(e.mul(s.count, n.real("decay_factor", 0)), 1));
  for (size_t i = 0; i < s.weights; ++i) {
    const ValueId x = n.in(2 + i);
    const ValueId g = e.add(n.in(2 + s.weights + i), e.mul(x, n.real("norm_coefficient", 0)));
    const ValueId h = e.add(n.in(2 + 2 * s.weights + i), e.mul(g, g));
    const ValueId scaled = e.div(g, e.add(e.sqrt(h), n.real("epsilon", 0)));
    n.set(i, e.sub(x, e.mul(scaled, scalar_as(e, rate, e.element(x)))));
    n.set(s.weights + i, h);
  }
}

void import_adam(Node& n) {
  const Emit& e = n.emit;
  const Step s = step_of(n, 4);
  const double alpha = n.real("alpha", 0.9);
  const double beta = n.real("beta", 0.999);
  const auto bias = [&](double base) {
    return e.sub(e.like(s.count, 1), e.binary(OpKind::power_, e.like(s.count, base), s.count));
  };
  const ValueId corrected = e.div(e.mul(s.rate, e.sqrt(bias(beta))), bias(alpha));
  const ValueId rate = e.select(e.compare(ComparisonDirection::kGt, s.count, 0), corrected, s.rate);
  for (size_t i = 0; i < s.weights; ++i) {
    const ValueId x = n.in(2 + i);
    const ValueId g = e.add(n.in(2 + s.weights + i), e.mul(x, n.real("norm_coefficient", 0)));
    const ValueId v = e.add(e.mul(n.in(2 + 2 * s.weights + i), alpha), e.mul(g, 1 - alpha));
    const ValueId h = e.add(e.mul(n.in(2 + 3 * s.weights + i), beta), e.mul(e.mul(g, g), 1 - beta));
    const ValueId scaled = e.div(v, e.add(e.sqrt(h), n.real("epsilon", 0)));
    const ValueId moved = e.sub(x, e.mul(scaled, scalar_as(e, rate, e.element(x))));
    n.set(i, e.mul(moved, 1 - n.real("norm_coefficient_post", 0)));
    n.set(s.weights + i, v);
    n.set(2 * s.weights + i, h);
  }
}

void import_momentum(Node& n) {
  const Emit& e = n.emit;
  const Step s = step_of(n, 3);
  const double alpha = n.real("alpha", 0);
  const std::string mode = n.string("mode", "standard");
  n.check(mode == "standard" || mode == "nesterov", "mode is '{}'", mode);
  // The first update takes the gradient whole.
  const ValueId first = e.compare(ComparisonDirection::kGt, s.count, 0);
  const ValueId beta = e.select(first, e.like(s.rate, n.real("beta", 0)), e.like(s.rate, 1));
  for (size_t i = 0; i < s.weights; ++i) {
    const ValueId x = n.in(2 + i);
    const ValueId g = e.add(n.in(2 + s.weights + i), e.mul(x, n.real("norm_coefficient", 0)));
    const ValueId v =
        e.add(e.mul(n.in(2 + 2 * s.weights + i), alpha), e.mul(g, scalar_as(e, beta, e.element(x))));
    const ValueId direction = mode == "nesterov" ? e.add(g, e.mul(v, alpha)) : v;
    n.set(i, e.sub(x, e.mul(direction, scalar_as(e, s.rate, e.element(x)))));
    n.set(s.weights + i, v);
  }
}

}  // namespace opentrn::import::onnx
