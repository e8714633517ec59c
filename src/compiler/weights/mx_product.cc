#include "compiler/weights/mx_product.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/packed_product.h"
#include "compiler/rewrite/rewrite.h"
#include "numerics/mx.h"

namespace opentrn::compiler {

namespace {

// x [M, K] as MXFP8 and back, in fp32.
Expr through_mxfp8(const Expr& x) {
  Builder& builder = x.builder();
  const int64_t rows = x.type().dim(0), blocks = x.type().dim(1) / kMxBlock;
  const Expr values(builder, builder.reshape(x.as(ElementType::kF32).id(), {rows, blocks, kMxBlock}));
  const Expr amax(builder, builder.reduce(OpKind::maximum_, abs(values).id(), {2}));
  constexpr double kReserve = 7, kLargest = 448, kNoNumber = 255;
  const Expr exponent = amax.seen_as(ElementType::kI32) >> 23;  // biased; amax is not negative
  const Expr code = max(exponent - kReserve, exponent.number(0));
  const Expr down = ((254.0 - code) << 23).seen_as(ElementType::kF32);
  const Expr power = (code << 23).seen_as(ElementType::kF32);
  const Expr up = select(exponent == kNoNumber, power.number(std::nan("")),
                         select(code == 0.0, power.number(0x1p-127), power));
  const auto spread = [&](const Expr& scale) {
    return Expr(builder, builder.broadcast_in_dim(scale.id(), {rows, blocks, kMxBlock}, {0, 1}));
  };
  const Expr scaled = values * spread(down);
  const Expr cut = min(max(scaled, scaled.number(-kLargest)), scaled.number(kLargest));
  const Expr held = cut.as(ElementType::kF8E4M3FN).as(ElementType::kF32) * spread(up);
  return {builder, builder.reshape(held.id(), {rows, blocks * kMxBlock})};
}

// The weights in fp32: exact.
Expr dequantised(const Expr& elements, const Expr& scales) {
  Builder& builder = elements.builder();
  const auto dims = elements.type().dims_vector();
  const Expr powers = scales.seen_as(ElementType::kF8E8M0FNU).as(ElementType::kF32);
  const Expr spread(builder, builder.broadcast_in_dim(powers.id(), dims, {0, 2}));
  return {builder,
          builder.reshape((elements.as(ElementType::kF32) * spread).id(), {dims[0] * dims[1], dims[2]})};
}

// Packs [K/4, N] one by one: [K/32, 32, N].
Expr one_by_one(const Expr& packed) {
  Builder& builder = packed.builder();
  const int64_t packs = packed.type().dim(0), columns = packed.type().dim(1);
  constexpr int64_t kPack = numerics::kMxPack;
  const ElementType element =
      packed.type().element() == ElementType::kUI16 ? ElementType::kF4E2M1FN : ElementType::kF8E4M3FN;
  const ValueId four = builder.add(OpKind::bitcast_convert_, {packed.id()}, {},
                                   {Type::tensor(element, {packs, columns, kPack})});
  return {builder,
          builder.reshape(builder.transpose(four, {0, 2, 1}), {packs * kPack / kMxBlock, kMxBlock, columns})};
}

void expect_mx_operands(const Function& function, const Op& op) {
  const auto fits = [&] {
    if (op.operands.size() != 3 || op.results.size() != 1) return false;
    const auto type = [&](size_t i) -> const Type& { return function.type(op.operands[i]); };
    const Type &x = type(0), &packed = type(1);
    const bool is_packed = packed.element() == ElementType::kUI32 || packed.element() == ElementType::kUI16;
    const bool is_x = x.element() == ElementType::kBF16 || x.element() == ElementType::kF16;
    if (!is_packed || !is_x || x.rank() != 2 || packed.rank() != 2) return false;
    const int64_t terms = x.dim(1), columns = packed.dim(1);
    return terms > 0 && terms % kMxContractedMultiple == 0 && packed.dim(0) == terms / numerics::kMxPack &&
           columns > 0 && type(2) == Type::tensor(ElementType::kUI8, {terms / kMxBlock, columns}) &&
           function.type(op.results[0]) == Type::tensor(ElementType::kF32, {x.dim(0), columns});
  };
  if (fits()) return;
  throw Fault(
      FaultKind::kInput, "compiler.mx_product",
      fmt::format("a call of @{} with other operands than x, packed weights and their scales",
                  kMxProductName),
      fmt::format(
          "x [M, K] bf16 or f16, K a multiple of {}; [K/4, N] ui32 (mxfp8) or ui16 (mxfp4); [K/{}, N] "
          "ui8; a result [M, N] f32",
          kMxContractedMultiple, kMxBlock));
}

}  // namespace

ValueId mx_product_op(Builder& builder, std::span<const ValueId> operands, std::vector<int64_t> contracted,
                      const Type& stated) {
  Function& function = builder.function();
  const graph::OpId made =
      function.append(builder.block(), OpKind::composite_, {operands.begin(), operands.end()},
                      {stated.with_element(ElementType::kF32)}, builder.location());
  Op& composite = function.op(made);
  composite.set(Attr::name, std::string(kMxProductName));
  composite.set(Attr::lhs_contracting_dimensions, std::move(contracted));
  return composite.results[0];
}

Expr mx_product_written_out(const Expr& x, const Expr& elements, const Expr& scales,
                            std::span<const int64_t> contracted, std::vector<int64_t> dims) {
  Builder& builder = x.builder();
  std::vector<int64_t> order;
  int64_t rows = 1, terms = 1;
  for (int64_t d = 0; d < x.type().rank(); ++d)
    if (std::ranges::find(contracted, d) == contracted.end()) {
      order.push_back(d);
      rows *= x.type().dim(static_cast<int>(d));
    }
  for (const int64_t d : contracted) terms *= x.type().dim(static_cast<int>(d));
  order.insert(order.end(), contracted.begin(), contracted.end());
  const Expr matrix(builder, builder.reshape(builder.transpose(x.id(), order), {rows, terms}));
  const Expr w = dequantised(elements, scales);
  const ValueId sums = builder.add(OpKind::dot_general_, {through_mxfp8(matrix).id(), w.id()},
                                   {{Attr::lhs_batching_dimensions, std::vector<int64_t>{}},
                                    {Attr::rhs_batching_dimensions, std::vector<int64_t>{}},
                                    {Attr::lhs_contracting_dimensions, std::vector<int64_t>{1}},
                                    {Attr::rhs_contracting_dimensions, std::vector<int64_t>{0}}},
                                   {Type::tensor(ElementType::kF32, {rows, w.type().dim(1)})});
  return {builder, builder.reshape(sums, std::move(dims))};
}

graph::ValueId mx_product_call(Builder& builder, ValueId x, ValueId packed, ValueId scales) {
  const Type result = Type::tensor(ElementType::kF32, {builder.type(x).dim(0), builder.type(packed).dim(1)});
  return builder.add(OpKind::custom_call_, {x, packed, scales},
                     {{Attr::call_target_name, Attribute(std::string(kMxProductName))}}, {result});
}

int64_t expand_mx_products(Function& function, bool as_kernels) {
  int64_t count = 0;
  const auto expanded = [&](Builder& builder, const Op& op,
                            std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
    if (op.kind != OpKind::custom_call_ || op.string(Attr::call_target_name) != kMxProductName)
      return std::nullopt;
    ++count;
    expect_mx_operands(function, op);
    if (as_kernels) return {{mx_product_op(builder, operands, {1}, function.type(op.results[0]))}};
    const auto expr = [&](size_t i) { return Expr(builder, operands[i]); };
    const std::vector<int64_t> contracted{1};
    return {{mx_product_written_out(expr(0), one_by_one(expr(1)), expr(2), contracted,
                                    function.type(op.results[0]).dims_vector())
                 .id()}};
  };
  function = rewritten(function, expanded);
  return count;
}

}  // namespace opentrn::compiler
