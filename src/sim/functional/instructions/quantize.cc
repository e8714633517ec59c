// quantize_mx.
#include <fmt/format.h>

#include "numerics/mx.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/instructions/mx_scales.h"
#include "sim/functional/rows.h"

namespace opentrn::sim::bodies {

void quantize_mx(Context& cx) {
  using namespace isa::slot::quantize_mx;
  View src = cx.source(kSrc);
  const View dst = cx.destination(kDst);
  const View scale = cx.unchecked(kDstScale);
  if (!is_packed_x4(dst.dtype))
    cx.broken("dtype", fmt::format("dst is {}", name(dst.dtype)), "use an _x4 type");
  if (scale.dtype != DType::kUint8 && scale.dtype != DType::kFloat8E8M0Fnu)
    cx.broken("scale_dtype", fmt::format("dst_scale is {}", name(scale.dtype)),
              "use float8_e8m0fnu or uint8");
  if (src.partitions % kMxGroupRows != 0 || src.elements % numerics::kMxPack != 0)
    cx.broken("shape", fmt::format("src is {} x {}; groups are {} partitions x {}", src.partitions,
                                   src.elements, kMxGroupRows, numerics::kMxPack));
  const int64_t packed = src.elements / numerics::kMxPack;
  cx.expect_partitions(dst, kDst, src.partitions);
  cx.expect_elements(dst, kDst, packed);
  cx.expect_elements(scale, kDstScale, packed);
  if (mx_scale_row(src.partitions - 1) >= scale.partitions)
    cx.broken("shape", fmt::format("dst_scale has {} partitions; the scales reach row {}", scale.partitions,
                                   mx_scale_row(src.partitions - 1)));
  cx.separate(dst, src);
  cx.separate(scale, src);

  const auto rule = static_cast<numerics::MxScaleRule>(cx.integer(kAScaleRule));
  const int bytes = dst.element_bytes;
  const int64_t groups = src.partitions / kMxGroupRows;
  for (int64_t g = 0; g < groups; ++g) cx.mark_written(row_view(scale, mx_scale_row(g * kMxGroupRows)));
  cx.parallel(groups, src.total(), [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    std::array<const float*, kMxGroupRows> rows;
    std::array<void*, kMxGroupRows> out;
    std::array<float*, kMxGroupRows> scratch;
    for (int64_t i = 0; i < kMxGroupRows; ++i) {
      scratch[i] = scope.floats(src.elements);
      out[i] = scope.bytes(packed * bytes);
    }
    uint8_t* codes = scope.array<uint8_t>(packed);
    for (int64_t g = begin; g < end; ++g) {
      for (int64_t i = 0; i < kMxGroupRows; ++i) rows[i] = load_row(src, g * kMxGroupRows + i, scratch[i]);
      numerics::quantize_mx(dst.dtype, rows.data(), static_cast<size_t>(packed), out.data(), codes, rule);
      for (int64_t i = 0; i < kMxGroupRows; ++i) {
        const std::byte* from = static_cast<const std::byte*>(out[i]);
        for_runs_of_partition(dst, g * kMxGroupRows + i, [&](std::byte* at, int64_t n, int64_t stride) {
          numerics::copy_bits(bytes, from, 1, at, stride / bytes, static_cast<size_t>(n));
          from += n * bytes;
        });
      }
      const uint8_t* code = codes;
      for_runs_of_partition(scale, mx_scale_row(g * kMxGroupRows),
                            [&](std::byte* at, int64_t n, int64_t stride) {
                              numerics::copy_bits(1, code, 1, at, stride, static_cast<size_t>(n));
                              code += n;
                            });
    }
  });
}

}  // namespace opentrn::sim::bodies
