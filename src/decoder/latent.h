// Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2"): what heads make of queries and of weighed
// latent features. The matrices that would make keys and values of each head from the latent ones are taken
// to the queries and to the result ("absorbed"), so that all heads read one row of the pool for each
// position.
#pragma once

#include <vector>

#include "decoder/experts.h"

namespace opentrn::decoder {

class LatentOps : public ExpertOps {
 public:
  using ExpertOps::ExpertOps;

 protected:
  // [rows, heads, head_features] of what the layer reads, [rows, hidden].
  ValueId latent_queries(ValueId in);
  // [rows, latent_features + turned_features] of the same: not yet normed and turned.
  ValueId compressed(ValueId in);
  ValueId normed_latent(ValueId both);
  // [rows, heads, plain_features] to [heads, rows, latent_features].
  ValueId to_latent(ValueId plain);
  // [heads, rows, latent_features] to [rows, heads * value_features].
  ValueId from_latent(ValueId weighed);
};

}  // namespace opentrn::decoder
