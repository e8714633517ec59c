// Long iotas. A short one becomes a constant (fold_constants.cc); one that would make the program itself
// large is computed from short ones.
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kRow = int64_t{1} << 16;
// Beyond these the numbers leave 32 bits, or no HBM holds the value (lowering/hbm_capacity.h says so).
constexpr int64_t kLongestDimension = int64_t{1} << 31, kMostElements = int64_t{1} << 34;

bool is_long_count(const Function& function, const Op& op) {
  const Type& type = function.type(op.results[0]);
  if (!type.is_static() || graph::is_complex(type.element()) || type.quantization()) return false;
  const int64_t count = type.element_count();
  return count > kWrittenIotaElements && count <= kMostElements &&
         type.dim(static_cast<int>(op.integer(Attr::iota_dimension))) <= kLongestDimension;
}

Expr counted(Builder& builder, int64_t count) {
  return {builder, builder.add(OpKind::iota_, {}, {{Attr::iota_dimension, graph::Attribute(int64_t{0})}},
                               {Type::tensor(ElementType::kI32, {count})})};
}

// 0 .. count - 1: rows of kRow, cut to length.
Expr line(Builder& builder, int64_t count) {
  if (count <= kRow) return counted(builder, count);
  const int64_t rows = (count + kRow - 1) / kRow;
  const auto spread = [&](const Expr& x, int64_t dimension) {
    return Expr(builder, builder.broadcast_in_dim(x.id(), {rows, kRow}, {dimension}));
  };
  const Expr grid =
      spread(counted(builder, rows) * static_cast<double>(kRow), 0) + spread(counted(builder, kRow), 1);
  const ValueId flat = builder.reshape(grid.id(), {rows * kRow});
  return {builder, rows * kRow == count ? flat : builder.slice(flat, {0}, {count})};
}

std::vector<ValueId> from_short(Builder& builder, const Function& function, const Op& op,
                                std::span<const ValueId>) {
  const Type& type = function.type(op.results[0]);
  const int64_t dimension = op.integer(Attr::iota_dimension);
  const Expr along = line(builder, type.dim(static_cast<int>(dimension))).as(type.element());
  if (type.dims().size() == 1) return {along.id()};
  return {builder.broadcast_in_dim(along.id(), type.dims_vector(), {dimension})};
}

constexpr Expansion kCountingExpansions[] = {{OpKind::iota_, is_long_count, from_short}};

}  // namespace

std::span<const Expansion> counting_expansions() { return kCountingExpansions; }

}  // namespace opentrn::compiler
