// What the graph of a step is put together of: products with weights, activations and feed-forward layers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/config.h"
#include "graph/builder.h"

namespace opentrn::decoder {

// A weight that products read, [depth, columns]; where it is narrow, `value` and `scale` are as narrow.h has
// them.
struct Matrix {
  graph::ValueId value{};
  std::optional<graph::ValueId> scale = {};
};

inline constexpr graph::ElementType kReal = graph::ElementType::kF32, kIndex = graph::ElementType::kI32;
// What masked scores become: exp gives 0, and no sum overflows.
inline constexpr double kMasked = -1e30;

// Real numbers are f32; `element` is what products read.
class StepOps {
 public:
  StepOps(const Config& config, graph::ElementType element);
  virtual ~StepOps() = default;

 protected:
  using ValueId = graph::ValueId;
  using Dims = std::vector<int64_t>;

  // By its part of the layer, or of the model outside its layers: "qkv", "norm".
  virtual ValueId weight(std::string_view part) = 0;
  std::string weight_name(std::string_view part) const;
  // A matrix that may be narrow. `part`: gives the weight of a name, and of its scales.
  using WeightOf = std::function<ValueId(std::string_view)>;
  Matrix matrix_of(const std::string& name, const WeightOf& part);
  Matrix matrix(const std::string& name);
  // x with a row of that name added to each of its own.
  ValueId biased(ValueId x, const char* name);
  ValueId over_rows(ValueId vector, ValueId x);

  // Ops that follow are of this part of the layer, or of the model outside its layers.
  void at(const char* part);
  ValueId binary(graph::OpKind kind, ValueId a, ValueId b) { return builder_.add(kind, {a, b}); }
  ValueId narrow(ValueId value) { return builder_.convert(value, element_); }
  ValueId scaled(ValueId value, double factor);
  ValueId capped(ValueId value, double cap);
  ValueId at_most(ValueId x, double limit);
  // With a residual's own factor.
  ValueId plus(ValueId x, ValueId y);
  // `row`: [columns], or [1, columns].
  ValueId added_row(ValueId x, ValueId row);
  // Rows of x times their shares [rows].
  ValueId weighed(ValueId x, ValueId shares);
  // Rows of a table of two dimensions.
  ValueId rows_of(ValueId table, ValueId indices);
  // SiLU, or GELU by tanh.
  ValueId activated(ValueId x);

  ValueId dot(ValueId a, Dims a_batch, int64_t a_contracted, ValueId b, Dims b_batch, int64_t b_contracted,
              Dims dims);
  ValueId product(ValueId x, const Matrix& weight);
  ValueId with_columns(ValueId x, int64_t count);
  Matrix columns_of(const Matrix& weight, int64_t first, int64_t count);
  // act(in gate) * (in up), times down.
  ValueId gated(ValueId in, const Matrix& gate_up, const Matrix& down);
  // gpt-oss's expert: gate * sigmoid(1.702 gate) * (up + 1), of kept features, times down. Biases are
  // [1, features].
  ValueId gated_within(ValueId in, const Matrix& gate_up, ValueId gate_up_bias, const Matrix& down,
                       ValueId down_bias);

  const Config& config_;
  graph::ElementType element_;
  graph::Module module_;
  graph::Function& function_;
  graph::Builder builder_;
  int64_t layer_ = -1;
};

}  // namespace opentrn::decoder
