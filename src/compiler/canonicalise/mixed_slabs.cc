#include "compiler/canonicalise/mixed_slabs.h"

#include <algorithm>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/dims.h"
#include "compiler/rewrite/expression.h"

namespace opentrn::compiler {

namespace {

// Slabs lie over partitions one by one, so that the Vector engine adds them in all lanes; as rows of an
// operand of the Tensor engine they would be a few lanes of 128, for each column of it and of its result.
// More slabs are more sums than that takes.
constexpr int64_t kSlabsMax = 8;
// Elements of a slab of one image, and of all.
constexpr int64_t kSlabElementsMin = 512, kElementsMin = int64_t{1} << 14;

bool is_plain(const Type& type) {
  return type.is_tensor() && type.is_static() && !type.quantization() && graph::is_float(type.element()) &&
         device_dtype(type.element()).has_value();
}

struct Mix {
  size_t mixed;            // the operand that has slabs
  int64_t weights_axis;    // of the other one: where slabs are contracted
  int64_t slabs, results;  // how many are mixed, and come out
};

std::optional<Mix> mix_of(const Function& function, const Op& op) {
  if (op.kind != OpKind::dot_general_) return std::nullopt;
  const auto has = [&](Attr attr) { return op.has(attr) && !op.integers(attr).empty(); };
  if (has(Attr::lhs_batching_dimensions) || !has(Attr::lhs_contracting_dimensions)) return std::nullopt;
  const auto l = op.integers(Attr::lhs_contracting_dimensions),
             r = op.integers(Attr::rhs_contracting_dimensions);
  if (l.size() != 1) return std::nullopt;
  for (const ValueId value : {op.operands[0], op.operands[1], op.results[0]})
    if (!is_plain(function.type(value))) return std::nullopt;
  for (const size_t mixed : {0U, 1U}) {
    const Type &x = function.type(op.operands[mixed]), &weights = function.type(op.operands[1 - mixed]);
    const int64_t axis = mixed == 0 ? l[0] : r[0], other = mixed == 0 ? r[0] : l[0];
    if (axis != 1 || x.rank() < 3 || weights.rank() != 2) continue;
    const int64_t slabs = x.dim(1), results = weights.dim(static_cast<int>(1 - other));
    if (slabs < 2 || slabs > kSlabsMax || results < 1 || results > kSlabsMax) continue;
    if (x.element_count() < kElementsMin || x.element_count() / x.dim(0) / slabs < kSlabElementsMin) continue;
    return Mix{mixed, other, slabs, results};
  }
  return std::nullopt;
}

}  // namespace

bool mixes_slabs(const Function& function, const Op& op) { return mix_of(function, op).has_value(); }

bool mixes_left(const Function& function, const Op& op) {
  const auto mix = mix_of(function, op);
  return mix && mix->mixed == 0;
}

ValueId mixed_slabs(Builder& builder, const Function& function, const Op& op,
                    std::span<const ValueId> operands) {
  const Mix mix = *mix_of(function, op);
  const ValueId x = operands[mix.mixed], weights = operands[1 - mix.mixed];
  const auto part = [&](ValueId from, int64_t axis, int64_t at) {
    return Expr(builder, part_of(builder, from, axis, at, at + 1)).as(ElementType::kF32);
  };
  std::vector<Expr> slabs;
  for (int64_t i = 0; i < mix.slabs; ++i) slabs.push_back(part(x, 1, i));
  std::vector<ValueId> results;
  for (int64_t o = 0; o < mix.results; ++o) {
    std::optional<Expr> sum;
    for (int64_t i = 0; i < mix.slabs; ++i) {
      const ValueId one = part(part(weights, mix.weights_axis, i).id(), 1 - mix.weights_axis, o).id();
      const Expr& slab = slabs[static_cast<size_t>(i)];
      const Expr weight(builder,
                        builder.broadcast_in_dim(builder.reshape(one, {}), slab.type().dims_vector(), {}));
      const Expr term = slab * weight;
      sum = sum ? *sum + term : term;
    }
    results.push_back(sum->id());
  }
  const ValueId joined = builder.concatenate(std::move(results), 1);
  return builder.convert(joined, function.type(op.results[0]).element());
}

}  // namespace opentrn::compiler
