// Products over long contractions, as sums of products over parts of them: the kernel keeps 128 rows of the
// left operand in SBUF with the whole contraction (lowering/dot_general.cc).
#include <algorithm>
#include <optional>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

namespace {

// Bytes of one row along the contraction, of which the kernel holds three blocks in a partition: as much as
// fits beside the right operand, and what parts have.
constexpr int64_t kRowBytesMax = 40 * 1024;
constexpr int64_t kPartBytes = 32 * 1024;
// A batch of at least so many products of at most so many multiplications each.
constexpr int64_t kBatchesMin = 128;
constexpr int64_t kMultiplicationsMax = 512;
// A batch of at least so many products of a matrix and a vector, of at most so many multiplications each.
constexpr int64_t kVectorsMin = 4;
constexpr int64_t kVectorMultiplicationsMax = 4096;

int64_t element_bytes(const Function& function, const Op& op) {
  int64_t bytes = 1;
  for (const ValueId operand : op.operands)
    if (const auto dtype = device_dtype(function.type(operand).element()))
      bytes = std::max<int64_t>(bytes, size_bytes(*dtype));
  return bytes;
}

int64_t contracted(const Function& function, const Op& op) {
  int64_t count = 1;
  for (const int64_t d : op.integers(Attr::lhs_contracting_dimensions))
    count *= function.type(op.operands[0]).dim(static_cast<int>(d));
  return count;
}

bool is_long_product(const Function& function, const Op& op) {
  const auto is_plain = [&](ValueId id) {
    const graph::Type& type = function.type(id);
    return type.is_tensor() && type.is_static() && !type.quantization() && graph::is_float(type.element());
  };
  return op.has(Attr::lhs_contracting_dimensions) && is_plain(op.operands[0]) && is_plain(op.operands[1]) &&
         function.type(op.operands[0]).element() == function.type(op.operands[1]).element() &&
         contracted(function, op) * element_bytes(function, op) > kRowBytesMax;
}

std::vector<ValueId> sum_of_parts(Builder& builder, const Function& function, const Op& op,
                                  std::span<const ValueId> operands) {
  const graph::Type& left = function.type(op.operands[0]);
  const auto l = op.integers(Attr::lhs_contracting_dimensions),
             r = op.integers(Attr::rhs_contracting_dimensions);
  size_t longest = 0;
  for (size_t i = 1; i < l.size(); ++i)
    if (left.dim(static_cast<int>(l[i])) > left.dim(static_cast<int>(l[longest]))) longest = i;
  const int64_t count = left.dim(static_cast<int>(l[longest])),
                row_bytes = contracted(function, op) / count * element_bytes(function, op),
                parts = (count * row_bytes + kPartBytes - 1) / kPartBytes;
  const int64_t even = std::max<int64_t>(1, count / parts), step = even < 128 ? even : even / 128 * 128;
  const graph::Type type = function.type(op.results[0]);
  std::optional<Expr> sum;
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t end = std::min(count, begin + step);
    const ValueId part = builder.add(OpKind::dot_general_,
                                     {part_of(builder, operands[0], l[longest], begin, end),
                                      part_of(builder, operands[1], r[longest], begin, end)},
                                     op.attributes, {type.with_element(ElementType::kF32)});
    sum = sum ? *sum + Expr(builder, part) : Expr(builder, part);
  }
  return {sum->as(type.element()).id()};
}

// -- many small matrices

std::span<const int64_t> dimensions_of(const Op& op, Attr attr) {
  return op.has(attr) ? op.integers(attr) : std::span<const int64_t>{};
}

bool is_many_small(const Function& function, const Op& op) {
  for (const ValueId operand : op.operands) {
    const graph::Type& type = function.type(operand);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || !graph::is_float(type.element()) ||
        !device_dtype(type.element()))
      return false;
  }
  const graph::Type& left = function.type(op.operands[0]);
  const int64_t batches = count_of(left, dimensions_of(op, Attr::lhs_batching_dimensions));
  if (batches < kBatchesMin || left.element_count() == 0) return false;
  return function.type(op.results[0]).element_count() / batches *
             count_of(left, dimensions_of(op, Attr::lhs_contracting_dimensions)) <=
         kMultiplicationsMax;
}

bool is_in_order(std::span<const int64_t> batch, std::span<const int64_t> contracting, int64_t rank) {
  for (size_t i = 0; i < batch.size(); ++i)
    if (batch[i] != static_cast<int64_t>(i)) return false;
  for (size_t i = 0; i < contracting.size(); ++i)
    if (contracting[i] != rank - static_cast<int64_t>(contracting.size() - i)) return false;
  return true;
}

// A matrix and a vector, again and again: neither is used twice, and the Tensor engine would turn both for
// one column of work. The matrix lies as the Vector engine reads it, rows along the contraction.
bool is_matrices_by_vectors(const Function& function, const Op& op) {
  for (const ValueId operand : op.operands) {
    const graph::Type& type = function.type(operand);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || type.element() != ElementType::kF32)
      return false;
  }
  const graph::Type &left = function.type(op.operands[0]), &right = function.type(op.operands[1]);
  const int64_t batches = count_of(left, dimensions_of(op, Attr::lhs_batching_dimensions)),
                depth = count_of(left, dimensions_of(op, Attr::lhs_contracting_dimensions));
  if (batches < kVectorsMin || depth < 2 || left.element_count() == 0 || right.element_count() == 0)
    return false;
  const int64_t rows = left.element_count() / batches / depth,
                columns = right.element_count() / batches / depth;
  if (std::min(rows, columns) != 1 || rows * columns < 2 ||
      rows * columns * depth > kVectorMultiplicationsMax)
    return false;
  const bool left_is_matrix = columns == 1;
  return left_is_matrix ? is_in_order(dimensions_of(op, Attr::lhs_batching_dimensions),
                                      dimensions_of(op, Attr::lhs_contracting_dimensions), left.rank())
                        : is_in_order(dimensions_of(op, Attr::rhs_batching_dimensions),
                                      dimensions_of(op, Attr::rhs_contracting_dimensions), right.rank());
}

// [batches, free, contracted] in fp32.
ValueId arranged(Builder& builder, ValueId value, std::span<const int64_t> batch,
                 std::span<const int64_t> contracting) {
  const graph::Type type = builder.type(value);
  std::vector<int64_t> order(batch.begin(), batch.end());
  const auto in = [](std::span<const int64_t> list, int64_t d) {
    return std::find(list.begin(), list.end(), d) != list.end();
  };
  for (int64_t d = 0; d < type.rank(); ++d)
    if (!in(batch, d) && !in(contracting, d)) order.push_back(d);
  order.insert(order.end(), contracting.begin(), contracting.end());
  const int64_t batches = count_of(type, batch), depth = count_of(type, contracting);
  const ValueId transposed = builder.reshape(builder.transpose(value, order),
                                             {batches, type.element_count() / batches / depth, depth});
  return builder.convert(transposed, ElementType::kF32);
}

std::vector<ValueId> summed_products(Builder& builder, const Function& function, const Op& op,
                                     std::span<const ValueId> operands) {
  const ValueId left = arranged(builder, operands[0], dimensions_of(op, Attr::lhs_batching_dimensions),
                                dimensions_of(op, Attr::lhs_contracting_dimensions)),
                right = arranged(builder, operands[1], dimensions_of(op, Attr::rhs_batching_dimensions),
                                 dimensions_of(op, Attr::rhs_contracting_dimensions));
  const auto l = builder.type(left).dims_vector(), r = builder.type(right).dims_vector();
  const std::vector<int64_t> all{l[0], l[1], r[1], l[2]};
  const Expr product = Expr(builder, builder.broadcast_in_dim(left, all, {0, 1, 3})) *
                       Expr(builder, builder.broadcast_in_dim(right, all, {0, 2, 3}));
  const graph::Type& type = function.type(op.results[0]);
  const ValueId sum = builder.reshape(builder.reduce(OpKind::add_, product.id(), {3}), type.dims_vector());
  return {builder.convert(sum, type.element())};
}

// Floats of eight bits that the kernel of the op does not take: E4M3FN and E3M4 in products, where E4M3 and
// E5M2 are multiplied as they are, and all of them in convolutions.
bool is_product_of_bytes(const Function& function, const Op& op) {
  for (const ValueId operand : op.operands) {
    const graph::Type& type = function.type(operand);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || !device_dtype(type.element()))
      return false;
    const ElementType element = type.element();
    const bool odd = element == ElementType::kF8E4M3FN || element == ElementType::kF8E3M4;
    const bool taken = element == ElementType::kF8E4M3 || element == ElementType::kF8E5M2;
    if (!odd && !(taken && op.kind == OpKind::convolution_)) return false;
  }
  return graph::is_float(function.type(op.results[0]).element());
}

// bf16 holds every number of eight bits. The sum is rounded once.
std::vector<ValueId> product_in_bf16(Builder& builder, const Function& function, const Op& op,
                                     std::span<const ValueId> operands) {
  std::vector<ValueId> wider;
  for (const ValueId operand : operands) wider.push_back(builder.convert(operand, ElementType::kBF16));
  const graph::Type& type = function.type(op.results[0]);
  const Expr product(
      builder, builder.add(op.kind, std::move(wider), op.attributes, {type.with_element(ElementType::kF32)}));
  return {product.as(type.element()).id()};
}

// Whole numbers and booleans whose product is to be a float, and booleans whose product says whether any pair
// is true.
bool counts_in_floats(const Function& function, const Op& op) {
  const ElementType to = function.type(op.results[0]).element();
  for (const ValueId operand : op.operands) {
    const graph::Type& type = function.type(operand);
    if (!type.is_tensor() || !type.is_static() || type.quantization()) return false;
    const bool is_bool = type.element() == ElementType::kI1;
    const bool fits = is_bool || (to != ElementType::kI1 && graph::is_integer(type.element()));
    if (!fits) return false;
  }
  return to == ElementType::kI1 || graph::is_float(to);
}

std::vector<ValueId> product_in_f32(Builder& builder, const Function& function, const Op& op,
                                    std::span<const ValueId> operands) {
  std::vector<ValueId> floats;
  for (const ValueId operand : operands) floats.push_back(builder.convert(operand, ElementType::kF32));
  const graph::Type& type = function.type(op.results[0]);
  const Expr product(builder, builder.add(op.kind, std::move(floats), op.attributes,
                                          {type.with_element(ElementType::kF32)}));
  if (type.element() == ElementType::kI1) return {(product != 0.0).id()};
  return {product.as(type.element()).id()};
}

constexpr Expansion kProductExpansions[] = {{OpKind::dot_general_, counts_in_floats, product_in_f32},
                                            {OpKind::convolution_, counts_in_floats, product_in_f32},
                                            {OpKind::dot_general_, is_product_of_bytes, product_in_bf16},
                                            {OpKind::convolution_, is_product_of_bytes, product_in_bf16},
                                            {OpKind::dot_general_, is_many_small, summed_products},
                                            {OpKind::dot_general_, is_matrices_by_vectors, summed_products},
                                            {OpKind::dot_general_, is_long_product, sum_of_parts}};

}  // namespace

std::span<const Expansion> product_expansions() { return kProductExpansions; }

}  // namespace opentrn::compiler
