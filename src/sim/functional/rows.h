// Rows of a View as fp32 and back: the two ends of every arithmetic instruction.
//
// A row is what one partition holds. fp32 rows without gaps are used in place, everything else goes
// through scratch. Element-wise bodies work on blocks of rows small enough for the first-level cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "numerics/convert.h"
#include "sim/functional/context.h"

namespace opentrn::sim {

// Elements of a block: a few of them in fp32 fit the first-level cache.
inline constexpr int64_t kBlockElements = 2048;

inline bool is_plain_float(DType dtype, const std::byte* at, int64_t stride) {
  return dtype == DType::kFloat32 && stride == 4 && (reinterpret_cast<uintptr_t>(at) & 3) == 0;
}

inline void load_run(DType dtype, const std::byte* at, int64_t element_stride, float* out, int64_t n) {
  if (element_stride == 1)
    numerics::load_f32(dtype, at, out, static_cast<size_t>(n));
  else
    numerics::load_f32_strided(dtype, at, element_stride, out, static_cast<size_t>(n));
}

inline void store_run(DType dtype, const float* in, std::byte* at, int64_t element_stride, int64_t n,
                      const numerics::Rounding& rounding = {}) {
  if (element_stride == 1)
    numerics::store_f32(dtype, in, at, static_cast<size_t>(n), rounding);
  else
    numerics::store_f32_strided(dtype, in, at, element_stride, static_cast<size_t>(n), rounding);
}

// Row p as fp32: in place, or in `scratch`, which holds view.elements floats.
inline const float* load_row(const View& view, int64_t p, float* scratch) {
  if (view.free_rank <= 1) {
    const std::byte* at = view.row(p);
    const int64_t stride = view.free_stride();
    if (is_plain_float(view.dtype, at, stride)) return reinterpret_cast<const float*>(at);
    load_run(view.dtype, at, stride / view.element_bytes, scratch, view.elements);
    return scratch;
  }
  float* out = scratch;
  for_runs_of_partition(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
    load_run(view.dtype, at, stride / view.element_bytes, out, n);
    out += n;
  });
  return scratch;
}

inline void store_row(const View& view, int64_t p, const float* row) {
  int64_t position = p * view.elements;
  for_runs_of_partition(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
    if (reinterpret_cast<const float*>(at) != row)
      store_run(view.dtype, row, at, stride / view.element_bytes, n, view.rounding_from(position));
    row += n;
    position += n;
  });
}

// Where to compute row p: in place when it is plain fp32, else `scratch`. store_row() then does what is left.
inline float* target_row(const View& view, int64_t p, float* scratch) {
  if (view.free_rank > 1 || !is_plain_float(view.dtype, view.row(p), view.free_stride())) return scratch;
  return reinterpret_cast<float*>(view.row(p));
}

// Rows of fp32 values, `pitch` floats apart.
struct FloatRows {
  const float* data;
  size_t pitch;
};

// Whether the rows from p on can be used as FloatRows in place.
inline bool is_float_rows(const View& view, int64_t p) {
  return view.free_rank <= 1 && is_plain_float(view.dtype, view.row(p), view.free_stride()) &&
         view.partition_stride >= 0 && view.partition_stride % 4 == 0;
}

// Rows [p, p + rows): in place, or in `scratch`, which holds rows * view.elements floats.
inline FloatRows load_rows(const View& view, int64_t p, int64_t rows, float* scratch) {
  if (is_float_rows(view, p))
    return {reinterpret_cast<const float*>(view.row(p)), static_cast<size_t>(view.partition_stride / 4)};
  const int64_t n = view.elements;
  for (int64_t i = 0; i < rows; ++i) {
    float* const to = scratch + i * n;
    const float* row = load_row(view, p + i, to);
    if (row != to) std::copy_n(row, n, to);
  }
  return {scratch, static_cast<size_t>(n)};
}

// Integer rows.
inline void load_row_i64(const View& view, int64_t p, int64_t* out) {
  for_runs_of_partition(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
    numerics::load_i64(view.dtype, at, stride / view.element_bytes, out, static_cast<size_t>(n));
    out += n;
  });
}

inline void store_row_i64(const View& view, int64_t p, const int64_t* row) {
  for_runs_of_partition(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
    numerics::store_i64(view.dtype, row, at, stride / view.element_bytes, static_cast<size_t>(n));
    row += n;
  });
}

// The work of for_blocks in jobs: pieces of rows.
template <size_t N>
class Blocks {
 public:
  Blocks(const std::array<const View*, N>& sources, const View& destination, bool by_partition)
      : sources_(sources), destination_(destination) {
    bool dense = destination.dense();
    for (const View* view : sources) {
      sliceable_ &= view->free_rank <= 1;
      dense &= view->dense();
    }
    if (dense && !by_partition) {
      elements_ *= rows_;
      rows_ = 1;
    }
    block_ = sliceable_ ? std::min(elements_, kBlockElements) : elements_;
    per_row_ = (elements_ + block_ - 1) / block_;
  }
  int64_t jobs() const { return rows_ * per_row_; }

  // Jobs [begin, end).
  template <typename Body>
  void run(int64_t begin, int64_t end, Body&& body) const {
    ScratchScope scope;
    std::array<float*, N> scratch;
    for (float*& s : scratch) s = scope.floats(block_);
    float* const out_scratch = scope.floats(block_);
    std::array<const float*, N> in;
    for (int64_t job = begin; job < end; ++job) {
      const int64_t p = per_row_ == 1 ? job : job / per_row_;
      const int64_t first = (job - p * per_row_) * block_;
      const int64_t n = std::min(block_, elements_ - first);
      if (!sliceable_) {
        for (size_t i = 0; i < N; ++i) in[i] = load_row(*sources_[i], p, scratch[i]);
        body(p, first, in.data(), out_scratch, n);
        store_row(destination_, p, out_scratch);
        continue;
      }
      for (size_t i = 0; i < N; ++i) {
        const View& view = *sources_[i];
        const int64_t stride = view.free_stride();
        const std::byte* at = view.row(p) + first * stride;
        if (is_plain_float(view.dtype, at, stride)) {
          in[i] = reinterpret_cast<const float*>(at);
        } else {
          load_run(view.dtype, at, stride / view.element_bytes, scratch[i], n);
          in[i] = scratch[i];
        }
      }
      const int64_t stride = destination_.free_stride();
      std::byte* at = destination_.row(p) + first * stride;
      if (is_plain_float(destination_.dtype, at, stride)) {
        body(p, first, in.data(), reinterpret_cast<float*>(at), n);
      } else {
        body(p, first, in.data(), out_scratch, n);
        store_run(destination_.dtype, out_scratch, at, stride / destination_.element_bytes, n,
                  destination_.rounding_from(p * destination_.elements + first));
      }
    }
  }

 private:
  const std::array<const View*, N>& sources_;
  const View& destination_;
  int64_t rows_ = destination_.partitions;
  int64_t elements_ = destination_.elements;
  bool sliceable_ = destination_.free_rank <= 1;
  int64_t block_ = 0;
  int64_t per_row_ = 0;
};

// What a deferred instruction does for a band of rows: rows(sources, destination, begin), with the parts of
// the views from partition `begin` on.
template <size_t N, typename Rows>
void defer_rows(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
                Rows&& rows) {
  cx.defer(destination, [&](int64_t begin, int64_t end) {
    std::array<View, N> parts;
    std::array<const View*, N> from;
    for (size_t i = 0; i < N; ++i) {
      parts[i] = sources[i]->part(begin, end);
      from[i] = &parts[i];
    }
    rows(from, destination.part(begin, end), begin);
  });
}

// body(p, first element, in[], out, n) computes out[0..n) of partition p from N source blocks.
//
// `by_partition` says that the body looks at p. When it does not and all views are dense, the whole tile is
// one long row. A destination that visits an element twice stays on one thread, in order. `cost` is the time
// of an element in fp32 additions.
template <size_t N, typename Body>
void for_blocks(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
                bool by_partition, Body&& body, int64_t cost = 2) {
  if (cx.defers()) {
    defer_rows<N>(cx, sources, destination,
                  [&](const std::array<const View*, N>& from, const View& to, int64_t p0) {
                    const Blocks<N> blocks(from, to, by_partition);
                    blocks.run(0, blocks.jobs(),
                               [&](int64_t p, int64_t first, const float* const* in, float* out, int64_t n) {
                                 body(p0 + p, first, in, out, n);
                               });
                  });
    return;
  }
  const Blocks<N> blocks(sources, destination, by_partition);
  const int64_t work = destination.repeats() ? 0 : destination.total() * cost;
  cx.parallel(blocks.jobs(), work, [&](int64_t begin, int64_t end) { blocks.run(begin, end, body); });
}

// body(p, in[], out, n) over whole rows, for reductions and scans.
template <size_t N, typename Body>
void for_rows(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
              Body&& body, int64_t cost = 2) {
  const int64_t n = destination.elements;
  cx.parallel(destination.partitions, destination.repeats() ? 0 : destination.total() * cost,
              [&](int64_t begin, int64_t end) {
                ScratchScope scope;
                std::array<float*, N> scratch;
                for (size_t i = 0; i < N; ++i) scratch[i] = scope.floats(sources[i]->elements);
                float* const out_scratch = scope.floats(n);
                std::array<const float*, N> in;
                for (int64_t p = begin; p < end; ++p) {
                  for (size_t i = 0; i < N; ++i) in[i] = load_row(*sources[i], p, scratch[i]);
                  float* out = target_row(destination, p, out_scratch);
                  body(p, in.data(), out, n);
                  store_row(destination, p, out);
                }
              });
}

// body(p, in[], out) over whole integer rows.
template <size_t N, typename Body>
void for_rows_i64(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
                  Body&& body) {
  const auto run = [&](const std::array<const View*, N>& from, const View& to, int64_t p0, int64_t begin,
                       int64_t end) {
    ScratchScope scope;
    std::array<int64_t*, N> in;
    for (size_t i = 0; i < N; ++i) in[i] = scope.array<int64_t>(from[i]->elements);
    int64_t* out = scope.array<int64_t>(to.elements);
    for (int64_t p = begin; p < end; ++p) {
      for (size_t i = 0; i < N; ++i) load_row_i64(*from[i], p, in[i]);
      body(p0 + p, in, out);
      store_row_i64(to, p, out);
    }
  };
  if (cx.defers()) {
    defer_rows<N>(cx, sources, destination,
                  [&](const std::array<const View*, N>& from, const View& to, int64_t p0) {
                    run(from, to, p0, 0, to.partitions);
                  });
    return;
  }
  cx.parallel(destination.partitions, destination.repeats() ? 0 : destination.total() * 3,
              [&](int64_t begin, int64_t end) { run(sources, destination, 0, begin, end); });
}

}  // namespace opentrn::sim
