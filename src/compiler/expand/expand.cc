#include "compiler/expand/expand.h"

#include <algorithm>
#include <array>

#include "base/activity.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/decompositions.h"
#include "compiler/rewrite/rewrite.h"

namespace opentrn::compiler {

namespace {

// Expansions name expansions: digamma the tangent, the tangent sine and cosine.
constexpr int kRoundsMax = 16;

bool all_real_tensors(const Function& function, const Op& op) {
  const auto real = [&](ValueId id) {
    const graph::Type& type = function.type(id);
    return type.is_tensor() && !type.quantization() && type.is_static() && !graph::is_complex(type.element());
  };
  return std::all_of(op.operands.begin(), op.operands.end(), real) &&
         std::all_of(op.results.begin(), op.results.end(), real);
}

}  // namespace

std::span<const std::span<const Expansion>> expansion_families() {
  static const std::array kFamilies{
      complex_expansions(),
      wide_integer_expansions(),
      trigonometric_expansions(),
      special_function_expansions(),
      bit_expansions(),
      patch_expansions(),
      weight_gradient_expansions(),
      wide_kernel_expansions(),
      convolution_expansions(),
      image_group_expansions(),
      integer_product_expansions(),
      product_expansions(),
      running_expansions(),
      short_dimension_expansions(),
      reduction_expansions(),
      window_expansions(),
      select_window_expansions(),
      linear_algebra_expansions(),
      decomposition_expansions(),
      random_expansions(),
      counting_expansions(),
      gather_window_expansions(),
      gather_column_expansions(),
      sort_key_expansions(),
      one_window_expansions(),
      counted_scatter_expansions(),
      scatter_place_expansions(),
      extreme_scatter_expansions(),
      sum_scatter_expansions(),
      long_scatter_expansions(),
      wide_scatter_expansions(),
      region_scatter_expansions(),
      bound_expansions(),
  };
  return kFamilies;
}

const Expansion* expansion_of(const Function& function, const Op& op) {
  for (const auto family : expansion_families())
    for (const Expansion& expansion : family)
      if (expansion.kind == op.kind &&
          (expansion.takes ? expansion.takes(function, op) : all_real_tensors(function, op)))
        return &expansion;
  return nullptr;
}

bool has_expansion(const Function& function, const Op& op) { return expansion_of(function, op) != nullptr; }

bool expand(Function& function) {
  const Activity activity("expanding ops");
  const auto waits = [&] {
    bool found = false;
    walk(function, function.body(),
         [&](graph::OpId id) { found |= has_expansion(function, function.op(id)); });
    return found;
  };
  int round = 0;
  for (; waits(); ++round) {
    OPENTRN_CHECK(round < kRoundsMax, "expansions of ops do not come to an end");
    function = rewritten(function,
                         [&](Builder& builder, const Op& op,
                             std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                           const Expansion* expansion = expansion_of(function, op);
                           if (!expansion) return std::nullopt;
                           return expansion->make(builder, function, op, operands);
                         });
  }
  return round > 0;
}

std::vector<ValueId> computed_in_f32(Builder& builder, std::span<const ValueId> operands,
                                     Expr (*body)(std::span<const Expr>)) {
  const ElementType element = builder.type(operands[0]).element();
  std::vector<Expr> wide;
  for (const ValueId id : operands) wide.push_back(Expr(builder, id).as(ElementType::kF32));
  return {body(wide).as(element).id()};
}

}  // namespace opentrn::compiler
