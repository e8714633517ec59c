#include "planner/model.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace opentrn::planner {

double Model::attention_parameters() const { return attention_parameters_of_rank(1); }

double Model::attention_parameters_of_rank(int tp) const {
  const double h = hidden, own_heads = double(heads) / tp;
  if (latent()) {
    const double query_dim = own_heads * (nope_dim + rope_dim);
    const double query =
        query_rank > 0 ? h * query_rank + query_rank * query_dim + query_rank : h * query_dim;
    const double kv = h * (kv_rank + rope_dim) + kv_rank * own_heads * (nope_dim + value_dim) + kv_rank;
    return query + kv + own_heads * value_dim * h;
  }
  const double q = own_heads * head_dim, kv = std::max(1.0, double(kv_heads) / tp) * head_dim;
  return h * (q + 2 * kv) + q * h + (biases ? q + 2 * kv + h / tp : 0);
}

double Model::dense_mlp_parameters() const {
  return (gated ? 3.0 : 2.0) * hidden * ffn + (biases ? hidden + double(ffn) : 0);
}

double Model::expert_parameters() const { return (gated ? 3.0 : 2.0) * hidden * expert_ffn; }

double Model::expert_block_parameters() const {
  return experts * (expert_parameters() + hidden) + (gated ? 3.0 : 2.0) * hidden * shared_ffn;
}

int64_t Model::expert_capacity(double seq) const {
  return experts > 0 ? static_cast<int64_t>(std::ceil(seq * active_experts / experts)) : 0;
}

bool Model::layer_norms() const { return biases && !gated; }
double Model::norm_parameters() const { return (layer_norms() ? 4.0 : 2.0) * hidden; }
double Model::embedding_parameters() const { return (vocabulary + positions) * hidden; }
double Model::class_parameters() const { return classes * (hidden + 1.0); }
double Model::output_parameters() const { return tied ? 0 : vocabulary * hidden; }

double Model::parameters() const {
  const double dense = layers - expert_layers();
  return streams * (layers * (attention_parameters() + norm_parameters() + modulation) +
                    dense * dense_mlp_parameters()) +
         expert_layers() * (experts > 0 ? expert_block_parameters() : 0) + embedding_parameters() +
         output_parameters() + class_parameters() + input_parameters + hidden;
}

double Model::active_parameters() const {
  const double met_by_others = (streams - 1) * layers * (attention_parameters() + dense_mlp_parameters());
  // The time step's scales are made once for a sample, and applied to its tokens.
  return parameters() - expert_layers() * double(experts - active_experts) * expert_parameters() -
         met_by_others - streams * layers * modulation;
}

double Model::flops_per_token(double seq) const {
  const double products = active_parameters() - embedding_parameters() - output_parameters() -
                          class_parameters() + vocabulary * hidden;
  const double key_dim = latent() ? nope_dim + rope_dim : head_dim;
  const double value = latent() ? value_dim : head_dim;
  const auto attended = [&](double keys) { return 6.0 * heads * (key_dim + value) * keys; };
  const double full = (layers - window_layers) * attended(seq);
  const double windowed = window_layers * attended(std::min(seq, double(window)));
  return 6 * products + full + windowed;
}

std::string count_text(double count) {
  if (count >= 0.95e9) return fmt::format("{:.1f}B", count / 1e9);
  return count >= 0.95e6 ? fmt::format("{:.0f}M", count / 1e6) : fmt::format("{:.0f}", count);
}

std::string stored_text(const Model& model) {
  return model.stored_as.empty() ? "" : fmt::format(", stored as {}", model.stored_as);
}

}  // namespace opentrn::planner
