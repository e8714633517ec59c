// tensor_copy, memset, tensor_copy_predicated.
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/rows.h"
#include "sim/functional/transfer.h"

namespace opentrn::sim::bodies {

// Bit-accurate between equal types; else through fp32. The Scalar Engine of NeuronCore-v2 always goes
// through fp32. [doc: nki.isa.tensor_copy]
void tensor_copy(Context& cx) {
  using namespace isa::slot::tensor_copy;
  const Unwritten unwritten(cx, kSrc);
  View src = unwritten.source();
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, src, kDst, kSrc);
  unwritten.carry_to(cx, dst);
  cx.separate(dst, src);
  const bool through_f32 =
      !arch::core_features(cx.generation()).scalar_copies && cx.engine() == isa::Engine::kScalar;
  if (src.dtype == dst.dtype && !through_f32) {
    transfer(cx, src, dst);
    return;
  }
  for_blocks<1>(cx, {&src}, dst, false,
                row_by_row<1>([](int64_t, const float* const* in, float* out, int64_t n) {
                  if (out != in[0]) std::memcpy(out, in[0], static_cast<size_t>(n) * sizeof(float));
                }));
}

namespace {

uint64_t constant_bits(const Context& cx, DType dtype, double value) {
  if (is_packed_x4(dtype)) {
    if (value != 0) cx.broken("value", fmt::format("{} tiles can only be set to 0", name(dtype)));
    return 0;
  }
  if (dtype == DType::kFloat64) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  if (!is_integer(dtype)) return numerics::from_float(dtype, static_cast<float>(value));
  const int width = 8 * size_bytes(dtype);
  const double low = is_signed_integer(dtype) ? -std::ldexp(1.0, width - 1) : 0.0;
  const double high = std::ldexp(1.0, is_signed_integer(dtype) ? width - 1 : width);
  if (!(value >= low && value < high) || value != std::trunc(value))
    cx.broken("value", fmt::format("{} is not a value of {}", value, name(dtype)));
  return value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) : static_cast<uint64_t>(value);
}

}  // namespace

void memset(Context& cx) {
  using namespace isa::slot::memset;
  const double value = cx.immediate(kValue);
  const View dst = cx.destination(kDst);
  const uint64_t bits = constant_bits(cx, dst.dtype, value);
  const auto fill_all = [&](const View& to) {
    for_runs(to, [&](std::byte* at, int64_t n, int64_t stride) {
      numerics::fill_bits(to.element_bytes, bits, at, stride / to.element_bytes, static_cast<size_t>(n));
    });
  };
  if (cx.defers()) return defer_rows<0>(cx, {}, dst, [&](auto&, const View& to, int64_t) { fill_all(to); });
  if (dst.dense()) {
    const int64_t blocks = (dst.total() + kBlockElements - 1) / kBlockElements;
    cx.parallel(blocks, dst.total() / 4, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kBlockElements;
      const int64_t n = std::min(end * kBlockElements, dst.total()) - first;
      numerics::fill_bits(dst.element_bytes, bits, dst.base + first * dst.element_bytes, 1,
                          static_cast<size_t>(n));
    });
    return;
  }
  fill_all(dst);
}

namespace {

// Marks the chosen elements only: two copies with opposite predicates may fill a fresh tile.
void mark_chosen(const Context& cx, const View& dst, const View& predicate, bool reverse) {
  if (dst.buffer == nullptr) return;
  if (dst.buffer->initialised().all()) return cx.mark_written(dst);
  ScratchScope scope;
  int64_t* chosen = scope.array<int64_t>(dst.elements);
  View one = dst;
  one.partitions = one.elements = 1;
  one.free_rank = 0;
  for (int64_t p = 0; p < dst.partitions; ++p) {
    load_row_i64(predicate, p, chosen);
    int64_t i = 0;
    for_runs_of_partition(dst, p, [&](std::byte* at, int64_t count, int64_t stride) {
      for (int64_t k = 0; k < count; ++k, ++i) {
        if ((chosen[i] != 0) == reverse) continue;
        one.base = at + k * stride;
        cx.mark_written(one);
      }
    });
  }
}

}  // namespace

namespace {

// Elements of row p that are chosen become those of `values`.
template <typename Word>
void store_chosen(const View& dst, int64_t p, const uint8_t* chosen, const std::byte* values) {
  for_runs_of_partition(dst, p, [&](std::byte* at, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < n; ++i) {
      Word old, fresh;
      std::memcpy(&old, at + i * stride, sizeof old);
      std::memcpy(&fresh, values + i * static_cast<int64_t>(sizeof fresh), sizeof fresh);
      fresh = chosen[i] != 0 ? fresh : old;
      std::memcpy(at + i * stride, &fresh, sizeof fresh);
    }
    chosen += n;
    values += n * static_cast<int64_t>(sizeof(Word));
  });
}

// The same for rows without gaps, from the predicate as it lies: a loop that the compiler turns into vectors.
// `values` may be one element for all.
template <typename Word, typename Truth, bool kConstant>
void choose_run(std::byte* to, const std::byte* predicate, const std::byte* values, int64_t n, bool reverse) {
  Word only;
  std::memcpy(&only, values, sizeof only);
  for (int64_t i = 0; i < n; ++i) {
    Truth truth;
    Word old, fresh = only;
    std::memcpy(&truth, predicate + i * static_cast<int64_t>(sizeof truth), sizeof truth);
    std::memcpy(&old, to + i * static_cast<int64_t>(sizeof old), sizeof old);
    if constexpr (!kConstant)
      std::memcpy(&fresh, values + i * static_cast<int64_t>(sizeof fresh), sizeof fresh);
    fresh = (truth != 0) != reverse ? fresh : old;
    std::memcpy(to + i * static_cast<int64_t>(sizeof fresh), &fresh, sizeof fresh);
  }
}

// Whether choose_run() takes the rows, of words of 32 bits.
bool is_plain_choice(const View& dst, const View& predicate, const View& src, bool constant) {
  return dst.element_bytes == 4 && (predicate.element_bytes == 4 || predicate.element_bytes == 1) &&
         dst.free_contiguous() && predicate.free_contiguous() && (constant || src.free_contiguous());
}

}  // namespace

// dst keeps its value where the predicate does not hold.
void tensor_copy_predicated(Context& cx) {
  using namespace isa::slot::tensor_copy_predicated;
  const bool reverse = cx.boolean(kAReversePred);
  View predicate = cx.source(kPredicate);
  if (!is_integer(predicate.dtype) && predicate.dtype != DType::kBool)
    cx.broken("predicate", fmt::format("the predicate is {}", name(predicate.dtype)),
              "use uint8, uint16 or uint32");
  const bool constant = cx.operand(kSrc).kind == isa::OperandKind::kImmediate;
  View src = constant ? View{} : cx.source(kSrc);
  const bool scatters = cx.is_tensor_indirect(cx.operand(kDst));
  const View dst = scatters ? cx.in_out(kDst) : cx.unchecked(kDst);
  cx.expect_same_shape(dst, predicate, kDst, kPredicate);
  if (!constant) cx.expect_same_shape(dst, src, kDst, kSrc);
  if (!scatters) mark_chosen(cx, dst, predicate, reverse);
  cx.separate(dst, predicate);
  if (!constant) cx.separate(dst, src);
  if (!constant && src.dtype != dst.dtype)
    cx.broken("dtype", fmt::format("src is {}, dst is {}", name(src.dtype), name(dst.dtype)));
  const uint64_t bits = constant ? constant_bits(cx, dst.dtype, cx.immediate(kSrc)) : 0;

  const int bytes = dst.element_bytes;
  const int64_t n = dst.elements;
  if (is_plain_choice(dst, predicate, src, constant)) {
    cx.parallel(dst.partitions, dst.repeats() ? 0 : dst.total() / 4, [&](int64_t begin, int64_t end) {
      const bool words = predicate.element_bytes == 4;
      for (int64_t p = begin; p < end; ++p) {
        const auto* const values = constant ? reinterpret_cast<const std::byte*>(&bits) : src.row(p);
        const auto choose =
            constant ? (words ? choose_run<uint32_t, uint32_t, true> : choose_run<uint32_t, uint8_t, true>)
                     : (words ? choose_run<uint32_t, uint32_t, false> : choose_run<uint32_t, uint8_t, false>);
        choose(dst.row(p), predicate.row(p), values, n, reverse);
      }
    });
    return;
  }
  cx.parallel(dst.partitions, dst.repeats() ? 0 : dst.total(), [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    uint8_t* chosen = scope.array<uint8_t>(n);
    std::byte* values = scope.bytes(n * bytes);
    for (int64_t p = begin; p < end; ++p) {
      load_row_truth(predicate, p, chosen);
      if (reverse)
        for (int64_t i = 0; i < n; ++i) chosen[i] ^= 1;
      if (constant) {
        numerics::fill_bits(bytes, bits, values, 1, static_cast<size_t>(n));
      } else {
        std::byte* to = values;
        for_runs_of_partition(src, p, [&](std::byte* at, int64_t count, int64_t stride) {
          if (bytes == 4 && count < kShortRun)
            move_words<uint32_t>(at, stride, to, 4, count);
          else
            numerics::copy_bits(bytes, at, stride / bytes, to, 1, static_cast<size_t>(count));
          to += count * bytes;
        });
      }
      switch (bytes) {
        case 1: store_chosen<uint8_t>(dst, p, chosen, values); break;
        case 2: store_chosen<uint16_t>(dst, p, chosen, values); break;
        case 4: store_chosen<uint32_t>(dst, p, chosen, values); break;
        default: store_chosen<uint64_t>(dst, p, chosen, values); break;
      }
    }
  });
}

}  // namespace opentrn::sim::bodies
