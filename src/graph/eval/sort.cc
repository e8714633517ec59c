// sort and chlo.top_k.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/interrupt.h"
#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

// A comparator of one comparison of its first two arguments, as frameworks write a plain sort.
const Op* plain_comparison(const Call& call) {
  const Block& block = call.region_block(0);
  if (block.ops.size() != 2 || block.arguments.size() < 2 || call.options().observer) return nullptr;
  const Op& only = call.function().op(block.ops[0]);
  const Op& last = call.function().op(block.ops[1]);
  const bool plain = only.kind == OpKind::compare_ && last.operands == only.results &&
                     only.operands == std::vector<ValueId>{block.arguments[0], block.arguments[1]} &&
                     !call.tensor(0).type().quantization();
  return plain ? &only : nullptr;
}

}  // namespace

// Always stable. A comparator that is no strict weak order (NaN under LT) gives some permutation.
Items sort(const Call& call) {
  const Tensor& first = call.tensor(0);
  int64_t axis = call.op().integer_or(Attr::dimension, -1);
  if (axis < 0) axis += first.rank();
  if (axis < 0 || axis >= first.rank())
    call.fail(fmt::format("dimension {} of {}", axis, first.type().to_string()));
  const size_t count = call.operand_count();
  for (size_t k = 1; k < count; ++k)
    if (!std::equal(first.dims().begin(), first.dims().end(), call.tensor(k).dims().begin(),
                    call.tensor(k).dims().end()))
      call.fail(fmt::format("{} beside {}", call.tensor(k).type().to_string(), first.type().to_string()));
  const Op* comparison = plain_comparison(call);
  const auto before = [&](int64_t a, int64_t b) -> bool {
    if (comparison)
      return visit_values(first, [&]<typename T>(const std::vector<T>& values) {
        return compare<T>(comparison->enumeration(Attr::comparison_direction, ComparisonDirection::kLt),
                          comparison->enumeration(Attr::compare_type, ComparisonType::kNone),
                          values[static_cast<size_t>(a)], values[static_cast<size_t>(b)]);
      });
    Items arguments;
    for (size_t k = 0; k < count; ++k) {
      arguments.push_back(element_at(call.tensor(k), a, call.region_argument_type(0, 2 * k)));
      arguments.push_back(element_at(call.tensor(k), b, call.region_argument_type(0, 2 * k + 1)));
    }
    const Items answer = call.run_region(0, std::move(arguments));
    return std::get<Tensor>(answer.at(0).value).values<Bool>().at(0) != 0;
  };
  const Dims strides = row_major_strides(first.dims());
  const int64_t length = first.dims()[static_cast<size_t>(axis)];
  const int64_t stride = strides[static_cast<size_t>(axis)];
  Dims lines = copy_dims(first.dims());
  if (length > 0) lines[static_cast<size_t>(axis)] = 1;
  Dims from(static_cast<size_t>(first.size()));
  Dims line(static_cast<size_t>(length));
  for_each_index(lines, [&](const Dims& index, int64_t) {
    interrupt::poll();
    const int64_t start = linear_index(index, strides);
    for (int64_t i = 0; i < length; ++i) line[static_cast<size_t>(i)] = start + i * stride;
    std::stable_sort(line.begin(), line.end(), before);
    for (int64_t i = 0; i < length; ++i)
      from[static_cast<size_t>(start + i * stride)] = line[static_cast<size_t>(i)];
  });
  Items results;
  for (size_t k = 0; k < count; ++k)
    results.push_back(take(call.tensor(k), call.result(first.dims(), k), from));
  return results;
}

// The k largest along the last dimension, the lower index first among equals; NaN counts as largest.
Items top_k(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const int64_t k = call.op().integer(Attr::k);
  if (operand.rank() < 1 || k < 0 || k > operand.dims().back())
    call.fail(fmt::format("the {} largest of {}", k, operand.type().to_string()));
  const int64_t length = operand.dims().back();
  Dims dims = copy_dims(operand.dims());
  dims.back() = k;
  return visit_values(operand, [&]<typename T>(const std::vector<T>& values) -> Items {
    const auto larger = [&](int64_t a, int64_t b) {
      const T& x = values[static_cast<size_t>(a)];
      const T& y = values[static_cast<size_t>(b)];
      // A total order, as the op's decomposition sorts: NaN first, +0 before -0.
      const auto type = std::is_same_v<T, Real> ? ComparisonType::kTotalOrder : ComparisonType::kNone;
      return compare<T>(ComparisonDirection::kGt, type, x, y);
    };
    Dims from;
    std::vector<int64_t> indices;
    Dims line(static_cast<size_t>(length));
    for (int64_t start = 0; start < operand.size(); start += length) {
      interrupt::poll();
      std::iota(line.begin(), line.end(), start);
      std::stable_sort(line.begin(), line.end(), larger);
      for (int64_t i = 0; i < k; ++i) {
        from.push_back(line[static_cast<size_t>(i)]);
        indices.push_back(line[static_cast<size_t>(i)] - start);
      }
    }
    return {take(operand, call.result(dims), from), Tensor(call.result(dims, 1), std::move(indices))};
  });
}

}  // namespace opentrn::graph::eval
