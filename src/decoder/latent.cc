#include "decoder/latent.h"

#include <vector>

#include "decoder/norms.h"

namespace opentrn::decoder {

namespace {

// Of its two norms, whatever the model's others have: modeling_deepseek_v2.py and _v3.py leave it at its
// default.
constexpr double kEpsilon = 1e-6;

}  // namespace

graph::ValueId LatentOps::latent_queries(ValueId in) {
  const int64_t rows = builder_.type(in).dim(0);
  const Dims dims{rows, config_.heads, config_.head_features};
  if (config_.query_rank == 0) return builder_.reshape(product(in, matrix("q")), dims);
  const ValueId made = product(in, matrix("q_a"));
  const ValueId even = rms_normed(builder_, made, weight("q_a_norm"), kEpsilon);
  return builder_.reshape(product(narrow(even), matrix("q_b")), dims);
}

graph::ValueId LatentOps::compressed(ValueId in) { return product(in, matrix("kv_a")); }

graph::ValueId LatentOps::normed_latent(ValueId both) {
  const int64_t rows = builder_.type(both).dim(0);
  const ValueId latent = builder_.slice(both, {0, 0}, {rows, config_.latent_features});
  return rms_normed(builder_, latent, weight("kv_a_norm"), kEpsilon);
}

graph::ValueId LatentOps::to_latent(ValueId plain) {
  const int64_t rows = builder_.type(plain).dim(0), heads = config_.heads;
  const ValueId up =
      builder_.reshape(weight("key_up"), {heads, config_.plain_features(), config_.latent_features});
  return dot(plain, {1}, 2, up, {0}, 1, {heads, rows, config_.latent_features});
}

graph::ValueId LatentOps::from_latent(ValueId weighed) {
  const int64_t heads = config_.heads, rows = builder_.type(weighed).dim(1);
  const ValueId up =
      builder_.reshape(weight("value_up"), {heads, config_.value_features, config_.latent_features});
  const ValueId made = dot(weighed, {0}, 2, up, {0}, 2, {heads, rows, config_.value_features});
  return builder_.reshape(builder_.transpose(made, {1, 0, 2}), {rows, heads * config_.value_features});
}

}  // namespace opentrn::decoder
