#include "collectives/arithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "numerics/alu.h"
#include "numerics/convert.h"

namespace opentrn::collectives {

namespace {

constexpr size_t kBlock = 1024;  // elements that are reduced at a time: the sums stay in the cache

AluOp alu_op(Reduction reduction, DType dtype) {
  const bool is_bool = dtype == DType::kBool;
  switch (reduction) {
    case Reduction::kAdd: return is_bool ? AluOp::kBitwiseOr : AluOp::kAdd;
    case Reduction::kMultiply: return is_bool ? AluOp::kBitwiseAnd : AluOp::kMultiply;
    case Reduction::kMinimum: return AluOp::kMinimum;
    case Reduction::kMaximum: return AluOp::kMaximum;
    case Reduction::kAnd: return AluOp::kBitwiseAnd;
    case Reduction::kOr: return AluOp::kBitwiseOr;
    default: return AluOp::kBitwiseXor;
  }
}

// Calls block(sources at the block, to, elements) for the elements in order.
template <typename Block>
void for_blocks(std::span<const std::byte* const> sources, std::byte* to, size_t bytes, size_t element,
                Block block) {
  std::vector<const std::byte*> here(sources.begin(), sources.end());
  for (size_t done = 0, count = bytes / element; done < count;) {
    const size_t n = std::min(kBlock, count - done);
    block(here, to + done * element, n);
    for (const std::byte*& source : here) source += n * element;
    done += n;
  }
}

void reduce_fp32(AluOp op, DType dtype, std::span<const std::byte* const> sources, std::byte* to,
                 size_t bytes) {
  std::array<float, kBlock> sum, value;
  for_blocks(sources, to, bytes, static_cast<size_t>(size_bytes(dtype)),
             [&](const auto& from, std::byte* out, size_t n) {
               numerics::load_f32(dtype, from[0], sum.data(), n);
               for (size_t i = 1; i < from.size(); ++i) {
                 numerics::load_f32(dtype, from[i], value.data(), n);
                 numerics::alu_tensor_tensor(op, sum.data(), value.data(), sum.data(), n);
               }
               numerics::store_f32(dtype, sum.data(), out, n);
             });
}

void reduce_integers(AluOp op, DType dtype, std::span<const std::byte* const> sources, std::byte* to,
                     size_t bytes) {
  std::array<int64_t, kBlock> sum, value;
  for_blocks(sources, to, bytes, static_cast<size_t>(size_bytes(dtype)),
             [&](const auto& from, std::byte* out, size_t n) {
               numerics::load_i64(dtype, from[0], 1, sum.data(), n);
               for (size_t i = 1; i < from.size(); ++i) {
                 numerics::load_i64(dtype, from[i], 1, value.data(), n);
                 numerics::alu_tensor_tensor_int(op, dtype, sum.data(), value.data(), sum.data(), n);
               }
               numerics::store_i64(dtype, sum.data(), out, 1, n);
             });
}

double reduce_two(Reduction reduction, double a, double b) {
  switch (reduction) {
    case Reduction::kAdd: return a + b;
    case Reduction::kMultiply: return a * b;
    case Reduction::kMinimum: return std::isnan(a) || a <= b ? a : b;
    default: return std::isnan(a) || a >= b ? a : b;
  }
}

void reduce_float64(Reduction reduction, std::span<const std::byte* const> sources, std::byte* to,
                    size_t bytes) {
  for_blocks(sources, to, bytes, sizeof(double), [&](const auto& from, std::byte* out, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      double sum = 0, value = 0;
      std::memcpy(&sum, from[0] + i * sizeof sum, sizeof sum);
      for (size_t s = 1; s < from.size(); ++s) {
        std::memcpy(&value, from[s] + i * sizeof value, sizeof value);
        sum = reduce_two(reduction, sum, value);
      }
      std::memcpy(out + i * sizeof sum, &sum, sizeof sum);
    }
  });
}

}  // namespace

void reduce_elements(Reduction reduction, DType dtype, std::span<const std::byte* const> sources,
                     std::byte* to, size_t bytes) {
  if (bytes == 0) return;
  if (dtype == DType::kFloat64) return reduce_float64(reduction, sources, to, bytes);
  const AluOp op = alu_op(reduction, dtype);
  if (is_float(dtype))
    reduce_fp32(op, dtype, sources, to, bytes);
  else
    reduce_integers(op, dtype, sources, to, bytes);
}

}  // namespace opentrn::collectives
