// Losses.
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

// -weight[target] * x[.., target, ..], with x [N, C, d..] and target [N, d..].
ValueId loss(const Node& n, ValueId log_probability, ValueId target, std::optional<ValueId> weight) {
  const Emit& e = n.emit;
  n.check(e.rank(log_probability) >= 2 && e.rank(target) == e.rank(log_probability) - 1,
          "scores of rank {} and labels of rank {}", e.rank(log_probability), e.rank(target));
  const std::string reduction = n.string("reduction", "mean");
  n.check(reduction == "none" || reduction == "mean" || reduction == "sum", "reduction is '{}'", reduction);
  const int64_t classes = e.dim(log_probability, 1);
  const ElementType element = e.element(log_probability);
  const ValueId index = e.cast(target, ElementType::kI64);
  // Ignored labels may be out of range: they read class 0 and weigh nothing.
  const ValueId safe = e.max(e.min(index, static_cast<double>(classes - 1)), 0);
  const ValueId picked = e.squeeze(e.gather_elements(log_probability, e.unsqueeze(safe, 1), 1), 1);
  ValueId weights = weight ? e.take_along(*weight, safe, 0) : e.full(element, e.dims(target), 1);
  if (n.attribute("ignore_index")) {
    const ValueId ignored =
        e.compare(ComparisonDirection::kEq, index, static_cast<double>(n.integer("ignore_index", 0)));
    weights = e.select(ignored, e.like(weights, 0), weights);
  }
  const ValueId values = e.mul(e.neg(picked), weights);
  if (reduction == "none") return values;
  const Dims all = range(0, e.rank(values));
  const ValueId total = e.sum(values, all, false);
  return reduction == "sum" ? total : e.div(total, e.sum(weights, all, false));
}

}  // namespace

void import_negative_log_likelihood_loss(Node& n) {
  n.set(0, loss(n, n.in(0), n.in(1), n.has(2) ? std::optional(n.in(2)) : std::nullopt));
}

void import_softmax_cross_entropy_loss(Node& n) {
  const ValueId log_probability = log_softmax(n.emit, n.in(0), 1);
  n.set(0, loss(n, log_probability, n.in(1), n.has(2) ? std::optional(n.in(2)) : std::nullopt));
  n.set(1, log_probability);
}

}  // namespace opentrn::import::onnx
