// local_gather, nc_n_gather.
#include <cstring>

#include <fmt/format.h>

#include "sim/functional/instructions/body.h"
#include "sim/functional/rows.h"

namespace opentrn::sim::bodies {

namespace {

void store_bits_row(const View& dst, int64_t p, const std::byte* from) {
  const int bytes = dst.element_bytes;
  for_runs_of_partition(dst, p, [&](std::byte* at, int64_t n, int64_t stride) {
    numerics::copy_bits(bytes, from, 1, at, stride / bytes, static_cast<size_t>(n));
    from += n * bytes;
  });
}

}  // namespace

// Each GpSimd core of 16 partitions flattens its slice of `index` partition first; every index names an
// element offset of `src_buffer`, from which `num_elem_per_idx` elements are taken in each of the core's
// partitions. [doc: nki.isa.local_gather]
void local_gather(Context& cx) {
  using namespace isa::slot::local_gather;
  View src = cx.source(kSrcBuffer);
  const View index = cx.source(kIndex);
  const View dst = cx.destination(kDst);
  const int64_t per_index = cx.integer(kANumElemPerIdx);
  const int64_t per_core = index.elements * kGpSimdCorePartitions;
  const int64_t valid = cx.integer(kANumValidIndices) > 0 ? cx.integer(kANumValidIndices) : per_core;
  if (src.dtype != dst.dtype)
    cx.broken("dtype", fmt::format("dst is {}, src_buffer {}", name(dst.dtype), name(src.dtype)));
  if (!is_integer(index.dtype))
    cx.broken("dtype", fmt::format("index is {}", name(index.dtype)), "use uint16");
  if (src.partitions % kGpSimdCorePartitions != 0)
    cx.broken("shape", fmt::format("{} partitions; a GpSimd core has 16", src.partitions));
  cx.expect_partitions(index, kIndex, src.partitions);
  cx.expect_partitions(dst, kDst, src.partitions);
  if (per_index < 1 || per_index > 32 || valid > per_core)
    cx.broken("num_valid_indices",
              fmt::format("{} of {} indices, {} elements each", valid, per_core, per_index),
              "1 to 32 elements per index, and no more indices than a core's slice holds");
  if (dst.elements != valid * per_index) cx.expect_elements(dst, kDst, valid * per_index);

  const View data = cx.snapshot(src);
  const int bytes = dst.element_bytes;
  const int64_t cores = src.partitions / kGpSimdCorePartitions;
  cx.parallel(cores, dst.total(), [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    int64_t* rows = scope.array<int64_t>(per_core);
    std::byte* out = scope.bytes(dst.elements * bytes);
    for (int64_t core = begin; core < end; ++core) {
      const int64_t first = core * kGpSimdCorePartitions;
      for (int64_t i = 0; i < kGpSimdCorePartitions; ++i)
        load_row_i64(index, first + i, rows + i * index.elements);
      for (int64_t p = first; p < first + kGpSimdCorePartitions; ++p) {
        for (int64_t i = 0; i < valid; ++i) {
          const int64_t at = rows[i % kGpSimdCorePartitions * index.elements + i / kGpSimdCorePartitions];
          if (at < 0 || at + per_index > src.elements)
            cx.broken("index_out_of_bounds",
                      fmt::format("index {} with {} elements in a row of {}", at, per_index, src.elements));
          std::memcpy(out + i * per_index * bytes, data.row(p) + at * bytes,
                      static_cast<size_t>(per_index * bytes));
        }
        store_bits_row(dst, p, out);
      }
    }
  });
}

// dst[p, i] = data[p, indices[p, i]]
void nc_n_gather(Context& cx) {
  using namespace isa::slot::nc_n_gather;
  const View src = cx.source(kData);
  View indices = cx.source(kIndices);
  const View dst = cx.destination(kDst);
  if (src.dtype != dst.dtype)
    cx.broken("dtype", fmt::format("dst is {}, data is {}", name(dst.dtype), name(src.dtype)));
  if (!is_integer(indices.dtype))
    cx.broken("dtype", fmt::format("indices is {}", name(indices.dtype)), "use uint32");
  cx.expect_partitions(src, kData, dst.partitions);
  cx.expect_same_shape(dst, indices, kDst, kIndices);
  cx.separate(dst, indices);
  const View data = cx.snapshot(src);
  const int bytes = dst.element_bytes;
  const int64_t n = dst.elements;
  cx.parallel(dst.partitions, dst.total(), [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    int64_t* row = scope.array<int64_t>(n);
    std::byte* out = scope.bytes(n * bytes);
    for (int64_t p = begin; p < end; ++p) {
      load_row_i64(indices, p, row);
      for (int64_t i = 0; i < n; ++i) {
        if (row[i] < 0 || row[i] >= src.elements)
          cx.broken("index_out_of_bounds",
                    fmt::format("index {} at [{}, {}] is outside [0, {})", row[i], p, i, src.elements));
        std::memcpy(out + i * bytes, data.row(p) + row[i] * bytes, static_cast<size_t>(bytes));
      }
      store_bits_row(dst, p, out);
    }
  });
}

}  // namespace opentrn::sim::bodies
