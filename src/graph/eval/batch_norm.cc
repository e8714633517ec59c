// batch_norm_*: per-feature means and variances, computed in double and rounded at the results.
#include <cmath>

#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

// Walks the operand with the number of the feature of each element.
template <typename Visit>
void for_each_feature(const Tensor& operand, size_t feature_axis, Visit&& visit) {
  for_each_index(operand.dims(), [&](const Dims& index, int64_t linear) {
    visit(static_cast<size_t>(linear), static_cast<size_t>(index[feature_axis]));
  });
}

struct Norm {
  const Tensor& operand;
  size_t axis;
  double epsilon;
  size_t features;
  double per_feature;  // elements of one feature
};

Norm describe(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const int64_t axis = call.op().integer(Attr::feature_index);
  if (axis < 0 || axis >= operand.rank())
    call.fail(fmt::format("feature_index {} of {}", axis, operand.type().to_string()));
  const int64_t features = operand.dims()[static_cast<size_t>(axis)];
  for (size_t i = 1; i < call.operand_count(); ++i) {
    const bool whole = call.kind() == OpKind::batch_norm_grad_ && i == 4;
    if (call.tensor(i).size() != (whole ? operand.size() : features))
      call.fail(
          fmt::format("operand {} is {} for {} features", i, call.tensor(i).type().to_string(), features));
  }
  const double count = features == 0 ? 0 : static_cast<double>(operand.size() / features);
  return {operand, static_cast<size_t>(axis), call.op().real(Attr::epsilon), static_cast<size_t>(features),
          count};
}

std::vector<Real> normalise_features(const Norm& norm, const std::vector<Real>& scale,
                                     const std::vector<Real>& offset, const std::vector<Real>& mean,
                                     const std::vector<Real>& variance) {
  const auto& values = norm.operand.values<Real>();
  std::vector<Real> results(values.size());
  for_each_feature(norm.operand, norm.axis, [&](size_t i, size_t f) {
    results[i] = scale[f] * ((values[i] - mean[f]) / std::sqrt(variance[f] + norm.epsilon)) + offset[f];
  });
  return results;
}

}  // namespace

Tensor batch_norm_inference(const Call& call) {
  const Norm norm = describe(call);
  return call.finish(call.result(norm.operand.dims()),
                     normalise_features(norm, call.tensor(1).values<Real>(), call.tensor(2).values<Real>(),
                                        call.tensor(3).values<Real>(), call.tensor(4).values<Real>()));
}

Items batch_norm_training(const Call& call) {
  const Norm norm = describe(call);
  const auto& values = norm.operand.values<Real>();
  std::vector<Real> mean(norm.features);
  std::vector<Real> variance(norm.features);
  for_each_feature(norm.operand, norm.axis, [&](size_t i, size_t f) { mean[f] += values[i]; });
  for (Real& value : mean) value /= norm.per_feature;
  for_each_feature(norm.operand, norm.axis,
                   [&](size_t i, size_t f) { variance[f] += (values[i] - mean[f]) * (values[i] - mean[f]); });
  for (Real& value : variance) value /= norm.per_feature;
  std::vector<Real> output =
      normalise_features(norm, call.tensor(1).values<Real>(), call.tensor(2).values<Real>(), mean, variance);
  return {call.finish(call.result(norm.operand.dims(), 0), std::move(output)),
          call.finish(call.result(call.tensor(1).dims(), 1), std::move(mean)),
          call.finish(call.result(call.tensor(1).dims(), 2), std::move(variance))};
}

Items batch_norm_grad(const Call& call) {
  const Norm norm = describe(call);
  const auto& values = norm.operand.values<Real>();
  const auto& scale = call.tensor(1).values<Real>();
  const auto& mean = call.tensor(2).values<Real>();
  const auto& variance = call.tensor(3).values<Real>();
  const auto& grad = call.tensor(4).values<Real>();
  std::vector<Real> sum(norm.features);      // of the gradient
  std::vector<Real> centred(norm.features);  // of the gradient times the centred operand
  for_each_feature(norm.operand, norm.axis, [&](size_t i, size_t f) {
    sum[f] += grad[i];
    centred[f] += grad[i] * (values[i] - mean[f]);
  });
  std::vector<Real> grad_operand(values.size());
  for_each_feature(norm.operand, norm.axis, [&](size_t i, size_t f) {
    const Real spread = variance[f] + norm.epsilon;
    const Real inner = grad[i] * norm.per_feature - sum[f] - centred[f] * (values[i] - mean[f]) / spread;
    grad_operand[i] = scale[f] / std::sqrt(spread) / norm.per_feature * inner;
  });
  std::vector<Real> grad_scale(norm.features);
  for (size_t f = 0; f < norm.features; ++f)
    grad_scale[f] = centred[f] / std::sqrt(variance[f] + norm.epsilon);
  return {call.finish(call.result(norm.operand.dims(), 0), std::move(grad_operand)),
          call.finish(call.result(call.tensor(1).dims(), 1), std::move(grad_scale)),
          call.finish(call.result(call.tensor(1).dims(), 2), std::move(sum))};
}

}  // namespace opentrn::graph::eval
